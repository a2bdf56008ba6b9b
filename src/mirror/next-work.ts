import { type FetchedKind, KINDS, type Kind } from '../compliance/kinds.ts';
import type { DirtyTiming, DueRecord, InHand, Work } from '../store/values.ts';

/** How many records of a kind are due. Of vendors, not those that were asked for. */
export interface DueCount {
  now: number;
  /** So many are due, or will be within the read delay. */
  withinSettle: number;
  /** How long the longest due has waited. */
  longestMs: number;
}

/** What the database says of a kind. */
export interface KindWork {
  /** A problem waits for a full sync. */
  wantsFullSync: boolean;
  /** Deletions wait for a person. */
  hasPending: boolean;
  /** Those that were asked for come first; of each sort no more than the planner can begin with. */
  due: readonly DueRecord[];
  count: DueCount;
  /** Records in the list, as far as is known. */
  total: number;
  /** Records that wait for their second 404, and that have it. */
  awaiting: number;
  proven: number;
  nextDueAt: number | null;
}

/** In a burst, due records wait this long, so that one list scan verifies all. */
const burstPatienceMs = ({ settleMs }: DirtyTiming) => settleMs / 2;

/** Requests for a list scan over `total` records: its pages, and the empty one at the end. */
export const scanCost = (total: number, pageSize: number): number => Math.ceil(total / pageSize) + 1;

/**
 * How to verify the due records of a kind: `scan` reads the whole list, `refetch` each record by itself. Policies have no address
 * of their own, and assessments no list. `wait`: a list scan will be cheaper, but now it would miss records that are due soon.
 */
export function wayToVerify(
  kind: Kind,
  due: DueCount,
  list: { total: number; pageSize: number; isReadable: boolean },
  timing: DirtyTiming,
): 'none' | 'scan' | 'refetch' | 'wait' {
  if (due.now === 0) return 'none';
  if (kind === 'policy') return 'scan';
  if (kind === 'risk_assessment' || !list.isReadable) return 'refetch';
  const cost = scanCost(list.total, list.pageSize);
  const more = due.withinSettle > cost && due.withinSettle > due.now;
  if (more && due.longestMs < burstPatienceMs(timing)) return 'wait';
  return due.now > cost ? 'scan' : 'refetch';
}

/** What to do now, in this order. The last says when to look again. */
export function decideWork(found: Readonly<Record<Kind, KindWork>>, hand: InHand, steady: number): Work[] {
  const { pageSize, timing } = hand;
  const work: Work[] = [];
  const dues: number[] = [];
  const reads: (DueRecord & { kind: FetchedKind; place: number })[] = [];
  for (const kind of KINDS) {
    if (found[kind].wantsFullSync) work.push({ what: 'full_sync', kind, why: 'problem' });
    // It will show whether they were a passing fault.
    if (found[kind].hasPending) work.push({ what: 'full_sync', kind, why: 'pending' });
  }
  for (const kind of KINDS) {
    const { due, count, total, awaiting, proven, nextDueAt } = found[kind];
    const { isReadable, isRunning } = hand.kinds[kind];
    const way = wayToVerify(kind, count, { total, pageSize, isReadable }, timing);
    if (nextDueAt !== null) dues.push(nextDueAt);
    if (way === 'wait') dues.push(steady + burstPatienceMs(timing) - count.longestMs);
    if (way === 'scan') work.push({ what: 'full_sync', kind, why: 'events' });
    if (kind === 'policy') continue;
    // A list may show less of a vendor than its own address, which is what somebody asked for.
    const read = due.filter(({ asked }) => asked || way === 'refetch');
    reads.push(...read.map((one, place) => ({ ...one, kind, place })));
    // Other vendors only a full sync deletes, since a service may list what it does not show at its own address.
    const all = kind === 'risk_assessment' && awaiting === 0 && !isRunning;
    if (proven > 0) work.push({ what: 'conclude', kind, all });
  }
  work.push({ what: 'refetch', records: inTurn(reads, hand.isOneAsked).slice(0, hand.slots) });
  return [...work, { what: 'rest', until: dues.length === 0 ? null : Math.min(...dues) }];
}

/**
 * What events made due goes first, the longest due of all kinds; but one read is always of a record that was asked for, if any is. The kinds
 * take turns with these.
 */
function inTurn<Due extends DueRecord & { place: number }>(due: readonly Due[], isOneAsked: boolean): Due[] {
  const asked = due.filter((one) => one.asked).sort((a, b) => a.place - b.place);
  const others = due.filter((one) => !one.asked).sort((a, b) => a.dueAt - b.dueAt);
  const first = isOneAsked ? 0 : 1;
  return [...asked.slice(0, first), ...others, ...asked.slice(first)];
}

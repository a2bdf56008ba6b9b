import type { Lane } from '../compliance/budget.ts';
import {
  type CallOptions,
  COLLECTIONS,
  type ComplianceClient,
  type Page,
  type PageCallOptions,
  type RecordAnswer,
} from '../compliance/client.ts';
import { OtherRecordAnswered } from '../compliance/envelope.ts';
import { isUnreadable, UpstreamError, unreadableText } from '../compliance/errors.ts';
import type { FetchedKind, Kind, ListedKind } from '../compliance/kinds.ts';
import { firstPageOf } from '../compliance/paging.ts';
import { backoffMs, type Moment, momentOf } from '../platform/clock.ts';
import { describeError, MirrorError } from '../platform/errors.ts';
import type { BackfillStore, ReadMoment } from '../store/store.ts';
import type { Context } from './context.ts';
import { OUTAGE_BACKOFF, READ_BACKOFF } from './plan.ts';

/** So many failures in a row make all reading wait; a single one says nothing about the next. */
const PATIENCE_FAILURES = 3;

/** An outage becomes a gap after this time: by then the upstream may also have given up deliveries. */
const OUTAGE_AFTER_MS = 30_000;

/** More failing addresses than this are an outage. */
const FAILING_KEPT = 1_000;

/** No service gives its records such an id. */
const MADE_UP_ID = 'compliance-mirror-asks-whether-it-may-read';

/**
 * The upstream counts as unreachable after this time without a useful answer; one failed answer among good ones is shorter. With
 * a request's timeout and a heartbeat it is less than 15 s.
 */
const UNREACHABLE_AFTER_MS = 5_000;
/** The service rejects the form of the id, as one whose ids are numbers or UUIDs. So it has let us ask. */
function refusesTheId({ status, excerpt }: UpstreamError): boolean {
  return (status === 400 || status === 422) && !/^\s*</.test(excerpt ?? '');
}

export interface UpstreamHealth {
  ok: boolean | null;
  lastOkWall: number | null;
  lastErrorWall: number | null;
  lastError: string | null;
  /** The last request was not sent, because there is no token or key that can be used. */
  lacksCredentials: boolean;
  consecutiveFailures: number;
  /** When the first of the requests was sent that got no useful answer; null: the last one got one. */
  silentSince: Moment | null;
}

export const NOTHING_KNOWN: Readonly<UpstreamHealth> = {
  ok: null,
  lastOkWall: null,
  lastErrorWall: null,
  lastError: null,
  lacksCredentials: false,
  consecutiveFailures: 0,
  silentSince: null,
};

/** Since when (wall) the upstream has not answered usefully; null while it does, or has not been silent for long. Pure. */
export function unreachableSince(
  health: Pick<UpstreamHealth, 'silentSince'> | undefined,
  steady: number,
): number | null {
  const since = health?.silentSince ?? null;
  return since !== null && steady - since.steady >= UNREACHABLE_AFTER_MS ? since.wall : null;
}

/** An answer, and when it was asked for. */
interface Seen<T> {
  answer: T;
  read: ReadMoment;
}

export type Witness = Pick<ReadMoment, 'beganAt' | 'endedAt'>;

/** Only a few reads overlap, so one of the last few ended before any given read began. */
const WITNESSES_KEPT = 8;

/**
 * Asks until there is an answer, at most `triesMax` times, as long as the error may pass. After each wait `isWanted` says
 * whether the answer is still wanted.
 */
export async function retried<T>(
  ask: () => Promise<T>,
  { clock, random, signal }: Pick<Context, 'clock' | 'random' | 'signal'>,
  triesMax: number,
  isWanted = () => true,
): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    signal.throwIfAborted();
    try {
      return await ask();
    } catch (error) {
      const again = error instanceof UpstreamError && error.retryable && tries < triesMax;
      if (!again) throw error;
      await clock.sleep(backoffMs(READ_BACKOFF, tries, random()), signal);
      signal.throwIfAborted();
      if (!isWanted()) throw error;
    }
  }
}

/** There is no record, or another one, or the service does not take it for an id. */
const isNoRecord = ({ kind }: UpstreamError) => kind === 'malformed' || kind === 'unexpected_status';

const isRefusal = ({ kind }: UpstreamError) => kind === 'unauthorized' || kind === 'forbidden';

const isGarbled = ({ kind, cause }: UpstreamError) =>
  kind === 'malformed' && !(cause instanceof OtherRecordAnswered);

export type Upstream = ReturnType<typeof createUpstream>;

/** The upstream as backfill reads it: each read with its moment, and each failure remembered. */
export function createUpstream(
  options: Pick<Context, 'gaps' | 'clock' | 'paging' | 'random' | 'signal'> & {
    client: ComplianceClient;
    store: Pick<BackfillStore, 'currentNumber'>;
    /** Called when a kind can be read with the present credentials, and with what showed that. */
    onReadable?: (kind: Kind, how: 'read' | 'absence') => Promise<void>;
    /** Credentials are answered 401 again, which is not about one kind: `others` are those that were good until now. */
    onUnauthorized?: (others: readonly Kind[]) => void;
    /** A kind is answered again for which the credentials were rejected, and not by chance. */
    onAcceptedAgain?: () => void;
    /** What `unreachableSince` says of its health is about to change. */
    onReachability?: () => void;
  },
) {
  const { client, store, gaps, clock, signal } = options;
  const health = { ...NOTHING_KNOWN };
  const witnesses = new Map<Kind, Witness[]>();
  /**
   * What the last answer about each kind said about our credentials. Unset: an earlier process may have opened a gap. A set:
   * these records were answered 403 after another answer was good, so that others show whom it is about.
   */
  const standing = new Map<Kind, 'accepted' | 'rejected' | Set<string>>();
  /** How often credentials were rejected for a kind since they were accepted. Once is chance. */
  const rejections = new Map<Kind, number>();
  /** Addresses whose last answer was of no use. */
  const failing = new Set<string>();
  const addressOf = (kind: Kind, id: string | null) => `${kind} ${id ?? ''}`;
  /** Requests in a row that brought nothing, answered or not. */
  let useless = 0;
  let outage = false;
  let waitUntil = 0;
  let waiting = new AbortController();
  /** Requests on their way, and when the last one began or ended. */
  let asking = 0;
  let lastAskedAt = clock.steady();
  /** How long the last answer with the list of a kind took. */
  const listTookMs = new Map<Kind, number>();

  interface Asked {
    isAnswer: (error: UpstreamError) => boolean;
    /** The record, or null for the kind's list. */
    address: string | null;
    /** Its last answer was good, or there was none. */
    isNew: boolean;
  }
  type Ask<T> = (call: Pick<CallOptions, 'signal' | 'onSend'>) => Promise<T>;

  /** `address`: the record, or null for the kind's list. */
  async function read<T extends RecordAnswer | Page>(
    kind: Kind,
    address: string | null,
    lane: Lane,
    ask: Ask<T>,
    isAnswer: (error: UpstreamError) => boolean = () => false,
  ): Promise<Seen<T>> {
    const asked = addressOf(kind, address);
    asking += 1;
    try {
      await patience();
      const seen = await readNow(kind, ask, { isAnswer, address, isNew: !failing.has(asked) });
      failing.delete(asked);
      return seen;
    } catch (error) {
      if (health.silentSince !== null && failing.has(asked)) await lookElsewhere(kind, lane);
      if (failing.size >= FAILING_KEPT) failing.clear();
      failing.add(asked);
      throw error;
    } finally {
      asking -= 1;
      lastAskedAt = clock.steady();
    }
  }

  /** One address that keeps failing says something about the service only if another one fails too. */
  async function lookElsewhere(kind: Kind, lane: Lane): Promise<void> {
    const other = kind === 'policy' ? 'vendor' : 'policy';
    const page = firstPageOf(options.paging);
    try {
      await readNow(other, (call) => client.listPage(other, page, { ...call, lane }));
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
    }
  }

  async function readNow<T extends RecordAnswer | Page>(
    kind: Kind,
    ask: Ask<T>,
    { isAnswer = () => false, address = null, isNew = true }: Partial<Asked> = {},
  ): Promise<Seen<T>> {
    signal.throwIfAborted();
    let number = 0;
    let sent = momentOf(clock);
    try {
      const answer = await ask({
        signal,
        onSend: async () => {
          sent = momentOf(clock);
          number = await store.currentNumber();
        },
      });
      await succeeded(kind);
      const { began, ended } = answer;
      if (address === null) listTookMs.set(kind, ended.steady - began.steady);
      const marginMs = clock.marginMs?.() ?? 0;
      return {
        answer,
        // On a shared clock: the earliest and the latest possible moment.
        read: {
          number,
          beganAt: began.steady - marginMs,
          endedAt: ended.steady + marginMs,
          endedWall: ended.wall,
        },
      };
    } catch (error) {
      if (!signal.aborted && error instanceof UpstreamError && !isAnswer(error)) {
        await failed(kind, error, sent, { address, isNew });
      }
      throw error;
    }
  }

  /** Waits for the end of the pause, or until it is ended for all. */
  async function patience(): Promise<void> {
    signal.throwIfAborted();
    const ms = waitUntil - clock.steady();
    if (ms <= 0) return;
    const own = waiting;
    const stop = () => own.abort();
    signal.addEventListener('abort', stop, { once: true });
    await clock.sleep(ms, own.signal);
    signal.removeEventListener('abort', stop);
  }

  function waitNoMore(): void {
    if (waitUntil === 0) return;
    waitUntil = 0;
    waiting.abort();
    waiting = new AbortController();
  }

  async function succeeded(kind: Kind): Promise<void> {
    health.ok = true;
    health.lacksCredentials = false;
    health.lastOkWall = clock.wall();
    health.consecutiveFailures = 0;
    useless = 0;
    answered();
    waitNoMore();
    const before = standing.get(kind);
    if (before === 'accepted') return;
    standing.set(kind, 'accepted');
    if (before instanceof Set) return;
    try {
      await gaps.resolve({ reason: 'credentials_rejected', kind, recordId: null });
      if (before === 'rejected') {
        await gaps.credentials(kind, 'accepted');
        if (rejections.get(kind)! > 1) options.onAcceptedAgain?.();
        rejections.delete(kind);
      }
    } catch (error) {
      // The database could not commit: the next read tries again.
      if (before === undefined) standing.delete(kind);
      else standing.set(kind, before);
      throw error;
    }
  }

  /** The gap of an outage stays open: what was missed meanwhile is missed until each kind is fully synced. */
  function answered(): void {
    const wasSilent = health.silentSince !== null;
    health.silentSince = null;
    outage = false;
    if (wasSilent) options.onReachability?.();
  }

  function isSilent(since: Moment): void {
    if (health.silentSince !== null) return;
    health.silentSince = since;
    const { onReachability } = options;
    const leftMs = since.steady + UNREACHABLE_AFTER_MS - clock.steady();
    if (onReachability !== undefined) void clock.sleep(Math.max(0, leftMs), signal).then(onReachability);
  }

  async function failed(
    kind: Kind,
    error: UpstreamError,
    sent: Moment,
    { address, isNew }: Omit<Asked, 'isAnswer'>,
  ): Promise<void> {
    health.lastErrorWall = clock.wall();
    health.lastError = describeError(error);
    const before = standing.get(kind) ?? 'rejected';
    if (error.kind === 'forbidden' && address !== null && before !== 'rejected') {
      const refused = before === 'accepted' ? new Set<string>() : before;
      standing.set(kind, refused.add(address));
      if (isNew) await gaps.credentials(kind, String(error.status));
      answered();
      return;
    }
    useless += 1;
    if (useless >= PATIENCE_FAILURES) {
      const ms = backoffMs(OUTAGE_BACKOFF, useless - PATIENCE_FAILURES + 1, options.random());
      waitUntil = clock.steady() + ms;
    }
    const isRefused = isRefusal(error);
    // Without a status nothing was sent.
    health.lacksCredentials = isRefused && error.status === null;
    if (isUnreadable(error)) {
      // It does answer. What the answer means is for the gap of this request.
      health.consecutiveFailures = 0;
      answered();
      return;
    }
    health.ok = false;
    health.consecutiveFailures += 1;
    if (isRefused) {
      if (error.status !== null) answered();
      await rejected(kind, error);
      return;
    }
    isSilent(sent);
    const silentMs = clock.steady() - health.silentSince!.steady;
    const isLasting = health.consecutiveFailures >= PATIENCE_FAILURES && silentMs >= OUTAGE_AFTER_MS;
    if (isLasting && !outage) {
      await gaps.open({ reason: 'upstream_unavailable', kind: null, recordId: null }, health.lastError);
      outage = true;
    }
  }

  /** The kind cannot be read with our credentials. */
  async function rejected(kind: Kind, error: UpstreamError): Promise<void> {
    const before = standing.get(kind);
    standing.set(kind, 'rejected');
    const times = (rejections.get(kind) ?? 0) + 1;
    rejections.set(kind, times);
    if (times === 2 && error.kind === 'unauthorized') {
      options.onUnauthorized?.([...standing].flatMap(([other, its]) => (its === 'accepted' ? [other] : [])));
    }
    await gaps.open({ reason: 'credentials_rejected', kind, recordId: null }, describeError(error));
    const isNoted = before === 'rejected' || before instanceof Set;
    if (!isNoted) await gaps.credentials(kind, error.status === null ? 'unusable' : `${error.status}`);
  }

  /**
   * Asks for one policy, or for one vendor where policies cannot be read, only to see whether the service answers. If that takes
   * UNREACHABLE_AFTER_MS longer than the last answer with such a list, it counts as silence until an answer comes. Returns the kind
   * if it was refused.
   */
  async function look(): Promise<ListedKind | null> {
    const isOfNoUse = (kind: Kind) => failing.has(addressOf(kind, null));
    const kind = isOfNoUse('policy') && !isOfNoUse('vendor') ? 'vendor' : 'policy';
    const query = {
      [options.paging.pageParam]: String(firstPageOf(options.paging)),
      [options.paging.perPageParam]: '1',
    };
    const got = new AbortController();
    try {
      await read(kind, null, 'scan', (call) => {
        const onSend = async () => {
          await call.onSend?.();
          const sent = momentOf(clock);
          const { lastOkWall } = health;
          const patienceMs = UNREACHABLE_AFTER_MS + (listTookMs.get(kind) ?? 0);
          void clock.sleep(patienceMs, got.signal).then(() => {
            const isAnswering = health.lastOkWall !== lastOkWall;
            if (!got.signal.aborted && !isAnswering) isSilent(sent);
          });
        };
        return client.listPage(kind, 0, { ...call, onSend, lane: 'scan', query });
      });
      return null;
    } catch (error) {
      if (!signal.aborted && !(error instanceof UpstreamError)) throw error;
      return error instanceof UpstreamError && isRefusal(error) ? kind : null;
    } finally {
      got.abort(null);
    }
  }

  /** A record in the answer shows that the kind can be read. */
  async function recordAt(
    kind: FetchedKind,
    id: string,
    lane: Lane,
    isAnswer?: (error: UpstreamError) => boolean,
  ): Promise<Seen<RecordAnswer>> {
    const seen = await read(
      kind,
      id,
      lane,
      (call) => client.getRecord(kind, id, { ...call, lane }),
      isAnswer,
    );
    if (seen.answer.outcome === 'found') await options.onReadable?.(kind, 'read');
    return seen;
  }

  async function probe(kind: 'risk_assessment', lane: Lane, known: number): Promise<void> {
    let text = `${COLLECTIONS[kind]}/${MADE_UP_ID}, an id that nobody has made, is answered `;
    try {
      const { answer } = await read(kind, MADE_UP_ID, lane, (call) =>
        client.getRecord(kind, MADE_UP_ID, { ...call, lane }),
      );
      const isUnknown = answer.outcome === 'missing';
      if (isUnknown && !answer.isPage) return await options.onReadable?.(kind, 'absence');
      // Known records say more than this.
      if (isUnknown && known > 0) return;
      text += isUnknown ? 'with a web page' : 'with a record, so that an answer proves nothing';
    } catch (error) {
      if (signal.aborted || !(error instanceof UpstreamError)) throw error;
      if (refusesTheId(error)) return await options.onReadable?.(kind, 'absence');
      if (known > 0) return;
      if (!isUnreadable(error)) throw error;
      text = unreadableText(error);
    }
    await gaps.open({ reason: 'unreadable_answer', kind, recordId: null }, text);
    throw new MirrorError('unreadable_answer', text);
  }

  return {
    /**
     * One page of a list. `isBehindLast`: as many records as the list's total were seen, so no content, a 404 or a 400 ends it like
     * an empty page.
     */
    async page(
      kind: ListedKind,
      page: number,
      lane: Lane,
      how: Pick<PageCallOptions, 'isBehindLast' | 'query'> = {},
    ): Promise<Seen<Page>> {
      const seen = await read(kind, null, lane, (call) =>
        client.listPage(kind, page, { ...call, ...how, lane }),
      );
      await options.onReadable?.(kind, 'read');
      return { ...seen, read: { ...seen.read, isOfList: true } };
    },
    record: (kind: FetchedKind, id: string, lane: Lane): Promise<Seen<RecordAnswer>> =>
      recordAt(kind, id, lane),
    /**
     * Asks for an assessment that does not exist. No list shows assessments, so while none is `known`, a 404 for this one shows
     * that we may ask for them. A service that answers with a record would do so for a deleted one too: then it throws
     * MirrorError `unreadable_answer`. While none is known, it also throws any other error.
     */
    probe,
    /**
     * Whether the API shows a record under what may be no id at all. A rejection of the id is an answer and says nothing about
     * the service's health. Throws an UpstreamError of kind `malformed` where nobody understands the answer.
     */
    async shows(kind: FetchedKind, id: string, lane: Lane): Promise<boolean> {
      try {
        return (await recordAt(kind, id, lane, isNoRecord)).answer.outcome === 'found';
      } catch (error) {
        if (error instanceof UpstreamError && isNoRecord(error) && !isGarbled(error)) return false;
        throw error;
      }
    },
    look,
    /** Nothing has been asked for so long, so that nobody would notice if the service stopped answering. */
    isLookDue(everyMs: number): boolean {
      const isSilent = health.silentSince !== null;
      if (asking > 0 || (health.ok !== true && !isSilent)) return false;
      return clock.steady() - lastAskedAt >= (isSilent ? READ_BACKOFF.firstMs : everyMs);
    },
    health: (): UpstreamHealth => ({ ...health }),
    isRejected: (kind: Kind): boolean => standing.get(kind) === 'rejected',
    /** The 403 is about our credentials, if so many records were answered with it and no other answer has been good meanwhile. */
    async refused(kind: Kind, error: UpstreamError, records: number): Promise<void> {
      const known = standing.get(kind);
      if (known instanceof Set && known.size >= records) await rejected(kind, error);
    },
    /** A person asks: what waits after failures is sent now. */
    tryNow: waitNoMore,
    /** A read showed a live record of the mirror: the credentials still see what exists. */
    witness(kind: Kind, { beganAt, endedAt }: Witness): void {
      witnesses.set(kind, [{ beganAt, endedAt }, ...(witnesses.get(kind) ?? [])].slice(0, WITNESSES_KEPT));
    },
    /** When the latest such read began, among those that had ended by `before`; null without one. */
    witnessedAt(kind: Kind, before: number): number | null {
      const ended = (witnesses.get(kind) ?? []).filter((witness) => witness.endedAt <= before);
      return ended.length === 0 ? null : Math.max(...ended.map((witness) => witness.beganAt));
    },
  };
}

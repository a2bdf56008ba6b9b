import { type Candidate, everyIdIn } from '../compliance/candidates.ts';
import { UpstreamError, unreadableText } from '../compliance/errors.ts';
import { DELETE_TYPES, type FetchedKind } from '../compliance/kinds.ts';
import { payloadIn } from '../compliance/pointers.ts';
import { momentOf } from '../platform/clock.ts';
import type { UnreadEvent } from '../store/store.ts';
import type { Context } from './context.ts';
import type { Upstream } from './upstream.ts';

/** Share of a minute's request budget, so that events which nobody can read do not delay repairs. */
const SHARE_OF_BUDGET = 1 / 4;
const MINUTE_MS = 60_000;

export type CandidateProof = ReturnType<typeof createCandidateProof>;

/** Asks the API which values in an event's data are ids of records, within a share of the budget. */
export function createCandidateProof(
  options: Pick<Context, 'store' | 'clock'> & {
    upstream: Pick<Upstream, 'shows'>;
    requestsPerMinute: number;
  },
) {
  const { store, upstream, clock } = options;
  const perMinute = Math.max(1, Math.floor(options.requestsPerMinute * SHARE_OF_BUDGET));
  /** When each of the last minute's requests was sent. */
  let asked: number[] = [];

  return {
    /** Requests that may be sent now. */
    left(): number {
      asked = asked.filter((at) => clock.steady() - at < MINUTE_MS);
      return perMinute - asked.length;
    },
    /** Milliseconds until one more request may be sent; at least 1. */
    restMs: () => Math.max(1, (asked[0] ?? clock.steady()) + MINUTE_MS - clock.steady()),
    /** Whether the API shows a record of that id. Rejects with UpstreamError. */
    async ask(kind: FetchedKind, id: string): Promise<boolean> {
      asked.push(clock.steady());
      return await upstream.shows(kind, id, 'scan');
    },
    /** The candidates that are records of the kind. `isShown` decides about those that the API has not shown before. */
    async provenOf(
      { kind, type }: UnreadEvent,
      candidates: readonly Candidate[],
      isShown: (kind: FetchedKind, id: string) => Promise<boolean>,
    ): Promise<Candidate[]> {
      const shown = new Set(
        await store.shownIds(
          kind,
          candidates.map(({ id }) => id),
        ),
      );
      const proven: Candidate[] = [];
      for (const candidate of candidates) {
        // Policies have no address of their own; only their list shows them. The record of a delete event is gone, so an id in
        // it that still answers belongs to another record.
        const isAskable = kind !== 'policy' && !DELETE_TYPES.has(type);
        if (shown.has(candidate.id) || (isAskable && (await isShown(kind, candidate.id))))
          proven.push(candidate);
      }
      return proven;
    },
  };
}

export const isMalformed = (error: unknown): error is UpstreamError =>
  error instanceof UpstreamError && error.kind === 'malformed';

// ─── other ids in the events about an id that the API does not know ─────────────────────────────────────────

/** Events looked at in one go, before other work gets its turn. */
const EVENTS_AT_ONCE = 4;

/** The same while no answer proves anything: each go costs time that grows with the number of all events. */
const UNPROVEN_AT_ONCE = 1_000;
/** After so many, wait this long before the next go. */
const UNPROVEN_REST_MS = 15_000;

/** So many failures in a row mean that the service fails, and not single ids. */
const SERVICE_FAILS = 2;

/** The kind without a list: if an event names another thing's id, no list shows its record. */
export const UNLISTED = 'risk_assessment';

type Sees = () => Promise<boolean>;

/** What else the events name that are about an id which the API does not know. */
interface Besides {
  /** Places where the API has shown a record, in the events looked at now. */
  shown: Candidate[];
  /** Milliseconds until the rest can be tried, which was not looked at or not understood. Null: there is no rest. */
  restInMs: number | null;
}

export type IdsBeside = ReturnType<typeof createIdsBeside>;

/**
 * An id that the pointers find and the API does not know may belong to another thing. So this looks for other ids in the data
 * of the events about it.
 */
export function createIdsBeside(
  options: Pick<Context, 'store' | 'gaps' | 'clock' | 'timing' | 'signal'> & {
    proof: CandidateProof;
    /** A record became dirty. */
    onFound: () => void;
  },
) {
  const { store, gaps, clock, proof, signal } = options;
  const kind = UNLISTED;
  /** Paths where exactly one record's id was found beside an unknown one. They are tried first. */
  const placesBeside = new Set<string>();
  /** By unknown id, the searches that the budget does not cover in one go. */
  const begun = new Map<string, ReturnType<typeof createSearch>>();

  /**
   * A search beside the id `known`. `isProven`: another record can be read, so that answers count. `hasGap`: one of the answers could
   * not be understood, so a gap of `known` is open until the search ends.
   */
  function createSearch(known: string, isProven: boolean, hasGap: boolean) {
    const search = { isProven, hasGap, look };
    const answers = new Map<string, boolean>();
    /** Ids that got no useful answer in this round: each is asked for once a round. */
    const unanswered = new Set<string>();
    /** The last event looked at. Null: begin at the start, which for proven answers the store knows. */
    let after: number | null = null;
    let failuresInARow = 0;

    async function ask(id: string): Promise<boolean> {
      if (proof.left() <= 0) throw new OutOfBudget();
      if (unanswered.has(id)) throw new Unanswered();
      try {
        const isShown = await proof.ask(kind, id);
        failuresInARow = 0;
        return isShown;
      } catch (error) {
        const isFailure = error instanceof UpstreamError && error.kind === 'server';
        if (!isMalformed(error) && !isFailure) throw error;
        unanswered.add(id);
        if (isFailure) {
          failuresInARow += 1;
          // One failure says nothing about the other ids, unless they fail too.
          if (failuresInARow % SERVICE_FAILS === 0) throw error;
        } else {
          const gap = { reason: 'unreadable_answer', kind, recordId: known } as const;
          await gaps.open(gap, `${id} in its events: ${unreadableText(error)}`);
          search.hasGap = true;
        }
        throw new Unanswered();
      }
    }

    /** The ids beside `known` that are records; as few requests as possible. */
    async function othersIn(event: UnreadEvent): Promise<Candidate[]> {
      const isShown = async (_kind: FetchedKind, id: string): Promise<boolean> => {
        // While nothing is proven, an answer counts for all events.
        const key = isProven ? `${event.seq} ${id}` : id;
        const answer = answers.get(key) ?? (await ask(id));
        answers.set(key, answer);
        return answer;
      };
      // What is found is then read, so no pointer need name it.
      const candidates = everyIdIn(payloadIn(event.body), kind).filter(({ id }) => id !== known);
      const [first, second] = candidates;
      const isClear = first !== undefined && first.place !== second?.place && placesBeside.has(first.path);
      const proven = isClear ? await proof.provenOf(event, [first], isShown) : [];
      return proven.length > 0 ? proven : await proof.provenOf(event, candidates, isShown);
    }

    async function look(through: number, sees: Sees | null): Promise<Besides> {
      const shown: Candidate[] = [];
      const limit = isProven ? EVENTS_AT_ONCE : UNPROVEN_AT_ONCE;
      for (;;) {
        const from = after === null ? {} : { after };
        const events = await store.eventsNaming(kind, known, { ...from, through, limit });
        for (const event of events) {
          signal.throwIfAborted();
          try {
            const others = await othersIn(event);
            // The path may have been lost since something was last seen: then all is asked again.
            if (sees !== null && others.length === 0 && !(await sees())) {
              answers.clear();
              return { shown, restInMs: MINUTE_MS };
            }
            // Events behind an unanswered one are looked at too, but nothing is settled before that one is answered.
            const isSettled = isProven && unanswered.size === 0;
            if (isProven || others.length > 0) await note(known, event, others, isSettled);
            shown.push(...others);
          } catch (error) {
            if (error instanceof OutOfBudget) return { shown, restInMs: proof.restMs() };
            if (!(error instanceof Unanswered)) throw error;
          }
          after = event.seq;
        }
        const isWhole = unanswered.size === 0;
        if (events.length < limit) {
          if (isWhole) return { shown, restInMs: null };
          // Next time from the start; what was answered is remembered.
          after = null;
          unanswered.clear();
          return { shown, restInMs: MINUTE_MS };
        }
        if (isProven) continue;
        // One found record is enough: once it is read, there is something to compare with.
        if (shown.length === 0) return { shown, restInMs: UNPROVEN_REST_MS };
        return { shown, restInMs: isWhole ? null : MINUTE_MS };
      }
    }

    return search;
  }

  async function note(
    known: string,
    { seq, id: eventId }: UnreadEvent,
    shown: readonly Candidate[],
    isSettled: boolean,
  ): Promise<void> {
    const searched = { through: isSettled ? seq : 0, event: seq, named: shown.map(({ id }) => id) };
    await store.noteSearched(kind, known, searched, momentOf(clock), options.timing);
    const [one, ...others] = shown;
    if (one === undefined) return;
    options.onFound();
    if (others.length > 0 || !one.isNameable) return;
    placesBeside.add(one.path);
    // Only a proposal for the settings: in an event with no other id, the id there may be another record's.
    const proven = { kind, path: one.path, eventId, recordId: one.id, isUsed: false } as const;
    await store.learnPointer(proven, momentOf(clock));
  }

  return {
    /**
     * Looks at the events up to the number `through`. Each id that the API shows is a record and becomes dirty, whether or not the
     * event is about it. If the API shows none, that counts only if `sees`, called afterwards, confirms that the API still shows
     * records. `sees` null: there is no record to compare with, so it does not count. Rejects with UpstreamError.
     */
    async besides(id: string, through: number, sees: Sees | null): Promise<Besides> {
      const before = begun.get(id);
      const isProven = sees !== null;
      // Answers from before another record could be read prove nothing.
      const isSame = before?.isProven === isProven;
      const search = isSame ? before : createSearch(id, isProven, before?.hasGap ?? false);
      begun.set(id, search);
      const besides = await search.look(through, sees);
      if (besides.restInMs !== null) return besides;
      if (search.hasGap) await gaps.resolve({ reason: 'unreadable_answer', kind, recordId: id });
      begun.delete(id);
      return besides;
    },
    /** The address of the id itself was answered. If with a record, the search beside the id ends. */
    async answered(of: FetchedKind, id: string, outcome: 'found' | 'missing'): Promise<void> {
      if (of === kind && outcome === 'found') begun.delete(id);
      // Otherwise the gap is about ids beside this one, and a 404 for this one says nothing about them.
      const isItsOwn = of !== kind || begun.get(id)?.hasGap !== true;
      if (isItsOwn) await gaps.resolve({ reason: 'unreadable_answer', kind: of, recordId: id });
    },
  };
}

class OutOfBudget extends Error {}
class Unanswered extends Error {}

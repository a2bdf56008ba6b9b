import { type Candidate, everyIdIn } from '../compliance/candidates.ts';
import { isUnreadable, UpstreamError, unreadableText } from '../compliance/errors.ts';
import { DELETE_TYPES, type FetchedKind } from '../compliance/kinds.ts';
import { payloadIn } from '../compliance/pointers.ts';
import { momentOf } from '../platform/clock.ts';
import type { UnreadEvent } from '../store/store.ts';
import type { Context } from './context.ts';
import type { Upstream } from './upstream.ts';

/** Share of a minute's request budget. The rest stays free for repairs. */
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
  /** When each request of the last minute was sent. */
  let sentAt: number[] = [];

  return {
    /** Requests that may be sent now. */
    left(): number {
      sentAt = sentAt.filter((at) => clock.steady() - at < MINUTE_MS);
      return perMinute - sentAt.length;
    },
    /** Milliseconds until one more request may be sent, while none may. */
    restMs: () => sentAt[0]! + MINUTE_MS - clock.steady(),
    /** Whether the API shows a record of that id. Rejects with UpstreamError. */
    async ask(kind: FetchedKind, id: string): Promise<boolean> {
      sentAt.push(clock.steady());
      return await upstream.shows(kind, id, 'scan');
    },
    /** The candidates that are records of the kind. `isShown` decides about those that the API has not shown before. */
    async provenOf(
      { kind, type }: UnreadEvent,
      candidates: readonly Candidate[],
      isShown: (kind: FetchedKind, id: string) => Promise<boolean>,
    ): Promise<Candidate[]> {
      const ids = candidates.map(({ id }) => id);
      const shown = new Set(await store.shownIds(kind, ids));
      const proven: Candidate[] = [];
      for (const candidate of candidates) {
        // A policy has no address of its own. A delete event's record is gone, so an id in it that is still answered with a
        // record belongs to another one.
        const isAskable = kind !== 'policy' && !DELETE_TYPES.has(type);
        if (shown.has(candidate.id) || (isAskable && (await isShown(kind, candidate.id))))
          proven.push(candidate);
      }
      return proven;
    },
  };
}

/** An answer, but one that nobody understands. */
export const isMalformed = (error: unknown): error is UpstreamError =>
  error instanceof UpstreamError && isUnreadable(error) && error.kind !== 'unexpected_status';

// ─── other ids in the events about an id that the API does not know ─────────────────────────────────────────

/** Events searched in one step, before other work gets its turn. */
export const EVENTS_AT_ONCE = 4;

/** The same while there is no record to compare with. More, because each step costs a search through all events. */
const UNCOMPARED_AT_ONCE = 1_000;
/** The wait after such a step. */
const UNCOMPARED_REST_MS = 15_000;

/** This many failures in a row mean that the service fails, and not single ids. */
const SERVICE_FAILS = 2;

/** The kind without a list: if an event names another thing's id, no list shows the event's record. */
export const UNLISTED = 'risk_assessment';

/** Whether the API still shows another record of the kind. If it does not, its 404s prove nothing. */
type CanCompare = () => Promise<boolean>;

/** The result of one step of a search. */
interface StepResult {
  /** Records that the API has shown, with their places in the events. */
  shown: Candidate[];
  /** Milliseconds until the next step, for events not searched yet or ids not answered. Null: the search is finished. */
  restInMs: number | null;
}

export type IdsBeside = ReturnType<typeof createIdsBeside>;

/** When the API does not know an id that the pointers find, the event may be about another id in its data. This looks for it. */
export function createIdsBeside(
  options: Pick<Context, 'store' | 'clock' | 'timing' | 'signal'> & {
    proof: CandidateProof;
    /** A record became dirty. */
    onFound: () => void;
  },
) {
  const { store, clock, proof, signal } = options;
  const kind = UNLISTED;
  /** Paths where exactly one record's id was found beside an unknown one. They are tried first. */
  const placesBeside = new Set<string>();
  /** Unfinished searches, by the unknown id. */
  const unfinished = new Map<string, ReturnType<typeof createSearch>>();

  /**
   * Searches the events about `unknownId`. `isCompared`: another record can be read, so 404s count. `hasProblem`: an answer
   * could not be understood, so a problem of `unknownId` is open until the search is finished.
   */
  function createSearch(unknownId: string, isCompared: boolean, hasProblem: boolean) {
    const search = { isCompared, hasProblem, step };
    const answers = new Map<string, boolean>();
    /** Ids without a useful answer in this round. Each is asked for once a round. */
    const unanswered = new Set<string>();
    /** The last event searched. Undefined: begin at the first one that the store does not know as searched. */
    let after: number | undefined;
    let failuresInARow = 0;
    /** Whether a 404 has come since the API last showed a record. While it has, no 404 counts. */
    let isUnproven = false;

    /** Whether the 404s so far count. If the API shows no record any more, the next step asks for every id again. */
    async function areProven(canCompare: CanCompare | null): Promise<boolean> {
      if (canCompare === null) return true;
      isUnproven &&= !(await canCompare());
      return !isUnproven;
    }

    async function ask(id: string): Promise<boolean> {
      if (proof.left() <= 0) throw new OutOfBudget();
      if (unanswered.has(id)) throw new Unanswered();
      try {
        const isShown = await proof.ask(kind, id);
        isUnproven = !isShown;
        failuresInARow = 0;
        return isShown;
      } catch (error) {
        const isFailure = error instanceof UpstreamError && error.kind === 'server';
        if (!isMalformed(error) && !isFailure) throw error;
        unanswered.add(id);
        if (isFailure) {
          failuresInARow += 1;
          if (failuresInARow % SERVICE_FAILS === 0) throw error;
        } else {
          const problem = { reason: 'unreadable_answer', kind, recordId: unknownId } as const;
          await store.openProblem(problem, `${id} in its events: ${unreadableText(error)}`, momentOf(clock));
          search.hasProblem = true;
        }
        throw new Unanswered();
      }
    }

    /** The other ids in the event that are records, found with as few requests as possible. */
    async function othersIn(event: UnreadEvent): Promise<Candidate[]> {
      const isShown = async (_kind: FetchedKind, id: string): Promise<boolean> => {
        // Without a record to compare with, an id is asked for once and not for each event.
        const key = isCompared ? `${event.seq} ${id}` : id;
        const answer = answers.get(key) ?? (await ask(id));
        answers.set(key, answer);
        return answer;
      };
      // At any place: a record that is found is read by its id, so no pointer has to name the place.
      const candidates = everyIdIn(payloadIn(event.body), kind).filter(({ id }) => id !== unknownId);
      const [first, second] = candidates;
      const isLikely = first !== undefined && first.place !== second?.place && placesBeside.has(first.path);
      const proven = isLikely ? await proof.provenOf(event, [first], isShown) : [];
      return proven.length > 0 ? proven : await proof.provenOf(event, candidates, isShown);
    }

    async function step(through: number, canCompare: CanCompare | null): Promise<StepResult> {
      const shown: Candidate[] = [];
      // The last step may have ended with a failure.
      if (isCompared && isUnproven) answers.clear();
      // The unknown id itself was answered with a 404.
      isUnproven = true;
      const limit = isCompared ? EVENTS_AT_ONCE : UNCOMPARED_AT_ONCE;
      for (;;) {
        const events = await store.eventsNaming(kind, unknownId, { after, through, limit });
        for (const event of events) {
          signal.throwIfAborted();
          try {
            const others = await othersIn(event);
            if (!(await areProven(canCompare))) return { shown, restInMs: MINUTE_MS };
            // Events behind an unanswered one are searched too, but none is settled before that one is answered.
            const isSettled = isCompared && unanswered.size === 0;
            if (isCompared || others.length > 0) await noteEvent(unknownId, event, others, isSettled);
            shown.push(...others);
          } catch (error) {
            if (error instanceof OutOfBudget) {
              const restInMs = proof.restMs();
              await areProven(canCompare);
              return { shown, restInMs };
            }
            if (!(error instanceof Unanswered)) throw error;
          }
          after = event.seq;
        }
        const isWhole = unanswered.size === 0;
        if (events.length < limit) {
          if (isWhole) return { shown, restInMs: null };
          // The next step begins at the start again. The answers so far are kept.
          after = undefined;
          unanswered.clear();
          await areProven(canCompare);
          return { shown, restInMs: MINUTE_MS };
        }
        if (isCompared) continue;
        // One found record is enough: once it is read, there is something to compare with.
        if (shown.length === 0) return { shown, restInMs: UNCOMPARED_REST_MS };
        return { shown, restInMs: isWhole ? null : MINUTE_MS };
      }
    }

    return search;
  }

  async function noteEvent(
    unknownId: string,
    { seq, id: eventId }: UnreadEvent,
    shown: readonly Candidate[],
    isSettled: boolean,
  ): Promise<void> {
    const searched = { through: isSettled ? seq : 0, event: seq, named: shown.map(({ id }) => id) };
    await store.noteSearched(kind, unknownId, searched, momentOf(clock), options.timing);
    const [one, ...others] = shown;
    if (one === undefined) return;
    options.onFound();
    if (others.length > 0 || !one.isNameable) return;
    placesBeside.add(one.path);
    // Not used, only proposed for the settings: in an event without another id, the id at this path may be another record's.
    const proven = { kind, path: one.path, eventId, recordId: one.id, isUsed: false } as const;
    await store.learnPointer(proven, momentOf(clock));
  }

  return {
    /**
     * Searches the events about the unknown `id` up to the number `through`. Each other id that the API shows is a record and
     * becomes dirty, whether or not the event is about it. An event is settled only if a record is shown after the 404s of its other ids,
     * if need be by `canCompare`. `canCompare` null: there is no record to compare with. Rejects with UpstreamError.
     */
    async search(id: string, through: number, canCompare: CanCompare | null): Promise<StepResult> {
      const before = unfinished.get(id);
      const isCompared = canCompare !== null;
      // Answers from before another record could be read prove nothing.
      const isSame = before?.isCompared === isCompared;
      const begun = isSame ? before : createSearch(id, isCompared, before?.hasProblem ?? false);
      unfinished.set(id, begun);
      const result = await begun.step(through, canCompare);
      if (result.restInMs !== null) return result;
      if (begun.hasProblem)
        await store.endProblem({ reason: 'unreadable_answer', kind, recordId: id }, momentOf(clock));
      unfinished.delete(id);
      return result;
    },
    /** The address of the id itself was answered. If that was a record, the search for other ids ends. */
    async answered(of: FetchedKind, id: string, outcome: 'found' | 'missing'): Promise<void> {
      if (of === kind && outcome === 'found') unfinished.delete(id);
      // A search's problem is about the answers to other ids, so a 404 for this one does not resolve it.
      const isOfSearch = of === kind && unfinished.get(id)?.hasProblem === true;
      if (!isOfSearch)
        await store.endProblem({ reason: 'unreadable_answer', kind: of, recordId: id }, momentOf(clock));
    },
  };
}

class OutOfBudget extends Error {}
class Unanswered extends Error {}

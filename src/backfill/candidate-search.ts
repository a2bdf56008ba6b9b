import { type Candidate, everyIdIn } from '../compliance/candidates.ts';
import { UpstreamError, unreadableText } from '../compliance/errors.ts';
import { parseJson } from '../compliance/json.ts';
import { DELETE_TYPES, type FetchedKind } from '../compliance/kinds.ts';
import type { JsonObject } from '../compliance/pointers.ts';
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

/** Empty if the body cannot be parsed: then the event failed for another reason. */
export function payloadOf(event: UnreadEvent): JsonObject {
  try {
    return (parseJson(event.body) as { data: JsonObject }).data;
  } catch {
    return {};
  }
}

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
  const now = () => momentOf(clock);
  /** Paths where exactly one record's id was found beside an unknown one. They are tried first. */
  const placesBeside = new Set<string>();
  /** By unknown id, the answers of a search that the budget does not cover in one go. */
  const begun = new Map<string, Answers>();

  /** An answer that nobody understands opens a gap of the id `known`, in whose events `id` stands, until the search ends. */
  async function isShownBeside(known: string, kind: FetchedKind, id: string, answers: Answers) {
    if (answers.unanswered.has(id)) throw new Unanswered();
    try {
      const isShown = await proof.ask(kind, id);
      answers.failures = 0;
      return isShown;
    } catch (error) {
      const isFailure = error instanceof UpstreamError && error.kind === 'server';
      if (!isMalformed(error) && !isFailure) throw error;
      answers.unanswered.add(id);
      if (isFailure) {
        answers.failures += 1;
        // One failure says nothing about the other ids, unless they fail too.
        if (answers.failures % SERVICE_FAILS === 0) throw error;
      } else {
        const gap = { reason: 'unreadable_answer', kind, recordId: known } as const;
        await gaps.open(gap, `${id} in its events: ${unreadableText(error)}`);
        answers.hasGap = true;
      }
      throw new Unanswered();
    }
  }

  /** The ids beside `known` that are records; as few requests as possible. Throws OutOfBudget. */
  async function othersIn(event: UnreadEvent, known: string, answers: Answers): Promise<Candidate[]> {
    const { isProven, ids } = answers;
    const isShown = async (kind: FetchedKind, id: string): Promise<boolean> => {
      // While nothing is proven, an answer counts for all events.
      const asked = isProven ? `${event.seq} ${id}` : id;
      if (!ids.has(asked) && proof.left() <= 0) throw new OutOfBudget();
      const answer = ids.get(asked) ?? (await isShownBeside(known, kind, id, answers));
      ids.set(asked, answer);
      return answer;
    };
    // What is found is then read, so no pointer need name it.
    const candidates = everyIdIn(payloadOf(event), event.kind).filter(({ id }) => id !== known);
    const [first, second] = candidates;
    const isClear = first !== undefined && first.place !== second?.place && placesBeside.has(first.path);
    const proven = isClear ? await proof.provenOf(event, [first], isShown) : [];
    return proven.length > 0 ? proven : await proof.provenOf(event, candidates, isShown);
  }

  async function lookBeside(
    known: string,
    { kind, through, sees }: Looking,
    answers: Answers,
  ): Promise<Besides> {
    const shown: Candidate[] = [];
    const isProven = sees !== null;
    const limit = isProven ? EVENTS_AT_ONCE : UNPROVEN_AT_ONCE;
    for (;;) {
      const from = answers.after === null ? {} : { after: answers.after };
      const events = await store.eventsNaming(kind, known, { ...from, through, limit });
      for (const event of events) {
        signal.throwIfAborted();
        try {
          const others = await othersIn(event, known, answers);
          // The path may have been lost since something was last seen: then all is asked again.
          if (isProven && others.length === 0 && !(await sees())) {
            answers.ids.clear();
            return { shown, restInMs: MINUTE_MS };
          }
          // Events behind an unanswered one are looked at too, but nothing is settled before that one is answered.
          if (isProven || others.length > 0)
            await noteBeside(event, known, others, isProven && answers.unanswered.size === 0);
          shown.push(...others);
        } catch (error) {
          if (error instanceof OutOfBudget) return { shown, restInMs: proof.restMs() };
          if (!(error instanceof Unanswered)) throw error;
        }
        answers.after = event.seq;
      }
      const isWhole = answers.unanswered.size === 0;
      if (events.length < limit) {
        if (isWhole) return { shown, restInMs: null };
        // Next time from the start; what was answered is remembered.
        answers.after = null;
        answers.unanswered.clear();
        return { shown, restInMs: MINUTE_MS };
      }
      // While nothing is proven, one found record is enough: once it is read, there is something to compare with.
      if (!isProven && shown.length > 0) return { shown, restInMs: isWhole ? null : MINUTE_MS };
      if (!isProven) return { shown, restInMs: UNPROVEN_REST_MS };
    }
  }

  async function noteBeside(
    event: UnreadEvent,
    known: string,
    shown: readonly Candidate[],
    isProven: boolean,
  ) {
    const { kind, seq } = event;
    const named = shown.map(({ id }) => id);
    await store.noteSearched(
      kind,
      known,
      { through: isProven ? seq : 0, event: seq, named },
      now(),
      options.timing,
    );
    const [one, ...others] = shown;
    if (one === undefined) return;
    options.onFound();
    if (others.length > 0 || !one.isNameable) return;
    placesBeside.add(one.path);
    // Only a proposal for the settings: in an event with no other id, the id there may be another record's.
    const proven = { kind, path: one.path, eventId: event.id, recordId: one.id, isUsed: false };
    await store.learnPointer(proven, now());
  }

  return {
    /**
     * Looks at the events up to the number `through`. Each id that the API shows is a record and becomes dirty, whether or not the
     * event is about it. If the API shows none, that counts only if `sees`, called afterwards, confirms that the API still shows
     * records. `sees` null: there is no record to compare with, so it does not count. Rejects with UpstreamError.
     */
    async besides(
      kind: 'risk_assessment',
      id: string,
      { through, sees }: { through: number; sees: Sees | null },
    ): Promise<Besides> {
      const before = begun.get(id);
      const isProven = sees !== null;
      // Answers from before another record could be read prove nothing.
      const answers: Answers = before?.isProven === isProven ? before : startOf(isProven, before?.hasGap);
      begun.set(id, answers);
      const besides = await lookBeside(id, { kind, through, sees }, answers);
      if (besides.restInMs !== null) return besides;
      if (answers.hasGap) await gaps.resolve({ reason: 'unreadable_answer', kind, recordId: id });
      begun.delete(id);
      return besides;
    },
    /** The address of the id itself was answered. If with a record, the search beside the id ends. */
    async answered(kind: FetchedKind, id: string, outcome: 'found' | 'missing'): Promise<void> {
      if (kind === UNLISTED && outcome === 'found') begun.delete(id);
      // Otherwise the gap is about ids beside this one, and a 404 for this one says nothing about them.
      const isItsOwn = kind !== UNLISTED || begun.get(id)?.hasGap !== true;
      if (isItsOwn) await gaps.resolve({ reason: 'unreadable_answer', kind, recordId: id });
    },
  };
}

interface Looking {
  kind: 'risk_assessment';
  through: number;
  sees: Sees | null;
}

interface Answers {
  isProven: boolean;
  ids: Map<string, boolean>;
  /** The last event looked at. Null: begin at the start, which for proven answers the store knows. */
  after: number | null;
  /** Ids that got no useful answer in this round: each is asked for once a round. */
  unanswered: Set<string>;
  /** In a row. */
  failures: number;
  /** One of the answers could not be understood, so a gap is open. */
  hasGap: boolean;
}

const startOf = (isProven: boolean, hasGap = false): Answers => ({
  isProven,
  ids: new Map(),
  after: null,
  unanswered: new Set(),
  failures: 0,
  hasGap,
});

class OutOfBudget extends Error {}
class Unanswered extends Error {}

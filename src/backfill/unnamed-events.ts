import { type Candidate, everyIdIn, idCandidatesIn } from '../compliance/candidates.ts';
import { UpstreamError, unreadableText } from '../compliance/errors.ts';
import { parseJson } from '../compliance/json.ts';
import { DELETE_TYPES, type FetchedKind } from '../compliance/kinds.ts';
import { type JsonObject, pointersSettingOf, recordIdIn, withLearned } from '../compliance/pointers.ts';
import { backoffMs, type Clock } from '../platform/clock.ts';
import type { ProvisionalRules, RepairStore, UnreadEvent } from '../store/store.ts';
import type { GapKeeper } from './gaps.ts';
import { READ_BACKOFF, UNRESOLVED_BACKOFF } from './plan.ts';
import type { Upstream } from './upstream.ts';

/** Events whose record is sought in one go; then other work has its turn. */
const EVENTS_AT_ONCE = 4;

/** Looked at in one go while no answer proves anything: finding where to go on costs with the number of all of them. */
const UNPROVEN_AT_ONCE = 1_000;
/** After so many, the next go. */
const UNPROVEN_REST_MS = 15_000;

/** Read anew at a time, once something was learned, or under other settings. */
const REREAD_BATCH = 100;

/** So many of the ids in events that fail in a row are a service that fails. */
const SERVICE_FAILS = 2;

/** Of the request budget, as a share of a minute's: events that nobody can read must not keep repairs waiting. */
const SHARE_OF_BUDGET = 1 / 4;
const MINUTE_MS = 60_000;

/** The one kind of which no list shows the record of an event that names another thing's id. */
const UNLISTED = 'risk_assessment';

/** A wall clock that falls behind by more than this was set back: what drifts does not by as much between two looks. */
const STEP_MS = 1_000;

type Sees = () => Promise<boolean>;

/** What the events name besides that are about an id which the API does not know. */
export interface Besides {
  /** Where the API has shown a record; of the events that were looked at now. */
  shown: Candidate[];
  /** Something is left that was not looked at, or not understood: after so long it may be. Null: nothing is. */
  restInMs: number | null;
}

export interface UnnamedEventsOptions {
  store: RepairStore;
  upstream: Upstream;
  gaps: GapKeeper;
  clock: Clock;
  rules: ProvisionalRules;
  requestsPerMinute: number;
  random: () => number;
  signal: AbortSignal;
  /** A record became dirty. */
  onFound: () => void;
}

/**
 * Finds out which record an event is about that names none where the pointers look: values in its payload that may be an id
 * are asked for at the API, and the one that it answers with a record is proven. Where exactly one is, the event is about
 * that record, and where it stood is remembered for those that come after it; what they make of it is read like any other
 * record. 404s prove nothing and open no gap. Everything between two steps is in the database: after a crash it goes on.
 */
export interface UnnamedEvents {
  /**
   * At a start, before anything is read: the settings may be others than those by which events were taken to be about what
   * the API has never shown. Such are read anew.
   */
  rereadProcessed(): Promise<void>;
  /** Looks once. False: there was nothing to do, or nothing may be asked now. */
  look(): Promise<boolean>;
  /**
   * The pointers find an id of the kind that the API does not know, so that it may be another thing's: looks for other ids
   * in the data of the events about it, up to the number `through`. Each that the API shows is a record, and dirty from then
   * on, whether or not it is what the event is about. Where it shows none, that counts only where `sees` says, asked after it, that
   * the API still shows what there is; null: nothing is there to tell by, and it does not count. Rejects with UpstreamError.
   */
  besides(kind: 'risk_assessment', id: string, how: { through: number; sees: Sees | null }): Promise<Besides>;
  /** The address of the id itself was answered. With a record: nothing is sought beside it any more. */
  answered(kind: FetchedKind, id: string, outcome: 'found' | 'missing'): Promise<void>;
}

export function createUnnamedEvents(options: UnnamedEventsOptions): UnnamedEvents {
  const { store, upstream, gaps, clock, rules, signal } = options;
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });
  const perMinute = Math.max(1, Math.floor(options.requestsPerMinute * SHARE_OF_BUDGET));
  /** When each of the last minute's requests was sent. */
  let asked: number[] = [];
  /** After requests that nobody answered. */
  let notBefore = 0;
  let failures = 0;
  /** At a start the settings may be others than those by which an event failed, and later something may have been learned. */
  let rereads = true;
  /** Where a record stood beside an id that the API does not know, and nothing else did: it need not be found out again. */
  const placesBeside = new Set<string>();
  /** Of searches beside an id that the budget does not cover in one go: what was answered so far, by event and id. */
  const begun = new Map<string, Answers>();
  /** Of the wall clock, by which searches are put off, to the steady one. At a start nothing is known of the last run's. */
  let lastOffset = Number.POSITIVE_INFINITY;

  /** Those of all that failed which name their record by now, without a request. */
  async function reread(): Promise<void> {
    const pointers = withLearned(rules.pointers, await store.learnedPointers());
    for (let after = 0; !signal.aborted; ) {
      const batch = await store.failedWithoutRecord(after, REREAD_BATCH);
      for (const event of batch) {
        after = event.seq;
        if (signal.aborted || recordIdIn(payloadOf(event), event.kind, pointers) === null) continue;
        const tried = await store.retryEvent(event.id, rules, now());
        if (tried.outcome === 'processed') options.onFound();
      }
      if (batch.length < REREAD_BATCH) return;
    }
  }

  async function rereadProcessed(): Promise<void> {
    for (let last = ''; !signal.aborted; ) {
      const ids = await store.neverShown(UNLISTED, last, REREAD_BATCH);
      for (const id of ids) {
        last = id;
        await rereadNaming(id);
      }
      if (ids.length < REREAD_BATCH) return;
    }
  }

  async function rereadNaming(recordId: string): Promise<void> {
    for (let after = 0; !signal.aborted; ) {
      const batch = await store.eventsNaming(UNLISTED, recordId, { after, limit: REREAD_BATCH });
      for (const event of batch) {
        after = event.seq;
        const named = recordIdIn(payloadOf(event), UNLISTED, rules.pointers);
        if (signal.aborted || named === null || named === recordId) continue;
        const tried = await store.retryEvent(event.id, rules, now());
        if (tried.outcome === 'processed') options.onFound();
      }
      if (batch.length < REREAD_BATCH) return;
    }
  }

  const left = () => {
    asked = asked.filter((at) => clock.steady() - at < MINUTE_MS);
    return perMinute - asked.length;
  };

  /** Those of the candidates that are records of the kind, as far as the API has not shown them already by `isShown`. */
  async function provenOf(
    event: UnreadEvent,
    candidates: readonly Candidate[],
    isShown: (kind: FetchedKind, id: string) => Promise<boolean>,
  ): Promise<Candidate[]> {
    const { kind, type } = event;
    const shown = new Set(
      await store.shownIds(
        kind,
        candidates.map(({ id }) => id),
      ),
    );
    const proven: Candidate[] = [];
    for (const candidate of candidates) {
      // Policies have no address of their own: only their list shows them. What a delete event speaks of is gone by now,
      // and whatever else it names that still answers is not it.
      const isAskable = kind !== 'policy' && !DELETE_TYPES.has(type);
      if (shown.has(candidate.id) || (isAskable && (await isShown(kind, candidate.id))))
        proven.push(candidate);
    }
    return proven;
  }

  async function ask(kind: FetchedKind, id: string): Promise<boolean> {
    asked.push(clock.steady());
    return await upstream.shows(kind, id, 'scan');
  }

  /** Of the id in whose events this one stands, too: what nobody understands is a gap until the search is over. */
  async function isShownBeside(known: string, kind: FetchedKind, id: string, answers: Answers) {
    if (answers.unanswered.has(id)) throw new Unanswered();
    try {
      const isShown = await ask(kind, id);
      answers.failures = 0;
      return isShown;
    } catch (error) {
      const isFailure = error instanceof UpstreamError && error.kind === 'server';
      if (!isMalformed(error) && !isFailure) throw error;
      answers.unanswered.add(id);
      if (isFailure) {
        answers.failures += 1;
        // One that fails tells nothing of the others, unless they fail as well.
        if (answers.failures % SERVICE_FAILS === 0) throw error;
      } else {
        const gap = { reason: 'unreadable_answer', kind, recordId: known } as const;
        await gaps.open(gap, `${id} in its events: ${unreadableText(error)}`);
        answers.hasGap = true;
      }
      throw new Unanswered();
    }
  }

  /** Those of the ids beside `known` that are records; as few as possible are asked for. Throws OutOfBudget. */
  async function othersIn(event: UnreadEvent, known: string, answers: Answers): Promise<Candidate[]> {
    const { isProven, ids } = answers;
    const isShown = async (kind: FetchedKind, id: string): Promise<boolean> => {
      // Unproven, an answer is worth the same for each event.
      const asked = isProven ? `${event.seq} ${id}` : id;
      if (!ids.has(asked) && left() <= 0) throw new OutOfBudget();
      const answer = ids.get(asked) ?? (await isShownBeside(known, kind, id, answers));
      ids.set(asked, answer);
      return answer;
    };
    // What is found is read, and need not be named by a pointer.
    const candidates = everyIdIn(payloadOf(event), event.kind).filter(({ id }) => id !== known);
    const [first, second] = candidates;
    const isClear = first !== undefined && first.place !== second?.place && placesBeside.has(first.path);
    const proven = isClear ? await provenOf(event, [first], isShown) : [];
    return proven.length > 0 ? proven : await provenOf(event, candidates, isShown);
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
          // A path may have been lost since something was last seen: then what was answered meanwhile is asked again.
          if (isProven && others.length === 0 && !(await sees())) {
            answers.ids.clear();
            return { shown, restInMs: MINUTE_MS };
          }
          // What is behind one that was not answered is looked at, and nothing is done with before that one is.
          if (isProven || others.length > 0)
            await noteBeside(event, known, others, isProven && answers.unanswered.size === 0);
          shown.push(...others);
        } catch (error) {
          if (error instanceof OutOfBudget)
            return { shown, restInMs: Math.max(1, asked[0]! + MINUTE_MS - clock.steady()) };
          if (!(error instanceof Unanswered)) throw error;
        }
        answers.after = event.seq;
      }
      const isWhole = answers.unanswered.size === 0;
      if (events.length < limit) {
        if (isWhole) return { shown, restInMs: null };
        // From the start: what was answered is known.
        answers.after = null;
        answers.unanswered.clear();
        return { shown, restInMs: MINUTE_MS };
      }
      // Unproven, it is enough to have found one: once that is read, there is something to tell by.
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
      rules.timing,
    );
    const [one, ...others] = shown;
    if (one === undefined) return;
    options.onFound();
    if (others.length > 0 || !one.isNameable) return;
    placesBeside.add(one.path);
    // It only tells people what to set: where nothing but this stands in an event, it may be another record's.
    const proven = { kind, path: one.path, eventId: event.id, recordId: one.id, isUsed: false };
    await store.learnPointer(proven, now());
  }

  async function seek(event: UnreadEvent): Promise<void> {
    const candidates = idCandidatesIn(payloadOf(event), event.kind);
    const garbled: string[] = [];
    const answers = { shown: 0, missingBefore: 0, missingSince: 0 };
    const askNow = async (kind: FetchedKind, id: string): Promise<boolean> => {
      try {
        const isShown = await ask(kind, id);
        if (isShown) Object.assign(answers, { shown: answers.shown + 1, missingSince: 0 });
        else answers[answers.shown === 0 ? 'missingBefore' : 'missingSince'] += 1;
        return isShown;
      } catch (error) {
        // What nobody understands may be its record: then no other is taken for it, and it is asked for again.
        if (!isMalformed(error)) throw error;
        garbled.push(id);
        return false;
      }
    };
    let proven = await provenOf(event, candidates, askNow);
    // When a path is lost, every answer is a 404: those before the first record count once that is read, and those after it
    // once it is read again.
    const isUnsure = garbled.length === 0 && answers.missingBefore > 0;
    const mayBeLost = garbled.length === 0 && answers.missingSince > 0;
    if (event.kind !== 'policy' && proven.length === 1 && (isUnsure || mayBeLost)) {
      const { id } = proven[0]!;
      const isSeen = (isUnsure && answers.shown > 0) || (await askNow(event.kind, id));
      if (!isSeen) proven = [];
      else if (isUnsure) proven = await provenOf(event, candidates, askNow);
    }
    const [one, ...others] = proven;
    const found = whatWasFound(event, candidates, proven, garbled);
    if (one === undefined || others.length > 0 || garbled.length > 0) return await putOff(event, found);
    const { path, id: recordId } = one;
    const { kind, id: eventId, type } = event;
    const isLikeliest = candidates.every((other) => other === one || other.place > one.place);
    // Which of several likely ids a deletion speaks of is not guessed: the one that is known may be another's.
    if (DELETE_TYPES.has(type) && !isLikeliest) return await putOff(event, found);
    // That this is its record may be chance, where it names a second one beside its own, which is gone. Later events are read
    // by what was found only where nothing else in it was as likely; else each of them has its record sought.
    // Remembered first: if the process dies here, the next one reads the event by it.
    if (!DELETE_TYPES.has(type))
      await store.learnPointer({ kind, path, eventId, recordId, isUsed: isLikeliest }, now());
    // Before any other that was learned, which may find something else in this one.
    const pointers = withLearned(rules.pointers, [{ kind, path }]);
    const tried = await store.retryEvent(eventId, { ...rules, pointers }, now());
    if (tried.outcome === 'failed') await putOff(event, tried.error);
    rereads ||= isLikeliest;
    options.onFound();
  }

  async function putOff(event: UnreadEvent, error: string): Promise<void> {
    const again = backoffMs(UNRESOLVED_BACKOFF, event.attempts, options.random());
    await store.putOffUnread(event, error, clock.wall() + again, now());
  }

  return {
    rereadProcessed,
    async besides(kind, id, { through, sees }) {
      const before = begun.get(id);
      const isProven = sees !== null;
      // What is answered before another record can be read proves nothing.
      const answers: Answers = before?.isProven === isProven ? before : startOf(isProven, before?.hasGap);
      begun.set(id, answers);
      const besides = await lookBeside(id, { kind, through, sees }, answers);
      if (besides.restInMs !== null) return besides;
      if (answers.hasGap) await gaps.resolve({ reason: 'unreadable_answer', kind, recordId: id });
      begun.delete(id);
      return besides;
    },
    async answered(kind, id, outcome) {
      if (kind === UNLISTED && outcome === 'found') begun.delete(id);
      // Else it is about what stands beside the id, of which a 404 says nothing.
      const isItsOwn = kind !== UNLISTED || begun.get(id)?.hasGap !== true;
      if (isItsOwn) await gaps.resolve({ reason: 'unreadable_answer', kind, recordId: id });
    },
    async look() {
      const offset = clock.wall() - clock.steady();
      if (offset < lastOffset - STEP_MS) await store.seekAnew(now());
      lastOffset = offset;
      if (rereads) {
        rereads = false;
        await reread();
      }
      const due = await store.unreadEvents(now(), EVENTS_AT_ONCE, rules.timing);
      for (const event of due) {
        // What one may cost at most is not known before it is read; the next minute waits for it the longer.
        if (signal.aborted || left() <= 0 || clock.steady() < notBefore) return false;
        try {
          await seek(event);
          failures = 0;
        } catch (error) {
          // The event is as due as it was.
          failures += 1;
          notBefore = clock.steady() + backoffMs(READ_BACKOFF, failures, options.random());
          throw error;
        }
      }
      return due.length > 0;
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
  /** Looked at up to there. Null: from the start, which of proven answers the store knows. */
  after: number | null;
  /** Ids of which nothing was learned since the start: each is asked for once until the next. */
  unanswered: Set<string>;
  /** In a row. */
  failures: number;
  /** One of the ids was answered with what nobody understands. */
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

const isMalformed = (error: unknown): error is UpstreamError =>
  error instanceof UpstreamError && error.kind === 'malformed';

/** Empty where the body is none of ours: such an event failed for another reason, and is read by nobody. */
function payloadOf(event: UnreadEvent): JsonObject {
  try {
    return (parseJson(event.body) as { data: JsonObject }).data;
  } catch {
    return {};
  }
}

/** For people: what stands beside the event and in its gap. */
function whatWasFound(
  { kind, type }: UnreadEvent,
  candidates: readonly Candidate[],
  proven: readonly Candidate[],
  garbled: readonly string[],
): string {
  const named = (some: readonly Candidate[]) => some.map(({ path, id }) => `${path} = ${id}`).join(', ');
  const setting = pointersSettingOf(kind);
  if (garbled.length > 0)
    return `the API answers what nobody understands to ids in its data, so that none is taken: ${garbled.join(', ')}`;
  if (proven.length > 1) {
    return `several values in its data are records of the kind: ${named(proven)}. Set ${setting} to the right one's place`;
  }
  if (DELETE_TYPES.has(type) && proven.length === 1)
    return `several values in its data may be the id of what was deleted: ${named(candidates)}. Set ${setting} to where it stands`;
  if (candidates.length === 0)
    return `nothing in its data looks like an id. Set ${setting} to where it stands`;
  return `none of what looks like an id in its data is a record that the API shows: ${named(candidates)}. Set ${setting} to where it stands`;
}

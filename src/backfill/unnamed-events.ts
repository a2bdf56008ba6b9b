import { type Candidate, idCandidatesIn } from '../compliance/candidates.ts';
import { DELETE_TYPES, type FetchedKind } from '../compliance/kinds.ts';
import { payloadIn, pointersSettingOf, recordIdIn, withLearned } from '../compliance/pointers.ts';
import { backoffMs, momentOf } from '../platform/clock.ts';
import type { ProvisionalRules, UnreadEvent } from '../store/store.ts';
import { type CandidateProof, isMalformed, UNLISTED } from './candidate-search.ts';
import type { Context } from './context.ts';
import { READ_BACKOFF, UNRESOLVED_BACKOFF } from './plan.ts';

/** Events to look into in one go, before other work gets its turn. */
const EVENTS_AT_ONCE = 4;

/** Events read again at a time, after something was learned or the settings changed. */
const REREAD_BATCH = 100;

/** A wall clock that falls back by more than this between two looks was set back; drift is smaller. */
const STEP_MS = 1_000;

/**
 * Finds the record of an event in which the pointers find no id. It asks the API for values in the payload that may be an id. If
 * exactly one of them is answered with a record, the event is about that one, and the place is remembered for later events. 404s
 * prove nothing and open no gap. Everything between two steps is in the database, so after a crash it goes on.
 */
export function createUnnamedEvents(
  options: Pick<Context, 'store' | 'clock' | 'random' | 'signal'> & {
    rules: ProvisionalRules;
    proof: CandidateProof;
    /** A record became dirty. */
    onFound: () => void;
  },
) {
  const { store, clock, rules, proof, signal } = options;
  const now = () => momentOf(clock);
  /** After requests that nobody answered. */
  let notBefore = 0;
  let failures = 0;
  /** At a start the settings may have changed since an event failed; later something may have been learned. */
  let rereads = true;
  /** Wall clock minus steady clock: searches wait by the wall clock. At a start that of the last run is not known. */
  let lastOffset = Number.POSITIVE_INFINITY;

  /** All that `read` gives, batch by batch; it gets the place of the last one before. */
  async function* inBatches<T, Place>(
    first: Place,
    placeOf: (one: T) => Place,
    read: (after: Place) => Promise<readonly T[]>,
  ): AsyncGenerator<T, void, undefined> {
    for (let after = first; !signal.aborted; ) {
      const batch = await read(after);
      for (const one of batch) {
        if (signal.aborted) return;
        after = placeOf(one);
        yield one;
      }
      if (batch.length < REREAD_BATCH) return;
    }
  }

  const seqOf = ({ seq }: UnreadEvent) => seq;

  async function readAgain(event: UnreadEvent): Promise<void> {
    const tried = await store.retryEvent(event.id, rules, now());
    if (tried.outcome === 'processed') options.onFound();
  }

  /** Failed events that name their record by now; without requests. */
  async function reread(): Promise<void> {
    const pointers = withLearned(rules.pointers, await store.learnedPointers());
    const failed = (after: number) => store.failedWithoutRecord(after, REREAD_BATCH);
    for await (const event of inBatches(0, seqOf, failed)) {
      if (recordIdIn(payloadIn(event.body), event.kind, pointers) !== null) await readAgain(event);
    }
  }

  /**
   * Called at a start, before anything is read. Under other settings, events may have been taken to be about what the API has
   * never shown. Such events are read again.
   */
  async function rereadProcessed(): Promise<void> {
    const neverShown = (after: string) => store.neverShown(UNLISTED, after, REREAD_BATCH);
    for await (const recordId of inBatches('', String, neverShown)) {
      const naming = (after: number) =>
        store.eventsNaming(UNLISTED, recordId, { after, limit: REREAD_BATCH });
      for await (const event of inBatches(0, seqOf, naming)) {
        const named = recordIdIn(payloadIn(event.body), UNLISTED, rules.pointers);
        if (named !== null && named !== recordId) await readAgain(event);
      }
    }
  }

  async function seek(event: UnreadEvent): Promise<void> {
    const candidates = idCandidatesIn(payloadIn(event.body), event.kind);
    const garbled: string[] = [];
    const answers = { shown: 0, missingBefore: 0, missingSince: 0 };
    const askNow = async (kind: FetchedKind, id: string): Promise<boolean> => {
      try {
        const isShown = await proof.ask(kind, id);
        if (isShown) Object.assign(answers, { shown: answers.shown + 1, missingSince: 0 });
        else answers[answers.shown === 0 ? 'missingBefore' : 'missingSince'] += 1;
        return isShown;
      } catch (error) {
        // An answer that nobody understands may be its record, so no other one is taken; it is asked for again.
        if (!isMalformed(error)) throw error;
        garbled.push(id);
        return false;
      }
    };
    let proven = await proof.provenOf(event, candidates, askNow);
    // If the path is lost, every answer is a 404. So 404s before the first record count once that is read, and those after it
    // once it is read again.
    const isUnsure = garbled.length === 0 && answers.missingBefore > 0;
    const mayBeLost = garbled.length === 0 && answers.missingSince > 0;
    if (event.kind !== 'policy' && proven.length === 1 && (isUnsure || mayBeLost)) {
      const { id } = proven[0]!;
      const isSeen = (isUnsure && answers.shown > 0) || (await askNow(event.kind, id));
      if (!isSeen) proven = [];
      else if (isUnsure) proven = await proof.provenOf(event, candidates, askNow);
    }
    const [one, ...others] = proven;
    const found = whatWasFound(event, candidates, proven, garbled);
    if (one === undefined || others.length > 0 || garbled.length > 0) return await putOff(event, found);
    const { path, id: recordId } = one;
    const { kind, id: eventId, type } = event;
    const isLikeliest = candidates.every((other) => other === one || other.place > one.place);
    // In a delete event with several likely ids none is guessed: the known one may be another record's.
    if (DELETE_TYPES.has(type) && !isLikeliest) return await putOff(event, found);
    // It may be chance: the event may name a second record beside its own, which is gone. So later events are read at this place
    // only if nothing else in this one was as likely.
    // Remembered first: if the process dies here, the next one reads the event by it.
    if (!DELETE_TYPES.has(type))
      await store.learnPointer({ kind, path, eventId, recordId, isUsed: isLikeliest }, now());
    // Before other learned places, which may find something else in this event.
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
    /** Looks once. False: there is nothing to do, or no request may be sent now. */
    async look(): Promise<boolean> {
      const offset = clock.wall() - clock.steady();
      if (offset < lastOffset - STEP_MS) await store.seekAnew(now());
      lastOffset = offset;
      if (rereads) {
        rereads = false;
        await reread();
      }
      const due = await store.unreadEvents(now(), EVENTS_AT_ONCE, rules.timing);
      for (const event of due) {
        // Its cost is not known before it is read; if it is more than is left, the next minute gets less.
        if (signal.aborted || proof.left() <= 0 || clock.steady() < notBefore) return false;
        try {
          await seek(event);
          failures = 0;
        } catch (error) {
          // The event stays due.
          failures += 1;
          notBefore = clock.steady() + backoffMs(READ_BACKOFF, failures, options.random());
          throw error;
        }
      }
      return due.length > 0;
    },
  };
}

/** The error of the event, and the text of its gap. */
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

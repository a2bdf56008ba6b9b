import { type Candidate, idCandidatesIn } from '../compliance/candidates.ts';
import { UpstreamError } from '../compliance/errors.ts';
import { DELETE_TYPES, type FetchedKind } from '../compliance/kinds.ts';
import { payloadIn, pointersSettingOf, recordIdIn, withLearned } from '../compliance/pointers.ts';
import { backoffMs, momentOf } from '../platform/clock.ts';
import { describeError } from '../platform/errors.ts';
import type { ProvisionalRules, UnreadEvent } from '../store/store.ts';
import { type CandidateProof, EVENTS_AT_ONCE, isMalformed, UNLISTED } from './candidate-search.ts';
import { type Context, READ_BACKOFF, UNRESOLVED_BACKOFF } from './context.ts';

/** Events taken from the database at a time to be read again. */
const REREAD_BATCH = 100;

/** A wall clock that falls back by more than this between two looks was set back. Drift is smaller. */
const STEP_MS = 1_000;

/**
 * Finds the record of an event in which the pointers find no id. Asks the API for each value in the payload that may be an id. If
 * exactly one is answered with a record, the event is about that record, and its place is remembered for later events. A 404
 * proves nothing and opens no problem. The state between two steps is in the database, so a crash loses nothing.
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
  /** Failed searches in a row, and when (steady) the next one may begin. */
  let failures = 0;
  let notBefore = 0;
  /** Failed events are to be read again: at a start because the settings may have changed, later because a place was learned. */
  let isRereadDue = true;
  /** Wall clock minus steady clock at the last look, because searches wait by the wall clock. Not known at a start. */
  let lastOffset = Number.POSITIVE_INFINITY;

  /** Everything that `read` returns, batch by batch. `read` gets the place of the last item so far. */
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

  /** Retries the failed events in which the present pointers find an id. Sends no request. */
  async function reread(): Promise<void> {
    const pointers = withLearned(rules.pointers, await store.learnedPointers());
    const failed = (after: number) => store.failedWithoutRecord(after, REREAD_BATCH);
    for await (const event of inBatches(0, seqOf, failed)) {
      if (recordIdIn(payloadIn(event.body), event.kind, pointers) !== null) await readAgain(event);
    }
  }

  /**
   * Retries processed events in which the settings now find another id than before, if the API has never shown the id from
   * before. Called at a start, before anything is read.
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

  /** `proven`: candidates that are records. `garbled`: ids whose answers could not be understood. */
  async function askAbout(event: UnreadEvent, candidates: readonly Candidate[]) {
    const garbled: string[] = [];
    const answers = { shown: 0, missingBefore: 0, missingSince: 0 };
    const askNow = async (kind: FetchedKind, id: string): Promise<boolean> => {
      try {
        const isShown = await proof.ask(kind, id);
        if (isShown) {
          answers.shown += 1;
          answers.missingSince = 0;
        } else if (answers.shown === 0) answers.missingBefore += 1;
        else answers.missingSince += 1;
        return isShown;
      } catch (error) {
        // The answer may have been the event's record, so no other record is taken, and the event is put off.
        if (!isMalformed(error)) throw error;
        garbled.push(id);
        return false;
      }
    };
    let proven = await proof.provenOf(event, candidates, askNow);
    // While a proxy has lost its path to the API, every answer is a 404. So 404s from before the first record are asked for
    // again, and 404s after it count only if that record is read once more.
    const isUnsure = garbled.length === 0 && answers.missingBefore > 0;
    const mayBeLost = garbled.length === 0 && answers.missingSince > 0;
    if (event.kind !== 'policy' && proven.length === 1 && (isUnsure || mayBeLost)) {
      const { id } = proven[0]!;
      const isSeen = (isUnsure && answers.shown > 0) || (await askNow(event.kind, id));
      if (!isSeen) proven = [];
      else if (isUnsure) proven = await proof.provenOf(event, candidates, askNow);
    }
    return { proven, garbled };
  }

  async function findRecord(event: UnreadEvent): Promise<void> {
    const candidates = idCandidatesIn(payloadIn(event.body), event.kind);
    const { proven, garbled } = await askAbout(event, candidates);
    const [one, ...others] = proven;
    const found = whatWasFound(event, candidates, proven, garbled);
    if (one === undefined || others.length > 0 || garbled.length > 0) return await putOff(event, found);
    const { path, id: recordId } = one;
    const { kind, id: eventId, type } = event;
    const isLikeliest = candidates.every((other) => other === one || other.place > one.place);
    // A delete event's own id need not be shown any more, so the id that is shown may be another record's.
    if (DELETE_TYPES.has(type) && !isLikeliest) return await putOff(event, found);
    // The event's own record may be gone, and this one only named beside it. So the place is used for later events only if no
    // other value in this event was as likely. It is saved first: after a crash here the event is read by it.
    if (!DELETE_TYPES.has(type))
      await store.learnPointer({ kind, path, eventId, recordId, isUsed: isLikeliest }, now());
    // Before the other learned places, which may find another id in this event.
    const pointers = withLearned(rules.pointers, [{ kind, path }]);
    const tried = await store.retryEvent(eventId, { ...rules, pointers }, now());
    if (tried.outcome === 'failed') await putOff(event, tried.error);
    isRereadDue ||= isLikeliest;
    options.onFound();
  }

  async function putOff(event: UnreadEvent, error: string): Promise<void> {
    const again = backoffMs(UNRESOLVED_BACKOFF, event.attempts, options.random());
    await store.putOffUnread(event, error, clock.wall() + again, now());
  }

  return {
    rereadProcessed,
    /** Searches a few events. False: no event is due, or no request may be sent now. */
    async look(): Promise<boolean> {
      const offset = clock.wall() - clock.steady();
      if (offset < lastOffset - STEP_MS) await store.seekAnew(now());
      lastOffset = offset;
      if (isRereadDue) {
        await reread();
        isRereadDue = false;
      }
      const due = await store.unreadEvents(now(), EVENTS_AT_ONCE, rules.timing);
      for (const event of due) {
        // One event may take more requests than are left. Then the next minute has fewer.
        if (signal.aborted || proof.left() <= 0 || clock.steady() < notBefore) return false;
        try {
          await findRecord(event);
          failures = 0;
        } catch (error) {
          failures += 1;
          const again = backoffMs(READ_BACKOFF, failures, options.random());
          notBefore = clock.steady() + again;
          // The API may always fail for an id in this event, so the others go first.
          if (error instanceof UpstreamError) {
            const failed = `the search for its record failed: ${describeError(error)}`;
            await store.putOffUnread(event, failed, clock.wall() + again, now(), 0);
          }
          throw error;
        }
      }
      return due.length > 0;
    },
  };
}

/** The error of the event, and the text of its problem. */
function whatWasFound(
  { kind, type }: UnreadEvent,
  candidates: readonly Candidate[],
  proven: readonly Candidate[],
  garbled: readonly string[],
): string {
  const named = (some: readonly Candidate[]) => some.map(({ path, id }) => `${path} = ${id}`).join(', ');
  const setting = pointersSettingOf(kind);
  if (garbled.length > 0)
    return `the API's answers to ids in its data could not be understood, so no id was taken: ${garbled.join(', ')}`;
  if (proven.length > 1) {
    return `several values in its data are ids of a ${kind}: ${named(proven)}. Set ${setting} to the path of the right one`;
  }
  if (DELETE_TYPES.has(type) && proven.length === 1)
    return `several values in its data may be the id of the deleted record: ${named(candidates)}. Set ${setting} to the path of the id`;
  if (candidates.length === 0)
    return `nothing in its data looks like an id. If one is there, set ${setting} to its path; if none is, dismiss the event`;
  return `the API shows no record for the values in its data that look like ids: ${named(candidates)}. Set ${setting} to the path of the id`;
}

import type { Lane } from '../compliance/budget.ts';
import { candidatesText } from '../compliance/candidates.ts';
import { UnaddressableError, UpstreamError, unreadableText } from '../compliance/errors.ts';
import type { FetchedKind, Kind } from '../compliance/kinds.ts';
import { isAddressable, type JsonObject, payloadIn, pointersSettingOf } from '../compliance/pointers.ts';
import { backoffMs, momentOf } from '../platform/clock.ts';
import { describeError, listed } from '../platform/errors.ts';
import type { Applied, MissingOutcome, ReadMoment, ReadObject } from '../store/store.ts';
import {
  agedText,
  type Context,
  causeOf,
  READ_BACKOFF,
  READ_TRIES,
  readMoment,
  UNRESOLVED_BACKOFF,
} from './context.ts';
import type { Upstream } from './upstream.ts';

/** `isOwn`: the service answers, and asked again at this address may answer so for ever. */
type Failed = { outcome: 'failed'; error: string; isOwn?: boolean };

type RefetchOutcome =
  | { outcome: 'applied'; applied: Applied }
  /** `pending`: two reads say that the record is gone, and there is no other record to compare with. A person decides. */
  | { outcome: 'missing'; missing: MissingOutcome | 'pending' }
  | Failed;

/** A request and its answer rarely take longer, even if SETTLE is shorter. */
const AT_ONCE_MS = 5_000;

/** Other records read after a 403. Several, because we may lack access to some of them too. */
const OTHERS_ASKED = 3;

/** Failed reads before a person is asked because the mirror has no other record to compare with: the first 404 may be chance. */
const FAILURES_BEFORE_ASKING = 1;

/**
 * Failed reads before a record is judged without the help of others: an assessment that has no usable answer, or a record whose only
 * possible witnesses fail too. Some nine minutes, since most faults pass.
 */
const PATIENT_TRIES = 9;

interface RefetchRequest {
  kind: FetchedKind;
  id: string;
  /** Failed refetches before this one. */
  attempts: number;
  /** How often each of its requests is tried. */
  tries: number;
  lane: Lane;
  syncRunId: number | null;
  /** A complete list scan has not shown it, so a 404 is not only about an unknown id. */
  absentFromList: boolean;
  /** When the refetch began, or was tried again. Steady. */
  since: number;
  /** Witnesses that may still be read for it: one before its last 404, and one after. 0: it is read as a witness itself. */
  witnesses: 0 | 1 | 2;
}

/** Whether another read showed that our credentials still see records. `none`: the mirror has no record to compare with. */
type Sight = 'seen' | 'failed' | 'none';

export type Refetch = ReturnType<typeof createRefetch>;

const UNASKABLE = 'no request path can carry this id';
const UNLISTED = 'the list does not show it any more';
const OTHERS_SHOWN = 'others of its kind can be read';
const NEVER_SHOWN = 'the API answers 404, and has never shown this id';
const UNCOMPARED = 'no other living record could be read to compare with';
const NOT_COMPARED = 'the API answers 404, and no other record can be read to compare with';

/** Reads one record and brings its row into sync. Deletes nothing: a 404 is only a part of a proof. */
export function createRefetch(options: Context & { upstream: Upstream }) {
  const { store, upstream, clock, timing } = options;
  const now = () => momentOf(clock);
  /** Now; on a shared clock the earliest that it may be. */
  const atEarliest = () => clock.steady() - (clock.marginMs?.() ?? 0);

  async function retryLater(request: RefetchRequest, error: string, ms: number): Promise<Failed> {
    const { kind, id, since, attempts } = request;
    // However many others ask for it as a witness, its own next read is not put off.
    if (request.witnesses === 0 && attempts > 0) return { outcome: 'failed', error };
    await store.recordReadFailure(kind, id, error, clock.steady() + ms, { ...timing, since });
    return { outcome: 'failed', error };
  }

  const unreadable = ({ kind, id }: RefetchRequest) =>
    ({ reason: 'unreadable_answer', kind, recordId: id }) as const;

  /** Before anything else is read, because the last answer about the record is one that nobody understands. */
  async function noteUnreadable(request: RefetchRequest, error: unknown): Promise<void> {
    if (!upstream.isOwnFault(error)) return;
    const text = unreadableText(error);
    await store.openProblem(unreadable(request), text, now(), text);
  }

  const soonMs = ({ attempts }: RefetchRequest) => backoffMs(READ_BACKOFF, attempts + 1, options.random());
  const seldomMs = ({ attempts }: RefetchRequest) =>
    backoffMs(UNRESOLVED_BACKOFF, attempts + 1, options.random());

  /** Reads another live record of the mirror, none of `besides`, to which it is added. */
  async function readAnother(
    request: RefetchRequest,
    kind: FetchedKind,
    { besides = [request.id], ...among }: { besides?: string[]; verified?: boolean; shownBy?: number | null },
  ): Promise<Sight> {
    const other = await store.someLiveRecord(kind, besides, among);
    if (other === null) return 'none';
    besides.push(other.id);
    const begun = { absentFromList: false, since: atEarliest(), witnesses: 0 } as const;
    const seen = await refetch({ ...request, kind, ...other, ...begun });
    return seen.outcome === 'applied' && seen.applied.witness ? 'seen' : 'failed';
  }

  /** Looks for a witness, which shows that our credentials still see records. Without one, they may be the reason for a 404. */
  async function seekWitness(request: RefetchRequest): Promise<Sight> {
    const { kind, syncRunId, absentFromList } = request;
    const beganAt = clock.steady();
    // Of the same kind: a gateway may have lost one path, and shows the others. A living one that is unverified counts too: a path that is
    // lost makes all that are asked for unverified. Not what the same list does not show either.
    const sight = await readAnother(request, kind, { shownBy: absentFromList ? syncRunId : null });
    if (sight === 'seen') upstream.noteWitness(kind, { beganAt, endedAt: clock.steady() });
    return sight;
  }

  async function apply(
    kind: Kind,
    objects: ReadObject[],
    read: ReadMoment,
    syncRunId: number | null,
    isTooOld = false,
  ) {
    const cause = causeOf(syncRunId);
    const context = { cause, syncRunId, timing, pointers: options.pointers, isTooOld };
    const applied = await store.applyReads(kind, objects, read, context);
    options.onApplied(kind, applied, cause);
    return applied;
  }

  /** No request can ask for this record, but lists have shown it. The next complete list shows what an event reported. */
  async function skipUnaddressable(request: RefetchRequest): Promise<RefetchOutcome> {
    const { kind, id, attempts, syncRunId } = request;
    // Otherwise it would be open again after each list that resolves it.
    if (attempts === 0 && syncRunId === null)
      await store.openProblem({ reason: 'unknown_record', kind, recordId: id }, UNASKABLE, now());
    return retryLater(request, UNASKABLE, seldomMs(request));
  }

  /** For a record that is alive here, and of which no read can tell whether it is gone: a person decides. */
  const askToDelete = ({ kind, id }: RefetchRequest, why: string, failures = 0) =>
    store.askToDelete(kind, id, why, now(), failures);

  /**
   * `object` null: the API has no such record. If its list does not show it any more, or an assessment's address again and again has no
   * usable answer while another one's has, that counts as a 404 too, unless a row shows it alive and no person has approved the deletion:
   * a service that has merged two records may answer with the other one for ever.
   */
  async function readOwn(
    request: RefetchRequest,
  ): Promise<{ object: JsonObject | null; read: ReadMoment; agedMs?: number; isUnusable?: true }> {
    const { kind, id, lane, tries, absentFromList } = request;
    const isAskable = isAddressable(id);
    const needsNumber = !isAskable || absentFromList || kind === 'risk_assessment';
    const [number, began] = [needsNumber ? await store.currentNumber() : 0, now()];
    if (!isAskable) return { object: null, read: readMoment(clock, number, began, began) };
    try {
      const onRetry = async (error: UpstreamError) => {
        await noteUnreadable(request, error);
        // What was seen before is no witness for the next try.
        request.since = atEarliest();
      };
      const { answer, read } = await upstream.record(kind, id, lane, { tries, onRetry });
      const { agedMs = 0 } = answer;
      return { object: answer.outcome === 'found' ? answer.object : null, read, agedMs };
    } catch (error) {
      if (!upstream.isOwnFault(error)) throw error;
      await countAsMissing(request, error);
      return { object: null, read: readMoment(clock, number, began, now()), isUnusable: true };
    }
  }

  /** Throws the error unless it counts as a 404. */
  async function countAsMissing(request: RefetchRequest, error: UpstreamError): Promise<void> {
    const { kind, id } = request;
    const sign = request.absentFromList ? UNLISTED : await signOfMerge(request);
    if (sign === null) throw error;
    const why = `${sign}, and its own address has no usable answer: ${unreadableText(error)}`;
    const isShown = (await store.shownIds(kind, [id])).length > 0;
    if (!isShown || (await askToDelete(request, why)) === 'pending') throw error;
  }

  async function signOfMerge(request: RefetchRequest): Promise<string | null> {
    const { kind, id, attempts } = request;
    if (kind !== 'risk_assessment') return null;
    if (attempts < PATIENT_TRIES && !(await store.isApproved(kind, id, clock.wall()))) return null;
    return (await readAnother(request, kind, {})) === 'seen' ? OTHERS_SHOWN : null;
  }

  /** Without any other record, only a person knows whether this one is gone or our access. It is read again later. */
  async function askForApproval(request: RefetchRequest, failures: number): Promise<RefetchOutcome> {
    const asked = await askToDelete(request, UNCOMPARED, failures);
    const failed = await retryLater(request, NOT_COMPARED, soonMs(request));
    return asked === null ? failed : { outcome: 'missing', missing: 'pending' };
  }

  async function refetch(request: RefetchRequest): Promise<RefetchOutcome> {
    const { kind, id } = request;
    const isSkipped = !isAddressable(id) && (await store.shownIds(kind, [id])).length > 0;
    if (isSkipped) {
      const isGone =
        request.absentFromList &&
        (await askToDelete(request, `${UNLISTED}, and ${UNASKABLE}`)) === 'approved';
      if (!isGone) return await skipUnaddressable(request);
    }
    try {
      const { object, read, agedMs = 0, isUnusable = false } = await readOwn(request);
      if (object === null) {
        const missing = await judgeMissing(request, read, isUnusable);
        const isFirst = missing.outcome === 'missing' && missing.missing === 'first';
        if (isFirst && agedMs > 0) await waitForAge(request, agedMs);
        return missing;
      }
      const isTooOld = agedMs > timing.settleMs;
      const objects = [{ id, json: JSON.stringify(object) }];
      const applied = (await apply(kind, objects, read, request.syncRunId, isTooOld))[0]!;
      if (applied.outcome === 'unlike') {
        const only = listed(Object.keys(object));
        const what = `the answer for the ${kind} ${JSON.stringify(id)} has none of the fields that it had, only ${only}`;
        await countAsMissing(request, new UpstreamError('malformed', what));
        return await judgeMissing(request, read, true);
      }
      if (applied.witness) upstream.noteWitness(kind, read);
      if (isTooOld && !applied.verified)
        await store.openProblem(unreadable(request), agedText(agedMs), now());
      if (agedMs > 0 && !applied.verified) await waitForAge(request, agedMs);
      return { outcome: 'applied', applied };
    } catch (error) {
      if (!(error instanceof UpstreamError || error instanceof UnaddressableError)) throw error;
      await noteUnreadable(request, error);
      // Saved first, so that the search for a readable record prefers others.
      const isLimited = error instanceof UpstreamError && error.kind === 'rate_limited';
      const waitMs = (isLimited ? error.retryAfterMs : null) ?? soonMs(request);
      const outcome = await retryLater(request, describeError(error), waitMs);
      if (!(error instanceof UpstreamError)) return outcome;
      const isForbidden = error.kind === 'forbidden';
      const isLasting = error.kind === 'server' && request.attempts + request.tries >= READ_TRIES;
      if ((isForbidden || isLasting) && request.witnesses > 0) await judgeAlone(request, error);
      const isOwn = error.kind === 'server' || upstream.isOwnFault(error);
      return { ...outcome, isOwn };
    }
  }

  /** What a cache has given decides nothing yet: the next read waits until an answer of the same age can be newer than every event so far. */
  const waitForAge = (request: RefetchRequest, agedMs: number) =>
    retryLater(request, agedText(agedMs), Math.min(agedMs + timing.settleMs, READ_BACKOFF.longestMs));

  /** If another record of the kind can be read, the failure is about this one alone. Otherwise a 403 is about our credentials. */
  async function judgeAlone(request: RefetchRequest, error: UpstreamError): Promise<void> {
    const { kind, id } = request;
    const asked = [id];
    while (asked.length <= OTHERS_ASKED && !upstream.isRejected(kind)) {
      const sight = await readAnother(request, kind, { besides: asked, verified: true });
      if (sight === 'none') break;
      if (sight === 'seen') {
        const text = `${describeError(error)}, while others of its kind can be read`;
        return await store.openProblem(unreadable(request), text, now(), text);
      }
    }
    if (error.kind === 'forbidden') await upstream.noteForbidden(kind, error, asked.length);
  }

  /** The API shows no such record. */
  async function judgeMissing(
    request: RefetchRequest,
    read: ReadMoment,
    isUnusable: boolean,
  ): Promise<RefetchOutcome> {
    const { kind, id, since } = request;
    const how = {
      timing,
      absentFromList: request.absentFromList,
      witnessedAfter: false,
      isUnusable,
      patience: Number.POSITIVE_INFINITY,
      relivedPatience: PATIENT_TRIES,
      witnessedAt: upstream.witnessedAt(kind, read.beganAt),
      // A witness read since this refetch began is recent enough, however long the budget made the refetch wait.
      witnessFrom: Math.min(read.beganAt - timing.settleMs, since),
    };
    let outcome = await store.recordMissing(kind, id, read, how);
    const needed = outcome === 'unwitnessed' ? 2 : outcome === 'witnessed_before' ? 1 : null;
    if (needed !== null && request.witnesses >= needed) {
      const witness = await seekWitness(request);
      // A proof takes a witness before its last 404 and one after it. With one witness it would be wrong while a proxy has lost
      // its path to the API: the witness may be the first answer after that time, or the only one between two such times.
      if (witness === 'seen' && needed === 2) return await refetch({ ...request, witnesses: 1 });
      // A witness read long after the 404, because the budget or the service made it wait, says nothing about that moment.
      const isAtOnce = clock.steady() - read.endedAt <= Math.max(timing.settleMs, AT_ONCE_MS);
      if (witness === 'seen' && isAtOnce)
        outcome = await store.recordMissing(kind, id, read, { ...how, witnessedAfter: true });
      if (witness !== 'seen') {
        // Without a record to compare with, a deletion that an event announced is believed. Records that are all gone, or fail for good,
        // must not wait for each other for ever.
        const patience = witness === 'none' ? 0 : PATIENT_TRIES;
        outcome = await store.recordMissing(kind, id, read, { ...how, patience });
        if (outcome === 'unwitnessed')
          return await askForApproval(request, Math.max(patience, FAILURES_BEFORE_ASKING));
      }
    }
    if (outcome === 'unwitnessed' || outcome === 'witnessed_before')
      return retryLater(request, NOT_COMPARED, soonMs(request));
    if (outcome === 'unresolved_event') return await judgeNamed(request);
    if (outcome === 'unresolved') return await keepUnresolved(request, outcome);
    return { outcome: 'missing', missing: outcome };
  }

  /** An event names this id, and the API has never shown it: it may be another thing's. Only once the API shows another record, its 404 says so. */
  async function judgeNamed(request: RefetchRequest): Promise<RefetchOutcome> {
    const sight = request.witnesses === 2 ? await seekWitness(request) : 'none';
    if (sight === 'seen') return await refetch({ ...request, witnesses: 1 });
    if (sight === 'failed' && request.attempts < PATIENT_TRIES)
      return retryLater(request, NOT_COMPARED, soonMs(request));
    return await keepUnresolved(request, 'unresolved_event');
  }

  /** For the problem of an id that the API has never shown. */
  async function unknownText({ kind, id }: RefetchRequest): Promise<string> {
    const why = isAddressable(id) ? NEVER_SHOWN : UNASKABLE;
    const about = { kind, recordId: id };
    const [event] = await store.unknownEvents(about, { limit: 1 }, options.pointers);
    if (event === undefined) return why;
    const looks = candidatesText(payloadIn(event.body), kind, [id]);
    return `${why}; does ${pointersSettingOf(kind)} fit? In event ${event.id}, ${looks}`;
  }

  /** Only a person, or a list, knows more of the id. It is asked for again now and then. */
  async function keepUnresolved(request: RefetchRequest, missing: MissingOutcome): Promise<RefetchOutcome> {
    const { kind, id } = request;
    const text = await unknownText(request);
    // First, since with the problem the record does not count as unverified any more.
    const asked = kind === 'risk_assessment' ? await askToDelete(request, NEVER_SHOWN) : null;
    await store.openProblem({ reason: 'unknown_record', kind, recordId: id }, text, now());
    await retryLater(request, text, seldomMs(request));
    return { outcome: 'missing', missing: asked === null ? missing : 'pending' };
  }

  return (request: Omit<RefetchRequest, 'since' | 'witnesses'>): Promise<RefetchOutcome> =>
    refetch({ ...request, since: atEarliest(), witnesses: 2 });
}

import { type Candidate, idCandidatesIn } from '../compliance/candidates.ts';
import { UpstreamError } from '../compliance/errors.ts';
import { DELETE_TYPES } from '../compliance/kinds.ts';
import { isDefault, payloadIn, pointersSettingOf } from '../compliance/pointers.ts';
import { momentOf } from '../platform/clock.ts';
import { describeError } from '../platform/errors.ts';
import type { ProvenPointer, ProvisionalRules, Unknown, UnknownEvent } from '../store/store.ts';
import type { Context } from './context.ts';
import type { Upstream } from './upstream.ts';

/** The newest events of one problem, which are looked at: not every payload shows the id, and not every record lives. */
const EVENTS_LOOKED = 10;
/** Events taken from the database at a time to be read again. */
const EVENTS_AT_ONCE = 100;

/** What the API said of the values that look like ids. */
export interface Found {
  /** From now on events are read with it. Null: none was proven. */
  pointer: ProvenPointer | null;
  /** Events whose record is known now. */
  retried: number;
  /** What was found, and what a person can do, in sentences. */
  says: string;
}

/** Finds the records of events in which the pointers find no id, or one that the API has never shown. Only when a person asks. */
export function createUnknownRecords(
  options: Pick<Context, 'store' | 'clock' | 'signal'> & {
    rules: ProvisionalRules;
    upstream: Pick<Upstream, 'shows'>;
    /** A record became dirty. */
    onFound: () => void;
  },
) {
  const { store, upstream, rules, signal } = options;
  const now = () => momentOf(options.clock);

  /** Processes again all events that the pointers find another record in by now. Sends no request. */
  async function retryAll(): Promise<number> {
    let retried = 0;
    for (let before: number | undefined; !signal.aborted; ) {
      const limit = EVENTS_AT_ONCE;
      const events = await store.unknownEvents(
        null,
        before === undefined ? { limit } : { before, limit },
        rules.pointers,
      );
      for (const { id, recordId, named } of events) {
        if (named === null || named === recordId) continue;
        const tried = await store.retryEvent(id, rules, now());
        if (tried.outcome === 'processed') retried += 1;
      }
      if (events.length < limit) break;
      before = events.at(-1)!.seq;
    }
    if (retried > 0) options.onFound();
    return retried;
  }

  /** Those of the candidates that are records now. Rejects with UpstreamError. */
  async function shownOf({ kind }: UnknownEvent, candidates: readonly Candidate[]): Promise<Candidate[]> {
    // A policy has no address of its own.
    if (kind === 'policy') {
      const shown = new Set(
        await store.shownIds(
          kind,
          candidates.map(({ id }) => id),
        ),
      );
      return candidates.filter(({ id }) => shown.has(id));
    }
    const shown: Candidate[] = [];
    for (const candidate of candidates)
      if (await upstream.shows(kind, candidate.id, 'person')) shown.push(candidate);
    return shown;
  }

  /** The one value that is a record's id, proven; or why none is. */
  async function proofIn(event: UnknownEvent, about: Unknown): Promise<Candidate | string> {
    const { kind, type } = event;
    // Its record is gone, so an id in it that is still answered with a record is another one's.
    if (DELETE_TYPES.has(type)) return 'it announces a deletion, so the API cannot show its record';
    const candidates = idCandidatesIn(payloadIn(event.body), kind).filter(({ id }) => id !== about.recordId);
    if (candidates.length === 0) return 'nothing else in it looks like an id';
    const shown = await shownOf(event, candidates);
    const [one, ...others] = shown;
    if (one === undefined) return `the API shows no record for ${named(candidates)}`;
    if (others.length > 0) return `several values in it are ids of a ${kind}: ${named(shown)}`;
    const before = candidates.slice(0, candidates.indexOf(one));
    if (candidates.some((other) => other !== one && other.place <= one.place))
      return `${named([one])} is a record, but ${named(before.length > 0 ? before : candidates)} may be its id as well, of one that is gone`;
    // While a path is lost, every answer is a 404. So each 404 counts only between two answers with the record.
    const again = candidates.length === 1 ? [one] : await shownOf(event, [...before, one]);
    return again.length === 1 && again[0] === one
      ? one
      : 'the answers of the API changed meanwhile: try again';
  }

  return {
    retryAll,

    /**
     * Asks the API once for what looks like an id in the newest events of the problem. A place that is proven is kept, and all events that
     * can be read with it are.
     */
    async find(about: Unknown): Promise<Found> {
      const { kind, recordId } = about;
      const setting = pointersSettingOf(kind);
      const events = await store.unknownEvents(about, { limit: EVENTS_LOOKED }, rules.pointers);
      let why = 'no event of it is kept, or only a delivery in quarantine, which you can read';
      for (const event of events) {
        const proof = await proofIn(event, about).catch((error: unknown) => {
          if (!(error instanceof UpstreamError)) throw error;
          return `the API could not be asked: ${describeError(error)}`;
        });
        if (typeof proof === 'string') {
          if (event === events[0]) why = `event ${event.id}: ${proof}`;
          continue;
        }
        const leads = recordId !== null;
        const pointer: ProvenPointer = {
          kind,
          path: proof.path,
          leads,
          eventId: event.id,
          recordId: proof.id,
        };
        await store.learnPointer(pointer, now());
        const retried = await retryAll();
        const kept = `${proof.path} holds the id of a ${kind}: the API shows ${proof.id}. Events are read there from now on`;
        const isBehind = leads && !isDefault(kind, rules.pointers);
        const rest = isBehind
          ? `, but ${setting} goes first: put ${proof.path} in front of it, and restart`
          : '';
        return { pointer, retried, says: `${kept}${rest}. Events whose record is known now: ${retried}.` };
      }
      const retried = await retryAll();
      const says = `No place was proven: ${why}. If you know where the id is, set ${setting} to its path and restart; if there is no such record, dismiss the event or resolve the problem.`;
      return { pointer: null, retried, says };
    },
  };
}

const named = (some: readonly Candidate[]) => some.map(({ path, id }) => `${path} = ${id}`).join(', ');

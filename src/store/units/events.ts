import { createHash } from 'node:crypto';
import { contentHashOf, parseJson } from '../../compliance/json.ts';
import type { Kind } from '../../compliance/kinds.ts';
import {
  assessmentsNamedIn,
  DEFAULT_ID_POINTERS,
  type IdPointers,
  isObject,
  isUsableId,
  type JsonObject,
  payloadIn,
  recordIdIn,
  withLearned,
} from '../../compliance/pointers.ts';
import { noRecordIn } from '../../mirror/merge.ts';
import { senderOf } from '../../platform/addresses.ts';
import { describeError, StoreUnavailable } from '../../platform/errors.ts';
import type { Database, Sql, Unit } from '../database.ts';
import { CONFLICTING, type EventState } from '../reports.ts';
import { events, rejections, trimmedEvents } from '../schema.ts';
import { sql } from '../statement.ts';
import type {
  AcceptOutcome,
  CountedRejection,
  DirtyTiming,
  IncomingEvent,
  Now,
  ProvisionalRules,
  RetryOutcome,
  UnusableDelivery,
} from '../values.ts';
import { learnedPointers } from './backfill.ts';
import { rejectionNumber } from './deliveries.ts';
import {
  forgetUnnamed,
  IS_WAITING,
  problemsOfDelivery,
  resolveDismissed,
  resolveSettled,
} from './delivery-problems.ts';
import { makeKnown } from './due.ts';
import { openProblem } from './problems.ts';
import { applyAll, type PendingEvent, readEvent, waitsForProcessing } from './processing.ts';
import { keyOf, loadRecords } from './records.ts';
import { EVENTS, markDirty } from './saving.ts';
import { firstRow, insertInto, iso, update } from './sql.ts';
import { trimBodiesAgainFrom } from './upkeep.ts';

/** Rejected deliveries kept for each reason. Six reasons can have bodies, of 16 KB at most: 49 MB if all are full. */
export const REJECTIONS_KEPT = 500;

type StoredEvent = Omit<PendingEvent, 'kind' | 'receivedWall'> & {
  /** Null: its type belongs to no known family, so it was ignored. */
  kind: Kind | null;
  receivedAt: string;
  state: EventState;
};

/** Accepting and rejecting deliveries, and what people do about those that were not understood. */
export function createEventVerbs(database: Database) {
  const failAgain = (to: Sql, id: string, error: string, processedAt: string) => {
    const failed = { attempts: sql`${events.attempts} + 1`, error, processedAt };
    return to.change(update(events, failed, sql`id = ${id} AND state = 'failed'`));
  };

  async function take(
    unit: Unit,
    arrived: readonly IncomingEvent[],
    known: Known,
    unusable: readonly UnusableDelivery[],
    now: Now,
    { timing, pointers }: Pick<ProvisionalRules, 'timing' | 'pointers'>,
  ): Promise<AcceptOutcome[]> {
    const seen = new Set(known.ids);
    const accepted = arrived.map((event) => {
      const isNew = !seen.has(event.id);
      seen.add(event.id);
      return { event, seq: isNew ? unit.numbers.next() : null };
    });
    const fresh = accepted.flatMap(({ event, seq }) => (seq === null ? [] : [{ ...event, seq }]));
    unit.write(
      EVENTS,
      fresh.map((event) => rowOf(event, iso(now.wall))),
    );
    const dirtied = fresh.flatMap(({ kind, recordId: id, seq: number }) =>
      kind === null || id === null ? [] : [{ kind, id, number }],
    );
    markDirty(unit, dirtied, now, timing, known.verified);
    for (const event of fresh)
      if (!waitsForProcessing(event)) await makeNamedKnown(unit, event, now, pointers);
    const again = accepted.flatMap(({ event, seq }) => (seq === null ? event : []));
    const conflicting = await noteRepeats(unit, again, iso(now.wall));
    await keepUnusable(unit, { conflicting, unusable }, now, timing, pointers);
    return accepted.map(({ event, seq }): AcceptOutcome => {
      if (seq !== null) return { status: 'accepted', seq };
      return { status: 'duplicate', conflicting: conflicting.includes(event) };
    });
  }

  return {
    /** Outcomes are in the order of `events`. Assessments that are named in events without processing become known here. */
    accept: (
      {
        events: arrived,
        unusable,
      }: { events: readonly IncomingEvent[]; unusable: readonly UnusableDelivery[] },
      now: Now,
      timing: DirtyTiming,
      pointers: IdPointers = DEFAULT_ID_POINTERS,
    ): Promise<AcceptOutcome[]> =>
      database.transact(
        (unit, known) => take(unit, arrived, known, unusable, now, { timing, pointers }),
        (first: Sql) => knownOf(first, arrived),
        'beside',
      ),

    /** Takes the events of a quarantined delivery after all, and settles it. Null: it does not wait for a person. */
    acceptQuarantined: (
      id: string,
      arrived: readonly IncomingEvent[],
      now: Now,
      rules: Pick<ProvisionalRules, 'timing' | 'pointers'>,
    ): Promise<AcceptOutcome[] | null> =>
      database.transact(async (unit) => {
        const nowIso = iso(now.wall);
        const about = await settleQuarantined(unit, id, nowIso);
        if (about === null) return null;
        const known = await knownOf(unit, arrived);
        const outcomes = await take(unit, arrived, known, [], now, rules);
        await resolveDismissed(unit, about.kind, about.recordId, nowIso, true);
        return outcomes;
      }),

    /**
     * Reads a failed event again, with these pointers and the learned ones. If it cannot be read, it stays failed. Also reads a processed
     * event whose record the API has never shown. If it names another record now, the former one is removed once nothing names it.
     */
    async retryEvent(id: string, rules: ProvisionalRules, now: Now): Promise<RetryOutcome> {
      const nowIso = iso(now.wall);
      try {
        return await database.transact(async (unit): Promise<RetryOutcome> => {
          const [row] = await unit.query<StoredEvent>(
            sql`SELECT seq, id, type, created, created_ms AS "createdMs", kind, record_id AS "recordId", body, attempts,
                received_at AS "receivedAt", state
              FROM events WHERE id = ${id}`,
          );
          if (row === undefined) return { outcome: 'unknown' };
          const { state, receivedAt, kind, ...stored } = row;
          const isFailed = state === 'failed';
          const mayRetry = isFailed || (await hasUnshownRecord(unit, row));
          if (kind === null || !mayRetry) return { outcome: 'other_state', state };
          if (stored.body === null) return { outcome: 'trimmed' };
          const learned = await learnedPointers(unit);
          const data = payloadIn(stored.body);
          const recordId = recordIdIn(data, kind, withLearned(rules.pointers, learned));
          const namesAnother = recordId !== null && recordId !== stored.recordId;
          if (!isFailed && !namesAnother) return { outcome: 'other_state', state };
          if (recordId === null) {
            const error = noRecordIn(kind, data, rules.pointers);
            await failAgain(unit, id, error, nowIso);
            return { outcome: 'failed', error };
          }
          const again = { state: 'pending', attempts: 0, nextAttemptAt: null };
          unit.send(update(events, again, sql`seq = ${stored.seq}`));
          // Without a record, so that `applyAll` uses the learned pointers too, and marks the record dirty.
          const event = { ...stored, kind, recordId: null, receivedWall: Date.parse(receivedAt) };
          const batch = { unit, records: new Map(), learned, rules, now };
          await applyAll(batch, [readEvent(event, rules.pointers)]);
          await trimBodiesAgainFrom(unit, stored.seq);
          await resolveSettled(unit, kind, stored.recordId, nowIso);
          if (stored.recordId !== null) await forgetUnnamed(unit, kind, stored.recordId, nowIso);
          return { outcome: 'processed', kind, recordId };
        });
      } catch (failure) {
        if (failure instanceof StoreUnavailable) throw failure;
        const error = describeError(failure);
        await database.transact((unit) => failAgain(unit, id, error, nowIso));
        return { outcome: 'failed', error };
      }
    },

    /**
     * Gives up a pending or failed event, or a quarantined delivery (`rejection:N`). The record of the latter becomes dirty, so that the API
     * is asked; of what no list shows, a person settles with it what it was about. False: nothing like that has this id.
     */
    async dismissDelivery(id: string, now: Now, timing: DirtyTiming): Promise<boolean> {
      const nowIso = iso(now.wall);
      return await database.transact(async (unit) => {
        const [event] = await unit.query<
          Pick<PendingEvent, 'seq' | 'kind' | 'recordId'> & { state: EventState }
        >(sql`SELECT seq, state, kind, record_id AS "recordId" FROM events WHERE id = ${id}`);
        if (event !== undefined) {
          if (event.state !== 'failed' && event.state !== 'pending') return false;
          const dismissed = { state: 'dismissed', processedAt: nowIso, nextAttemptAt: null };
          await unit.change(update(events, dismissed, sql`seq = ${event.seq}`));
          await trimBodiesAgainFrom(unit, event.seq);
          if (event.state === 'failed') await resolveSettled(unit, event.kind, event.recordId, nowIso);
          return true;
        }
        const about = await settleQuarantined(unit, id, nowIso);
        if (about === null) return false;
        const { kind, recordId } = about;
        if (kind !== null && recordId !== null)
          markDirty(unit, [{ kind, id: recordId, number: unit.numbers.next() }], now, timing);
        await resolveDismissed(unit, kind, recordId, nowIso);
        return true;
      });
    },

    /** Keeps `REJECTIONS_KEPT` of each reason: the newest of each sender, then the second newest, so that a flood replaces only its own. */
    async recordRejections(rejected: readonly CountedRejection[]): Promise<void> {
      await database.transact(async (unit) => {
        for (const { wall, ...rejection } of rejected) {
          const network = senderOf(rejection.address);
          const named = namedIn(rejection.body);
          const row = { ...rejection, receivedAt: iso(wall), outcome: 'rejected', network, ...named };
          unit.send(insertInto(rejections, row));
        }
        const reasons = [...new Set(rejected.map((rejection) => rejection.reason))];
        unit.send(
          sql`DELETE FROM rejections WHERE id IN (
            SELECT id FROM (
              SELECT id, row_number() OVER (PARTITION BY reason ORDER BY nth, id DESC) AS place FROM (
                SELECT id, reason, row_number() OVER (PARTITION BY reason, network ORDER BY id DESC) AS nth
                FROM rejections WHERE outcome = 'rejected' AND ${unit.dialect.isAmong(rejections.reason, reasons)}) AS senders) AS places
            WHERE place > ${REJECTIONS_KEPT})`,
        );
      });
    },
  };
}

/** What is known of arrived events. */
interface Known {
  /** Their ids that were accepted before. */
  ids: ReadonlySet<string>;
  /** The keys of their records that are verified. */
  verified: ReadonlySet<string>;
}

/** With one statement, since all others wait meanwhile. */
async function knownOf({ query, dialect }: Sql, arrived: readonly IncomingEvent[]): Promise<Known> {
  if (arrived.length === 0) return { ids: new Set(), verified: new Set() };
  const ids = arrived.map(({ id }) => id);
  const records = arrived.map(({ kind, recordId: id }) => ({ kind, id }));
  const rows = await query<{ id: string; kind: Kind | null }>(
    sql`SELECT id, NULL AS kind FROM events WHERE ${dialect.isAmong(events.id, ids)}
      UNION ALL SELECT id, NULL FROM trimmed_events WHERE ${dialect.isAmong(trimmedEvents.id, ids)}
      UNION ALL SELECT s.id, s.kind FROM ${dialect.given(['kind', 'id'], records)} CROSS JOIN record_state AS s
        WHERE s.kind = given.kind AND s.id = given.id AND s.unverified_since IS NULL`,
  );
  return {
    ids: new Set(rows.flatMap(({ id, kind }) => (kind === null ? id : []))),
    verified: new Set(rows.flatMap(({ id, kind }) => (kind === null ? [] : keyOf(kind, id)))),
  };
}

function rowOf(event: IncomingEvent & { seq: number }, receivedAt: string) {
  const isPending = waitsForProcessing(event);
  return {
    ...event,
    created: new Date(event.createdMs),
    ...{ receivedAt, lastDeliveredAt: receivedAt },
    ...{ state: isPending ? 'pending' : 'ignored', processedAt: isPending ? null : receivedAt },
  };
}

/** An event's content for comparison: its body, or once that is trimmed, its hash. */
interface Content {
  id: string;
  contentHash: string | null;
  body: string | null;
}

/** Counts redeliveries. Returns those whose content differs from the event's with the same id. */
async function noteRepeats(
  unit: Unit,
  again: readonly IncomingEvent[],
  nowIso: string,
): Promise<IncomingEvent[]> {
  if (again.length === 0) return [];
  const { dialect } = unit;
  const times = new Map<string, number>();
  for (const { id } of again) times.set(id, (times.get(id) ?? 0) + 1);
  const ids = [...times.keys()];
  const contents = await unit.query<Content>(
    sql`SELECT id, content_hash AS "contentHash", body FROM events WHERE ${dialect.isAmong(events.id, ids)}
      UNION ALL SELECT id, content_hash, NULL FROM trimmed_events WHERE ${dialect.isAmong(trimmedEvents.id, ids)}`,
  );
  const before = new Map(contents.map((content) => [content.id, content]));
  const conflicting = again.filter(({ id, body }) => !isContent(before.get(id)!, body));
  const counted = dialect.given(
    ['id', 'times'],
    ids.map((id) => ({ id, times: String(times.get(id)) })),
  );
  unit.send(
    sql`UPDATE events SET deliveries = deliveries + CAST(given.times AS integer), last_delivered_at = ${dialect.instant(nowIso)}
      FROM ${counted} WHERE events.id = given.id`,
  );
  return conflicting;
}

function isContent({ contentHash, body }: Content, again: string): boolean {
  return body === again || contentHashOf(again) === (contentHash ?? contentHashOf(body ?? ''));
}

/** Nobody has to act on the quarantined delivery any more. Returns what it is about; null: nobody had to. */
async function settleQuarantined(unit: Unit, id: string, dismissedAt: string) {
  const number = rejectionNumber(id);
  if (number === null) return null;
  return await firstRow<{ kind: Kind | null; recordId: string | null }>(
    unit,
    sql`${update(rejections, { dismissedAt }, sql`id = ${number} AND ${IS_WAITING}`)} RETURNING kind, record_id AS "recordId"`,
  );
}

/** Whether the event was processed, and neither the API nor an event has ever shown its record. */
async function hasUnshownRecord(unit: Unit, { kind, recordId, state }: StoredEvent): Promise<boolean> {
  if (kind === null || recordId === null || (state !== 'processed' && state !== 'ignored')) return false;
  const record = (await loadRecords(unit, kind, [recordId])).get(recordId);
  return record?.row === null;
}

/** Keeps signed deliveries that are no usable events, as quarantined, marks their records dirty, and opens problems. */
async function keepUnusable(
  unit: Unit,
  { conflicting, unusable }: { conflicting: readonly IncomingEvent[]; unusable: readonly UnusableDelivery[] },
  now: Now,
  timing: DirtyTiming,
  pointers: IdPointers,
): Promise<void> {
  const keep = async (
    { reason, t, kind, recordId, address = null, body }: UnusableDelivery,
    isConflicting: boolean,
    error: string,
  ) => {
    const bodySha256 = createHash('sha256').update(body).digest('hex');
    const kept = {
      reason,
      t,
      kind,
      recordId,
      address,
      body,
      bytes: body.length,
      bodySha256,
      ...namedIn(body),
    };
    unit.send(insertInto(rejections, { receivedAt: iso(now.wall), outcome: 'quarantined', ...kept }));
    if (kind !== null && recordId !== null)
      markDirty(unit, [{ kind, id: recordId, number: unit.numbers.next() }], now, timing);
    await makeNamedKnown(unit, { kind, body }, now, pointers);
    for (const problem of problemsOfDelivery(isConflicting, kind, recordId))
      await openProblem(unit, problem, error, now, timing);
  };
  for (const event of conflicting) {
    const delivery = { ...event, reason: CONFLICTING, body: Buffer.from(event.body) };
    await keep(
      delivery,
      true,
      `the id ${event.id} was received before with other content; this one is in quarantine`,
    );
  }
  for (const delivery of unusable) {
    const reason = delivery.reason.replaceAll('_', ' ');
    await keep(delivery, false, `a signed delivery is in quarantine: ${reason}`);
  }
}

/** Makes the assessments known that are named in a delivery which is never processed. */
async function makeNamedKnown(
  unit: Unit,
  { kind, body }: Pick<UnusableDelivery, 'kind'> & { body: Uint8Array | string },
  now: Now,
  pointers: IdPointers,
): Promise<void> {
  if (kind === null) return;
  const { data } = objectIn(body);
  const named = assessmentsNamedIn(isObject(data) ? data : {}, kind, pointers);
  await makeKnown(unit, 'risk_assessment', named, now);
}

/** Larger bodies are not parsed for their id and type, since a stranger may have sent them. */
const NAMED_WITHIN_BYTES = 64 * 1024;

/** Id and type in a body that was not accepted. Null: it cannot be read, or has no usable text there. */
function namedIn(body: Uint8Array | null): { eventId: string | null; type: string | null } {
  const { id, type } = body === null || body.length > NAMED_WITHIN_BYTES ? {} : objectIn(body);
  return { eventId: isUsableId(id) ? id : null, type: isUsableId(type) ? type : null };
}

/** The JSON object in a body; empty if there is none. */
function objectIn(body: Uint8Array | string): JsonObject {
  try {
    const value: unknown = parseJson(typeof body === 'string' ? body : Buffer.from(body).toString('utf8'));
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

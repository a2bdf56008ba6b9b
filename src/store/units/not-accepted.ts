import { createHash } from 'node:crypto';
import { parseJson } from '../../compliance/json.ts';
import {
  DEFAULT_ID_POINTERS,
  type IdPointers,
  isObject,
  isUsableId,
  type JsonObject,
} from '../../compliance/pointers.ts';
import { senderOf } from '../../inbox/rejections.ts';
import { assessmentsNamedIn } from '../../process/payload.ts';
import type { Database, Unit } from '../database.ts';
import { CONFLICTING } from '../reports.ts';
import { quarantine, rejections } from '../schema.ts';
import {
  type DirtyTiming,
  type InboxStore,
  type IncomingEvent,
  type Now,
  OLD_REJECTIONS_LOOKED_AT,
  REJECTION_KEPT_MS,
  REJECTIONS_KEPT,
  type UnusableDelivery,
} from '../store.ts';
import { makeKnown } from './due.ts';
import { coverableAt, gapOfQuarantined, openGap } from './gaps.ts';
import type { Records } from './records.ts';
import { insertInto, iso, sql } from './sql.ts';

/** Deliveries that are not taken in as events: their content is kept, what they seem to be about is read, and a gap says so. */
export async function keepUnusable(
  unit: Unit,
  records: Pick<Records, 'dirty'>,
  { conflicting, unusable }: { conflicting: readonly IncomingEvent[]; unusable: readonly UnusableDelivery[] },
  now: Now,
  timing: DirtyTiming,
  pointers: IdPointers = DEFAULT_ID_POINTERS,
): Promise<void> {
  const nowIso = iso(now.wall);
  const deliveries = [...conflicting.map(conflictOf), ...unusable];
  for (const [nth, { reason, t, kind, recordId, address = null, body }] of deliveries.entries()) {
    const bodySha256 = createHash('sha256').update(body).digest('hex');
    const kept = {
      receivedAt: nowIso,
      reason,
      t,
      kind,
      recordId,
      address,
      body,
      bodySha256,
      ...namedIn(body),
    };
    unit.send(insertInto(quarantine, kept));
    if (kind !== null && recordId !== null)
      records.dirty(unit, [{ kind, id: recordId, number: unit.numbers.next() }], now, timing);
    await makeNamedKnown(unit, { kind, body }, now, pointers);
    const before = conflicting[nth];
    const what = before === undefined ? 'unusable_delivery' : CONFLICTING;
    const gap = gapOfQuarantined(what, kind, recordId);
    const error =
      before === undefined
        ? `a signed delivery is in quarantine: ${reason.replaceAll('_', ' ')}`
        : `the id ${before.id} was received before with other content`;
    await openGap(unit, gap, error, nowIso, coverableAt(gap, now, timing));
  }
}

/** Of what no other step reads: the assessments that it names become known. */
export async function makeNamedKnown(
  unit: Unit,
  { kind, body }: Pick<UnusableDelivery, 'kind'> & { body: Uint8Array | string },
  now: Now,
  pointers: IdPointers = DEFAULT_ID_POINTERS,
): Promise<void> {
  const named = kind === null ? [] : assessmentsNamedIn(payloadOf(Buffer.from(body)), kind, pointers);
  await makeKnown(unit, 'risk_assessment', named, now);
}

/** A stranger's body is read for what it is searched by only while that costs little. Bytes. */
const NAMED_WITHIN = 64 * 1024;
/** The event that a body names, as far as it can be read at all. Null: no such text, or a longer one than any event's. */
function namedIn(body: Uint8Array | null): { eventId: string | null; type: string | null } {
  const { id, type } = body === null || body.length > NAMED_WITHIN ? {} : objectIn(body);
  return { eventId: isUsableId(id) ? id : null, type: isUsableId(type) ? type : null };
}

/** Empty where it is none, or none that can be read. */
function objectIn(body: Uint8Array): JsonObject {
  try {
    const value: unknown = parseJson(Buffer.from(body).toString('utf8'));
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

function payloadOf(body: Uint8Array | null): JsonObject {
  const data = body === null ? undefined : objectIn(body)['data'];
  return isObject(data) ? data : {};
}

const conflictOf = ({ t, body, kind, recordId, address }: IncomingEvent): UnusableDelivery => ({
  reason: CONFLICTING,
  ...{ t, kind, recordId, address: address ?? null, body: Buffer.from(body) },
});

export const createRejectionVerbs = (database: Database): Pick<InboxStore, 'recordRejections'> => ({
  async recordRejections(rejected) {
    await database.transact(async (unit) => {
      for (const { wall, ...rejection } of rejected) {
        const network = senderOf(rejection.address);
        const named = namedIn(rejection.body);
        unit.send(insertInto(rejections, { ...rejection, at: iso(wall), network, ...named }));
      }
      const { id, at, reason, network } = rejections;
      const newest = Math.max(...rejected.map(({ wall }) => wall));
      unit.send(
        sql`DELETE FROM ${rejections} WHERE ${id} IN (SELECT ${id} FROM ${rejections} ORDER BY ${id} LIMIT ${OLD_REJECTIONS_LOOKED_AT})
          AND ${at} < ${iso(newest - REJECTION_KEPT_MS)}`,
      );
      const reasons = [...new Set(rejected.map((rejection) => rejection.reason))];
      unit.send(
        sql`DELETE FROM ${rejections} WHERE ${id} IN (
          SELECT id FROM (
            SELECT id, row_number() OVER (PARTITION BY reason ORDER BY nth, id DESC) AS place FROM (
              SELECT ${id}, ${reason}, row_number() OVER (PARTITION BY ${reason}, ${network} ORDER BY ${id} DESC) AS nth
              FROM ${rejections} WHERE ${unit.dialect.isAmong(reason, reasons)}) AS senders) AS places
          WHERE place > ${REJECTIONS_KEPT})`,
      );
    });
  },
});

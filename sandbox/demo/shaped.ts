import type { Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import type { MirrorRecords, MirrorRow, UpstreamRecords } from './compare.ts';

/** The form of the stand-in's answers and events, as far as it is of account here: of `/_sandbox/shapes`. */
export interface Shapes {
  /** Places, dotted; null: they carry none. */
  ids: Readonly<Record<Kind, { rows: string; read: string | null; events: string | null; numbers: boolean }>>;
  registration: { secret: string | null };
  statuses: 'snake' | 'upper' | 'title';
}

/**
 * Both sides as far as they can be compared field by field where the stand-in shows its records in another form than it
 * holds them: whatever carries the record's own id is left out, by which they are paired; and upstream's words for a
 * status and its references are as the API writes them. Pure.
 */
export function comparable(
  mirror: MirrorRecords,
  upstream: UpstreamRecords,
  shapes: Shapes,
): { mirror: MirrorRecords; upstream: UpstreamRecords } {
  const rows = (kind: Kind) => {
    const fields = idFields(kind, shapes);
    return new Map(
      [...mirror[kind]].map(([id, row]): [string, MirrorRow] => [
        id,
        { ...row, data: without(row.data, fields) },
      ]),
    );
  };
  const records = (kind: Kind) => {
    const fields = new Set([OWN_ID[kind]]);
    return new Map(
      [...upstream[kind]].map(([id, record]) => [id, shown(without(record, fields), shapes)] as const),
    );
  };
  return { mirror: byKind(rows), upstream: byKind(records) };
}

/** One for each kind. */
const byKind = <T>(of: (kind: Kind) => T) => ({
  ...{ policy: of('policy'), risk_assessment: of('risk_assessment'), vendor: of('vendor') },
});

/** Where the stand-in keeps a record's own id. */
const OWN_ID: Readonly<Record<Kind, string>> = { policy: 'policyId', risk_assessment: 'id', vendor: 'id' };
/** How a record of another kind names an assessment there. */
const REFERENCE = 'riskAssessmentId';

/** A place such as `vendor.ref` may be seen from outside, or from within `vendor`. */
function idFields(kind: Kind, { ids }: Shapes): ReadonlySet<string> {
  const { rows, read, events } = ids[kind];
  return new Set([rows, read, events].flatMap((place) => place?.split('.') ?? []));
}

function without(object: JsonObject, fields: ReadonlySet<string>): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([field]) => !fields.has(field)));
}

function shown(record: JsonObject, { ids, statuses }: Shapes): JsonObject {
  const { status, [REFERENCE]: reference } = record;
  const isNumber =
    ids.risk_assessment.numbers && typeof reference === 'string' && /^[1-9]\d*$/.test(reference);
  return {
    ...record,
    ...(typeof status === 'string' ? { status: statusIn(statuses, status) } : {}),
    ...(isNumber ? { [REFERENCE]: Number(reference) } : {}),
  };
}

function statusIn(words: Shapes['statuses'], status: string): string {
  if (words === 'upper') return status.toUpperCase();
  if (words === 'title') return (status.charAt(0).toUpperCase() + status.slice(1)).replaceAll('_', ' ');
  return status;
}

import { isDeepStrictEqual } from 'node:util';
import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';

/** The columns of a row in the mirror's three tables that are compared. */
export interface MirrorRow {
  id: string;
  name: string | null;
  /** Policies only. */
  version: string | null;
  status: string | null;
  data: JsonObject;
  deleted_at: string | null;
}

export type MirrorRecords = Readonly<Record<Kind, ReadonlyMap<string, MirrorRow>>>;
export type UpstreamRecords = Readonly<Record<Kind, ReadonlyMap<string, JsonObject>>>;

/** The ids are where the sandbox's API has them. */
const ID_FIELDS = { policy: 'policyId', risk_assessment: 'id', vendor: 'id' } as const;

export function upstreamRecords(list: (kind: Kind) => readonly JsonObject[]): UpstreamRecords {
  const of = (kind: Kind) => new Map(list(kind).map((record) => [String(record[ID_FIELDS[kind]]), record]));
  return { policy: of('policy'), risk_assessment: of('risk_assessment'), vendor: of('vendor') };
}

export interface Difference {
  kind: Kind;
  id: string;
  /** `(missing)`, `deleted_at`, a column, or `data.FIELD`. */
  fields: { field: string; mirror: unknown; upstream: unknown }[];
}

/** The field of a record that the mirror does not have. */
const MISSING = '(missing)';

/**
 * Compares record by record and field by field, both ways: records that only upstream has, records that only the mirror
 * shows alive, and every field of records that both have. `unknowable`: assessments that no client can find. The mirror may
 * lack them, but if it has one it must be right.
 */
export function compare(
  mirror: MirrorRecords,
  upstream: UpstreamRecords,
  unknowable: ReadonlySet<string>,
): Difference[] {
  return KINDS.flatMap((kind) => {
    const ids = new Set([...upstream[kind].keys(), ...mirror[kind].keys()]);
    return [...ids].sort().flatMap((id) => {
      const row = mirror[kind].get(id);
      const record = upstream[kind].get(id);
      if (row === undefined && kind === 'risk_assessment' && unknowable.has(id)) return [];
      const fields = compareRecord(kind, row, record);
      return fields.length > 0 ? [{ kind, id, fields }] : [];
    });
  });
}

function compareRecord(
  kind: Kind,
  row: MirrorRow | undefined,
  record: JsonObject | undefined,
): Difference['fields'] {
  if (record === undefined) {
    const isGone = row === undefined || row.deleted_at !== null;
    return isGone ? [] : [{ field: 'deleted_at', mirror: null, upstream: 'deleted' }];
  }
  if (row === undefined) return [{ field: MISSING, mirror: undefined, upstream: 'exists' }];
  if (row.deleted_at !== null) return [{ field: 'deleted_at', mirror: row.deleted_at, upstream: 'exists' }];

  const columns =
    kind === 'policy' ? (['name', 'version', 'status'] as const) : (['name', 'status'] as const);
  const inColumns = columns
    .map((column) => ({ field: column as string, mirror: row[column], upstream: textOf(record[column]) }))
    .filter(({ mirror, upstream }) => mirror !== upstream);
  const inData = [...new Set([...Object.keys(record), ...Object.keys(row.data)])]
    .filter((field) => !isDeepStrictEqual(ownField(row.data, field), ownField(record, field)))
    // A column is made from the field, so the same difference is named only once.
    .filter((field) => !inColumns.some((column) => column.field === field))
    .map((field) => ({
      field: `data.${field}`,
      mirror: ownField(row.data, field),
      upstream: ownField(record, field),
    }));
  return [...inColumns, ...inData];
}

function ownField(object: JsonObject, field: string): unknown {
  return Object.hasOwn(object, field) ? object[field] : undefined;
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

/**
 * Assessments that no client can find, because assessments have no list: no event about them was delivered (`unannounced`),
 * and no other record names them.
 */
export function unknowableAssessments(upstream: UpstreamRecords, unannounced: Iterable<string>): Set<string> {
  const records = [...upstream.policy.values(), ...upstream.vendor.values()];
  const named = new Set(
    records.flatMap((record) => ASSESSMENT_REFERENCES.map((field) => ownField(record, field))),
  );
  return new Set([...unannounced].filter((id) => !named.has(id)));
}

/** The fields in which a policy or a vendor names an assessment, by the default of ID_POINTERS_RISK_ASSESSMENT. */
const ASSESSMENT_REFERENCES = ['riskAssessmentId', 'assessmentId', 'riskId'];

/** One line each, for differences that nothing resolved. */
export function describeDifferences(differences: readonly Difference[]): string[] {
  return differences.map(({ kind, id, fields }) => {
    const parts = fields.map(
      ({ field, mirror, upstream }) => `${field} (mirror: ${shown(mirror)}, upstream: ${shown(upstream)})`,
    );
    return `${kind} ${id}: ${parts.join(', ')}`;
  });
}

function shown(value: unknown): string {
  return value === undefined ? 'absent' : JSON.stringify(value);
}

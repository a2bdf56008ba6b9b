import type { Kind } from '../src/compliance/kinds.ts';
import { DEFAULT_ID_POINTERS, isDeeper, type JsonObject, recordIdIn } from '../src/compliance/pointers.ts';
import { policySchema, riskAssessmentSchema, vendorSchema } from './schemas.ts';

/** The field that holds a record's id in the API's answers. */
export const ID_FIELDS = {
  policy: 'policyId',
  risk_assessment: 'id',
  vendor: 'id',
} as const satisfies Record<Kind, string>;

/** The field that holds it in an event's data. */
export const EVENT_ID_FIELDS = {
  policy: 'policyId',
  risk_assessment: 'riskAssessmentId',
  vendor: 'vendorId',
} as const satisfies Record<Kind, string>;

export const ID_PREFIXES = {
  policy: 'policy-',
  risk_assessment: 'risk-',
  vendor: 'vendor-',
} as const satisfies Record<Kind, string>;

export const RECORD_SCHEMAS = {
  policy: policySchema,
  risk_assessment: riskAssessmentSchema,
  vendor: vendorSchema,
} as const;

/** A bound on memory, well above the few hundred vendors and policies that real companies keep. */
export const MAX_RECORDS_PER_KIND = 50_000;

/** More than any reader has to take, far less than what ends JSON.stringify: one such record would fail every list. */
export const MAX_RECORD_DEPTH = 500;

export const isTooDeep = (record: JsonObject): boolean => isDeeper(record, MAX_RECORD_DEPTH);

export function recordId(kind: Kind, record: JsonObject): string {
  return String(record[ID_FIELDS[kind]]);
}

/**
 * The pointers of the kind's own ids under which a reader would find another one in `record` than its id, or null.
 * Such a record is refused: a reader that goes by the names of the specification would misread it.
 */
export function misreadId(kind: Kind, record: JsonObject): string | null {
  if (recordIdIn(record, kind, DEFAULT_ID_POINTERS) === recordId(kind, record)) return null;
  return DEFAULT_ID_POINTERS[kind].filter((pointer) => pointer !== ID_FIELDS[kind]).join(', ');
}

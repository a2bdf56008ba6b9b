import { z } from 'zod';
import type { Kind } from '../src/compliance/kinds.ts';
import { DEFAULT_ID_POINTERS, isDeeper, type JsonObject, recordIdIn } from '../src/compliance/pointers.ts';
import { RECORD_SCHEMAS } from './schemas.ts';

interface RecordNames {
  /** In texts, and as a heading of the page. */
  name: string;
  title: string;
  /** In the OpenAPI document, and below `/v1`. */
  type: string;
  path: string;
  /** In seed files and in the state. */
  section: 'policies' | 'riskAssessments' | 'vendors';
  /** The field that holds a record's id in the API's answers, and in an event's data. */
  idField: string;
  eventIdField: string;
  idPrefix: string;
  /** Values of fields that a new record lacks. */
  defaults: JsonObject;
}

export const NAMES = {
  policy: {
    name: 'policy',
    title: 'Policies',
    type: 'Policy',
    path: '/policies',
    section: 'policies',
    idField: 'policyId',
    eventIdField: 'policyId',
    idPrefix: 'policy-',
    defaults: { version: '1.0' },
  },
  risk_assessment: {
    name: 'risk assessment',
    title: 'Risk assessments',
    type: 'RiskAssessment',
    path: '/risk-assessments',
    section: 'riskAssessments',
    idField: 'id',
    eventIdField: 'riskAssessmentId',
    idPrefix: 'risk-',
    defaults: {},
  },
  vendor: {
    name: 'vendor',
    title: 'Vendors',
    type: 'Vendor',
    path: '/vendors',
    section: 'vendors',
    idField: 'id',
    eventIdField: 'vendorId',
    idPrefix: 'vendor-',
    defaults: {},
  },
} as const satisfies Record<Kind, RecordNames>;

/** A bound on memory, well above the few hundred vendors and policies that real companies keep. */
export const MAX_RECORDS_PER_KIND = 50_000;

/** More than readers must accept, but far less than JSON.stringify can take: a deeper record would break every list. */
const MAX_RECORD_DEPTH = 500;

export function recordId(kind: Kind, record: JsonObject): string {
  return String(record[NAMES[kind].idField]);
}

/** What is wrong with a record, as a sentence that follows its name; null: nothing. */
export function flawOf(kind: Kind, record: JsonObject): string | null {
  if (isDeeper(record, MAX_RECORD_DEPTH)) return `is nested more than ${MAX_RECORD_DEPTH} deep.`;
  const parsed = RECORD_SCHEMAS[kind].safeParse(record);
  if (!parsed.success) return `does not fit: ${z.prettifyError(parsed.error)}`;
  const id = recordId(kind, record);
  if (recordIdIn(record, kind, DEFAULT_ID_POINTERS) === id) return null;
  // A reader that uses the names of the specification would find the wrong id.
  const others = DEFAULT_ID_POINTERS[kind].filter((pointer) => pointer !== NAMES[kind].idField);
  return `has another id besides ${id}, in one of: ${others.join(', ')}.`;
}

/**
 * What an event says of its record. Policy events have the four fields of the specification. It does not show risk and vendor
 * events: they have the whole record here, with its id in a field that names the kind.
 */
export function eventData(kind: Kind, record: JsonObject): JsonObject {
  const { idField, eventIdField } = NAMES[kind];
  const { [idField]: id, ...rest } = record;
  if (kind !== 'policy') return { [eventIdField]: id, ...rest };
  return { [eventIdField]: id, name: rest.name, version: rest.version, status: rest.status };
}

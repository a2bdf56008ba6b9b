import type { EventType, Kind } from '../compliance/kinds.ts';
import type { JsonObject } from '../compliance/pointers.ts';
import { EVENT_ID_FIELDS, ID_FIELDS, recordId } from './records.ts';

export interface SandboxEvent {
  id: string;
  type: EventType;
  /** ISO 8601, UTC, milliseconds. */
  created: string;
  data: JsonObject;
}

/** What risk and vendor events say about their record; the specification does not show it. */
type Payloads = 'thin' | 'full';

/** Policy events hold the four fields of the specification whatever `payloads` says. */
export function eventData(kind: Kind, record: JsonObject, payloads: Payloads): JsonObject {
  const id = recordId(kind, record);
  if (kind === 'policy') {
    return { policyId: id, name: record.name, version: record.version, status: record.status };
  }
  if (payloads === 'thin') return { [EVENT_ID_FIELDS[kind]]: id };
  const { [ID_FIELDS[kind]]: _, ...fields } = record;
  return { [EVENT_ID_FIELDS[kind]]: id, ...fields };
}

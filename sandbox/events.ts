import type { EventType, Kind } from '../src/compliance/kinds.ts';
import type { JsonObject } from '../src/compliance/pointers.ts';
import { ID_FIELDS } from './records.ts';
import type { Shapes } from './shapes.ts';
import { shapedEventData } from './shaping.ts';

export interface SandboxEvent {
  id: string;
  type: EventType;
  /** ISO 8601, UTC, milliseconds. */
  created: string;
  data: JsonObject;
}

/** What risk and vendor events say about their record; the specification does not show it. */
type Payloads = 'thin' | 'full';

/** Policy events hold the four fields of the specification whatever `payloads` says; their form is that of `shapes`. */
export function eventData(
  kind: Kind,
  record: JsonObject,
  options: { payloads: Payloads; shapes: Shapes; eventId: string },
): JsonObject {
  const told = fieldsTold(kind, record, options.payloads);
  return shapedEventData(kind, told, `about-${options.eventId}`, options.shapes);
}

function fieldsTold(kind: Kind, record: JsonObject, payloads: Payloads): JsonObject {
  if (kind === 'policy') {
    return { policyId: record.policyId, name: record.name, version: record.version, status: record.status };
  }
  return payloads === 'thin' ? { [ID_FIELDS[kind]]: record[ID_FIELDS[kind]] } : record;
}

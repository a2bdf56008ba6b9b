import { isKnownType, type Kind } from '../compliance/kinds.ts';
import {
  type IdPointers,
  idFieldsOf,
  type JsonObject,
  recordContentIn,
  recordIdIn,
  referencesIn,
} from '../compliance/pointers.ts';

/** What the mirror takes from an event's payload. */
export type Reading = {
  /** Other assessments that it names. No list shows assessments, so this is how they become known. */
  assessments: string[];
} & (
  | {
      usable: true;
      /** The record's own part of the payload. */
      content: JsonObject;
      /** It shows more of the record than its id. */
      shows: boolean;
    }
  | { usable: false; error: string }
);

/**
 * Whether an event waits for processing once it is accepted. One of an unknown type is ignored, and its record is read. If its
 * record is unknown too, the event was not understood, and processing reports that.
 */
export const waitsForProcessing = (event: {
  known: boolean;
  kind: Kind | null;
  recordId: string | null;
}): boolean => event.known || (event.kind !== null && event.recordId === null);

/** The state of an event after processing. One of an unknown type only has its record read. */
export function stateAfter({
  event,
  outcome,
}: {
  event: { type: string };
  outcome: string;
}): 'processed' | 'failed' | 'ignored' {
  if (outcome === 'failed') return 'failed';
  return isKnownType(event.type) ? 'processed' : 'ignored';
}

/** Of a payload that names no record. */
export const noRecordIn = (kind: Kind, pointers: IdPointers): string =>
  `the payload holds no id of a ${kind} at any of ${pointers[kind].join(', ')}`;

/** Pure. `kind` is that of the event's type; `data` is its payload. */
export function readPayload(kind: Kind, data: JsonObject, pointers: IdPointers): Reading {
  const assessments = assessmentsNamedIn(data, kind, pointers);
  if (recordIdIn(data, kind, pointers) === null) {
    return { usable: false, error: noRecordIn(kind, pointers), assessments };
  }
  const content = recordContentIn(data, kind, pointers);
  const idFields = idFieldsOf(pointers);
  return {
    usable: true,
    content,
    shows: Object.keys(content).some((field) => !idFields.has(field)),
    assessments,
  };
}

/** The risk assessments that a document about another kind names. */
export function assessmentsNamedIn(document: JsonObject, kind: Kind, pointers: IdPointers): string[] {
  return referencesIn(document, kind, pointers)
    .filter((reference) => reference.kind === 'risk_assessment')
    .map((reference) => reference.id);
}

import { parseJson } from '../compliance/json.ts';
import { isKnownType, type Kind, kindOfType } from '../compliance/kinds.ts';
import {
  type IdPointers,
  idFieldsOf,
  type JsonObject,
  recordContentIn,
  recordIdIn,
  referencesIn,
} from '../compliance/pointers.ts';

/** What an event's payload comes to for the mirror. */
export type Reading = {
  /** Assessments it names besides: nothing lists those, so a mention is how they become known. */
  assessments: string[];
} & (
  | {
      usable: true;
      /** The record's own part of the payload. */
      content: JsonObject;
      /** It shows something of the record besides which one it is. */
      shows: boolean;
    }
  | { usable: false; error: string }
);

/** Of a delivery as received. */
export function payloadIn(body: string): JsonObject {
  return (parseJson(body) as { data: JsonObject }).data;
}

/**
 * Whether an event waits for processing once it is accepted. One of an unknown type does not: it is ignored, and its record
 * read. But where the record cannot be told either, it is one that was not understood, and processing says so.
 */
export const waitsForProcessing = (event: {
  known: boolean;
  kind: Kind | null;
  recordId: string | null;
}): boolean => event.known || (event.kind !== null && event.recordId === null);

/** Which record a stored event is about, told anew from its body. Pure. */
export function recordOf(
  event: { type: string; body: string },
  pointers: IdPointers,
): { kind: Kind; recordId: string } | null {
  const kind = kindOfType(event.type);
  const recordId = kind === null ? null : recordIdIn(payloadIn(event.body), kind, pointers);
  return kind === null || recordId === null ? null : { kind, recordId };
}

/** What an event comes to that was processed: one of an unknown type has no effect but to have its record read. */
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

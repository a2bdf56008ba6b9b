import { isKnownType, type Kind } from '../compliance/kinds.ts';
import {
  type IdPointers,
  idFieldsOf,
  type JsonObject,
  recordContentIn,
  recordIdIn,
  referencesIn,
} from '../compliance/pointers.ts';

/** The parts of an event's payload that the mirror uses. */
export type Reading = {
  /** Other assessments that it names. No list shows assessments, so they become known by being named. */
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
 * Whether an accepted event waits for processing. An event of an unknown type does not: its record is only read. But if no record
 * is found in it either, processing reports that the event was not understood.
 */
export const waitsForProcessing = (event: {
  known: boolean;
  kind: Kind | null;
  recordId: string | null;
}): boolean => event.known || (event.kind !== null && event.recordId === null);

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

/** The error of an event whose payload names no record. */
export const noRecordIn = (kind: Kind, pointers: IdPointers): string =>
  `the payload holds no id of a ${kind} at any of ${pointers[kind].join(', ')}`;

/** `kind` is the kind of the event's type, and `data` its payload. Pure. */
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

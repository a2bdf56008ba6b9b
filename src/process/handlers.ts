import type { Kind } from '../compliance/kinds.ts';
import {
  type IdPointers,
  idFieldsOf,
  type JsonObject,
  recordContentIn,
  recordIdIn,
  referencesIn,
} from '../compliance/pointers.ts';

/** What an event's payload comes to for the mirror. */
export type Reading =
  | {
      usable: true;
      /** The record's own part of the payload. */
      content: JsonObject;
      /** It shows something of the record besides which one it is. */
      shows: boolean;
      /** Assessments it names besides: nothing lists those, so a mention is how they become known. */
      assessments: string[];
    }
  | { usable: false; error: string };

/** Of a delivery as received. */
export function payloadIn(body: string): JsonObject {
  return (JSON.parse(body) as { data: JsonObject }).data;
}

/** Pure. `kind` is that of the event's type; `data` is its payload. */
export function readPayload(kind: Kind, data: JsonObject, pointers: IdPointers): Reading {
  if (recordIdIn(data, kind, pointers) === null) {
    return {
      usable: false,
      error: `the payload holds no id of a ${kind} at any of ${pointers[kind].join(', ')}`,
    };
  }
  const content = recordContentIn(data, kind, pointers);
  const idFields = idFieldsOf(pointers);
  return {
    usable: true,
    content,
    shows: Object.keys(content).some((field) => !idFields.has(field)),
    assessments: assessmentsNamedIn(data, kind, pointers),
  };
}

/** The risk assessments that a document about another kind names. */
export function assessmentsNamedIn(document: JsonObject, kind: Kind, pointers: IdPointers): string[] {
  return referencesIn(document, kind, pointers)
    .filter((reference) => reference.kind === 'risk_assessment')
    .map((reference) => reference.id);
}

import { KINDS, type Kind } from './kinds.ts';

export type JsonObject = { [field: string]: unknown };

/** For each kind, where its id may sit in a document, as dotted paths tried in order. */
export type IdPointers = Readonly<Record<Kind, readonly string[]>>;

/** An id longer than this, or with control characters or a lone surrogate in it, is not taken for one. */
export const MAX_ID_LENGTH = 255;

export function isUsableId(value: unknown): value is string {
  return (
    typeof value === 'string' &&
    value.length > 0 &&
    value.length <= MAX_ID_LENGTH &&
    !/[\u0000-\u001f\u007f]/.test(value) &&
    value.isWellFormed()
  );
}

/**
 * False for an id that no request path can carry: `.` and `..` are normalised away even when percent-encoded,
 * so asking for them would ask for another resource.
 */
export function isAddressable(id: string): boolean {
  return id !== '.' && id !== '..';
}

/** The id of the record of `kind` that `document` is about, or null. */
export function recordIdIn(document: JsonObject, kind: Kind, pointers: IdPointers): string | null {
  for (const pointer of pointers[kind]) {
    const value = valueAt(document, pointer);
    if (isUsableId(value)) return value;
    // Numbers are ids in many services; taken as their decimal text.
    if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value);
  }
  return null;
}

/**
 * The object in `document` that holds the record's own fields: the one its id sits in (`vendor` for `vendor.id`),
 * else the document itself.
 */
export function recordContentIn(document: JsonObject, kind: Kind, pointers: IdPointers): JsonObject {
  for (const pointer of pointers[kind]) {
    if (valueAt(document, pointer) === undefined) continue;
    const cut = pointer.lastIndexOf('.');
    return cut < 0 ? document : (valueAt(document, pointer.slice(0, cut)) as JsonObject);
  }
  return document;
}

/** The top-level fields that may carry an id of any kind. */
export function idFieldsOf(pointers: IdPointers): ReadonlySet<string> {
  return new Set(KINDS.flatMap((kind) => pointers[kind]).map((pointer) => pointer.split('.')[0] ?? pointer));
}

/**
 * Records of other kinds that a document about `kind` names. A pointer that both kinds share, such as a bare
 * `id`, names the document's own record and never another.
 */
export function referencesIn(
  document: JsonObject,
  kind: Kind,
  pointers: IdPointers,
): { kind: Kind; id: string }[] {
  const references: { kind: Kind; id: string }[] = [];
  for (const other of KINDS) {
    if (other === kind) continue;
    for (const pointer of pointers[other]) {
      if (pointers[kind].includes(pointer)) continue;
      const value = valueAt(document, pointer);
      if (!isUsableId(value)) continue;
      references.push({ kind: other, id: value });
      break;
    }
  }
  return references;
}

function valueAt(document: JsonObject, pointer: string): unknown {
  let value: unknown = document;
  for (const step of pointer.split('.')) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
    if (!Object.hasOwn(value, step)) return undefined;
    value = (value as JsonObject)[step];
  }
  return value;
}

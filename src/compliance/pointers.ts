import { parseJson, wholeNumber } from './json.ts';
import { KINDS, type Kind } from './kinds.ts';

export type JsonObject = { [field: string]: unknown };

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Names are compared without their case, and without what stands between their words. */
export const plainName = (name: string): string => name.toLowerCase().replace(/[^a-z\d]/g, '');

/** Levels of nesting in a document, itself counted. Deeper ones are refused, because later code such as JSON.stringify recurses. */
export const MAX_DEPTH = 64;

/** Whether the value nests more than `levels` objects and arrays, itself counted. Recurses no deeper than that. */
export function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}

/** The payload of an event, from its body as received. */
export const payloadIn = (body: string): JsonObject => (parseJson(body) as { data: JsonObject }).data;

/** For each kind the dotted paths at which a document may have the record's id, tried in order. */
export type IdPointers = Readonly<Record<Kind, readonly string[]>> & { readonly rules?: FieldRules };

/** The columns that repeat a field of a record. */
export const COLUMNS = ['name', 'version', 'status'] as const;
export type Column = (typeof COLUMNS)[number];

/** A setting's entry: of this kind, or of all. */
export type FieldPath<Of = unknown> = { kind: Kind | null; path: string } & Of;

/** What else the settings say of records' fields. Paths are dotted. */
export interface FieldRules {
  /** Where columns are, in place of the usual fields. */
  fields: readonly FieldPath<{ column: Column }>[];
  /** Fields that may change with each answer: they are stored, and are no difference. */
  ignored: readonly FieldPath[];
  /** What marks a record as deleted: a path, or `path=value`. */
  deleted: readonly string[];
}

/** An archived record is not deleted. */
export const DEFAULT_DELETED_MARKERS = [
  ...['deleted', 'isDeleted', 'deletedAt', 'deletedOn', 'deletedDate', 'dateDeleted', 'deleteTime'],
  ...['removed', 'isRemoved', 'removedAt', 'tombstone', 'metadata.deletionTimestamp'],
  ...['meta.deleted', 'meta.deletedAt'],
  ...['status=deleted', 'status=removed', 'state=deleted', 'state=removed'],
];

export const USUAL_FIELDS: Readonly<Record<Column, readonly string[]>> = {
  name: ['name', 'Name', 'title', 'Title'],
  version: ['version', 'Version'],
  status: ['status', 'Status'],
};

/** The paths in the specification, and where it shows none, those that its names suggest. */
export const DEFAULT_ID_POINTERS = {
  policy: ['policyId', 'policy.id', 'id'],
  risk_assessment: ['riskAssessmentId', 'assessmentId', 'riskId', 'risk.id', 'id'],
  vendor: ['vendorId', 'vendor.id', 'id'],
} as const satisfies IdPointers;

/** A longer text is no id, nor is one with control characters or a lone surrogate. */
export const MAX_ID_LENGTH = 255;

export function isUsableId(value: unknown): value is string {
  return (
    typeof value === 'string' &&
    value.length > 0 &&
    value.length <= MAX_ID_LENGTH &&
    !/\p{Cc}/u.test(value) &&
    value.isWellFormed()
  );
}

/** A value that may be an id; null: it is none. A number is taken as its decimal text, because many services have such ids. */
export const idTextOf = (value: unknown): string | null => (isUsableId(value) ? value : wholeNumber(value));

const UUID = /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/i;

/** Ids are compared exactly, but UUIDs without their case. So each id of a record enters in this form, whoever names it. */
export const recordIdOf = (id: string): string => (UUID.test(id) ? id.toLowerCase() : id);

/** The ids in a file: one a line, without blank lines and lines that begin with #. */
export function idLines(text: string): string[] {
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  return lines.filter((line) => line !== '' && !line.startsWith('#')).map(recordIdOf);
}

/**
 * Whether a request path can carry the id. `.` and `..` are normalised away even when percent-encoded, so the request would ask
 * for another resource.
 */
export function isAddressable(id: string): boolean {
  return id !== '.' && id !== '..';
}

/**
 * The id of the record of `kind` that `document` is about; null: the pointers find none. Only its own address shows an
 * assessment, so an id that no path can carry is not taken for an assessment's.
 */
export function recordIdIn(document: JsonObject, kind: Kind, pointers: IdPointers): string | null {
  const path = pathOfId(document, kind, pointers);
  return path === undefined ? null : idAt(document, path, kind);
}

const pathOfId = (document: JsonObject, kind: Kind, pointers: IdPointers): Path | undefined =>
  pathsOf(pointers).own[kind].find((path) => idAt(document, path, kind) !== null);

/** For people: why `recordIdIn` finds no id. */
export function whyNoId(document: JsonObject, kind: Kind, pointers: IdPointers): string {
  for (const path of pathsOf(pointers).own[kind]) {
    const value = valueAt(document, path);
    if (value !== undefined && value !== null) return `has ${wrongWith(value)} at ${path.join('.')}`;
  }
  return `has no id at any of ${pointers[kind].join(', ')}`;
}

function wrongWith(value: unknown): string {
  if (typeof value === 'number') return 'a number that is not whole';
  if (typeof value !== 'string') return 'neither text nor a number';
  if (value === '') return 'an empty id';
  if (value.length > MAX_ID_LENGTH) return `an id longer than ${MAX_ID_LENGTH} characters`;
  return value.isWellFormed() ? 'an id with a control character' : 'an id with half a character';
}

/** Whether any of the kind's pointers finds `id`, even if an earlier one finds another. */
export function hasRecordId(document: JsonObject, kind: Kind, id: string, pointers: IdPointers): boolean {
  return pathsOf(pointers).own[kind].some((path) => idAt(document, path, kind) === id);
}

/** The object that holds the record's fields: the one with its id (`vendor` for `vendor.id`), or the document itself. */
export function recordContentIn(document: JsonObject, kind: Kind, pointers: IdPointers): JsonObject {
  const path = pathOfId(document, kind, pointers) ?? [];
  return valueAt(document, path.slice(0, -1)) as JsonObject;
}

/** A place of a kind's ids in payloads that the API has proven, and that is in no setting. */
export interface LearnedPointer {
  kind: Kind;
  /** Dotted. */
  path: string;
  /** One of the default pointers finds another thing's id, so this one goes before them. */
  leads: boolean;
}

/** With the learned pointers. What a person has set comes first. */
export function withLearned(pointers: IdPointers, learned: readonly LearnedPointer[]): IdPointers {
  if (learned.length === 0) return pointers;
  const byKind = forEachKind((kind) => {
    const ofKind = learned.filter((one) => one.kind === kind);
    const leading = isDefault(kind, pointers) ? ofKind.filter(({ leads }) => leads) : [];
    const paths = (some: readonly LearnedPointer[]) => some.map(({ path }) => path);
    return [...new Set([...paths(leading), ...pointers[kind], ...paths(ofKind)])];
  });
  return { ...pointers, ...byKind };
}

/** Whether nobody has set the kind's pointers. */
export const isDefault = (kind: Kind, pointers: IdPointers): boolean =>
  pointers[kind].join() === DEFAULT_ID_POINTERS[kind].join();

const forEachKind = <T>(of: (kind: Kind) => T) =>
  Object.fromEntries(KINDS.map((kind) => [kind, of(kind)])) as Record<Kind, T>;

/** The name of the setting that holds a kind's pointers. */
export const pointersSettingOf = (kind: Kind): string => `ID_POINTERS_${kind.toUpperCase()}`;

/** The top-level fields that may carry an id of any kind. */
export function idFieldsOf(pointers: IdPointers): ReadonlySet<string> {
  return pathsOf(pointers).idFields;
}

/**
 * The assessments that a document about another kind names. A pointer that both kinds have, such as `id`, names the document's
 * own record.
 */
export function assessmentsNamedIn(document: JsonObject, kind: Kind, pointers: IdPointers): string[] {
  const ids = pathsOf(pointers).assessments[kind].map((path) => idAt(document, path, 'risk_assessment'));
  return ids.filter((id) => id !== null).slice(0, 1);
}

/** False: the document names no assessment. `json`: the document as JSON.stringify writes it. */
export function mayNameAssessment(json: string, kind: Kind, pointers: IdPointers): boolean {
  return pathsOf(pointers).assessmentKeys[kind].some((key) => json.includes(key));
}

/** The text of a column: a field's text, or but for names its whole number; null: no such field has one. */
export function columnIn(
  document: JsonObject,
  kind: Kind,
  column: Column,
  pointers: IdPointers,
): string | null {
  for (const path of pathsOf(pointers).columns[kind][column]) {
    const value = valueAt(document, path);
    // A column is UTF-8 and cannot hold half a surrogate pair. Otherwise the row would differ from its record in each read.
    const text =
      typeof value === 'string' ? value.toWellFormed() : column === 'name' ? null : wholeNumber(value);
    if (text !== null) return text;
  }
  return null;
}

/** Where a column is, for SQL that compares it with the document. */
export const columnPaths = (
  kind: Kind,
  column: Column,
  pointers: IdPointers,
): readonly (readonly string[])[] => pathsOf(pointers).columns[kind][column];

/** Of each kind the fields that are no difference, as paths. */
export const ignoredFields = (pointers: IdPointers): Readonly<Record<Kind, readonly (readonly string[])[]>> =>
  pathsOf(pointers).ignored;

/** The document says that its record is deleted: by a word for yes, by when, or by a status. `nowMs`: when it was read, since 1970. */
export function isMarkedDeleted(document: JsonObject, pointers: IdPointers, nowMs: number): boolean {
  const { markersAt } = pathsOf(pointers);
  return Object.keys(document).some((name) =>
    markersAt(name).some((marker) => marks(document[name], marker.path.slice(1), marker)),
  );

  function marks(found: unknown, [step, ...rest]: Path, marker: Marker): boolean {
    const { value, isOwn } = marker;
    if (step === undefined)
      return value === null
        ? isMark(found, nowMs, isOwn)
        : typeof found === 'string' && found.toLowerCase() === value;
    return (
      isObject(found) &&
      Object.keys(found).some((name) => isNamed(name, step) && marks(found[name], rest, marker))
    );
  }
}

/** Names without a Latin letter are compared as they are. */
const isNamed = (name: string, step = ''): boolean =>
  name === step || (plainName(name) !== '' && plainName(name) === plainName(step));

/** No service of today shows what was deleted before. Earlier days stand for none. */
const FIRST_DELETION_MS = Date.UTC(2000, 0, 1);
/** More than clocks differ, and time zones that a text leaves out. */
const ZONES_MS = 86_400_000;
/** Numbers count seconds, or thousandths, millionths or billionths of one. */
const MS_PER_UNIT = [1e3, 1, 1e-3, 1e-6];
const COUNT = /^(?:\/Date\()?(-?\d+)(?:\.\d+)?(?:[+-]\d{4})?(?:\)\/)?$/;
const YEAR = /(?<!\d)\d{4}(?!\d)|^\d{4}(?=\d{4}(?:\D|$))/;

const NO = /^(0|f|false|n|no|off|none|null|never|n\/?a|-)?$/i;

/**
 * A word for yes, or a day that has been. Any other text may be a word for no in some language, and proves nothing, unless a person has named
 * the field (`isOwn`).
 */
function isMark(value: unknown, nowMs: number, isOwn: boolean): boolean {
  if (value === null || value === false) return false;
  // Of who and when, or a time beside whether there is one.
  if (typeof value === 'object') return Object.values(value).some((inner) => isMark(inner, nowMs, isOwn));
  const text = String(value).trim();
  if (/^(1|t|true|y|yes|on|deleted|removed)$/i.test(text)) return true;
  const hasBeen = (at: number) => at >= FIRST_DELETION_MS && at <= nowMs + ZONES_MS;
  const count = COUNT.exec(text)?.[1];
  if (count !== undefined && MS_PER_UNIT.some((unit) => hasBeen(Number(count) * unit))) return true;
  const year = Number(YEAR.exec(text)?.[0] ?? 0);
  if (count === undefined && year === 0) return isOwn && !NO.test(text);
  const at = Date.parse(text);
  // Date.parse takes the year 0001 for 2001, and knows few languages.
  return hasBeen(Date.UTC(year)) && hasBeen(Number.isNaN(at) ? Date.UTC(year) : at);
}

type Path = readonly string[];

interface Marker {
  path: Path;
  value: string | null;
  /** A person has set it: it is no default. */
  isOwn: boolean;
}

/** More than records have. Names that are data are not all kept. */
const NAMES_KEPT = 10_000;

/** Remembers what has been asked: comparing the names of each record anew was a tenth of the cost of a full sync. */
function markersBegunBy(markers: readonly Marker[]): Paths['markersAt'] {
  const known = new Map<string, readonly Marker[]>();
  return (name) => {
    const found = known.get(name) ?? markers.filter(({ path }) => isNamed(name, path[0]));
    if (known.size < NAMES_KEPT) known.set(name, found);
    return found;
  };
}

interface Paths {
  columns: Readonly<Record<Kind, Readonly<Record<Column, readonly Path[]>>>>;
  ignored: Readonly<Record<Kind, readonly Path[]>>;
  /** The markers that begin with a field of this name. */
  markersAt: (name: string) => readonly Marker[];
  own: Readonly<Record<Kind, readonly Path[]>>;
  /** Where a document about the kind may name assessments, and the first steps of these paths, as JSON text. */
  assessments: Readonly<Record<Kind, readonly Path[]>>;
  assessmentKeys: Readonly<Record<Kind, readonly string[]>>;
  idFields: ReadonlySet<string>;
}

/** Pointers are split once: doing it for every document was a seventh of the cost of an event. */
const takenApart = new WeakMap<IdPointers, Paths>();

function pathsOf(pointers: IdPointers): Paths {
  let paths = takenApart.get(pointers);
  if (paths === undefined) {
    paths = takeApart(pointers);
    takenApart.set(pointers, paths);
  }
  return paths;
}

function takeApart(pointers: IdPointers): Paths {
  const split = (list: readonly string[]) => list.map((pointer) => pointer.split('.'));
  const own = forEachKind((kind) => split(pointers[kind]));
  const assessments = forEachKind((kind) =>
    split(pointers.risk_assessment.filter((pointer) => !pointers[kind].includes(pointer))),
  );
  const { fields, ignored, deleted } = pointers.rules ?? {
    fields: [],
    ignored: [],
    deleted: DEFAULT_DELETED_MARKERS,
  };
  const pathsOfKind = (kind: Kind, some: readonly FieldPath[]) =>
    some.filter((one) => one.kind === null || one.kind === kind).map(({ path }) => path);
  const columnsOf = (kind: Kind) =>
    COLUMNS.map((column) => {
      const set = pathsOfKind(
        kind,
        fields.filter((one) => one.column === column),
      );
      return [column, split(set.length > 0 ? set : USUAL_FIELDS[column])];
    });
  const markers = deleted.map((marker) => {
    const [path = '', value = null] = marker.split('=');
    const isOwn = !DEFAULT_DELETED_MARKERS.includes(marker);
    return { path: path.split('.'), value: value?.toLowerCase() ?? null, isOwn };
  });
  return {
    own,
    columns: forEachKind((kind) => Object.fromEntries(columnsOf(kind)) as Record<Column, Path[]>),
    ignored: forEachKind((kind) => split(pathsOfKind(kind, ignored))),
    markersAt: markersBegunBy(markers),
    assessments,
    assessmentKeys: forEachKind((kind) => assessments[kind].map(([field]) => `${JSON.stringify(field)}:`)),
    idFields: new Set(KINDS.flatMap((kind) => own[kind]).map((path) => path[0] ?? '')),
  };
}

function idAt(document: JsonObject, path: Path, kind: Kind): string | null {
  const id = idTextOf(valueAt(document, path));
  return id === null || (kind === 'risk_assessment' && !isAddressable(id)) ? null : recordIdOf(id);
}

function valueAt(document: JsonObject, path: Path): unknown {
  let value: unknown = document;
  for (const step of path) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
    if (!Object.hasOwn(value, step)) return undefined;
    value = (value as JsonObject)[step];
  }
  return value;
}

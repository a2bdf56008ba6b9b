import { wholeNumber } from './json.ts';
import type { Kind } from './kinds.ts';
import { isAddressable, isUsableId, type JsonObject } from './pointers.ts';

/** A value that may be the id of the record that a payload is about, and its place. */
export interface Candidate {
  path: string;
  id: string;
  /** Its rank among the others of its payload: 0 for the likeliest; equal for equally likely ones. */
  place: number;
  /** A pointer in a setting can name `path`; otherwise only people can read it. */
  isNameable: boolean;
}

/** At most this many of one payload, the likelier ones first: each may cost a request. */
export const MAX_CANDIDATES = 12;

/** Nobody sets a longer pointer. Characters. */
const MAX_PATH_LENGTH = 200;

/** Last words of a key that holds an id, the likelier ones first. */
const ID_WORDS = 'id uuid guid identifier uid ref reference key number no nr code'.split(' ');

/** What a kind's records are called, the more exact word first. */
const OWN_WORDS: Readonly<Record<Kind, readonly string[]>> = {
  policy: ['policy', 'policies'],
  risk_assessment: ['assessment', 'assessments', 'risk', 'risks'],
  vendor: ['vendor', 'vendors', 'supplier', 'suppliers'],
};

/** Other things that a payload may name. An id of one of these is not the record's own. */
const FOREIGN_WORDS: ReadonlySet<string> = new Set(
  [
    'event delivery webhook subscription request trace span correlation session job user actor',
    'author owner assignee reviewer approver person employee by tenant organization organisation org',
    'account workspace company customer team previous parent template control document file task',
    'comment',
  ].flatMap((line) => line.split(' ')),
);

/** A day or an instant, a version or a number, an address. */
const SURELY_NO_ID = /^(?:\d{4}-\d\d-\d\d(?:$|T)|\d+\.[\d.]*$|https?:)/i;

/**
 * Where in the payload the id of the record of `kind` may be, the likeliest first, each id once. Looks at scalars under keys that
 * look like an id's or have the kind's name. Leaves out what a pointer cannot name: keys with a dot, a comma or a space, and
 * what is in a list. Pure.
 */
export function idCandidatesIn(document: JsonObject, kind: Kind): Candidate[] {
  const likely = scalarsIn(document).flatMap((scalar) => {
    const rank = scalar.isNameable ? rankOf(scalar.keys, kind) : null;
    return rank === null ? [] : [{ ...scalar, rank }];
  });
  return inOrder(likely).slice(0, MAX_CANDIDATES);
}

/**
 * All that may be an id, by its key (also of another kind of thing) or by its form, at any place: to be sure that nothing in the
 * payload is a record's id. Without a limit. Pure.
 */
export function everyIdIn(document: JsonObject, kind: Kind): Candidate[] {
  return inOrder(
    scalarsIn(document).flatMap((scalar) => {
      const own = rankOf(scalar.keys, kind);
      if (own === null && !isIdKey(scalar.keys) && !looksLikeId(scalar)) return [];
      return [{ ...scalar, rank: own ?? [OWN_WORDS[kind].length + 1, scalar.keys.length] }];
    }),
  );
}

function inOrder(found: (Scalar & { rank: readonly number[] })[]): Candidate[] {
  found.sort((a, b) => compareRanks(a.rank, b.rank) || (a.path < b.path ? -1 : 1));
  const byId = new Map<string, Candidate>();
  let place = -1;
  let before: readonly number[] | null = null;
  for (const { path, id, rank, isNameable } of found) {
    if (byId.has(id)) continue;
    if (before === null || compareRanks(before, rank) !== 0) place += 1;
    before = rank;
    byId.set(id, { path, id, place, isNameable });
  }
  return [...byId.values()];
}

/** What a request could ask for. */
interface Scalar extends Pick<Candidate, 'path' | 'id' | 'isNameable'> {
  /** Keys from the outermost object to this value; a list adds none. */
  keys: readonly string[];
  isText: boolean;
}

function scalarsIn(document: JsonObject): Scalar[] {
  const found: Scalar[] = [];
  look(document, { keys: [], path: '', isNameable: true });
  return found;

  function look(value: unknown, place: Pick<Scalar, 'keys' | 'path' | 'isNameable'>): void {
    const { keys, path } = place;
    if (Array.isArray(value)) {
      for (const [index, item] of value.entries())
        look(item, { keys, path: `${path}[${index}]`, isNameable: false });
      return;
    }
    if (typeof value !== 'object' || value === null) {
      const id = idOf(value);
      const isNameable = place.isNameable && path.length <= MAX_PATH_LENGTH;
      if (id !== null) found.push({ keys, path, id, isNameable, isText: typeof value === 'string' });
      return;
    }
    for (const [key, inner] of Object.entries(value)) {
      const isNameable = place.isNameable && key !== '' && !/[.,\s]/.test(key);
      look(inner, { keys: [...keys, key], path: path === '' ? key : `${path}.${key}`, isNameable });
    }
  }
}

function idOf(value: unknown): string | null {
  return isUsableId(value) && isAddressable(value) ? value : wholeNumber(value);
}

const looksLikeId = ({ id, isText }: Scalar): boolean =>
  isText && /\d/.test(id) && !/[\s@]/.test(id) && !SURELY_NO_ID.test(id);

/** `assessmentIds` as `assessmentId`. */
const idWordOf = (path: readonly string[]): number =>
  ID_WORDS.indexOf(singular(wordsOf(path.at(-1) ?? '').at(-1) ?? ''));

const isIdKey = (path: readonly string[]): boolean => idWordOf(path) >= 0;

/** Null: it does not look like an id of the kind. Else the smaller the likelier; the first difference decides. */
function rankOf(path: readonly string[], kind: Kind): readonly number[] | null {
  const ends = idWordOf(path);
  const named = OWN_WORDS[kind].indexOf(wordsOf(path.at(-1) ?? '').at(-1) ?? '');
  if (ends < 0 && named < 0) return null;
  // The nearest word before it that names a thing decides whose id it is.
  const whose = path
    .flatMap(wordsOf)
    .reverse()
    .find((word) => OWN_WORDS[kind].includes(word) || isForeign(word, kind));
  if (whose !== undefined && !OWN_WORDS[kind].includes(whose)) return null;
  const owner = whose === undefined ? OWN_WORDS[kind].length : OWN_WORDS[kind].indexOf(whose);
  return [owner, path.length, ends < 0 ? ID_WORDS.length : ends];
}

function isForeign(word: string, kind: Kind): boolean {
  if (FOREIGN_WORDS.has(singular(word))) return true;
  return Object.entries(OWN_WORDS).some(([other, words]) => other !== kind && words.includes(word));
}

const singular = (word: string): string => (word.endsWith('s') ? word.slice(0, -1) : word);

/** `riskAssessmentID`, `risk_assessment_id` and `risk-assessment-id` alike. */
function wordsOf(key: string): string[] {
  return key
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '');
}

function compareRanks(one: readonly number[], two: readonly number[]): number {
  for (const [index, rank] of one.entries()) {
    const difference = rank - (two[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

import type { Kind } from './kinds.ts';
import { isAddressable, isUsableId, type JsonObject } from './pointers.ts';

/** A value that may be the id of the record that a payload is about, and where it stands, as a pointer in a setting. */
export interface Candidate {
  path: string;
  id: string;
  /** How likely it is among the others of its payload: 0 for the likeliest; the same for those that nothing tells apart. */
  place: number;
  /** It stands in a list, so that `path` is for people, and no pointer. */
  isListed: boolean;
}

/** At most this many of one payload: each may cost a request. The likelier ones come first. */
export const MAX_CANDIDATES = 12;

/** A pointer longer than this is nobody's setting. Characters. */
const MAX_PATH_LENGTH = 200;

/** Last words of a key that holds an id, the likelier ones first. */
const ID_WORDS = [
  'id',
  'uuid',
  'guid',
  'identifier',
  'uid',
  'ref',
  'reference',
  'key',
  'number',
  'no',
  'nr',
  'code',
];

/** What a kind's records are called, the more exact word first. */
const OWN_WORDS: Readonly<Record<Kind, readonly string[]>> = {
  policy: ['policy', 'policies'],
  risk_assessment: ['assessment', 'assessments', 'risk', 'risks'],
  vendor: ['vendor', 'vendors', 'supplier', 'suppliers'],
};

/** What else may stand beside a record in a payload. An id of one of these is said not to be the record's own. */
const FOREIGN_WORDS: ReadonlySet<string> = new Set(
  [
    'event',
    'delivery',
    'webhook',
    'subscription',
    'request',
    'trace',
    'span',
    'correlation',
    'session',
    'job',
  ]
    .concat([
      'user',
      'actor',
      'author',
      'owner',
      'assignee',
      'reviewer',
      'approver',
      'person',
      'employee',
      'by',
    ])
    .concat([
      'tenant',
      'organization',
      'organisation',
      'org',
      'account',
      'workspace',
      'company',
      'customer',
      'team',
    ])
    .concat(['previous', 'parent', 'template', 'control', 'document', 'file', 'task', 'comment']),
);

/**
 * Where in the payload the id of the record of `kind` may stand, the likeliest first, each id once. Looks at scalars under
 * keys that look like ids, or that are called as the kind is. What a pointer cannot name is left out: keys with a dot, a
 * comma or a space in them, and what stands in a list, unless that is asked for. Pure.
 */
export function idCandidatesIn(document: JsonObject, kind: Kind, how = { inLists: false }): Candidate[] {
  const found: { path: string; id: string; rank: readonly number[]; isListed: boolean }[] = [];
  look(document, { keys: [], pointer: '', isListed: false });
  found.sort((a, b) => compareRanks(a.rank, b.rank) || (a.path < b.path ? -1 : 1));
  const byId = new Map<string, Candidate>();
  let place = -1;
  let before: readonly number[] | null = null;
  for (const { path, id, rank, isListed } of found) {
    if (byId.size >= MAX_CANDIDATES) break;
    if (byId.has(id)) continue;
    if (before === null || compareRanks(before, rank) !== 0) place += 1;
    before = rank;
    byId.set(id, { path, id, place, isListed });
  }
  return [...byId.values()];

  function look(object: JsonObject, { keys, pointer, isListed }: Place): void {
    for (const [key, value] of Object.entries(object)) {
      if (key === '' || /[.,\s]/.test(key)) continue;
      const path = pointer === '' ? key : `${pointer}.${key}`;
      consider(value, { keys: [...keys, key], pointer: path, isListed });
    }
  }

  function consider(value: unknown, place: Place): void {
    if (Array.isArray(value)) {
      if (!how.inLists) return;
      for (const [index, item] of value.entries())
        consider(item, { ...place, pointer: `${place.pointer}[${index}]`, isListed: true });
      return;
    }
    if (typeof value === 'object' && value !== null) {
      look(value as JsonObject, place);
      return;
    }
    const id = idOf(value);
    const { keys, pointer: path, isListed } = place;
    const rank = id === null ? null : rankOf(keys, kind);
    if (id !== null && rank !== null && path.length <= MAX_PATH_LENGTH)
      found.push({ path, id, rank, isListed });
  }
}

/** Where in a payload. `keys`: those of objects alone. */
interface Place {
  keys: readonly string[];
  pointer: string;
  isListed: boolean;
}

function idOf(value: unknown): string | null {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? String(value) : null;
  return isUsableId(value) && isAddressable(value) ? value : null;
}

/** Null: it does not look like an id of the kind's. Else the smaller the likelier, the first difference decides. */
function rankOf(path: readonly string[], kind: Kind): readonly number[] | null {
  const last = wordsOf(path.at(-1) ?? '');
  // `assessmentIds` as `assessmentId`.
  const ends = ID_WORDS.indexOf(singular(last.at(-1) ?? ''));
  const named = OWN_WORDS[kind].indexOf(last.at(-1) ?? '');
  if (ends < 0 && named < 0) return null;
  // The nearest word before it that says whose it is decides.
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

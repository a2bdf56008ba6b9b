import type { Kind } from './kinds.ts';
import { idTextOf, isAddressable, type JsonObject, MAX_DEPTH, recordIdOf } from './pointers.ts';

/** A value in a payload that may be the record's id. */
export interface Candidate {
  path: string;
  id: string;
  /** The smaller the likelier, and the same for equally likely ones. */
  place: number;
}

/** Of one payload. Each candidate may cost a request. */
export const MAX_CANDIDATES = 12;

/** Characters. Nobody sets a longer pointer. */
const MAX_PATH_LENGTH = 200;

/** The last words of keys that hold ids, the likelier ones first. */
const ID_WORDS = 'id uuid guid identifier uid ref reference key number no nr code'.split(' ');

/** The names of a kind's records, the more exact ones first. */
const OWN_WORDS: Readonly<Record<Kind, readonly string[]>> = {
  policy: ['policy', 'policies'],
  risk_assessment: ['assessment', 'assessments', 'risk', 'risks'],
  vendor: ['vendor', 'vendors', 'supplier', 'suppliers'],
};

/** Other things in payloads, whose ids are not the record's. */
const FOREIGN_WORDS: ReadonlySet<string> = new Set(
  [
    'event delivery webhook subscription request trace span correlation session job user actor',
    'author owner assignee reviewer approver person employee by tenant organization organisation org',
    'account workspace company customer team previous parent template control document file task',
    'comment',
  ].flatMap((line) => line.split(' ')),
);

/**
 * The values that may be the id of the payload's record, the likeliest first, each once: scalars whose key looks like an id's or
 * has the kind's name. Only those that a pointer can name: not in a list, and no key with a dot, a comma or a space. Pure.
 */
export function idCandidatesIn(document: JsonObject, kind: Kind): Candidate[] {
  const known = new Set<string>();
  return scalarsIn(document)
    .flatMap(({ keys, ...scalar }) => {
      const place = placeOf(keys, kind);
      return place === null ? [] : [{ ...scalar, place }];
    })
    .sort((a, b) => a.place - b.place || (a.path < b.path ? -1 : 1))
    .filter(({ id }) => !known.has(id) && known.add(id))
    .slice(0, MAX_CANDIDATES);
}

/** For people: where in the document something looks like the record's id, apart from `others`. Pure. */
export function candidatesText(document: JsonObject, kind: Kind, others: readonly string[] = []): string {
  const found = idCandidatesIn(document, kind).filter(({ id }) => !others.includes(id));
  if (found.length === 0) return 'nothing else in it looks like one';
  return `what looks like one: ${found.map(({ path, id }) => `${path} = ${id}`).join(', ')}`;
}

/** A value that a request could ask for, at a place that a pointer can name. */
interface Scalar extends Pick<Candidate, 'path' | 'id'> {
  /** Keys from the outermost object to this value. */
  keys: readonly string[];
}

function scalarsIn(value: unknown, keys: readonly string[] = []): Scalar[] {
  if (Array.isArray(value)) return [];
  if (typeof value === 'object' && value !== null)
    return Object.entries(value).flatMap(([key, inner]) =>
      key === '' || /[.,\s]/.test(key) ? [] : scalarsIn(inner, [...keys, key]),
    );
  const [id, path] = [idTextOf(value), keys.join('.')];
  if (id === null || !isAddressable(id) || path.length > MAX_PATH_LENGTH) return [];
  return [{ keys, path, id: recordIdOf(id) }];
}

/** How likely the path holds an id of the kind: by whose it is, then by its depth, then by its last word. Null: no id. */
function placeOf(path: readonly string[], kind: Kind): number | null {
  const last = wordsOf(path.at(-1) ?? '').at(-1) ?? '';
  // Singular or plural.
  const ends = ID_WORDS.indexOf(singular(last));
  if (ends < 0 && !OWN_WORDS[kind].includes(last)) return null;
  // The last word of the path that names a thing decides whose id it is.
  const whose = path
    .flatMap(wordsOf)
    .reverse()
    .find((word) => OWN_WORDS[kind].includes(word) || isForeign(word, kind));
  const owner = whose === undefined ? OWN_WORDS[kind].length : OWN_WORDS[kind].indexOf(whose);
  if (owner < 0) return null;
  return (
    (owner * (MAX_DEPTH + 1) + path.length) * (ID_WORDS.length + 1) + (ends < 0 ? ID_WORDS.length : ends)
  );
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

import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { KINDS, type Kind } from '../src/compliance/kinds.ts';
import { DEFAULT_ID_POINTERS, isUsableId, type JsonObject } from '../src/compliance/pointers.ts';
import { describeError, UsageError } from '../src/platform/errors.ts';
import { MACHINES } from './machines.ts';
import {
  EVENT_ID_FIELDS,
  ID_FIELDS,
  ID_PREFIXES,
  isTooDeep,
  MAX_RECORD_DEPTH,
  MAX_RECORDS_PER_KIND,
  misreadId,
  RECORD_SCHEMAS,
} from './records.ts';

/** The records the sandbox starts with; also the shape of a seed file. */
export interface SeedData {
  policies: readonly JsonObject[];
  riskAssessments: readonly JsonObject[];
  vendors: readonly JsonObject[];
}

export const SECTIONS = {
  policy: 'policies',
  risk_assessment: 'riskAssessments',
  vendor: 'vendors',
} as const satisfies Record<Kind, keyof SeedData>;

const rows = z.array(z.looseObject({})).max(MAX_RECORDS_PER_KIND).default([]);
const seedSchema = z.strictObject({ policies: rows, riskAssessments: rows, vendors: rows });

/**
 * Reads `{"policies":[…],"riskAssessments":[…],"vendors":[…]}`; a section may be left out. A row without an id
 * gets one from its place (`vendor-0001`), without a status its kind's first one; its other fields are kept.
 * Throws a UsageError that names the file and the row.
 */
export function loadSeed(path: string): SeedData {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(`The seed file cannot be read: ${describeError(error)}`);
  }
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (error) {
    throw new UsageError(`The seed file ${path} is not JSON: ${describeError(error)}`);
  }
  const parsed = seedSchema.safeParse(document);
  if (!parsed.success) {
    throw new UsageError(
      `The seed file ${path} does not have the expected shape: ${z.prettifyError(parsed.error)}`,
      'It is an object with the arrays policies, riskAssessments and vendors, each of objects.',
    );
  }
  try {
    return normaliseSeed(parsed.data);
  } catch (error) {
    throw new UsageError(`The seed file ${path}: ${describeError(error)}`);
  }
}

/** Gives each row its id, status and, for policies, version. Throws an Error that names the row. */
export function normaliseSeed(seed: SeedData): SeedData {
  const [policies, riskAssessments, vendors] = KINDS.map((kind) => normaliseRows(kind, seed[SECTIONS[kind]]));
  return { policies: policies!, riskAssessments: riskAssessments!, vendors: vendors! };
}

function normaliseRows(kind: Kind, section: readonly JsonObject[]): JsonObject[] {
  const taken = new Set<string>(section.flatMap((row) => givenId(kind, row) ?? []));
  const seen = new Set<string>();
  return section.map((row, index) => {
    const place = `${SECTIONS[kind]}[${index}]`;
    const id = givenId(kind, row) ?? freeId(kind, index + 1, taken);
    if (!isUsableId(id)) throw new Error(`${place} has an id that is not a usable text or whole number.`);
    if (seen.has(id)) throw new Error(`${place} has the id of an earlier row, ${id}.`);
    seen.add(id);
    const { id: _, ...withoutBareId } = row;
    const record = {
      ...(kind === 'policy' ? { version: '1.0' } : {}),
      status: MACHINES[kind].initial,
      // A policy's own field for its id is policyId; a bare id beside it is another field of the row.
      ...(kind === 'policy' && row.policyId === undefined ? withoutBareId : row),
      [ID_FIELDS[kind]]: id,
    };
    if (isTooDeep(record)) throw new Error(`${place} is nested more than ${MAX_RECORD_DEPTH} deep.`);
    const parsed = RECORD_SCHEMAS[kind].safeParse(record);
    if (!parsed.success) throw new Error(`${place}: ${z.prettifyError(parsed.error)}`);
    const names = misreadId(kind, record);
    if (names !== null) throw new Error(`${place} has another id besides ${id}, in one of: ${names}.`);
    return record;
  });
}

/**
 * Under the name that the kind's events use, which readers look at first, or a bare id, or else under another of the
 * names that readers know. Null: the row has none. What is no id at all is returned as an empty text, for the caller
 * to refuse.
 */
function givenId(kind: Kind, row: JsonObject): string | null {
  const names = [
    EVENT_ID_FIELDS[kind],
    'id',
    ...DEFAULT_ID_POINTERS[kind].filter((name) => !name.includes('.')),
  ];
  const value = names.map((name) => row[name]).find((each) => each !== undefined && each !== null);
  if (value === undefined) return null;
  if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value);
  return typeof value === 'string' ? value : '';
}

function freeId(kind: Kind, place: number, taken: Set<string>): string {
  let id = `${ID_PREFIXES[kind]}${String(place).padStart(4, '0')}`;
  while (taken.has(id)) id += 'x';
  taken.add(id);
  return id;
}

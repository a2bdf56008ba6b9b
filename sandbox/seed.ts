import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { KINDS, type Kind } from '../src/compliance/kinds.ts';
import { DEFAULT_ID_POINTERS, isUsableId, type JsonObject } from '../src/compliance/pointers.ts';
import { describeError, UsageError } from '../src/platform/errors.ts';
import { MACHINES } from './machines.ts';
import { parseOrRefuse } from './problems.ts';
import { flawOf, MAX_RECORDS_PER_KIND, NAMES } from './records.ts';
import { idOfNumber } from './shaping.ts';

/** The records the sandbox starts with; also the shape of a seed file. */
export interface SeedData {
  policies: readonly JsonObject[];
  riskAssessments: readonly JsonObject[];
  vendors: readonly JsonObject[];
}

const rows = z.array(z.looseObject({})).max(MAX_RECORDS_PER_KIND).default([]);
const seedSchema = z.strictObject({ policies: rows, riskAssessments: rows, vendors: rows });

/**
 * Reads `{"policies":[…],"riskAssessments":[…],"vendors":[…]}`; a section may be left out. A row without an id
 * gets one from its place (`vendor-0001`), without a status its kind's first one; its other fields are kept.
 * Throws a UsageError that names the file and the row.
 */
export function loadSeed(path: string): SeedData {
  const refusing = <T>(what: string, read: () => T, remedy?: string): T => {
    try {
      return read();
    } catch (error) {
      throw new UsageError(`The seed file ${path} ${what}: ${describeError(error)}`, remedy);
    }
  };
  const text = refusing('cannot be read', () => readFileSync(path, 'utf8'));
  const document: unknown = refusing('is not JSON', () => JSON.parse(text));
  const rows = refusing(
    'does not have the expected shape',
    () => parseOrRefuse(seedSchema, document),
    'It is an object with the arrays policies, riskAssessments and vendors, each of objects.',
  );
  return refusing('cannot be used', () => normaliseSeed(rows));
}

/** Gives each row its id, status and, for policies, version. Throws an Error that names the row. */
export function normaliseSeed(seed: SeedData): SeedData {
  const [policies, riskAssessments, vendors] = KINDS.map((kind) => normaliseRows(kind, seed));
  return { policies: policies!, riskAssessments: riskAssessments!, vendors: vendors! };
}

function normaliseRows(kind: Kind, seed: SeedData): JsonObject[] {
  const { section, idField, defaults } = NAMES[kind];
  const rows = seed[section];
  const taken = new Set<string>(rows.flatMap((row) => givenId(kind, row) ?? []));
  const seen = new Set<string>();
  return rows.map((row, index) => {
    const place = `${section}[${index}]`;
    const id = givenId(kind, row) ?? freeId(kind, index + 1, taken);
    if (!isUsableId(id)) throw new Error(`${place} has an id that is not a usable text or whole number.`);
    if (seen.has(id)) throw new Error(`${place} has the id of an earlier row, ${id}.`);
    seen.add(id);
    const { id: _, ...withoutBareId } = row;
    const record = {
      ...{ ...defaults, status: MACHINES[kind].create.to },
      // A policy's own field for its id is policyId; a bare id beside it is another field of the row.
      ...(kind === 'policy' && row.policyId === undefined ? withoutBareId : row),
      [idField]: id,
    };
    const flaw = flawOf(kind, record);
    if (flaw !== null) throw new Error(`${place} ${flaw}`);
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
    NAMES[kind].eventIdField,
    'id',
    ...DEFAULT_ID_POINTERS[kind].filter((name) => !name.includes('.')),
  ];
  const value = names.map((name) => row[name]).find((each) => each !== undefined && each !== null);
  if (value === undefined) return null;
  if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value);
  return typeof value === 'string' ? value : '';
}

function freeId(kind: Kind, place: number, taken: Set<string>): string {
  let id = idOfNumber(kind, place);
  while (taken.has(id)) id += 'x';
  taken.add(id);
  return id;
}

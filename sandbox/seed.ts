import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { parseJson, wholeNumber } from '../src/compliance/json.ts';
import type { Kind } from '../src/compliance/kinds.ts';
import { DEFAULT_ID_POINTERS, isUsableId, type JsonObject } from '../src/compliance/pointers.ts';
import { describeError, UsageError } from '../src/platform/errors.ts';
import { MACHINES } from './machines.ts';
import { parseOrRefuse } from './problems.ts';
import { flawOf, MAX_RECORDS_PER_KIND, NAMES } from './records.ts';

const rows = z.array(z.looseObject({})).max(MAX_RECORDS_PER_KIND).default([]);
const seedSchema = z.strictObject({ policies: rows, riskAssessments: rows, vendors: rows });
/** The records the sandbox starts with; also the shape of a seed file. */
export type SeedData = z.infer<typeof seedSchema>;

/**
 * Reads `{"policies":[…],"riskAssessments":[…],"vendors":[…]}`. A section may be left out. A row without an id gets one
 * from its place (`vendor-0001`), and a row without a status gets the first one of its kind. Other fields are kept.
 * @throws UsageError that names the file and the row.
 */
export function loadSeed(path: string): SeedData {
  try {
    return normaliseSeed(parseOrRefuse(seedSchema, parseJson(readFileSync(path, 'utf8'))));
  } catch (error) {
    throw new UsageError(
      `--seed: the file ${path} cannot be used: ${describeError(error)}`,
      'It is a JSON object with the arrays policies, riskAssessments and vendors, each of objects.',
    );
  }
}

/** Gives each row its id, status and, for policies, version. @throws Error that names the row. */
export function normaliseSeed(seed: SeedData): SeedData {
  return {
    policies: normaliseRows('policy', seed),
    riskAssessments: normaliseRows('risk_assessment', seed),
    vendors: normaliseRows('vendor', seed),
  };
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
      ...defaults,
      status: MACHINES[kind].create.to,
      // A policy's id is in policyId. An `id` beside it is another field of the row.
      ...(kind === 'policy' && row.policyId === undefined ? withoutBareId : row),
      [idField]: id,
    };
    const flaw = flawOf(kind, record);
    if (flaw !== null) throw new Error(`${place} ${flaw}`);
    return record;
  });
}

/**
 * The id of a row: in the field that the kind's events use, which readers look at first, in `id`, or in another field that readers
 * know. Null: the row has no id. Empty: the value cannot be an id, and the caller must reject it.
 */
function givenId(kind: Kind, row: JsonObject): string | null {
  const names = [
    NAMES[kind].eventIdField,
    'id',
    ...DEFAULT_ID_POINTERS[kind].filter((name) => !name.includes('.')),
  ];
  const value = names.map((name) => row[name]).find((each) => each !== undefined && each !== null);
  if (value === undefined) return null;
  return typeof value === 'string' ? value : (wholeNumber(value) ?? '');
}

/** Ids that are made from a place in a seed have at least this many digits. */
const ID_DIGITS = 4;

function freeId(kind: Kind, place: number, taken: Set<string>): string {
  let id = NAMES[kind].idPrefix + String(place).padStart(ID_DIGITS, '0');
  while (taken.has(id)) id += 'x';
  taken.add(id);
  return id;
}

const DAY_MS = 86_400_000;

/** The day that is `days` after `today`, as `YYYY-MM-DD` in UTC. */
export const daysFrom = (today: Date, days: number): string =>
  new Date(today.getTime() + days * DAY_MS).toISOString().slice(0, 10);

/** What the sandbox holds without a seed file, with dates around `today`. Every company is invented. */
export function builtinSeed(today: Date): SeedData {
  const inDays = (days: number) => daysFrom(today, days);
  return {
    policies: POLICIES.map(([name, version, status, owner, review]) => ({
      ...{ name, version, status, owner, category: 'Governance', reviewIntervalMonths: 12 },
      ...(status === 'approved' ? { approver: 'Management board' } : {}),
      ...{ effectiveAt: inDays(review - YEAR_DAYS), nextReviewAt: inDays(review) },
    })),
    riskAssessments: RISKS.map(([name, category, status, likelihood, impact, residualScore, due]) => ({
      ...{ name, category, status, likelihood, impact, residualScore, owner: category },
      identifiedAt: inDays(-AGE_DAYS * likelihood),
      ...(due === null ? { treatment: 'accept' } : { treatment: 'mitigate', dueDate: inDays(due) }),
    })),
    vendors: VENDORS.map(([name, category, status, tier, criticality, country, ends, riskAssessmentId]) => ({
      ...{ name, category, status, tier, criticality, country, owner: 'Procurement' },
      ...{ processesPersonalData: tier < 3, contractEnds: inDays(ends), nextReviewAt: inDays(ends - 60) },
      // A mirror that gets no event about the assessment can find it only here.
      ...(riskAssessmentId === undefined ? {} : { riskAssessmentId }),
    })),
  };
}

const YEAR_DAYS = 365;
/** The likelier a risk is, the longer it is known. */
const AGE_DAYS = 30;

/** Name, version, status, owner, days until its review. */
const POLICIES = [
  ['Access control', '2.1', 'approved', 'Security', 40],
  ['Acceptable use of devices', '1.3', 'approved', 'People', 190],
  ['Backup and restoration', '1.0', 'in_review', 'Engineering', -5],
  ['Business continuity', '3.0', 'approved', 'Operations', -20],
  ['Change management', '1.2', 'draft', 'Engineering', 300],
  ['Cryptography and key management', '1.0', 'draft', 'Security', 330],
  ['Data classification', '2.0', 'approved', 'Legal', 75],
  ['Data retention and disposal', '1.1', 'in_review', 'Legal', 10],
  ['Incident response', '4.2', 'approved', 'Security', 150],
  ['Remote work', '1.0', 'archived', 'People', -200],
  ['Supplier management', '2.3', 'approved', 'Procurement', 25],
  ['Vulnerability management', '1.4', 'draft', 'Security', 280],
] as const;

/** Name, category, status, likelihood, impact, residual score, days until its treatment is due (null: accepted). */
const RISKS = [
  ['Loss of the only person who can rotate keys', 'People', 'identified', 2, 4, 8, 30],
  ['Backups that were never restored', 'Operations', 'assessed', 3, 5, 7.5, -10],
  ['Customer data in test environments', 'Privacy', 'mitigated', 2, 4, 3, 60],
  ['Unpatched build machines', 'Technology', 'escalated', 4, 4, 16, 5],
  ['Contract renewals missed', 'Legal', 'identified', 3, 2, 6, null],
  ['Single region for the main database', 'Technology', 'assessed', 2, 5, 6.5, 120],
] as const;

/** Name, category, status, tier, criticality, country, days until the contract ends, its assessment. */
const VENDORS: readonly (readonly [string, string, string, number, string, string, number, string?])[] = [
  ['Alderbrook Payroll', 'HR', 'approved', 1, 'high', 'IE', 120, 'risk-0003'],
  ['Brightwater Hosting', 'INFRASTRUCTURE', 'approved', 1, 'critical', 'DE', 45, 'risk-0006'],
  ['Cobalt Fern Analytics', 'ANALYTICS', 'prospective', 2, 'medium', 'US', 365],
  ['Driftline Couriers', 'LOGISTICS', 'approved', 3, 'low', 'NL', 20],
  ['Elmgate Translations', 'LANGUAGE', 'under_review', 3, 'low', 'FR', 200],
  ['Foxglove Email Relay', 'COMMUNICATION', 'approved', 2, 'high', 'DE', -15],
  ['Granite Pier Security', 'SECURITY', 'prospective', 2, 'high', 'GB', 365],
  ['Hollowmere Legal Archive', 'LEGAL', 'suspended', 1, 'medium', 'IE', 75],
];

import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { parseJson, wholeNumber } from '../src/compliance/json.ts';
import type { Kind } from '../src/compliance/kinds.ts';
import { DEFAULT_ID_POINTERS, isUsableId, type JsonObject } from '../src/compliance/pointers.ts';
import { describeError, UsageError } from '../src/platform/errors.ts';
import { MACHINES } from './machines.ts';
import { parseOrRefuse } from './problems.ts';
import { flawOf, MAX_RECORDS_PER_KIND, NAMES } from './records.ts';
import { idOfNumber } from './shaping.ts';

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
  const refusing = <T>(what: string, read: () => T, remedy?: string): T => {
    try {
      return read();
    } catch (error) {
      throw new UsageError(`SANDBOX_SEED: the file ${path} ${what}: ${describeError(error)}`, remedy);
    }
  };
  const text = refusing('cannot be read', () => readFileSync(path, 'utf8'));
  const document: unknown = refusing('is not JSON', () => parseJson(text));
  const rows = refusing(
    'does not have the expected shape',
    () => parseOrRefuse(seedSchema, document),
    'It is an object with the arrays policies, riskAssessments and vendors, each of objects.',
  );
  return refusing('cannot be used', () => normaliseSeed(rows));
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

function freeId(kind: Kind, place: number, taken: Set<string>): string {
  let id = idOfNumber(kind, place);
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
  const policy = (name: string, version: string, status: string, owner: string, reviewInDays: number) => ({
    name,
    version,
    status,
    owner,
    category: POLICY_CATEGORIES[owner] ?? 'Governance',
    ...(status === 'approved' ? { approver: 'Management board' } : {}),
    effectiveAt: daysFrom(today, reviewInDays - YEAR_DAYS),
    nextReviewAt: daysFrom(today, reviewInDays),
    reviewIntervalMonths: 12,
  });

  /** `dueInDays`: when its treatment is due; null: the risk is accepted. */
  const assessment = (
    name: string,
    category: string,
    status: string,
    [likelihood, impact, residualScore]: readonly [number, number, number],
    dueInDays: number | null,
  ) => ({
    name,
    category,
    status,
    likelihood,
    impact,
    residualScore,
    owner: RISK_OWNERS[category] ?? category,
    treatment: dueInDays === null ? 'accept' : 'mitigate',
    ...(dueInDays === null ? {} : { dueDate: daysFrom(today, dueInDays) }),
    nextReviewAt: daysFrom(today, (dueInDays ?? 0) + 90),
  });

  /** `riskAssessmentId`: the vendor's assessment. A mirror that gets no event about the assessment can find it only here. */
  const vendor = (
    name: string,
    category: string,
    status: string,
    [tier, criticality, dataAccess, country]: readonly [number, string, string, string],
    endsInDays: number,
    riskAssessmentId?: string,
  ) => ({
    name,
    category,
    status,
    tier,
    criticality,
    dataAccess,
    country,
    owner: 'Procurement',
    processesPersonalData: dataAccess === 'personal',
    contractEnds: daysFrom(today, endsInDays),
    nextReviewAt: daysFrom(today, endsInDays - 60),
    ...(riskAssessmentId === undefined ? {} : { riskAssessmentId }),
  });

  return {
    policies: [
      policy('Access control', '2.1', 'approved', 'Security', 40),
      policy('Acceptable use of devices', '1.3', 'approved', 'People', 190),
      policy('Backup and restoration', '1.0', 'in_review', 'Engineering', -5),
      policy('Business continuity', '3.0', 'approved', 'Operations', -20),
      policy('Change management', '1.2', 'draft', 'Engineering', 300),
      policy('Cryptography and key management', '1.0', 'draft', 'Security', 330),
      policy('Data classification', '2.0', 'approved', 'Legal', 75),
      policy('Data retention and disposal', '1.1', 'in_review', 'Legal', 10),
      policy('Incident response', '4.2', 'approved', 'Security', 150),
      policy('Remote work', '1.0', 'archived', 'People', -200),
      policy('Supplier management', '2.3', 'approved', 'Procurement', 25),
      policy('Vulnerability management', '1.4', 'draft', 'Security', 280),
    ],
    riskAssessments: [
      assessment('Loss of the only person who can rotate keys', 'People', 'identified', [2, 4, 8], 30),
      assessment('Backups that were never restored', 'Operations', 'assessed', [3, 5, 7.5], -10),
      assessment('Customer data in test environments', 'Privacy', 'mitigated', [2, 4, 3], 60),
      assessment('Unpatched build machines', 'Technology', 'escalated', [4, 4, 16], 5),
      assessment('Contract renewals missed', 'Legal', 'identified', [3, 2, 6], null),
      assessment('Single region for the main database', 'Technology', 'assessed', [2, 5, 6.5], 120),
    ],
    vendors: [
      vendor('Alderbrook Payroll', 'HR', 'approved', [1, 'high', 'personal', 'IE'], 120, 'risk-0003'),
      vendor(
        'Brightwater Hosting',
        'INFRASTRUCTURE',
        'approved',
        [1, 'critical', 'confidential', 'DE'],
        45,
        'risk-0006',
      ),
      vendor('Cobalt Fern Analytics', 'ANALYTICS', 'prospective', [2, 'medium', 'personal', 'US'], 365),
      vendor('Driftline Couriers', 'LOGISTICS', 'approved', [3, 'low', 'none', 'NL'], 20),
      vendor('Elmgate Translations', 'LANGUAGE', 'under_review', [3, 'low', 'confidential', 'FR'], 200),
      vendor('Foxglove Email Relay', 'COMMUNICATION', 'approved', [2, 'high', 'personal', 'DE'], -15),
      vendor('Granite Pier Security', 'SECURITY', 'prospective', [2, 'high', 'confidential', 'GB'], 365),
      vendor('Hollowmere Legal Archive', 'LEGAL', 'suspended', [1, 'medium', 'personal', 'IE'], 75),
    ],
  };
}

const YEAR_DAYS = 365;

const POLICY_CATEGORIES: Readonly<Record<string, string>> = {
  Security: 'Information security',
  Engineering: 'Information security',
  Legal: 'Privacy',
  People: 'People',
};

const RISK_OWNERS: Readonly<Record<string, string>> = { Technology: 'Engineering', Privacy: 'Legal' };

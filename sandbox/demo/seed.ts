import type { JsonObject } from '../../src/compliance/pointers.ts';

/** What the sandbox starts with: enough that losing a few records looks like a few, all of it invented. */
export interface DemoSeed {
  policies: JsonObject[];
  riskAssessments: JsonObject[];
  vendors: JsonObject[];
  /** So many of the assessments, the last ones, are left out of RISK_IDS_FILE, with which a team brings those that were there before it came. */
  unlistedAssessments: number;
}

const DAY_MS = 86_400_000;
const POLICIES = 40;
const ASSESSMENTS = 24;
/** Neither announced, nor listed, nor named by a vendor. */
const UNLISTED_ASSESSMENTS = 2;
const VENDORS = 50;

const SUBJECTS = ['Access', 'Backup', 'Change', 'Data', 'Encryption', 'Incident', 'Network', 'Privacy'];
const SCOPES = ['management', 'review', 'retention', 'response', 'classification'];
const OWNERS = ['Security', 'Legal', 'People', 'Engineering', 'Operations'];
const PLACES = ['Alder', 'Brook', 'Cinder', 'Dale', 'Elm', 'Fern', 'Glen', 'Heath', 'Isle', 'Juniper'];
const TRADES = ['Hosting', 'Payroll', 'Analytics', 'Couriers', 'Translations'];
const CATEGORIES = ['Information security', 'Privacy', 'People', 'Operations'];
const CRITICALITIES = ['critical', 'high', 'medium', 'low', 'low'];
const DATA_ACCESS = ['personal', 'confidential', 'none', 'internal'];
const COUNTRIES = ['DE', 'IE', 'FR', 'NL', 'US', 'GB'];
const TREATMENTS = ['mitigate', 'accept', 'transfer', 'mitigate'];
const POLICY_STATUSES = ['draft', 'approved', 'in_review', 'approved'];
const ASSESSMENT_STATUSES = ['identified', 'assessed', 'mitigated', 'escalated'];
const VENDOR_STATUSES = ['prospective', 'approved', 'under_review', 'approved', 'approved'];

/** Dates lie around `today`, some of them just past: what is due is what people ask for. */
export function demoSeed(today: Date): DemoSeed {
  const day = (days: number) => new Date(today.getTime() + days * DAY_MS).toISOString().slice(0, 10);
  const policies = count(POLICIES, (i) => {
    const status = pick(POLICY_STATUSES, i);
    return {
      policyId: `policy-${padded(i)}`,
      name: `${pick(SUBJECTS, i)} ${pick(SCOPES, Math.floor(i / SUBJECTS.length))}`,
      version: `1.${i % 4}`,
      status,
      owner: pick(OWNERS, i),
      category: pick(CATEGORIES, i),
      ...(status === 'approved' ? { approver: `Head of ${pick(OWNERS, i)}` } : {}),
      effectiveAt: day(-30 - i * 11),
      nextReviewAt: day(i * 9 - 40),
      reviewIntervalMonths: pick([6, 12, 24], i),
    };
  });
  const riskAssessments = count(ASSESSMENTS, (i) => {
    const [likelihood, impact] = [1 + (i % 5), 1 + ((i * 3) % 5)];
    const treatment = pick(TREATMENTS, i);
    return {
      id: `risk-${padded(i)}`,
      name: `${pick(SUBJECTS, i)} at risk`,
      status: pick(ASSESSMENT_STATUSES, i),
      ...{ likelihood, impact, residualScore: (likelihood * impact) / (1 + (i % 2)) },
      category: pick(CATEGORIES, i),
      owner: pick(OWNERS, i),
      treatment,
      ...(treatment === 'accept' ? {} : { dueDate: day(i * 12 - 50) }),
      nextReviewAt: day(i * 12 + 20),
    };
  });
  const vendors = count(VENDORS, (i) => {
    const dataAccess = pick(DATA_ACCESS, i);
    return {
      id: `vendor-${padded(i)}`,
      name: `${pick(PLACES, i)} ${pick(PLACES, i * 3 + Math.floor(i / PLACES.length) + 1)} ${pick(TRADES, i)}`,
      status: pick(VENDOR_STATUSES, i),
      category: pick(TRADES, i).toUpperCase(),
      tier: 1 + (i % 3),
      criticality: pick(CRITICALITIES, i * 2),
      owner: pick(OWNERS, i),
      country: pick(COUNTRIES, i),
      dataAccess,
      processesPersonalData: dataAccess === 'personal',
      contractEnds: day(i * 14 - 60),
      nextReviewAt: day(i * 8 - 30),
    };
  });
  return { policies, riskAssessments, vendors, unlistedAssessments: UNLISTED_ASSESSMENTS };
}

function count<T>(length: number, make: (index: number) => T): T[] {
  return Array.from({ length }, (_, index) => make(index));
}

function pick<T>(from: readonly T[], index: number): T {
  return from[index % from.length]!;
}

function padded(index: number): string {
  return String(index + 1).padStart(4, '0');
}

import type { JsonObject } from '../../src/compliance/pointers.ts';

/** What the sandbox starts with: enough that losing a few records looks like a few, all of it invented. */
export interface DemoSeed {
  policies: JsonObject[];
  riskAssessments: JsonObject[];
  vendors: JsonObject[];
  /** So many of the assessments, the last ones, are left out of RISK_IDS_FILE, with which a team brings those that were there before it came. */
  unlistedAssessments: number;
}

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
const POLICY_STATUSES = ['draft', 'approved', 'in_review', 'approved'];
const ASSESSMENT_STATUSES = ['identified', 'assessed', 'mitigated', 'escalated'];
const VENDOR_STATUSES = ['prospective', 'approved', 'under_review', 'approved', 'approved'];

export function demoSeed(): DemoSeed {
  const policies = count(POLICIES, (i) => ({
    policyId: `policy-${padded(i)}`,
    name: `${pick(SUBJECTS, i)} ${pick(SCOPES, Math.floor(i / SUBJECTS.length))}`,
    version: `1.${i % 4}`,
    status: pick(POLICY_STATUSES, i),
    owner: pick(OWNERS, i),
  }));
  const riskAssessments = count(ASSESSMENTS, (i) => ({
    id: `risk-${padded(i)}`,
    name: `${pick(SUBJECTS, i)} at risk`,
    status: pick(ASSESSMENT_STATUSES, i),
    likelihood: 1 + (i % 5),
    impact: 1 + ((i * 3) % 5),
  }));
  const vendors = count(VENDORS, (i) => ({
    id: `vendor-${padded(i)}`,
    name: `${pick(PLACES, i)} ${pick(PLACES, i * 3 + Math.floor(i / PLACES.length) + 1)} ${pick(TRADES, i)}`,
    status: pick(VENDOR_STATUSES, i),
    category: pick(TRADES, i).toUpperCase(),
  }));
  return { policies, riskAssessments, vendors, unlistedAssessments: UNLISTED_ASSESSMENTS };
}

function count<T>(length: number, make: (index: number) => T): T[] {
  return Array.from({ length }, (_, index) => make(index));
}

function pick(words: readonly string[], index: number): string {
  return words[index % words.length] ?? '';
}

function padded(index: number): string {
  return String(index + 1).padStart(4, '0');
}

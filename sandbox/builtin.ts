import type { SeedData } from './seed.ts';

const DAY_MS = 86_400_000;

/** The day, `YYYY-MM-DD` in UTC, so many days after `today`. */
export const daysFrom = (today: Date, days: number): string =>
  new Date(today.getTime() + days * DAY_MS).toISOString().slice(0, 10);

/** What the sandbox holds without a seed file, with dates around `today`. Every company is invented. */
export function builtinSeed(today: Date): SeedData {
  const policy = (name: string, version: string, status: string, owner: string, reviewInDays: number) => ({
    ...{ name, version, status, owner, category: POLICY_CATEGORIES[owner] ?? 'Governance' },
    ...(status === 'approved' ? { approver: 'Management board' } : {}),
    effectiveAt: daysFrom(today, reviewInDays - YEAR_DAYS),
    nextReviewAt: daysFrom(today, reviewInDays),
    reviewIntervalMonths: 12,
  });

  /** `dueInDays`: of its treatment; null: it is accepted. */
  const assessment = (
    name: string,
    category: string,
    status: string,
    [likelihood, impact, residualScore]: readonly [number, number, number],
    dueInDays: number | null,
  ) => ({
    ...{ name, category, status, likelihood, impact, residualScore },
    owner: RISK_OWNERS[category] ?? category,
    treatment: dueInDays === null ? 'accept' : 'mitigate',
    ...(dueInDays === null ? {} : { dueDate: daysFrom(today, dueInDays) }),
    nextReviewAt: daysFrom(today, (dueInDays ?? 0) + 90),
  });

  /** `riskAssessmentId`: the vendor's assessment; without an event about it, a mirror can find it only here. */
  const vendor = (
    name: string,
    category: string,
    status: string,
    [tier, criticality, dataAccess, country]: readonly [number, string, string, string],
    endsInDays: number,
    riskAssessmentId?: string,
  ) => ({
    ...{ name, category, status, tier, criticality, dataAccess, country, owner: 'Procurement' },
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
        ...(['Brightwater Hosting', 'INFRASTRUCTURE', 'approved'] as const),
        ...([[1, 'critical', 'confidential', 'DE'], 45, 'risk-0006'] as const),
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

import type { SeedData } from './records.ts';

/** What the sandbox holds without a seed file. Every company is invented. */
export const BUILTIN_SEED: SeedData = {
  policies: [
    policy('Access control', '2.1', 'approved', 'Security'),
    policy('Acceptable use of devices', '1.3', 'approved', 'People'),
    policy('Backup and restoration', '1.0', 'in_review', 'Engineering'),
    policy('Business continuity', '3.0', 'approved', 'Operations'),
    policy('Change management', '1.2', 'draft', 'Engineering'),
    policy('Cryptography and key management', '1.0', 'draft', 'Security'),
    policy('Data classification', '2.0', 'approved', 'Legal'),
    policy('Data retention and disposal', '1.1', 'in_review', 'Legal'),
    policy('Incident response', '4.2', 'approved', 'Security'),
    policy('Remote work', '1.0', 'archived', 'People'),
    policy('Supplier management', '2.3', 'approved', 'Procurement'),
    policy('Vulnerability management', '1.4', 'draft', 'Security'),
  ],
  riskAssessments: [
    assessment('Loss of the only person who can rotate keys', 'People', 'identified', 2, 4),
    assessment('Backups that were never restored', 'Operations', 'assessed', 3, 5),
    assessment('Customer data in test environments', 'Privacy', 'mitigated', 2, 4),
    assessment('Unpatched build machines', 'Technology', 'escalated', 4, 4),
    assessment('Contract renewals missed', 'Legal', 'identified', 3, 2),
    assessment('Single region for the main database', 'Technology', 'assessed', 2, 5),
  ],
  vendors: [
    vendor('Alderbrook Payroll', 'HR', 'approved', 'risk-0003'),
    vendor('Brightwater Hosting', 'INFRASTRUCTURE', 'approved', 'risk-0006'),
    vendor('Cobalt Fern Analytics', 'ANALYTICS', 'prospective'),
    vendor('Driftline Couriers', 'LOGISTICS', 'approved'),
    vendor('Elmgate Translations', 'LANGUAGE', 'under_review'),
    vendor('Foxglove Email Relay', 'COMMUNICATION', 'approved'),
    vendor('Granite Pier Security', 'SECURITY', 'prospective'),
    vendor('Hollowmere Legal Archive', 'LEGAL', 'suspended'),
  ],
};

function policy(name: string, version: string, status: string, owner: string) {
  return { name, version, status, owner, reviewIntervalMonths: 12 };
}

function assessment(name: string, category: string, status: string, likelihood: number, impact: number) {
  return { name, category, status, likelihood, impact };
}

/** `riskAssessmentId` names the assessment that was made of it: the only way to find one that no event told of. */
function vendor(name: string, category: string, status: string, riskAssessmentId?: string) {
  return { name, category, status, ...(riskAssessmentId === undefined ? {} : { riskAssessmentId }) };
}

import { expect, it } from 'vitest';
import { kindOfType } from '../../src/compliance/kinds.ts';

it.each([
  ['policy.archived', 'policy'],
  ['policies.updated', 'policy'],
  ['RISK.IDENTIFIED', 'risk_assessment'],
  ['risk_identified', 'risk_assessment'],
  ['risk_assessment.completed', 'risk_assessment'],
  ['riskAssessment.completed', 'risk_assessment'],
  ['vendors/updated', 'vendor'],
  ['RISK_ASSESSMENT_CREATED', 'risk_assessment'],
  ['RISKIdentified', 'risk_assessment'],
  ['risk-identified', 'risk_assessment'],
  ['riskIdentified', 'risk_assessment'],
  ['v1.risk.identified', 'risk_assessment'],
  ['com.acme.risk.identified', 'risk_assessment'],
  ['assessment.completed', 'risk_assessment'],
  ['vendor_assessment.completed', 'vendor'],
  ['risk_register.updated', 'risk_assessment'],
  ['riskAssessment', null],
  ['updated', null],
  ['policyholder.created', null],
  ['constructor.x', null],
  ['vendor', null],
])('an event of the type %s is about %s', (type, kind) => {
  expect(kindOfType(type)).toBe(kind);
});

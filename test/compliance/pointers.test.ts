import { describe, expect, it } from 'vitest';
import {
  assessmentsNamedIn,
  type IdPointers,
  type JsonObject,
  recordContentIn,
  recordIdIn,
} from '../../src/compliance/pointers.ts';

const POINTERS: IdPointers = {
  policy: ['policyId', 'policy.id', 'id'],
  risk_assessment: ['riskAssessmentId', 'risk.id', 'id'],
  vendor: ['vendorId', 'vendor.id', 'id'],
};

describe('what a record shows of itself stands where its id was found', () => {
  const inner = { id: 'p1', name: 'Access' };
  it.each<[string, JsonObject, string, JsonObject]>([
    [
      'beside a field of the document',
      { policyId: 'p1', name: 'Access' },
      'p1',
      { policyId: 'p1', name: 'Access' },
    ],
    ['in an object of its own', { policy: inner }, 'p1', inner],
    ['behind a pointer that holds null', { policyId: null, policy: inner }, 'p1', inner],
    ['behind a pointer that holds an empty text', { policyId: '', policy: inner }, 'p1', inner],
  ])('%s', (_, document, id, content) => {
    expect(recordIdIn(document, 'policy', POINTERS)).toBe(id);
    expect(recordContentIn(document, 'policy', POINTERS)).toEqual(content);
  });
});

it('a number is an id of the record itself and of the records it names alike', () => {
  const document = { vendorId: 7, riskAssessmentId: 42 };
  expect(recordIdIn(document, 'vendor', POINTERS)).toBe('7');
  expect(assessmentsNamedIn(document, 'vendor', POINTERS)).toEqual(['42']);
});

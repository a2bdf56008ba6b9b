import { describe, expect, it } from 'vitest';
import type { Kind } from '../../src/compliance/kinds.ts';
import { assessmentsNamedIn, type IdPointers, payloadIn } from '../../src/compliance/pointers.ts';
import { readPayload } from '../../src/mirror/merge.ts';

const POINTERS: IdPointers = {
  policy: ['policyId', 'policy.id', 'id'],
  risk_assessment: ['riskAssessmentId', 'assessmentId', 'riskId', 'risk.id', 'id'],
  vendor: ['vendorId', 'vendor.id', 'id'],
};
const read = (kind: Kind, data: unknown) => readPayload(kind, payloadIn(JSON.stringify({ data })), POINTERS);

describe('what a payload comes to', () => {
  it.each([
    {
      what: 'the fields beside the id',
      kind: 'policy',
      data: { policyId: 'p', name: 'A' },
      content: { policyId: 'p', name: 'A' },
      shows: true,
    },
    {
      what: 'the object that holds the id',
      kind: 'vendor',
      data: { vendor: { id: 'v', name: 'A' }, by: 'Ann' },
      content: { id: 'v', name: 'A' },
      shows: true,
    },
    {
      what: 'nothing but which record it is',
      kind: 'vendor',
      data: { vendorId: 'v' },
      content: { vendorId: 'v' },
      shows: false,
    },
    {
      what: 'nothing but which records it names',
      kind: 'vendor',
      data: { vendorId: 'v', policyId: 'p' },
      content: { vendorId: 'v', policyId: 'p' },
      shows: false,
    },
    {
      what: 'a field that is null',
      kind: 'policy',
      data: { policyId: 'p', name: null },
      content: { policyId: 'p', name: null },
      shows: true,
    },
    {
      what: 'a number as an id',
      kind: 'vendor',
      data: { id: 7, name: 'A' },
      content: { id: 7, name: 'A' },
      shows: true,
    },
    {
      what: 'the first pointer that holds an id',
      kind: 'risk_assessment',
      data: { riskId: 'r', id: 'x' },
      content: { riskId: 'r', id: 'x' },
      shows: false,
    },
  ] as const)('is $what', ({ kind, data, content, shows }) => {
    expect(read(kind, data)).toMatchObject({ usable: true, content, shows });
  });

  it.each([
    { kind: 'policy', data: {} },
    { kind: 'policy', data: { vendorId: 'v' } },
    { kind: 'policy', data: { policyId: '' } },
    { kind: 'policy', data: { policyId: null, policy: 'text' } },
    { kind: 'policy', data: { policyId: { id: 'deep' } } },
    { kind: 'vendor', data: { vendorId: 'x'.repeat(256) } },
    { kind: 'vendor', data: { vendorId: 'line\nbreak' } },
    { kind: 'vendor', data: { vendorId: '\ud800' } },
    { kind: 'vendor', data: { id: 1.5 } },
    { kind: 'vendor', data: { id: true } },
  ] as const)('of a $kind is unusable without a usable id: $data', ({ kind, data }) => {
    const reading = read(kind, data);
    expect(reading).toMatchObject({
      usable: false,
      error: expect.stringContaining(POINTERS[kind].join(', ')),
    });
  });

  it('takes no id from a prototype', () => {
    expect(
      readPayload('policy', payloadIn('{"data": {"__proto__": {"policyId": "p"}}}'), POINTERS).usable,
    ).toBe(false);
  });
});

describe('the assessments that a document names', () => {
  it.each([
    { kind: 'vendor', data: { vendorId: 'v', assessmentId: 'ra_1' }, named: ['ra_1'] },
    { kind: 'policy', data: { policyId: 'p', risk: { id: 'ra_2' } }, named: ['ra_2'] },
    { kind: 'vendor', data: { id: 'v' }, named: [] },
    { kind: 'risk_assessment', data: { assessmentId: 'ra_1' }, named: [] },
    { kind: 'vendor', data: { id: 'v', riskId: 'two\nlines' }, named: [] },
    { kind: 'vendor', data: { id: 'v', riskAssessmentId: 'first', riskId: 'second' }, named: ['first'] },
  ] as const)('$data of a $kind are $named', ({ kind, data, named }) => {
    expect(assessmentsNamedIn(data, kind, POINTERS)).toEqual(named);
    expect(read(kind, data)).toMatchObject({ assessments: named });
  });
});

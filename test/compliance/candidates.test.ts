import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { candidatesText, idCandidatesIn, MAX_CANDIDATES } from '../../src/compliance/candidates.ts';
import { KINDS } from '../../src/compliance/kinds.ts';
import { type JsonObject, recordIdIn } from '../../src/compliance/pointers.ts';

const found = (kind: (typeof KINDS)[number], data: JsonObject) =>
  idCandidatesIn(data, kind).map(({ path, id }) => `${path}=${id}`);

describe('what may be the id of a payload’s record', () => {
  it.each<[string, JsonObject, string[]]>([
    ['snake case', { assessment_id: 'A-1' }, ['assessment_id=A-1']],
    ['capitals', { riskAssessmentID: 'A-1' }, ['riskAssessmentID=A-1']],
    ['nested', { riskAssessment: { id: 'A-1' } }, ['riskAssessment.id=A-1']],
    ['a reference', { assessment: { ref: 'A-1', name: 'One' } }, ['assessment.ref=A-1']],
    ['a number', { risk: { riskId: 17 } }, ['risk.riskId=17']],
    ['the bare name of the kind', { assessment: 'A-1' }, ['assessment=A-1']],
    ['no name at all', { payload: { object: { key: 'A-1' } } }, ['payload.object.key=A-1']],
    ['hyphens', { 'risk-assessment-id': 'A-1' }, ['risk-assessment-id=A-1']],
  ])('%s', (_, data, expected) => {
    expect(found('risk_assessment', data)).toEqual(expected);
  });

  it('comes in the order of its likelihood, whatever the order of the payload', () => {
    const data = {
      number: 5,
      risk: { id: 'R-1' },
      object: { id: 'O-1' },
      assessment: { code: 'C', id: 'A-1' },
    };
    const expected = ['assessment.id=A-1', 'assessment.code=C', 'risk.id=R-1', 'number=5', 'object.id=O-1'];
    expect(found('risk_assessment', data)).toEqual(expected);
    expect(found('risk_assessment', Object.fromEntries(Object.entries(data).reverse()))).toEqual(expected);
  });

  it('is no id of something else, and nothing that no pointer or no request can name', () => {
    const data = {
      vendorId: 'V-1',
      vendor: { id: 'V-2' },
      userId: 7,
      createdBy: { id: 'U-1' },
      assessmentVendorId: 'V-3',
      list: [{ id: 'L-1' }],
      'dotted.id': 'D-1',
      'a,id': 'D-2',
      id: '..',
      empty: { id: '' },
      name: 'N',
      valid: true,
      ratio: { id: 0.5 },
      nothing: { id: null },
      control: 'a\u0000b',
    };
    expect(found('risk_assessment', data)).toEqual([]);
    expect(found('vendor', { vendor: { assessment: { id: 'A-1' } }, supplier_no: 'S-1' })).toEqual([
      'supplier_no=S-1',
    ]);
  });

  it('is shown to people with its place, without what is known already', () => {
    const data = { id: 'org-1', vendor: { ref: 'V-1', no: 17 } };
    expect(candidatesText(data, 'vendor', ['org-1'])).toBe(
      'what looks like one: vendor.ref = V-1, vendor.no = 17',
    );
    expect(candidatesText({ name: 'N' }, 'vendor')).toBe('nothing else in it looks like one');
  });

  it('stands once, at its likeliest place', () => {
    expect(found('vendor', { id: 'V-1', vendor: { id: 'V-1' } })).toEqual(['vendor.id=V-1']);
  });

  it('is one of few, each found again by its path as a pointer', () => {
    const keys = fc.constantFrom(
      'id',
      'ref',
      'assessment',
      'risk',
      'vendor',
      'policyId',
      'key',
      'a.id',
      '__proto__',
    );
    const { tree } = fc.letrec<{ tree: JsonObject }>((tie) => ({
      tree: fc.dictionary(
        keys,
        fc.oneof({ depthSize: 'small' }, fc.string(), fc.integer(), fc.constant(null), tie('tree')),
      ) as fc.Arbitrary<JsonObject>,
    }));
    fc.assert(
      fc.property(tree, fc.constantFrom(...KINDS), (data, kind) => {
        const candidates = idCandidatesIn(data, kind);
        expect(candidates.length).toBeLessThanOrEqual(MAX_CANDIDATES);
        expect(new Set(candidates.map(({ id }) => id)).size).toBe(candidates.length);
        for (const { path, id } of candidates) {
          const pointers = { policy: [path], risk_assessment: [path], vendor: [path] };
          expect(recordIdIn(data, kind, pointers)).toBe(id);
        }
      }),
    );
  });
});

import { describe, expect, it } from 'vitest';
import {
  assessmentsNamedIn,
  type IdPointers,
  idLines,
  isMarkedDeleted,
  type JsonObject,
  recordContentIn,
  recordIdIn,
  recordIdOf,
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

it.each([
  ['0D5F1A52-6A1C-4F3E-9B1D-2F0C6A7B8C9D', '0d5f1a52-6a1c-4f3e-9b1d-2f0c6a7b8c9d'],
  ['0D5F1A526A1C4F3E9B1D2F0C6A7B8C9D', '0D5F1A526A1C4F3E9B1D2F0C6A7B8C9D'],
  ['0D5F1A52-6A1C-4F3E-9B1D-2F0C6A7B8C9D ', '0D5F1A52-6A1C-4F3E-9B1D-2F0C6A7B8C9D '],
  ['VEN-1', 'VEN-1'],
])('an id is kept as it is, and a UUID without its case: %s', (given, kept) => {
  for (const kind of ['policy', 'risk_assessment', 'vendor'] as const)
    expect(recordIdIn({ id: given }, kind, POINTERS)).toBe(kept);
  expect(assessmentsNamedIn({ id: 'v', riskAssessmentId: given }, 'vendor', POINTERS)).toEqual([kept]);
  expect(idLines(`# complete\n${given.trim()}\n`)).toEqual([recordIdOf(given.trim())]);
});

it.each<[JsonObject, boolean]>([
  [{ deleted: true }, true],
  [{ is_deleted: 1 }, true],
  [{ deletedAt: '2026-11-20T12:00:00Z' }, true],
  [{ removed_at: 1_795_892_039 }, true],
  [{ state: 'deleted' }, true],
  [{ IsDeleted: true }, true],
  [{ DeletedAt: { Time: '2026-11-20T12:00:00Z', Valid: true } }, true],
  [{ deletedAt: { Time: '0001-01-01T00:00:00Z', Valid: false }, deleted: { by: null, at: null } }, false],
  [{ deletedAt: '0001-01-01T00:00:00', deleted_at: '9999-12-31T23:59:59Z', deleted: 'N' }, false],
  [{ deletedAt: '1970-01-01T00:00:00.000Z', deleted_at: -62_135_596_800, deleted: 'none' }, false],
  [{ deletedAt: '-', deleted_at: 'null', isDeleted: 'off', deleted: [] }, false],
  [{ status: 'DELETED' }, true],
  [{ deleted: false, isDeleted: 0, deletedAt: null, deleted_at: '', status: 'archived' }, false],
  [{ deletedAt: '0000-00-00 00:00:00', deleted: 'false', state: { code: 'deleted' } }, false],
  [{ _deleted: true, _rev: '3-a' }, true],
  [{ REMOVED: 'Yes' }, true],
  [{ deleteTime: '2026-11-20 12:00:00' }, true],
  [{ 'deleted-at': 'Fri, 20 Nov 2026 12:00:00 GMT' }, true],
  [{ status: 'Removed' }, true],
  [{ metadata: { deletionTimestamp: '2026-11-20T12:00:00Z' } }, true],
  [{ Metadata: { deletion_timestamp: 1_795_892_039_000 } }, true],
  [{ deletedAt: '/Date(1795892039000+0100)/' }, true],
  [{ deletedAt: '20/11/2026' }, true],
  [{ deletedAt: '20261120T120000Z' }, true],
  [{ deletedAt: 1_795_892_039_000_000_000n }, true],
  // Where the service is, it may be tomorrow already.
  [{ deletedAt: '2026-12-01T01:00:00' }, true],
  [{ archived: true, archivedAt: '2026-11-20', active: false, status: 'archived' }, false],
  [{ deletedAt: '2026-12-24T00:00:00Z' }, false],
  [{ deletedAt: '2999-12-31', deleted_at: '9999-12-31', deletedOn: 'infinity' }, false],
  [{ deletedAt: 253_402_300_799, deleted_at: 253_402_300_799_000, deletedOn: 1_893_456_000 }, false],
  [{ deletedAt: '1899-12-30T00:00:00Z', deleted_at: '01/01/0001 00:00:00' }, false],
  [{ deletedAt: '/Date(-62135596800000)/', deleted_at: '1900-01-01' }, false],
  [{ deleted: 'nein', isDeleted: 'nie', removed: 'не удалён', deletedOn: 'n/a' }, false],
  [{ metadata: 'deleted', labels: { deletionTimestamp: '2026-11-20' }, '-': true }, false],
])('%j marks a record as deleted: %s', (document, isDeleted) => {
  const now = Date.parse('2026-11-30T12:00:00Z');
  expect(isMarkedDeleted({ id: 'v1', ...document }, POINTERS, now)).toBe(isDeleted);
});

it.each<[JsonObject, boolean]>([
  [{ gone: { by: 'user-7' } }, true],
  [{ gone: { by: { name: 'Ann' } } }, true],
  [{ gone: { by: 'No' } }, false],
  [{ gone: { by: '' } }, false],
  [{ gone: { by: {} } }, false],
  [{ gone: { by: '2026-12-24' } }, false],
  [{ deleted: 'user-7' }, false],
])('%j marks a record as deleted where a person has named gone.by: %s', (document, isDeleted) => {
  const rules = { fields: [], ignored: [], deleted: ['deleted', 'gone.by'] };
  const now = Date.parse('2026-11-30T12:00:00Z');
  expect(isMarkedDeleted(document, { ...POINTERS, rules }, now)).toBe(isDeleted);
});

it('a number is an id of the record itself and of the records it names alike', () => {
  const document = { vendorId: 7, riskAssessmentId: 42 };
  expect(recordIdIn(document, 'vendor', POINTERS)).toBe('7');
  expect(assessmentsNamedIn(document, 'vendor', POINTERS)).toEqual(['42']);
});

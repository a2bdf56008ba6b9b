import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  compare,
  type MirrorRecords,
  type MirrorRow,
  type UpstreamRecords,
  unknowableAssessments,
} from '../../sandbox/demo/compare.ts';
import type { Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';

const NOW = '2026-11-20T10:00:00.000Z';
const NONE: ReadonlySet<string> = new Set();

/** A row that mirrors `record` faithfully. */
function rowOf(id: string, record: JsonObject, more: Partial<MirrorRow> = {}): MirrorRow {
  const text = (field: string) => (typeof record[field] === 'string' ? (record[field] as string) : null);
  return {
    id,
    name: text('name'),
    version: text('version'),
    status: text('status'),
    data: record,
    deleted_at: null,
    ...more,
  };
}

function mirrorOf(rows: Partial<Record<Kind, MirrorRow[]>>): MirrorRecords {
  const map = (kind: Kind) => new Map((rows[kind] ?? []).map((row) => [row.id, row]));
  return { policy: map('policy'), risk_assessment: map('risk_assessment'), vendor: map('vendor') };
}

function upstreamOf(records: Partial<Record<Kind, Record<string, JsonObject>>>): UpstreamRecords {
  const map = (kind: Kind) => new Map(Object.entries(records[kind] ?? {}));
  return { policy: map('policy'), risk_assessment: map('risk_assessment'), vendor: map('vendor') };
}

const POLICY = { policyId: 'p1', name: 'Access', version: '1.0', status: 'draft', owner: 'Legal' };

describe('comparing mirror and upstream', () => {
  it.each<[string, MirrorRow | null, JsonObject | null, string[]]>([
    ['equal', rowOf('p1', POLICY), POLICY, []],
    ['a tombstone of what is gone', rowOf('p1', POLICY, { deleted_at: NOW }), null, []],
    ['never mirrored', null, POLICY, ['(missing)']],
    ['alive here, gone there', rowOf('p1', POLICY), null, ['deleted_at']],
    ['deleted here, alive there', rowOf('p1', POLICY, { deleted_at: NOW }), POLICY, ['deleted_at']],
    ['a field only the API shows', rowOf('p1', { ...POLICY, owner: 'People' }), POLICY, ['data.owner']],
    ['a field too many', rowOf('p1', { ...POLICY, extra: null }), POLICY, ['data.extra']],
    ['a field too few', rowOf('p1', POLICY), { ...POLICY, extra: null }, ['data.extra']],
    ['a column edited, its data not', rowOf('p1', POLICY, { status: 'x' }), POLICY, ['status']],
    [
      'data edited, its column not',
      rowOf('p1', { ...POLICY, status: 'x' }, { status: 'draft' }),
      POLICY,
      ['data.status'],
    ],
    ['a field of a column', rowOf('p1', { ...POLICY, name: 'B' }), POLICY, ['name']],
    ['a status that is no text', rowOf('p1', { ...POLICY, status: 3 }), { ...POLICY, status: 3 }, []],
  ])('%s', (_, row, record, fields) => {
    const mirror = mirrorOf({ policy: row ? [row] : [] });
    const upstream = upstreamOf({ policy: record ? { p1: record } : {} });
    expect(
      compare(mirror, upstream, NONE).flatMap((difference) => difference.fields.map((each) => each.field)),
    ).toEqual(fields);
  });

  it('forgives an unknowable assessment only while the mirror does not hold it', () => {
    const record = { id: 'r1', name: 'Risk' };
    const upstream = upstreamOf({ risk_assessment: { r1: record } });
    expect(compare(mirrorOf({}), upstream, new Set(['r1']))).toEqual([]);
    expect(compare(mirrorOf({}), upstream, NONE)).toHaveLength(1);
    const stale = mirrorOf({ risk_assessment: [rowOf('r1', { ...record, name: 'Old' })] });
    expect(compare(stale, upstream, new Set(['r1']))).toHaveLength(1);
  });

  it('finds any single field that is changed in any record', () => {
    const record = fc.dictionary(fc.string({ minLength: 1, maxLength: 8 }), fc.jsonValue(), { minKeys: 1 });
    const records = fc.dictionary(fc.string({ minLength: 1, maxLength: 5 }), record, {
      minKeys: 1,
      maxKeys: 6,
    });
    fc.assert(
      fc.property(records, fc.nat(), fc.nat(), (vendors, whichRecord, whichField) => {
        const rows = Object.entries(vendors).map(([id, data]) => rowOf(id, data));
        const upstream = upstreamOf({ vendor: vendors });
        expect(compare(mirrorOf({ vendor: rows }), upstream, NONE)).toEqual([]);

        const row = rows[whichRecord % rows.length]!;
        const names = Object.keys(row.data);
        const field = names[whichField % names.length]!;
        const edited = { ...row, data: { ...row.data, [field]: { edited: true } } };
        const found = compare(
          mirrorOf({ vendor: rows.map((each) => (each === row ? edited : each)) }),
          upstream,
          NONE,
        );
        expect(found.map(({ id }) => id)).toEqual([row.id]);
        expect(found[0]!.fields.map((each) => each.field)).toEqual([`data.${field}`]);
      }),
    );
  });
});

describe('what cannot be known', () => {
  it('is what no delivered event and no other record names', () => {
    const upstream = upstreamOf({
      vendor: { v1: { id: 'v1', riskAssessmentId: 'named' } },
      risk_assessment: { named: {}, silent: {}, announced: {} },
    });
    expect([...unknowableAssessments(upstream, ['named', 'silent'])]).toEqual(['silent']);
  });
});

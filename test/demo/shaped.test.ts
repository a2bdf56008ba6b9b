import { describe, expect, it } from 'vitest';
import { comparable, compare, type MirrorRow } from '../../sandbox/demo/compare.ts';
import { valueIn } from '../../sandbox/places.ts';
import { seededRandom } from '../../sandbox/random.ts';
import { changedShapes, DEFAULT_SHAPES, drawShapes, type Shapes } from '../../sandbox/shapes.ts';
import { shapedRecord, withShownIds } from '../../sandbox/shaping.ts';
import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';

const KEPT: Readonly<Record<Kind, JsonObject>> = {
  policy: { policyId: 'policy-0007', name: 'Backup', version: '1.2', status: 'in_review', owner: 'Legal' },
  risk_assessment: { id: 'risk-0003', name: 'Leak', status: 'identified', likelihood: 3 },
  vendor: { id: 'vendor-0001', name: 'Elm', status: 'under_review', riskAssessmentId: 'risk-0003' },
};
const OWN = { policy: 'policyId', risk_assessment: 'id', vendor: 'id' } as const;
const NOW = '2026-11-20T10:00:00.000Z';

/** What a mirror holds that has read the record: what stands in the object in which its id is. */
function contentOf(kind: Kind, shapes: Shapes): JsonObject {
  const { rows, inside } = shapes.ids[kind];
  const document = shapedRecord(kind, KEPT[kind], 'rows', shapes);
  const above = rows.split('.').slice(0, -1).join('.');
  return inside && above !== '' ? (valueIn(document, above) as JsonObject) : document;
}

function sides(shapes: Shapes, edit: (row: MirrorRow) => void = () => undefined) {
  const rows = Object.fromEntries(
    KINDS.map((kind) => {
      const data = contentOf(kind, shapes);
      const text = (field: string) => (typeof data[field] === 'string' ? data[field] : null);
      const id = String(withShownIds(kind, KEPT[kind], shapes)[OWN[kind]]);
      const row: MirrorRow = {
        id,
        data,
        name: text('name'),
        version: text('version'),
        status: text('status'),
        verified_at: NOW,
        unverified_since: null,
        deleted_at: null,
      };
      edit(row);
      return [kind, new Map([[id, row]])];
    }),
  );
  const records = Object.fromEntries(
    KINDS.map((kind) => {
      const record = withShownIds(kind, KEPT[kind], shapes);
      return [kind, new Map([[String(record[OWN[kind]]), record]])];
    }),
  );
  const both = comparable(rows as never, records as never, shapes);
  return compare(both.mirror, both.upstream, new Set());
}

describe('a mirror of a service of any form', () => {
  const drawn = Array.from({ length: 200 }, (_, number) => drawShapes(seededRandom(number)));

  it('is equal where each record is as the API shows it', () => {
    for (const patch of drawn) expect(sides(changedShapes(DEFAULT_SHAPES, patch))).toEqual([]);
  });

  it('differs in the very fields that do', () => {
    for (const patch of drawn) {
      const found = sides(changedShapes(DEFAULT_SHAPES, patch), (row) => {
        row.status = 'tampered with';
        row.data = { ...row.data, likelihood: 9 };
      });
      expect(found.map(({ kind, fields }) => [kind, fields.map(({ field }) => field)])).toEqual(
        KINDS.map((kind) => [kind, ['status', 'data.likelihood']]),
      );
    }
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import {
  columnName,
  knownFields,
  learnFields,
  MAX_FIELDS,
  noteFields,
  pathOf,
  widened,
} from '../../src/mirror/flat-columns.ts';
import type { Field, FieldType, SeenField } from '../../src/store/store.ts';

const AT = '2026-11-01T12:00:00.000Z';
const TYPES: readonly FieldType[] = ['number', 'boolean', 'date', 'instant', 'text', 'json'];

/** What a kind has learned of these records, looked at in slices of so many. */
function learned(records: readonly JsonObject[], sliceOf = records.length, before: readonly Field[] = []) {
  let fields = [...before];
  for (let at = 0; at < records.length; at += sliceOf) {
    const seen = new Map<string, SeenField>();
    for (const data of records.slice(at, at + sliceOf)) {
      noteFields(seen, knownFields(fields), { kind: 'vendor', id: 'v1', data, at: AT });
    }
    const changed = learnFields(fields, [...seen.values()]);
    const places = new Set(changed.map(({ position }) => position));
    fields = [...fields.filter(({ position }) => !places.has(position)), ...changed].toSorted(
      (one, other) => one.position - other.position,
    );
  }
  return fields;
}
const columnsOf = (...records: JsonObject[]) =>
  Object.fromEntries(learned(records, 1).map(({ column, type }) => [column, type]));

describe('the type of a column', () => {
  it.each<[string, unknown, FieldType]>([
    ['a number', 4.5, 'number'],
    ['true or false', false, 'boolean'],
    ['a day', '2026-02-28', 'date'],
    ['a leap day', '2024-02-29', 'date'],
    ['an instant in UTC', '2026-11-01T12:00:00.123Z', 'instant'],
    ['an instant elsewhere', '2026-11-01T12:00:00+05:30', 'instant'],
    ['a day that is none', '2026-02-29', 'text'],
    ['a leap day of 1900, which had none', '1900-02-29', 'text'],
    ['a day of the year 0', '0000-01-01', 'text'],
    ['a time without its zone', '2026-11-01T12:00:00', 'text'],
    ['an hour that is none', '2026-11-01T24:00:00Z', 'text'],
    ['a day with a line end', '2026-11-01\n', 'text'],
    ['a number in quotes', '5', 'text'],
    ['an array', [1], 'json'],
  ])('of %s', (_name, value, type) => {
    expect(columnsOf({ field: value })).toEqual({ field: type });
  });

  it('waits for a value that tells it', () => {
    expect(columnsOf({ field: null }, { field: '' })).toEqual({});
    expect(columnsOf({ field: null }, { field: '' }, { field: '2026-11-01' })).toEqual({ field: 'date' });
  });

  it('is that of the values one level down, and below that JSON', () => {
    expect(columnsOf({ owner: { name: 'Ann', teams: ['a'], desk: { floor: 2 } } })).toEqual({
      owner_desk: 'json',
      owner_name: 'text',
      owner_teams: 'json',
    });
  });

  it('only widens, whatever comes in whatever order', () => {
    const type = fc.constantFrom(...TYPES);
    fc.assert(
      fc.property(type, type, type, (a, b, c) => {
        expect(widened(a, b)).toBe(widened(b, a));
        expect(widened(a, widened(b, c))).toBe(widened(widened(a, b), c));
        expect(widened(a, widened(a, b))).toBe(widened(a, b));
      }),
    );
  });

  it('that was too narrow stays what it is under another name, and the name goes to a new column at the end', () => {
    const fields = learned([{ tier: 1, zone: 'x' }, { tier: 'two' }, { tier: ['three'] }], 1);
    expect(fields.map(({ position, column, type, path }) => [position, column, type, path])).toEqual([
      [1, 'tier_number', 'number', 'tier'],
      [2, 'zone', 'text', 'zone'],
      [3, 'tier_text', 'text', 'tier'],
      [4, 'tier', 'json', 'tier'],
    ]);
  });
});

describe('the name of a column', () => {
  it.each([
    ['nextReviewAt', 'next_review_at'],
    ['riskID', 'risk_id'],
    ['HTTPStatus', 'http_status'],
    ['p95Latency', 'p95_latency'],
    ['next-review at', 'next_review_at'],
    ['ORDER', 'order'],
    ['größe', 'größe'],
    ['責任者', '責任者'],
    ['2fa', '_2fa'],
    ['__proto__', 'proto'],
    ['"; DROP TABLE vendors; --', 'drop_table_vendors'],
    ['😀', 'field'],
    ['', 'field'],
  ])('of %s is %s', (key, column) => {
    expect(columnName([key])).toBe(column);
  });

  it('is the first one to be seen’s, and counted for others that would have it', () => {
    const fields = learned([{ ownerName: 'a' }, { owner: { name: 'b' }, owner_name: 'c' }], 1);
    expect(fields.map(({ column, path }) => [column, path])).toEqual([
      ['owner_name', 'ownerName'],
      ['owner_name_2', 'owner.name'],
      ['owner_name_3', 'owner_name'],
    ]);
  });

  it('is not one that every record has, unless it is the same', () => {
    const data = { id: 'v1', name: 'Ann', status: 'ok', cause: 'x', syncedAt: 'y', version: '1' };
    expect(columnsOf(data)).toEqual({ data_cause: 'text', data_synced_at: 'text', data_version: 'text' });
    expect(columnsOf({ id: 7, name: 7 })).toEqual({ data_id: 'number', data_name: 'number' });
  });

  it('has its path beside it, where a dot in a name is told from a step', () => {
    expect([pathOf(['owner', 'name']), pathOf(['owner.name']), pathOf([''])]).toEqual([
      'owner.name',
      '"owner.name"',
      '""',
    ]);
  });

  it('is left out where nothing could address it', () => {
    expect(
      columnsOf({ a: { b: 'x' } }, { 'a\u0000b': 1, 'a\nb': 1, '\ud800': 1, ['x'.repeat(101)]: 1 }),
    ).toEqual({ a_b: 'text' });
  });
});

it('as many columns as a view can have are made, and the first field without one is said', () => {
  const data = Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`f${10_000 + n}`, n]));
  const fields = learned([data]);
  expect(fields.length).toBe(MAX_FIELDS + 1);
  expect(fields.filter(({ column }) => column === null)).toEqual([fields.at(-1)]);
  expect(fields.at(-1)).toMatchObject({ path: `f${10_000 + MAX_FIELDS}`, keys: [`f${10_000 + MAX_FIELDS}`] });
  expect(learned([{ ...data, f0: 1, f10000: 'text' }], 1, fields)).toEqual(fields);
});

it('columns are free of collisions, stay where they are, and do not depend on how much is looked at together', () => {
  const key = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('aB', 'a_b', 'A-B', 'a', 'b', '__proto__', 'id'),
  );
  const value = fc.oneof(
    fc.jsonValue({ maxDepth: 3 }),
    fc.dictionary(key, fc.oneof(fc.integer(), fc.string(), fc.constantFrom('2026-11-01', AT))),
  );
  const records = fc.array(fc.dictionary(key, value) as fc.Arbitrary<JsonObject>, { maxLength: 4 });
  fc.assert(
    fc.property(records, fc.integer({ min: 1, max: 4 }), (history, sliceOf) => {
      const fields = learned(history, sliceOf);
      const columns = fields.map(({ column }) => column!);
      expect(new Set(columns.map((column) => column.toLowerCase())).size).toBe(columns.length);
      for (const column of columns) {
        expect(Buffer.byteLength(column)).toBeLessThanOrEqual(63);
        expect(column).toMatch(/^[\p{L}_][\p{L}\p{M}\p{N}_]*$/u);
      }
      expect(fields.map(({ position }) => position)).toEqual(fields.map((_, nth) => nth + 1));
      // A later look moves nothing, and takes no type back.
      const later = learned([{ a: [1], aB: 'x' }], 1, fields);
      for (const [nth, field] of fields.entries()) {
        expect(later[nth]).toMatchObject({ keys: field.keys, type: field.type });
      }
      const paths = (of: Field[]) => [...new Set(of.map(({ path }) => path))];
      expect(paths(learned(history, 1))).toEqual(paths(learned(history)));
    }),
    { numRuns: 40 },
  );
});

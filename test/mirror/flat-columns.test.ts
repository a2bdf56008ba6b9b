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
  seenOf,
  widened,
} from '../../src/mirror/flat-columns.ts';
import type { Field, FieldType } from '../../src/store/store.ts';
import { anyText } from '../support/texts.ts';

const AT = '2026-11-01T12:00:00.000Z';
const TYPES: readonly FieldType[] = ['number', 'boolean', 'date', 'timestamp', 'instant', 'text', 'json'];

/** What a kind has learned of these records, looked at in slices of so many. */
function learned(records: readonly JsonObject[], sliceOf = records.length, before: readonly Field[] = []) {
  let fields = [...before];
  for (let at = 0; at < records.length; at += sliceOf) {
    const seen = seenOf({ seen: [], objects: [] });
    for (const data of records.slice(at, at + sliceOf)) {
      noteFields(seen, knownFields(fields), { kind: 'vendor', id: 'v1', data, at: AT });
    }
    const changed = learnFields(fields, seen);
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
    ['an instant without a colon in its zone', '2026-11-01T00:00:00.000+0000', 'instant'],
    ['an instant as databases write it', '2026-11-01 00:00:00+00', 'instant'],
    ['an instant to the nanosecond', '2026-12-31T23:59:59.999999999Z', 'instant'],
    ['the end of time', '9999-12-31T23:59:59.9999999Z', 'instant'],
    ['a time without a zone', '2026-11-01T00:00:00', 'timestamp'],
    ['a time without a zone, with a space', '2026-11-01 00:00:00.5', 'timestamp'],
    ['a time in a zone that leads out of the years', '9999-12-31T23:59:59-01:00', 'text'],
    ['a day that is none', '2026-02-29', 'text'],
    ['a leap day of 1900, which had none', '1900-02-29', 'text'],
    ['a day of the year 0', '0000-01-01', 'text'],
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

  it.each<[string, unknown, unknown, FieldType]>([
    ['days and instants', '2026-11-01', '2026-12-24T00:00:00Z', 'instant'],
    ['days and times without a zone', '2026-11-01', '2026-12-24 00:00:00', 'timestamp'],
    ['times with and without a zone', '2026-11-01T00:00:00', '2026-12-24T00:00:00Z', 'text'],
    ['days and zeros', '2026-11-01', '0000-00-00', 'date'],
    ['zeros and a time', '0000-00-00 00:00:00', '2026-11-01 10:00:00', 'timestamp'],
  ])('of %s is the one that holds both', (_, one, other, type) => {
    expect(learned([{ field: one }, { field: other }]).map((field) => field.type)).toEqual([type]);
    expect(columnsOf({ field: one }, { field: other })).toMatchObject({ field: type });
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

describe('an object whose keys differ from record to record', () => {
  const answers = (record: number) =>
    Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`q-${record * 20 + n}`, 'yes']));
  const vendors = Array.from({ length: 30 }, (_, n) => ({ tier: n, answers: answers(n) }));

  it.each([1, 7, 30])('is one column, looked at in slices of %i', (sliceOf) => {
    const later = { tier: 1, riskOwner: 'Ann', answers: answers(99) };
    const fields = learned([...vendors, later], sliceOf);
    expect(fields.map(({ column, type }) => [column, type])).toEqual(
      expect.arrayContaining([
        ['answers', 'json'],
        ['risk_owner', 'text'],
        ['tier', 'number'],
      ]),
    );
    expect(fields).toHaveLength(3);
  });

  it('leaves room for the fields behind it, however many keys it has', () => {
    const wide = Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`k${n}`, n]));
    expect(columnsOf({ map: wide, zone: 'x' })).toEqual({ map: 'json', zone: 'text' });
  });

  it('is not one that has a form, be it wide, or with fields that some leave out', () => {
    const form = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`part${n}`, n]));
    const without = ({ part0, part1, ...rest }: Record<string, number>) => rest;
    expect(learned([{ form }, { form }, { form: without(form) }])).toHaveLength(20);
    const few = learned([{ owner: { name: 'Ann' } }, { owner: { mail: 'ann@example.com' } }], 1);
    expect(few.map(({ column }) => column)).toEqual(['owner_name', 'owner_mail']);
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
  const key = fc.oneof(anyText(), fc.constantFrom('aB', 'a_b', 'A-B', 'a', 'b', '__proto__', 'id'));
  const value = fc.oneof(
    fc.jsonValue({ maxDepth: 3 }),
    // Few enough keys in all that they are never taken for those of a map.
    fc.dictionary(key, fc.oneof(fc.integer(), fc.string(), fc.constantFrom('2026-11-01', AT)), {
      maxKeys: 2,
    }),
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
      // Once something is a list, it is no form any more.
      const isMixed = (name: string) =>
        new Set(history.flatMap((data) => (name in data ? Array.isArray(data[name]) : []))).size > 1;
      if (!history.some((data) => Object.keys(data).some(isMixed)))
        expect(paths(learned(history, 1))).toEqual(paths(learned(history)));
    }),
    { numRuns: 40 },
  );
});

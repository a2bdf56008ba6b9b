import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseJson } from '../../src/compliance/json.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import {
  contentOf,
  diffContent,
  differingNames,
  mergePayload,
  type RowContent,
  withoutIgnored,
} from '../../src/mirror/merge.ts';
import { anyText } from '../support/texts.ts';

const ID_FIELDS = new Set(['id', 'policyId']);
const parse = (json: string): JsonObject => JSON.parse(json) as JsonObject;
const row = (data: JsonObject, deletedAt: string | null = null) => contentOf('policy', data, deletedAt);

describe('the columns of a record', () => {
  it.each([
    { kind: 'policy', data: { name: 'A', version: '1.0', status: 'draft' }, columns: ['A', '1.0', 'draft'] },
    { kind: 'vendor', data: { name: 'A', version: '1.0', status: 'x' }, columns: ['A', null, 'x'] },
    { kind: 'risk_assessment', data: { name: 'A', version: '1.0' }, columns: ['A', null, null] },
    { kind: 'policy', data: { name: 7, version: 2, status: { code: 1 } }, columns: [null, '2', null] },
    { kind: 'policy', data: { title: 'A', Version: 3.5, Status: 'x' }, columns: ['A', null, 'x'] },
    { kind: 'vendor', data: { Name: 'A', name: null, status: 4 }, columns: ['A', null, '4'] },
    { kind: 'policy', data: { name: null, status: '' }, columns: [null, null, ''] },
    { kind: 'policy', data: { name: 'half \ud800' }, columns: ['half \ufffd', null, null] },
  ] as const)('are the texts among its fields: $columns of a $kind', ({ kind, data, columns }) => {
    const { name, version, status } = contentOf(kind, data, null);
    expect([name, version, status]).toEqual(columns);
  });

  it('take nothing from a prototype', () => {
    const data = parse('{"__proto__": {"name": "inherited", "status": "inherited"}}');
    expect(row(data)).toMatchObject({ name: null, status: null });
    const heir = Object.create({ name: 'inherited', status: 'inherited' }) as JsonObject;
    expect(row(heir)).toMatchObject({ name: null, status: null });
  });
});

describe('merging a payload', () => {
  it.each([
    {
      what: 'is all there is of a new record',
      held: null,
      payload: { policyId: 'p', name: 'A' },
      merged: { policyId: 'p', name: 'A' },
    },
    {
      what: 'replaces the fields it shows',
      held: { name: 'A', x: 1 },
      payload: { name: 'B' },
      merged: { name: 'B', x: 1 },
    },
    {
      what: 'takes nothing away',
      held: { name: 'A', owner: 'Ann' },
      payload: {},
      merged: { name: 'A', owner: 'Ann' },
    },
    { what: 'can say null', held: { owner: 'Ann' }, payload: { owner: null }, merged: { owner: null } },
    {
      what: 'replaces an object whole',
      held: { o: { a: 1, b: 2 } },
      payload: { o: { a: 3 } },
      merged: { o: { a: 3 } },
    },
    { what: 'adds fields', held: { id: 'p' }, payload: { note: 'x' }, merged: { id: 'p', note: 'x' } },
    {
      what: 'adds no second name for the id',
      held: { id: 'p' },
      payload: { policyId: 'p' },
      merged: { id: 'p' },
    },
    {
      what: 'keeps the id field that the record has',
      held: { policyId: 'p' },
      payload: { policyId: 'p' },
      merged: { policyId: 'p' },
    },
  ])('$what', ({ held, payload, merged }) => {
    expect(mergePayload(held, payload, ID_FIELDS)).toEqual(merged);
  });

  it('keeps a field called __proto__ as data', () => {
    const merged = mergePayload({ name: 'A' }, parse('{"__proto__": {"admin": true}}'), ID_FIELDS);
    expect(JSON.stringify(merged)).toBe('{"name":"A","__proto__":{"admin":true}}');
    expect((merged as { admin?: boolean }).admin).toBeUndefined();
  });

  it('changes neither of the two', () => {
    const held = { name: 'A' };
    mergePayload(held, { name: 'B' }, ID_FIELDS);
    expect(held).toEqual({ name: 'A' });
  });
});

describe('what changed', () => {
  it.each([
    { what: 'nothing', before: row({ name: 'A' }), after: row({ name: 'A' }), change: null },
    {
      what: 'nothing, in another order',
      before: row({ a: { x: 1, y: 2 }, b: 2 }),
      after: row({ b: 2, a: { y: 2, x: 1 } }),
      change: null,
    },
    {
      what: 'a first sight',
      before: null,
      after: row({ name: 'A', n: 1 }),
      change: { operation: 'insert', before: {}, after: { name: 'A', data: { name: 'A', n: 1 } } },
    },
    {
      what: 'a first sight of nothing',
      before: null,
      after: row({}),
      change: { operation: 'insert', before: {}, after: { data: {} } },
    },
    {
      what: 'one field, and its column',
      before: row({ name: 'A', n: 1 }),
      after: row({ name: 'B', n: 1 }),
      change: {
        operation: 'update',
        before: { name: 'A', data: { name: 'A' } },
        after: { name: 'B', data: { name: 'B' } },
      },
    },
    {
      what: 'a field that came: absent before, not null',
      before: row({}),
      after: row({ n: null }),
      change: { operation: 'update', before: { data: {} }, after: { data: { n: null } } },
    },
    {
      what: 'a field that went: absent after, not null',
      before: row({ n: null }),
      after: row({}),
      change: { operation: 'update', before: { data: { n: null } }, after: { data: {} } },
    },
    {
      what: 'something deep, as the whole field',
      before: row({ o: { a: [1, 2] } }),
      after: row({ o: { a: [2, 1] } }),
      change: {
        operation: 'update',
        before: { data: { o: { a: [1, 2] } } },
        after: { data: { o: { a: [2, 1] } } },
      },
    },
    {
      what: 'a field that came to an object in it',
      before: row({ o: { a: 1 } }),
      after: row({ o: { a: 1, b: 2 } }),
      change: {
        operation: 'update',
        before: { data: { o: { a: 1 } } },
        after: { data: { o: { a: 1, b: 2 } } },
      },
    },
    {
      what: 'an array that became an object',
      before: row({ o: ['x'] }),
      after: row({ o: { 0: 'x' } }),
      change: { operation: 'update', before: { data: { o: ['x'] } }, after: { data: { o: { 0: 'x' } } } },
    },
    {
      what: 'an array that became an object which only looks like it',
      before: row({ o: ['x'] }),
      after: row({ o: { 0: 'x', length: 1 } }),
      change: {
        operation: 'update',
        before: { data: { o: ['x'] } },
        after: { data: { o: { 0: 'x', length: 1 } } },
      },
    },
    {
      what: 'an array that grew',
      before: row({ o: [1] }),
      after: row({ o: [1, 2] }),
      change: { operation: 'update', before: { data: { o: [1] } }, after: { data: { o: [1, 2] } } },
    },
    {
      what: 'a field called as the prototype is, that went',
      before: row(parse('{"__proto__": {}}')),
      after: row({}),
      change: { operation: 'update', before: { data: parse('{"__proto__": {}}') }, after: { data: {} } },
    },
    {
      what: 'a deletion',
      before: row({ name: 'A' }),
      after: row({ name: 'A' }, 'T'),
      change: { operation: 'delete', before: { deleted_at: null }, after: { deleted_at: 'T' } },
    },
    {
      what: 'a restoration with new content',
      before: row({ name: 'A' }, 'T'),
      after: row({ name: 'B' }),
      change: {
        operation: 'restore',
        before: { name: 'A', data: { name: 'A' }, deleted_at: 'T' },
        after: { name: 'B', data: { name: 'B' }, deleted_at: null },
      },
    },
    {
      what: 'content of what stays deleted',
      before: row({ n: 1 }, 'T'),
      after: row({ n: 2 }, 'T'),
      change: { operation: 'update', before: { data: { n: 1 } }, after: { data: { n: 2 } } },
    },
  ])('is $what', ({ before, after, change }) => {
    expect(diffContent(before, after)).toEqual(change);
  });

  it.each([
    ['-0', '0'],
    ['[-0]', '[0]'],
    ['1e999', 'null'],
    ['{"a":[1e999]}', '{"a":[null]}'],
    ['1.5e+22', '15000000000000000000000'],
    ['[9007199254740994.0]', '[9007199254740994]'],
  ])('is nothing between %s and %s, which are stored alike', (one, two) => {
    const value = (json: string) => row({ n: parseJson(json) });
    expect(diffContent(value(one), value(two))).toBeNull();
    expect(diffContent(value(two), value(one))).toBeNull();
  });

  it('is named for people, columns and the fields inside data', () => {
    const change = diffContent(row({ name: 'A', gone: 1 }, 'T'), row({ name: 'B', come: 2 }));
    expect(differingNames(change!)).toEqual(['data.come', 'data.gone', 'data.name', 'deleted_at', 'name']);
  });
});

describe('any two states of a record', () => {
  const field = fc.oneof(
    fc.constantFrom('name', 'version', 'status', '__proto__', 'constructor', 'toString', ''),
    fc.string({ maxLength: 3 }),
  );
  const data = fc
    .array(fc.tuple(field, fc.oneof(fc.constantFrom('A', 'B', null), fc.jsonValue({ maxDepth: 3 }))), {
      maxLength: 6,
    })
    .map((entries) => Object.fromEntries(entries) as JsonObject);
  const state = fc.tuple(data, fc.constantFrom(null, 'T1', 'T2')).map(([d, deletedAt]) => row(d, deletedAt));

  it('are told apart exactly: what changed, laid over the first, gives the second, and back', () => {
    fc.assert(
      fc.property(fc.option(state, { nil: null }), state, (before, after) => {
        const change = diffContent(before, after);
        if (change === null) {
          expect(isDeepStrictEqual(before, after)).toBe(true);
          return;
        }
        expect(patched(before, change.before, change.after)).toEqual(after);
        if (before !== null) expect(patched(after, change.after, change.before)).toEqual(before);
      }),
    );
  });

  it('differ in nothing from themselves as they are stored', () => {
    const hostile = fc.oneof(fc.double(), anyText(), fc.constant('\ud800'), fc.jsonValue());
    fc.assert(
      fc.property(
        fc.dictionary(field, fc.oneof(hostile, fc.array(hostile, { maxLength: 3 })), { maxKeys: 4 }),
        (d) => {
          const content = contentOf('policy', d as JsonObject, null);
          const stored = contentOf('policy', parse(JSON.stringify(d)), null);
          expect(diffContent(stored, content)).toBeNull();
        },
      ),
    );
  });
});

function patched(row: RowContent | null, from: JsonObject, to: JsonObject): RowContent {
  const start = row ?? { name: null, version: null, status: null, deletedAt: null, data: {} };
  const column = (name: string, value: unknown) =>
    (Object.hasOwn(to, name) ? to[name] : value) as string | null;
  const data = new Map(Object.entries(start.data));
  for (const name of Object.keys((from['data'] ?? {}) as JsonObject)) data.delete(name);
  for (const [name, value] of Object.entries((to['data'] ?? {}) as JsonObject)) data.set(name, value);
  return {
    name: column('name', start.name),
    version: column('version', start.version),
    status: column('status', start.status),
    deletedAt: column('deleted_at', start.deletedAt),
    data: Object.fromEntries(data),
  };
}

it.each<[JsonObject, JsonObject, boolean]>([
  [
    {
      docs: [
        { n: 1, url: 'a' },
        { n: 2, url: 'b' },
      ],
    },
    {
      docs: [
        { n: 1, url: 'c' },
        { n: 2, url: 'd' },
      ],
    },
    true,
  ],
  [{ docs: [{ n: 1, url: 'a' }] }, { docs: [{ n: 3, url: 'c' }] }, false],
  [{ docs: [{ n: 1, url: 'a' }] }, { docs: [] }, false],
  [{ docs: [7, { url: 'a' }] }, { docs: [7, { url: 'b' }] }, true],
  [{ docs: { url: 'a' } }, { docs: { url: 'b' } }, true],
  [{ docs: { url: 'a' } }, { docs: [{ url: 'b' }] }, false],
])('fields that are no difference may lie in lists: %j, %j', (before, after, isSame) => {
  const rules = { fields: [], ignored: [{ kind: null, path: 'docs.url' }], deleted: [] };
  const pointers = { policy: ['id'], risk_assessment: ['id'], vendor: ['id'], rules };
  expect(isDeepStrictEqual(withoutIgnored('vendor', before, after, pointers), before)).toBe(isSame);
});

import { describe, expect, test } from 'vitest';
import { listIn, MalformedAnswer, objectIn, recordIn, WRAPPERS } from '../../src/compliance/envelope.ts';
import type { Kind } from '../../src/compliance/kinds.ts';
import { type IdPointers, type JsonObject, MAX_DEPTH, recordIdIn } from '../../src/compliance/pointers.ts';

const pointers: IdPointers = {
  policy: ['policyId', 'policy.id', 'id'],
  risk_assessment: ['riskAssessmentId', 'assessmentId', 'riskId', 'risk.id', 'id'],
  vendor: ['vendorId', 'vendor.id', 'id'],
};
const idOf = (kind: Kind) => (object: JsonObject) => recordIdIn(object, kind, pointers);
const nested = (levels: number): JsonObject => (levels === 1 ? {} : { inner: nested(levels - 1) });

describe('a list', () => {
  const rows = [{ policyId: 'a' }, { policyId: 'b' }];

  test.each<[string, unknown, object]>([
    ['data as an array', { data: rows }, {}],
    ['data as an object holding one array', { data: { policies: rows, note: 'x' } }, {}],
    ['a bare array', rows, {}],
    [
      'meta beside it',
      { data: rows, meta: { page: 1, perPage: 2, total: 9, next: 'x' } },
      { page: 1, perPage: 2, total: 9 },
    ],
    ['a meta that is a list', { data: rows, meta: [] }, {}],
    ['a total of -1', { data: rows, meta: { total: -1 } }, {}],
    ['a total with a plus', { data: rows, meta: { total: '3+', page: 1 } }, { page: 1 }],
    ['a total that is empty', { data: rows, meta: { total: '' } }, {}],
    ['a meta that is null', { data: rows, meta: null }, {}],
    ['counts as text', { data: rows, meta: { page: '1', total: '30' } }, { page: 1, total: 30 }],
    ['a total that is null', { data: rows, meta: { total: null } }, {}],
    ['a total beside data', { data: rows, total: 9 }, { total: 9 }],
    ['a total under another name', { data: rows, pagination: { total_count: '9' } }, { total: 9 }],
    ['a total in an object of meta', { data: rows, meta: { pagination: { total: 9 } } }, { total: 9 }],
    ['an exact total', { data: rows, meta: { total: { value: 9, relation: 'eq' } } }, { total: 9 }],
    ['a total that is only a bound', { data: rows, meta: { total: { value: 9, relation: 'gte' } } }, {}],
    ['totals that differ', { data: rows, total: 2, meta: { total: 9 } }, { total: 9 }],
  ])('is found as %s', (_form, body, meta) => {
    expect(listIn(body, WRAPPERS.policy, idOf('policy'))).toMatchObject({ objects: rows, meta });
  });

  test('may wrap each of its rows', () => {
    for (const name of ['policy', 'item']) {
      const wrapped = rows.map((row) => ({ [name]: row }));
      expect(listIn({ data: wrapped }, WRAPPERS.policy, idOf('policy')).objects).toEqual(rows);
    }
  });

  test.each<[string | null, object]>([
    [null, { meta: { page: 1, next_cursor: null } }],
    [null, { links: { next: '' }, meta: { hasMore: false } }],
    ['meta.next_cursor', { meta: { next_cursor: 'abc' } }],
    ['links.next', { links: { next: 'https://x/?cursor=1' } }],
    ['pagination.hasMore', { pagination: { hasMore: true } }],
    ['nextPageToken', { nextPageToken: 'abc' }],
    ['meta.is_truncated', { meta: { is_truncated: true } }],
    ['meta.pageInfo.hasNextPage', { meta: { pageInfo: { hasNextPage: true } } }],
    ['isLast', { isLast: false }],
    [null, { isLast: true, done: true, last: 9 }],
  ])('goes on by %s with %j beside it', (next, beside) => {
    expect(listIn({ data: rows, ...beside }, WRAPPERS.policy, idOf('policy')).next).toBe(next);
  });

  test('may have its total and its next page in headers', () => {
    const read = (headers: Record<string, string>) =>
      listIn({ data: rows }, WRAPPERS.policy, idOf('policy'), { headers: new Headers(headers) });
    for (const headers of [
      { 'x-total-count': '9' },
      { 'x-wp-total': '9' },
      { 'content-range': 'items 0-1/9' },
      { 'x-pagination': '{"TotalCount":9,"PageSize":100}' },
    ])
      expect(read(headers as Record<string, string>).meta).toEqual({ total: 9 });
    expect(read({ 'content-range': 'items 0-1/*' }).meta).toEqual({});
    expect(read({ link: '</p?c=a>; rel="first", </p?c=b>; rel="next"' }).next).toBe('Link');
    expect(read({ link: '</p?c=a>; rel="prev"' }).next).toBe(null);
  });

  test.each<[number | undefined, object]>([
    [3, { meta: { current_page: 1, last_page: 3 } }],
    [4, { page: { number: 0, totalPages: '4' } }],
    [5, { meta: { pagination: { page: 2, pages: 5 } } }],
    [undefined, { meta: { page: 2, perPage: 5, lastPage: true }, pages: [1, 2] }],
  ])('has %s pages by %j beside it', (pages, beside) => {
    expect(listIn({ data: rows, ...beside }, WRAPPERS.policy, idOf('policy')).pages).toBe(pages);
  });

  test('says that it goes on by `true`, and not by a link', () => {
    const saysMore = (meta: object) =>
      listIn({ data: rows, meta }, WRAPPERS.policy, idOf('policy')).saysMore ?? false;
    expect(
      [{ hasMore: true }, { hasMore: 'True' }, { hasMore: false }, { next: '/p?c=a' }].map(saysMore),
    ).toEqual([true, true, false, false]);
  });

  test.each<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['text', 'no'],
    ['an object without data', { policies: rows }],
    ['data null', { data: null }],
    ['data an empty object', { data: {} }],
    ['data holding two arrays', { data: { policies: rows, archived: [] } }],
    ['data that is one record with an empty array in it', { data: { policyId: 'a', tags: [] } }],
    ['a row that is null', { data: [null] }],
    ['a row that is an array', { data: [[]] }],
    ['rows that are ids', { data: ['a', 'b'] }],
    ['a row nested too deep', { data: [nested(MAX_DEPTH + 1)] }],
  ])('is malformed with %s', (_form, body) => {
    expect(() => listIn(body, WRAPPERS.policy, idOf('policy'))).toThrow(MalformedAnswer);
  });

  test.each<[string, unknown, string]>([
    ['null', null, 'is not an object'],
    ['text', 'b', 'is not an object'],
    ['nested too deep', nested(MAX_DEPTH + 1), `is nested more than ${MAX_DEPTH} deep`],
    ['an error with an id', { policyId: 'c', name: null, error: { code: 'INTERNAL' } }, 'is an error'],
  ])('may have a row that is %s: the others are read, and that one is named', (_form, row, why) => {
    const { objects, unusable } = listIn({ data: [rows[0], row, rows[1]] }, WRAPPERS.policy, idOf('policy'));
    expect(objects).toEqual([rows[0], {}, rows[1]]);
    expect([...unusable]).toEqual([[1, why]]);
  });

  test.each([[null], [undefined], [{}]])('may say that it is empty by %j, with a total of 0', (data) => {
    const list = listIn({ data, meta: { total: 0 } }, WRAPPERS.policy, idOf('policy'));
    expect(list).toMatchObject({ objects: [], meta: { total: 0 } });
    for (const body of [
      { data, meta: { total: 1 } },
      { data, error: 'x', meta: { total: 0 } },
    ])
      expect(() => listIn(body, WRAPPERS.policy, idOf('policy'))).toThrow(MalformedAnswer);
  });

  test('may be empty, and its rows may be as deep as the limit', () => {
    expect(listIn({ data: [] }, WRAPPERS.policy, idOf('policy')).objects).toEqual([]);
    expect(listIn({ data: [nested(MAX_DEPTH)] }, WRAPPERS.policy, idOf('policy')).objects).toHaveLength(1);
  });
});

describe('a single record', () => {
  const vendor = { id: 'v1', name: 'Acme' };

  test.each<[string, Kind, unknown, object]>([
    ['data', 'vendor', { data: vendor }, vendor],
    ['data wrapping it in its name', 'vendor', { data: { vendor } }, vendor],
    [
      'data wrapping it, with other objects beside it',
      'vendor',
      { data: { vendor, links: { self: '/' } } },
      vendor,
    ],
    ['the body', 'vendor', vendor, vendor],
    ['the body wrapping it', 'vendor', { vendor }, vendor],
    [
      'a body that has a field data of its own',
      'vendor',
      { ...vendor, data: { a: 1 } },
      { ...vendor, data: { a: 1 } },
    ],
    [
      'an assessment under any of its names',
      'risk_assessment',
      { data: { riskAssessment: { id: 'r' } } },
      { id: 'r' },
    ],
    [
      'a record that embeds another of its name',
      'vendor',
      { data: { id: 'v1', vendor: { id: 'v2' } } },
      { id: 'v1', vendor: { id: 'v2' } },
    ],
    [
      'what a wrapper around all there is holds, without an id too',
      'vendor',
      { data: { vendor: { name: 'x' } } },
      { name: 'x' },
    ],
    [
      'data that has a part of its own name and no id',
      'vendor',
      { data: { vendor: { name: 'x' }, status: 'ok' } },
      { vendor: { name: 'x' }, status: 'ok' },
    ],
    ['an array of one', 'vendor', [vendor], vendor],
    ['data as an array of one', 'vendor', { data: [vendor] }, vendor],
    ['data wrapping an array of one', 'vendor', { data: { vendor: [vendor] } }, vendor],
    [
      'data whose id alone stands deeper',
      'risk_assessment',
      { data: { risk: { riskId: 'r' }, name: 'x', status: 'open' } },
      { risk: { riskId: 'r' }, name: 'x', status: 'open' },
    ],
    [
      'data whose id alone stands deeper, beside fields of no known name',
      'risk_assessment',
      { data: { risk: { id: 'r' }, likelihood: 3 } },
      { risk: { id: 'r' }, likelihood: 3 },
    ],
    ['data wrapping it, with a word of its own', 'vendor', { data: { vendor, status: 'ok' } }, vendor],
    ['data holding it under any one name', 'vendor', { data: { item: vendor } }, vendor],
    ['a body holding it under any one name, beside meta', 'vendor', { item: vendor, meta: {} }, vendor],
    ['data wrapping it twice by its name', 'vendor', { data: { vendor: { vendor } } }, vendor],
    [
      'data wrapping it twice, by any name within its own',
      'risk_assessment',
      { data: { riskAssessment: { attributes: { id: 'r', name: 'x' } } } },
      { id: 'r', name: 'x' },
    ],
    [
      'data wrapping what holds one object and no id',
      'vendor',
      { data: { vendor: { address: { city: 'x' } } } },
      { address: { city: 'x' } },
    ],
    ['data whose one field is no record', 'vendor', { data: { tags: ['a', 'b'] } }, { tags: ['a', 'b'] }],
    ['an error, as it is', 'vendor', { data: { error: { code: 1 } } }, { error: { code: 1 } }],
    ['data without any id', 'policy', { data: { name: 'x' } }, { name: 'x' }],
  ])('is found as %s', (_form, kind, body, expected) => {
    expect(objectIn(body, WRAPPERS[kind], idOf(kind))).toEqual(expected);
  });

  test.each<[string, unknown]>([
    ['nothing', undefined],
    ['an array of two', [vendor, { id: 'v2' }]],
    ['an empty array', []],
    ['data that is an array of two', { data: [vendor, { id: 'v2' }] }],
    ['data that is empty', { data: [] }],
    ['data that is null', { data: null }],
    ['data that is text', { data: 'v1' }],
    ['text', 'v1'],
    ['a number', 5],
    ['null', null],
    ['an object nested too deep', { data: { id: 'v1', ...nested(MAX_DEPTH + 1) } }],
  ])('is malformed as %s', (_form, body) => {
    expect(() => objectIn(body, WRAPPERS.vendor, idOf('vendor'))).toThrow(MalformedAnswer);
  });
});

test.each<[string, JsonObject, boolean]>([
  ['an error beside the id', { id: 'v1', error: { code: 'forbidden', message: 'no' } }, false],
  ['errors, and nothing that could be read', { id: 'v1', name: null, errors: [{ message: 'no' }] }, false],
  ['a code and a message', { id: 'v1', code: 'INTERNAL', message: 'no' }, false],
  ['a problem document', { id: 'v1', type: 'about:blank', title: 'No', status: 500 }, false],
  ['a failed import as a field', { id: 'v1', name: 'Acme', error: { code: 'import' } }, true],
  ['a title and a status', { id: 'v1', title: 'Acme', status: 'open', type: 'cloud' }, true],
  ['nothing but its id', { id: 'v1' }, true],
])('an answer of a record’s own address with %s', (_what, data, isRecord) => {
  const read = () => recordIn({ data }, 'vendor', 'v1', pointers);
  if (isRecord) expect(read()).toEqual(data);
  else expect(read).toThrow('the answer is an error');
});

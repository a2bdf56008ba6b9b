import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { recordPath, routeOf } from '../../src/compliance/client.ts';
import { UnaddressableError } from '../../src/compliance/errors.ts';
import { isAddressable, isUsableId } from '../../src/compliance/pointers.ts';
import { urlFor } from '../../src/compliance/transport.ts';
import { anyText } from '../support/texts.ts';

const base = new URL('https://compliance.example/api/v1');

describe('a record id in a path', () => {
  test.each([
    ['plain', 'v-1', '/api/v1/vendors/v-1'],
    ['with slashes and dots', '../admin', '/api/v1/vendors/..%2Fadmin'],
    ['encoded already', '%2e%2e', '/api/v1/vendors/%252e%252e'],
    ['with a query and a fragment in it', 'a?b#c', '/api/v1/vendors/a%3Fb%23c'],
    ['with a backslash', 'a\\b', '/api/v1/vendors/a%5Cb'],
    ['three dots', '...', '/api/v1/vendors/...'],
  ])('%s stays one segment', (_case, id, pathname) => {
    expect(urlFor(base, recordPath('vendor', id)).pathname).toBe(pathname);
  });

  test.each([['.'], ['..'], [''], ['a\nb'], ['\ud800'], ['x'.repeat(256)]])('%j is refused', (id) => {
    expect(() => recordPath('vendor', id)).toThrow(UnaddressableError);
  });

  test('whatever the id, the service can read exactly it from the last segment', () => {
    const ids = anyText({ maxLength: 60 }).filter((id) => isUsableId(id) && isAddressable(id));
    fc.assert(
      fc.property(ids, (id) => {
        const segments = urlFor(base, recordPath('risk_assessment', id)).pathname.split('/');
        expect(segments.slice(0, -1)).toEqual(['', 'api', 'v1', 'risk-assessments']);
        expect(decodeURIComponent(segments.at(-1)!)).toBe(id);
      }),
    );
  });
});

test.each([['/vendors/../policies'], ['/vendors/%2e%2e'], ['vendors'], ['//..'], ['/a\tb'], ['/a b']])(
  'a path that would be sent as another, %j, is refused',
  (path) => {
    expect(() => urlFor(base, path)).toThrow(UnaddressableError);
  },
);

test('a query is kept, and a base with a trailing slash gives no double one', () => {
  expect(urlFor(new URL('https://h/v1/'), '/policies?page=2').href).toBe('https://h/v1/policies?page=2');
});

test.each([
  ['/policies?page=1', '/policies'],
  ['/vendors', '/vendors'],
  ['/vendors/v1', '/vendors/{id}'],
  ['/risk-assessments', '/risk-assessments'],
  ['/risk-assessments/r%2F1', '/risk-assessments/{id}'],
  ['/webhooks', '/webhooks'],
  ['/webhooks/w1', 'other'],
  ['/policies/p1', 'other'],
  ['/vendors/', 'other'],
  ['/vendors/v1/x', 'other'],
  ['/constructor', 'other'],
])('the route of %s is %s', (path, route) => {
  expect(routeOf(path)).toBe(route);
});

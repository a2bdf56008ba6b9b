import { expect, it } from 'vitest';
import { listIn, recordIn, WRAPPERS } from '../../src/compliance/envelope.ts';
import { UpstreamError } from '../../src/compliance/errors.ts';
import { ageIn, type Expectation, judge, reportIn } from '../../src/compliance/gate.ts';
import { DEFAULT_ID_POINTERS, isObject, type JsonObject, recordIdIn } from '../../src/compliance/pointers.ts';
import { ExchangeFailure } from '../../src/compliance/transport.ts';

/** What an answer comes to: `ok`, or the kind of its error. */
function judged(
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
  expected: Partial<Expectation<unknown>> = {},
) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return judge<unknown>(
    { method: 'GET', path: '/x', isSuccess: (code) => code === 200, read: (json) => json, ...expected },
    { status, headers: new Headers(headers), body: Buffer.from(text) },
    { authorization: 'Bearer key-0123456789', wallMs: 0 },
  );
}
const kindOf = (result: ReturnType<typeof judged>) => (result instanceof UpstreamError ? result.kind : 'ok');
const idOf = (object: JsonObject) => recordIdIn(object, 'vendor', DEFAULT_ID_POINTERS);
const ROWS = [{ id: 'a' }];

it.each<[string, unknown, 'failed' | 'partial' | null]>([
  ['errors and no rows', { data: [], errors: [{ message: 'scope missing' }] }, 'failed'],
  ['errors beside rows', { data: ROWS, errors: [{ message: 'one shard timed out' }] }, 'partial'],
  ['errors in meta', { data: ROWS, meta: { errors: ['x'] } }, 'partial'],
  ['an error and data null', { data: null, error: { code: 'forbidden' }, id: 'v2' }, 'failed'],
  ['an error as a text', { error: 'no' }, 'failed'],
  ['an error as a number', { data: null, error: 7 }, 'failed'],
  ['errors by field', { data: { id: 'a', name: null }, errors: { name: ['internal'] } }, 'partial'],
  ['success false', { success: false, data: ROWS }, 'failed'],
  ['ok false', { ok: false }, 'failed'],
  ['ok false in meta', { data: ROWS, meta: { ok: false } }, 'failed'],
  ['status error', { status: 'error', data: ROWS }, 'failed'],
  ['partial', { data: ROWS, partial: true }, 'partial'],
  ['incomplete_results', { data: ROWS, meta: { total: 1, incomplete_results: true } }, 'partial'],
  ['incompleteResults', { data: ROWS, incompleteResults: true }, 'partial'],
  ['has_errors', { data: ROWS, meta: { has_errors: true } }, 'partial'],
  ['timed_out', { data: ROWS, timed_out: true }, 'partial'],
  ['shards that failed', { data: ROWS, _shards: { total: 5, successful: 3, failed: 2 } }, 'partial'],
  ['isPartial', { data: ROWS, isPartial: true }, 'partial'],
  ['a GraphQL error', { data: null, errors: [{ message: 'denied', path: ['vendor'] }] }, 'failed'],
  ['a fault of a gateway', { data: [], fault: { faultstring: 'quota' } }, 'failed'],
  ['an exception', { data: [], exception: 'NullPointerException' }, 'failed'],
  ['errorMessage', { data: [], errorMessage: 'no' }, 'failed'],
  ['success that is the text false', { data: [], success: 'false' }, 'failed'],
  ['ok 0', { data: [], ok: 0 }, 'failed'],
  ['isSuccess false', { data: [], isSuccess: false }, 'failed'],
  ['Success false', { data: [], Success: false }, 'failed'],
  ['success false in an object of its own', { data: [], result: { success: false } }, 'failed'],
  ['status fail', { status: 'fail', data: { title: 'required' } }, 'failed'],
  ['the status of another answer', { data: [], status: 500, message: 'Internal' }, 'failed'],
  ['the status of another answer as a text', { data: [], statusCode: '500' }, 'failed'],
  ['the code of another answer', { data: [], code: 403 }, 'failed'],
  ['the status of another answer in an object', { data: [], status: { code: 503 } }, 'failed'],
  ['the status pending, and no rows', { data: [], status: 'pending' }, 'failed'],
  ['errors of a name of their own', { data: [], userErrors: [{ message: 'no' }] }, 'failed'],
  ['errcode', { data: [], errcode: 40001, errmsg: 'invalid credential' }, 'failed'],
  ['ErrorCode', { data: [], ErrorCode: 'E100' }, 'failed'],
  ['error_description', { data: [], error_description: 'expired' }, 'failed'],
  ['a number of errors', { data: [], errorCount: 1 }, 'failed'],
  ['hasError', { data: [], hasError: true }, 'failed'],
  ['the result error', { data: [], result: 'error' }, 'failed'],
  ['a code of its own, a message and no rows', { data: { items: [] }, code: 1254290, msg: 'busy' }, 'failed'],
  ['a code that is a word', { data: [], code: 'UNAUTHORIZED', message: 'no' }, 'failed'],
  ['a status with a code in meta', { data: [], meta: { status: { code: 500 } } }, 'failed'],
  ['the status unavailable', { data: [], status: 'unavailable' }, 'failed'],
  ['partialFailureError', { data: ROWS, partialFailureError: { code: 3 } }, 'partial'],
  ['failures', { data: ROWS, failures: [{ shard: 1 }] }, 'partial'],
  ['the places that did not answer', { data: ROWS, unreachable: ['eu-1'] }, 'partial'],
  ['degraded', { data: ROWS, meta: { degraded: true } }, 'partial'],
  ['the status partial_success', { data: ROWS, status: 'PARTIAL_SUCCESS' }, 'partial'],
  ['success in part', { data: ROWS, success: 'partial' }, 'partial'],
  ['an end before its time', { data: ROWS, meta: { terminated_early: true } }, 'partial'],
  ['what is not exhaustive', { data: ROWS, exhaustive: false }, 'partial'],
  ['a warning of parts', { data: ROWS, warnings: [{ title: 'Partial results: eu-1 timed out' }] }, 'partial'],
  ['what is exhaustive', { data: ROWS, exhaustive: true, terminated_early: false, warnings: [] }, null],
  ['the status pending, and rows', { data: ROWS, status: 'pending' }, null],
  ['errcode 0', { data: [], errcode: 0, errmsg: 'ok' }, null],
  ['errorCode 0000', { data: [], errorCode: '0000', errorMessage: 'Success', hasError: false }, null],
  ['a code of success', { data: [], code: 20000, msg: 'found nothing' }, null],
  ['a code and rows', { data: ROWS, code: 7, message: 'of our own' }, null],
  ['defaults', { data: [], default: 'x', defaults: { order: 'name' } }, null],
  ['nowhere that did not answer', { data: ROWS, unreachable: [], failures: [], failedCount: 0 }, null],
  ['no failed shards', { data: ROWS, _shards: { total: 5, successful: 5, failed: 0 } }, null],
  ['a good status and code', { data: ROWS, status: 200, code: 0, message: 'OK', ok: 1 }, null],
  ['warnings', { data: ROWS, warnings: ['this version is deprecated'] }, null],
  ['what was asked for', { data: ROWS, meta: { filter: { status: 'error' } } }, null],
  ['no errors', { data: ROWS, errors: [] }, null],
  ['errors that are an empty object', { data: ROWS, errors: {} }, null],
  ['error null', { data: ROWS, error: null }, null],
  ['an empty error', { data: ROWS, error: '' }, null],
  ['error false', { data: ROWS, error: false }, null],
  ['success true', { data: ROWS, success: true, partial: false, timed_out: false }, null],
  ['status ok', { data: ROWS, status: 'success' }, null],
  ['has_errors of another type', { data: ROWS, has_errors: 'maybe' }, null],
  ['a count of what failed elsewhere', { data: ROWS, summary: { passed: 9, failed: 2 } }, null],
  ['facets', { data: ROWS, facets: { status: { draft: 3 }, failed: 4 }, counts: { failed: 3 } }, null],
  ['the filter that was asked for', { data: ROWS, filter: { status: 'failed' } }, null],
  ['the query that was asked for', { data: [], query: { status: 'error', page: 1 } }, null],
  ['exceptions to policies', { data: ROWS, exceptions: [{ id: 'x1' }], exceptionCount: 1 }, null],
  ['a number of exceptions', { data: ROWS, meta: { exceptions: 2, policyExceptions: 1 } }, null],
  ['links', { data: ROWS, _links: { errors: { href: 'https://x' } }, links: { errors: 'https://x' } }, null],
  ['an error message of success', { data: [], errorMsg: '成功' }, null],
  ['a sentence of success', { data: [], errorMessage: 'Request completed successfully.' }, null],
  ['a sentence of no success', { data: [], errorMessage: 'The search was unsuccessful.' }, 'failed'],
  ['a sentence of partial success', { data: [], errorMsg: '不成功' }, 'failed'],
  ['a sentence of not enough', { data: [], errorMessage: 'Not all was read successfully' }, 'failed'],
  ['an error that is not applicable', { data: ROWS, error: 'N/A', err: '-', errorInfo: 'No errors' }, null],
  ['NO_FAULT', { data: [], faultCode: 'NO_FAULT', errorCode: 'SUCCESS' }, null],
  ['an error in another script', { data: [], error: 'ошибка' }, 'failed'],
  ['the status degraded', { data: ROWS, meta: { status: 'degraded' } }, 'partial'],
  ['the status incomplete', { data: ROWS, status: 'Incomplete' }, 'partial'],
  ['the status timed out', { data: ROWS, meta: { state: 'TIMED_OUT' } }, 'partial'],
  ['sources that did not answer', { data: ROWS, meta: { unavailableSources: ['eu-west'] } }, 'partial'],
  ['failed sources', { data: ROWS, failedSources: 1 }, 'partial'],
  ['shards that were skipped', { data: ROWS, _shards: { total: 5, shards_skipped: 2 } }, 'partial'],
  ['rows that were skipped', { data: ROWS, meta: { skipped: 2 } }, 'partial'],
  ['keys that were left', { data: ROWS, UnprocessedKeys: { x: {} } }, 'partial'],
  ['nothing skipped', { data: ROWS, skipped: 0, unavailableSources: [], failedSources: 'none' }, null],
  ['what failed of the subject', { data: ROWS, meta: { failedControls: 3, incompletePolicies: 1 } }, null],
  [
    'fields of a record',
    { data: { id: 'a', status: 'error', error: 'x', errors: ['y'], partial: true, ok: false } },
    null,
  ],
  ['a field of a row', { data: [{ id: 'a', status: 'error', success: false }] }, null],
  ['an array', ROWS, null],
  ['nothing', null, null],
])('an answer with %s reports what it does', (_what, body, kind) => {
  expect(reportIn(body, undefined)?.kind ?? null).toBe(kind);
  expect(kindOf(judged(200, body as object))).toBe(kind ?? 'ok');
});

it.each<[string, object, 'failed' | null]>([
  ['status error', { id: 'a', name: 'A', status: 'error' }, null],
  ['the status pending, and no name', { id: 'a', status: 'pending', owner: 'x' }, null],
  ['a text under error', { id: 'a', name: 'A', error: 'of its import' }, null],
  ['an error object', { id: 'a', name: 'A', error: { code: 'forbidden' } }, 'failed'],
  ['a granted exception', { id: 'a', name: 'A', exception: { granted: true } }, null],
  ['errors of its own', { id: 'a', name: 'A', errors: [{ field: 'contact' }] }, null],
  ['a fault of a gateway', { id: 'a', fault: { faultstring: 'quota' }, region: 'eu' }, 'failed'],
  ['no name, and an error', { id: 'a', error: 'no' }, 'failed'],
  ['a code and a message', { id: 'a', code: 'NOT_FOUND', message: 'no such thing' }, 'failed'],
  ['ok false', { id: 'a', ok: false, error: 'ratelimited' }, 'failed'],
  ['success false as a text, and a message', { id: 'a', success: 'false', message: 'no' }, 'failed'],
  ['success false of its own', { id: 'a', owner: 'x', success: false }, null],
  ['a code and a message of an error', { id: 'a', error_code: 'E1', error_message: 'no' }, 'failed'],
  ['the error of OData', { id: 'a', 'odata.error': { code: 'x', message: { value: 'no' } } }, 'failed'],
  ['the error of SCIM', { id: 'a', schemas: ['urn:x:Error'], status: '404', detail: 'no' }, 'failed'],
  ['where an exception was thrown', { id: 'a', message: 'no', exception: 'X', file: 'a', line: 3 }, 'failed'],
  [
    'a status of failure and a trace',
    { id: 'a', status: 500, message: 'no', trace: 'at X', path: '/' },
    'failed',
  ],
  ['a description and a status', { id: 'a', title: 'A', description: 'of it', status: 'failed' }, null],
  ['what a problem document has', { id: 'a', type: 'about:blank', title: 'No', status: 500 }, 'failed'],
])('a record that is not wrapped, with %s, is a record or a failure', (_what, body, kind) => {
  const isRecord = (one: object) => isObject(one) && 'id' in one;
  expect(reportIn(body, isRecord)?.kind ?? null).toBe(kind);
});

it('an array of nothing but errors is a failure', () => {
  const error = { errorCode: 'INVALID_URL', message: 'no', fields: ['url'] };
  expect(kindOf(judged(200, [error, error]))).toBe('failed');
  for (const rows of [[], [{ id: 'a', name: 'A' }], [error, { id: 'a', name: 'A' }]])
    expect(kindOf(judged(200, rows))).toBe('ok');
});

it('a failure that names a time to wait is obeyed in a 200 too', () => {
  const answer = { ok: false, error: 'maintenance' };
  expect(judged(200, answer, { 'retry-after': '30' })).toMatchObject({
    kind: 'failed',
    retryAfterMs: 30_000,
  });
});

it('a report is quoted, without what may be a secret, and a POST that was refused so is known to have done nothing', () => {
  const body = { success: false, error: { code: 'limit', message: 'too many webhooks abcdefghijklmnop123' } };
  const refused = judged(200, body, {}, { method: 'POST', isSecret: true, asText: true });
  expect(refused).toMatchObject({
    kind: 'failed',
    outcomeUnknown: false,
    excerpt: 'too many webhooks [hidden]',
  });
  const warned = { data: { id: 'w1', secret: 's' }, errors: [{ message: 'one event is unknown' }] };
  expect(judged(200, warned, {}, { method: 'POST', asText: true })).toMatchObject({ agedMs: 0 });
  expect(judged(200, { data: [], errors: [{ message: 'scope missing' }] })).toMatchObject({
    message: 'GET /x: answered 200, and the answer says itself that it is a failure (errors): scope missing',
  });
});

it.each<[number, Record<string, string>, string, number | null]>([
  [304, {}, 'no_json', null],
  [401, {}, 'unauthorized', null],
  [401, { 'retry-after': '5' }, 'unauthorized', null],
  [403, {}, 'forbidden', null],
  [403, { 'retry-after': '5' }, 'rate_limited', 5_000],
  [403, { 'x-ratelimit-remaining': '0' }, 'rate_limited', 10_000],
  [403, { 'ratelimit-remaining': '0', 'retry-after': '7' }, 'rate_limited', 7_000],
  [403, { ratelimit: '"default";r=0;t=30' }, 'rate_limited', 10_000],
  [403, { ratelimit: 'limit=100, remaining=0, reset=5' }, 'rate_limited', 10_000],
  [403, { 'x-ratelimit-remaining-minute': '0' }, 'rate_limited', 10_000],
  [403, { 'retry-after': '00:00:05' }, 'rate_limited', 10_000],
  [403, { 'x-rate-limit-remaining': '0', 'x-rate-limit-reset': '7' }, 'rate_limited', 7_000],
  [429, { 'x-ratelimit-reset': '1795892047', date: 'Sat, 28 Nov 2026 18:54:00 GMT' }, 'rate_limited', 7_000],
  [
    429,
    { 'x-ratelimit-reset': '1795892047000', date: 'Sat, 28 Nov 2026 18:54:00 GMT' },
    'rate_limited',
    7_000,
  ],
  [429, { 'ratelimit-reset': '1970-01-01T00:00:07Z' }, 'rate_limited', 7_000],
  [429, { 'ratelimit-reset': 'soon' }, 'rate_limited', 10_000],
  [403, { 'x-ratelimit-remaining': '12' }, 'forbidden', null],
  [429, {}, 'rate_limited', 10_000],
  [429, { 'retry-after': '9' }, 'rate_limited', 9_000],
  [503, { 'retry-after': '9' }, 'unreachable', 9_000],
  [503, {}, 'unreachable', null],
  [
    503,
    { date: 'Mon, 05 Jan 2026 12:00:00 GMT', 'retry-after': 'Mon, 05 Jan 2026 12:00:30 GMT' },
    'unreachable',
    30_000,
  ],
  [206, {}, 'unexpected_status', null],
  [502, {}, 'unreachable', null],
  [400, {}, 'not_taken', null],
  [413, {}, 'not_taken', null],
  [422, {}, 'not_taken', null],
  [500, { 'retry-after': '9' }, 'server', null],
  [404, { 'retry-after': '9' }, 'unexpected_status', null],
])('%i with %j is %s', (status, headers, kind, retryAfterMs) => {
  expect(judged(status, {}, headers)).toMatchObject({ kind, retryAfterMs });
});

it.each<[number, unknown, Record<string, string>, string]>([
  [400, { error: 'invalid_token', error_description: 'expired' }, {}, 'unauthorized'],
  [400, { error: { code: 'invalid_token' } }, {}, 'unauthorized'],
  [403, {}, { 'www-authenticate': 'Bearer realm="x", error="invalid_token"' }, 'unauthorized'],
  [500, 'no', { 'www-authenticate': 'Bearer error=invalid_token' }, 'unauthorized'],
  [200, { error: 'invalid_token' }, {}, 'unauthorized'],
  [200, { data: [{ id: 'a', error: 'invalid_token' }] }, {}, 'ok'],
  [200, { code: 401, message: 'token expired' }, {}, 'unauthorized'],
  [200, { success: false, error: { code: 'unauthenticated' } }, {}, 'unauthorized'],
  [200, { error: 'token_expired' }, {}, 'unauthorized'],
  [200, { error: 'unauthorized' }, {}, 'failed'],
  [200, { errors: [{ type: 'RATE_LIMITED', message: 'API rate limit exceeded' }] }, {}, 'rate_limited'],
  [200, { success: false }, { 'x-ratelimit-remaining': '0' }, 'rate_limited'],
  [403, {}, { 'www-authenticate': 'Bearer error="insufficient_scope"' }, 'forbidden'],
  [403, '<html>Just a moment...</html>', { server: 'cloudflare' }, 'no_json'],
  [403, '<HTML><H1>Access Denied</H1>', { 'content-type': 'text/html' }, 'no_json'],
])('a %i with the body %j and %j is %s', (status, body, headers, kind) => {
  expect(kindOf(judged(status, body, headers))).toBe(kind);
});

it('why the credentials are rejected is said in the service’s own words', () => {
  const { message } = judged(403, { error: { message: 'vendor:read is missing' } }) as UpstreamError;
  expect(message).toBe('GET /x: answered 403: vendor:read is missing');
});

it.each<[string, number, unknown, string]>([
  ['a page', 200, '<html>Sign in</html>', 'no_json'],
  ['XML', 201, '<webhook><id>1</id></webhook>', 'no_json'],
  ['a text', 201, 'whsec-0123456789', 'ok'],
  ['nothing but parts that failed', 207, { results: [{ status: 422, error: 'bad' }] }, 'failed'],
  ['nothing but errors', 207, { data: { items: [{ code: 409, message: 'exists' }] } }, 'failed'],
  ['a part that failed', 207, { results: [{ status: 201, id: 'w1' }, { status: '422' }] }, 'ok'],
  ['parts that are fine', 207, [{ status: 201, id: 'w1' }], 'ok'],
])('a POST that is answered with %s and the status %i: %j is %s', (_what, status, body, kind) => {
  const post = { method: 'POST', isSuccess: (code: number) => code < 300, asText: true } as const;
  expect(kindOf(judged(status, body, {}, post))).toBe(kind);
});

it.each([
  [{ message: 'You have exceeded a secondary rate limit.' }, 'rate_limited'],
  [[{ message: 'TotalRequests Limit exceeded.', errorCode: 'REQUEST_LIMIT_EXCEEDED' }], 'rate_limited'],
  [{ error: { errors: [{ reason: 'dailyLimitExceeded' }] } }, 'rate_limited'],
  [{ message: 'Out of call volume quota. Quota will be replenished in 00:00:04.' }, 'rate_limited'],
  [{ fault: { faultstring: 'Quota limit violated' } }, 'rate_limited'],
  ['<h1>Developer Over Qps</h1>', 'rate_limited'],
  [{ error: { errors: [{ reason: 'rateLimitExceeded' }] } }, 'rate_limited'],
  [{ message: 'this key may not read vendors' }, 'forbidden'],
])('a 403 with the body %j is %s', (body, kind) => {
  expect(kindOf(judged(403, body))).toBe(kind);
});

it.each([
  'data',
  'meta',
  'page',
  'links',
  'errors',
  'status',
  'code',
  'result',
  'message',
  'id',
  'total',
  'x',
])('an answer is judged however deep its field %s nests', (name) => {
  const isRecord = (object: JsonObject) => idOf(object) !== null;
  const reads: Partial<Expectation<unknown>>[] = [
    { read: (json) => listIn(json, WRAPPERS.vendor, idOf) },
    { isRecord, read: (json) => recordIn(json, 'vendor', 'v1', DEFAULT_ID_POINTERS) },
  ];
  const levels = 20_000;
  const deep = [
    '['.repeat(levels) + ']'.repeat(levels),
    `${`{"${name}":`.repeat(levels)}1${'}'.repeat(levels)}`,
  ];
  const around = deep.flatMap((value) => [
    value,
    `{"data":[],"${name}":${value}}`,
    `{"data":[],"meta":{"${name}":${value}}}`,
    `{"data":{"id":"v1","${name}":${value}}}`,
    `{"id":"v1","${name}":${value}}`,
  ]);
  for (const body of around)
    for (const read of reads) expect(() => judged(200, body, {}, read)).not.toThrow();
});

it.each<[number, Record<string, string>, string, boolean]>([
  [404, { 'content-type': 'text/html; charset=utf-8' }, 'x', true],
  [400, { 'content-type': 'text/plain' }, '\n <html>', true],
  [400, { 'content-type': 'application/json' }, '{"error":"<b>"}', false],
  [404, { 'content-type': 'text/plain' }, 'x', false],
])('whether %i with %j and the body %j is a page: %s', (status, headers, body, isPage) => {
  expect(judged(status, body, headers)).toMatchObject({ isPage });
});

it.each<[string, string]>([
  ['a page', '<html>'],
  ['a text', 'busy'],
  ['half of an answer', '{"data":['],
])('%s is no JSON, and no answer of this API', (_what, body) => {
  expect(judged(200, body)).toMatchObject({ kind: 'no_json', retryable: true });
});

it('a redirect is no answer of this API either', () => {
  const reply = new ExchangeFailure('no_json', 'the answer is a redirect, which is never followed');
  const sent = { authorization: '', wallMs: 0 };
  const expected: Expectation<unknown> = {
    method: 'GET',
    path: '/x',
    isSuccess: () => true,
    read: () => null,
  };
  expect(judge(expected, reply, sent)).toMatchObject({ kind: 'no_json' });
});

it.each([
  ['3600', 3_600_000],
  ['0', 0],
  [' 12 ', 12_000],
  ['12, 40', 12_000],
  ['-1', 0],
  ['old', 0],
  [null, 0],
])('an Age of %j is %i ms', (header, ms) => {
  expect(ageIn(new Headers(header === null ? {} : { age: header }))).toBe(ms);
  expect(judged(200, { data: [] }, header === null ? {} : { age: header })).toMatchObject({ agedMs: ms });
});

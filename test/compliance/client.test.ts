import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { apiKeyCredentials } from '../../src/compliance/credentials.ts';
import { UnaddressableError } from '../../src/compliance/errors.ts';
import type { RegistrationAnswer } from '../../src/compliance/registration.ts';
import { MAX_RESPONSE_BYTES, MAX_RESPONSE_VALUES } from '../../src/compliance/transport.ts';
import { API_KEY, type Handler, json, startUpstream, type Upstream } from './upstream.ts';

const call = { lane: 'live', signal: new AbortController().signal } as const;
const creation = { ...call, method: 'POST', path: '/policies', body: '{"name":"x"}' } as const;
/** Waited for in vain. What is sent before it reaches the other side within it, on a busy machine too. */
const SILENCE_MS = 2_000;
let upstream: Upstream;
const start = async (...args: Parameters<typeof startUpstream>) => {
  upstream = await startUpstream(...args);
  return upstream;
};
afterEach(() => upstream.close());

describe('reading', () => {
  test('a page is asked for with the paging settings, and its rows and meta are handed on', async () => {
    const meta = { page: 0, perPage: 20, total: 1 };
    const { client, received } = await start(
      (response) => json(response, 200, { data: [{ policyId: 'p' }], meta }),
      {
        settings: { paging: { pageParam: 'p', perPageParam: 'per page', firstPage: 0, pageSize: 50 } },
      },
    );
    expect(await client.listPage('policy', 0, call)).toMatchObject({
      objects: [{ policyId: 'p' }],
      meta,
    });
    expect(received[0]).toMatchObject({
      method: 'GET',
      url: '/api/v1/policies?p=0&per+page=50',
      headers: {
        authorization: `Bearer ${API_KEY}`,
        'accept-encoding': 'gzip',
        'user-agent': expect.stringMatching(/^compliance-mirror\/\d+\.\d+\.\d+/),
        'cache-control': 'no-cache',
      },
    });
  });

  test('a record is found under its id, sent as one encoded segment, and unpacked when compressed', async () => {
    const id = '../a b/ü';
    const { client, received } = await start((response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      response.end(gzipSync(JSON.stringify({ data: { vendor: { id, name: 'Acme' } } })));
    });
    expect(await client.getRecord('vendor', id, call)).toMatchObject({
      outcome: 'found',
      object: { id, name: 'Acme' },
    });
    expect(received[0]!.url).toBe('/api/v1/vendors/..%2Fa%20b%2F%C3%BC');
  });

  test('what is given up just before it would be sent is not sent', async () => {
    const { client, received } = await start((response) => json(response, 201, { data: {} }));
    const giveUp = new AbortController();
    const onSend = async () => giveUp.abort(new Error('given up'));
    await expect(client.request({ ...creation, signal: giveUp.signal, onSend })).rejects.toThrow('given up');
    expect(received).toHaveLength(0);
  });

  test('a request ages out of the budget 60 s after its answer', async () => {
    const { client, clock, budget } = await start((response) => json(response, 200, { data: [] }));
    await client.listPage('vendor', 1, call);
    await clock.advance(60_000);
    expect(budget.left().left).toBe(59);
    await clock.advance(1);
    expect(budget.left().left).toBe(60);
  });

  test.each([
    [200, '', 'malformed'],
    [200, 'null', 'malformed'],
    [200, '{}', 'malformed'],
    [200, '{"data":{}}', 'malformed'],
    [400, '{"error":"no such page"}', 'not_taken'],
    [404, '{"error":"no such page"}', 'unexpected_status'],
    [422, '', 'not_taken'],
    [416, '', 'unexpected_status'],
    [302, '', 'no_json'],
    [500, '{"error":"offset out of range"}', 'server'],
    [200, '{"error":"no more pages"}', 'failed'],
    [200, '{"message":"no more pages"}', 'malformed'],
    [200, '"no more pages"', 'malformed'],
  ])(
    'a list that answers %i with “%s” is at its end only if all of it was seen',
    async (status, body, kind) => {
      const { client } = await start((response) => response.writeHead(status, { location: '/' }).end(body));
      await expect(client.listPage('vendor', 3, call)).rejects.toMatchObject({ kind });
      const behind = { ...call, isBehindLast: true };
      expect(await client.listPage('vendor', 3, behind)).toMatchObject({ objects: [], meta: {}, next: null });
    },
  );

  test.each<[number, string, string, Record<string, string>?]>([
    [401, '', 'unauthorized'],
    [403, '', 'forbidden'],
    [429, '', 'rate_limited'],
    [200, '{"error":"too many requests"}', 'rate_limited', { 'retry-after': '30' }],
    [502, '', 'unreachable'],
    [200, '<html>Sign in', 'no_json'],
    [200, '{"data":[],"partial":true}', 'partial'],
    [200, '{"data":[7]}', 'malformed'],
  ])(
    'nobody knows whether a list that answers %i with “%s” is at its end, though all of it was seen',
    async (status, body, kind, headers = {}) => {
      const { client } = await start((response) => response.writeHead(status, headers).end(body));
      const behind = { ...call, isBehindLast: true };
      await expect(client.listPage('vendor', 3, behind)).rejects.toMatchObject({ kind });
    },
  );

  test('a page is short with fewer rows than were asked for, and than the service says that its pages have', async () => {
    const isShort = async (rows: number, meta: object) => {
      const data = Array.from({ length: rows }, (_, at) => ({ id: `v${at}` }));
      const { client } = await start((response) => json(response, 200, { data, meta }));
      return (await client.listPage('vendor', 1, call)).isShort ?? false;
    };
    expect(await isShort(99, {})).toBe(true);
    expect(await isShort(99, { perPage: 100 })).toBe(true);
    expect(await isShort(100, {})).toBe(false);
    expect(await isShort(20, { perPage: 20 })).toBe(false);
  });

  test.each<[number, object]>([
    [400, { error: 'no' }],
    [403, { message: 'perPage must not be greater than 30' }],
    [200, { success: false, message: 'the page size must not be greater than 30' }],
  ])('a page size that is refused with %i is halved until it is taken, and kept', async (status, refusal) => {
    const { client, received } = await start((response, { url }) => {
      const size = Number(new URL(url, 'http://x').searchParams.get('perPage'));
      if (size > 30) json(response, status, refusal);
      else json(response, 200, { data: [{ id: 'v1' }] });
    });
    await client.listPage('vendor', 1, call);
    await client.listPage('policy', 1, call);
    expect(received.map(({ url }) => url.split('perPage=')[1])).toEqual(['100', '50', '25', '25']);
  });

  test('a list that refuses every page size says so once in the words for the first', async () => {
    const { client, received } = await start((response) => json(response, 400, { error: 'no' }));
    for (const requests of [7, 8]) {
      await expect(client.listPage('vendor', 1, call)).rejects.toThrow('perPage=100: answered 400');
      expect(received).toHaveLength(requests);
    }
  });

  test.each<[number, 'ok' | 'malformed']>([
    [1_000, 'ok'],
    [1_001, 'malformed'],
  ])('a page of %i rows where 100 were asked for is %s', async (rows, kind) => {
    const data = Array.from({ length: rows }, (_, n) => ({ id: `v${n}` }));
    const { client } = await start((response) => json(response, 200, { data }));
    const page = client.listPage('vendor', 1, call);
    if (kind === 'ok') expect((await page).objects).toHaveLength(rows);
    else await expect(page).rejects.toMatchObject({ kind, message: expect.stringContaining(`${rows} rows`) });
  });

  test.each<[string, object, 'found' | 'missing']>([
    ['a stub', { id: 'v1', object: 'vendor', deleted: true }, 'missing'],
    ['when it was deleted', { id: 'v1', name: 'A', deletedAt: '2026-11-20T12:00:00Z' }, 'missing'],
    ['nothing under the marker', { id: 'v1', name: 'A', deletedAt: null, deleted: false }, 'found'],
    [
      'no date at all',
      { id: 'v1', name: 'A', deleted_at: '0000-00-00 00:00:00', isDeleted: 'false' },
      'found',
    ],
    ['that in its meta', { id: 'v1', attributes: { name: 'A' }, meta: { deleted: true } }, 'missing'],
  ])('a record that is answered with %s is %s', async (_case, data, outcome) => {
    const { client } = await start((response) => json(response, 200, { data }));
    expect(await client.getRecord('vendor', 'v1', call)).toMatchObject({ outcome });
  });

  test.each<[object, 'found' | 'missing']>([
    [{ deleted: true }, 'missing'],
    [{ meta: { deletedAt: '2026-11-20' } }, 'missing'],
    [{ status: 'deleted' }, 'missing'],
    [{ meta: { deleted: 0 }, deleted: false }, 'found'],
  ])('a record that is answered beside %j is %s', async (beside, outcome) => {
    const data = { id: 'v1', name: 'A' };
    const { client } = await start((response) => json(response, 200, { data, ...beside }));
    expect(await client.getRecord('vendor', 'v1', call)).toMatchObject({ outcome });
  });

  test('the fields of a resource are taken out of its attributes', async () => {
    const data = { type: 'vendors', id: 'v1', attributes: { name: 'Acme', status: 'approved' } };
    const { client } = await start((response) => json(response, 200, { data }));
    const object = { type: 'vendors', id: 'v1', name: 'Acme', status: 'approved' };
    expect(await client.getRecord('vendor', 'v1', call)).toMatchObject({ outcome: 'found', object });
  });

  test('an answer of a cache counts as read as long ago as it is old', async () => {
    const { client, clock } = await start((response) => json(response, 200, { data: [] }, { age: '90' }));
    const { began, ended, agedMs } = await client.listPage('vendor', 1, call);
    expect([clock.steady() - began.steady, clock.wall() - ended.wall, agedMs]).toEqual([
      90_000, 90_000, 90_000,
    ]);
  });

  test('a list that answers 204 is empty', async () => {
    const { client } = await start((response) => response.writeHead(204).end());
    expect(await client.listPage('vendor', 1, call)).toMatchObject({ objects: [], next: null });
  });

  test('a UUID that is not found is asked for in capitals too, and the answer may have either', async () => {
    const id = '0d5f1a52-6a1c-4f3e-9b1d-2f0c6a7b8c9d';
    const { client, received } = await start((response) =>
      received.length === 1
        ? json(response, 404, { title: 'Not Found' })
        : json(response, 200, { data: { id: id.toUpperCase() } }),
    );
    expect(await client.getRecord('vendor', id, call)).toMatchObject({
      outcome: 'found',
      object: { id: id.toUpperCase() },
    });
    expect(received.map(({ url }) => url.split('/').at(-1))).toEqual([id, id.toUpperCase()]);
  });

  test.each([404, 410])('a %i for a record is an answer; for a list it is a failure', async (status) => {
    const { client, observed } = await start((response) => json(response, status, { title: 'Not Found' }));
    const missing = { outcome: 'missing', isPage: false };
    expect(await client.getRecord('risk_assessment', 'r1', call)).toMatchObject(missing);
    await expect(client.listPage('vendor', 1, call)).rejects.toMatchObject({ kind: 'unexpected_status' });
    expect(observed.map(({ route, status, error }) => ({ route, status, error }))).toEqual([
      { route: '/risk-assessments/{id}', status, error: null },
      { route: '/vendors', status, error: 'unexpected_status' },
    ]);
  });

  test.each(['.', '..'])('the id %j is refused before anything is sent or counted', async (id) => {
    const { client, received, budget } = await start((response) => json(response, 200, {}));
    await expect(client.getRecord('vendor', id, call)).rejects.toThrow(UnaddressableError);
    expect(received).toEqual([]);
    expect(budget.left().left).toBe(60);
  });

  test('a read begins after the wait for the budget, when its caller is told', async () => {
    const { client, clock, budget } = await start((response) => json(response, 200, { data: [] }));
    const asked = clock.steady();
    budget.pauseUntil(asked + 7_000);
    const told: number[] = [];
    const page = client.listPage('vendor', 1, { ...call, onSend: () => void told.push(clock.steady()) });
    await clock.advance(7_000);
    expect((await page).began).toEqual({ steady: asked + 7_000, wall: asked + 7_000 });
    expect(told).toEqual([asked + 7_000]);
  });
});

test.each(['identity', ' Identity', ''])(
  'an answer with the Content-Encoding “%s” is read as it is',
  async (encoding) => {
    const { client } = await start((response) =>
      response.writeHead(200, { 'content-encoding': encoding }).end('{"data":{"id":"v1"}}'),
    );
    const object = { id: 'v1' };
    expect(await client.getRecord('vendor', 'v1', call)).toMatchObject({ outcome: 'found', object });
  },
);

describe('failures', () => {
  const raw =
    (status: number, body: string | Buffer, headers: Record<string, string> = {}): Handler =>
    (response) =>
      void response.writeHead(status, headers).end(body);

  test.each<[string, Handler, { kind: string; message?: RegExp; [field: string]: unknown }]>([
    ['500', raw(500, ''), { kind: 'server', retryable: true }],
    ['206', raw(206, '{"data":{"id":"v1"}}'), { kind: 'unexpected_status' }],
    [
      'a redirect',
      raw(302, '', { location: '/api/v1/vendors/v1' }),
      { kind: 'no_json', message: /redirect/ },
    ],
    ['no JSON', raw(200, '<html>'), { kind: 'no_json', excerpt: '<html>' }],
    ['an empty answer', raw(200, ''), { kind: 'malformed' }],
    ['invalid UTF-8', raw(200, Buffer.from('{"id":"v1","name":"\xff"}', 'latin1')), { kind: 'no_json' }],
    ['another id', raw(200, '{"data":{"id":"v2"}}'), { kind: 'malformed', message: /the id "v2"/ }],
    ['an empty object', raw(200, '{"data":{}}'), { kind: 'malformed', message: /no record/ }],
    [
      'brotli',
      raw(200, 'x', { 'content-encoding': 'br' }),
      { kind: 'malformed', message: /Content-Encoding/ },
    ],
    ['broken gzip', raw(200, 'x', { 'content-encoding': 'gzip' }), { kind: 'malformed' }],
    [
      'no gzip',
      raw(200, '{"data":{}}', { 'content-encoding': 'gzip' }),
      { kind: 'malformed', message: /gzip/ },
    ],
    ['only the pagination', raw(200, '{"meta":{"page":1}}'), { kind: 'malformed', message: /no record/ }],
    ['a cut connection', (response) => void response.socket!.destroy(), { kind: 'unreachable' }],
    [
      'an answer cut short',
      (response) => {
        response.writeHead(200, { 'content-length': '100' });
        response.write('{', () => response.socket!.destroy());
      },
      { kind: 'unreachable' },
    ],
    [
      'more bytes than allowed, even if few travel',
      raw(200, gzipSync(Buffer.alloc(MAX_RESPONSE_BYTES + 1, ' ')), { 'content-encoding': 'gzip' }),
      { kind: 'malformed', message: /larger than/ },
    ],
    [
      'more values than allowed, however small they are',
      raw(200, gzipSync(`{"data":[${'0,'.repeat(MAX_RESPONSE_VALUES)}0]}`), { 'content-encoding': 'gzip' }),
      { kind: 'malformed', message: /more than 1000000 values/ },
    ],
    [
      'more values than allowed, one within the other',
      raw(200, gzipSync(`{"data":${'['.repeat(2 * MAX_RESPONSE_VALUES)}`), { 'content-encoding': 'gzip' }),
      { kind: 'malformed', message: /more than 1000000 values/ },
    ],
  ])(
    '%s is never taken for an answer, nor for a missing record',
    async (_case, handler, { message, ...expected }) => {
      const { client, received, observed } = await start(handler);
      const error = await client.getRecord('vendor', 'v1', call).then(
        () => null,
        (reason) => reason,
      );
      expect(error).toMatchObject({ name: 'UpstreamError', outcomeUnknown: false, ...expected });
      expect(error.message).toMatch(message ?? /^GET \/vendors\/v1: /);
      expect(error.remedy).toMatch(/\w/);
      expect(received).toHaveLength(1);
      expect(observed).toMatchObject([{ method: 'GET', route: '/vendors/{id}', error: expected.kind }]);
    },
  );

  test('of a page that is too large, the error names the setting that makes pages smaller', async () => {
    const { client } = await start(raw(200, Buffer.alloc(MAX_RESPONSE_BYTES + 1, ' ')));
    await expect(client.listPage('vendor', 1, call)).rejects.toThrow(
      /larger than 16777216 bytes.* COMPLIANCE_PAGE_SIZE/,
    );
  });

  test('an answer that never comes, or never ends, is a timeout', async () => {
    const { client } = await start(
      (response, { url }) => {
        if (url.endsWith('v2')) response.writeHead(200).write('{');
      },
      { settings: { timeoutMs: SILENCE_MS } },
    );
    await expect(client.getRecord('vendor', 'v1', call)).rejects.toMatchObject({
      kind: 'unreachable',
      message: expect.stringContaining('no answer within'),
    });
    await expect(client.getRecord('vendor', 'v2', call)).rejects.toMatchObject({
      kind: 'unreachable',
      message: expect.stringContaining('no answer within'),
    });
  });

  test('a port where nobody listens is a network failure, certain not to have reached anyone', async () => {
    const { client, close } = await start((response) => response.end());
    await close();
    const failure = {
      kind: 'unreachable',
      outcomeUnknown: false,
      message: expect.stringContaining('ECONNREFUSED'),
    };
    await expect(client.getRecord('vendor', 'v1', call)).rejects.toMatchObject(failure);
    await expect(client.request(creation)).rejects.toMatchObject(failure);
  });

  test.each([
    ['no server of this name', 'EAI_AGAIN', false],
    ['a certificate that has expired', 'CERT_HAS_EXPIRED', false],
    ['a certificate of another name', 'ERR_TLS_CERT_ALTNAME_INVALID', false],
    ['a certificate of an unknown issuer', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', false],
    ['a connection that takes too long', 'UND_ERR_CONNECT_TIMEOUT', false],
    ['a connection that is cut', 'ECONNRESET', true],
    ['an answer that does not begin', 'UND_ERR_HEADERS_TIMEOUT', true],
  ])(
    'after %s a POST may have taken effect only if it was sent (%s)',
    async (_what, code, outcomeUnknown) => {
      const { client } = await start((response) => response.end());
      const failed = new TypeError('fetch failed', { cause: Object.assign(new Error(code), { code }) });
      vi.spyOn(globalThis, 'fetch').mockRejectedValueOnce(failed);
      await expect(client.request(creation)).rejects.toMatchObject({ kind: 'unreachable', outcomeUnknown });
    },
  );

  test('what a proxy answers in place of a tunnel is told', async () => {
    const { client } = await start((response) => response.end());
    const cause = new Error('cancelled', { cause: new Error('Proxy response (407) !== 200') });
    vi.spyOn(globalThis, 'fetch').mockRejectedValueOnce(new TypeError('fetch failed', { cause }));
    await expect(client.listPage('vendor', 1, call)).rejects.toThrow('Proxy response (407)');
  });

  test('the excerpt is cut at 2 KiB and shows no credentials', async () => {
    const { client } = await start((response, request) => {
      response.writeHead(500).end(`${request.headers.authorization} ${'x'.repeat(100_000)}`);
    });
    const error = await client.listPage('vendor', 1, call).then(
      () => null,
      (reason) => reason,
    );
    expect(error.excerpt).toMatch(/^Bearer \[credentials\] x+$/);
    expect(error.excerpt.length).toBeLessThanOrEqual(2048);
    expect(JSON.stringify(error)).not.toContain(API_KEY);
  });

  test.each([
    ['what was replaced before is longer', (sent: string) => `${sent}${'x'.repeat(2048 - 30)}${sent}`],
    ['characters are several bytes', (sent: string) => `${'あ'.repeat(690)}${sent}`],
    [
      'it is written as in JSON or in a URL',
      (sent: string) => `${sent.replaceAll('/', '\\/')} ${encodeURIComponent(sent)}`,
    ],
  ])('no part of the credentials is in the excerpt where %s', async (_, textOf) => {
    const key = 'abcdef0123456789abcdef/0123456789+abcdef=';
    const { client } = await start(
      (response, request) => {
        const sent = request.headers.authorization!.replace('Bearer ', '');
        response.writeHead(500).end(textOf(sent));
      },
      { settings: { apiKey: () => key } },
    );
    const error = await client.listPage('vendor', 1, call).then(
      () => null,
      (reason) => reason,
    );
    expect(error.excerpt).toMatch(/x|あ|credentials/);
    expect(error.excerpt).not.toContain(key.slice(0, 6));
  });

  test("an aborted read ends with its caller's reason, and its place in the budget stays taken", async () => {
    const stop = new AbortController();
    const { client, budget } = await start(() => stop.abort(new Error('stopping')));
    await expect(client.listPage('vendor', 1, { lane: 'scan', signal: stop.signal })).rejects.toThrow(
      'stopping',
    );
    expect(budget.left().left).toBe(59);
  });
});

test('a service that asks to wait pauses every lane as long', async () => {
  const { client, budget } = await start((response) => json(response, 429, {}, { 'retry-after': '20' }));
  await expect(client.listPage('vendor', 1, call)).rejects.toMatchObject({ retryAfterMs: 20_000 });
  expect(budget.left().pausedForMs).toBe(20_000);
});

describe('credentials', () => {
  test('a key is read at every request, so a rotated one takes effect', async () => {
    let key = 'first-key';
    const { client, received } = await start((response) => json(response, 200, { data: [] }), {
      settings: { apiKey: () => key },
    });
    await client.listPage('vendor', 1, call);
    key = 'second-key';
    await client.listPage('vendor', 1, call);
    expect(received.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer first-key',
      'Bearer second-key',
    ]);
  });

  test('a key that no header can carry is named without being shown, and nothing is sent', async () => {
    const { client, received } = await start((response) => response.end(), {
      settings: { apiKey: () => 'secret-key\nx' },
    });
    const error = await client.listPage('vendor', 1, call).then(
      () => null,
      (reason) => reason,
    );
    expect(error).toMatchObject({ code: 'usage', message: expect.stringContaining('COMPLIANCE_API_KEY') });
    expect(`${error.message}${error.stack}`).not.toContain('secret-key');
    expect(received).toHaveLength(0);
  });

  function renewable(renews: boolean) {
    let token = 1;
    return {
      async authorization(_signal: AbortSignal, rejected?: string) {
        if (rejected !== undefined && renews) token++;
        return `Bearer token-${token}`;
      },
    };
  }
  const onlyToken2: Handler = (response, request) =>
    request.headers.authorization === 'Bearer token-2'
      ? json(response, 200, { data: [] })
      : json(response, 401, {});

  test('a read met by a 401 is sent once more with renewed credentials, and both are counted', async () => {
    const { client, received, budget } = await start(onlyToken2, { credentials: renewable(true) });
    expect((await client.listPage('vendor', 1, call)).objects).toEqual([]);
    expect(received).toHaveLength(2);
    expect(budget.left().left).toBe(58);
  });

  test('a key that is refused is read again from its file, and the read is sent once more with another one', async () => {
    let inFile = 'token-1';
    let known = inFile;
    const apiKey = (again?: 'again') => {
      if (again !== undefined) known = inFile;
      return known;
    };
    const { client, received } = await start(onlyToken2, { credentials: apiKeyCredentials(apiKey) });
    await expect(client.listPage('vendor', 1, call)).rejects.toMatchObject({ kind: 'unauthorized' });
    expect(received).toHaveLength(1);
    inFile = 'token-2';
    await client.listPage('vendor', 1, call);
    expect(received).toHaveLength(3);
  });

  test('a second 401 in a row is final, and so is one where nothing could be renewed', async () => {
    const { client, received } = await start((response) => json(response, 401, {}), {
      credentials: renewable(true),
    });
    await expect(client.listPage('vendor', 1, call)).rejects.toMatchObject({ kind: 'unauthorized' });
    expect(received).toHaveLength(2);
    await upstream.close();
    const other = await start(onlyToken2, { credentials: renewable(false) });
    await expect(other.client.listPage('vendor', 1, call)).rejects.toMatchObject({ kind: 'unauthorized' });
    expect(other.received).toHaveLength(1);
  });

  test('a POST met by a 401 is not sent again, though the credentials are renewed for the next', async () => {
    const { client, received } = await start(onlyToken2, { credentials: renewable(true) });
    const failure = { kind: 'unauthorized', outcomeUnknown: false };
    await expect(client.request(creation)).rejects.toMatchObject(failure);
    expect(received).toHaveLength(1);
    expect((await client.listPage('vendor', 1, call)).objects).toEqual([]);
  });
});

describe('creating and registering', () => {
  test('a create is sent as JSON below the base URL, and any 2xx brings back its whole answer', async () => {
    const { client, received } = await start((response) => json(response, 201, { data: { id: 'p1' } }));
    expect(await client.request(creation)).toMatchObject({ value: { data: { id: 'p1' } } });
    expect(received[0]).toMatchObject({
      method: 'POST',
      url: '/api/v1/policies',
      body: '{"name":"x"}',
      headers: { 'content-type': 'application/json' },
    });
  });

  test.each<[string, Handler, { kind?: string; outcomeUnknown: boolean }]>([
    ['500', (response) => json(response, 500, {}), { kind: 'server', outcomeUnknown: true }],
    [
      '503 with Retry-After',
      (response) => json(response, 503, {}, { 'retry-after': '1' }),
      { kind: 'unreachable', outcomeUnknown: true },
    ],
    [
      'a cut connection',
      (response) => void response.socket!.destroy(),
      { kind: 'unreachable', outcomeUnknown: true },
    ],
    ['silence', () => {}, { kind: 'unreachable', outcomeUnknown: true }],
    [
      'an unreadable 201',
      (response) => void response.writeHead(201).end('<'),
      { kind: 'no_json', outcomeUnknown: true },
    ],
    // Which fetch would answer by sending the request again.
    ['421', (response) => json(response, 421, {}), { kind: 'unexpected_status', outcomeUnknown: false }],
    [
      'a redirect',
      (response) => void response.writeHead(307, { location: '/x' }).end(),
      { kind: 'no_json', outcomeUnknown: true },
    ],
    ['422', (response) => json(response, 422, {}), { kind: 'not_taken', outcomeUnknown: false }],
    ['429', (response) => json(response, 429, {}), { kind: 'rate_limited', outcomeUnknown: false }],
  ])(
    'a POST answered by %s is sent once, and says whether it may have taken effect',
    async (what, handler, expected) => {
      // The others answer; nothing but silence is to be waited for in vain.
      const timeoutMs = what === 'silence' ? SILENCE_MS : 30_000;
      const { client, received } = await start(handler, { settings: { timeoutMs } });
      const error = await client.request(creation).then(
        () => null,
        (reason) => reason,
      );
      expect(error).toMatchObject(expected);
      expect(error.message.includes('took effect is unknown')).toBe(expected.outcomeUnknown);
      if (expected.outcomeUnknown) expect(error.retryable).toBe(false);
      expect(received).toHaveLength(1);
    },
  );

  test('a POST that its caller gives up on is reported as unknown, not merely as aborted', async () => {
    const stop = new AbortController();
    const { client } = await start(() => stop.abort(new Error('interrupted')));
    const created = client.request({ ...creation, signal: stop.signal });
    await expect(created).rejects.toMatchObject({ kind: 'unreachable', outcomeUnknown: true });
  });

  const registration = {
    url: 'https://mirror.example/webhooks',
    events: ['policy.*'],
    description: 'mirror',
  };

  test.each<[number, string, Partial<RegistrationAnswer>]>([
    [201, '{"data":{"webhook":{"id":7,"secret":"whsec_x"}}}', { id: '7', secret: 'whsec_x' }],
    [200, 'whsec_x', { id: null, secret: null }],
    [204, '', { id: null, secret: null }],
  ])("a registration's answer of %i “%s” is success, and handed on whole", async (status, body, found) => {
    const { client, received } = await start((response) => void response.writeHead(status).end(body));
    expect(await client.registerWebhook(registration, call)).toMatchObject({ ...found, text: body });
    expect(JSON.parse(received[0]!.body)).toEqual(registration);
  });

  test('a registration that is turned away says why, and shows no secret', async () => {
    const answer = { detail: 'there is one already', existing: { secret: 'whsec_x' }, code: 'exists' };
    const { client } = await start((response) => json(response, 409, answer));
    const error = await client.registerWebhook(registration, call).catch((reason) => reason);
    expect(error).toMatchObject({ outcomeUnknown: false, excerpt: 'there is one already' });
    expect(`${error.message}${error.remedy}${error.stack}`).not.toContain('whsec');
  });
});

describe('any request', () => {
  test('hands on the JSON of any success as it is', async () => {
    const { client, received } = await start((response, _request, count) =>
      count === 1 ? json(response, 202, [1]) : void response.writeHead(204).end(),
    );
    const request = { method: 'POST', path: '/webhooks?dry=1', body: '{"a":1}', ...call } as const;
    expect(await client.request(request)).toMatchObject({ value: [1] });
    expect(await client.request({ method: 'GET', path: '/policies', ...call })).toMatchObject({
      value: null,
    });
    expect(received.map(({ url }) => url)).toEqual(['/api/v1/webhooks?dry=1', '/api/v1/policies']);
  });

  test("cannot leave the API's own path", async () => {
    const { client, received } = await start((response) => response.end());
    const request = { method: 'GET', path: '/../admin', ...call } as const;
    await expect(client.request(request)).rejects.toThrow(UnaddressableError);
    expect(received).toEqual([]);
  });
});

describe('one record', () => {
  test.each<[string, unknown, object]>([
    ['without an id', { data: { name: 'x' } }, { name: 'x' }],
    ['in an array of one', { data: [{ id: 'v1', name: 'x' }] }, { id: 'v1', name: 'x' }],
    ['in a bare array, without an id', [{ name: 'x' }], { name: 'x' }],
    ['in a wrapper, without an id', { data: { vendor: { name: 'x' } } }, { name: 'x' }],
    ['whose own id stands behind another', { vendorId: 'other', id: 'v1' }, { vendorId: 'other', id: 'v1' }],
  ])('%s is the one that was asked for', async (_case, body, object) => {
    const { client } = await start((response) => json(response, 200, body));
    expect(await client.getRecord('vendor', 'v1', call)).toMatchObject({ outcome: 'found', object });
  });
});

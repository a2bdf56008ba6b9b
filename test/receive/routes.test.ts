import { createHash } from 'node:crypto';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { createAddresses } from '../../src/platform/addresses.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { REJECTION_BODY_BYTES } from '../../src/receive/routes.ts';
import { createStartup } from '../../src/service/opening.ts';
import { exchange, type Harness, startReceiver } from './harness.ts';
import { eventBody, header, nowSeconds, SECRET } from './sign.ts';

let receiver: Harness;
afterEach(() => receiver.close());

const signed = (body: string | Uint8Array, t: number | string = nowSeconds(), secret = SECRET) => ({
  'x-webhook-signature': header(t, body, secret),
});
/** Right in form and proves nothing, so that the body is read. */
const CLAIMED = `X-Webhook-Signature: t=1, v1=${'0'.repeat(64)}`;
const problemOf = async (response: Response) => {
  expect(response.headers.get('content-type')).toBe('application/problem+json');
  const document = (await response.json()) as { status: number; code: string; type: string; title: string };
  expect(document).toMatchObject({ status: response.status, type: 'about:blank' });
  return document;
};

describe('a signed event', () => {
  it('is answered 202 with its id once the inbox has it', async () => {
    receiver = await startReceiver();
    const t = nowSeconds();
    const response = await receiver.post(eventBody(), signed(eventBody(), t));
    expect(response.status).toBe(202);
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(await response.text()).toBe('{"status":"accepted","id":"evt_1"}');
    expect(receiver.accepted).toMatchObject([
      { id: 'evt_1', t: `${t}`, recordId: 'pol_1', body: eventBody() },
    ]);
  });

  it.each([
    ['when it was there before', false, { outcome: 'duplicate', reason: null }],
    // As the tables have it.
    [
      'with other content, which is quarantined',
      true,
      { outcome: 'quarantined', reason: 'conflicting_content' },
    ],
  ])('is answered 200 %s', async (_, conflicting, told) => {
    receiver = await startReceiver();
    receiver.answer = () => ({ status: 'duplicate', conflicting });
    const response = await receiver.post(eventBody(), signed(eventBody()));
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ status: 'duplicate', id: 'evt_1' });
    expect(receiver.lines.at(-1)).toMatchObject(told);
  });

  it('among others in a batch has its own line and its own outcome, and the batch one answer', async () => {
    receiver = await startReceiver();
    receiver.answer = () =>
      receiver!.accepted.length > 1
        ? { status: 'duplicate', conflicting: false }
        : { status: 'accepted', seq: receiver!.accepted.length };
    const body = `[${eventBody()},${eventBody({ type: 'vendor.updated', data: { id: 'v' } })}]`;
    const response = await receiver.post(body, signed(body));
    expect(response.status).toBe(202);
    expect(await response.json()).toEqual({ status: 'accepted', events: 2 });
    expect(receiver.accepted.map(({ body }) => body)).toEqual(
      JSON.parse(body).map((each: object) => JSON.stringify(each)),
    );
    expect(receiver.lines.slice(-2)).toMatchObject([
      { outcome: 'accepted', record_id: 'pol_1' },
      { outcome: 'duplicate', record_id: 'v' },
    ]);
  });

  it('of an unknown type is taken like any other', async () => {
    receiver = await startReceiver();
    const body = eventBody({ type: 'policy.archived' });
    expect((await receiver.post(body, signed(body))).status).toBe(202);
    expect(receiver.accepted).toMatchObject([{ known: false, kind: 'policy' }]);
  });

  it.each(['text/plain', 'nonsense'])('is taken with Content-Type %s', async (type) => {
    receiver = await startReceiver();
    const response = await receiver.post(eventBody(), { ...signed(eventBody()), 'content-type': type });
    expect(response.status).toBe(202);
  });

  it('is taken with no Content-Type, with Content-Encoding identity, in chunks, and with its header sent twice', async () => {
    receiver = await startReceiver();
    const body = eventBody();
    const t = nowSeconds();
    const answer = await exchange(
      receiver.port,
      'POST /webhooks HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n' +
        `Content-Encoding: Identity\r\nX-Webhook-Signature: t=${t}, v1=${'0'.repeat(64)}\r\n` +
        `x-webhook-signature: ${header(t, body)}\r\n\r\n`,
      `5\r\n${body.slice(0, 5)}\r\n`,
      `${(body.length - 5).toString(16)}\r\n${body.slice(5)}\r\n0\r\n\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 202 /);
  });

  it('may be signed with any secret, one that came while the service runs too', async () => {
    const stored: Uint8Array[][] = [[], [Buffer.from('registration secret')]];
    let at = 0;
    const used: Uint8Array[] = [];
    receiver = await startReceiver({
      settings: { secrets: () => [Buffer.from(SECRET), ...stored[at]!] },
      onSecretUsed: (secret) => used.push(secret),
    });
    const post = () => receiver.post(eventBody(), signed(eventBody(), nowSeconds(), 'registration secret'));
    expect((await post()).status).toBe(401);
    at = 1;
    expect((await post()).status).toBe(202);
    expect(used).toEqual(stored[1]);
  });
});

describe('rejections', () => {
  it('with 401 are alike to the byte whatever is wrong', async () => {
    receiver = await startReceiver();
    const body = eventBody();
    const t = nowSeconds();
    const headers = [
      '',
      'X-Webhook-Signature: \r\n',
      `X-Webhook-Signature: ${'x'.repeat(2000)}\r\n`,
      `X-Webhook-Signature: t=${t}, v1=${'0'.repeat(64)}\r\n`,
      `X-Webhook-Signature: ${header(t - 301, body)}\r\n`,
      `X-Webhook-Signature: ${header(t + 900, body)}\r\n`,
      `X-Webhook-Signature: ${header(t * 1000, body)}\r\n`,
      `X-Webhook-Signature: ${header(t, 'another body')}\r\n`,
    ];
    const answers: string[] = [];
    for (const line of headers) {
      const request = `POST /webhooks HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${body.length}\r\n${line}\r\n${body}`;
      answers.push((await exchange(receiver.port, request)).replace(/\r\nDate: .*/, ''));
    }
    expect(answers[0]).toMatch(/^HTTP\/1\.1 401 Unauthorized\r\n/);
    expect(answers[0]).toContain('"code":"invalid_signature"');
    expect(new Set(answers).size).toBe(1);
    expect(receiver.rejected.map(({ reason }) => reason)).toEqual([
      'missing_header',
      'missing_header',
      'header_too_long',
      'bad_signature',
      'timestamp_too_old',
      'timestamp_too_new',
      'timestamp_milliseconds',
      'bad_signature',
    ]);
    expect(receiver.accepted).toEqual([]);
  });

  it('are handed to the inbox with what a diagnosis needs', async () => {
    receiver = await startReceiver();
    const value = `t=123, v1=${'0'.repeat(64)}`;
    await receiver.post(eventBody(), { 'x-webhook-signature': value });
    expect(receiver.rejected).toMatchObject([
      {
        reason: 'bad_signature',
        t: '123',
        bytes: eventBody().length,
        bodySha256: createHash('sha256').update(eventBody()).digest('hex'),
        header: value,
        body: Uint8Array.from(Buffer.from(eventBody())),
      },
    ]);
  });

  it('keep no body that is large or that no signature came with, and no more than 1 KiB of a header', async () => {
    receiver = await startReceiver({ settings: { maxBodyBytes: 100_000 } });
    await receiver.post('x'.repeat(REJECTION_BODY_BYTES + 1), {
      'x-webhook-signature': `t=1, v1=${'0'.repeat(64)}`,
    });
    await receiver.post('x', { 'x-webhook-signature': 'y'.repeat(5000) });
    expect(receiver.rejected).toMatchObject([
      { reason: 'bad_signature', body: null },
      { reason: 'header_too_long', body: null, header: 'y'.repeat(1024) },
    ]);
  });

  it('of a correctly signed delivery at the wrong time are reported, others are not', async () => {
    const reported: unknown[] = [];
    receiver = await startReceiver({
      onRejectedTimestamp: ({ kind, recordId }) => reported.push([kind, recordId]),
    });
    const old = nowSeconds() - 4000;
    await receiver.post(eventBody(), signed(eventBody(), old));
    await receiver.post(eventBody(), signed('another', old));
    await receiver.post(eventBody());
    expect(reported).toEqual([['policy', 'pol_1']]);
  });

  it('with 413 come at once where the length is declared, and while reading where it is not', async () => {
    receiver = await startReceiver();
    const declared = exchange(
      receiver.port,
      'POST /webhooks HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\nConnection: close\r\n\r\n{',
    );
    expect(await declared).toMatch(/^HTTP\/1\.1 413 [\s\S]*"code":"too_large"/);
    const chunk = `1000\r\n${'x'.repeat(4096)}\r\n`;
    const chunked = exchange(
      receiver.port,
      `POST /webhooks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n${CLAIMED}\r\n\r\n`,
      chunk,
      chunk,
    );
    expect(await chunked).toMatch(/^HTTP\/1\.1 413 [\s\S]*"code":"too_large"/);
    expect(receiver.rejected).toMatchObject([
      { reason: 'too_large', bytes: 999_999_999, bodySha256: null, body: null },
      { reason: 'too_large', bytes: 4097 },
    ]);
  });

  it('leave a body of exactly the limit alone', async () => {
    const body = eventBody();
    receiver = await startReceiver({ settings: { maxBodyBytes: Buffer.byteLength(body) } });
    expect((await receiver.post(body, signed(body))).status).toBe(202);
    expect((await receiver.post(`${body} `, signed(`${body} `))).status).toBe(413);
  });

  it('with 415 meet every encoding but identity', async () => {
    receiver = await startReceiver();
    const body = gzipSync(eventBody());
    for (const encoding of ['gzip', 'br', 'identity, gzip', 'x']) {
      const response = await receiver.post(body, { ...signed(body), 'content-encoding': encoding });
      expect(response.status).toBe(415);
      expect(await problemOf(response)).toMatchObject({ code: 'unsupported_content_encoding' });
    }
  });

  it('with 405 name the method that is taken', async () => {
    receiver = await startReceiver();
    for (const method of ['GET', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      const response = await fetch(`${receiver.url}/webhooks`, { method });
      expect(response.status).toBe(405);
      expect(response.headers.get('allow')).toBe('POST');
      expect(await problemOf(response)).toMatchObject({ code: 'method_not_allowed' });
    }
    expect((await fetch(`${receiver.url}/webhooks`, { method: 'HEAD' })).status).toBe(405);
    expect((await fetch(`${receiver.url}/livez`, { method: 'POST' })).headers.get('allow')).toBe('GET, HEAD');
  });

  it('with 404 meet every other path, and never a redirect', async () => {
    receiver = await startReceiver();
    for (const path of ['/', '/webhooks/', '/Webhooks', '/webhooks/x', '//webhooks', '/metrics']) {
      const response = await fetch(`${receiver.url}${path}`, {
        method: 'POST',
        redirect: 'manual',
        body: eventBody(),
        headers: signed(eventBody()),
      });
      expect(response.status).toBe(404);
      expect(await problemOf(response)).toMatchObject({ code: 'not_found' });
    }
  });

  it('come in the order path, method, size, encoding, signature, JSON, envelope', async () => {
    receiver = await startReceiver();
    const large = 'x'.repeat(5000);
    const gzip = { 'content-encoding': 'gzip' };
    const ask = (path: string, method: string, body: string | undefined, headers: Record<string, string>) =>
      fetch(receiver.url + path, { method, headers, ...(body === undefined ? {} : { body }) });
    expect((await ask('/x', 'PUT', large, gzip)).status).toBe(404);
    expect((await ask('/webhooks', 'PUT', large, gzip)).status).toBe(405);
    expect((await ask('/webhooks', 'POST', large, gzip)).status).toBe(413);
    expect((await ask('/webhooks', 'POST', 'no JSON', gzip)).status).toBe(415);
    expect((await ask('/webhooks', 'POST', 'no JSON', {})).status).toBe(401);
    expect(await problemOf(await ask('/webhooks', 'POST', '[]', signed('[]')))).toMatchObject({
      code: 'invalid_json',
    });
    expect(await problemOf(await ask('/webhooks', 'POST', '{}', signed('{}')))).toMatchObject({
      code: 'invalid_event',
    });
  });
});

describe('a body that is not worth reading', () => {
  const headersOnly = (line: string, framing = 'Content-Length: 100000') =>
    `POST /webhooks HTTP/1.1\r\nHost: x\r\n${framing}\r\n${line}\r\n`;

  it.each([
    ['no header', ''],
    [
      'a header that is too long',
      `X-Webhook-Signature: t=1, v1=${'0'.repeat(64)}, x=${'y'.repeat(1024)}\r\n`,
    ],
    ['a malformed header', 'X-Webhook-Signature: nonsense\r\n'],
    ['a t of no digits', `X-Webhook-Signature: t=now, v1=${'0'.repeat(64)}\r\n`],
  ])('is not waited for where the headers decide: %s', async (_what, line) => {
    receiver = await startReceiver({ settings: { maxBodyBytes: 1_000_000 } });
    // Nothing is sent behind the headers: the answer comes all the same, and the connection ends.
    const answer = await exchange(receiver.port, headersOnly(line));
    const wrong = await receiver.post('{}', { 'x-webhook-signature': `t=1, v1=${'0'.repeat(64)}` });
    expect(answer).toMatch(/^HTTP\/1\.1 401 /);
    expect(answer.split('\r\n\r\n')[1]).toBe(await wrong.text());
    expect(receiver.rejected[0]).toMatchObject({
      bytes: 100_000,
      body: null,
      bodySha256: null,
      address: '127.0.0.1',
    });
  });

  it('is never taken for a request, nor read on and on', async () => {
    receiver = await startReceiver();
    const socket = connect(receiver.port, '127.0.0.1');
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
    });
    socket.on('error', () => {});
    const closed = new Promise((resolve) => socket.on('close', resolve));
    socket.write(headersOnly('', 'Transfer-Encoding: chunked'));
    const smuggled = 'GET /livez HTTP/1.1\r\nHost: x\r\n\r\n';
    const sending = setInterval(() => socket.write(`25\r\n${smuggled}\r\n${smuggled}`), 20);
    await closed;
    clearInterval(sending);
    expect(received.match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect(received).toMatch(/^HTTP\/1\.1 401 /);
  });

  it('is forgotten where it is little, and its connection goes on', async () => {
    receiver = await startReceiver();
    const body = eventBody();
    const answers = await exchange(
      receiver.port,
      `${headersOnly('', 'Content-Length: 5')}hello`,
      `POST /webhooks HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${body.length}\r\n` +
        `X-Webhook-Signature: ${header(nowSeconds(), body)}\r\n\r\n${body}`,
    );
    expect(answers.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 401', 'HTTP/1.1 202']);
  });

  it('in chunks of one byte is not read on', async () => {
    receiver = await startReceiver({ settings: { maxBodyBytes: 1_000_000 } });
    const answer = await exchange(
      receiver.port,
      headersOnly(`${CLAIMED}\r\n`, 'Transfer-Encoding: chunked'),
      '1\r\nx\r\n'.repeat(1_500),
    );
    expect(answer).toBe('');
    expect(receiver.rejected).toMatchObject([{ reason: 'too_many_chunks', body: null }]);
  });
});

describe('bodies that together are too much', () => {
  it('are none that were answered, whatever the answer was', async () => {
    receiver = await startReceiver({ bodiesBytes: 10_000 });
    const body = `${eventBody()}${' '.repeat(3_000)}`;
    for (let n = 0; n < 6; n += 1) {
      expect((await receiver.post(body, signed(body))).status).toBe(202);
      expect((await receiver.post(body, signed('{}'))).status).toBe(401);
    }
  });

  it('give way to a real delivery, the one that has been coming for the longest first', async () => {
    receiver = await startReceiver({ settings: { maxBodyBytes: 20_000 }, bodiesBytes: 60_000 });
    const slow = Array.from({ length: 6 }, () => {
      const socket = connect(receiver.port, '127.0.0.1');
      const each = { received: '', socket };
      socket.on('data', (chunk) => {
        each.received += chunk.toString('latin1');
      });
      socket.on('error', () => {});
      return each;
    });
    for (const { socket } of slow) {
      socket.write(
        `POST /webhooks HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n${CLAIMED}\r\n\r\n${'x'.repeat(9_990)}`,
      );
    }
    const given = () => slow.filter(({ received }) => received.startsWith('HTTP/1.1 503 '));
    const body = eventBody({ data: { policyId: 'pol_1', name: 'x'.repeat(8_000) } });
    let posts = 0;
    // Whenever it is that the six are in: a real sender never waits for them.
    await expect
      .poll(async () => {
        posts += 1;
        expect((await receiver.post(body, signed(body))).status).toBe(202);
        return given().length;
      })
      .toBeGreaterThan(0);
    expect(given()[0]!.received).toMatch(/retry-after: \d[\s\S]*"code":"too_many_deliveries"/i);
    expect(receiver.accepted).toHaveLength(posts);
    for (const { socket } of slow) socket.destroy();
  });
});

describe('behind a proxy that is trusted', () => {
  const proxied = { addresses: createAddresses(loadConfig({ TRUSTED_PROXIES: '127.0.0.1' }).trustedProxies) };

  it('a rejection has the address that the proxy names', async () => {
    receiver = await startReceiver(proxied);
    await receiver.post('{}', { 'x-forwarded-for': '198.51.100.1, 203.0.113.9' });
    expect(receiver.rejected).toMatchObject([{ address: '203.0.113.9' }]);
  });
});

it('no answer to a stranger names a setting or a version', async () => {
  receiver = await startReceiver({ settings: { secrets: () => [] } });
  const front = createStartup(null);
  front.at('migrating');
  const answers = [
    await receiver.post('{}'),
    await fetch(receiver.url),
    await fetch(`${receiver.url}/webhooks`),
    await receiver.post('x'.repeat(5_000)),
    await receiver.post('{}', { 'content-encoding': 'gzip' }),
    await front.receiver(new Request('http://x/webhooks', { method: 'POST' }), {}),
    await front.ops(new Request('http://x/'), {}),
  ];
  for (const answer of answers) {
    expect(answer.status).toBeGreaterThanOrEqual(400);
    const shown = `${JSON.stringify([...answer.headers])}${await answer.text()}`;
    expect(shown).not.toMatch(/[A-Z]{2,}_[A-Z]/);
    expect(shown).not.toMatch(/migrat|\d+\.\d+\.\d+|hono|node|"server"/i);
  }
});

describe('a signed delivery that is no event', () => {
  it('is kept, and then answered 400', async () => {
    receiver = await startReceiver();
    const bad = eventBody({ id: 7 });
    const response = await receiver.post(bad, signed(bad));
    expect(response.status).toBe(400);
    expect(await problemOf(response)).toMatchObject({ code: 'invalid_event' });
    expect(receiver.quarantined).toMatchObject([{ reason: 'invalid_id', kind: 'policy', recordId: 'pol_1' }]);
    expect(receiver.rejected).toEqual([]);
    expect(receiver.lines.at(-1)).toMatchObject({
      outcome: 'quarantined',
      reason: 'invalid_id',
      record_id: 'pol_1',
    });
  });

  it.each([
    ['with NUL', Buffer.from('{"a":\u0000}')],
    ['with invalid UTF-8', Buffer.from([0x7b, 0xff, 0x7d])],
    ['that is empty', Buffer.alloc(0)],
  ])('%s is verified by its bytes first', async (_what, body) => {
    receiver = await startReceiver();
    const response = await receiver.post(body, signed(body));
    expect(await problemOf(response)).toMatchObject({ status: 400, code: 'invalid_json' });
    expect(receiver.quarantined.map((each) => Buffer.from(each.body))).toEqual([body]);
  });

  it('is not answered 400 when it could not be kept', async () => {
    receiver = await startReceiver();
    receiver.fail();
    expect((await receiver.post('{}', signed('{}'))).status).toBe(503);
  });
});

describe('a fault of ours', () => {
  it('is answered 503 with Retry-After when the database cannot commit', async () => {
    receiver = await startReceiver();
    receiver.fail();
    const response = await receiver.post(eventBody(), signed(eventBody()));
    expect(response.status).toBe(503);
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await problemOf(response)).toMatchObject({ code: 'unavailable' });
    expect(receiver.lines.at(-1)).toMatchObject({
      level: 'error',
      outcome: 'unavailable',
      reason: 'store_unavailable',
      error: 'the disk is full',
    });
  });

  it('names what each correctly signed delivery was about that could not be stored, unless it was an event of no kind', async () => {
    const unkept: unknown[] = [];
    receiver = await startReceiver({
      onUnkept: ({ kind, recordId }) => void unkept.push([kind, recordId]),
    });
    await receiver.post(eventBody(), signed(eventBody()));
    receiver.fail();
    await receiver.post(eventBody(), signed(eventBody()));
    await receiver.post(eventBody({ id: 7 }), signed(eventBody({ id: 7 })));
    await receiver.post('{}', signed('{}'));
    const ofNoKind = eventBody({ type: 'report.ready' });
    await receiver.post(ofNoKind, signed(ofNoKind));
    await receiver.post(eventBody(), signed('{}'));
    expect(unkept).toEqual([
      ['policy', 'pol_1'],
      ['policy', 'pol_1'],
      [null, null],
    ]);
  });

  it('is answered 503 with Retry-After while no signing secret is known', async () => {
    receiver = await startReceiver({ settings: { secrets: () => [] } });
    const response = await receiver.post(eventBody(), signed(eventBody(), nowSeconds(), ''));
    expect(response.status).toBe(503);
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await problemOf(response)).toMatchObject({ code: 'no_signing_secret' });
    expect(receiver.accepted).toEqual([]);
    expect(receiver.rejected).toMatchObject([{ reason: 'no_signing_secret' }]);
    expect(receiver.lines.at(-1)).toMatchObject({ outcome: 'rejected', reason: 'no_signing_secret' });
    expect((await receiver.post(eventBody())).status).toBe(503);
  });

  it('is answered 503 while the secret of a registration is awaited and no other fits, and as ever before and after', async () => {
    let isSecretAwaited = true;
    receiver = await startReceiver({ isSecretAwaited: () => isSecretAwaited });
    const stranger = { 'x-webhook-signature': `t=${nowSeconds()},v1=${'0'.repeat(64)}` };
    const awaited = await receiver.post(eventBody(), stranger);
    expect({ status: awaited.status, after: awaited.headers.get('retry-after') }).toEqual({
      status: 503,
      after: '2',
    });
    expect((await receiver.post(eventBody(), {})).status).toBe(401);
    expect((await receiver.post(eventBody(), signed(eventBody(), nowSeconds() - 301))).status).toBe(401);
    expect((await receiver.post(eventBody(), signed(eventBody()))).status).toBe(202);
    isSecretAwaited = false;
    expect((await receiver.post(eventBody(), stranger)).status).toBe(401);
    expect(receiver.rejected.map(({ reason }) => reason)).toEqual([
      ...['no_signing_secret', 'missing_header', 'timestamp_too_old', 'bad_signature'],
    ]);
  });

  it('of any other sort is answered 500, without its text, and logged with it', async () => {
    receiver = await startReceiver();
    receiver.fail(new TypeError('x is not a function'));
    const response = await receiver.post(eventBody(), signed(eventBody()));
    expect(response.status).toBe(500);
    expect(await response.text()).not.toContain('function');
    expect(receiver.lines.at(-1)).toMatchObject({ outcome: 'failed', error: 'x is not a function' });
  });
});

describe('what is observed', () => {
  it('is one line and one count for each delivery', async () => {
    const told: string[] = [];
    receiver = await startReceiver({ onDelivery: (outcome, reason) => told.push(`${outcome}:${reason}`) });
    await receiver.post(eventBody(), signed(eventBody()));
    await receiver.post(eventBody());
    await receiver.post('{}', signed('{}'));
    await fetch(`${receiver.url}/livez`);
    expect(receiver.lines).toHaveLength(3);
    expect(receiver.lines[0]).toMatchObject({
      level: 'info',
      stage: 'receive',
      outcome: 'accepted',
      event_id: 'evt_1',
      type: 'policy.updated',
      kind: 'policy',
      record_id: 'pol_1',
      seq: 1,
      duration_ms: expect.any(Number) as number,
    });
    expect(receiver.lines[1]).toMatchObject({ level: 'warn', outcome: 'rejected', reason: 'missing_header' });
    expect(told).toEqual(['accepted:', 'rejected:missing_header', 'quarantined:missing_id']);
    const { values } = await receiver.metrics.registry
      .getSingleMetric('compliance_mirror_deliveries_total')!
      .get();
    expect(values.map(({ labels, value }) => [labels.outcome, labels.reason, value])).toEqual([
      ['accepted', '', 1],
      ['rejected', 'missing_header', 1],
      ['quarantined', 'missing_id', 1],
    ]);
  });

  it('is a line for each accepted delivery, and for few of those that anybody can send', async () => {
    receiver = await startReceiver();
    for (let n = 0; n < 50; n += 1) {
      await receiver.post('{}');
      await receiver.post(eventBody(), signed(eventBody()));
    }
    const count = (outcome: string) => receiver.lines.filter((line) => line.outcome === outcome).length;
    expect(count('accepted')).toBe(50);
    expect(count('rejected')).toBe(20);
  });

  it('holds neither body nor secret', async () => {
    receiver = await startReceiver();
    await receiver.post(eventBody(), signed(eventBody()));
    await receiver.post(eventBody({ id: 7 }), signed(eventBody({ id: 7 })));
    expect(JSON.stringify(receiver.lines)).not.toMatch(/Access control|0123456789abcdef/);
  });

  it('names a sender that went away', async () => {
    let told: (outcome: string) => void;
    const outcome = new Promise<string>((resolve) => {
      told = resolve;
    });
    receiver = await startReceiver({ onDelivery: (each) => told(each) });
    const socket = connect(receiver.port, '127.0.0.1');
    socket.write(`POST /webhooks HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n${CLAIMED}\r\n\r\n{`, () =>
      socket.destroy(),
    );
    expect(await outcome).toBe('aborted');
  });
});

it('GET and HEAD /livez answer without a signature', async () => {
  receiver = await startReceiver();
  const response = await fetch(`${receiver.url}/livez`);
  expect([response.status, await response.json()]).toEqual([200, { status: 'ok' }]);
  expect((await fetch(`${receiver.url}/livez`, { method: 'HEAD' })).status).toBe(200);
});

import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { signatureHeader } from '../../sandbox/send.ts';
import { EVENT_TYPES, type EventType, kindOfType } from '../../src/compliance/kinds.ts';
import { recordIdIn } from '../../src/compliance/pointers.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { request, testReceiver, testSandbox } from '../sandbox/support.ts';
import { consent } from './consent.ts';
import { makeHappen } from './happenings.ts';

/** The sandbox against nothing but the literal exchanges of test/fixtures/seed; its README explains them. */
const FOLDER = fileURLToPath(new URL('../fixtures/seed/', import.meta.url));
const CLIENT = { id: 'mirror-fixture', secret: 'client-secret-from-the-fixtures' };
const REDIRECT_URI = 'http://127.0.0.1:7999/callback';
const SECRET = 'secret-from-the-fixtures';

type Fields = Record<string, unknown>;

interface Exchange {
  request: {
    method: string;
    path: string;
    query?: Record<string, string>;
    headers?: Record<string, string>;
    body?: Fields;
  };
  answer: { status: number; body?: Fields; location?: { base: string; query: Record<string, string> } };
}

const read = (name: string) => JSON.parse(readFileSync(`${FOLDER}${name}.json`, 'utf8')) as Exchange;
const used = new Set<string>();

/** Such records as the literal answers show, and as many as their `meta.total` says. */
const seed = {
  policies: [
    { policyId: 'pol_8c1', name: 'Clear desk', version: '1.0', status: 'draft' },
    { policyId: 'pol_8c2', name: 'Backups', version: '2.10.3', status: 'effective', owner: 'IT' },
    { policyId: 'pol_8c3', name: 'Keys', version: '1.0', status: 'draft' },
  ],
  riskAssessments: [{ id: 'ra / north', likelihood: 2, impact: 'severe' }],
  vendors: [
    { id: 'ven_a', name: 'Ash Couriers' },
    { id: 'ven_b', name: 'Copper Kettle Catering', tier: 3 },
  ],
};

async function fixtureSandbox(accessTokenSeconds = 1800) {
  return await testSandbox({
    seed,
    apiKeys: ['key-from-the-fixtures'],
    webhookSecret: SECRET,
    oauth: {
      application: { ...CLIENT, redirectUri: REDIRECT_URI },
      serviceAccounts: [{ ...CLIENT, scopes: ['read'] }],
      accessTokenSeconds,
    },
  });
}

/** Sends the literal request; `changes` stand for what only the server could have made, such as a code. */
async function replay(name: string, url: string, changes: Fields = {}) {
  used.add(name);
  const { method, path, query, headers, body } = read(name).request;
  const base = path.startsWith('/oauth/') ? url : `${url}/v1`;
  const search = query === undefined ? '' : `?${new URLSearchParams(query)}`;
  const sent = body === undefined ? undefined : { ...body, ...changes };
  return await request(method, base + path + search, sent, headers);
}

/** The object itself, since the specification does not say whether a create's answer is wrapped. */
const bare = (body: Fields): Fields => (body['data'] as Fields | undefined) ?? body;
/** A server makes its own. */
const without = (object: Fields, ...fields: string[]) =>
  Object.fromEntries(Object.entries(object).filter(([field]) => !fields.includes(field)));

describe('the seven operations, against the literal exchanges', () => {
  it.each(['rest/get-policies', 'rest/get-vendors', 'rest/get-vendor', 'rest/get-risk-assessment'])(
    '%s is answered as written',
    async (name) => {
      const { url } = await fixtureSandbox();
      const { status, body } = await replay(name, url);
      expect(status).toBe(read(name).answer.status);
      expect(body).toMatchObject(read(name).answer.body!);
    },
  );

  it('rest/get-risk-assessment-missing is answered 404', async () => {
    const { url } = await fixtureSandbox();
    expect((await replay('rest/get-risk-assessment-missing', url)).status).toBe(404);
  });

  it.each([
    ['rest/post-policies', 'policyId'],
    ['rest/post-risk-assessments', 'id'],
    ['rest/post-webhooks-families', 'id'],
    ['rest/post-webhooks-types', 'id'],
  ])('%s is a success that shows what was made', async (name, idField) => {
    const { url } = await fixtureSandbox();
    const { status, body } = await replay(name, url);
    expect([200, 201]).toContain(status);
    const expected = bare(read(name).answer.body!);
    expect(bare(body)).toMatchObject(without(expected, idField));
    expect(bare(body)[idField]).toEqual(expect.any(String));
  });
});

describe('authentication, against the literal exchanges', () => {
  it('auth/api-key: a key nobody issued is refused', async () => {
    const { url } = await fixtureSandbox();
    expect((await replay('auth/api-key', url)).status).toBe(401);
  });

  it('consents, exchanges the code with exactly the five fields, and renews', async () => {
    const { url } = await fixtureSandbox();
    used.add('auth/authorize');
    const asked = read('auth/authorize');
    const back = await consent(url, asked.request.query!);
    expect(back.status).toBe(asked.answer.status);
    expect(back.location.origin + back.location.pathname).toBe(asked.answer.location!.base);
    expect([...back.location.searchParams.keys()]).toEqual(Object.keys(asked.answer.location!.query));

    const exchanged = await replay('auth/token-exchange', url, {
      code: back.location.searchParams.get('code'),
    });
    expect(exchanged.status).toBe(200);
    const promised = read('auth/token-exchange').answer.body!;
    expect(exchanged.body).toMatchObject(without(promised, 'access_token', 'refresh_token'));

    const before: string = exchanged.body.refresh_token;
    const renewed = await replay('auth/token-refresh', url, { refresh_token: before });
    expect(renewed.status).toBe(200);
    expect(renewed.body.access_token).not.toBe(exchanged.body.access_token);
    expect(renewed.body.refresh_token).not.toBe(before);
    expect(renewed.body.token_type.toLowerCase()).toBe('bearer');
  });

  it('auth/service-account: gets a token, and no refresh token', async () => {
    const { url } = await fixtureSandbox(600);
    const { status, body } = await replay('auth/service-account', url);
    expect(status).toBe(200);
    expect(body).toMatchObject(without(read('auth/service-account').answer.body!, 'access_token'));
    expect(body.refresh_token).toBeUndefined();
  });
});

describe('deliveries, against those signed by openssl', () => {
  const pointers = loadConfig({ WEBHOOK_SECRETS: SECRET }).idPointers;

  it.each(EVENT_TYPES)('%s is signed as openssl signs it', (type) => {
    const body = readFileSync(`${FOLDER}events/${type}.body`, 'utf8');
    const header = readFileSync(`${FOLDER}events/${type}.header`, 'utf8').trim();
    used.add(`events/${type}`);
    expect(signatureHeader(SECRET, 1_793_620_800, body)).toBe(header);
  });

  it.each(EVENT_TYPES)('%s has the fields of the literal one', async (type: EventType) => {
    const { url, quiesce } = await fixtureSandbox();
    const receiver = await testReceiver();
    const asked = read('rest/post-webhooks-families').request;
    const authorization = asked.headers!['authorization']!;
    await request('POST', `${url}/v1/webhooks`, { ...asked.body, url: receiver.url }, { authorization });
    await makeHappen(type, url, authorization);
    await quiesce();

    const literal = JSON.parse(readFileSync(`${FOLDER}events/${type}.body`, 'utf8')) as Fields;
    const event: Fields = { ...receiver.received.at(-1)!.event };
    expect(event['type']).toBe(type);
    expect(Object.keys(event)).toEqual(Object.keys(literal));
    expect(event['created']).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
    const kind = kindOfType(type)!;
    const data = event['data'] as Fields;
    expect(recordIdIn(data, kind, pointers)).toEqual(expect.any(String));
    // Of the others' payloads the specification shows nothing.
    if (kind === 'policy') expect(Object.keys(data)).toEqual(Object.keys(literal['data'] as Fields));
  });
});

it('every exchange and delivery of the fixtures has been used', () => {
  const names = (folder: string, ext: string) =>
    readdirSync(FOLDER + folder)
      .filter((name) => name.endsWith(ext))
      .map((name) => `${folder}/${name.slice(0, -ext.length)}`);
  expect([...names('rest', '.json'), ...names('auth', '.json'), ...names('events', '.body')].sort()).toEqual(
    [...used].sort(),
  );
});

import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createBudget } from '../../src/compliance/budget.ts';
import { type ComplianceClient, createClient } from '../../src/compliance/client.ts';
import { apiKeyCredentials } from '../../src/compliance/credentials.ts';
import { EVENT_TYPES, kindOfType } from '../../src/compliance/kinds.ts';
import { createTokenEndpoint, type TokenEndpoint } from '../../src/compliance/oauth.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import { patternSelects, type RegistrationRequest } from '../../src/compliance/registration.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { parseEnvelope } from '../../src/receive/envelope.ts';
import { readSignature, verifySignature } from '../../src/receive/signature.ts';
import { HeldClock } from './held-clock.ts';

/** Our client against nothing but the literal exchanges of test/fixtures/seed; its README explains them. */
const FOLDER = fileURLToPath(new URL('../fixtures/seed/', import.meta.url));
const T_SECONDS = 1_793_620_800;

interface Exchange {
  rows: string[];
  request: {
    method: string;
    path: string;
    query?: Record<string, string>;
    headers?: Record<string, string>;
    body?: JsonObject;
  };
  id?: string;
  answer: {
    status: number;
    body?: JsonObject;
    location?: { base: string; query: Record<string, string> };
  };
}

const read = (name: string) => JSON.parse(readFileSync(`${FOLDER}${name}.json`, 'utf8')) as Exchange;
const names = (folder: string, ext: string) =>
  readdirSync(`${FOLDER}${folder}`)
    .filter((name) => name.endsWith(ext))
    .map((name) => `${folder}/${name.slice(0, -ext.length)}`);

interface Seen {
  method: string;
  path: string;
  query: Record<string, string>;
  headers: Record<string, string | string[] | undefined>;
  body: unknown;
}

let current: Exchange;
let seen: Seen[] = [];
const used = new Set<string>();
const server = createServer((request, response) => {
  const url = new URL(request.url!, 'http://localhost');
  let text = '';
  request.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  request.on('end', () => {
    seen.push({
      method: request.method!,
      path: url.pathname.replace(/^\/(api\/v1|auth)/, ''),
      query: Object.fromEntries(url.searchParams),
      headers: request.headers,
      body: text === '' ? undefined : JSON.parse(text),
    });
    const { status, body } = current.answer;
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
});

let origin: string;
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

function settings(pageSize = '100') {
  const config = loadConfig({
    COMPLIANCE_BASE_URL: `${origin}/api/v1`,
    COMPLIANCE_API_KEY: 'key-from-the-fixtures',
    COMPLIANCE_AUTH_URL: `${origin}/auth`,
    COMPLIANCE_CLIENT_ID: 'mirror-fixture',
    COMPLIANCE_CLIENT_SECRET: 'client-secret-from-the-fixtures',
    COMPLIANCE_REQUESTS_PER_MINUTE: '1000',
    COMPLIANCE_PAGE_SIZE: pageSize,
  });
  return { compliance: config.compliance!, pointers: config.idPointers };
}

function clientFor(exchange: Exchange, key = 'key-from-the-fixtures'): ComplianceClient {
  const clock = new HeldClock();
  const { compliance, pointers } = settings(exchange.request.query?.['perPage']);
  const budget = createBudget({ requestsPerMinute: 1000, clock });
  return createClient({
    settings: compliance,
    credentials: apiKeyCredentials(() => key),
    budget,
    clock,
    pointers,
  });
}

const call = { lane: 'person', signal: new AbortController().signal } as const;

/** Replays one exchange and checks the request that our side made of it. */
async function replay<T>(name: string, act: (exchange: Exchange) => Promise<T>): Promise<T> {
  used.add(name);
  current = read(name);
  seen = [];
  let result: T;
  try {
    result = await act(current);
  } finally {
    const { method, path, query, headers, body } = current.request;
    expect(seen).toHaveLength(1);
    expect(seen[0]).toMatchObject({ method, path, headers: headers ?? {} });
    expect(seen[0]!.query).toEqual(query ?? {});
    expect(seen[0]!.body).toEqual(body);
  }
  return result;
}

const dataOf = ({ answer }: Exchange) => answer.body!['data'] as JsonObject;

describe('the seven operations, against the literal exchanges', () => {
  it('GET /policies: the envelope, the pages and the four fields, and a field nobody named', async () => {
    const page = await replay('rest/get-policies', (one) => clientFor(one).listPage('policy', 1, call));
    expect(page.objects).toEqual(dataOf(current));
    expect(page.meta).toEqual({ page: 1, perPage: 2, total: 3 });
  });

  it('GET /vendors: another page', async () => {
    const page = await replay('rest/get-vendors', (one) => clientFor(one).listPage('vendor', 2, call));
    expect(page.objects).toEqual(dataOf(current));
    expect(page.meta).toEqual({ page: 2, perPage: 1, total: 2 });
  });

  it('GET /vendors/{id}', async () => {
    const found = await replay('rest/get-vendor', (one) => clientFor(one).getRecord('vendor', one.id!, call));
    expect(found).toMatchObject({ outcome: 'found', object: dataOf(current) });
  });

  it('GET /risk-assessments/{id}: an id with a slash and blanks in it', async () => {
    const found = await replay('rest/get-risk-assessment', (one) =>
      clientFor(one).getRecord('risk_assessment', one.id!, call),
    );
    expect(found).toMatchObject({ outcome: 'found', object: dataOf(current) });
  });

  it('GET /risk-assessments/{id}: none', async () => {
    const found = await replay('rest/get-risk-assessment-missing', (one) =>
      clientFor(one).getRecord('risk_assessment', one.id!, call),
    );
    expect(found).toMatchObject({ outcome: 'missing' });
  });

  it.each([
    ['rest/post-policies', '/policies'],
    ['rest/post-risk-assessments', '/risk-assessments'],
  ])('POST: %s', async (name, path) => {
    const created = await replay(name, (one) => {
      const body = JSON.stringify(one.request.body!);
      return clientFor(one).request({ method: 'POST', path, body, ...call });
    });
    expect(created).toMatchObject({ value: current.answer.body });
  });

  it.each([
    ['rest/post-webhooks-families', { id: 'wh_31', secret: 'secret-from-the-fixtures' }],
    ['rest/post-webhooks-types', { id: 'wh_32' }],
  ])('POST /webhooks: %s', async (name, expected) => {
    const registered = await replay(name, (one) =>
      clientFor(one).registerWebhook(one.request.body as unknown as RegistrationRequest, call),
    );
    expect(registered).toMatchObject(expected);
  });
});

describe('authentication, against the literal exchanges', () => {
  const endpoint = (): TokenEndpoint =>
    createTokenEndpoint({ settings: settings().compliance, clock: new HeldClock() });
  const never = call.signal;

  it('sends an API key as the bearer value, and takes a 401 for its refusal', async () => {
    const refused = replay('auth/api-key', (one) =>
      clientFor(one, 'key-nobody-issued').getRecord('vendor', one.id!, call),
    );
    await expect(refused).rejects.toMatchObject({ kind: 'unauthorized' });
  });

  it('asks for consent with the four parameters', () => {
    used.add('auth/authorize');
    const { request } = read('auth/authorize');
    const url = endpoint().authorizationUrl({
      redirectUri: request.query!['redirect_uri']!,
      scopes: ['read', 'write'],
      state: 'any',
      verifier: null,
    });
    expect(url.pathname).toBe(`/auth${request.path}`);
    const { state: _, ...sent } = Object.fromEntries(url.searchParams);
    expect(sent).toEqual(request.query);
  });

  it('exchanges the code with the five fields', async () => {
    const tokens = await replay('auth/token-exchange', ({ request }) =>
      endpoint().exchangeCode(
        {
          code: String(request.body!['code']),
          redirectUri: String(request.body!['redirect_uri']),
          verifier: null,
          scopes: ['read', 'write'],
        },
        never,
      ),
    );
    expect(tokens).toMatchObject({
      accessToken: 'access-one-from-the-fixtures',
      refreshToken: 'refresh-one-from-the-fixtures',
      grantedScopes: ['read', 'write'],
      expiresWall: new HeldClock().wall() + 1_800_000,
    });
  });

  it('renews, and takes an hour where the answer names no end', async () => {
    const refreshToken = 'refresh-one-from-the-fixtures';
    const before = {
      accessToken: 'a',
      refreshToken,
      expiresWall: 0,
      renewWall: 0,
      askedScopes: ['read'],
      grantedScopes: null,
    };
    const tokens = await replay('auth/token-refresh', () => endpoint().refresh(before, never));
    expect(tokens).toMatchObject({
      accessToken: 'access-two-from-the-fixtures',
      refreshToken: 'refresh-two-from-the-fixtures',
      expiresWall: new HeldClock().wall() + 3_600_000,
    });
  });

  it('gets a service account its token', async () => {
    const tokens = await replay('auth/service-account', () => endpoint().clientCredentials(['read'], never));
    expect(tokens).toMatchObject({ accessToken: 'access-three-from-the-fixtures', refreshToken: null });
  });
});

describe('deliveries signed by openssl', () => {
  const { webhook, idPointers } = loadConfig({ WEBHOOK_SECRETS: 'secret-from-the-fixtures' });
  const RECORDS: Record<string, string> = {
    'policy.deleted': 'pol_8c2',
    policy: 'pol_8c1',
    'risk.identified': 'ra / north',
    'risk.assessed': 'ra / north',
    risk: 'ra_51',
    'vendor.removed': 'ven_a',
    vendor: 'ven_b',
  };

  it.each(EVENT_TYPES)('%s is verified, parsed, and said to be about its record', (type) => {
    const body = readFileSync(`${FOLDER}events/${type}.body`);
    const headerValue = readFileSync(`${FOLDER}events/${type}.header`, 'utf8');
    used.add(`events/${type}`);
    const claimed = readSignature(headerValue, webhook);
    if (!claimed.ok) throw new Error(claimed.reason);
    const delivery = { body, secrets: webhook.secrets(), nowSeconds: T_SECONDS + 5 };
    expect(verifySignature(claimed, delivery, webhook)).toMatchObject({ ok: true });
    const parsed = parseEnvelope(body, { pointers: idPointers, t: String(T_SECONDS) });
    expect(parsed).toMatchObject({
      ok: true,
      events: [
        {
          type,
          known: true,
          kind: kindOfType(type),
          recordId: RECORDS[type] ?? RECORDS[type.split('.')[0]!],
        },
      ],
    });
  });

  it('are selected by the patterns of the literal registrations, and by no other', () => {
    const chosen = (name: string) => {
      const patterns = read(name).request.body!['events'] as string[];
      return EVENT_TYPES.filter((type) => patterns.some((pattern) => patternSelects(pattern, type)));
    };
    expect(chosen('rest/post-webhooks-families')).toEqual(EVENT_TYPES);
    expect(chosen('rest/post-webhooks-types')).toEqual(['policy.approved', 'vendor.removed']);
  });
});

it('every exchange and delivery of the fixtures has been used', () => {
  expect([...names('rest', '.json'), ...names('auth', '.json'), ...names('events', '.body')].sort()).toEqual(
    [...used].sort(),
  );
});

import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type Sandbox, startSandbox } from '../../sandbox/sandbox.ts';
import { COLLECTIONS, type ComplianceClient } from '../../src/compliance/client.ts';
import { EVENT_TYPES, type EventType } from '../../src/compliance/kinds.ts';
import { DEFAULT_ID_POINTERS, type JsonObject, recordIdIn } from '../../src/compliance/pointers.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { parseEnvelope } from '../../src/receive/envelope.ts';
import { readSignature, verifySignature } from '../../src/receive/signature.ts';
import { request, testReceiver } from '../sandbox/support.ts';
import { type Connection, connect, WAYS, type Way } from './clients.ts';
import { makeHappen } from './happenings.ts';

/** Every part of the specification, driven by our client against the sandbox over HTTP, and told as a table. */
const API_KEY = 'key-of-the-table';
const call = { lane: 'person', signal: new AbortController().signal } as const;
/** Nobody listens there. */
const url = 'http://127.0.0.1:9/webhooks';

/** An operation done with success resolves to what the table shows of it. */
const OPERATIONS: Record<string, (client: ComplianceClient) => Promise<string>> = {
  'GET /policies': async (client) => `${(await client.listPage('policy', 1, call)).objects.length} rows`,
  'POST /policies': (client) => create(client, 'policy'),
  'GET /risk-assessments/{id}': async (client) =>
    (await client.getRecord('risk_assessment', 'risk-0001', call)).outcome,
  'POST /risk-assessments': (client) => create(client, 'risk_assessment'),
  'GET /vendors': async (client) => `${(await client.listPage('vendor', 1, call)).objects.length} rows`,
  'GET /vendors/{id}': async (client) => (await client.getRecord('vendor', 'vendor-0001', call)).outcome,
  'POST /webhooks': async (client) =>
    created(await client.registerWebhook({ url, events: ['policy.created'], description: '' }, call)),
};
const isWrite = (operation: string) => operation.startsWith('POST');
const created = ({ id }: { id: string | null }) => (id === null ? 'no id' : 'created');

async function create(client: ComplianceClient, kind: 'policy' | 'risk_assessment'): Promise<string> {
  const post = { method: 'POST', path: COLLECTIONS[kind], body: '{"name":"Tabled"}' } as const;
  const { value } = await client.request({ ...post, ...call });
  return created({ id: recordIdIn((value as { data: JsonObject }).data, kind, DEFAULT_ID_POINTERS) });
}

type Table = Record<string, Record<string, string>>;
const operations: Table = {};
const events: Table = {};
const note = (table: Table, row: string, column: string, text: string) => {
  table[row] = { ...table[row], [column]: text };
};

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({ port: 0, apiKeys: [API_KEY] });
});
afterAll(async () => {
  await sandbox.close();
  console.table(operations);
  console.table(events);
});

describe.each(WAYS)('with %s', (way: Way) => {
  let full: Connection;
  let readOnly: Connection | null;
  beforeAll(async () => {
    full = await connect(sandbox, way);
    // An API key has no scopes to narrow.
    readOnly = way === 'api_key' ? null : await connect(sandbox, way, 'read');
  });
  afterAll(async () => {
    await full.close();
    await readOnly?.close();
  });

  it.each(Object.keys(OPERATIONS))('%s succeeds', async (operation) => {
    const result = await OPERATIONS[operation]!(full.client);
    expect(result).toMatch(/^(\d+ rows|created|found)$/);
    note(operations, operation, way, result);
  });

  it.each(Object.keys(OPERATIONS))('%s needs its scope', async (operation) => {
    if (readOnly === null) return note(operations, operation, `${way}, read only`, 'no scopes');
    const attempt = OPERATIONS[operation]!(readOnly.client);
    if (isWrite(operation)) await expect(attempt).rejects.toMatchObject({ kind: 'forbidden' });
    else await attempt;
    note(operations, operation, `${way}, read only`, isWrite(operation) ? '403' : 'allowed');
  });
});

describe('without credentials', () => {
  it.each(Object.keys(OPERATIONS))('%s is refused', async (operation) => {
    const [method, path] = operation.split(' ') as [string, string];
    const { status } = await request(method, `${sandbox.url}/v1${path.replace('{id}', 'vendor-0001')}`);
    expect(status).toBe(401);
    note(operations, operation, 'none', '401');
  });
});

describe('deliveries', () => {
  const { webhook, idPointers } = loadConfig({ WEBHOOK_SECRETS: 'none-of-the-registrations' });
  const otherFamily = (type: string) => (type.startsWith('policy.') ? 'vendor.*' : 'policy.*');
  const otherType = (type: EventType) => EVENT_TYPES.find((other) => other !== type)!;

  it.each(EVENT_TYPES)(
    'of %s reach exact and family subscribers, and nobody else',
    async (type: EventType) => {
      // Its own, so that no receiver of an earlier test is waited for.
      const own = await startSandbox({ port: 0, apiKeys: [API_KEY] });
      onTestFinished(() => own.close());
      const connection = await connect(own, 'api_key');
      onTestFinished(() => connection.close());
      const forms = {
        'exact type': [type],
        'family.*': [type.replace(/\..*/, '.*')],
        'both of them': [type, type.replace(/\..*/, '.*')],
        'all families': ['policy.*', 'risk.*', 'vendor.*'],
        'another family': [otherFamily(type)],
        'another type': [otherType(type)],
      };
      const subscribers = await Promise.all(
        Object.entries(forms).map(async ([form, events]) => {
          const receiver = await testReceiver();
          const registration = { url: receiver.url, events, description: form };
          const { secret } = await connection.client.registerWebhook(registration, call);
          return { form, receiver, secret: Buffer.from(secret!) };
        }),
      );
      const id = await makeHappen(type, own.url, `Bearer ${API_KEY}`);
      expect(await own.parts.upstream.deliveries.whenQuiet(120_000)).toBe(true);

      for (const { form, receiver, secret } of subscribers) {
        const got = receiver.received.filter(({ event }) => event.type === type);
        const isSubscribed = !form.startsWith('another');
        expect(got, form).toHaveLength(isSubscribed ? 1 : 0);
        for (const { headers, raw } of got) {
          const body = Buffer.from(raw);
          const headerValue = String(headers['x-webhook-signature']);
          const nowSeconds = Math.floor(Date.now() / 1000);
          const claimed = readSignature(headerValue, webhook);
          if (!claimed.ok) throw new Error(claimed.reason);
          const delivery = { body, secrets: [secret], nowSeconds };
          expect(verifySignature(claimed, delivery, webhook)).toMatchObject({ ok: true });
          const t = /t=(\d+)/.exec(headerValue)![1]!;
          const parsed = parseEnvelope(body, { pointers: idPointers, t });
          expect(parsed).toMatchObject({ ok: true, events: [{ type, known: true, recordId: id }] });
        }
        note(events, type, form, isSubscribed ? 'verified' : 'nothing');
      }
    },
  );
});

import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

/**
 * Every row of the specification's tables, listed here by hand, and where the fixtures say it literally: a file, and
 * the place in it. Neither the schemas nor the fixtures' own `rows` are asked what the rows are.
 */
const FOLDER = fileURLToPath(new URL('../fixtures/seed/', import.meta.url));

const of = (table: string, file: string, place: string, fields: readonly string[]) =>
  fields.map((field): [string, string, string] => [`${table}: ${field}`, file, `${place}.${field}`]);
const endpoint = (row: string, file: string): [string, string, string] => [`4 ${row}`, file, 'answer.status'];

const ROWS: readonly [row: string, file: string, place: string][] = [
  ...of('2 Envelope', 'rest/get-policies', 'answer.body', [
    'data',
    'meta',
    'meta.page',
    'meta.perPage',
    'meta.total',
  ]),
  ...of('2 Policy', 'rest/get-policies', 'answer.body.data.0', ['policyId', 'name', 'version', 'status']),
  ['2 Risk assessment: fields not shown', 'rest/get-risk-assessment', 'answer.body.data'],
  ['2 Vendor: fields not shown', 'rest/get-vendors', 'answer.body.data.0'],
  ...of('2 Webhook registration', 'rest/post-webhooks-families', 'request.body', [
    'url',
    'events',
    'description',
  ]),
  endpoint('GET /policies', 'rest/get-policies'),
  endpoint('POST /policies', 'rest/post-policies'),
  endpoint('GET /risk-assessments/{id}', 'rest/get-risk-assessment'),
  endpoint('POST /risk-assessments', 'rest/post-risk-assessments'),
  endpoint('GET /vendors', 'rest/get-vendors'),
  endpoint('GET /vendors/{id}', 'rest/get-vendor'),
  endpoint('POST /webhooks', 'rest/post-webhooks-families'),
  ['5 Authorization: Bearer <API_KEY>', 'auth/api-key', 'request.headers.authorization'],
  ['5 Methods: API keys', 'auth/api-key', 'answer.status'],
  ['5 Methods: OAuth 2.0', 'auth/token-exchange', 'answer.body.access_token'],
  ['5 Methods: OAuth 2.0 with refresh capability', 'auth/token-refresh', 'request.body.refresh_token'],
  ['5 Methods: service accounts', 'auth/service-account', 'answer.body.access_token'],
  ...of('5 Authorization request', 'auth/authorize', 'request.query', [
    'client_id',
    'response_type',
    'redirect_uri',
    'scope',
  ]),
  ...of('5 Token exchange', 'auth/token-exchange', 'request.body', [
    'grant_type',
    'code',
    'client_id',
    'client_secret',
    'redirect_uri',
  ]),
  ['6 Subscription: <family>.*', 'rest/post-webhooks-families', 'request.body.events.0'],
  ['6 Subscription: an exact type', 'rest/post-webhooks-types', 'request.body.events.0'],
];

/** Section 6, its table of types. */
const TYPES: Readonly<Record<string, readonly string[]>> = {
  policy: ['policy.created', 'policy.updated', 'policy.deleted', 'policy.approved'],
  risk: ['risk.identified', 'risk.assessed', 'risk.mitigated', 'risk.escalated'],
  vendor: ['vendor.added', 'vendor.updated', 'vendor.assessed', 'vendor.removed'],
};
/** Section 6, Delivery format. */
const DELIVERY_FIELDS = ['id', 'type', 'created', 'data'];

const exchange = (file: string) =>
  JSON.parse(readFileSync(`${FOLDER}${file}.json`, 'utf8')) as {
    rows: string[];
    request: { method: string };
  };
const at = (document: unknown, place: string): unknown =>
  place
    .split('.')
    .reduce<unknown>((value, step) => (value as Record<string, unknown> | undefined)?.[step], document);
/** `2 Policy: policyId, name` stands for two rows. */
const expanded = (text: string) => {
  const [table, fields] = text.split(': ');
  return fields === undefined ? [text] : fields.split(', ').map((field) => `${table}: ${field}`);
};

const files = ['rest', 'auth'].flatMap((folder) =>
  readdirSync(FOLDER + folder).map((name) => `${folder}/${name.replace(/\.json$/, '')}`),
);

describe('the rows of the specification and the fixtures', () => {
  it('are the same rows', () => {
    const claimed = new Set(files.flatMap((file) => exchange(file).rows).flatMap(expanded));
    expect([...claimed].sort()).toEqual(ROWS.map(([row]) => row).sort());
  });

  it.each(ROWS)('%s is said literally by %s, at %s', (row, file, place) => {
    const one = exchange(file);
    expect(one.rows.flatMap(expanded)).toContain(row);
    expect(at(one, place)).toBeDefined();
    expect(at(one, 'request.method')).toEqual(expect.any(String));
    expect(at(one, 'answer.status')).toEqual(expect.any(Number));
    const [, method, path] = /^4 (\S+) (\S+)$/.exec(row) ?? [];
    if (method === undefined) return;
    expect(at(one, 'request.method')).toBe(method);
    const pattern = new RegExp(`^${path!.replace('{id}', '[^/]+')}$`);
    expect(at(one, 'request.path')).toMatch(pattern);
  });

  it('have one delivery of each type and no other, with the four fields, and a header of the form shown', () => {
    const named = (ext: string) =>
      readdirSync(`${FOLDER}events`)
        .filter((name) => name.endsWith(ext))
        .map((name) => name.slice(0, -ext.length));
    const types = Object.values(TYPES).flat();
    expect(named('.body').sort()).toEqual([...types].sort());
    expect(named('.header').sort()).toEqual([...types].sort());
    for (const type of types) {
      const event = JSON.parse(readFileSync(`${FOLDER}events/${type}.body`, 'utf8')) as Record<
        string,
        unknown
      >;
      expect(Object.keys(event).filter((field) => DELIVERY_FIELDS.includes(field))).toEqual(DELIVERY_FIELDS);
      expect(event['type']).toBe(type);
      const policyFields = ['policyId', 'name', 'version', 'status'];
      if (type.startsWith('policy.')) expect(Object.keys(event['data'] as object)).toEqual(policyFields);
      const header = readFileSync(`${FOLDER}events/${type}.header`, 'utf8');
      expect(header).toMatch(/^t=\d{10}, v1=[0-9a-f]{64}$/);
    }
  });
});

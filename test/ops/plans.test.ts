import Database from 'better-sqlite3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { hearStatements } from '../support/statements.ts';
import { bearer, type Harness, incoming, OPERATE, opsHarness } from './harness.ts';

/** Tables that grow with what happens. A scan of all records of a kind is allowed: there are as many as the company has. */
const GROWING = 'events|changes|problems|sync_runs|quarantine|duplicates|audit';

/** Reads of a table's end that are as long as their LIMIT, whatever is stored. */
const BOUNDED = [
  // The newest thousand events: when a delivery last came in.
  /SELECT last_delivered_at FROM events ORDER BY seq DESC LIMIT 1000/,
  // What is open now.
  /FROM problems\s+WHERE resolved_at IS NULL\s+(GROUP|ORDER) BY/,
  // Three kinds.
  /FROM sync_status ORDER BY kind/,
];
/** Steps that read a partial index whole: what is open or pending now, and not what was ever stored. */
const PRESENT =
  /USING (COVERING )?INDEX (problems_open|problems_open_newest|events_pending|quarantine_waiting)\b/;

let h: Harness;
let database: string;
const asked = new Set<string>();

beforeAll(async () => {
  h = await opsHarness();
  database = h.database;
  await h.mirror('vendor', 'v1', { name: 'Acme' });
  await h.store.accept({ events: [incoming()], unusable: [] }, h.now(), { settleMs: 1 });
});
afterAll(() => h.close());

/** Every page and every list, plain and with each filter that it takes. */
function paths(): string[] {
  const plain = h.app.routes
    .filter(({ method, path }) => method === 'GET' && !path.includes('*'))
    .map(({ path }) => path.replace(':kind', 'vendor').replace(':id', path.includes('records') ? 'v1' : '1'));
  const events = [
    'state=failed',
    'state=processed',
    'state=pending',
    'state=ignored',
    'state=dismissed',
    'type=x',
    'kind=vendor',
  ]
    .concat([
      'record_id=v1',
      'kind=vendor&record_id=v1',
      'type=x&state=processed',
      'type=x&state=failed',
      'kind=vendor&state=processed',
      'kind=vendor&type=x&state=ignored',
      'record_id=v1&state=processed&type=x',
      'kind=vendor&state=failed',
    ])
    .concat(['type=x']);
  const pages = [
    'unverified=true',
    'unverified=false',
    'deleted=true',
    'deleted=false',
    'search=a',
    'search=v1',
    'after=a',
    'status=approved',
    'status=approved&after=v0',
    'field=owner.team=Legal',
    'search=Ac&after=v0&status=approved&field=a=b',
    'search=a&deleted=false&unverified=true',
    'search=a&deleted=true',
  ];
  return [
    ...new Set(plain),
    '/',
    '/deliveries/evt_1',
    '/api/deliveries/evt_1',
    ...events.flatMap((query) => [`/deliveries?${query}`, `/api/deliveries?${query}`]),
    ...['vendor', 'policy', 'risk_assessment'].flatMap((kind) => [
      ...pages.map((query) => `/records/${kind}?${query}`),
      ...pages.map((query) => `/api/records/${kind}?${query}`),
    ]),
    ...['/api/problems', '/api/problems?state=resolved'],
    ...[
      '/syncs?after=9',
      '/audit?after=9',
      '/deliveries?search=nothing',
      '/deliveries?outcome=accepted&after=9.9',
      '/api/deliveries?since=2026-01-01T00:00:00Z&until=2026-02-01T00:00:00Z&type=a.b&kind=vendor',
      '/records/vendor/v1?after=9',
    ],
  ];
}

test('no page and no list of the API scans or sorts what grows with time', async () => {
  const stopHearing = hearStatements((sql) => asked.add(sql));
  for (const path of paths()) {
    const response = await h.app.request(path, { headers: bearer(OPERATE) });
    expect([200, 404], `${path} answered ${response.status}`).toContain(response.status);
    await response.arrayBuffer();
  }
  stopHearing();
  expect(asked.size).toBeGreaterThan(40);

  const db = new Database(database, { readonly: true });
  // Plans made without statistics are the plans of a large database too.
  expect(db.prepare("SELECT count(*) FROM sqlite_master WHERE name LIKE 'sqlite_stat%'").pluck().get()).toBe(
    0,
  );
  const dear = [...asked].flatMap((sql) => {
    if (/^\s*(BEGIN|COMMIT|ROLLBACK|PRAGMA)/i.test(sql)) return [];
    const holes = sql.split('?').length - 1;
    const plan = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(Array<number>(holes).fill(1)) as {
      detail: string;
    }[];
    const growing = plan.some(({ detail }) => new RegExp(`\\b(${GROWING})\\b`).test(detail));
    return plan
      .map(({ detail }) => detail)
      .filter(
        (detail) =>
          (new RegExp(`^SCAN (${GROWING})\\b`).test(detail) && !PRESENT.test(detail)) ||
          (growing && /USE TEMP B-TREE/.test(detail)),
      )
      .filter(() => !BOUNDED.some((pattern) => pattern.test(sql)))
      .map((detail) => `${detail} ← ${sql.replaceAll(/\s+/g, ' ').slice(0, 160)}`);
  });
  db.close();
  expect(dear).toEqual([]);
}, 60_000);

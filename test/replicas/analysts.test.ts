import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Sandbox, startSandbox } from '../../sandbox/sandbox.ts';
import { builtinSeed, normaliseSeed } from '../../sandbox/seed.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { createLogger } from '../../src/platform/logger.ts';
import { type Service, startService } from '../../src/service/service.ts';
import { TYPES } from '../../src/store/postgres/dialect.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { request } from '../sandbox/support.ts';

/** Every SQL text of docs/for-analysts.md, and the questions of the README, on both engines, over what a sandbox with its own records has told two mirrors. */

const TIMEOUT_MS = 240_000;
const API_KEY = 'key-of-the-analysts';
const SECRET = 'a-signing-secret-of-the-analysts';
const TOKEN = 'operate-token-of-the-tests';
const DAY_MS = 86_400_000;
const REMOVED = 'vendor-0007';

const read = (name: string) => readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8');
const [, GRANTS] = [...read('postgresql.md').matchAll(/```sql\n([\s\S]*?)```/g)].map(([, sql]) => sql!);

const ENGINES = ['sqlite', 'postgresql'] as const;
type Engine = (typeof ENGINES)[number];
type Row = Record<string, unknown>;

const QUESTIONS = read('for-analysts.md')
  .split(/^## /m)
  .slice(1)
  .flatMap((section) =>
    [...section.matchAll(/^```sql ?(\w*)\n([\s\S]*?)^```/gm)].flatMap(([, engine, sql]) =>
      ENGINES.filter((each) => engine === '' || engine === each).map((each) => ({
        heading: section.slice(0, section.indexOf('\n')),
        engine: each,
        sql: sql!,
      })),
    ),
  );

const SHORT = /## Five questions[\s\S]*?```sql\n([\s\S]*?)```/.exec(read('../README.md'))![1]!;
const IN_README = SHORT.split(/;\n/).filter((sql) => sql.includes('SELECT'));

let server: PostgresServer;
let sandbox: Sandbox;
let folder: string;
const services: Service[] = [];
const ask = {} as Record<Engine, (sql: string) => Promise<Row[]>>;
const closers: (() => unknown)[] = [];

const control = (path: string, body: unknown) => request('POST', `${sandbox.url}/_sandbox${path}`, body);
const mutate = (body: object) => control('/mutate', body);

async function startMirror(env: Record<string, string>): Promise<void> {
  const service = await startService({
    config: loadConfig({
      PORT: '0',
      OPS_PORT: '0',
      OPS_TOKENS: `olga:operate:${TOKEN}`,
      COMPLIANCE_BASE_URL: `${sandbox.url}/v1`,
      COMPLIANCE_API_KEY: API_KEY,
      WEBHOOK_SECRETS: SECRET,
      COMPLIANCE_REQUESTS_PER_MINUTE: '100000',
      SYNC_SETTLE_SECONDS: '0.1',
      SYNC_FULL_MINUTES: '0',
      RISK_IDS_FILE: join(folder, 'risk-ids'),
      ...env,
    }),
    logger: createLogger({ level: 'fatal' }),
  });
  services.push(service);
  const url = `${service.receiverUrl}/webhooks`;
  const events = ['policy.*', 'risk.*', 'vendor.*'];
  const registered = await request(
    'POST',
    `${sandbox.url}/v1/webhooks`,
    { url, events, description: 'analysts' },
    { authorization: `Bearer ${API_KEY}` },
  );
  expect(registered.status).toBe(201);
}

/** Until the query gives these rows on both. */
const shows = (sql: string, rows: Row[]) =>
  vi.waitFor(
    async () => {
      for (const engine of ENGINES) expect(await ask[engine](sql)).toEqual(rows);
    },
    { timeout: TIMEOUT_MS, interval: 100 },
  );
const inSync = () =>
  shows(
    'SELECT verdict FROM sync_status',
    Array.from({ length: 3 }, () => ({ verdict: 'in_sync' })),
  );

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'mirror-analysts-'));
  server = await startPostgres();
  const seed = normaliseSeed(builtinSeed(new Date()));
  writeFileSync(join(folder, 'risk-ids'), seed.riskAssessments.map(({ id }) => `${id}\n`).join(''));
  sandbox = await startSandbox({
    port: 0,
    apiKeys: [API_KEY],
    seedNumber: 7,
    seed,
    signing: { header: 'X-Webhook-Signature', algorithm: 'sha256', secret: SECRET },
  });

  const path = join(folder, 'mirror.db');
  await startMirror({ DATABASE_URL: `file:${path}` });
  const file = new Database(path, { readonly: true });
  closers.push(() => file.close());
  ask.sqlite = async (sql) => file.prepare(sql).all() as Row[];

  const url = await server.createDatabase();
  await startMirror({ DATABASE_URL: url, DATABASE_SCHEMA: 'mirror' });
  await server.query(
    `CREATE ROLE mirror_readers NOLOGIN; GRANT USAGE ON SCHEMA mirror TO mirror_readers; ${GRANTS};
     CREATE ROLE ann LOGIN PASSWORD 'ann-reads-here' IN ROLE mirror_readers; ALTER ROLE ann SET search_path = mirror`,
    url,
  );
  const database = new URL(url).pathname.slice(1);
  const connectionString = server.url({ database, user: 'ann', password: 'ann-reads-here' });
  const ann = new pg.Client({ connectionString, types: TYPES });
  await ann.connect();
  closers.push(() => ann.end());
  await ann.query(`SET timezone = 'UTC'`);
  ask.postgresql = async (sql) => (await ann.query(sql)).rows as Row[];

  await inSync();
  // Told by an event: no full sync runs that could find it first.
  await mutate({ kind: 'vendor', op: 'update', id: 'vendor-0001', fields: { owner: 'Ann' } });
  await mutate({ kind: 'vendor', op: 'remove', id: REMOVED });
  await shows(`SELECT owner FROM vendors_flat WHERE id = 'vendor-0001'`, [{ owner: 'Ann' }]);
  await shows(`SELECT id FROM vendors WHERE deleted_at IS NOT NULL AND unverified_since IS NULL`, [
    { id: REMOVED },
  ]);
  // Told three times.
  await control('/scenario', { name: 'duplicate-delivery', id: 'vendor-0002' });
  await shows(`SELECT count(*) AS count FROM deliveries WHERE outcome = 'duplicate'`, [{ count: 2 }]);
  // Told by nobody.
  await mutate({ kind: 'policy', op: 'update', id: 'policy-0001', fields: { owner: 'Bob' }, silent: true });
  for (const { opsUrl, receiverUrl } of services) {
    const authorization = `Bearer ${TOKEN}`;
    expect(
      (await request('POST', `${opsUrl}/api/sync-runs`, { kind: 'policy' }, { authorization })).status,
    ).toBe(202);
    expect((await fetch(`${receiverUrl}/webhooks`, { method: 'POST', body: '{}' })).status).toBe(401);
  }
  await shows(`SELECT owner FROM policies_flat WHERE id = 'policy-0001'`, [{ owner: 'Bob' }]);
  await inSync();
}, TIMEOUT_MS);

afterAll(async () => {
  for (const close of closers) await close();
  for (const service of services) await service.stop();
  await sandbox?.close();
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
}, TIMEOUT_MS);

const PROVISIONAL = 'Which rows are provisional?';

const answers = async (heading: string, engine: Engine): Promise<Row[][]> => {
  const asked = QUESTIONS.filter((one) => one.heading === heading && one.engine === engine);
  expect(asked.length, heading).toBeGreaterThan(0);
  return await Promise.all(asked.map(({ sql }) => ask[engine](sql)));
};
const answer = async (heading: string, engine: Engine): Promise<Row[]> =>
  (await answers(heading, engine))[0]!;

/** What the service itself holds. */
const upstream = async (of: 'policies' | 'riskAssessments' | 'vendors'): Promise<Row[]> =>
  (await request('GET', `${sandbox.url}/_sandbox/state`)).body[of];
const idsOf = (rows: readonly Row[]) => rows.map(({ id }) => id);
/** Days as either engine's driver has them. */
const dayOf = (value: unknown) =>
  value instanceof Date
    ? new Date(value.getTime() - value.getTimezoneOffset() * 60_000).toISOString().slice(0, 10)
    : String(value);

it('ten questions and more are asked, of both engines', () => {
  for (const engine of ENGINES) {
    const headings = new Set(QUESTIONS.filter((one) => one.engine === engine).map(({ heading }) => heading));
    expect([...headings].filter((heading) => heading.endsWith('?')).length).toBeGreaterThanOrEqual(10);
  }
});

it.each(QUESTIONS.filter(({ heading }) => heading !== PROVISIONAL))(
  '“$heading” has an answer on $engine',
  async ({ engine, sql }) => expect(await ask[engine](sql)).not.toEqual([]),
);

it.each(IN_README)('of the README, on both engines, has an answer: %s', async (sql) => {
  expect(IN_README).toHaveLength(5);
  for (const engine of ENGINES) expect(await ask[engine](sql)).not.toEqual([]);
});

describe.each(ENGINES)('on %s the answer is right', (engine) => {
  it('of policies due for review', async () => {
    const until = new Date(Date.now() + 30 * DAY_MS).toISOString().slice(0, 10);
    const due = (await upstream('policies')).filter(
      ({ nextReviewAt, status }) => String(nextReviewAt) <= until && status !== 'archived',
    );
    const told = await answer('Which policies are due for review within 30 days, or overdue?', engine);
    expect(idsOf(told).toSorted()).toEqual(due.map(({ policyId }) => policyId).toSorted());
    expect(told.map((row) => dayOf(row['next_review_at']))).toEqual(
      due.map(({ nextReviewAt }) => nextReviewAt).toSorted(),
    );
  });

  it('of vendors by category and criticality', async () => {
    const counts = Object.groupBy(
      await upstream('vendors'),
      (row) => `${row['category']} ${row['criticality']}`,
    );
    const told = await answer('How many vendors are there, by category and criticality?', engine);
    expect(
      Object.fromEntries(told.map((row) => [`${row['category']} ${row['criticality']}`, row['vendors']])),
    ).toEqual(Object.fromEntries(Object.entries(counts).map(([group, rows]) => [group, rows!.length])));
  });

  it('of the highest risks', async () => {
    const scores = (await upstream('riskAssessments')).map(({ residualScore }) => Number(residualScore));
    const told = await answer('Which risks have the highest scores?', engine);
    expect(told.map((row) => row['residual_score'])).toEqual(scores.toSorted((a, b) => b - a).slice(0, 10));
  });

  it('of contracts that have ended, and it is said whether to trust it', async () => {
    const today = new Date().toISOString().slice(0, 10);
    const ended = (await upstream('vendors')).filter(
      ({ contractEnds, status }) => String(contractEnds) < today && status === 'approved',
    );
    const told = await answer('Can this answer be trusted?', engine);
    expect(idsOf(told).toSorted()).toEqual(idsOf(ended).toSorted());
    expect(new Set(told.map((row) => row['verdict']))).toEqual(new Set(['in_sync']));
    expect(told.every((row) => row['complete_through'] !== null)).toBe(true);
  });

  it('of what has changed, with what announced it, and with what nobody did', async () => {
    const told = await answer('What has changed in the last week, and who announced it?', engine);
    const of = (id: string) => told.filter((row) => row['record_id'] === id).at(-1);
    expect(of('vendor-0001')).toMatchObject({ operation: 'update', announced_by: 'vendor.updated' });
    expect(of('policy-0001')).toMatchObject({
      operation: 'update',
      announced_by: null,
      cause: expect.stringMatching(/^sync:/),
    });
  });

  it('of what was deleted', async () => {
    const told = await answer('What was deleted, when, and what says so?', engine);
    expect(told).toMatchObject([{ kind: 'vendor', id: REMOVED }]);
  });

  it('of one record’s history, whichever way it is asked', async () => {
    for (const told of await answers('What is the history of one record?', engine)) {
      expect(told.map((row) => row['operation'])).toEqual(['insert', 'update']);
    }
  });

  it('of what is new', async () => {
    const [counted] = await ask[engine]('SELECT count(*) AS count FROM changes');
    expect(await answer('What is new since I last looked?', engine)).toHaveLength(Number(counted?.['count']));
  });

  it('of deliveries by day and outcome', async () => {
    const told = await answer('How many deliveries came in each day, and what became of them?', engine);
    const counts: Record<string, number> = {};
    for (const row of told) {
      const outcome = String(row['outcome']);
      counts[outcome] = (counts[outcome] ?? 0) + Number(row['deliveries']);
    }
    expect(counts).toEqual({ accepted: 3, duplicate: 2, rejected: 1 });
  });

  it('of which columns there are', async () => {
    const told = await answer('Which columns are there?', engine);
    expect(told.filter((row) => row['path'] === 'contractEnds')).toMatchObject([
      { kind: 'vendor', column: 'contract_ends', type: 'date' },
    ]);
  });
});

it(
  'of what is provisional the answer is right on both, while the service cannot be asked',
  async () => {
    await control('/faults', { errorRate: 1 });
    await mutate({ kind: 'vendor', op: 'update', id: 'vendor-0003', fields: { owner: 'Eve' } });
    await shows('SELECT id FROM vendors_flat WHERE unverified_since IS NOT NULL', [{ id: 'vendor-0003' }]);
    for (const engine of ENGINES) {
      expect(await answer(PROVISIONAL, engine)).toMatchObject([{ kind: 'vendor', id: 'vendor-0003' }]);
    }
  },
  TIMEOUT_MS,
);

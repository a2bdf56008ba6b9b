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
const TOKEN = 'operate-token-of-the-tests-of-thirt';
const REMOVED = 'vendor-0007';
const ADDED = 'vendor-0100';

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
async function mutate(body: object): Promise<void> {
  const { status, body: answer } = await control('/mutate', body);
  expect(status, JSON.stringify(answer)).toBeLessThan(300);
}

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
    { timeout: 60_000, interval: 100 },
  );
const inSync = () => shows("SELECT kind FROM sync_status WHERE verdict NOT IN ('in_sync', 'known_only')", []);

const RESOURCES = { policies: 'policyId', risk_assessments: 'id', vendors: 'id' } as const;
type Table = keyof typeof RESOURCES;
const TABLES = Object.keys(RESOURCES) as Table[];

/** What the service itself holds, by table and id. */
async function upstream(table: Table): Promise<Row[]> {
  const { body } = await request('GET', `${sandbox.url}/_sandbox/state`);
  return body[table === 'risk_assessments' ? 'riskAssessments' : table];
}
const byId = (rows: readonly Row[], id: string) => new Map(rows.map((row) => [String(row[id]), row]));

/** What the query shows, with the records as they are in JSON. */
async function records(engine: Engine, sql: string): Promise<Map<string, Row>> {
  const rows = (await ask[engine](sql)) as { id: string; data: unknown }[];
  return new Map(
    rows.map(({ id, data }) => [id, (typeof data === 'string' ? JSON.parse(data) : data) as Row]),
  );
}

/** Moments at which the mirrors were equal to the service, and what it held then. */
const moments: { at: string; held: Record<Table, Map<string, Row>> }[] = [];
async function noteMoment(): Promise<void> {
  const held = {} as Record<Table, Map<string, Row>>;
  for (const table of TABLES) {
    held[table] = byId(await upstream(table), RESOURCES[table]);
    for (const engine of ENGINES)
      await vi.waitFor(
        async () =>
          expect(await records(engine, `SELECT id, data FROM current_${table}`)).toEqual(held[table]),
        { timeout: 60_000, interval: 100 },
      );
  }
  const now = Date.now();
  moments.push({ at: new Date(now).toISOString(), held });
  // What comes next has a later time.
  await vi.waitFor(() => expect(Date.now()).toBeGreaterThan(now));
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'mirror-analysts-'));
  server = await startPostgres();
  const seed = normaliseSeed(builtinSeed(new Date()));
  writeFileSync(join(folder, 'risk-ids'), seed.riskAssessments.map(({ id }) => `${id}\n`).join(''));
  sandbox = await startSandbox({
    port: 0,
    apiKeys: [API_KEY],
    seed,
    webhookSecret: SECRET,
  });

  const path = join(folder, 'mirror.db');
  await startMirror({ DATABASE_URL: `file:${path}` });
  const file = new Database(path, { readonly: true });
  closers.push(() => file.close());
  ask.sqlite = async (sql) => file.prepare(sql).all() as Row[];

  const url = await server.createDatabase();
  await startMirror({ DATABASE_URL: url, DATABASE_SCHEMA: 'mirror' });
  await server.query(
    `CREATE ROLE mirror_readers NOLOGIN; CREATE ROLE mirror_app NOLOGIN; GRANT USAGE ON SCHEMA mirror TO mirror_readers, mirror_app;
     GRANT SELECT ON ALL TABLES IN SCHEMA mirror TO mirror_app; ${GRANTS};
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
  await noteMoment();
  // Told by an event: no full sync runs that could find it first.
  await mutate({ kind: 'vendor', op: 'update', id: 'vendor-0001', fields: { owner: 'Ann' } });
  await noteMoment();
  await mutate({ kind: 'vendor', op: 'delete', id: REMOVED });
  await shows(`SELECT id FROM vendors WHERE deleted_at IS NOT NULL AND unverified_since IS NULL`, [
    { id: REMOVED },
  ]);
  await noteMoment();
  await mutate({
    kind: 'vendor',
    op: 'create',
    id: ADDED,
    fields: { name: 'Ironwood Backups', category: 'BACKUP' },
  });
  await noteMoment();
  // Told twice.
  await control('/faults', { duplicate: 1 });
  await mutate({ kind: 'vendor', op: 'update', id: 'vendor-0002', fields: { country: 'SE' } });
  await control('/faults', { duplicate: 0 });
  await shows('SELECT max(deliveries) AS most FROM events', [{ most: 2 }]);
  await noteMoment();
  // Told by nobody.
  await mutate({ kind: 'policy', op: 'update', id: 'policy-0001', fields: { owner: 'Bob' }, silent: true });
  for (const { opsUrl, receiverUrl } of services) {
    const authorization = `Bearer ${TOKEN}`;
    expect(
      (await request('POST', `${opsUrl}/api/syncs`, { kinds: ['policy'] }, { authorization })).status,
    ).toBe(202);
    expect((await fetch(`${receiverUrl}/webhooks`, { method: 'POST', body: '{}' })).status).toBe(401);
  }
  await noteMoment();
  await inSync();
}, TIMEOUT_MS);

afterAll(async () => {
  for (const close of closers) await close();
  for (const service of services) await service.stop();
  await sandbox?.close();
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
}, TIMEOUT_MS);

const PROVISIONAL = 'Which vendors has no read confirmed yet?';
const AS_OF = 'What was the state on 1 November?';
/** The day of the questions, which is long before the service had anything. */
const THE_DAY = '2026-11-01T00:00:00Z';

const answer = async (heading: string, engine: Engine, day = THE_DAY): Promise<Row[]> => {
  const [asked] = QUESTIONS.filter((one) => one.heading === heading && one.engine === engine);
  return await ask[engine](asked!.sql.replaceAll(THE_DAY, day));
};
const idsOf = (rows: readonly Row[]) => rows.map(({ id }) => id);
const countsBy = (rows: readonly Row[], name: string) =>
  Object.fromEntries(
    [...Map.groupBy(rows, (row) => String(row[name]))].map(([value, of]) => [value, of.length]),
  );
const told = (rows: readonly Row[], name: string, count: string) =>
  Object.fromEntries(rows.map((row) => [String(row[name]), Number(row[count])]));
const today = () => new Date().toISOString().slice(0, 10);

it('fifteen questions and more are asked, of both engines', () => {
  for (const engine of ENGINES) {
    const headings = new Set(QUESTIONS.filter((one) => one.engine === engine).map(({ heading }) => heading));
    expect([...headings].filter((heading) => heading.endsWith('?')).length).toBeGreaterThanOrEqual(15);
  }
});

it.each(QUESTIONS.filter(({ heading }) => heading !== PROVISIONAL && heading !== AS_OF))(
  '“$heading” has an answer on $engine',
  async ({ engine, sql }) => expect(await ask[engine](sql)).not.toEqual([]),
);

it.each(IN_README)('of the README, on both engines, has an answer: %s', async (sql) => {
  expect(IN_README).toHaveLength(5);
  for (const engine of ENGINES) expect(await ask[engine](sql)).not.toEqual([]);
});

describe.each(ENGINES)('on %s the answer is right', (engine) => {
  it('of each version at six moments, record by record', async () => {
    expect(moments).toHaveLength(6);
    for (const { at, held } of moments)
      for (const table of TABLES) {
        const sql = `SELECT id, data FROM ${table}_history WHERE valid_from <= '${at}' AND (valid_to > '${at}' OR valid_to IS NULL) AND operation <> 'delete'`;
        expect(await records(engine, sql)).toEqual(held[table]);
      }
  });

  it('of the state on a day', async () => {
    const { at, held } = moments[4]!;
    expect(told(await answer(AS_OF, engine, at), 'status', 'vendors')).toEqual(
      countsBy([...held.vendors.values()], 'status'),
    );
    expect(await answer(AS_OF, engine)).toEqual([]);
  });

  it('of policies overdue for review, by owner', async () => {
    const overdue = (await upstream('policies')).filter(
      ({ nextReviewAt, status }) => String(nextReviewAt) < today() && status !== 'archived',
    );
    const rows = await answer('Which policies are overdue for review, and whose are they?', engine);
    expect(told(rows, 'owner', 'overdue')).toEqual(countsBy(overdue, 'owner'));
  });

  it('of the highest risks', async () => {
    const scores = (await upstream('risk_assessments')).map(({ residualScore }) => Number(residualScore));
    const rows = await answer('Which risks have the highest scores?', engine);
    expect(rows.map((row) => row['residual_score'])).toEqual(scores.toSorted((a, b) => b - a).slice(0, 10));
  });

  it('of how old the open risks are, and how many there are', async () => {
    const open = (await upstream('risk_assessments')).filter(
      ({ status }) => status !== 'mitigated' && status !== 'accepted',
    );
    const rows = await answer("How old are the open risks, by the service's own date?", engine);
    const months = open.map(({ identifiedAt }) => ({ month: String(identifiedAt).slice(0, 7) }));
    expect(told(rows, 'identified_in', 'open')).toEqual(countsBy(months, 'month'));
    const trend = await answer('How has the number of open risks developed?', engine);
    expect(Number(trend.at(-1)!['open'])).toBe(open.length);
  });

  it('of contracts that have ended, and it is said whether to trust it', async () => {
    const ended = (await upstream('vendors')).filter(({ contractEnds }) => String(contractEnds) < today());
    const rows = await answer('Can this answer be trusted?', engine);
    expect(idsOf(rows)).toEqual(idsOf(ended));
    expect(rows.every((row) => row['verdict'] === 'in_sync' && Boolean(row['complete']))).toBe(true);
  });

  it('of what is new, and of what was offboarded', async () => {
    const rows = await answer('Which records are new, and which came back?', engine, moments[2]!.at);
    expect(rows).toMatchObject([
      { kind: 'vendor', record_id: ADDED, name: 'Ironwood Backups', operation: 'insert' },
    ]);
    const gone = moments[0]!.held.vendors.get(REMOVED)!;
    expect(
      told(await answer('Which vendors were offboarded, by category?', engine), 'category', 'vendors'),
    ).toEqual({
      [String(gone['category'])]: 1,
    });
  });

  it('of who approved', async () => {
    const approved = [...moments[0]!.held.policies.values()].filter(({ status }) => status === 'approved');
    const rows = await answer('Who approved which version of a policy, and when?', engine);
    expect(idsOf(rows)).toContain('policy-0001');
    const others = rows.filter(({ id }) => id !== 'policy-0001');
    expect(others.map(({ id, version, approver }) => ({ id, version, approver }))).toEqual(
      approved
        .filter(({ policyId }) => policyId !== 'policy-0001')
        .map(({ policyId: id, version, approver }) => ({ id, version, approver })),
    );
  });

  it('of what has changed, with what announced it, and with what nobody did', async () => {
    const rows = await answer('What changed last week, and who announced it?', engine);
    const of = (id: string) => rows.filter((row) => row['record_id'] === id).at(-1);
    expect(of('vendor-0001')).toMatchObject({ operation: 'update', announced_by: 'vendor.updated' });
    expect(of('policy-0001')).toMatchObject({ operation: 'update', announced_by: null, cause: 'sync' });
  });

  it('of how long changes took, and of what came in', async () => {
    const events = await ask[engine]("SELECT type FROM events WHERE state = 'processed'");
    const rows = await answer('How long does a change take to get here?', engine);
    expect(told(rows, 'type', 'events')).toEqual(countsBy(events, 'type'));
    expect(rows.every(({ longest }) => Number(longest) >= 0 && Number(longest) < TIMEOUT_MS / 1_000)).toBe(
      true,
    );
    const days = await answer('How many deliveries came in each day, and what became of them?', engine);
    const counts: Record<string, number> = {};
    for (const row of days) {
      const outcome = String(row['outcome']);
      counts[outcome] = (counts[outcome] ?? 0) + Number(row['deliveries']);
    }
    // One of the four changes with an event was told twice.
    expect(counts).toEqual({ accepted: 5, rejected: 1 });
  });

  it('of which columns there are', async () => {
    const rows = await answer('Which columns are there?', engine);
    expect(rows.filter((row) => row['path'] === 'contractEnds')).toMatchObject([
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
      expect(await answer(PROVISIONAL, engine)).toMatchObject([{ id: 'vendor-0003' }]);
    }
  },
  TIMEOUT_MS,
);

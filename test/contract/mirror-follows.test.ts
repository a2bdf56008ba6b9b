import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, it, onTestFinished } from 'vitest';
import { MACHINES } from '../../sandbox/machines.ts';
import { recordId } from '../../sandbox/records.ts';
import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { createLogger } from '../../src/platform/logger.ts';
import { startService } from '../../src/service/service.ts';
import { request, type TestSandbox, testSandbox } from '../sandbox/support.ts';
import { BIRTHS, STEPS, type Step, wayTo } from './paths.ts';

const OPS_TOKEN = 'operate-the-mirror-that-follows-of-thirt';
const SECRET = randomBytes(32).toString('hex');
const SETTLE_SECONDS = 0.1;
const LOOK_EVERY_MS = 50;
const TABLES = { policy: 'policies', risk_assessment: 'risk_assessments', vendor: 'vendors' } as const;
/** More assessments than are deleted, by enough that the proof of their absence is not held back as too much. */
const BYSTANDERS = 20;

type Row = Record<string, unknown>;

let sandbox: TestSandbox;
let mirror: { fullSync(): Promise<void>; rows(kind: Kind): Map<string, Row>; unverified(): number };

async function setUp(): Promise<void> {
  referenced.clear();
  sandbox = await testSandbox({
    webhookSecret: SECRET,
    oauth: { serviceAccounts: [{ id: 'mirror', secret: 'secret-of-the-mirror', scopes: ['read'] }] },
  });
  mirror = await startMirror();
}

/** The real service on a file of its own, reading the sandbox with a service account. */
async function startMirror(): Promise<typeof mirror> {
  const folder = mkdtempSync(join(tmpdir(), 'mirror-follows-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'mirror.db');
  const config = loadConfig({
    DATABASE_URL: `file:${path}`,
    PORT: '0',
    OPS_PORT: '0',
    WEBHOOK_SECRETS: SECRET,
    OPS_TOKENS: `test:operate:${OPS_TOKEN}`,
    COMPLIANCE_BASE_URL: `${sandbox.url}/v1`,
    COMPLIANCE_AUTH: 'service_account',
    COMPLIANCE_AUTH_URL: sandbox.url,
    COMPLIANCE_CLIENT_ID: 'mirror',
    COMPLIANCE_CLIENT_SECRET: 'secret-of-the-mirror',
    COMPLIANCE_REQUESTS_PER_MINUTE: '100000',
    SYNC_SETTLE_SECONDS: String(SETTLE_SECONDS),
    SYNC_FULL_MINUTES: '0',
  });
  const service = await startService({ config, logger: createLogger({ level: 'silent' }) });
  onTestFinished(() => service.stop());
  // The same SQLite library as the service in this process: two copies of it would undo each other's locks.
  const database = new Database(path, { readonly: true, timeout: 30_000 });
  onTestFinished(() => void database.close());
  await sandbox.register(`${service.receiverUrl}/webhooks`, ['policy.*', 'risk.*', 'vendor.*']);
  return {
    fullSync: async () => {
      const headers = { authorization: `Bearer ${OPS_TOKEN}` };
      const answer = await request('POST', `${service.opsUrl}/api/syncs`, { kinds: KINDS }, headers);
      expect(answer.status).toBeLessThan(300);
    },
    rows: (kind) =>
      new Map(
        database
          .prepare<[], Row>(`select id, data from ${TABLES[kind]} where deleted_at is null`)
          .all()
          .map(({ id, data }) => [String(id), JSON.parse(String(data)) as Row]),
      ),
    unverified: () =>
      KINDS.reduce((sum, kind) => {
        const sql = `select count(*) as n from ${TABLES[kind]} where unverified_since is not null`;
        return sum + Number(database.prepare<[], Row>(sql).get()!['n']);
      }, 0),
  };
}

/** Assessments that a vendor names or once named: known by that, though no event ever told of them. */
const referenced = new Set<unknown>();

/** What the sandbox holds, of assessments only what a mirror can know of. */
async function upstream(): Promise<Record<Kind, Map<string, Row>>> {
  const { body } = await sandbox.control('GET', '/state');
  const known = (record: Row) => !body.unannouncedRiskAssessments.includes(record['id']);
  for (const vendor of body.vendors) referenced.add(vendor['riskAssessmentId']);
  const keyed = (kind: Kind, records: Row[]) =>
    new Map(records.map((record) => [recordId(kind, record), record]));
  return {
    policy: keyed('policy', body.policies),
    risk_assessment: keyed(
      'risk_assessment',
      body.riskAssessments.filter((record: Row) => known(record) || referenced.has(record['id'])),
    ),
    vendor: keyed('vendor', body.vendors),
  };
}

async function untilEqual(): Promise<void> {
  const truth = await upstream();
  const isEqual = () => {
    try {
      for (const kind of KINDS) expect(mirror.rows(kind)).toEqual(truth[kind]);
      return mirror.unverified() === 0;
    } catch {
      return false;
    }
  };
  const deadline = Date.now() + 90_000;
  while (!isEqual() && Date.now() < deadline) await new Promise((done) => setTimeout(done, LOOK_EVERY_MS));
  for (const kind of KINDS) expect(mirror.rows(kind)).toEqual(truth[kind]);
  expect(mirror.unverified()).toBe(0);
}

const fieldsFor = ({ op }: Pick<Step, 'op'>) =>
  op === 'delete' ? {} : { note: `set by ${op}`, nested: { list: [1, null, 'ä'] } };

/** Types of the events about a record, in the order in which they were made. */
async function eventsAbout(id: string): Promise<string[]> {
  const { body } = await sandbox.control('GET', `/deliveries?recordId=${encodeURIComponent(id)}`);
  const byTime = (a: { created: string }, b: { created: string }) => a.created.localeCompare(b.created);
  return body.data.toSorted(byTime).map(({ type }: { type: string }) => type);
}

it('the table of paths names every operation of the machines from every status, and no other', () => {
  const written = STEPS.map(({ kind, op, from }) => `${kind} ${from} ${op}`);
  const statuses = (kind: Kind) => [
    ...new Set(STEPS.filter((one) => one.kind === kind).map(({ from }) => from)),
  ];
  const machines = KINDS.flatMap((kind) =>
    Object.entries(MACHINES[kind])
      .filter(([, { effect }]) => effect !== 'create')
      .flatMap(([op, { from }]) => (from ?? statuses(kind)).map((status) => `${kind} ${status} ${op}`)),
  );
  expect(written.sort()).toEqual(machines.sort());
});

it('every mutation ends in its event, and the mirror follows all of them to equality', async () => {
  await setUp();
  const done: { id: string; expected: string[] }[] = [];
  for (const step of STEPS) {
    const { kind } = step;
    const born = await sandbox.control('POST', '/mutate', { kind, op: 'create', fields: { name: 'Walked' } });
    const { id } = born.body;
    const expected: (string | null)[] = [BIRTHS[kind].event];
    for (const each of [...wayTo(kind, step.from), step]) {
      const answer = await sandbox.control('POST', '/mutate', {
        kind,
        op: each.op,
        id,
        fields: fieldsFor(each),
      });
      expect(answer.status, `${kind} ${each.op}: ${answer.body.detail}`).toBe(200);
      expect(answer.body.record?.status ?? null).toBe(each.to);
      expect(answer.body.event?.type ?? null).toBe(each.event);
      expected.push(each.event);
      // Events of one millisecond would have no order in the log.
      await new Promise((tick) => setTimeout(tick, 2));
    }
    done.push({ id, expected: expected.filter((type) => type !== null) });
  }
  // What a create may carry besides: its first status said plainly, references to others, names that look like ids.
  for (const kind of KINDS) {
    const fields = {
      name: 'Said plainly',
      status: BIRTHS[kind].status,
      vendorRef: 'x',
      [kind]: { name: 'y' },
    };
    const answer = await sandbox.control('POST', '/mutate', { kind, op: 'create', fields });
    expect([answer.status, answer.body.event?.type]).toEqual([200, BIRTHS[kind].event]);
    done.push({ id: answer.body.id, expected: [BIRTHS[kind].event] });
    const refused = { kind, op: 'create', fields: { ...fields, status: 'elsewhere' } };
    expect((await sandbox.control('POST', '/mutate', refused)).status).toBe(422);
  }
  for (let n = 0; n < BYSTANDERS; n++)
    await sandbox.api('POST', '/risk-assessments', { name: `Bystander ${n}` });
  await sandbox.api('POST', '/policies', { name: 'Through the API', owner: 'Legal' });
  // A change that nobody is told of has no event, and the full sync finds it all the same.
  const silent = {
    kind: 'vendor',
    op: 'update',
    id: 'vendor-0002',
    fields: { note: 'silent' },
    silent: true,
  };
  expect((await sandbox.control('POST', '/mutate', silent)).body.event).toBeNull();
  done.push({ id: 'vendor-0002', expected: [] });
  await sandbox.quiesce();
  for (const { id, expected } of done) expect(await eventsAbout(id)).toEqual(expected);
  // Of assessments that changed or went without an event only a full sync can tell.
  await mirror.fullSync();
  await untilEqual();
});

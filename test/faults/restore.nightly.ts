import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, it, vi } from 'vitest';
import { compare, unknowableAssessments, upstreamRecords } from '../../sandbox/demo/compare.ts';
import { openMirrorTables } from '../../sandbox/demo/tables.ts';
import { normaliseSeed } from '../../sandbox/seed.ts';
import { SECRET } from '../receive/sign.ts';
import { API_KEY, testSandbox } from '../sandbox/support.ts';
import { inFolder } from './row.ts';
import { startService } from './service.ts';

const DAY_MS = 86_400_000;
const PATIENCE = { timeout: 90_000, interval: 200 };
const TYPES = ['policy.*', 'risk.*', 'vendor.*'];

const named = (count: number, what: string) =>
  Array.from({ length: count }, (_, index) => ({ name: `${what} ${index}` }));

async function scene(database: string) {
  const seed = normaliseSeed({
    policies: named(12, 'Policy'),
    riskAssessments: [],
    vendors: named(12, 'Vendor'),
  });
  const sandbox = await testSandbox({
    seed,
    webhookSecret: SECRET,
  });
  const riskIds = `${database}.risk-ids`;
  writeFileSync(riskIds, '# none\n');
  const env = {
    COMPLIANCE_BASE_URL: `${sandbox.url}/v1`,
    COMPLIANCE_API_KEY: API_KEY,
    COMPLIANCE_REQUESTS_PER_MINUTE: '6000',
    SYNC_SETTLE_SECONDS: '1',
    SYNC_FULL_MINUTES: '0',
    RISK_IDS_FILE: riskIds,
  };
  const start = () => startService({ database, env });
  /** One command beside the service: its exit code, and all that it said. */
  async function command(...words: string[]) {
    const run = startService({ database, env, command: words });
    const { code } = await run.exited;
    return { code, says: run.output() };
  }

  /** What differs between the tables and the upstream, of all that can be known. */
  async function differences() {
    const service = sandbox.parts.upstream;
    const tables = openMirrorTables(database);
    try {
      const { records, isGreen } = tables.read();
      const upstream = upstreamRecords((kind) => service.state.list(kind));
      const unknowable = unknowableAssessments(upstream, service.unannounced());
      return isGreen ? compare(records, upstream, unknowable) : ['not in sync'];
    } finally {
      tables.close();
    }
  }
  const mutate = async (kind: string, op: string, id?: string, fields: object = {}) => {
    const answer = await sandbox.control('POST', '/mutate', {
      kind,
      op,
      fields,
      ...(id === undefined ? {} : { id }),
    });
    expect(answer.status).toBe(200);
    return answer.body.id as string;
  };
  return { sandbox, start, command, differences, mutate, riskIds };
}

function sql(path: string, statement: string): unknown[] {
  const db = new DatabaseSync(path, { timeout: 5_000 });
  try {
    return db.prepare(statement).all();
  } finally {
    db.close();
  }
}

it('a backup of yesterday, restored, becomes equal to the upstream again but for what only a person can know', async () => {
  await inFolder(async (folder) => {
    const database = join(folder, 'mirror.db');
    const copy = join(folder, 'yesterday.db');
    const { sandbox, start, command, differences, mutate, riskIds } = await scene(database);

    const before = start();
    const at = await before.listening;
    await sandbox.register(`http://127.0.0.1:${at?.port}/webhooks`, TYPES);
    const risk = await mutate('risk_assessment', 'create', undefined, { name: 'Fire' });
    await vi.waitFor(async () => expect(await differences()).toEqual([]), PATIENCE);
    const copying = new Date().toISOString();
    const backup = await command('backup', copy);
    expect(backup.code, backup.says).toBe(0);

    // The day that the backup does not know.
    await mutate('policy', 'update', 'policy-0001', { name: 'Renamed' });
    await mutate('policy', 'delete', 'policy-0002');
    await mutate('policy', 'create', undefined, { name: 'Added' });
    await mutate('vendor', 'delete', 'vendor-0001');
    await mutate('vendor', 'create', undefined, { name: 'Added' });
    const later = await mutate('risk_assessment', 'create', undefined, { name: 'Flood' });
    await mutate('vendor', 'update', 'vendor-0002', { riskAssessmentId: later });
    await mutate('risk_assessment', 'assess', risk);
    // Named by its own event alone, which was accepted, so that nobody sends it again.
    const lost = await mutate('risk_assessment', 'create', undefined, { name: 'Theft' });
    await sandbox.quiesce();
    await vi.waitFor(async () => expect(await differences()).toEqual([]), PATIENCE);
    await before.stop();

    const restored = await command('restore', copy);
    expect(restored.code, restored.says).toBe(0);
    const yesterday = new Date(Date.now() - DAY_MS).toISOString();
    sql(database, `UPDATE facts SET value = '${yesterday}' WHERE name = 'heartbeat' RETURNING name`);
    expect((await differences()).length).toBeGreaterThanOrEqual(7);

    // On another port: what resolves it comes from the API, not from deliveries.
    const after = start();
    await after.listening;
    const verdicts = () => sql(database, 'SELECT kind, verdict FROM sync_status ORDER BY kind');
    const inSync = (assessments: string) => [
      { kind: 'policy', verdict: 'in_sync' },
      { kind: 'risk_assessment', verdict: assessments },
      { kind: 'vendor', verdict: 'in_sync' },
    ];
    await vi.waitFor(
      async () =>
        expect(await differences()).toEqual([expect.objectContaining({ kind: 'risk_assessment', id: lost })]),
      PATIENCE,
    );
    await vi.waitFor(() => expect(verdicts()).toEqual(inSync('action_required')), PATIENCE);
    const ofAssessments = sql(
      database,
      "SELECT id, kind, error FROM problems WHERE reason = 'restored' AND resolved_at IS NULL",
    );
    expect(ofAssessments).toMatchObject([{ kind: 'risk_assessment' }]);
    const { id, error } = ofAssessments[0] as { id: number; error: string };
    const [, since = '', until = ''] = /accepted from (\S+) to (\S+) is not in it/.exec(error) ?? [];
    expect(since > copying && until > since, `${copying}: ${error}`).toBe(true);
    const doctor = await command('doctor');
    expect([doctor.code, doctor.says]).toEqual([
      3,
      expect.stringContaining('A copy of the database was put back'),
    ]);
    expect((await command('status')).says).toContain('action_required');

    // Named by a person, it is mirrored; that it was all that was missing, nobody but a person knows.
    writeFileSync(riskIds, `${lost}\n`);
    expect((await command('sync', '--wait')).code).toBe(0);
    await vi.waitFor(async () => expect(await differences()).toEqual([]), PATIENCE);
    expect(verdicts()).toEqual(inSync('action_required'));
    expect((await command('problems', 'resolve', '999', '--digest', 'of-another')).says).toContain(
      'no problem 999',
    );
    const shown = await command('problems', 'show', String(id), '--json');
    const { digest } = JSON.parse(shown.says) as { digest: string };
    const resolved = await command('problems', 'resolve', String(id), '--digest', digest);
    expect(resolved.code, resolved.says).toBe(0);
    await vi.waitFor(() => expect(verdicts()).toEqual(inSync('known_only')), PATIENCE);
    expect(
      sql(database, "SELECT actor, outcome FROM audit WHERE action = 'problem_resolve' AND outcome = 'ok'"),
    ).toEqual([{ actor: 'faults', outcome: 'ok' }]);
    const downtimes =
      "SELECT resolved_at IS NOT NULL AS resolved, error FROM problems WHERE reason = 'downtime'";
    await vi.waitFor(() => expect(sql(database, downtimes)).toMatchObject([{ resolved: 1 }]), PATIENCE);
    expect((await after.stop()).code, after.output()).toBe(0);
  });
}, 400_000);

import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cli } from '../cli/executable.ts';
import { eventually } from '../convergence/service.ts';
import {
  API_KEY,
  type IndependentUpstream,
  startIndependentUpstream,
} from '../support/independent-upstream.ts';
import { fill } from '../support/independent-upstream-records.ts';
import { createSite, OPS_TOKEN, type Site } from './site.ts';

const TIMEOUT_MS = 240_000;

let upstream: IndependentUpstream;
let site: Site;
let settings: Record<string, string>;

beforeAll(async () => {
  upstream = await startIndependentUpstream();
  fill(upstream.records, { policies: 5, assessments: 0, vendors: 3 });
  site = await createSite({
    upstream,
    replicas: 1,
    settings: { SYNC_SETTLE_SECONDS: '0.5', SYNC_FULL_MINUTES: '0' },
  });
  settings = {
    DATABASE_URL: site.databaseUrl,
    COMPLIANCE_BASE_URL: upstream.baseUrl,
    COMPLIANCE_API_KEY: API_KEY,
    SYNC_SETTLE_SECONDS: '0.5',
  };
}, TIMEOUT_MS);
afterAll(async () => {
  await site.end();
  await upstream.close();
});

const run = async (...args: string[]) => await cli(args, settings);

describe('without a service', () => {
  it('says that there is no mirror yet, and "migrate" makes one', async () => {
    expect(await run('status')).toMatchObject({
      code: 2,
      err: expect.stringContaining('no mirror in the schema public'),
    });
    expect(await run('migrate')).toMatchObject({ code: 0 });
    const { code, out } = await run('status');
    expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining('No service is running') });
  });

  it('reads with every command that reads', async () => {
    const commands = ['events list', 'records list policy', 'gaps list', 'sync-runs list', 'quarantine list'];
    const answers = await Promise.all(commands.map((command) => run(...command.split(' '))));
    expect(answers.map(({ code, err }) => ({ code, err }))).toEqual(
      commands.map(() => ({ code: 0, err: '' })),
    );
  });

  it('"full sync" says that nothing is running, and "backup" what to use instead', async () => {
    expect(await run('sync')).toMatchObject({
      code: 1,
      err: expect.stringContaining('no service is running'),
    });
    expect(await run('backup', '/tmp/nowhere.db')).toMatchObject({
      code: 2,
      err: expect.stringContaining('pg_dump'),
    });
  });

  it('"serve" without OPS_TOKENS names the setting and exits 2', async () => {
    expect(await run('serve')).toMatchObject({
      code: 2,
      err: expect.stringContaining('OPS_TOKENS: not set'),
    });
  });

  it('no message shows the password', async () => {
    const wrong = site.server.url({ password: 'a-wrong-password-to-look-for' });
    const { code, out, err } = await cli(['status'], { ...settings, DATABASE_URL: wrong });
    expect(code).toBe(2);
    expect(err).toContain('refuses the password');
    expect(out + err).not.toContain('a-wrong-password-to-look-for');
  });
});

describe('beside a service', () => {
  beforeAll(async () => {
    await site.replicas[0]!.start();
    await eventually('the first full sync', async () => {
      const [row] = await site.query<{ count: string }>(
        "SELECT count(*) FROM sync_runs WHERE outcome = 'complete'",
      );
      return Number(row?.count) >= 3;
    });
  }, TIMEOUT_MS);

  it('asks the service for a full sync through the database, and waits for it', async () => {
    upstream.records.put('vendors', { id: 'ven-unseen', name: 'Unseen', status: 'active' });
    const { code, out } = await run('sync', '--kind', 'vendor', '--wait');
    expect(out).toMatch(/Sync run \d+ of vendor: complete/);
    expect([0, 3]).toContain(code);
    expect(await site.query("SELECT 1 FROM vendors WHERE id = 'ven-unseen'")).toHaveLength(1);
  });

  it('has records read again, pauses and resumes', async () => {
    upstream.records.put('vendors', { id: 'ven-0', name: 'Renamed unseen', status: 'active' });
    expect(await run('refetch', 'vendor', 'ven-0')).toMatchObject({
      code: 0,
      out: expect.stringContaining('read again now'),
    });
    await eventually('the new name', async () => {
      const [row] = await site.query<{ name: string }>("SELECT name FROM vendors WHERE id = 'ven-0'");
      return row?.name === 'Renamed unseen';
    });
    expect(await run('pause')).toMatchObject({ code: 0 });
    await eventually('the service to pause', async () => {
      const status = await site.replicas[0]!.get<{ service: { paused: boolean } }>('/api/status');
      return status.service.paused;
    });
    await eventually('the status to give the reason', async () => {
      const { code, out } = await run('status', '--check');
      return (
        code === 3 && /running on this database: 1\nThe mirror is paused; .* Since .*\nWhat to do: /.test(out)
      );
    });
    expect(await run('resume')).toMatchObject({ code: 0, out: 'Resumed.\n' });
  });

  it('compares through the service only, since the request budget is its own', async () => {
    expect(await run('sync', '--dry-run')).toMatchObject({
      code: 2,
      err: expect.stringContaining('OPS_URL'),
    });
  });

  it('says how many services run, and "doctor" finds nothing wrong with the database', async () => {
    expect((await run('status')).out).toContain('Services running on this database: 1');
    const { out } = await cli(['doctor'], { ...settings, OPS_TOKENS: `tester:operate:${OPS_TOKEN}` });
    expect(out).toMatch(/database.*PostgreSQL, 127\.0\.0\.1:\d+\/test_1, schema public: writable/);
    expect(out).toMatch(/\nok +service +1 running on this database\n/);
    expect(out).not.toContain(new URL(site.databaseUrl).password);
  });

  it(
    'after a restore names the gaps, and resolves the one that only a person can end',
    async () => {
      const verdicts = async () =>
        Object.fromEntries(
          (await site.query<{ kind: string; verdict: string }>('SELECT kind, verdict FROM sync_status')).map(
            ({ kind, verdict }) => [kind, verdict],
          ),
        );
      const inSync = { policy: 'in_sync', vendor: 'in_sync' };
      const stands = (assessments: string) =>
        eventually(`assessments to be ${assessments}`, async () =>
          isDeepStrictEqual(await verdicts(), { ...inSync, risk_assessment: assessments }),
        );
      await stands('in_sync');
      // As a person says that rows were put back, here beneath the running service.
      await site.query("DELETE FROM facts WHERE name = 'epoch'");
      await stands('action_required');
      const { items } = JSON.parse((await run('gaps', 'list', '--open', '--json')).out);
      expect(items).toMatchObject([{ reason: 'restored', kind: 'risk_assessment' }]);
      // That of the policies, which their list has ended.
      expect(await run('gaps', 'resolve', String(items[0].id - 1))).toMatchObject({
        code: 1,
        err: expect.stringContaining('resolved already'),
      });
      expect(await run('gaps', 'resolve', String(items[0].id))).toMatchObject({
        code: 0,
        out: 'The gap is resolved.\n',
      });
      await stands('in_sync');
      expect(await site.query("SELECT actor, outcome FROM audit WHERE action = 'gap_resolve'")).toEqual([
        { actor: 'cli', outcome: 'not_possible' },
        { actor: 'cli', outcome: 'ok' },
      ]);
    },
    TIMEOUT_MS,
  );
});

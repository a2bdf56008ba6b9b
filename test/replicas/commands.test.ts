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
    expect(await run('webhook', 'list')).toMatchObject({
      code: 2,
      err: expect.stringContaining('no mirror in the schema public'),
    });
    expect(await run('migrate')).toMatchObject({ code: 0 });
    expect(await run('webhook', 'list')).toMatchObject({ code: 0 });
  });

  it('"sync" says that no service is known, and "backup" what to use instead', async () => {
    expect(await run('sync')).toMatchObject({
      code: 1,
      err: expect.stringContaining('no service is known'),
    });
    expect(await run('backup', '/tmp/nowhere.db')).toMatchObject({
      code: 2,
      err: expect.stringContaining('pg_dump'),
    });
  });

  it('no message shows the password', async () => {
    const wrong = site.server.url({ password: 'a-wrong-password-to-look-for' });
    const { code, out, err } = await cli(['webhook', 'list'], { ...settings, DATABASE_URL: wrong });
    expect(code).toBe(2);
    expect(err).toContain('refuses the password');
    expect(out + err).not.toContain('a-wrong-password-to-look-for');
  });
});

describe('beside a service', () => {
  beforeAll(async () => {
    await site.replicas[0]!.start();
    // A database server does not say where its services listen.
    Object.assign(settings, { OPS_URL: site.replicas[0]!.opsUrl, OPS_TOKEN });
    await eventually('the first full sync', async () => {
      const [row] = await site.query<{ count: string }>(
        "SELECT count(*) FROM sync_runs WHERE outcome = 'complete'",
      );
      return Number(row?.count) >= 3;
    });
  }, TIMEOUT_MS);

  it('asks the service for a full sync, and waits for it', async () => {
    upstream.records.put('vendors', { id: 'ven-unseen', name: 'Unseen', status: 'active' });
    const { code, out } = await run('sync', 'vendor', '--wait');
    expect(out).toMatch(/\n *\d+ +vendor +complete /);
    expect([0, 3]).toContain(code);
    expect(await site.query("SELECT 1 FROM vendors WHERE id = 'ven-unseen'")).toHaveLength(1);
  });
});

import { createHmac } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { json, startUpstream, type Upstream } from '../compliance/upstream.ts';
import { cli, inTemporaryDirectory } from './executable.ts';
import { serviceHere } from './service-here.ts';

const SECRET = 'correct-horse-battery-staple';
const API_KEY = 'an-api-key-for-the-doctor';

describe('doctor on the running service', () => {
  let upstream: Upstream;
  beforeAll(async () => {
    upstream = await startUpstream((response, { headers, url }) => {
      if (headers.authorization !== `Bearer ${API_KEY}`) return json(response, 401, {});
      if (url.includes('/risk-assessments/')) return json(response, 404, {});
      json(response, 200, { data: [], meta: { total: 0 } });
    });
  });
  afterAll(() => upstream.close());

  const ENV = {
    COMPLIANCE_API_KEY: API_KEY,
    WEBHOOK_SECRETS: SECRET,
    SYNC_SETTLE_SECONDS: '0',
    PORT: '0',
    OPS_PORT: '0',
  };

  /** A service in a folder with these settings in its `.env`, and commands in that folder. */
  async function inService(
    changes: Record<string, string>,
    work: (tools: Awaited<ReturnType<typeof toolsIn>>) => Promise<void>,
    prepare: (store: Store) => Promise<void> = async () => undefined,
  ): Promise<void> {
    await inTemporaryDirectory(async (folder) => {
      const store = await openStore(`file:${join(folder, 'data', 'mirror.db')}`);
      await prepare(store);
      await store.close();
      const tools = await toolsIn(folder, changes);
      await work(tools).finally(() => tools.stop());
    });
  }

  async function toolsIn(folder: string, changes: Record<string, string>) {
    const all = { COMPLIANCE_BASE_URL: upstream.settings.baseUrl.href, ...ENV, ...changes };
    const lines = Object.entries(all).map(([name, value]) => `${name}=${value}\n`);
    writeFileSync(join(folder, '.env'), lines.join(''), { mode: 0o600 });
    const service = await serviceHere({
      ...all,
      DATABASE_URL: `file:${join(folder, 'data', 'mirror.db')}`,
    });
    const run = (args: string[], settings: Record<string, string> = {}) =>
      cli(args, settings, { cwd: folder });
    return {
      run,
      stop: () => service.stop(),
      doctor: (settings: Record<string, string> = {}) => run(['doctor'], settings),
      until: (words: string) =>
        vi.waitFor(async () => expect((await run(['doctor'])).out).toContain(words), 60_000),
      async deliver(secret: string, id: string) {
        const t = Math.floor(Date.now() / 1000);
        const text = JSON.stringify({
          id,
          type: 'policy.updated',
          created: '2026-11-02T11:59:58Z',
          data: {},
        });
        const v1 = createHmac('sha256', secret).update(`${t}.${text}`).digest('hex');
        const headers = { 'x-webhook-signature': `t=${t}, v1=${v1}` };
        return (await fetch(service.deliveries, { method: 'POST', body: text, headers })).status;
      },
    };
  }

  it('agrees with "status --check" where all is well, and says why deliveries are rejected', async () => {
    await inService({}, async ({ run, doctor, until, deliver }) => {
      await until('ok     mirror: All that the mirror knows is confirmed');
      const { code, out } = await doctor();
      expect([code, (await run(['status', '--check'])).code]).toEqual([0, 0]);
      expect(out).not.toContain('WRONG');

      expect(await deliver('another-secret-of-the-sender', 'evt_rejected')).toBe(401);
      await until('deliveries: The secret is wrong');
      for (const id of ['rejection:1', 'evt_rejected']) {
        const { out } = await run(['deliveries', 'show', id, '--json']);
        expect(JSON.parse(out)).toMatchObject({ diagnosis: { causes: [{ code: 'wrong_secret' }] } });
      }
      const unknown = await run(['deliveries', 'show', 'evt_unknown']);
      expect(unknown.code).toBe(1);
      expect(unknown.err).toContain('no delivery evt_unknown has come');
    });
  });

  it('says first that the key is refused which the service has, whichever this shell has', async () => {
    const registration = {
      upstreamId: 'wh_1',
      url: 'http://127.0.0.1:1/webhooks',
      events: ['policy.*'],
      description: '',
      delivers: ['policy.*', 'risk.*', 'vendor.*'],
      sealedSecret: null,
      sealedAnswer: null,
      createdAt: new Date(1).toISOString(),
    };
    await inService(
      { COMPLIANCE_API_KEY: 'a-wrong-key' },
      async ({ run, doctor, until }) => {
        await until('credentials rejected');
        await until('refuses COMPLIANCE_API_KEY');
        const { code, out } = await doctor({ COMPLIANCE_API_KEY: API_KEY });
        expect([code, (await run(['status', '--check'])).code]).toEqual([3, 3]);
        expect(out).toMatch(
          /^WRONG {2}credentials rejected.*\n(.*\n)*look {3}API: The compliance service refuses COMPLIANCE_API_KEY/,
        );
        expect(out).not.toMatch(/a-wrong-key|an-api-key/);
      },
      (store) => store.saveRegistration(registration),
    );
  });

  it('says how to begin where nothing runs', async () => {
    await inTemporaryDirectory(async (folder) => {
      const { code, err } = await cli(['doctor'], {}, { cwd: folder });
      expect(code).toBe(1);
      expect(err).toContain('“setup”');
    });
  });
});

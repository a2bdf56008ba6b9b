import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Verdict } from '../../src/mirror/problems.ts';
import { isWell } from '../../src/ops/verdict.ts';
import { createService, eventually, type Service } from '../convergence/service.ts';
import { type IndependentUpstream, startIndependentUpstream } from '../support/independent-upstream.ts';
import { createSender, eventAbout, type Sender, signature } from '../support/independent-upstream-sender.ts';
import { installed, type Prometheus, startPrometheus } from './prometheus.ts';
import { startReceiver, type Told } from './receiver.ts';

const WRONG_SECRET = 'not-the-secret-that-we-know-0123456789';
const READ_TOKEN = 'prometheus-reads-0123456789-of-thirt';
/** The alert on the backlog waits for half a minute by itself. */
const PATIENCE_MS = 120_000;
vi.setConfig({ testTimeout: 4 * PATIENCE_MS, hookTimeout: 4 * PATIENCE_MS });

describe.skipIf(!installed('prometheus'))(
  'a real Prometheus and NOTIFY_URL (skipped where Debian’s package prometheus is not installed)',
  () => {
    let upstream: IndependentUpstream;
    let service: Service;
    let prometheus: Prometheus;
    let sender: Sender;
    let receiver: Awaited<ReturnType<typeof startReceiver>>;
    let told: Told[];

    beforeAll(async () => {
      receiver = await startReceiver();
      told = receiver.told;
      upstream = await startIndependentUpstream();
      service = await createService(upstream, {
        SYNC_SETTLE_SECONDS: '0.2',
        SYNC_FULL_MINUTES: '0.02',
        COMPLIANCE_REQUESTS_PER_MINUTE: '3000',
        NOTIFY_URL: receiver.url,
      });
      service.settings['OPS_TOKENS'] += `,prometheus:read:${READ_TOKEN}`;
      await service.start();
      sender = createSender(service.webhookUrl);
      prometheus = await startPrometheus(`127.0.0.1:${service.settings['OPS_PORT']}`, READ_TOKEN);
      await isFine();
    });
    afterAll(async () => {
      sender?.close();
      await prometheus?.stop();
      await service?.end();
      await upstream?.close();
      receiver?.close();
    });

    const fires = (alert: string) =>
      eventually(`the alert ${alert}`, async () => (await prometheus.firing()).includes(alert), PATIENCE_MS);
    const wasTold = (reason: string) =>
      eventually(
        `to be told ${reason}`,
        () => told.some(({ what, problem }) => what === 'opened' && problem.reason === reason),
        PATIENCE_MS,
      );
    const isFine = async () => {
      await eventually('all is well', async () =>
        isWell((await service.get<{ verdict: Verdict }>('/api/status')).verdict),
      );
      await eventually('no alert', async () => (await prometheus.firing()).length === 0, PATIENCE_MS);
    };
    const event = () => eventAbout('vendor.updated', 'vendors', { id: 'v1', name: 'One', status: 'active' });

    it('show a stopped upstream, and that it is back', async () => {
      upstream.faultOf = () => ({ fault: 'status', status: 503 });
      await Promise.all([fires('MirrorUnreachable'), wasTold('unreachable')]);
      upstream.faultOf = () => null;
      await isFine();
    });

    it('show a wrong secret, and that it is mended', async () => {
      for (let n = 0; n < 6; n += 1) {
        const one = event();
        expect(await sender.attempt(one, signature(one.body, { secret: WRONG_SECRET }))).toBe(401);
      }
      await Promise.all([fires('MirrorActionRequired'), wasTold('rejected_deliveries')]);
      // A scrape later than the one that the alert is of may be needed.
      await expect
        .poll(() =>
          prometheus.query('compliance_mirror_deliveries_total{outcome="rejected",reason="bad_signature"}'),
        )
        .toBe(6);
      expect(await sender.attempt(event())).toBe(202);
    });

    it('show a growing backlog', async () => {
      await service.post('/api/pause');
      for (let n = 0; n < 20; n += 1) expect(await sender.attempt(event())).toBe(202);
      await Promise.all([fires('BacklogGrowing'), wasTold('paused')]);
      await expect.poll(() => prometheus.query('compliance_mirror_events{state="pending"}')).toBe(20);
      await service.post('/api/resume');
      await eventually(
        'an empty backlog',
        async () => (await prometheus.query('compliance_mirror_events{state="pending"}')) === 0,
      );
    });

    it('were told each thing once, and no secret', () => {
      const all = told.map(({ what, problem }) => `${what} ${problem.id}`);
      expect(all).toEqual([...new Set(all)]);
      for (const secret of [READ_TOKEN, WRONG_SECRET, service.settings['WEBHOOK_SECRETS']!]) {
        expect(JSON.stringify(told)).not.toContain(secret);
      }
    });
  },
);

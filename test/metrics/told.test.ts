import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { Verdict } from '../../src/mirror/problems.ts';
import { isWell } from '../../src/ops/verdict.ts';
import { createService, eventually, type Service } from '../convergence/service.ts';
import { type IndependentUpstream, startIndependentUpstream } from '../support/independent-upstream.ts';
import { startReceiver } from './receiver.ts';

/** The same story with alerts is told to a real Prometheus where there is one; this needs none. */
const PATIENCE_MS = 60_000;
vi.setConfig({ testTimeout: 3 * PATIENCE_MS, hookTimeout: 3 * PATIENCE_MS });

let upstream: IndependentUpstream;
let service: Service;
let receiver: Awaited<ReturnType<typeof startReceiver>>;

beforeAll(async () => {
  receiver = await startReceiver();
  upstream = await startIndependentUpstream();
  const settings = {
    SYNC_SETTLE_SECONDS: '0.2',
    SYNC_FULL_MINUTES: '0.02',
    COMPLIANCE_REQUESTS_PER_MINUTE: '3000',
    NOTIFY_URL: receiver.url,
  };
  service = await createService(upstream, settings, { here: true });
  await service.start();
  await eventually('the verdict in sync', async () => isWell(await verdict()));
});
afterAll(async () => {
  await service.end();
  await upstream.close().catch(() => undefined);
  receiver.close();
});

const verdict = async () => (await service.get<{ verdict: Verdict }>('/api/status')).verdict;
const scraped = async (series: string) => {
  const text = await service.get<string>('/metrics');
  return Number(new RegExp(`^${series.replaceAll(/[{}]/g, '\\$&')} (\\S+)$`, 'm').exec(text)?.[1]);
};
const wasTold = (what: string, reason: string) =>
  eventually(
    `to be told ${what} ${reason}`,
    () => receiver.told.some((one) => one.what === what && one.problem.reason === reason),
    PATIENCE_MS,
  );

it('what the alert rules ask for stands in a scrape of the running service', async () => {
  const rules = readFileSync(new URL('../../docs/monitoring/alerts.yml', import.meta.url), 'utf8');
  const asked = new Set([...rules.matchAll(/compliance_mirror_\w+/g)].map(([name]) => name));
  const text = await service.get<string>('/metrics');
  const given = new Set(
    [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].flatMap(([, name, type]) =>
      type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name!],
    ),
  );
  expect(asked.size).toBeGreaterThan(10);
  expect([...asked].filter((name) => !given.has(name))).toEqual([]);
});

it('an upstream that refuses connections is shown by a scrape and told, and so are a pause and its end', async () => {
  await service.post('/api/pause');
  await wasTold('opened', 'paused');
  await service.post('/api/resume');
  await wasTold('resolved', 'paused');
  await upstream.close();
  await wasTold('opened', 'unreachable');
  expect(await scraped('compliance_mirror_upstream_consecutive_failures')).toBeGreaterThanOrEqual(3);
  const { upstream: facts } = await service.get<{ upstream: { last_error: string } }>('/api/status');
  expect(facts.last_error).toMatch(/ECONNREFUSED|refused/i);
});

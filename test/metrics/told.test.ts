import { readFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
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
  service = await createService(upstream, {
    SYNC_SETTLE_SECONDS: '0.2',
    SYNC_FULL_MINUTES: '0.02',
    COMPLIANCE_REQUESTS_PER_MINUTE: '3000',
    NOTIFY_URL: receiver.url,
  });
  await service.start();
  await eventually('the verdict in sync', async () => (await verdict()) === 'in_sync');
});
afterAll(async () => {
  await service.end();
  await upstream.close().catch(() => undefined);
  receiver.close();
});

const verdict = async () => (await service.get<{ verdict: string }>('/api/status')).verdict;
const scraped = async (series: string) => {
  const text = await service.get<string>('/metrics');
  return Number(new RegExp(`^${series.replaceAll(/[{}]/g, '\\$&')} (\\S+)$`, 'm').exec(text)?.[1]);
};
const wasTold = (reason: string) =>
  eventually(`to be told ${reason}`, () => receiver.told.some((one) => one.reason === reason), PATIENCE_MS);

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

it('a backlog that is late is shown by a scrape, and told', async () => {
  // Deferred for an hour, and here for a minute: as after a failure of ours that goes on.
  const db = new Database(service.database, { timeout: PATIENCE_MS });
  db.exec(`BEGIN IMMEDIATE;
    UPDATE counter SET value = value + 1;
    INSERT INTO events (seq, id, type, created, created_ms, kind, record_id, received_at, last_delivered_at, state,
      next_attempt_at, body)
    SELECT value, 'evt_late', 'vendor.updated', '2026-01-01T00:00:00Z', 0, 'vendor', 'v1',
      strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 minute'), strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 minute'), 'pending',
      strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+1 hour'), '{}' FROM counter;
    UPDATE event_counts SET count = count + 1 WHERE state = 'pending';
    COMMIT;`);
  db.close();
  await wasTold('backlog_late');
  expect(receiver.told.find(({ reason }) => reason === 'backlog_late')).toMatchObject({
    verdict: 'catching_up',
    sentence: expect.stringMatching(/^1 event waits/),
  });
  expect(await scraped('compliance_mirror_backlog_events')).toBe(1);
  expect(await scraped('compliance_mirror_backlog_oldest_seconds')).toBeGreaterThan(30);
  await service.post('/api/events/evt_late/discard', {});
  await eventually('the verdict in sync', async () => (await verdict()) === 'in_sync');
});

it('an upstream that refuses connections is shown by a scrape, and told', async () => {
  await upstream.close();
  await wasTold('upstream_unreachable');
  expect(await scraped('compliance_mirror_upstream_up')).toBe(0);
  expect(await scraped('compliance_mirror_upstream_consecutive_failures')).toBeGreaterThanOrEqual(3);
  const { upstream: facts } = await service.get<{ upstream: { last_error: string } }>('/api/status');
  expect(facts.last_error).toMatch(/ECONNREFUSED|refused/i);
});

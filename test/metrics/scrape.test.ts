import { afterEach, beforeEach, expect, it } from 'vitest';
import { bearer, type Harness, incoming, opsHarness, READ } from '../ops/harness.ts';

const TIMING = { settleMs: 10_000 };

let h: Harness;
beforeEach(async () => {
  h = await opsHarness();
});
afterEach(() => h.close());

/** The value of one series, by its name without the prefix and its labels as written. */
async function scraped(): Promise<(series: string) => number | undefined> {
  const response = await h.app.request('/metrics', { headers: bearer(READ) });
  expect(response.status).toBe(200);
  const text = await response.text();
  const values = new Map(
    [...text.matchAll(/^compliance_mirror_(\S+) (\S+)$/gm)].map(([, series, value]) => [
      series!,
      Number(value),
    ]),
  );
  return (series) => values.get(series);
}

it('a scrape tells of the backlog, the failed, the records and the gaps, as the database counts them', async () => {
  const events = ['e1', 'e2', 'e3'].map((id) => incoming({ id }));
  await h.store.accept({ events, unusable: [] }, h.now(), TIMING);
  const [event] = await h.store.claimEvents('test', 1, 1000, h.now());
  await h.store.deferEvent({ event: event!, retryAtMs: null, error: 'it broke' }, h.now(), TIMING);
  await h.mirror('vendor', 'v1', { name: 'One' });
  const value = await scraped();
  expect(value('backlog_events')).toBe(2);
  expect(value('events{state="failed"}')).toBe(1);
  expect(value('records{kind="vendor",state="verified"}')).toBe(1);
  expect(value('gaps_open{reason="failed_event"}')).toBe(1);
  expect(value('gaps_opened_total{reason="failed_event"}')).toBe(1);
  expect(value('database_bytes{file="main"}')).toBeGreaterThan(0);
  expect(value('last_delivery_timestamp_seconds')).toBeGreaterThan(1e9);
});

it('a record with an event that no read can confirm is not counted as verified', async () => {
  await h.mirror('vendor', 'v1', { name: 'One' });
  await h.mirror('vendor', 'v2', { name: 'Two' });
  const event = incoming({ type: 'vendor.updated', kind: 'vendor', recordId: 'v1' });
  const before = { ...h.now(), wall: h.now().wall - 3_600_000 };
  await h.store.accept({ events: [event], unusable: [] }, before, TIMING);
  await h.store.openGap({ reason: 'unaddressable', kind: 'vendor', recordId: 'v1' }, null, h.now());
  const value = await scraped();
  expect(value('records{kind="vendor",state="verified"}')).toBe(1);
  expect(value('records{kind="vendor",state="unverified"}')).toBe(1);
  // No alert waits for what will never come.
  expect(value('oldest_unverified_seconds{kind="vendor"}')).toBe(0);
  const page = await (await h.app.request('/', { headers: bearer(READ) })).text();
  expect(page).toMatch(/unverified=yes">1 of 2</);
});

it('a name ends in _total where it is a counter’s, and nowhere else', async () => {
  const text = await (await h.app.request('/metrics', { headers: bearer(READ) })).text();
  const types = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => ({
    name: name!,
    type: type!,
  }));
  expect(types.filter(({ name, type }) => name.endsWith('_total') !== (type === 'counter'))).toEqual([]);
});

it('a scrape tells the one verdict that holds', async () => {
  expect((await scraped())('verdict{verdict="action_required"}')).toBe(0);
  await h.close();
  h = await opsHarness();
  h.live.pausedSince = Date.now();
  const value = await scraped();
  expect(value('verdict{verdict="action_required"}')).toBe(1);
  expect(value('verdict{verdict="in_sync"}')).toBe(0);
  expect(value('paused')).toBe(1);
});

it('a scrape tells of the upstream, and nothing of what is not known', async () => {
  h.live.upstream = {
    ...h.live.upstream,
    ok: false,
    consecutive_failures: 4,
    budget_left: 7,
    budget_per_minute: 60,
    skew_ms: -2500,
  };
  let value = await scraped();
  expect(value('upstream_up')).toBe(0);
  expect(value('upstream_consecutive_failures')).toBe(4);
  expect(value('upstream_budget_left')).toBe(7);
  expect(value('upstream_budget')).toBe(60);
  expect(value('clock_skew_seconds')).toBe(-2.5);
  await h.close();
  h = await opsHarness();
  h.live.secrets = [
    { position: 1, registration: null, lastUsedAt: null },
    { position: 2, registration: 'wh_1', lastUsedAt: 1_800_000_000_000 },
  ];
  value = await scraped();
  expect(value('secret_last_used_timestamp_seconds{position="2"}')).toBe(1_800_000_000);
  expect(value('secret_last_used_timestamp_seconds{position="1"}')).toBeUndefined();
  const page = await (await h.app.request('/', { headers: bearer(READ) })).text();
  expect(page).toContain('<dt>2. of the registration wh_1</dt>');
});

it('a scrape between two looks at the database knows when a secret was last used, all the same', async () => {
  await scraped();
  h.live.secrets = [{ position: 1, registration: null, lastUsedAt: 1_800_000_000_000 }];
  expect((await scraped())('secret_last_used_timestamp_seconds{position="1"}')).toBe(1_800_000_000);
});

it('a scrape tells of deletions that wait for approval', async () => {
  await h.hold('vendor', ['a', 'b', 'c']);
  expect((await scraped())('deletions_pending{kind="vendor"}')).toBe(3);
});

it('a database that cannot be read does not keep the rest from being scraped', async () => {
  await h.store.close();
  expect((await scraped())('verdict{verdict="action_required"}')).toBe(1);
});

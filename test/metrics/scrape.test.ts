import { afterEach, beforeEach, expect, it } from 'vitest';
import { bearer, type Harness, incoming, opsHarness, READ } from '../ops/harness.ts';
import { failPending } from '../support/pending.ts';

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
  expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=/);
  const text = await response.text();
  const values = new Map(
    [...text.matchAll(/^compliance_mirror_(\S+) (\S+)$/gm)].map(([, series, value]) => [
      series!,
      Number(value),
    ]),
  );
  return (series) => values.get(series);
}

it('a scrape tells of the backlog, the failed, the records and the problems, as the database counts them', async () => {
  const events = ['e1', 'e2', 'e3'].map((id) => incoming({ id }));
  await h.store.accept({ events, unusable: [] }, h.now(), TIMING);
  await failPending(h.store, h.now(), 'it broke', 1);
  await h.mirror('vendor', 'v1', { name: 'One' });
  const value = await scraped();
  expect(value('events{state="pending"}')).toBe(2);
  expect(value('events{state="failed"}')).toBe(1);
  expect(value('backlog_oldest_seconds')).toBeGreaterThanOrEqual(0);
  expect(value('records{kind="vendor",state="live"}')).toBe(1);
  expect(value('records{kind="vendor",state="unverified"}')).toEqual(expect.any(Number));
  expect(value('problems_open{reason="failed_event"}')).toBe(1);
  expect(value('database_bytes{file="main"}')).toBeGreaterThan(0);
  expect(value('last_delivery_timestamp_seconds')).toBeGreaterThan(1e9);
});

it('a name ends in _total where it is a counter’s, and nowhere else', async () => {
  const text = await (await h.app.request('/metrics', { headers: bearer(READ) })).text();
  const types = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => ({
    name: name!,
    type: type!,
  }));
  expect(types.filter(({ name, type }) => name.endsWith('_total') !== (type === 'counter'))).toEqual([]);
});

it('a scrape tells the one verdict that holds of each kind', async () => {
  await h.store.openProblem({ reason: 'pending_deletions', kind: 'vendor', recordId: null }, null, h.now());
  const value = await scraped();
  expect(value('verdict{kind="vendor",verdict="action_required"}')).toBe(1);
  expect(value('verdict{kind="policy",verdict="catching_up"}')).toBe(1);
  expect(value('verdict{kind="policy",verdict="action_required"}')).toBeUndefined();
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
  const value = await scraped();
  expect(value('upstream_consecutive_failures')).toBe(4);
  expect(value('upstream_budget_left')).toBe(7);
  expect(value('upstream_budget')).toBe(60);
  expect(value('clock_skew_seconds')).toBe(-2.5);
  await h.close();
  h = await opsHarness();
  h.live.service.secrets = [
    { position: 1, registration: null, last_used_at: null },
    { position: 2, registration: 'wh_1', last_used_at: new Date(1_800_000_000_000).toISOString() },
  ];
  const page = await (await h.app.request('/', { headers: bearer(READ) })).text();
  expect(page).toContain('<dt>2. of the registration wh_1</dt>');
});

it('a database that cannot be read does not keep the rest from being scraped', async () => {
  await h.store.close();
  const value = await scraped();
  expect(value('verdict{kind="vendor",verdict="action_required"}')).toBe(1);
  expect(value('problems_open{reason="database"}')).toBe(1);
});

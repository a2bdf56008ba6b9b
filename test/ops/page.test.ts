import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Clock } from '../../src/platform/clock.ts';
import { beat } from '../browser/scene.ts';
import { failPending, showPending } from '../support/pending.ts';
import { bearer, type Harness, incoming, NOTHING_SYNCED, OPERATE, opsHarness, READ } from './harness.ts';

let h: Harness;
beforeEach(async () => {
  h = await opsHarness();
});
afterEach(() => h.close());

const page = async (token = OPERATE) => (await h.app.request('/', { headers: bearer(token) })).text();
/** In the middle of a minute, so that none ends while a test goes on. */
const START = Date.parse('2026-11-20T12:00:30Z');
const heldClock = (aheadMs: () => number = () => 0): Clock => ({
  wall: () => START + aheadMs(),
  steady: () => START + aheadMs(),
  sleep: () => new Promise(() => undefined),
});
const HOSTILE = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "'-alert(1)-'",
  '</code></main><iframe>',
  '__proto__',
  '&lt;b&gt;',
];

test('the page says the verdict first, as its only heading of the first rank', async () => {
  const html = await page();
  expect(html.startsWith('<!doctype html><html lang="en">')).toBe(true);
  expect(html.match(/<h1>/g)).toHaveLength(1);
  expect(html.indexOf('<h1>')).toBeLessThan(html.indexOf('<h2'));
  expect(html).toMatch(/<h1>The mirror is catching up: the first full sync is not finished, /);
});

test('an event of an unknown type says what keeps such ones away', async () => {
  const event = incoming({ type: 'ledger.closed', kind: null, recordId: null, known: false });
  await h.store.accept({ events: [event], unusable: [] }, h.now(), { settleMs: 1 });
  await showPending(h.store, h.now());
  const shown = await (await h.app.request('/deliveries/evt_1', { headers: bearer(OPERATE) })).text();
  expect(shown).toContain('A webhook that is registered for exact types gets none of these.');
});

test('ids, errors and reasons from outside are shown as text and never as markup', async () => {
  for (const id of HOSTILE) {
    await h.store.openProblem({ reason: 'unknown_record', kind: 'vendor', recordId: id }, id, h.now());
    const fullSync = await h.store.startSyncRun('vendor', id, h.now());
    await h.store.finishSyncRun(
      fullSync.id,
      { outcome: 'failed', error: id, progress: NOTHING_SYNCED },
      h.now(),
    );
  }
  h.live.upstream = { ...h.live.upstream, ok: false, last_error: HOSTILE[1]!, origin: HOSTILE[0]! };
  const html = await page();
  expect(html).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
  expect(html).not.toMatch(/<script>|<img|<iframe|<b>/);
  // The one script and the one style sheet, both of files.
  expect(html.match(/<script/g)).toHaveLength(1);
  expect(html).not.toMatch(/<[^>]* (style|on\w+)=/);
});

test('until the first delivery is in, the page says what is left to do', async () => {
  const before = await page();
  expect(before).toContain('No delivery has arrived yet');
  expect(before).toContain('compliance-mirror setup');
  await h.store.accept({ events: [incoming()], unusable: [] }, h.now(), { settleMs: 1 });
  // Of the page as it is now, and not of a second ago.
  await h.app.request('/api/resume', { method: 'POST', headers: bearer(OPERATE) });
  const html = await page();
  expect(html).not.toContain('No delivery has arrived yet');
});

test('nobody is told that all events are processed while one has failed', async () => {
  await h.store.accept({ events: [incoming()], unusable: [] }, h.now(), { settleMs: 1 });
  await failPending(h.store, h.now(), 'its data is of no use');
  const html = await page();
  expect(html).toContain('An event could not be processed');
  expect(html).not.toMatch(/all (events )?are processed/i);
});

test('what a full sync found new and brought in is said to be repaired', async () => {
  const { id } = await h.store.startSyncRun('vendor', 'start', h.now());
  const found = { deleted_upstream: 0, different: 0, fields: {}, examples: [] };
  const end = { outcome: 'complete', error: null, progress: NOTHING_SYNCED } as const;
  await h.store.finishSyncRun(id, { ...end, differences: { ...found, new: 3, repaired: 3 } }, h.now());
  expect(await page()).toContain('>3 new, repaired<');
});

test('pending deletions lead to where their ids can be seen, and only those are approved', async () => {
  const id = await h.hold('vendor', ['v1', 'v2', 'v3']);
  await h.mirror('vendor', 'v9', { name: 'Alive' });
  const html = await page();
  expect(html).toContain('Look at the deletions');
  const where = '/records/vendor?deletion_pending=true';
  expect(html).toContain(`href="${where}"`);

  const shown = async (token: string) => (await h.app.request(where, { headers: bearer(token) })).text();
  const pending = await shown(OPERATE);
  for (const each of ['v1', 'v2', 'v3']) expect(pending).toContain(`<code>${each}</code>`);
  expect(pending).not.toContain('<code>v9</code>');
  expect(pending).toMatch(/<input type="checkbox" required/);
  expect(pending).toContain('They are gone: approve the deletion of 3 vendors');
  expect(pending).toContain('Keep 3 vendors');
  expect(await shown(READ)).not.toContain('type="checkbox"');
  const body = /name="body" value="([^"]+)"/.exec(pending)![1]!.replaceAll('&quot;', '"');

  const decide = (how: 'approve' | 'keep', text = body) =>
    h.app.request(`/api/problems/${id}/${how}`, {
      method: 'POST',
      headers: { ...bearer(OPERATE), accept: 'text/html', referer: `http://localhost${where}` },
      body: new URLSearchParams({ body: text }),
    });
  for (const how of ['approve', 'keep'] as const)
    expect(pending).toContain(`formaction="/api/problems/${id}/${how}"`);
  expect((await decide('approve', '{"digest":"of another page"}')).status).toBe(409);
  expect(h.asked).toEqual([]);
  const done = await decide('approve');
  expect([done.status, done.headers.get('location')]).toEqual([303, where]);
  expect(h.asked).toEqual([`sync vendor approval:${id}+operator:olga`]);
  expect(await shown(OPERATE)).toMatch(/The approval lasts until <time datetime="/);
  expect((await decide('keep')).status).toBe(303);
  expect(await shown(OPERATE)).toContain('No matching vendors.');
});

test('why a full sync ran, who approved it included, is words that a narrow column can break between', async () => {
  const { id } = await h.store.startSyncRun('vendor', 'approval:17+operator:olga', h.now());
  const html = await (await h.app.request(`/syncs/${id}`, { headers: bearer(READ) })).text();
  expect(html).toContain('approval: 17, operator: olga');
});

test('a running full sync shows its bar, one of unknown length an endless one', async () => {
  const d = await opsHarness({ clock: heldClock() });
  const run = (startedAt: number) => ({ started_at: new Date(startedAt).toISOString() });
  d.live.running = [
    { ...run(START), id: 1, kind: 'vendor', pages: 2, seen: 200, estimated_total: 564 },
    { ...run(START), id: 2, kind: 'policy', pages: 0, seen: 0, estimated_total: null },
    { ...run(START - 20_000), id: 3, kind: 'risk_assessment', pages: 0, seen: 10, estimated_total: 60 },
  ];
  const html = await (await d.app.request('/', { headers: bearer(READ) })).text();
  expect(html).toContain('200 of 564, 2 pages');
  expect(html).toMatch(/<progress[^>]* value="200" max="564"/);
  expect(html).toMatch(/<progress aria-labelledby="sync-2">/);
  await d.close();
});

test('a pause that the service asked for is said, with its end', async () => {
  const waits_until = '2026-11-01T12:15:00.000Z';
  h.live.upstream = { ...h.live.upstream, waits_until };
  expect(await page()).toMatch(/Waits until.*2026-11-01.*as the service asked/);
  const status = await h.app.request('/api/status', { headers: bearer(OPERATE) });
  expect(await status.json()).toMatchObject({ upstream: { waits_until } });
});

test('figures follow the store at once after a change made here', async () => {
  expect(await page()).not.toContain('event waits');
  await h.store.accept({ events: [incoming()], unusable: [] }, h.now(), { settleMs: 1 });
  await h.app.request('/api/pause', { method: 'POST', headers: bearer(OPERATE) });
  expect(await page()).toContain('The mirror is paused');
  expect(await page()).toContain('1 event waits, the oldest since');
});

test('while it is paused, the button that ends that is the only emphasised one, also beside pending deletions', async () => {
  await h.hold('vendor', ['v1', 'v2', 'v3']);
  await h.store.openProblem({ reason: 'paused', kind: null, recordId: null }, null, h.now());
  const html = await page();
  expect(html).toContain('id="pending-vendor"');
  expect(html.match(/class="button first"[^>]*/g)).toEqual([expect.stringContaining('id="resume"')]);
  // It would only wait for that one.
  expect(html).not.toContain('id="sync"');
});

test('without credentials the page offers no full sync and says what it cannot know', async () => {
  h.live.service.events_only = true;
  await beat(h, true);
  h.live.upstream = { ...h.live.upstream, configured: false, origin: null };
  const html = await page();
  expect(html).toContain('cannot check it');
  expect(html).not.toContain('/api/syncs');
});

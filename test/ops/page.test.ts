import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Clock } from '../../src/platform/clock.ts';
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
  expect(html).toMatch(
    /<h1>The first full sync of the policies, risk assessments and vendors is not finished yet\./,
  );
});

test('events of unknown types are counted by themselves, and each says what keeps them away', async () => {
  const event = incoming({ type: 'ledger.closed', kind: null, recordId: null, known: false });
  await h.store.accept({ events: [event], unusable: [] }, h.now(), { settleMs: 1 });
  const pointers = { policy: ['id'], risk_assessment: ['id'], vendor: ['id'] };
  const rules = { eventsOnly: false, toleranceMs: 1, pointers, timing: { settleMs: 1 } };
  await h.store.applyEvents(await h.store.claimEvents('test', 1, 1_000, h.now()), rules, h.now());
  expect(await page()).toMatch(/state=ignored">[^<]*<\/a><\/dt><dd>1</);
  const shown = await (await h.app.request('/events/evt_1', { headers: bearer(OPERATE) })).text();
  expect(shown).toContain('A webhook that is registered for exact types gets none of these.');
});

test('ids, errors and reasons from outside are shown as text and never as markup', async () => {
  for (const id of HOSTILE) {
    await h.store.openGap({ reason: 'unresolved', kind: 'vendor', recordId: id }, id, h.now());
    const fullSync = await h.store.startSyncRun('vendor', id, h.now());
    await h.store.finishSyncRun(
      fullSync.id,
      { outcome: 'failed', error: id, progress: NOTHING_SYNCED },
      h.now(),
    );
  }
  h.live.upstream = { ...h.live.upstream, ok: false, last_error: HOSTILE[1]!, origin: HOSTILE[0]! };
  const minute = new Date(Math.floor(Date.now() / 60_000) * 60_000).toISOString();
  await h.store.addTraffic([{ minute, what: `rejected:${HOSTILE[0]}`, times: 3, total_ms: 0, max_ms: 0 }], 0);
  const html = await page();
  expect(html).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
  expect(html).not.toMatch(/<script>|<img|<iframe|<b>/);
  // The one script and the one style sheet, both of files.
  expect(html.match(/<script/g)).toHaveLength(1);
  expect(html).not.toMatch(/<[^>]* (style|on\w+)=/);
});

test('the chart is of the range that is asked for, and of the last hour where none is', async () => {
  const d = await opsHarness({ clock: heldClock() });
  const minute = (ago: number) => new Date(Math.floor(START / 60_000 - ago) * 60_000).toISOString();
  for (const [ago, times] of [
    [0, 30],
    [59, 7],
    [120, 5],
    [3 * 24 * 60, 100],
    [3 * 24 * 60 + 1, 1],
  ] as const) {
    const row = { minute: minute(ago), what: 'accepted', times, total_ms: 0, max_ms: 0 };
    await d.store.addTraffic([row], 0);
  }
  await d.store.accept({ events: [incoming()], unusable: [] }, d.now(), { settleMs: 1 });
  const shown = async (path: string) => {
    const html = await (await d.app.request(path, { headers: bearer(READ) })).text();
    return /accepted <strong>([^<]+)</.exec(html)?.[1];
  };
  const paths = ['/', '/?range=hour', '/?range=day', '/?range=week', '/?range=year'];
  expect(await Promise.all(paths.map(shown))).toEqual(['37', '37', '42', '143', '37']);
  await d.close();
});

test('until the first delivery is in, the page says what is left to do', async () => {
  h.live.secrets = [];
  const shown = async () => {
    // Of the page as it is now, and not of a second ago.
    await h.app.request('/actions/resume', { method: 'POST', headers: bearer(OPERATE) });
    return page();
  };
  expect(await shown()).toContain('<strong>Set the signing secret</strong><p>');
  h.live.secrets = [{ position: 1, registration: null, lastUsedAt: null }];
  expect(await shown()).toContain('<strong>Set the signing secret</strong><span class="quiet"> · done');
  expect(await shown()).not.toContain('<svg viewBox');
  await h.store.accept({ events: [incoming()], unusable: [] }, h.now(), { settleMs: 1 });
  const html = await shown();
  expect(html).not.toContain('what to do next');
  expect(html).toContain('<svg viewBox');
});

test('nobody is told that all events are processed while one has failed', async () => {
  await h.store.accept({ events: [incoming()], unusable: [] }, h.now(), { settleMs: 1 });
  const [event] = await h.store.claimEvents('test', 1, 1_000, h.now());
  const failure = { event: event!, retryAtMs: null, error: 'its data is of no use' };
  await h.store.deferEvent(failure, h.now(), { settleMs: 1 });
  const html = await page();
  expect(html).toContain('1 event failed');
  expect(html).not.toMatch(/all (events )?are processed/i);
});

test('an event that changed nothing is not called confirmed, because the API may show something newer', async () => {
  let ahead = 0;
  const d = await opsHarness({ clock: heldClock(() => ahead) });
  await d.store.accept({ events: [incoming()], unusable: [] }, d.now(), { settleMs: 1 });
  ahead = 60_000;
  await d.mirror('policy', 'pol_1', { name: 'Access, rewritten' });
  const html = await (await d.app.request('/events/evt_1', { headers: bearer(READ) })).text();
  expect(html).toContain('Its record was last verified by the API.');
  await d.close();
});

test('what a full sync found missing and brought in is not shown as missing', async () => {
  const { id } = await h.store.startSyncRun('vendor', 'start', h.now());
  const found = { extra: 0, different: 0, fields: {}, examples: [] };
  const end = { outcome: 'complete', error: null, progress: NOTHING_SYNCED } as const;
  await h.store.finishSyncRun(id, { ...end, differences: { ...found, missing: 3, repaired: 3 } }, h.now());
  expect(await page()).toContain('>3 missing, repaired<');
});

test('what is open is named, what needs a person first, with the way to its remedy', async () => {
  await h.store.openGap(
    { reason: 'failed_event', kind: 'policy', recordId: 'pol_7' },
    'data is not usable',
    h.now(),
  );
  await h.store.openGap({ reason: 'downtime', kind: null, recordId: null }, null, h.now());
  const html = await page();
  expect(html).toContain('An event could not be processed');
  expect(html).toContain('data is not usable');
  const [event, downtime] = ['failed_event', 'downtime'].map((reason) =>
    html.indexOf(`href="/gaps?reason=${reason}"`),
  );
  expect(event).toBeGreaterThan(0);
  expect(downtime).toBeGreaterThan(event!);
  const gaps = await (await h.app.request('/gaps', { headers: bearer(READ) })).text();
  expect(gaps).toContain('id="gap-failed_event"');
  expect(gaps).toContain('Read its error, then retry or discard the event.');
});

test.each([
  ['answers', { configured: true, ok: true }, true],
  ['rejects the credentials, or does not answer', { configured: true, ok: false }, false],
  ['is not configured', { configured: false, ok: null }, false],
])('access to the API counts as given or not where the API %s', async (_, upstream, isDone) => {
  h.live.upstream = { ...h.live.upstream, ...upstream };
  h.live.eventsOnly = !upstream.configured;
  const html = await page();
  expect(html.includes('Give it access to the API</strong><span class="quiet"> · done')).toBe(isDone);
  // Nothing is compared without it.
  for (const fact of ['Full syncs', 'Last full sync', 'Complete through'])
    expect(html.includes(fact)).toBe(upstream.configured);
});

test('where the API is set and not read yet, the first step is what its last answer asks for', async () => {
  const last_error = 'nobody has signed in to the compliance service yet';
  h.live.upstream = { ...h.live.upstream, ok: false, last_error };
  expect(await page()).toContain(`Give it access to the API</strong><p>${last_error}</p>`);
});

test('beside an approval that ran out, the page says until when the other one lasts', async () => {
  const fullSync = await h.hold('vendor', ['v1', 'v2', 'v3', 'v4']);
  const { wall } = h.now();
  const [over, lasting] = [wall - 60_000, wall + 60_000];
  await h.store.approveDeletions('vendor', ['v1'], fullSync, over);
  await h.store.approveDeletions('vendor', ['v2'], fullSync, lasting);
  const html = await (await h.app.request(`/sync-runs/${fullSync}`, { headers: bearer(OPERATE) })).text();
  const [, until] = /The approval lasts until <time datetime="([^"]+)"/.exec(html)!;
  expect(until).toBe(new Date(lasting).toISOString());
});

test('pending deletions lead to where their ids can be seen, and only those are approved', async () => {
  const fullSync = await h.hold('vendor', ['v1', 'v2', 'v3']);
  const html = await page();
  expect(html).toContain('3 deletions wait for your approval.');
  expect(html).toContain(`href="/sync-runs/${fullSync}#pending"`);

  const shown = async (token: string) =>
    (await h.app.request(`/sync-runs/${fullSync}`, { headers: bearer(token) })).text();
  const pending = await shown(OPERATE);
  for (const id of ['v1', 'v2', 'v3']) expect(pending).toContain(`<code>${id}</code>`);
  expect(pending).toMatch(/<input type="checkbox" name="sure" value="yes" required/);
  // Apart from the sentence, which a name written from right to left would turn around.
  const named = '<bdi>“v1”</bdi>, <bdi>“v2”</bdi>, and <bdi>“v3”</bdi>';
  expect(pending).toContain(`I have made sure that the vendors ${named} are gone`);
  expect(pending).toContain('Approve the deletion of 3 vendors');
  expect(await shown(READ)).not.toContain('type="checkbox"');
  const digest = /name="digest" value="([^"]+)"/.exec(pending)![1]!;

  const approve = (fields: Record<string, string>) =>
    h.app.request('/actions/approve-deletions', {
      method: 'POST',
      headers: { ...bearer(OPERATE), 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams(fields),
    });
  const all = { sure: 'yes', digest };
  expect((await approve({ ...all, sure: '' })).status).toBe(400);
  expect((await approve({ ...all, digest: 'of another page' })).status).toBe(409);
  expect(h.asked).toEqual([]);
  const done = await approve(all);
  expect([done.status, done.headers.get('location')]).toEqual([303, `/sync-runs/${fullSync}`]);
  expect(h.asked).toEqual([`sync vendor approval:${fullSync}+operator:olga`]);
});

test('why a full sync ran, who approved it included, is words that a narrow column can break between', async () => {
  const { id } = await h.store.startSyncRun('vendor', 'approval:17+operator:olga', h.now());
  const html = await (await h.app.request(`/sync-runs/${id}`, { headers: bearer(READ) })).text();
  expect(html).toContain('approval: 17, operator: olga');
});

test('a database without a log of its own, as on PostgreSQL, is not said to have an empty one', async () => {
  expect(await page()).toContain('Write-ahead log');
  h.context.store.summary = async () => ({ ...(await h.store.summary()), wal_bytes: 0 });
  h.live.pausedSince = Date.now();
  await h.app.request('/api/resume', { method: 'POST', headers: bearer(OPERATE) });
  expect(await page()).not.toContain('Write-ahead log');
});

test('numbers look alike, also in what the tables say of how much is known', async () => {
  h.context.store.summary = async () => {
    const { kinds, ...rest } = await h.store.summary();
    return { ...rest, kinds: kinds.map((kind) => ({ ...kind, records: 50_000, coverage: '50000 listed' })) };
  };
  const html = await page();
  expect(html).toContain('50,000 listed');
  expect(html).not.toContain('50000');
});

test('a running full sync shows its bar, one of unknown length an endless one', async () => {
  const d = await opsHarness({ clock: heldClock() });
  const run = (startedAt: number) => ({
    records_per_second: null,
    seconds_left: null,
    started_at: new Date(startedAt).toISOString(),
  });
  d.live.runningSyncRuns = [
    { ...run(START), id: 1, kind: 'vendor', pages: 2, seen: 200, estimated_total: 564 },
    { ...run(START), id: 2, kind: 'policy', pages: 0, seen: 0, estimated_total: null },
    { ...run(START - 20_000), id: 3, kind: 'risk_assessment', pages: 0, seen: 10, estimated_total: 60 },
  ];
  const html = await (await d.app.request('/', { headers: bearer(READ) })).text();
  expect(html).toContain('Reading them all: none completed yet; one under way for 20 s, about 2 min in all');
  expect(html).toContain('200 of 564, 2 pages');
  expect(html).toMatch(/<progress[^>]* value="200" max="564"/);
  expect(html).toMatch(/<progress aria-labelledby="sync-2">/);
  await d.close();
});

test('a full sync that did not read all is not said to have found nothing, nor an API that answers to be silent', async () => {
  const differences = { missing: 0, extra: 0, different: 0, repaired: 0, fields: {}, examples: [] };
  for (const outcome of ['incomplete', 'complete'] as const) {
    const { id } = await h.store.startSyncRun('vendor', 'operator', h.now());
    const error = outcome === 'complete' ? null : 'GET /vendors: answered 401';
    await h.store.finishSyncRun(id, { outcome, error, progress: NOTHING_SYNCED, differences }, h.now());
  }
  h.live.upstream = { ...h.live.upstream, ok: false, last_error: 'GET /vendors: answered 401' };
  const html = await page();
  const shown = [...html.matchAll(/data-label="Differences">(?:<span class="quiet">)?([^<]*)</g)].map(
    ([, words]) => words,
  );
  expect(shown).toEqual(['nothing', 'none seen']);
  expect(html).toContain('<span class="state unreachable">cannot be read</span>');
});

test('a pause that the service asked for is said, with its end', async () => {
  const waits_until = '2026-11-01T12:15:00.000Z';
  h.live.upstream = { ...h.live.upstream, waits_until };
  expect(await page()).toMatch(/Waits until.*2026-11-01.*as the service asked/);
  const status = await h.app.request('/api/status', { headers: bearer(OPERATE) });
  expect(await status.json()).toMatchObject({ upstream: { waits_until } });
});

test('figures follow the store at once after a change made here', async () => {
  expect(await page()).toContain('<p class="big">0 <small>events wait');
  await h.store.accept({ events: [incoming()], unusable: [] }, h.now(), { settleMs: 1 });
  await h.app.request('/actions/pause', { method: 'POST', headers: bearer(OPERATE) });
  expect(await page()).toContain('The mirror is paused; 1 event waits.');
});

test('the service’s clock is marked where deliveries may soon be rejected for their time', async () => {
  h.live.upstream = { ...h.live.upstream, configured: true, skew_ms: -90_000 };
  expect(await page()).toContain('<dd class="warn">90 seconds behind</dd>');
  h.live.upstream.skew_ms = 30_000;
  await h.app.request('/actions/resume', { method: 'POST', headers: bearer(OPERATE) });
  expect(await page()).toContain('<dd>30 seconds ahead</dd>');
});

test('while it is paused, the button that ends that is the only emphasised one, also beside pending deletions', async () => {
  const fullSync = await h.hold('vendor', ['v1', 'v2', 'v3']);
  h.live.pausedSince = Date.now();
  const html = await page();
  expect(html).toContain(`id="pending-${fullSync}"`);
  expect(html.match(/class="button first"[^>]*/g)).toEqual([expect.stringContaining('id="resume"')]);
  // It would only wait for that one.
  expect(html).not.toContain('Full sync now');
});

test('without credentials the page offers no full sync and says what it cannot know', async () => {
  h.live.eventsOnly = true;
  h.live.upstream = { ...h.live.upstream, configured: false, origin: null };
  const html = await page();
  expect(html).toContain('cannot check it');
  expect(html).not.toContain('/actions/sync');
});

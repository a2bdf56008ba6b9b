import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { signInLink } from '../../src/ops/tokens.ts';
import { type Harness, incoming, NOTHING_SYNCED, OPERATE, opsHarness, READ } from '../ops/harness.ts';
import { launchBrowser, TEST_MS, WAIT_MS } from './browser.ts';
import { listen } from './listener.ts';

vi.setConfig({ testTimeout: TEST_MS, hookTimeout: TEST_MS });

let browser: Browser;
let h: Harness;
let server: { url: string; close(): void };
let context: BrowserContext;
let page: Page;
let complaints: string[];

beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser.close());

beforeEach(async () => {
  h = await opsHarness();
  server = await listen(h);
  complaints = [];
  await newContext();
});
afterEach(async () => {
  await context.close();
  await h.close();
  server.close();
});

async function newContext(options: Parameters<Browser['newContext']>[0] = {}): Promise<void> {
  context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
  context.setDefaultTimeout(WAIT_MS);
  page = await context.newPage();
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
}

const verdict = () => page.locator('h1');
/** Ends where the link leads to: whoever goes elsewhere before may overtake the form that it posts. */
async function signInByLink(token: string): Promise<void> {
  await page.goto(signInLink(server.url, token));
  await page.waitForURL(`${server.url}/`);
}

/** Ends when what `act` posts was answered: a press alone ends before, on a page that has the next button as well. */
async function toNextPage(act: () => Promise<void>): Promise<void> {
  const loaded = page.waitForEvent('load');
  await act();
  await loaded;
}

async function fullSyncAll(): Promise<void> {
  for (const [kind, seen] of [
    ['policy', 48],
    ['risk_assessment', 82],
    ['vendor', 564],
  ] as const) {
    const fullSync = await h.store.startSyncRun(kind, 'start', h.now());
    const progress = {
      ...NOTHING_SYNCED,
      pages: 6,
      seen,
      inserted: kind === 'vendor' ? 3 : 0,
      updated: kind === 'policy' ? 2 : 0,
      unchanged: seen,
    };
    await h.store.finishSyncRun(fullSync.id, { outcome: 'complete', error: null, progress }, h.now());
    await h.store.noteAccess(kind, 'key', 'read', h.now());
  }
  await h.store.beat(h.now(), {
    eventsOnly: false,
    settleMs: 10_000,
    fullSyncMs: 3_600_000,
    unreachable: false,
    access: 'key',
  });
}

test('an operator signs in by the link and sees the verdict change without a reload', async () => {
  await fullSyncAll();
  await signInByLink(OPERATE);
  expect(await verdict().textContent()).toBe('The mirror is in sync with the compliance service.');
  await page.locator('[data-live][data-state="live"]').waitFor();
  await page.evaluate(() => {
    Object.assign(globalThis, { sameDocument: true });
  });

  await h.store.accept({ events: [incoming()], unusable: [] }, h.now(), { settleMs: 1000 });
  await page.getByRole('heading', { name: 'The mirror is processing 1 event.' }).waitFor();
  h.live.pausedSince = Date.now();
  await page.getByRole('heading', { name: 'The mirror is paused; 1 event waits.' }).waitFor();
  expect(await page.title()).toBe('The mirror is paused; 1 event waits. · compliance mirror');
  expect(await page.evaluate(() => 'sameDocument' in globalThis)).toBe(true);
  expect(complaints).toEqual([]);
});

test('the link’s token is in no request’s address, and leaves the address bar before it is posted', async () => {
  const addresses: string[] = [];
  // An answer without content leaves the browser on the page that asked.
  await page.route('**/*', (route) => {
    addresses.push(route.request().url());
    return route.request().method() === 'POST' ? route.fulfill({ status: 204 }) : route.continue();
  });
  const posted = page.waitForRequest((request) => request.method() === 'POST');
  await page.goto(signInLink(server.url, OPERATE), { waitUntil: 'commit' });
  expect((await posted).postData()).toBe(`token=${OPERATE}`);
  expect(page.url()).toBe(`${server.url}/sign-in`);
  expect(addresses.map((address) => address.split('#')[0]).join()).not.toContain(OPERATE);
});

test('a sign-in link that is pasted while the form is shown signs in', async () => {
  await page.goto(server.url);
  await page.evaluate(`location.hash = 'token=${OPERATE}'`);
  await page.waitForURL(`${server.url}/`);
  expect(complaints).toEqual([]);
});

test('a wrong token is refused at the form, and a right one then accepted', async () => {
  await page.goto(server.url);
  expect(page.url()).toBe(`${server.url}/sign-in`);
  await page.getByLabel('Token').fill('certainly-not-the-token');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('This token is not known.').waitFor();
  await page.getByLabel('Token').fill(OPERATE);
  await page.keyboard.press('Enter');
  await page.waitForURL(`${server.url}/`);
  // Chromium notes every 401 of a navigation; that one is meant.
  expect(complaints.filter((text) => !text.includes('401'))).toEqual([]);
});

test('the buttons do what they say, by keyboard too, and keep the focus when the page changes', async () => {
  await signInByLink(OPERATE);
  await page.locator('[data-live][data-state="live"]').waitFor();
  await page.locator('#pause').focus();
  await h.store.accept({ events: [incoming()], unusable: [] }, h.now(), { settleMs: 1000 });
  await page.locator('[data-part="backlog"]', { hasText: '1 event waits' }).waitFor();
  expect(await page.evaluate('document.activeElement.id')).toBe('pause');
  await toNextPage(() => page.keyboard.press('Enter'));
  await toNextPage(() => page.getByRole('button', { name: 'Resume' }).click());
  await toNextPage(() => page.getByRole('button', { name: 'Full sync now' }).click());
  expect(h.asked).toEqual(['pause', 'resume', 'sync policy,risk_assessment,vendor operator:olga']);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL(`${server.url}/sign-in`);
  expect(complaints).toEqual([]);
});

test('a form that somebody fills in stays as it is while the page changes', async () => {
  await signInByLink(OPERATE);
  await page.goto(`${server.url}/sync-runs`);
  await page.locator('[data-live][data-state="live"]').waitFor();
  await page.getByRole('checkbox', { name: 'vendors' }).uncheck();
  await h.hold('policy', ['p1', 'p2', 'p3']);
  await page.getByText('3 deletions of policies wait for approval').waitFor();
  expect(await page.getByRole('checkbox', { name: 'vendors' }).isChecked()).toBe(false);
});

test('each place of an id that no setting names stays on the page when it changes', async () => {
  const learned = { path: 'subject.ref', eventId: 'evt_1', recordId: 'id_1', isUsed: true };
  for (const kind of ['policy', 'vendor'] as const) await h.store.learnPointer({ ...learned, kind }, h.now());
  await signInByLink(READ);
  await page.locator('[data-live][data-state="live"]').waitFor();
  h.live.pausedSince = Date.now();
  await page.getByRole('heading', { name: 'The mirror is paused' }).waitFor();
  const found = page.locator('.verdict .remedy', { hasText: 'where no setting looks' });
  expect(await found.locator('code').allTextContents()).toEqual([
    ...['id_1', 'ID_POINTERS_POLICY=subject.ref,policyId,id'],
    ...['id_1', 'ID_POINTERS_VENDOR=subject.ref,id'],
  ]);
});

test('a new verdict is read out, once, by an element that was there before', async () => {
  await signInByLink(READ);
  await page.locator('[data-live][data-state="live"]').waitFor();
  const said = page.locator('main > [role="status"]');
  await said.filter({ hasText: 'first full sync' }).waitFor();
  await page.evaluate("document.querySelector('main > [role=status]').dataset.marked = 'yes'");
  h.live.pausedSince = Date.now();
  await page.locator('main > [role="status"][data-marked]', { hasText: 'The mirror is paused' }).waitFor();
  expect(await said.count()).toBe(1);
});

test('more live pages can be open than a browser has connections, and each goes on when it is looked at', async () => {
  await signInByLink(OPERATE);
  const shown = async (tab: Page, isHidden: boolean) => {
    await tab.evaluate(
      `Object.defineProperty(document, 'hidden', { configurable: true, value: ${isHidden} }); document.dispatchEvent(new Event('visibilitychange'));`,
    );
  };
  const tabs: Page[] = [];
  for (const path of ['deliveries', 'events', 'gaps', 'sync-runs', 'quarantine', 'rejections', 'events']) {
    const tab = await context.newPage();
    await tab.goto(`${server.url}/${path}`);
    await tab.locator('[data-live][data-state="live"]').waitFor();
    await shown(tab, true);
    tabs.push(tab);
  }
  // The one that never left the foreground goes on meanwhile, and so does its title.
  h.live.pausedSince = Date.now();
  await expect.poll(() => page.title(), { timeout: WAIT_MS }).toContain('The mirror is paused');
  const [deliveries] = tabs;
  await h.store.accept({ events: [incoming()], unusable: [] }, h.now(), { settleMs: 1000 });
  await shown(deliveries!, false);
  await deliveries!.getByRole('link', { name: '1 new delivery: show them' }).waitFor();
});

test('a page whose service is gone says since when, and no colour on it says that all is well', async () => {
  const filter = () => page.evaluate("getComputedStyle(document.querySelector('main')).filter");
  await signInByLink(READ);
  const live = page.getByRole('status').and(page.locator('[data-live]'));
  await page.locator('[data-live][data-state="live"]').waitFor();
  expect(await filter()).toBe('none');
  server.close();
  await page.locator('[data-live][data-state="lost"]').waitFor();
  expect(await live.textContent()).toMatch(/^connection lost at \d\d:\d\d:\d\d UTC, trying again$/);
  expect(await filter()).toBe('grayscale(1)');
});

test('it works without scripts', async () => {
  await context.close();
  await newContext({ javaScriptEnabled: false });
  await page.goto(`${server.url}/sign-in`);
  await page.getByLabel('Token').fill(READ);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL(`${server.url}/`);
  expect(await verdict().textContent()).toContain('first full sync');
  h.live.pausedSince = Date.now();
  await expect
    .poll(
      async () => {
        await page.getByRole('link', { name: 'Reload' }).click();
        return verdict().textContent();
      },
      { timeout: WAIT_MS },
    )
    .toContain('The mirror is paused');
  expect(await page.getByRole('button', { name: 'Resume' }).count()).toBe(0);
});

test('a hostile id stays text, and nothing of it runs', async () => {
  const hostile = '"><img src=x onerror="document.title=1"><script>document.title=2</script>';
  await h.store.openGap({ reason: 'unresolved', kind: 'vendor', recordId: hostile }, hostile, h.now());
  await signInByLink(OPERATE);
  await page.locator('[data-live][data-state="live"]').waitFor();
  expect(await page.locator('.gaps .error').textContent()).toBe(hostile);
  expect(await page.title()).toMatch(/compliance mirror$/);
  expect(complaints).toEqual([]);
});

test('on a phone a gap that only a person can end shows its button, also where it has no error', async () => {
  await h.store.openGap({ reason: 'restored', kind: 'risk_assessment', recordId: null }, null, h.now());
  await h.store.openGap({ reason: 'silence', kind: null, recordId: null }, null, h.now());
  await signInByLink(OPERATE);
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(`${server.url}/gaps`);
  const resolve = page.getByRole('button', { name: 'Nothing is missing any more: resolve' });
  expect(await resolve.isVisible()).toBe(true);
  await toNextPage(() => resolve.click());
  await page.getByText('The gap is resolved.').waitFor();
  expect(await page.locator('td.gone').count()).toBe(1);
  expect(await page.locator('td.gone').isVisible()).toBe(false);
  expect(complaints).toEqual([]);
});

test('a very long id takes no other column of a list its place', async () => {
  const id = `evt_${'long-'.repeat(50)}`;
  const usual = 'evt_7c9e6679-7425-40de-944b-e07fc1f90ae7';
  const events = [incoming({ id, recordId: id }), incoming({ id: usual })];
  await h.store.accept({ events, unusable: [] }, h.now(), { settleMs: 1 });
  await h.mirror('vendor', id, { name: 'Acme' });
  await h.mirror('vendor', usual, { name: 'Acme' });
  await signInByLink(READ);
  for (const list of ['events', 'records/vendor']) {
    await page.goto(`${server.url}/${list}`);
    const whole = page.getByRole('link', { name: usual });
    expect((await whole.boundingBox())!.height, list).toBeLessThan(30);
    const table = page.locator('section.scroll');
    expect(await table.evaluate((box) => box.scrollWidth - box.clientWidth), list).toBeLessThanOrEqual(0);
  }
});

test('a full sync whose list is read, and that checks what it lacks, has no empty bar', async () => {
  const running = { kind: 'vendor', pages: 9, records_per_second: null, seconds_left: null } as const;
  const started_at = new Date().toISOString();
  h.live.runningSyncRuns = [
    { ...running, id: 1, seen: 400, estimated_total: 400, started_at },
    { ...running, id: 2, seen: 100, estimated_total: 400, started_at },
  ];
  await signInByLink(READ);
  const drawn = await page.evaluate(
    "[...document.querySelectorAll('.running progress')].map((bar) => [bar.position, getComputedStyle(bar).backgroundImage !== 'none'])",
  );
  expect(drawn).toEqual([
    [-1, true],
    [0.25, false],
  ]);
});

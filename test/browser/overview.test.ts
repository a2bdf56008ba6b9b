import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { PROBLEMS } from '../../src/mirror/problems.ts';
import { signInLink } from '../../src/ops/tokens.ts';
import { type Harness, incoming, NOTHING_SYNCED, OPERATE, opsHarness, READ } from '../ops/harness.ts';
import { failPending } from '../support/pending.ts';
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
    await h.store.finishSyncRun(
      fullSync.id,
      { outcome: 'complete', error: null, progress, listed: true },
      h.now(),
    );
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
  await page.getByRole('heading', { name: 'The mirror is catching up: 1 event waits' }).waitFor();
  await h.store.openProblem({ reason: 'paused', kind: null, recordId: null }, null, h.now());
  await page.getByRole('heading', { name: PROBLEMS.paused.sentence, level: 1 }).waitFor();
  expect(await page.title()).toBe(`${PROBLEMS.paused.sentence} · compliance mirror`);
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

test('the buttons do what they say, by keyboard too, and keep the focus when the page changes', async () => {
  await signInByLink(OPERATE);
  await page.locator('[data-live][data-state="live"]').waitFor();
  await page.locator('#pause').focus();
  await h.store.accept({ events: [incoming()], unusable: [] }, h.now(), { settleMs: 1000 });
  await page.locator('[data-part="deliveries"]', { hasText: '1 event waits' }).waitFor();
  expect(await page.evaluate('document.activeElement.id')).toBe('pause');
  await toNextPage(() => page.keyboard.press('Enter'));
  await toNextPage(() => page.locator('#resume').click());
  await toNextPage(() => page.getByRole('button', { name: 'Full sync now' }).click());
  expect(h.asked).toEqual(['pause', 'resume', 'sync policy,risk_assessment,vendor operator:olga']);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL(`${server.url}/sign-in`);
  expect(complaints).toEqual([]);
});

test('a new verdict is read out, once, by an element that was there before', async () => {
  await signInByLink(READ);
  await page.locator('[data-live][data-state="live"]').waitFor();
  const said = page.locator('main > [role="status"]');
  await said.filter({ hasText: 'first full sync' }).waitFor();
  await page.evaluate("document.querySelector('main > [role=status]').dataset.marked = 'yes'");
  await h.store.openProblem({ reason: 'paused', kind: null, recordId: null }, null, h.now());
  await page.locator('main > [role="status"][data-marked]', { hasText: 'The mirror is paused' }).waitFor();
  expect(await said.count()).toBe(1);
});

test('a page in the background asks for nothing, but for the overview, and goes on when it is looked at', async () => {
  await signInByLink(OPERATE);
  const tab = await context.newPage();
  const hide = (isHidden: boolean) =>
    tab.evaluate(`Object.defineProperty(document, 'hidden', { configurable: true, value: ${isHidden} })`);
  await tab.goto(`${server.url}/syncs`);
  await tab.locator('[data-live][data-state="live"]').waitFor();
  await hide(true);
  let asked = 0;
  tab.on('request', () => {
    asked += 1;
  });
  await h.store.openProblem({ reason: 'paused', kind: null, recordId: null }, null, h.now());
  await expect.poll(() => page.title(), { timeout: WAIT_MS }).toContain('The mirror is paused');
  for (let more = 0; more < 3; more += 1) await page.waitForResponse(`${server.url}/`);
  // One may have been under way.
  expect(asked).toBeLessThan(2);
  await h.store.startSyncRun('vendor', 'test', h.now());
  await hide(false);
  await tab.getByRole('link', { name: '1 · vendors' }).waitFor();
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

test('on a phone a problem that only a person can end shows its button, also where it has no error', async () => {
  await h.store.openProblem({ reason: 'restored', kind: 'risk_assessment', recordId: null }, null, h.now());
  await signInByLink(OPERATE);
  await page.setViewportSize({ width: 360, height: 780 });
  await page.goto(server.url);
  const resolve = page.getByRole('button', { name: 'Resolve' });
  expect(await resolve.isVisible()).toBe(true);
  await toNextPage(() => resolve.click());
  await page.getByText('The problem is resolved.').waitFor();
  expect(complaints).toEqual([]);
});

test('without scripts a person signs in, and what a form did is said once', async () => {
  await context.close();
  await newContext({ javaScriptEnabled: false });
  await h.store.accept({ events: [incoming()], unusable: [] }, h.now(), { settleMs: 1000 });
  await failPending(h.store, h.now(), 'of no use');
  await page.goto(`${server.url}/deliveries/evt_1`);
  await page.getByLabel('Token').fill(OPERATE);
  await page.getByRole('button', { name: 'Sign in' }).click();
  // Back to where the door was met.
  await page.waitForURL(`${server.url}/deliveries/evt_1`);
  await page.getByRole('button', { name: 'Dismiss' }).click();
  await page.getByText('The delivery is dismissed.').waitFor();
  await page.reload();
  await page.getByText('accepted, dismissed').waitFor();
  expect(await page.getByText('The delivery is dismissed.').count()).toBe(0);
});

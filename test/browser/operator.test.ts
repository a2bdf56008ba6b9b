import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { PROBLEMS } from '../../src/mirror/problems.ts';
import { signInLink } from '../../src/ops/tokens.ts';
import { launchBrowser, TEST_MS, WAIT_MS } from './browser.ts';
import { OLGA, type RealService, RITA, startRealService } from './real-service.ts';

const WAIT = { timeout: WAIT_MS };
vi.setConfig({ testTimeout: TEST_MS, hookTimeout: TEST_MS });

let browser: Browser;
let service: RealService;
let context: BrowserContext;
let page: Page;
let complaints: string[];

beforeAll(async () => {
  [browser, service] = await Promise.all([launchBrowser(), startRealService()]);
});
afterAll(async () => {
  await browser.close();
  await service.stop();
});

beforeEach(async () => {
  service.release();
  complaints = [];
  context = await browser.newContext({ viewport: { width: 1200, height: 900 } });
  page = await context.newPage();
  page.setDefaultTimeout(WAIT.timeout);
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
});
afterEach(() => context.close());

async function signIn(token = OLGA): Promise<void> {
  await page.goto(signInLink(service.opsUrl, token));
  await page.waitForURL(`${service.opsUrl}/`);
}

interface Status {
  at: string;
  events: { pending: number };
  kinds: { unverified: number; last_full_sync_at: string | null }[];
  sync_runs: { running: unknown[] };
}

async function status(): Promise<Status> {
  const response = await fetch(`${service.opsUrl}/api/status`, {
    headers: { authorization: `Bearer ${OLGA}` },
  });
  return (await response.json()) as Status;
}

const isSynced = ({ events, kinds, sync_runs }: Status) =>
  events.pending === 0 &&
  sync_runs.running.length === 0 &&
  kinds.every((kind) => kind.last_full_sync_at !== null && kind.unverified === 0);

/** Every kind was fully synced, and nothing is left to do of whatever was delivered before this was called. */
async function syncedOnce(): Promise<void> {
  const calledAt = Date.now();
  const seen = new Set<string>();
  await expect
    .poll(async () => {
      const now = await status();
      // One answer stands for a second, and may have been begun before: the next one was not.
      if (Date.parse(now.at) >= calledAt) seen.add(now.at);
      return seen.size > 1 && isSynced(now);
    }, WAIT)
    .toBe(true);
}

test('an operator starts a full sync, watches its bar grow, and sees what it found', async () => {
  await syncedOnce();
  service.vendors.set('ven_05', { id: 'ven_05', name: 'Vendor 5', status: 'changed in silence' });
  service.hold();
  await signIn();
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Syncs' }).click();
  await page.locator('[data-live][data-state="live"]').waitFor();
  await page.getByRole('button', { name: 'Full sync of the vendors' }).click();
  await page.getByText('The full sync is requested').waitFor();
  const bar = page.getByRole('progressbar', { name: 'Reading the vendors' });
  await bar.waitFor();
  for (let pages = 0; pages < 3; pages += 1) {
    const before = Number(await bar.getAttribute('value'));
    await service.answerOne();
    await expect.poll(async () => Number(await bar.getAttribute('value')), WAIT).toBeGreaterThan(before);
  }
  service.release();
  await bar.waitFor({ state: 'detached' });
  await page.locator('[data-part="rows"] tbody tr', { hasText: '1 different' }).getByRole('link').click();
  await page.getByText('0 new, 0 deleted upstream, 1 different. 1 of them repaired.').waitFor();
  await page.getByRole('link', { name: 'vendor ven_05' }).click();
  await page.locator('article', { hasText: 'Changed' }).getByText('"changed in silence"').first().waitFor();
  expect(complaints).toEqual([]);
});

test('an operator sees which deletions wait, approves them, and they are carried out', async () => {
  await syncedOnce();
  const gone = [...service.vendors.keys()].slice(-10);
  for (const id of gone) service.vendors.delete(id);
  await signIn();
  await page.getByRole('button', { name: 'Full sync now' }).click();
  await page.getByRole('heading', { name: PROBLEMS.pending_deletions.sentence, level: 1 }).waitFor();
  await page.getByRole('link', { name: 'Look at the deletions' }).click();
  const pending = page.getByRole('region', { name: 'Vendors' });
  // Each is proven gone for itself, and the first opens the problem.
  const shown = async () => {
    await page.reload();
    return pending.getByRole('rowheader').allTextContents();
  };
  await expect.poll(shown, WAIT).toEqual(gone);
  expect(await pending.getByRole('cell', { name: 'Vendor 30' }).count()).toBe(1);
  await page.getByRole('button', { name: 'approve the deletion of 10 vendors' }).click();
  // The browser itself asks for the box first.
  expect(await page.getByText('approved, for one hour').count()).toBe(0);
  await page.getByRole('checkbox').check();
  await page.getByRole('button', { name: 'approve the deletion of 10 vendors' }).click();
  await page.getByText('10 deletions approved, for one hour.').waitFor();
  await expect
    .poll(async () => {
      await page.goto(`${service.opsUrl}/records/vendor?deleted=true`);
      return page.locator('tbody tr').count();
    }, WAIT)
    .toBe(10);
  expect(complaints).toEqual([]);
});

test('what a reader posts is refused', async () => {
  await signIn(RITA);
  await page.goto(`${service.opsUrl}/deliveries?state=failed`);
  expect(await page.getByRole('button', { name: /Retry|Dismiss/ }).count()).toBe(0);
  await page.evaluate(`(() => {
    const form = document.querySelector('form[action="/sign-out"]');
    form.action = '/api/pause';
    form.submit();
  })()`);
  await page.getByRole('heading', { name: 'This token may only read.' }).waitFor();
  // Chromium notes every answer of 400 and more; that one is meant.
  expect(complaints.filter((text) => !/403/.test(text))).toEqual([]);
});

test('a token that is taken out of its file ends its sessions at once', async () => {
  await signIn(RITA);
  await page.locator('[data-live][data-state="live"]').waitFor();
  service.writeTokens(`olga:operate:${OLGA}`);
  await page.waitForURL(/\/sign-in/);
  await page.getByLabel('Token').fill(RITA);
  await page.keyboard.press('Enter');
  await page.getByText('This token is not known.').waitFor();
  service.writeTokens(`olga:operate:${OLGA},rita:read:${RITA}`);
});

import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
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
  backlog: { events: number };
  deliveries: { last_hour: { quarantined: number; rejected: Record<string, number> } };
  kinds: { unverified: number; last_full_sync_at: string | null }[];
  sync_runs: { running: unknown[] };
}

async function status(): Promise<Status> {
  const response = await fetch(`${service.opsUrl}/api/status`, {
    headers: { authorization: `Bearer ${OLGA}` },
  });
  return (await response.json()) as Status;
}

const isSynced = ({ backlog, kinds, sync_runs }: Status) =>
  backlog.events === 0 &&
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

test('an operator sees deliveries arrive, without a reload', async () => {
  await signIn();
  await page.locator('[data-live][data-state="live"]').waitFor();
  await page.evaluate(() => Object.assign(globalThis, { sameDocument: true }));
  const tile = page.locator('[data-part="deliveries"]');
  await tile.getByText('No delivery has arrived yet: what to do next').waitFor();
  for (let n = 0; n < 3; n += 1) await service.deliver('vendor.updated', { vendorId: 'ven_01' });
  await tile.locator('.big', { hasText: /^3 accepted/ }).waitFor();
  await tile.getByText('3 in the last minute').waitFor();
  expect(await tile.locator('svg rect.ok').count()).toBeGreaterThan(0);
  // Another range, and the page goes on as it is.
  await tile.getByRole('link', { name: 'week' }).click();
  await tile.getByText('accepted in the last week').waitFor();
  expect(new URL(page.url()).search).toBe('?range=week');
  expect(await page.evaluate(() => 'sameDocument' in globalThis)).toBe(true);
  expect(complaints).toEqual([]);
});

test('an operator starts a full sync, watches its bar grow, and sees what it found', async () => {
  await syncedOnce();
  service.vendors.set('ven_05', { id: 'ven_05', name: 'Vendor 5', status: 'changed in silence' });
  service.hold();
  await signIn();
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Sync runs' }).click();
  await page.locator('[data-live][data-state="live"]').waitFor();
  await page.getByRole('checkbox', { name: 'policies' }).uncheck();
  await page.getByRole('checkbox', { name: 'risk assessments' }).uncheck();
  await page.getByRole('button', { name: 'Full sync now' }).click();
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
  await page.locator('[data-part="ended"] tbody tr', { hasText: '1 different' }).getByRole('link').click();
  await page.getByText('0 missing here, 0 gone upstream, 1 different. 1 of them repaired.').waitFor();
  await page.getByRole('link', { name: 'vendor ven_05' }).click();
  await page.locator('article', { hasText: 'Changed' }).getByText('"changed in silence"').first().waitFor();
  expect(complaints).toEqual([]);
});

test('an operator compares without writing, and sees the report', async () => {
  await syncedOnce();
  service.vendors.set('ven_06', { id: 'ven_06', name: 'Vendor 6', status: 'looked at only' });
  await signIn();
  await page.goto(`${service.opsUrl}/sync-runs`);
  await page.getByRole('button', { name: 'Dry run' }).click();
  await page.getByRole('heading', { name: 'Dry run' }).waitFor();
  await page.locator('.dry-run tbody tr', { hasText: 'ven_06' }).getByText('status').waitFor();
  await page.goto(`${service.opsUrl}/records/vendor/ven_06`);
  expect(await page.getByText('looked at only').count()).toBe(0);
  service.vendors.set('ven_06', { id: 'ven_06', name: 'Vendor 6', status: 'approved' });
  expect(complaints).toEqual([]);
});

test('an operator ticks failed events, tries them again, and discards one', async () => {
  const ids = [
    await service.deliver('vendor.updated', {}),
    await service.deliver('vendor.updated', { name: 'of nobody' }),
  ];
  await signIn();
  await expect
    .poll(async () => {
      await page.goto(`${service.opsUrl}/events?state=failed`);
      return page.locator('tbody tr').count();
    }, WAIT)
    .toBe(2);
  await page.getByRole('checkbox', { name: 'Tick all' }).check();
  await page.getByRole('button', { name: 'Retry the ticked' }).click();
  await page.getByText('0 events processed. 2 could not be: the error is beside each.').waitFor();
  expect(new URL(page.url()).searchParams.get('state')).toBe('failed');
  // Their data is as it was, so they die again.
  await expect
    .poll(async () => {
      await page.goto(`${service.opsUrl}/events?state=failed`);
      return page.locator('tbody tr').count();
    }, WAIT)
    .toBe(2);
  await page.getByRole('link', { name: ids[0]! }).click();
  await page.getByRole('heading', { name: ids[0]! }).waitFor();
  await page.getByRole('button', { name: 'Discard' }).click();
  await page.getByText('Discarded.', { exact: true }).waitFor();
  await page.getByRole('link', { name: 'Audit' }).click();
  await page.locator('tbody tr', { hasText: 'event discard' }).filter({ hasText: 'olga' }).first().waitFor();
  expect(await page.locator('tbody tr', { hasText: 'event retry' }).filter({ hasText: 'olga' }).count()).toBe(
    2,
  );
  expect(complaints).toEqual([]);
});

test('an operator sees which deletions wait, approves them, and they are carried out', async () => {
  await syncedOnce();
  const gone = [...service.vendors.keys()].slice(-10);
  for (const id of gone) service.vendors.delete(id);
  await signIn();
  await page.getByRole('button', { name: 'Full sync now' }).click();
  await page.getByRole('heading', { name: '10 deletions wait for your approval.' }).waitFor();
  await page.getByRole('link', { name: 'Look at the 10 deletions' }).click();
  const pending = page.getByRole('region', { name: 'Pending deletions' });
  expect(await pending.getByRole('rowheader').allTextContents()).toEqual(gone);
  expect(await pending.getByRole('cell', { name: 'Vendor 30' }).count()).toBe(1);
  await page.getByRole('button', { name: 'Approve the deletion of 10 vendors' }).click();
  // The browser itself asks for the box first.
  expect(await page.getByText('approved, for one hour').count()).toBe(0);
  await page.getByRole('checkbox').check();
  await page.getByRole('button', { name: 'Approve the deletion of 10 vendors' }).click();
  await page.getByText('10 deletions approved, for one hour.').waitFor();
  await expect
    .poll(async () => {
      await page.goto(`${service.opsUrl}/records/vendor?deleted=yes`);
      return page.locator('tbody tr').count();
    }, WAIT)
    .toBe(10);
  expect(complaints).toEqual([]);
});

test('an operator reads what an event changed in a record, field by field', async () => {
  await syncedOnce();
  service.vendors.set('ven_02', { id: 'ven_02', name: 'Vendor 2, renamed', status: 'approved' });
  const id = await service.deliver('vendor.updated', { vendorId: 'ven_02', name: 'Vendor 2, renamed' });
  await syncedOnce();
  await signIn();
  await page.goto(`${service.opsUrl}/records/vendor?search=vendor+2`);
  await page.getByRole('link', { name: 'ven_02' }).click();
  await page.getByRole('heading', { name: 'Vendor 2, renamed' }).waitFor();
  const change = page.locator('article', { hasText: 'Changed' }).first();
  const row = change.locator('tr', { has: page.getByRole('rowheader', { name: 'name', exact: true }) });
  expect(await row.locator('td').allTextContents()).toEqual(['"Vendor 2"', '"Vendor 2, renamed"']);
  await change.getByRole('link', { name: id }).click();
  await page.getByRole('heading', { name: `Event ${id}`, exact: true }).waitFor();
  expect(await page.locator('pre').first().textContent()).toContain('"name": "Vendor 2, renamed"');
  expect(complaints).toEqual([]);
});

test('an operator finds a rejected delivery by its event id in one step, and sees why', async () => {
  const { id } = await service.forge('vendor.updated', { vendorId: 'ven_03' });
  await signIn();
  await page.getByRole('link', { name: 'Deliveries', exact: true }).first().click();
  await page.keyboard.press('/');
  await page.keyboard.type(id);
  await page.keyboard.press('Enter');
  const row = page.locator('tbody tr', { hasText: id });
  await row.getByText('rejected').waitFor();
  expect(await row.getByText('127.0.0.1').count()).toBe(1);
  expect(await row.getByText('401', { exact: true }).count()).toBe(1);
  await row.getByRole('link').click();
  await page.getByText('No known secret fits').waitFor();
  await page.getByText('As curl').click();
  await page.getByText('v1=SIGNATURE').waitFor();
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByRole('button', { name: 'Copy the command' }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  expect(await page.evaluate('navigator.clipboard.readText()')).toContain(`--data-raw '{"id":"${id}"`);
  expect(complaints).toEqual([]);
});

test('an operator retries a failed event and reads what it came to, once', async () => {
  const id = await service.deliver('vendor.updated', { nothing: 'ven_03' });
  await signIn();
  await expect
    .poll(async () => {
      await page.goto(`${service.opsUrl}/events/${id}`);
      return page.getByRole('button', { name: 'Retry' }).count();
    }, WAIT)
    .toBe(1);
  await page.getByRole('button', { name: 'Retry' }).click();
  await page.getByText('Failed again: the payload holds no id of a vendor').waitFor();
  await page.reload();
  await page.getByRole('heading', { name: id }).waitFor();
  expect(await page.getByText('Failed again').count()).toBe(0);
  await page.getByRole('button', { name: 'Discard' }).click();
  await page.getByText('Discarded.', { exact: true }).waitFor();
  expect(complaints).toEqual([]);
});

test('an operator follows deliveries on their list, and nothing that is read moves', async () => {
  await service.deliver('vendor.updated', { vendorId: 'ven_04' });
  await signIn();
  await page.goto(`${service.opsUrl}/deliveries`);
  await page.locator('[data-live][data-state="live"]').waitFor();
  const first = await page.locator('tbody tr').first().textContent();
  const id = await service.deliver('vendor.updated', { vendorId: 'ven_04' });
  await service.redeliver();
  const news = page.getByRole('link', { name: '2 new deliveries: show them' });
  await news.waitFor();
  expect(await page.locator('tbody tr').first().textContent()).toBe(first);
  await news.click();
  await page.locator('tbody tr', { hasText: id }).getByText('duplicate').waitFor();
  await page.goto(`${service.opsUrl}/deliveries?outcome=duplicate`);
  expect(await page.locator('tbody tr').count()).toBe(1);
  expect(complaints).toEqual([]);
});

test('an operator sees what cannot be used come to the quarantine, and it is not counted as rejected', async () => {
  await signIn();
  await page.goto(`${service.opsUrl}/quarantine`);
  await page.locator('[data-live][data-state="live"]').waitFor();
  await service.deliverUnusable();
  await page.getByRole('link', { name: '1 new delivery: show them' }).click();
  await page.locator('tbody tr', { hasText: 'not an object' }).waitFor();
  await page.getByRole('link', { name: 'Quarantine 1 (1 not released)' }).waitFor();
  const { last_hour } = (await status()).deliveries;
  expect(last_hour.quarantined).toBe(1);
  expect(last_hour.rejected).not.toHaveProperty('not_an_object');
  expect(complaints).toEqual([]);
});

test('an event’s page tells its way and what the API said of it', async () => {
  await syncedOnce();
  service.vendors.set('ven_07', { id: 'ven_07', name: 'Vendor 7, renamed', status: 'approved' });
  const id = await service.deliver('vendor.updated', { vendorId: 'ven_07', name: 'Vendor 7, renamed' });
  await syncedOnce();
  await signIn();
  await page.goto(`${service.opsUrl}/events/${id}`);
  expect(await page.locator('.timeline li > span').allTextContents()).toEqual([
    ...['Created by the sender.', 'Received and stored.', 'Processed.'],
    'Last confirmed by the API.',
  ]);
  await page.getByText('"Vendor 7, renamed"', { exact: true }).first().waitFor();
  expect(complaints).toEqual([]);
});

test('what is no field and value is said so beside the filter, before it is sent', async () => {
  await signIn();
  await page.goto(`${service.opsUrl}/records/vendor`);
  const field = page.getByLabel('Field=value');
  await field.fill('Legal');
  await page.getByRole('button', { name: 'Show' }).click();
  expect(await page.evaluate("document.querySelector('[name=field]').validity.patternMismatch")).toBe(true);
  expect(page.url()).toBe(`${service.opsUrl}/records/vendor`);
  await field.fill('owner.team=Legal');
  await page.getByRole('button', { name: 'Show' }).click();
  await page.waitForURL(/field=owner\.team%3DLegal/);
  expect(complaints).toEqual([]);
});

test('dragging over the chart’s bars leads to what came in their time', async () => {
  const id = await service.deliver('vendor.updated', { vendorId: 'ven_04' });
  await signIn();
  const chart = page.locator('svg[data-brush]');
  // The stream may be putting a new chart in its place.
  const box = await vi.waitUntil(() => chart.boundingBox(), WAIT);
  await page.mouse.move(box.x + box.width - 2, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.up();
  await page.waitForURL(`${service.opsUrl}/deliveries?**`);
  const { searchParams } = new URL(page.url());
  const minutes = (Date.parse(searchParams.get('until')!) - Date.parse(searchParams.get('since')!)) / 60_000;
  expect(minutes).toBe(30);
  await page.locator('tbody tr', { hasText: id }).first().waitFor();
  expect(complaints).toEqual([]);
});

test('without scripts a retry says what it came to, and deliveries are a plain list', async () => {
  const id = await service.deliver('vendor.updated', { nothing: 'ven_08' });
  const bare = await browser.newContext({ javaScriptEnabled: false });
  const plain = await bare.newPage();
  plain.setDefaultTimeout(WAIT.timeout);
  await plain.goto(`${service.opsUrl}/sign-in`);
  await plain.getByLabel('Token').fill(OLGA);
  await plain.keyboard.press('Enter');
  await plain.waitForURL(`${service.opsUrl}/`);
  await expect
    .poll(async () => {
      await plain.goto(`${service.opsUrl}/events/${id}`);
      return plain.getByRole('button', { name: 'Retry' }).count();
    }, WAIT)
    .toBe(1);
  await plain.getByRole('button', { name: 'Retry' }).click();
  await plain.getByText('Failed again: the payload holds no id of a vendor').waitFor();
  await plain.getByRole('button', { name: 'Discard' }).click();
  await plain.goto(`${service.opsUrl}/deliveries?search=${id}`);
  expect(await plain.locator('tbody tr').count()).toBe(1);
  await bare.close();
});

test('a wrong token is refused, and what a reader posts as well', async () => {
  await page.goto(`${service.opsUrl}/events?state=failed`);
  await page.getByLabel('Token').fill('not-the-token-of-anybody');
  await page.keyboard.press('Enter');
  await page.getByText('This token is not known.').waitFor();
  await page.getByLabel('Token').fill(RITA);
  await page.keyboard.press('Enter');
  // Back to where the door was met.
  await page.waitForURL(`${service.opsUrl}/events?state=failed`);
  expect(await page.getByRole('button', { name: /Retry|Discard/ }).count()).toBe(0);
  const csrf = await page.locator('form[action="/sign-out"] input[name="csrf"]').inputValue();
  await page.setContent(
    `<form method="post" action="${service.opsUrl}/actions/pause"><input name="csrf" value="${csrf}"><button>Send</button></form>`,
  );
  await page.getByRole('button').click();
  await page.getByRole('heading', { name: 'This token may only read.' }).waitFor();
  // Chromium notes every answer of 400 and more; those two are meant.
  expect(complaints.filter((text) => !/40[13]/.test(text))).toEqual([]);
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

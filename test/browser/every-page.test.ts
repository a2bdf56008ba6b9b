import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { signInLink } from '../../src/ops/tokens.ts';
import { type Harness, OPERATE, opsHarness, READ } from '../ops/harness.ts';
import { IS_FULL } from '../support/full.ts';
import { launchBrowser, TEST_MS, WAIT_MS } from './browser.ts';
import { listen } from './listener.ts';
import { fillDay, goodHour } from './scene.ts';

/** Set to a folder to have pictures of every page taken on the way, for people to look at. */
const SHOTS = process.env['PAGE_SHOTS'];

vi.setConfig({ testTimeout: 2 * TEST_MS, hookTimeout: TEST_MS });

let browser: Browser;
beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser.close());

const EMPTY = [
  '/',
  '/deliveries',
  '/events',
  '/records/vendor',
  '/gaps',
  '/sync-runs',
  '/quarantine',
  '/rejections',
  '/audit',
];
const pagesOf = ({
  pending,
  synced,
  quarantined,
}: Awaited<ReturnType<typeof fillDay>>): [string, string][] => [
  ['deliveries', '/deliveries'],
  ['deliveries-found', '/deliveries?search=evt_0007'],
  ['events', '/events'],
  ['events-failed', '/events?state=failed'],
  ['events-processed', '/events?state=processed'],
  ['event', '/events/evt_0007'],
  ['event-processed', '/events/evt_0000'],
  ['records', '/records/vendor'],
  ['record', '/records/vendor/ven_0'],
  ['gaps', '/gaps'],
  ['gaps-resolved', '/gaps?show=resolved'],
  ['sync-runs', '/sync-runs'],
  ['sync', `/sync-runs/${synced}`],
  ['full-sync-pending', `/sync-runs/${pending}`],
  ['quarantine', '/quarantine'],
  ['quarantined', `/quarantine/${quarantined}`],
  ['rejections', '/rejections'],
  ['rejection', '/rejections/1'],
  ['audit', '/audit'],
  ['problem', '/nowhere'],
  // Last: what it draws of the day is as old as a few seconds.
  ['status', '/'],
];

const LOOKS = [
  ['wide', 'light', { width: 1280, height: 800 }],
  ['wide', 'dark', { width: 1280, height: 800 }],
  ['phone', 'light', { width: 390, height: 844 }],
] as const;
type Look = (typeof LOOKS)[number];

/** What may be wrong with a service whose tables are all in order, and what its page says then. */
const STATES: readonly (readonly [string, title: string, (live: Harness['live']) => void])[] = [
  ['in-sync', 'The mirror is in sync', () => undefined],
  [
    'unreachable',
    'gives no usable answer',
    (live) => {
      live.unreachableSince = Date.now() - 120_000;
      live.upstream = { ...live.upstream, ok: false, last_error: 'GET /vendors: answered 503' };
    },
  ],
  [
    'paused',
    'The mirror is paused',
    (live) => {
      live.pausedSince = Date.now();
    },
  ],
  [
    'events-only',
    'The mirror shows what the deliveries said',
    (live) => {
      live.eventsOnly = true;
    },
  ],
];

let h: Harness;
let server: Awaited<ReturnType<typeof listen>>;
beforeAll(async () => {
  h = await opsHarness();
  server = await listen(h);
});
afterAll(async () => {
  server.close();
  await h.close();
});

/** What is made by the same code as what stands before it: without `FULL` it is not judged anew. */
const REPEATED = ['tbody tr:nth-child(n+9)', 'svg .bar:nth-child(n+9)'];

/** What is wrong with the pages, a line each; and their pictures, if they are wanted. Each is loaded once and looked at in every way. */
async function faultsOf(
  pages: readonly (readonly [string, string])[],
  token: string,
  looks: readonly Look[] = LOOKS,
): Promise<string[]> {
  const faults: string[] = [];
  const context = await browser.newContext({ timezoneId: 'Europe/Berlin' });
  context.setDefaultTimeout(WAIT_MS);
  const page = await context.newPage();
  let at = '';
  page.on('console', (message) => {
    // Chromium notes every answer of 400 and more; the one that is meant is the page of a problem.
    const isMeant = message.location().url.endsWith('/nowhere');
    if (message.type() === 'error' && !isMeant) faults.push(`${at}: ${message.text()}`);
  });
  page.on('pageerror', (error) => faults.push(`${at}: ${error}`));
  await page.goto(signInLink(server.url, token));
  await page.waitForURL(`${server.url}/`);
  for (const [name, path] of pages) {
    at = path;
    await page.goto(`${server.url}${path}`);
    for (const look of looks) {
      const [size, colorScheme] = look;
      at = `${path}, ${size}, ${colorScheme}`;
      faults.push(...(await faultsAt(page, at, look)));
      await shoot(page, `${name}-${size}-${colorScheme}`);
    }
  }
  await context.close();
  return faults;
}

/** What is wrong with the page that is loaded, looked at in this way. */
async function faultsAt(page: Page, at: string, look: Look): Promise<string[]> {
  const [size, colorScheme, viewport] = look;
  await page.setViewportSize(viewport);
  await page.emulateMedia({ colorScheme });
  const isTooWide = await page.evaluate('document.documentElement.scrollWidth > innerWidth');
  const faults = isTooWide ? [`${at}: too wide`] : [];
  // What does not fit into its place lies over the next one.
  const laidOver = await page.evaluate<string[]>(
    "[...document.querySelectorAll('td, tbody th, dd')].filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent)",
  );
  for (const text of laidOver.slice(0, 3)) faults.push(`${at}: lies over what is beside it: ${text}`);
  // A phone has it all once more, in one column.
  return IS_FULL || size === 'wide' ? [...faults, ...(await axeFaults(page, at, look))] : faults;
}

test('no empty page is at fault, and each says what to expect', async () => {
  const pages = EMPTY.map((path) => [`empty${path.replaceAll('/', '-')}`, path] as const);
  // What they have besides words stands on the full ones, too.
  expect(await faultsOf(pages, READ, IS_FULL ? LOOKS : LOOKS.slice(0, 1))).toEqual([]);
});

test('the status page is not at fault in any state, and its first screen says all that counts', async () => {
  const good = await goodHour();
  const there = await listen(good);
  const { live } = good;
  const context = await browser.newContext();
  context.setDefaultTimeout(WAIT_MS);
  const page = await context.newPage();
  await page.goto(signInLink(there.url, OPERATE));
  await page.waitForURL(`${there.url}/`);
  for (const [state, title, bring] of STATES) {
    const before = { ...live };
    bring(live);
    // A snapshot stands for a second, or until somebody changes something.
    const change = live.pausedSince === null ? 'resume' : 'pause';
    await page.request.post(`${there.url}/api/${change}`, {
      headers: { authorization: `Bearer ${OPERATE}` },
    });
    await page.goto(`${there.url}/`);
    expect(await page.title()).toContain(title);
    for (const look of LOOKS) {
      const [size, colorScheme, viewport] = look;
      expect(await faultsAt(page, `${state}, ${size}, ${colorScheme}`, look)).toEqual([]);
      await shoot(page, `status-${state}-${size}-${colorScheme}`);
      if (size === 'wide') {
        const cards = (await page.locator('[data-part="vendor"]').boundingBox())!;
        expect(cards.y + cards.height, state).toBeLessThan(viewport.height);
        expect(await page.evaluate('document.documentElement.scrollHeight'), state).toBeLessThan(1500);
      }
    }
    Object.assign(live, before);
  }
  await context.close();
  there.close();
  await good.close();
});

test('no page of a service in its day is at fault', async () => {
  const pages = pagesOf(await fillDay(h));
  const last_error = `GET /vendors/${'v'.repeat(180)}: answered 503`;
  h.live.upstream = { ...h.live.upstream, ok: false, last_error };
  expect(await faultsOf(pages, OPERATE)).toEqual([]);
});

async function axeFaults(page: Page, at: string, [size, colorScheme]: Look): Promise<string[]> {
  // There are no frames; the other mode opens a page of its own for each look.
  const axe = new AxeBuilder({ page }).setLegacyMode().options({ resultTypes: ['violations'] });
  if (!IS_FULL) for (const rest of REPEATED) axe.exclude(rest);
  // The dark scheme changes colours and nothing else, a phone everything else.
  if (colorScheme === 'dark') axe.withRules(['color-contrast']);
  else if (size === 'phone') axe.disableRules(['color-contrast']);
  const { violations } = await axe.analyze();
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(
      ({ id, nodes }) =>
        `${at}: ${id} ${nodes
          .map(({ target }) => target.join(' '))
          .join(', ')
          .slice(0, 300)}`,
    );
}

async function shoot(page: Page, name: string): Promise<void> {
  if (SHOTS === undefined) return;
  mkdirSync(SHOTS, { recursive: true });
  await page.screenshot({ path: join(SHOTS, `${name}.png`), fullPage: true });
}

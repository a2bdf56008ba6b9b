import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { signInLink } from '../../src/ops/tokens.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { type Harness, OPERATE, opsHarness, READ } from '../ops/harness.ts';
import { IS_FULL } from '../support/full.ts';
import { launchBrowser, TEST_MS, WAIT_MS } from './browser.ts';
import { listen } from './listener.ts';
import { beat, fillDay, goodHour } from './scene.ts';

/** Set to a folder to have pictures of every page taken on the way, for people to look at. */
const SHOTS = process.env['PAGE_SHOTS'];

const DAY_MS = 86_400_000;

vi.setConfig({ testTimeout: 2 * TEST_MS, hookTimeout: TEST_MS });

let browser: Browser;
beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser.close());

const EMPTY = ['/', '/deliveries', '/records/vendor', '/syncs', '/audit'];
const pagesOf = ({ synced }: Awaited<ReturnType<typeof fillDay>>): [string, string][] => [
  ['deliveries', '/deliveries'],
  ['delivery-accepted', '/deliveries/evt_0000'],
  ['delivery-failed', '/deliveries/evt_0007'],
  ['delivery-rejected', '/deliveries/rejection:1'],
  ['records', '/records/vendor'],
  ['record', '/records/vendor/ven_0'],
  ['syncs', '/syncs'],
  ['sync', `/syncs/${synced}`],
  ['records-pending', '/records/vendor?deletion_pending=true'],
  ['audit', '/audit'],
  ['problem', '/nowhere'],
  // Last: what it draws of the day is as old as a few seconds.
  ['overview', '/'],
];

const ALL_LOOKS = [
  ['wide', 'light', { width: 1280, height: 800 }],
  ['wide', 'dark', { width: 1280, height: 800 }],
  ['phone', 'light', { width: 360, height: 780 }],
  ['phone', 'dark', { width: 360, height: 780 }],
] as const;
type Look = (typeof ALL_LOOKS)[number];
const LOOKS: readonly Look[] = IS_FULL ? ALL_LOOKS : ALL_LOOKS.slice(0, 1);

/** What may be wrong with a service whose tables are all in order, and what its page says then. */
const STATES: readonly (readonly [string, title: string, (h: Harness) => unknown])[] = [
  ['well', 'All that the mirror knows is confirmed', () => undefined],
  [
    'unreachable',
    'gives no usable answer',
    async ({ live, store, now }) => {
      const last_error = 'GET /vendors: answered 503';
      live.upstream = { ...live.upstream, ok: false, last_error };
      await store.openProblem({ reason: 'unreachable', kind: null, recordId: null }, last_error, now());
    },
  ],
  [
    'paused',
    'The mirror is paused',
    ({ store, now }) => store.openProblem({ reason: 'paused', kind: null, recordId: null }, null, now()),
  ],
  [
    'events-only',
    'The mirror shows what the deliveries said',
    async (h) => {
      h.live.service.events_only = true;
      await beat(h, true);
    },
  ],
];

/** How far behind its day a service's clock is while it is filled: an instant of another day is shown with its date. */
let behindMs = 0;
let h: Harness;
let server: Awaited<ReturnType<typeof listen>>;
beforeAll(async () => {
  const { steady, sleep } = systemClock();
  h = await opsHarness({ clock: { wall: () => Date.now() - behindMs, steady, sleep } });
  server = await listen(h);
});
afterAll(async () => {
  server.close();
  await h.close();
});

/** Those that have what is on all others. The whole is for the nightly run. */
const JUDGED = ['deliveries', 'delivery-rejected', 'record', 'records-pending', 'sync', 'overview'];

/** What is made by the same code as what stands before it: without `FULL` it is not judged anew. */
const REPEATED = ['tbody tr:nth-child(n+9)', 'svg .bar:nth-child(n+9)'];

/** What is wrong with the pages, a line each; and their pictures, if they are wanted. Each is loaded once and looked at in every way. */
async function faultsOf(pages: readonly (readonly [string, string])[], token: string): Promise<string[]> {
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
    for (const look of LOOKS) {
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
  const [, colorScheme, viewport] = look;
  await page.setViewportSize(viewport);
  await page.emulateMedia({ colorScheme });
  const isTooWide = await page.evaluate('document.documentElement.scrollWidth > innerWidth');
  const faults = isTooWide ? [`${at}: too wide`] : [];
  const tabs = await page.locator('nav.pages').boundingBox();
  if (tabs !== null && tabs.height > 50) faults.push(`${at}: the tabs need more than one line`);
  // What does not fit into its place lies over the next one.
  const laidOver = await page.evaluate<string[]>(
    "[...document.querySelectorAll('td, tbody th, dd')].filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent)",
  );
  for (const text of laidOver.slice(0, 3)) faults.push(`${at}: lies over what is beside it: ${text}`);
  // A phone has it all once more, in one column.
  return [...faults, ...(await axeFaults(page, at, look))];
}

test.runIf(IS_FULL)('no empty page is at fault, and each says what to expect', async () => {
  const pages = EMPTY.map((path) => [`empty${path.replaceAll('/', '-')}`, path] as const);
  expect(await faultsOf(pages, READ)).toEqual([]);
});

test.runIf(IS_FULL)(
  'the overview is not at fault in any state, and its first screen says all that counts',
  async () => {
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
      await beat(good);
      await bring(good);
      // A snapshot stands for a second, or until somebody changes something.
      await page.request.post(`${there.url}/api/syncs`, {
        headers: { authorization: `Bearer ${OPERATE}` },
      });
      await page.goto(`${there.url}/`);
      expect(await page.title()).toContain(title);
      for (const look of LOOKS) {
        const [size, colorScheme, viewport] = look;
        expect(await faultsAt(page, `${state}, ${size}, ${colorScheme}`, look)).toEqual([]);
        await shoot(page, `overview-${state}-${size}-${colorScheme}`);
        if (size === 'wide') {
          const cards = (await page.locator('[data-part="vendor"]').boundingBox())!;
          expect(cards.y + cards.height, state).toBeLessThan(viewport.height);
          expect(await page.evaluate('document.documentElement.scrollHeight'), state).toBeLessThan(1700);
        }
        Object.assign(live, before);
      }
      Object.assign(live, before);
      await good.store.endProblem({ reason: 'paused', kind: null, recordId: null }, good.now());
    }
    await context.close();
    there.close();
    await good.close();
  },
);

test('no page of a service is at fault on the day after what it shows', async () => {
  behindMs = DAY_MS;
  const pages = pagesOf(await fillDay(h));
  behindMs = 0;
  const last_error = `GET /vendors/${'v'.repeat(180)}: answered 503`;
  h.live.upstream = { ...h.live.upstream, ok: false, last_error };
  expect(await faultsOf(IS_FULL ? pages : pages.filter(([name]) => JUDGED.includes(name)), OPERATE)).toEqual(
    [],
  );
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

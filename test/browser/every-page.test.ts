import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { signInLink } from '../../src/ops/tokens.ts';
import { type Harness, OPERATE, opsHarness, READ } from '../ops/harness.ts';
import { launchBrowser, TEST_MS, WAIT_MS } from './browser.ts';
import { listen } from './listener.ts';
import { fillDay } from './scene.ts';

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
  ['events-failed', '/events?state=failed&told=retried.3.1'],
  ['event', '/events/evt_0007'],
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
  ['wide', 'light', { width: 1200, height: 900 }],
  ['wide', 'dark', { width: 1200, height: 900 }],
  ['phone', 'light', { width: 375, height: 812 }],
] as const;

describe.each(LOOKS)('at %s size, %s', (size, colorScheme, viewport) => {
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

  /** What is wrong with the pages, a line each; and their pictures, if they are wanted. */
  async function faultsOf(pages: readonly (readonly [string, string])[], token: string): Promise<string[]> {
    const faults: string[] = [];
    // The dark scheme changes colours and nothing else.
    const rules = colorScheme === 'light' ? 'all' : 'colours';
    const context = await browser.newContext({ colorScheme, viewport, timezoneId: 'Europe/Berlin' });
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
      if (await page.evaluate('document.documentElement.scrollWidth > innerWidth'))
        faults.push(`${path}: too wide`);
      faults.push(...(await axeFaults(page, path, rules)));
      await shoot(page, `${name}-${size}-${colorScheme}`);
    }
    await context.close();
    return faults;
  }

  test('no empty page is at fault, and each says what to expect', async () => {
    const pages = EMPTY.map((path) => [`empty${path.replaceAll('/', '-')}`, path] as const);
    expect(await faultsOf(pages, READ)).toEqual([]);
  });

  test('no page of a service in its day is at fault', async () => {
    expect(await faultsOf(pagesOf(await fillDay(h)), OPERATE)).toEqual([]);
  });
});

async function axeFaults(page: Page, path: string, rules: 'all' | 'colours'): Promise<string[]> {
  // There are no frames; the other mode opens a page of its own for each look.
  const axe = new AxeBuilder({ page }).setLegacyMode();
  const { violations } = await (rules === 'all' ? axe : axe.withRules(['color-contrast'])).analyze();
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(
      ({ id, nodes }) =>
        `${path}: ${id} ${nodes
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

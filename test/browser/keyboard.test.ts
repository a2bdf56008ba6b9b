import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { signInLink } from '../../src/ops/tokens.ts';
import { type Harness, OPERATE, opsHarness } from '../ops/harness.ts';
import { launchBrowser, TEST_MS, WAIT_MS } from './browser.ts';
import { listen } from './listener.ts';
import { fillDay } from './scene.ts';

/** More stops than any page has: a focus that goes round in circles ends there. */
const MOST_STOPS = 600;

vi.setConfig({ testTimeout: TEST_MS, hookTimeout: TEST_MS });

let browser: Browser;
let page: Page;
let h: Harness;
let server: Awaited<ReturnType<typeof listen>>;

beforeAll(async () => {
  browser = await launchBrowser();
  h = await opsHarness();
  await fillDay(h);
  server = await listen(h);
  page = await (await browser.newContext({ viewport: { width: 1200, height: 900 } })).newPage();
  page.setDefaultTimeout(WAIT_MS);
  await page.goto(signInLink(server.url, OPERATE));
  await page.waitForURL(`${server.url}/`);
});
afterAll(async () => {
  await browser.close();
  server.close();
  await h.close();
});

interface Stop {
  /** Its place among all that can be reached, in the order of the document; -1: none of these. */
  index: number;
  name: string;
  /** Something is drawn around it that is not there without the focus. */
  isVisible: boolean;
}

/** Marks what must be reachable. Returns what each is called. */
const mark = () =>
  page.evaluate<string[]>(`(() => {
    const reachable = [...document.querySelectorAll(
      'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]')]
      .filter((element) => element.checkVisibility() && !element.matches(':disabled'));
    reachable.forEach((element, index) => { element.dataset.stop = index; });
    return reachable.map((element) => element.tagName + ' ' + element.textContent.trim().slice(0, 30));
  })()`);

const focused = () =>
  page.evaluate<Stop | null>(`(() => {
    const element = document.activeElement;
    if (element === null || element === document.body) return null;
    const { outlineStyle, outlineWidth } = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    return {
      index: Number(element.dataset.stop ?? -1),
      name: element.tagName + ' ' + element.textContent.trim().slice(0, 30),
      isVisible: outlineStyle !== 'none' && parseFloat(outlineWidth) >= 1.5 && box.bottom > 0 && box.top < innerHeight,
    };
  })()`);

/** Every stop from the top of the page on, until the focus leaves it. */
async function walk(): Promise<Stop[]> {
  const stops: Stop[] = [];
  await page.evaluate('document.activeElement?.blur()');
  for (let presses = 0; presses < MOST_STOPS; presses += 1) {
    await page.keyboard.press('Tab');
    const stop = await focused();
    if (stop === null || stop.index === stops[0]?.index) return stops;
    stops.push(stop);
  }
  throw new Error('the focus never leaves the page');
}

const PAGES = ['/', '/deliveries/rejection:1', '/records/vendor?deletion_pending=true'];

test.each(PAGES)('Tab reaches every control of %s in its order, and each shows it', async (path) => {
  // The page never hears anything new: a tile that is replaced on the way takes the focus's place with it.
  await page.route('**', (route) =>
    route.request().resourceType() === 'fetch' ? undefined : route.continue(),
  );
  await page.goto(`${server.url}${path}`);
  const names = await mark();
  const stops = await walk();
  const reached = new Set(stops.map((stop) => stop.index));
  expect(names.filter((_, index) => !reached.has(index))).toEqual([]);
  const order = stops.map((stop) => stop.index);
  expect(order).toEqual([...order].sort((a, b) => a - b));
  expect(stops.filter((stop) => !stop.isVisible).map((stop) => stop.name)).toEqual([]);
  await page.unroute('**');
});

/** Tab until the control of that name has the focus. */
async function tabTo(name: string): Promise<void> {
  for (let presses = 0; presses < MOST_STOPS; presses += 1) {
    await page.keyboard.press('Tab');
    const here = await page.evaluate<string>(
      "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim()",
    );
    if (here === name) return;
  }
  throw new Error(`${name} is not reached`);
}

test('without a mouse, an operator dismisses a failed event', async () => {
  const [failed] = (await h.store.list('deliveries', { state: 'failed', limit: 1 })).items;
  await page.goto(`${server.url}/deliveries/${failed!.id}`);
  await tabTo('Dismiss');
  await page.keyboard.press('Enter');
  await page.getByText('The delivery is dismissed.').waitFor();
  expect((await h.store.show('deliveries', failed!.id))?.state).toBe('dismissed');
});

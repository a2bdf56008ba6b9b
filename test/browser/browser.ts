import chromium from '@sparticuz/chromium';
import { type Browser, chromium as driver } from 'playwright-core';

/**
 * Arguments of the package that a small cloud function needs and a test must not have: with one process, closing
 * a page ends the browser, and without web security the page's own defences would not be what is tested.
 */
const UNWANTED =
  /^--(headless|single-process|no-zygote|disable-web-security|allow-running-insecure-content|disable-site-isolation|disable-features|enable-features)/;

/** Chromium from its package: nothing is installed by hand, and it talks to nobody but the page. */
export async function launchBrowser(): Promise<Browser> {
  return driver.launch({
    executablePath: await chromium.executablePath(),
    args: [
      ...chromium.args.filter((arg) => !UNWANTED.test(arg)),
      // The tests may run as root, where Chromium has no sandbox.
      '--no-sandbox',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--no-first-run',
    ],
    headless: true,
  });
}

import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import chromium from '@sparticuz/chromium';
import { type Browser, chromium as driver } from 'playwright-core';
import project from '../../package.json' with { type: 'json' };

/** Only what hangs is ended by it, on however busy a machine. Milliseconds; a test makes several waits. */
export const WAIT_MS = 60_000;
export const TEST_MS = 300_000;

/**
 * Arguments of the package that a small cloud function needs and a test must not have: with one process, closing
 * a page ends the browser, and without web security the page's own defences would not be what is tested. A graphics card played in
 * software takes a fifth of the time, and no page here needs one.
 */
const UNWANTED =
  /^--(headless|single-process|no-zygote|disable-web-security|allow-running-insecure-content|disable-site-isolation|disable-features|enable-features|use-gl|use-angle|enable-unsafe-swiftshader|ignore-gpu-blocklist|in-process-gpu)/;

/** Chromium from its package: nothing is installed by hand, and it talks to nobody but the page. */
export async function launchBrowser(): Promise<Browser> {
  return driver.launch({
    executablePath: await unpacked(),
    args: [
      ...chromium.args.filter((arg) => !UNWANTED.test(arg)),
      // The tests may run as root, where Chromium has no sandbox.
      '--no-sandbox',
      '--disable-gpu',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--no-first-run',
    ],
    headless: true,
  });
}

/** Beside the executable lies what it loads, so that the folder is the whole of it. */
const UNPACKED = fileURLToPath(
  new URL(
    `../../node_modules/.cache/chromium/${project.devDependencies['@sparticuz/chromium']}`,
    import.meta.url,
  ),
);

/**
 * The package unpacks into the folder for temporary files and takes whatever is there already for whole, though
 * another test file may be writing it at that moment. So each unpacks into a folder of its own, and the first to be
 * done gives it the name that all look for.
 */
async function unpacked(): Promise<string> {
  const executable = join(UNPACKED, 'chromium');
  if (existsSync(executable)) return executable;
  await mkdir(dirname(UNPACKED), { recursive: true });
  const own = await mkdtemp(`${UNPACKED}-`);
  try {
    // In a process of its own: where it unpacks to is told by the environment alone.
    const script = "await (await import('@sparticuz/chromium')).default.executablePath()";
    await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], {
      cwd: import.meta.dirname,
      env: { ...process.env, TMPDIR: own },
    });
    await rename(own, UNPACKED).catch((error: unknown) => {
      if (!existsSync(executable)) throw error;
    });
  } finally {
    await rm(own, { recursive: true, force: true });
  }
  return executable;
}

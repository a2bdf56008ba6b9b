import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cli, start } from '../cli/executable.ts';

/** Both services, a few seconds of trouble and settling, and a slow machine. */
const TIMEOUT_MS = 200_000;

let directory: string;
/** So that what the demo leaves behind is seen. */
let settings: Record<string, string>;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-test-'));
  // Settings of a mirror of one's own must not reach the demo's.
  settings = {
    TMPDIR: directory,
    WEBHOOK_TOLERANCE_SECONDS: 'nonsense',
    COMPLIANCE_BASE_URL: 'https://elsewhere/v1',
  };
});
// What was told to end by the death of the demo may still be putting its files away.
afterAll(() => rmSync(directory, { recursive: true, force: true, maxRetries: 20 }));

/** Resolves once nothing answers at `url` any more. */
async function silence(url: string): Promise<void> {
  for (;;) {
    try {
      await (await fetch(url)).body?.cancel();
    } catch {
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** A demo in trouble, and the addresses of both services. */
async function inTrouble() {
  const demo = start(['demo'], settings);
  const lines = [await demo.line('sign in: '), await demo.line('Page of the sandbox')];
  await demo.line('trouble: ');
  return { demo, urls: lines.map((line) => new URL(/http\S+/.exec(line)![0]).origin) };
}

describe('the demo', { timeout: TIMEOUT_MS, concurrent: true }, () => {
  it('ends with what differed and what repaired it, and with --tamper exits 3 and names the one field', async () => {
    const { code, out, err } = await cli(['demo', '--for', '4s', '--tamper'], settings, { own: true });
    // Before it waits for anything.
    expect(out).toMatch(/^Starting the sandbox and the mirror/);
    expect(out).toMatch(/\n *[\d.]+ s {2}settled\n/);
    expect(out).toMatch(/\nThese differed, and what repaired them:\n\nRECORD +KIND +WHY/);
    const edited = /tampered: status of (vendor \S+) edited/.exec(out)?.[1];
    expect({ code, err }).toEqual({
      code: 3,
      err: expect.stringMatching(
        new RegExp(`\\n${edited}: status \\(mirror: "tampered with", upstream: "[\\w ]+"\\)\\n`),
      ),
    });
    // Nothing else differs: without the hand of somebody else they were equal.
    expect(err.split('\n').filter((line) => /^(policy|vendor|risk_assessment) /.test(line))).toHaveLength(1);
    expect(out).not.toContain('Equal');
  });

  it('at Ctrl-C compares as well, exits 0 since both are equal, and takes both services and its files along', async () => {
    const { demo, urls } = await inTrouble();
    demo.child.kill('SIGINT');
    await demo.line('Equal, record by record and field by field: ');
    expect(await demo.exited).toBe(0);
    await Promise.all(urls.map(silence));
  });
});

it('a run that came to its end leaves no files', () => {
  expect(readdirSync(directory)).toEqual([]);
});

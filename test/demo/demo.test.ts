import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cli, type Running, start } from '../cli/executable.ts';

/** Both services, fifteen seconds of scenario and settling, and a slow machine. */
const TIMEOUT_MS = 400_000;

let directory: string;
/** So that what the demo leaves behind is seen. */
let settings: Record<string, string>;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-test-'));
  // A database server started by root runs as a user of its own.
  chmodSync(directory, 0o711);
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

async function addresses(demo: ReturnType<typeof start>): Promise<string[]> {
  const lines = [await demo.line('Sandbox, '), await demo.line('sign in: ')];
  return lines.map((line) => new URL(/http\S+/.exec(line)![0]).origin);
}

describe('the demo', () => {
  it(
    'of a given length ends equal, after differences whose resolving causes it names',
    async () => {
      const { code, out, err } = await cli(['demo', '--for', '5s'], settings);
      expect({ code, err }).toEqual({ code: 0, err: '' });
      const row = (story: string) =>
        out.split('\n').find((line) => / {2,}/.test(line) && line.includes(`  ${story}  `));
      expect(row('lost delete of a policy')).toMatch(/^\S+ +policy .* sync:\d+ +deleted_at$/);
      expect(row('lost delete of a vendor')).toMatch(/^\S+ +vendor .* (sync:\d+|refetch) +deleted_at$/);
      expect(row('overtaken update')).toMatch(/^\S+ +policy .* (sync:\d+|refetch|event:\S+) .*data\.owner/);
      expect(row('assessment whose first event was lost')).toMatch(
        /^\S+ +risk_assessment .*(refetch|sync:\d+) +\(missing\)$/,
      );
      // Before it waits for anything.
      expect(out).toMatch(/^Starting the sandbox and the mirror/);
      expect(out).toMatch(/\nEqual, record by record and field by field: \d+ policies/);
      // One is staged; which others are lost on the way is chance.
      expect(out).toMatch(/\n[1-9]\d* risk assessments? (was|were) never announced, and the API lists none/);
      expect(readdirSync(directory)).toEqual([]);
    },
    TIMEOUT_MS,
  );

  it(
    'with --tamper exits 3 and names the record and the field',
    async () => {
      const { code, out, err } = await cli(['demo', '--for', '4s', '--tamper'], settings);
      const edited = /tampered: status of (vendor \S+) edited/.exec(out)?.[1];
      expect({ code, err }).toEqual({
        code: 3,
        err: expect.stringMatching(
          new RegExp(`\\n${edited}: status \\(mirror: "tampered with", upstream: "[\\w ]+"\\)\\n`),
        ),
      });
      expect(out).not.toContain('Equal');
      expect(readdirSync(directory)).toEqual([]);
    },
    TIMEOUT_MS,
  );

  it(
    'with --postgres runs the same story over two replicas and a real PostgreSQL',
    async () => {
      const { code, out, err } = await cli(['demo', '--postgres', '--for', '5s', '--tamper'], settings);
      const edited = /tampered: status of (vendor \S+) edited/.exec(out)?.[1];
      expect({ code, err }).toEqual({
        code: 3,
        err: expect.stringContaining(`\n${edited}: status (mirror: "tampered with", upstream: `),
      });
      // Nothing else differs: without the hand of somebody else they were equal.
      expect(err.split('\n').filter((line) => /^(policy|vendor|risk_assessment) /.test(line))).toHaveLength(
        1,
      );
      // The list scan that misses it has it read by itself: either may be the one that ends it.
      expect(out).toMatch(/ {2,}lost delete of a vendor {2,}.* (sync:\d+|refetch)/);
      expect(readdirSync(directory)).toEqual([]);
    },
    TIMEOUT_MS,
  );

  it.each([
    ['until SIGINT', ({ child }: Running) => child.kill('SIGINT')],
    ['while somebody reads what it prints', ({ child }: Running) => child.stdout!.destroy()],
  ])(
    'without a length runs %s, and takes both services and its files along',
    async (_, stop) => {
      const demo = start(['demo'], settings);
      const urls = await addresses(demo);
      await demo.line('lost delete of a vendor');
      stop(demo);
      expect(await demo.exited).toBe(0);
      await Promise.all(urls.map(silence));
      expect(readdirSync(directory)).toEqual([]);
    },
    TIMEOUT_MS,
  );

  it(
    'leaves no process behind when it is killed',
    async () => {
      const demo = start(['demo'], settings);
      const urls = await addresses(demo);
      demo.child.kill('SIGKILL');
      await demo.exited;
      await Promise.all(urls.map(silence));
    },
    TIMEOUT_MS,
  );
});

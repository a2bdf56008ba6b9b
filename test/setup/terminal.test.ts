import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { freePorts } from '../support/ports.ts';
import { KEY, PLAIN, type ShapedUpstream, startShaped } from './shaped-upstream.ts';

const MAIN = fileURLToPath(new URL('../../dist/src/main.js', import.meta.url));

/** That of util-linux; others have other options. */
const hasScript = spawnSync('script', ['--version']).stdout?.toString().includes('util-linux') ?? false;

/** It takes some seconds; a question that nobody answers would wait for ever. */
const LIMIT_MS = 60_000;
const ENTER = '\r';
const CTRL_C = '\x03';
const CTRL_D = '\x04';

let folder: string;
let upstream: ShapedUpstream;
let child: ChildProcess;
let screen = '';
let ended: Promise<number | null>;
let seenTo = 0;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'compliance-mirror-terminal-'));
  upstream = await startShaped(PLAIN);
  const [port, opsPort] = await freePorts(2);
  [screen, seenTo] = ['', 0];
  child = spawn(
    'script',
    ['-qefc', `stty cols 80 rows 40; '${process.execPath}' '${MAIN}' setup`, '/dev/null'],
    {
      cwd: folder,
      env: {
        PATH: process.env['PATH'],
        HOME: folder,
        TERM: 'xterm',
        PORT: String(port),
        OPS_PORT: String(opsPort),
        COMPLIANCE_REQUESTS_PER_MINUTE: '6000',
        SYNC_SETTLE_SECONDS: '0.2',
      },
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  );
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    screen += text;
  });
  ended = new Promise<number | null>((resolve) => child.once('close', resolve));
});
afterEach(async () => {
  child.kill('SIGKILL');
  await upstream.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Once `part` stands on the screen behind where the last answer was given. */
async function until(part: string): Promise<void> {
  await expect
    .poll(() => screen.slice(seenTo), { timeout: LIMIT_MS, interval: 20, message: screen })
    .toContain(part);
  seenTo = screen.indexOf(part, seenTo) + part.length;
}

async function answer(question: string, text: string): Promise<void> {
  await until(question);
  child.stdin?.write(text);
}

describe.skipIf(!hasScript)('setup on a terminal', () => {
  it(
    'ends with a verified mirror, and shows no secret',
    async () => {
      await answer('Address of the API', upstream.baseUrl + ENTER);
      await answer('sign in with', ENTER);
      await answer('  API key', 'a-wrong-key\r');
      await until('no such key');
      await answer('sign in with', ENTER);
      await answer('  API key', KEY + ENTER);
      await answer('is registered in the compliance', ENTER);
      await answer('reaches this receiver', ENTER);
      await answer('Write it?', ENTER);
      await answer('Register http', ENTER);
      await until('Waiting for a first delivery');
      await upstream.emit();
      await until('What doctor says');
      expect([await ended, screen]).toEqual([0, expect.stringContaining('policy: in_sync, 5 records')]);
      expect(screen).not.toContain(KEY);
      expect(screen).not.toContain(PLAIN.secret);
      expect(readFileSync(join(folder, 'secrets', 'compliance-api-key'), 'utf8')).toBe(`${KEY}\n`);
    },
    LIMIT_MS,
  );

  it.each([
    ['Ctrl-C', CTRL_C],
    ['Ctrl-D', CTRL_D],
  ])(
    '%s while a secret is asked for ends it, and leaves no file',
    async (_, key) => {
      await answer('Address of the API', upstream.baseUrl + ENTER);
      await answer('sign in with', ENTER);
      await answer('  API key', `half-a-secret`);
      child.stdin?.write(key);
      expect(await ended).toBe(1);
      expect(screen).toContain('stopped before the end');
      expect(screen).not.toContain('half-a-secret');
      expect(existsSync(join(folder, '.env'))).toBe(false);
    },
    LIMIT_MS,
  );
});

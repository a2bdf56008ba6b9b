import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { KINDS } from '../../src/compliance/kinds.ts';
import { DEFAULT_ID_POINTERS } from '../../src/compliance/pointers.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { eventually } from '../convergence/service.ts';
import { cli } from './executable.ts';
import { type ServiceHere, serviceHere } from './service-here.ts';

const MAIN = new URL('../../dist/src/main.js', import.meta.url).pathname;
const hasScript = spawnSync('script', ['--version']).stdout?.toString().includes('util-linux') ?? false;
const TOKEN = 'approving-operator-0123456789-of-thirt';

let folder: string;
let settings: Record<string, string>;
let running: ServiceHere;

const now = () => ({ wall: Date.now(), steady: Date.now() });

async function withStore<T>(work: (store: Store) => Promise<T>): Promise<T> {
  const store = await openStore(settings['DATABASE_URL']!);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}
const hold = (...ids: string[]) =>
  withStore(async (store) => {
    const objects = ids.map((id) => ({ id, json: JSON.stringify({ id, name: `Name of ${id}` }) }));
    const read = { number: await store.currentNumber(), beganAt: 0, endedAt: 1, endedWall: Date.now() };
    const cause = { cause: 'refetch', causeId: null } as const;
    const context = { cause, syncRunId: null, timing: { settleMs: 1 }, pointers: DEFAULT_ID_POINTERS };
    await store.applyReads('vendor', objects, read, context);
    for (const id of ids) await store.askToDelete('vendor', id, 'not listed', now());
  });
/** How many wait for a person. */
const waiting = () =>
  withStore(async (store) => {
    const pending = await Promise.all(KINDS.map((kind) => store.pendingOf(kind, Date.now())));
    return pending.reduce((sum, { count, approvedUntil }) => sum + (approvedUntil === null ? count : 0), 0);
  });

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'compliance-mirror-deletions-'));
  settings = {
    DATABASE_URL: `file:${join(folder, 'mirror.db')}`,
    PORT: '0',
    OPS_PORT: '0',
    OPS_TOKENS: `olga:operate:${TOKEN}`,
    WEBHOOK_SECRETS: 'deletions-secret-0123456789',
    LOG_LEVEL: 'fatal',
  };
  running = await serviceHere(settings);
});
afterAll(async () => {
  await running.stop();
  rmSync(folder, { recursive: true, force: true });
});

beforeEach(async () => {
  await hold('ven-2', 'ven-1');
  await eventually('the problem', async () => (await problem()) !== undefined);
});
const problem = async (): Promise<{ id: number } | undefined> =>
  JSON.parse((await cli(['problems', 'reason=pending_deletions', '--json'], settings)).out).items[0];
const keep = async (...rest: string[]) =>
  cli(['problems', 'keep', String((await problem())!.id), ...rest], settings);

// Approving comes by the same words.
it.skipIf(!hasScript)('approve asks at a terminal, and goes by the answer', async () => {
  const command = `stty cols 80; '${process.execPath}' '${MAIN}' problems approve ${(await problem())!.id}`;
  for (const [keys, code, left] of [
    ['\r', 1, 2],
    ['\u001b[A\r', 0, 0],
  ] as const) {
    const child = spawn('script', ['-qefc', command, '/dev/null'], {
      cwd: folder,
      env: { PATH: process.env['PATH'], TERM: 'dumb', ...settings },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    let screen = '';
    let isAsked = false;
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      screen += text;
      if (isAsked || !/as well\?.*Enter: confirm/s.test(screen)) return;
      isAsked = true;
      child.stdin.write(keys);
    });
    expect([(await once(child, 'close'))[0], await waiting()]).toEqual([code, left]);
  }
});

it('keep shows what it is about, decides nothing where nobody can be asked, and takes the digest of what was shown', async () => {
  const { code, out, err } = await keep();
  expect(code).toBe(2);
  expect(out).toMatch(/\nven-1 +Name of ven-1 .*\nven-2 /);
  const [, digest = ''] = /nothing is changed yet.*problems keep \d+ --digest (\S+)\)/.exec(err) ?? [];
  const refused = await keep('--digest', 'of-something-else');
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('have changed since') });
  expect(await waiting()).toBe(2);
  expect((await keep('--digest', digest)).code).toBe(0);
  expect([await waiting(), await problem()]).toEqual([0, undefined]);
});

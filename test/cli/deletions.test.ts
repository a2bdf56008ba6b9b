import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { cli, type Running, start } from './executable.ts';

const MAIN = new URL('../../dist/src/main.js', import.meta.url).pathname;
const hasScript = spawnSync('script', ['--version']).stdout?.toString().includes('util-linux') ?? false;
const TOKEN = 'approving-operator-0123456789';

let folder: string;
let settings: Record<string, string>;
let fullSync: number;
let running: Running | null;

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
    for (const id of ids) await store.addPendingDeletion('vendor', id, fullSync, now());
  });
const waiting = () =>
  withStore(async (store) =>
    (await store.listPendingDeletions({}, { limit: 500 }))
      .filter(({ approved_until: at }) => at === null || Date.parse(at) <= Date.now())
      .map(({ id }) => id),
  );

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'compliance-mirror-deletions-'));
  settings = {
    DATABASE_URL: `file:${join(folder, 'mirror.db')}`,
    PORT: '0',
    OPS_PORT: '0',
    OPS_TOKENS: `olga:operate:${TOKEN}`,
    WEBHOOK_SECRETS: 'deletions-secret-0123456789',
    LOG_LEVEL: 'fatal',
  };
  running = null;
  fullSync = (await withStore((store) => store.startSyncRun('vendor', 'test', now()))).id;
  await hold('ven-2', 'ven-1');
});
afterEach(async () => {
  running?.child.kill('SIGKILL');
  await running?.exited;
  rmSync(folder, { recursive: true, force: true });
});

describe.each(['without a service', 'beside a running service'])('deletions approve %s', (where) => {
  beforeEach(async () => {
    if (where === 'without a service') return;
    running = start(['serve'], settings);
    await running.line('Operators: ');
  });
  const confirm = (...rest: string[]) => cli(['deletions', 'approve', String(fullSync), ...rest], settings);

  it('is what the list leads to', async () => {
    const listed = await cli(['deletions', 'list', '--json'], settings);
    const { items, next } = JSON.parse(listed.out);
    expect({ items, next }).toMatchObject({
      items: [
        { sync_run_id: fullSync, kind: 'vendor', id: 'ven-1', approved_until: null },
        { sync_run_id: fullSync, kind: 'vendor', id: 'ven-2', approved_until: null },
      ],
      next: null,
    });
    expect((await cli(['deletions', 'list'], settings)).out).toMatch(/vendor +ven-1/);
  });

  it('shows what is pending, and approves nothing where nobody can be asked', async () => {
    const { code, out, err } = await confirm();
    expect(code).toBe(2);
    expect(out).toContain('  ven-1\n  ven-2\n');
    expect(err).toMatch(/nothing is approved yet.*deletions approve \d+ --yes \S+/);
    expect(await waiting()).toEqual(['ven-1', 'ven-2']);
  });

  it('takes the digest of what was shown, until something else waits', async () => {
    const digest = /--yes ([^\s)]+)/.exec((await confirm()).err)![1]!;
    await hold('ven-3');
    const refused = await confirm('--yes', digest);
    expect(refused.code).toBe(1);
    expect(refused.err).toContain('pending deletions have changed since they were shown');
    expect(await waiting()).toEqual(['ven-1', 'ven-2', 'ven-3']);

    const again = /--yes ([^\s)]+)/.exec((await confirm()).err)![1]!;
    const { code, out } = await confirm('--yes', again);
    expect({ code, out }).toMatchObject({
      code: 0,
      out: expect.stringContaining('  ven-1\n  ven-2\n  ven-3\n'),
    });
    expect(await waiting()).toEqual([]);
  });

  it('says that nothing is deleted before the end of a pause', async () => {
    await cli(['pause'], settings);
    const digest = /--yes ([^\s)]+)/.exec((await confirm()).err)![1]!;
    expect((await confirm('--yes', digest)).out).toContain('which begins after "resume"');
  });
});

it.skipIf(!hasScript).each([
  ['no', 1, ['ven-1', 'ven-2']],
  ['yes', 0, []],
] as const)('deletions approve asks at a terminal, and %j is exit code %i', async (answer, code, left) => {
  const command = `'${process.execPath}' '${MAIN}' deletions approve ${fullSync}`;
  const child = spawn('script', ['-qefc', command, '/dev/null'], {
    cwd: folder,
    env: { PATH: process.env['PATH'], TERM: 'dumb', ...settings },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let screen = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    screen += text;
    if (screen.endsWith('Type yes to approve: ')) child.stdin.write(`${answer}\r`);
  });
  expect([(await once(child, 'close'))[0], await waiting()]).toEqual([code, left]);
});

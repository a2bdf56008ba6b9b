import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { cli, type Running, start } from './executable.ts';

const TOKEN = 'consenting-operator-0123456789';

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
    for (const id of ids) await store.holdForApproval('vendor', id, fullSync, now());
  });
const waiting = () =>
  withStore(async (store) => (await store.pendingDeletions(Date.now())).map((one) => one.id));

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'compliance-mirror-consent-'));
  settings = {
    DATABASE_URL: `file:${join(folder, 'mirror.db')}`,
    PORT: '0',
    OPS_PORT: '0',
    OPS_TOKENS: `olga:operate:${TOKEN}`,
    WEBHOOK_SECRETS: 'consent-secret-0123456789',
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
    expect(JSON.parse(listed.out)).toEqual([{ sync_run_id: fullSync, kind: 'vendor', count: 2 }]);
    expect((await cli(['deletions', 'list'], settings)).out).toMatch(/vendor +2/);
  });

  it('shows what is held, and agrees to nothing where nobody can be asked', async () => {
    const { code, out, err } = await confirm();
    expect(code).toBe(2);
    expect(out).toContain('  ven-1\n  ven-2\n');
    expect(err).toMatch(/nothing is approved yet.*deletions approve \d+ --yes \S+/);
    expect(await waiting()).toEqual(['ven-1', 'ven-2']);
  });

  it('takes the digest of what was shown for consent, until something else is held', async () => {
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
});

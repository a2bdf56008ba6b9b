import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { cli, inTemporaryDirectory, type Running, start } from './executable.ts';

let directory: string;
let sandbox: Running;
let service: Running;
let settings: Record<string, string>;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-test-'));
  const known = join(directory, 'risk-ids');
  writeFileSync(known, Array.from({ length: 50 }, (_, number) => `assessment-${number}`).join('\n'));
  sandbox = start(['sandbox', '--port', '0']);
  settings = {
    PORT: '0',
    OPS_PORT: '0',
    DATABASE_URL: `file:${join(directory, 'mirror.db')}`,
    COMPLIANCE_BASE_URL: (await sandbox.line('Sandbox: ')).replace('Sandbox: ', ''),
    COMPLIANCE_API_KEY: 'a-key-that-was-taken-back',
    COMPLIANCE_REQUESTS_PER_MINUTE: '3000',
    RISK_IDS_FILE: known,
    WEBHOOK_SECRETS: randomBytes(32).toString('hex'),
    SYNC_FULL_MINUTES: '0',
  };
  service = start(['serve'], settings);
  await service.line('Operators: ');
});
afterAll(async () => {
  expect(await service.stop()).toBe(0);
  expect(await sandbox.stop()).toBe(0);
  rmSync(directory, { recursive: true, force: true });
});

it('what ended incomplete is seen in its sync run, because a first failure opens no gap', async () => {
  await inTemporaryDirectory(async (folder) => {
    // Without a cycle beside it: where that goes on failing, a full sync that takes its time is not waited for either.
    const its = { ...settings, DATABASE_URL: `file:${join(folder, 'mirror.db')}`, RISK_IDS_FILE: '' };
    const listing = start(['serve'], its);
    await listing.line('Operators: ');
    const { code, out, err } = await cli(['sync', 'policy', '--wait'], its);
    expect(code).toBe(1);
    const number = /\n *(\d+) +policy +incomplete /.exec(out)?.[1] ?? '';
    expect(err).toContain('not complete: policy');
    const shown = await cli(['sync', 'show', number], its);
    expect(shown.out).toContain('answered 401');
    expect(await listing.stop()).toBe(0);
  });
});

import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
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

it('a full sync of the assessments is not waited for without end while the API refuses every read', async () => {
  const { code, err } = await cli(['sync', '--kind', 'risk_assessment', '--wait'], settings);
  expect(code).toBe(1);
  expect(err).toContain('not complete: risk_assessment');
  expect(err).toContain('answered 401');
  expect(err).toContain('"status"');
});

it('what ended incomplete is seen in its sync run, because a first failure opens no gap', async () => {
  await inTemporaryDirectory(async (folder) => {
    // Without a cycle beside it: where that goes on failing, a full sync that takes its time is not waited for either.
    const its = { ...settings, DATABASE_URL: `file:${join(folder, 'mirror.db')}`, RISK_IDS_FILE: '' };
    const listing = start(['serve'], its);
    await listing.line('Operators: ');
    const { code, out, err } = await cli(['sync', '--kind', 'policy', '--wait'], its);
    expect(code).toBe(1);
    const number = /Sync run (\d+) of policy: /.exec(out)?.[1] ?? '';
    expect(err).toContain('"sync-runs show NUMBER"');
    const shown = await cli(['sync-runs', 'show', number], its);
    expect(shown.out).toContain('answered 401');
    expect(await listing.stop()).toBe(0);
  });
});

it('waits for the end, and ends with its exit code, also where nobody reads its output any more', () => {
  const main = new URL('../../dist/src/main.js', import.meta.url).pathname;
  const command = `"${process.execPath}" "${main}" sync --kind risk_assessment --wait | :; echo "\${PIPESTATUS[0]}"`;
  const env = { ...process.env, ...settings };
  expect(spawnSync('bash', ['-c', command], { env, encoding: 'utf8' }).stdout).toBe('1\n');
});

it('says within 15 seconds that the compliance service has asked for a pause', async () => {
  const busy = createServer((_request, response) => {
    response.writeHead(503, { 'retry-after': '600' }).end();
  });
  await new Promise<void>((resolve) => busy.listen(0, '127.0.0.1', resolve));
  await inTemporaryDirectory(async (folder) => {
    const its = {
      ...settings,
      DATABASE_URL: `file:${join(folder, 'mirror.db')}`,
      COMPLIANCE_BASE_URL: `http://127.0.0.1:${(busy.address() as AddressInfo).port}/v1`,
    };
    const paused = start(['serve'], its);
    await paused.line('Operators: ');
    const commands = ['--wait', '--dry-run'].map((option) =>
      start(['sync', '--kind', 'vendor', option], its),
    );
    for (const command of commands) {
      expect(await command.line('compliance service: ')).toMatch(/waits until .* \(Retry-After\)$/);
      await command.stop();
    }
    expect(await paused.stop()).toBe(0);
  });
  busy.close();
}, 30_000);

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { resolveOptions } from '../../sandbox/options.ts';
import { loadSeed } from '../../sandbox/seed.ts';
import { UsageError } from '../../src/platform/errors.ts';
import { cli, start } from '../cli/executable.ts';
import { testSandbox } from './support.ts';

function file(content: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'sandbox-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'file');
  writeFileSync(path, content);
  return path;
}

describe('the command', () => {
  test('listens where its options say, shows what was made for the run, and keeps to itself what was given', async () => {
    const sandbox = start(['sandbox', '--port', '0', '--redirect-uri', 'http://127.0.0.1:7999/back'], {
      SANDBOX_API_KEY: 'a-key-that-was-given, another-key',
    });
    let said = '';
    sandbox.child.stdout!.on('data', (text: Buffer) => {
      said += String(text);
    });
    const url = /http\S+/.exec(await sandbox.line('Sandbox: '))![0];
    expect(await sandbox.line('OAuth: ')).toMatch(/client sandbox-client$/);
    expect(await sandbox.line('redirects')).toMatch(/redirects to \S+:7999\/back$/);
    expect(await sandbox.line('sandbox-reader')).toMatch(/scopes read$/);
    expect(await sandbox.line('secret of sandbox-reader')).toMatch(/ sandbox_secret_\w+$/);
    const headers = { authorization: 'Bearer another-key' };
    expect((await fetch(`${url}/vendors`, { headers })).status).toBe(200);
    expect(await sandbox.stop()).toBe(0);
    expect(said).not.toMatch(/that-was-given|another-key/);
  });

  test.each([
    ['SANDBOX_TOKEN', { SANDBOX_TOKEN: 'hunter2' }, /too short/],
    ['SANDBOX_TOKEN_FILE', { SANDBOX_TOKEN_FILE: '/nowhere/at/all' }, /cannot be read/],
  ])('a guard that is no guard is refused: %s (%#)', async (name, settings, why) => {
    const { code, err } = await cli(['sandbox', '--port', '0'], settings);
    expect([code, err]).toEqual([2, expect.stringContaining(name)]);
    expect(err).toMatch(why);
    expect(err).not.toContain('hunter2');
  });
});

describe('options', () => {
  test.each(['0.0.0.0', '127.0.0.1.example'])(
    'beyond loopback (%s) it does not start without a token',
    (host) => {
      expect(() => resolveOptions({ host })).toThrow(/SANDBOX_TOKEN/);
      expect(resolveOptions({ host, token: 'sixteen characters' }).host).toBe(host);
    },
  );

  test.each(['127.1.2.3', '[::1]', 'localhost'])('on loopback (%s) it does', (host) => {
    expect(resolveOptions({ host }).token).toBeNull();
  });

  test('without an API key one is made, another each time', () => {
    const [first] = resolveOptions({}).apiKeys;
    expect(first).toMatch(/^sandbox_[0-9a-f]{48}$/);
    expect(resolveOptions({}).apiKeys[0]).not.toBe(first);
  });
});

describe('a seed file', () => {
  test('is what the sandbox starts with: rows keep their fields and get what they lack', async () => {
    const path = file(
      JSON.stringify({
        policies: [
          { name: 'Named', policyId: 'p-1', status: 'odd', version: '7' },
          { name: 'Bare', id: 9 },
        ],
        riskAssessments: [{ name: 'Flood', description: 'Water' }, { riskAssessmentId: 'r-x' }],
        vendors: [{ name: 'With a list', domains: ['a.example'], id: 'vendor-0002' }, { name: 'Second' }],
      }),
    );
    const { control } = await testSandbox({ seed: loadSeed(path) });
    expect((await control('GET', '/state')).body).toMatchObject({
      policies: [
        { name: 'Named', policyId: 'p-1', status: 'odd', version: '7' },
        { name: 'Bare', policyId: '9', status: 'draft', version: '1.0' },
      ],
      riskAssessments: [
        { id: 'risk-0001', name: 'Flood', description: 'Water', status: 'identified' },
        { id: 'r-x', riskAssessmentId: 'r-x', status: 'identified' },
      ],
      vendors: [
        { id: 'vendor-0002', name: 'With a list', domains: ['a.example'], status: 'prospective' },
        { id: 'vendor-0002x', name: 'Second', status: 'prospective' },
      ],
    });
  });

  test.each([
    ['{', /JSON/],
    ['{"vendor":[]}', /vendor/],
    ['{"policies":[{"version":"1"}]}', /policies\[0\].*name/s],
    ['{"vendors":[{"id":"a"},{"id":"a"}]}', /vendors\[1\].*earlier row, a/],
    ['{"vendors":[{"id":""}]}', /vendors\[0\].*id/],
  ])('%s is refused with the reason', (content, reason) => {
    const load = () => loadSeed(file(content));
    expect(load).toThrow(UsageError);
    expect(load).toThrow(reason);
  });

  test('that is not there is refused by name', () => {
    expect(() => loadSeed('/nowhere/seed.json')).toThrow(/nowhere\/seed\.json/);
    expect(() => loadSeed('/nowhere/seed.json')).toThrow(UsageError);
  });
});

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { resolveOptions, sandboxOptionsFromEnv, sandboxSettingNames } from '../../sandbox/options.ts';
import { introduction, startSandbox } from '../../sandbox/sandbox.ts';
import { loadSeed } from '../../sandbox/seed.ts';
import { UsageError } from '../../src/platform/errors.ts';
import { testSandbox } from './support.ts';

function file(content: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'sandbox-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'file');
  writeFileSync(path, content);
  return path;
}

describe('settings', () => {
  test('are read from the environment, and only what is set', () => {
    expect(sandboxOptionsFromEnv({ PATH: '/bin', SANDBOX_HOST: '' })).toEqual({});
    const options = sandboxOptionsFromEnv({
      SANDBOX_HOST: '0.0.0.0',
      SANDBOX_PORT: '0',
      SANDBOX_TOKEN: 'sixteen characters',
      SANDBOX_API_KEY: 'first, second',
      SANDBOX_SEED_NUMBER: '42',
      SANDBOX_TIME_SCALE: '2.5',
      SANDBOX_PAGE_SIZE: '7',
      SANDBOX_MAX_PAGE_SIZE: '9',
      SANDBOX_RATE_LIMIT: '60',
      SANDBOX_WEBHOOK_SECRET: 'also sixteen or more',
    });
    expect(options).toMatchObject({
      host: '0.0.0.0',
      port: 0,
      token: 'sixteen characters',
      apiKeys: ['first', 'second'],
      seedNumber: 42,
      timeScale: 2.5,
      shapes: { paging: { size: 7, maxSize: 9 } },
      faults: { rateLimit: 60 },
      signing: { secret: 'also sixteen or more' },
    });
    expect(resolveOptions(options)).toMatchObject({
      shapes: { paging: { size: 7, maxSize: 9, by: 'page' } },
      faults: { rateLimit: 60, drop: 0 },
      signing: { secret: 'also sixteen or more', algorithm: 'sha256' },
    });
  });

  test('name the OAuth client and the service accounts, in part or whole', () => {
    const given = sandboxOptionsFromEnv({
      SANDBOX_CLIENT_ID: 'mine',
      SANDBOX_REDIRECT_URI: 'http://127.0.0.1:7999/back',
      SANDBOX_SERVICE_ACCOUNTS: 'one:0123456789abcdef:read policies:write, two:fedcba9876543210:vendors:read',
      SANDBOX_TOKEN_SECONDS: '90',
    });
    const { oauth } = resolveOptions(given);
    expect(oauth.application).toEqual({
      id: 'mine',
      secret: expect.stringMatching(/^sandbox_secret_/),
      redirectUri: 'http://127.0.0.1:7999/back',
    });
    expect(oauth.serviceAccounts).toEqual([
      { id: 'one', secret: '0123456789abcdef', scopes: ['read', 'policies:write'] },
      { id: 'two', secret: 'fedcba9876543210', scopes: ['vendors:read'] },
    ]);
    expect(oauth.accessTokenSeconds).toBe(90);
  });

  test('that were made for the run are shown at its start, those that were given are not', async () => {
    const made = await startSandbox({ port: 0 });
    const lines = introduction(made, {}).join('\n');
    await made.close();
    const { application, serviceAccounts } = made.oauth;
    for (const secret of [
      application.secret,
      made.apiKeys[0]!,
      ...serviceAccounts.map((one) => one.secret),
    ]) {
      expect(lines).toContain(secret);
    }
    const env = {
      SANDBOX_API_KEY: 'a-key-that-was-given',
      SANDBOX_CLIENT_SECRET: 'a-secret-that-was-given',
      SANDBOX_SERVICE_ACCOUNTS: 'one:a-secret-that-was-given:read',
    };
    const given = sandboxOptionsFromEnv(env);
    const sandbox = await startSandbox({ ...given, port: 0 });
    await sandbox.close();
    expect(introduction(sandbox, given).join('\n')).not.toContain('that-was-given');
  });

  test('can come from files', () => {
    const path = file('a token from a file\n');
    expect(sandboxOptionsFromEnv({ SANDBOX_TOKEN_FILE: path })).toEqual({ token: 'a token from a file' });
    expect(sandboxOptionsFromEnv({ SANDBOX_PORT_FILE: file('9191\n') })).toEqual({ port: 9191 });
  });

  test.each([
    [
      'given twice',
      () => ({ SANDBOX_TOKEN: 'a token of its own', SANDBOX_TOKEN_FILE: file('another token that is') }),
    ],
    ['empty', () => ({ SANDBOX_TOKEN_FILE: file('\n') })],
  ])('a guard that is %s is a mistake, and not no guard', (_what, env) => {
    expect(() => sandboxOptionsFromEnv(env())).toThrow(/^SANDBOX_TOKEN(_FILE: .* is empty$| and )/);
  });

  test('are known by name, each with its file', () => {
    const names = sandboxSettingNames();
    for (const name of ['SANDBOX_PORT', 'SANDBOX_PORT_FILE', 'SANDBOX_RATE_LIMIT', 'SANDBOX_TOKEN_SECONDS']) {
      expect(names).toContain(name);
    }
    expect([...names].filter((name) => !name.startsWith('SANDBOX_'))).toEqual([]);
  });

  test.each([
    ['SANDBOX_PORT', '70000'],
    ['SANDBOX_PORT', '80a'],
    ['SANDBOX_HOST', 'a b'],
    ['SANDBOX_TOKEN', 'short'],
    ['SANDBOX_API_KEY', 'one,,two'],
    ['SANDBOX_SEED_NUMBER', '-1'],
    ['SANDBOX_TIME_SCALE', '0'],
    ['SANDBOX_TIME_SCALE', 'fast'],
    ['SANDBOX_PAGE_SIZE', '0'],
    ['SANDBOX_MAX_PAGE_SIZE', '1.5'],
    ['SANDBOX_RATE_LIMIT', '0'],
    ['SANDBOX_WEBHOOK_SECRET', 'short'],
    ['SANDBOX_TOKEN_FILE', '/nowhere/at/all'],
    ['SANDBOX_CLIENT_ID', 'a b'],
    ['SANDBOX_CLIENT_SECRET', 'short'],
    ['SANDBOX_REDIRECT_URI', '/callback'],
    ['SANDBOX_REDIRECT_URI', 'https://app.example/#part'],
    ['SANDBOX_REDIRECT_URI', 'javascript:alert(1)'],
    ['SANDBOX_SERVICE_ACCOUNTS', 'one:0123456789abcdef'],
    ['SANDBOX_SERVICE_ACCOUNTS', 'one:0123456789abcdef:everything'],
    ['SANDBOX_SERVICE_ACCOUNTS', 'one:short:read'],
    ['SANDBOX_SERVICE_ACCOUNTS', 'one:0123456789abcdef:read,one:0123456789abcdef:read'],
    ['SANDBOX_TOKEN_SECONDS', '0'],
    ['SANDBOX_TOKEN_SECONDS', 'soon'],
  ])('a bad %s (%s) is one clear error that names it', (name, value) => {
    const read = () => sandboxOptionsFromEnv({ [name]: value });
    expect(read).toThrow(UsageError);
    expect(read).toThrow(name);
  });

  test('a redirect address that runs code is refused for that, and not for a fragment it has not', () => {
    expect(() => sandboxOptionsFromEnv({ SANDBOX_REDIRECT_URI: 'javascript:alert(1)' })).toThrow(
      /not javascript:/,
    );
  });

  test('a bad secret is not repeated in the error', () => {
    expect(() => sandboxOptionsFromEnv({ SANDBOX_TOKEN: 'hunter2' })).not.toThrow(/hunter2/);
  });

  test.each(['0.0.0.0', '::', '192.0.2.7', 'sandbox.example', '127.0.0.1.example'])(
    'beyond loopback (%s) it does not start without a token',
    (host) => {
      expect(() => resolveOptions({ host })).toThrow(/SANDBOX_TOKEN/);
      expect(resolveOptions({ host, token: 'sixteen characters' }).host).toBe(host);
    },
  );

  test.each(['127.0.0.1', '127.1.2.3', '::1', '[::1]', 'localhost'])('on loopback (%s) it does', (host) => {
    expect(resolveOptions({ host }).token).toBeNull();
  });

  test('without an API key one is made, another each time', () => {
    const [first] = resolveOptions({}).apiKeys;
    expect(first).toMatch(/^sandbox_[0-9a-f]{48}$/);
    expect(resolveOptions({}).apiKeys[0]).not.toBe(first);
  });

  test('a port in use is a clear error', async () => {
    const { url } = await testSandbox();
    const port = Number(new URL(url).port);
    await expect(startSandbox({ port })).rejects.toThrow(/SANDBOX|listen/);
    await expect(startSandbox({ port })).rejects.toBeInstanceOf(UsageError);
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

  test('may name an id as events and references do, but not two at once', () => {
    const seed =
      '{"riskAssessments":[{"riskId":7},{"assessmentId":"a-1"}],"vendors":[{"vendorId":"v"},{"id":12345678901234567891}]}';
    expect(loadSeed(file(seed))).toMatchObject({
      riskAssessments: [
        { id: '7', riskId: 7 },
        { id: 'a-1', assessmentId: 'a-1' },
      ],
      vendors: [{ id: 'v', vendorId: 'v' }, { id: '12345678901234567891' }],
    });
    const two = file('{"riskAssessments":[{"id":"a-1","riskId":"r-7"}]}');
    expect(() => loadSeed(two)).toThrow(/riskAssessments\[0\].*besides a-1/);
  });

  test('may leave sections out', () => {
    expect(loadSeed(file('{"vendors":[{}]}'))).toEqual({
      policies: [],
      riskAssessments: [],
      vendors: [{ id: 'vendor-0001', status: 'prospective' }],
    });
  });

  test.each([
    ['{', /not JSON/],
    ['[]', /shape/],
    ['{"vendor":[]}', /vendor/],
    ['{"vendors":{}}', /vendors/],
    ['{"vendors":["x"]}', /vendors/],
    ['{"policies":[{"version":"1"}]}', /policies\[0\].*name/s],
    ['{"vendors":[{"id":"a"},{"id":"a"}]}', /vendors\[1\].*earlier row, a/],
    ['{"vendors":[{"id":""}]}', /vendors\[0\].*id/],
    ['{"vendors":[{"id":1.5}]}', /vendors\[0\].*id/],
    ['{"vendors":[{"id":{}}]}', /vendors\[0\].*id/],
  ])('%s is refused with the reason', (content, reason) => {
    const load = () => loadSeed(file(content));
    expect(load).toThrow(UsageError);
    expect(load).toThrow(reason);
  });

  test('is described to those who gave it another shape, and to nobody else', () => {
    const remedyOf = (path: string) => {
      try {
        loadSeed(path);
      } catch (error) {
        return (error as UsageError).remedy;
      }
      throw new Error('it was taken');
    };
    expect(remedyOf(file('{"vendors":{}}'))).toMatch(/arrays policies, riskAssessments and vendors/);
    for (const other of ['/nowhere/seed.json', file('{'), file('{"vendors":[{"id":""}]}')]) {
      expect(remedyOf(other)).toBeUndefined();
    }
  });

  test('that is not there is refused by name', () => {
    expect(() => loadSeed('/nowhere/seed.json')).toThrow(/nowhere\/seed\.json/);
    const set = () => sandboxOptionsFromEnv({ SANDBOX_SEED: '/nowhere/seed.json' });
    expect(set).toThrow(UsageError);
    expect(set).toThrow('SANDBOX_SEED: the file /nowhere/seed.json cannot be read');
  });
});

import { createHash } from 'node:crypto';
import { mkdtempSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { DEFAULT_DELETED_MARKERS } from '../src/compliance/pointers.ts';
import {
  configWarnings,
  loadConfig,
  notifyExposure,
  operatorsExposure,
  requireHttpsOrLoopback,
  secretTexts,
} from '../src/platform/config.ts';
import { type Environment, listedSettings } from '../src/platform/config-sources.ts';
import { UsageError } from '../src/platform/errors.ts';

const folder = mkdtempSync(join(tmpdir(), 'config-'));
afterEach(() => void vi.restoreAllMocks());
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
function file(content: string): string {
  const path = join(folder, `setting-${++files}`);
  writeFileSync(path, content);
  return path;
}

/** What is wrong, a line each; empty when nothing is. */
function problems(env: Environment): string[] {
  try {
    loadConfig(env);
    return [];
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return (error as UsageError).message.split('\n');
  }
}

const SECRET = '0123456789abcdef';
/** 32 characters, no more. */
const TOKEN = '9f3ac1b07d5e2846c03b91af5e7d2c40';
const API = { COMPLIANCE_BASE_URL: 'https://api.example.com/v1', COMPLIANCE_API_KEY: 'key' };
const KEY = createHash('sha256').update('a key').digest('base64');

describe('with nothing set', () => {
  it('every default is the one that the contract names', () => {
    const { webhook, ops, credentialsKey, ...rest } = loadConfig({});
    expect({ ...rest, credentialsKey }).toEqual({
      host: '127.0.0.1',
      port: 8080,
      databaseUrl: 'file:./data/mirror.db',
      database: { schema: 'public', tlsCaFile: null, currentUrl: expect.any(Function) },
      trustedProxies: null,
      compliance: null,
      credentialsKey: null,
      idPointers: {
        policy: ['policyId', 'policy.id', 'id'],
        risk_assessment: ['riskAssessmentId', 'assessmentId', 'riskId', 'risk.id', 'id'],
        vendor: ['vendorId', 'vendor.id', 'id'],
        rules: { fields: [], ignored: [], deleted: DEFAULT_DELETED_MARKERS },
      },
      riskIdsFile: null,
      sync: { settleMs: 10_000, fullSyncMs: 3_600_000, silenceMs: 86_400_000, deletionGuardPercent: 20 },
      retention: { bodyDays: 90, historyDays: 0 },
      notify: { url: null },
      remote: null,
      logLevel: 'info',
    });
    expect(ops).toEqual({ host: '127.0.0.1', port: 8081, tokens: [], publicUrl: null });
    expect(webhook.secrets()).toEqual([]);
    expect(webhook).toMatchObject({
      secretEncoding: 'utf8',
      template: [{ kind: 'timestamp' }, { kind: 'text', text: '.' }, { kind: 'body' }],
      algorithm: 'sha256',
      header: 'x-webhook-signature',
      toleranceSeconds: 300,
      maxBodyBytes: 1_048_576,
    });
  });

  it('and the API’s defaults too, once it is given', () => {
    const { compliance } = loadConfig(API);
    expect(compliance?.apiKey?.()).toBe('key');
    expect(compliance).toMatchObject({
      baseUrl: new URL('https://api.example.com/v1'),
      auth: 'api_key',
      scopes: ['read'],
      pkce: true,
      state: true,
      requestsPerMinute: 60,
      paging: { pageParam: 'page', perPageParam: 'perPage', firstPage: 1, pageSize: 100 },
      timeoutMs: 10_000,
    });
  });

  it('an empty text counts as unset', () => {
    expect(loadConfig({ PORT: '', WEBHOOK_SECRETS: '', LOG_LEVEL_FILE: '' }).port).toBe(8080);
  });
});

describe('a setting is taken', () => {
  it.each<[Environment, (config: ReturnType<typeof loadConfig>) => unknown, unknown]>([
    [{ PORT: '0' }, (c) => c.port, 0],
    [{ HOST: '::1' }, (c) => c.host, '::1'],
    [{ DATABASE_URL: 'postgres://u:p@h/d' }, (c) => c.databaseUrl, 'postgres://u:p@h/d'],
    [
      { DATABASE_URL: 'postgres://h/d?user=u@h&host=/run' },
      (c) => c.databaseUrl,
      'postgres://h/d?user=u@h&host=/run',
    ],
    [{ DATABASE_SCHEMA: 'mirror_2' }, (c) => c.database.schema, 'mirror_2'],
    [{ SYNC_SETTLE_SECONDS: '0.5' }, (c) => c.sync.settleMs, 500],
    [{ SYNC_FULL_MINUTES: '0' }, (c) => c.sync.fullSyncMs, 0],
    [{ WEBHOOK_SIGNATURE_HEADER: 'X-Signed' }, (c) => c.webhook.header, 'x-signed'],
    [{ ID_POINTERS_VENDOR: 'a.b, c' }, (c) => c.idPointers.vendor, ['a.b', 'c']],
    [
      { WEBHOOK_SECRETS: ` ${SECRET} ,${SECRET}2` },
      (c) => c.webhook.secrets().map(String),
      [SECRET, `${SECRET}2`],
    ],
    [{ WEBHOOK_SECRETS: KEY, WEBHOOK_SECRET_ENCODING: 'base64' }, (c) => c.webhook.secrets()[0]?.length, 32],
    [{ CREDENTIALS_KEY: KEY }, (c) => c.credentialsKey?.length, 32],
    [
      { OPS_TOKENS: `a:read:${TOKEN},b:operate:${TOKEN}:x` },
      (c) => c.ops.tokens,
      [
        { name: 'a', role: 'read', token: TOKEN },
        { name: 'b', role: 'operate', token: `${TOKEN}:x` },
      ],
    ],
    [
      { ...API, COMPLIANCE_BASE_URL: 'http://127.0.0.1:9090/v1/' },
      (c) => c.compliance?.baseUrl.href,
      'http://127.0.0.1:9090/v1',
    ],
    [{ ...API, COMPLIANCE_SCOPES: 'read  write' }, (c) => c.compliance?.scopes, ['read', 'write']],
    [
      { ...API, COMPLIANCE_OAUTH_OMIT: 'pkce' },
      (c) => [c.compliance?.pkce, c.compliance?.state],
      [false, true],
    ],
    [
      { WEBHOOK_SIGNED_CONTENT: 'v0:{t}:{body}' },
      (c) => c.webhook.template,
      [{ kind: 'text', text: 'v0:' }, { kind: 'timestamp' }, { kind: 'text', text: ':' }, { kind: 'body' }],
    ],
  ])('%j', (env, pick, expected) => {
    const value = pick(loadConfig(env));
    expect(Array.isArray(value) && value[0] instanceof Uint8Array ? value.map(String) : value).toEqual(
      expected,
    );
  });
});

describe('a bad setting is named, with what it takes', () => {
  it.each<[Environment, RegExp]>([
    [{ PORT: 'abc' }, /^PORT: got "abc"; takes a whole number from 0 to 65535$/],
    [{ PORT: '-1' }, /^PORT/],
    [{ HOST: 'a b' }, /^HOST: got "a b"/],
    [{ LOG_LEVEL: 'loud' }, /^LOG_LEVEL: got "loud"; takes one of trace, debug, info/],
    [{ DATABASE_SCHEMA: 'Mirror' }, /^DATABASE_SCHEMA: got "Mirror"; takes a name of lower-case/],
    [{ DATABASE_TLS_CA_FILE: '/nowhere/ca.pem' }, /^DATABASE_TLS_CA_FILE: .* cannot be read/],
    [{ DATABASE_URL: './mirror.db' }, /^DATABASE_URL: .*takes file:PATH/],
    // It would be a part of the file's name.
    [{ DATABASE_URL: 'file:./mirror.db?mode=ro' }, /^DATABASE_URL: .*without parameters/],
    // In memory what was acknowledged would be gone with the process.
    [{ DATABASE_URL: 'file::memory:' }, /^DATABASE_URL/],
    // SQLite's driver leaves blanks at the ends out, the lock beside the file does not.
    [{ DATABASE_URL: 'file:./mirror.db ' }, /^DATABASE_URL/],
    [{ DATABASE_URL: 'mysql://u:p@h/d' }, /^DATABASE_URL/],
    // A password with / in it would be shown as a database's name.
    [{ DATABASE_URL: 'postgres://u:12/pass@h/d' }, /^DATABASE_URL: .*each part percent-encoded/],
    [{ DATABASE_URL: 'postgres://u:12?pass@h/d' }, /^DATABASE_URL: .*each part percent-encoded/],
    [{ DATABASE_URL: 'postgres://u:12@pass@h/d' }, /^DATABASE_URL: .*not percent-encoded: write %40 for @/],
    [
      { WEBHOOK_SECRETS: 'short' },
      /^WEBHOOK_SECRETS: secret 1 is shorter than 16 bytes once decoded; takes .* at least 16 bytes/,
    ],
    [{ WEBHOOK_SECRETS: `${SECRET},` }, /^WEBHOOK_SECRETS/],
    [{ WEBHOOK_SECRETS: `${SECRET}\n${SECRET}` }, /^WEBHOOK_SECRETS/],
    [
      { WEBHOOK_SECRETS: 'g'.repeat(16), WEBHOOK_SECRET_ENCODING: 'hex' },
      /^WEBHOOK_SECRETS: secret 1 is not wholly hex; /,
    ],
    [
      { WEBHOOK_SECRET_ENCODING: 'ascii' },
      /^WEBHOOK_SECRET_ENCODING: got "ascii"; takes utf8, hex or base64, or one of them after .*whsec_base64$/,
    ],
    [
      { WEBHOOK_SIGNED_CONTENT: '{t}.' },
      /^WEBHOOK_SIGNED_CONTENT: got "\{t\}\."; takes text with \{t\} and \{body\}/,
    ],
    [{ WEBHOOK_SIGNED_CONTENT: '{body}' }, /^WEBHOOK_SIGNED_CONTENT/],
    [{ WEBHOOK_SIGNED_CONTENT: '{t}.{body}{id}' }, /^WEBHOOK_SIGNED_CONTENT/],
    [{ WEBHOOK_SIGNED_CONTENT: '{t}.{body}{header:x-id}' }, /^WEBHOOK_SIGNED_CONTENT/],
    [{ WEBHOOK_SIGNATURE_HEADER: 'a b' }, /^WEBHOOK_SIGNATURE_HEADER/],
    [
      { WEBHOOK_TOLERANCE_SECONDS: '0' },
      /^WEBHOOK_TOLERANCE_SECONDS: got "0"; takes a whole number of seconds/,
    ],
    [{ WEBHOOK_MAX_BODY_BYTES: '1MB' }, /^WEBHOOK_MAX_BODY_BYTES/],
    [
      { ...API, COMPLIANCE_BASE_URL: 'http://api.example.com/v1' },
      /^COMPLIANCE_BASE_URL: .*takes an https URL/,
    ],
    [{ ...API, COMPLIANCE_BASE_URL: 'http://127.0.0.1.example.com/v1' }, /^COMPLIANCE_BASE_URL/],
    [{ ...API, COMPLIANCE_BASE_URL: 'https://api.example.com/v2' }, /^COMPLIANCE_BASE_URL: .*ends in \/v1/],
    [
      { ...API, COMPLIANCE_BASE_URL: 'https://u:pw@api.example.com/v1' },
      /^COMPLIANCE_BASE_URL: got a text of/,
    ],
    [
      { COMPLIANCE_BASE_URL: API.COMPLIANCE_BASE_URL },
      /^COMPLIANCE_API_KEY: not set; COMPLIANCE_AUTH=api_key needs it$/,
    ],
    [{ ...API, COMPLIANCE_API_KEY: 'a b' }, /^COMPLIANCE_API_KEY: got a text of 3 characters/],
    [{ ...API, COMPLIANCE_OAUTH_OMIT: 'no' }, /^COMPLIANCE_OAUTH_OMIT: got "no"; takes pkce or state$/],
    [
      { ...API, COMPLIANCE_OAUTH_OMIT: 'state,pkce' },
      /^COMPLIANCE_OAUTH_OMIT: takes only one .* anybody could sign in for you$/,
    ],
    [{ CREDENTIALS_KEY: Buffer.alloc(31).toString('base64') }, /^CREDENTIALS_KEY: .*32 bytes in base64/],
    // What stood in a README once, and what stands in many.
    ...[Buffer.from('0123456789abcdef0123456789abcdef'), Buffer.alloc(32)].map(
      (key): [Environment, RegExp] => [
        { CREDENTIALS_KEY: key.toString('base64') },
        /^CREDENTIALS_KEY: stands in an example; takes 32 bytes in base64, such as `openssl rand -base64 32` prints$/,
      ],
    ),
    [
      { OPS_TOKENS: SECRET },
      /^OPS_TOKENS: entry 1 is not of the form name:role:token; takes name:role:token/,
    ],
    [{ OPS_TOKENS: `a:admin:${TOKEN}` }, /^OPS_TOKENS: entry 1 is not of the form name:role:token/],
    [
      { OPS_TOKENS: `a:read:${TOKEN},b:read:short,c:read:${TOKEN} x` },
      /^OPS_TOKENS: entry 2 has a token of fewer than 32 characters; entry 3 has a token with a space/,
    ],
    [
      { OPS_TOKENS: `a:read:${'0123456789abcdef'.repeat(2)},b:read:${'a'.repeat(40)}` },
      /^OPS_TOKENS: entry 1 has a token that stands in an example; entry 2 has a token that stands in an example/,
    ],
    [
      { OPS_TOKENS: `cli:operate:${TOKEN}` },
      /^OPS_TOKENS: entry 1 has a name that the audit uses for the mirror/,
    ],
    [{ OPS_TOKENS: `a:read:${TOKEN},` }, /^OPS_TOKENS: entry 2 is not of the form/],
    [
      { OPS_TOKENS: `a:read:${TOKEN},b:read:${TOKEN}3,a:read:${TOKEN}2` },
      /^OPS_TOKENS: entry 3 has the name or the token of one before it;/,
    ],
    [
      { OPS_TOKENS: `a:read:${TOKEN},b:read:${TOKEN}` },
      /^OPS_TOKENS: entry 2 has the name or the token of one before it;/,
    ],
    [{ OPS_PUBLIC_URL: 'ops.example.com' }, /^OPS_PUBLIC_URL/],
    [
      { OPS_PUBLIC_URL: 'https://ops.example/?a=1' },
      /^OPS_PUBLIC_URL: has a query; takes no path and no query/,
    ],
    [{ OPS_PUBLIC_URL: 'https://ops.example/mirror' }, /^OPS_PUBLIC_URL: has a path; takes no path/],
    [{ NOTIFY_URL: 'http://hooks.example/x' }, /^NOTIFY_URL.*https/],
    [{ NOTIFY_URL: 'http://203.0.113.7/x' }, /^NOTIFY_URL.*https/],
    [{ OPS_URL: 'http://mirror.example', OPS_TOKEN: 't' }, /^OPS_URL.*https/],
    [{ OPS_URL: 'https://mirror.example' }, /^OPS_TOKEN: not set/],
    [{ ID_POINTERS_POLICY: 'a..b' }, /^ID_POINTERS_POLICY/],
    [{ RISK_IDS_FILE: '/nowhere/ids' }, /^RISK_IDS_FILE: \/nowhere\/ids cannot be read/],
    [{ SYNC_SETTLE_SECONDS: '-1' }, /^SYNC_SETTLE_SECONDS: .*a number of seconds from 0 to 3600/],
    [
      { NODE_TLS_REJECT_UNAUTHORIZED: '0' },
      /^NODE_TLS_REJECT_UNAUTHORIZED: 0 would let anybody pose as the API/,
    ],
    // A container's env file keeps them.
    [
      { COMPLIANCE_API_KEY: '"the-key"' },
      /^COMPLIANCE_API_KEY: begins and ends with a quote \("\).*without quotes/,
    ],
    [
      { WEBHOOK_SECRETS_FILE: file("'0123456789abcdef'\n") },
      /^WEBHOOK_SECRETS_FILE: .* begins and ends with a quote/,
    ],
    [{ PORT_FILE: '/nowhere/port' }, /^PORT_FILE: \/nowhere\/port cannot be read/],
    [{ PORT_FILE: file('\n') }, /^PORT_FILE: .*the file is empty/],
    [{ PORT: '1', PORT_FILE: file('2') }, /^PORT and PORT_FILE are both set/],
    [
      { COMPLIANCE_PAGE_PARAM: 'perPage' },
      /^COMPLIANCE_PER_PAGE_PARAM: got "perPage", which is COMPLIANCE_PAGE_PARAM too/,
    ],
  ])('%j', (env, line) => {
    const found = problems(env);
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(line);
  });

  it('all of them at once, a line each', () => {
    expect(problems({ PORT: 'x', OPS_PORT: 'y', LOG_LEVEL: 'z' })).toHaveLength(3);
  });

  it('and what its way to authenticate lacks', () => {
    const env = { COMPLIANCE_BASE_URL: API.COMPLIANCE_BASE_URL, COMPLIANCE_AUTH: 'oauth' };
    expect(problems(env).map((line) => line.split(':')[0])).toEqual([
      'COMPLIANCE_AUTH_URL',
      'COMPLIANCE_CLIENT_ID',
      'COMPLIANCE_CLIENT_SECRET',
      'COMPLIANCE_REDIRECT_URI',
      'CREDENTIALS_KEY',
    ]);
    expect(problems({ ...env, COMPLIANCE_AUTH: 'service_account' })).toHaveLength(3);
  });

  it('and never a secret’s text', () => {
    const leaks = {
      WEBHOOK_SECRETS: 'leak',
      OPS_TOKENS: 'leak,leak:leak,leak:leak:leak,a:leak:leak,a:read:leak,leak leak',
      CREDENTIALS_KEY: 'leak',
      COMPLIANCE_API_KEY: 'leak leak',
      COMPLIANCE_CLIENT_SECRET: 'leak leak',
      DATABASE_URL: 'postgres://user:leak@leak#leak?leak/leak@host/x',
    };
    const found = problems(leaks);
    expect(found).toHaveLength(Object.keys(leaks).length);
    expect(found.join('\n')).not.toContain('leak');
  });
});

describe('NAME_FILE', () => {
  it('is read in place of NAME, without the line break at its end, nor a byte order mark before it', () => {
    expect(loadConfig({ PORT_FILE: file('9000\n') }).port).toBe(9000);
    expect(loadConfig({ PORT_FILE: file('\uFEFF9000\r\n') }).port).toBe(9000);
    expect(
      loadConfig({
        ...API,
        COMPLIANCE_API_KEY: '',
        COMPLIANCE_API_KEY_FILE: file('k\r\n'),
      }).compliance?.apiKey?.(),
    ).toBe('k');
  });

  it('of a secret is read again when it has changed, at most every second, and the last good value stays', () => {
    const path = file(`${SECRET}\n`);
    const tokens = file(`a:read:${TOKEN}`);
    const told: string[] = [];
    let now = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => now);
    const config = loadConfig(
      { WEBHOOK_SECRETS_FILE: path, OPS_TOKENS_FILE: tokens },
      { onSecretProblem: (message) => told.push(message) },
    );
    const texts = () => config.webhook.secrets().map((each) => Buffer.from(each).toString());
    const first = config.webhook.secrets();

    writeFileSync(path, `second secret of two,${SECRET}`);
    now = 999;
    expect(config.webhook.secrets()).toBe(first);
    now = 1000;
    expect(texts()).toEqual(['second secret of two', SECRET]);
    const same = config.webhook.secrets();
    now = 5000;
    expect(config.webhook.secrets()).toBe(same);

    writeFileSync(path, 'short');
    now = 6000;
    expect(config.webhook.secrets()).toBe(same);
    rmSync(path);
    now = 7000;
    expect(config.webhook.secrets()).toBe(same);
    now = 8000;
    expect(config.webhook.secrets()).toBe(same);
    expect(told).toHaveLength(2);
    expect(told.join()).not.toMatch(/short\b|second secret/);

    renameSync(file('the third secret of all'), path);
    now = 9000;
    expect(texts()).toEqual(['the third secret of all']);
    // Replaced as a mounted volume replaces it: another file with the same time and length.
    const replacement = file('the fifth secret of all');
    for (const each of [path, replacement]) utimesSync(each, 1, 1);
    now = 10_000;
    expect(texts()).toEqual(['the third secret of all']);
    renameSync(replacement, path);
    now = 11_000;
    expect(texts()).toEqual(['the fifth secret of all']);

    writeFileSync(tokens, `b:operate:${TOKEN}`);
    now = 12_000;
    expect(config.ops.tokens).toMatchObject([{ name: 'b', role: 'operate' }]);
  });

  it('of a secret that the server refuses is read again whatever its date says, the database’s address too', () => {
    const [key, url] = [file('key-1'), file('postgres://u:one@h/d')];
    for (const path of [key, url]) utimesSync(path, 1, 1);
    const config = loadConfig({
      ...API,
      COMPLIANCE_API_KEY: '',
      COMPLIANCE_API_KEY_FILE: key,
      DATABASE_URL_FILE: url,
    });
    writeFileSync(key, 'key-2');
    writeFileSync(url, 'postgres://u:two@h/d');
    for (const path of [key, url]) utimesSync(path, 1, 1);
    expect([config.compliance!.apiKey!(), config.databaseUrl]).toEqual(['key-1', 'postgres://u:one@h/d']);
    expect(config.compliance!.apiKey!('again')).toBe('key-2');
    expect(config.database.currentUrl('again')).toBe('postgres://u:two@h/d');
    expect(secretTexts(config)).toContain('two');
  });

  it('of a secret keeps the last good value also while the file is empty or cannot be reached, and says which', () => {
    const path = file(SECRET);
    const told: string[] = [];
    let now = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => now);
    const { webhook } = loadConfig(
      { WEBHOOK_SECRETS_FILE: path },
      { onSecretProblem: (message) => told.push(message) },
    );
    const first = webhook.secrets();
    writeFileSync(path, '\n');
    now = 1000;
    expect(webhook.secrets()).toBe(first);
    rmSync(path);
    symlinkSync(path, path);
    now = 2000;
    expect(webhook.secrets()).toBe(first);
    now = 3000;
    expect(webhook.secrets()).toBe(first);
    expect(told).toEqual([expect.stringContaining('the file is empty'), expect.stringContaining('ELOOP')]);
  });
});

it('every setting is listed with where it is from', () => {
  const path = file(`${SECRET}\n`);
  const outer = { PORT: '1', WEBHOOK_SECRETS_FILE: path };
  const listed = listedSettings({ ...outer, LOG_LEVEL: 'debug', DATABASE_URL: '"x"' }, outer);
  const of = (wanted: string) => listed.find(({ name }) => name === wanted);
  expect(of('PORT')).toMatchObject({ value: '1', source: 'environment', path: null, isSecret: false });
  expect(of('LOG_LEVEL')).toMatchObject({ value: 'debug', source: '.env', isAdvanced: false });
  expect(of('WEBHOOK_SECRETS')).toMatchObject({ value: SECRET, source: 'file', path, isSecret: true });
  expect(of('HOST')).toMatchObject({ value: '127.0.0.1', source: 'default' });
  expect(of('DATABASE_SCHEMA')).toMatchObject({ isAdvanced: true });
  expect(of('DATABASE_URL')).toMatchObject({ value: null, source: '.env' });
});

describe('warnings', () => {
  it.each([
    ['WEBHOOK_SECRET_FILE', /^WEBHOOK_SECRET_FILE: no such setting/],
    ['SYNC_EVERYTHING_ALWAYS', /no such setting; it has no effect/],
    ['OPS_PASSWORD', /no such setting/],
  ])('name %s', (name, warning) => {
    expect(configWarnings({ [name]: 'x' })).toMatchObject([expect.stringMatching(warning)]);
  });

  it('say nothing of settings, their files, others’ names and what an orchestrator adds', () => {
    expect(
      configWarnings({
        PATH: '/bin',
        HOME: '/',
        PORT: '1',
        PORT_FILE: 'x',
        RISK_IDS_FILE: 'x',
        WEBHOOK_SECRETS_FILE: 'x',
        SANDBOX_PORT: '1',
        WEBHOOK_UNSET: '',
        COMPLIANCE_MIRROR_SERVICE_HOST: '10.0.0.1',
        COMPLIANCE_MIRROR_PORT_8080_TCP_ADDR: '10.0.0.1',
      }),
    ).toEqual([]);
  });

  it('tell of credentials that no base URL makes use of', () => {
    expect(configWarnings({ COMPLIANCE_API_KEY: 'k' })).toMatchObject([
      expect.stringContaining('COMPLIANCE_BASE_URL'),
    ]);
    expect(configWarnings({ COMPLIANCE_API_KEY_FILE: 'k' })).toHaveLength(1);
    expect(configWarnings(API)).toEqual([]);
    expect(configWarnings({ COMPLIANCE_API_KEY: 'k', COMPLIANCE_BASE_URL_FILE: 'url' })).toEqual([]);
  });
});

it('an operators’ listener beyond this machine is told of, unless it is reached by https', () => {
  const told = (env: Environment) => operatorsExposure(loadConfig(env));
  expect(told({ OPS_HOST: '0.0.0.0' })).toEqual([
    expect.stringMatching(/^OPS_HOST: 0\.0\.0\.0 .*unencrypted/),
  ]);
  expect(told({ OPS_HOST: '0.0.0.0', OPS_PUBLIC_URL: 'http://ops.example.com' })).toHaveLength(1);
  expect(told({ OPS_HOST: '0.0.0.0', OPS_PUBLIC_URL: 'https://ops.example.com' })).toEqual([]);
  for (const OPS_HOST of ['127.0.0.1', '::1', 'localhost']) expect(told({ OPS_HOST })).toEqual([]);
});

it('notifications within one’s own network may be http, and it is told that they pass it in the clear', () => {
  const told = (NOTIFY_URL: string) => notifyExposure(loadConfig({ NOTIFY_URL }));
  for (const host of [
    '10.0.0.7',
    '172.16.0.1',
    '192.168.1.1',
    '[fd00::1]',
    'alerts',
    'alerts.ops.svc',
    'x.internal',
  ])
    expect(told(`http://${host}:9000/hook`), host).toEqual([
      expect.stringMatching(/^NOTIFY_URL: .*unencrypted$/),
    ]);
  for (const url of ['https://alerts.example/x', 'http://127.0.0.1/x']) expect(told(url)).toEqual([]);
});

it('https or loopback is demanded of a URL, by the name it was given under', () => {
  expect(requireHttpsOrLoopback('https://x.example/webhooks', '--url').host).toBe('x.example');
  expect(requireHttpsOrLoopback('http://[::1]:8080/webhooks', '--url').port).toBe('8080');
  for (const url of ['http://x.example/', 'http://10.0.0.1/', 'ftp://localhost/', 'x', '']) {
    expect(() => requireHttpsOrLoopback(url, '--url')).toThrow(/^--url: takes an https URL/);
  }
});

it('an API key is a secret also where another way to sign in is set', () => {
  const accounts = { COMPLIANCE_AUTH: 'service_account', COMPLIANCE_AUTH_URL: 'https://auth.example' };
  const client = { COMPLIANCE_CLIENT_ID: 'c', COMPLIANCE_CLIENT_SECRET: 'the-client-secret' };
  const config = loadConfig({ ...API, ...accounts, ...client, COMPLIANCE_API_KEY: 'the-api-key' });
  expect(secretTexts(config)).toContain('the-api-key');
});

it('every secret is listed in the forms it may turn up in', () => {
  const config = loadConfig({
    ...API,
    COMPLIANCE_API_KEY: 'the-api-key',
    COMPLIANCE_CLIENT_SECRET: 'the-client-secret',
    WEBHOOK_SECRETS: SECRET,
    OPS_TOKENS: 'a:read:the-token-of-an-operator-of-ours',
    CREDENTIALS_KEY: KEY,
    DATABASE_URL: 'postgres://u:p%40ss@h/d',
    NOTIFY_URL: 'https://hooks.example/the-token-in-the-path',
    OPS_URL: 'https://mirror.example',
    OPS_TOKEN: 'the-token-there',
  });
  const hex = Buffer.from(SECRET).toString('hex');
  expect(secretTexts(config)).toEqual(
    expect.arrayContaining([
      'the-api-key',
      'the-client-secret',
      SECRET,
      hex,
      'the-token-of-an-operator-of-ours',
      KEY,
      'p@ss',
      'p%40ss',
      'https://hooks.example/the-token-in-the-path',
      'the-token-there',
    ]),
  );
});

it('what settings say of records’ fields is of one kind or of all', () => {
  const { rules } = loadConfig({
    FIELD_POINTERS: 'policy:status=state.code, name=label',
    IGNORED_FIELDS: 'vendor:links.self,documentUrl',
    DELETED_MARKERS: 'gone,state.code=Removed',
  }).idPointers;
  expect(rules).toEqual({
    fields: [
      { kind: 'policy', column: 'status', path: 'state.code' },
      { kind: null, column: 'name', path: 'label' },
    ],
    ignored: [
      { kind: 'vendor', path: 'links.self' },
      { kind: null, path: 'documentUrl' },
    ],
    deleted: ['gone', 'state.code=Removed'],
  });
});

it.each([
  ['FIELD_POINTERS', 'policy:owner=x'],
  ['FIELD_POINTERS', 'policy.status'],
  ['IGNORED_FIELDS', 'risk:url'],
  ['IGNORED_FIELDS', 'policy:name=x'],
])('%s does not take %s', (name, value) => {
  expect(() => loadConfig({ [name]: value })).toThrow(name);
});

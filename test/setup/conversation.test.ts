import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { seededRandom } from '../../sandbox/random.ts';
import { startSandbox } from '../../sandbox/sandbox.ts';
import { drawShapes } from '../../sandbox/shapes.ts';
import { withEnvText } from '../../src/cli/env-file.ts';
import type { Asker } from '../../src/cli/setup/asker.ts';
import { nobody } from '../../src/cli/setup/asker.ts';
import { DEFAULTS } from '../../src/cli/setup/draft.ts';
import { isKeepingUp } from '../../src/cli/setup/trial.ts';
import { setup } from '../../src/cli/setup.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { UsageError } from '../../src/platform/errors.ts';
import type { KindStatus } from '../../src/store/reports.ts';
import {
  ACCESS_PREFIX,
  CLIENT_ID,
  CLIENT_SECRET,
  REDIRECT_URI,
  startOauthServer,
} from '../compliance/oauth-server.ts';
import { IS_FULL } from '../support/full.ts';
import { freePorts } from '../support/ports.ts';
import { KEY, PLAIN, type Shape, type ShapedUpstream, startShaped } from './shaped-upstream.ts';

let folder: string;
let envPath: string;
let environment: Record<string, string>;
let upstream: ShapedUpstream;
let output: string;
const emitted: Promise<void>[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'compliance-mirror-setup-'));
  envPath = join(folder, '.env');
  const [port, opsPort] = await freePorts(2);
  environment = {
    PORT: String(port),
    OPS_PORT: String(opsPort),
    DATABASE_URL: `file:${join(folder, 'mirror.db')}`,
    COMPLIANCE_REQUESTS_PER_MINUTE: '6000',
    SYNC_SETTLE_SECONDS: '0.2',
  };
  output = '';
});

afterEach(async () => {
  await upstream?.close();
  await Promise.all(emitted.splice(0));
  rmSync(folder, { recursive: true, force: true });
});

const screen = () => ({
  write: (text: string) => {
    output += text;
  },
  isTerminal: false,
  hasColours: false,
  columns: undefined,
});

/** Answers by the option that each question names, one after the other; where none is left, Enter. */
function person(
  answers: Record<string, string[]>,
): Asker & { asked: string[]; offered: (string | undefined)[] } {
  const asked: string[] = [];
  const offered: (string | undefined)[] = [];
  return {
    asked,
    offered,
    isPerson: true,
    async ask({ flag, otherwise }) {
      asked.push(flag);
      offered.push(otherwise);
      if (asked.length > 100) throw new Error(`asked for ever; so far:\n${output}`);
      const answer = answers[flag]?.shift();
      if (answer === undefined && otherwise === undefined && flag !== '--risk-id') {
        throw new Error(`nothing to say to ${flag}; so far:\n${output}`);
      }
      return answer ?? '';
    },
    async enter() {
      if (output.endsWith('Enter skips it.\n')) emitted.push(upstream.emit());
      await new Promise(() => undefined);
    },
    release: () => undefined,
  };
}

async function run(asker: Asker, options: object = {}, signal = new AbortController().signal): Promise<void> {
  const text = existsSync(envPath) ? readFileSync(envPath, 'utf8') : '';
  const cli = { env: withEnvText(environment, text), out: screen(), err: screen() };
  const given = { register: true, wait: 60_000, ...options };
  // Given a clock, the service has no threads: to start them at each new setting would take most of the time.
  const clock = systemClock();
  await setup({ cli, environment, asker, options: given, signal, path: envPath, clock });
}

const answersFor = (shaped: ShapedUpstream) => ({
  '--base-url': [shaped.baseUrl],
  '--api-key-file': [KEY],
  '--risk-id': ['risk-1'],
});

function rows(table: string): { id: string; verified_at: string | null }[] {
  const db = new Database(join(folder, 'mirror.db'), { readonly: true });
  try {
    return db.prepare(`SELECT id, verified_at FROM ${table} ORDER BY id`).all() as never;
  } finally {
    db.close();
  }
}

/** Of one vendor after the other: each has time to be read, and at least one is always waiting for that. */
const CHANGES_EVERY_MS = 120;

const JSON_TYPE = { 'content-type': 'application/json' };

/** Of the sandbox's state. */
interface Drawn {
  shapes: { registration: { secret: string } };
  vendors: Record<string, string>[];
  policies: Record<string, string>[];
}

const written = () => parseEnv(readFileSync(envPath, 'utf8'));

const SHAPES: [string, Shape, Record<string, string>][] = [
  ['as the specification shows it', PLAIN, {}],
  [
    'with pages from 0 under other names, a list within data, and other ids',
    {
      ...PLAIN,
      list: 'nested',
      ids: { policy: 'ref', vendor: 'vendorUuid', assessment: 'assessment_number' },
      paging: { page: 'pageNumber', size: 'limit', first: 0 },
    },
    {
      COMPLIANCE_PAGE_PARAM: 'pageNumber',
      COMPLIANCE_PER_PAGE_PARAM: 'limit',
      COMPLIANCE_FIRST_PAGE: '0',
      ID_POINTERS_POLICY: 'ref,policyId,policy.id,id',
      ID_POINTERS_VENDOR: 'vendorUuid,vendorId,vendor.id,id',
      ID_POINTERS_RISK_ASSESSMENT: 'assessment_number,riskAssessmentId,assessmentId,riskId,risk.id,id',
    },
  ],
  [
    'signed with another hash over other bytes, by a secret in hex, under another header',
    {
      ...PLAIN,
      list: 'bare',
      paging: { page: 'page', size: 'per_page', first: 1, isStrict: true },
      signing: {
        header: 'X-Compliance-Sign',
        algorithm: 'sha512',
        content: (t, body) => `${t}:${body}`,
        secret: '00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff',
        encoding: 'hex',
      },
    },
    {
      COMPLIANCE_PER_PAGE_PARAM: 'per_page',
      WEBHOOK_SIGNATURE_HEADER: 'x-compliance-sign',
      WEBHOOK_SIGNATURE_ALGORITHM: 'sha512',
      WEBHOOK_SECRET_ENCODING: 'hex',
      WEBHOOK_SIGNED_CONTENT: '{t}:{body}',
    },
  ],
  [
    'signed with what stands behind a prefix, in events that name their assessment in a place of their own',
    {
      ...PLAIN,
      signing: { ...PLAIN.signing, secret: '6Vh3Q0m2c1p7tYk9XwLz4uJr8sBnDgFa', encoding: 'base64' },
      registration: (id, secret) => ({ webhook: { id }, signingSecret: `whsec_${secret}` }),
      event: () => ({ type: 'risk.assessed', data: { item: { assessment_key: 'risk-1' }, score: 4 } }),
    },
    {
      WEBHOOK_SECRET_ENCODING: 'whsec_base64',
      ID_POINTERS_RISK_ASSESSMENT: 'item.assessment_key,riskAssessmentId,assessmentId,riskId,risk.id,id',
    },
  ],
];

describe('setting up against a compliance service', () => {
  it.each(SHAPES)(
    '%s: a verified mirror, and in .env what differs from the defaults',
    async (_, shape, differing) => {
      upstream = await startShaped(shape);
      await run(person(answersFor(upstream)));

      const { CREDENTIALS_KEY, ...rest } = written();
      expect(rest).toEqual({
        COMPLIANCE_BASE_URL: upstream.baseUrl,
        COMPLIANCE_API_KEY: KEY,
        ...differing,
      });
      expect(Buffer.from(CREDENTIALS_KEY ?? '', 'base64')).toHaveLength(32);
      const opsToken = readFileSync(join(folder, 'ops-token'), 'utf8').trim();
      expect(output).toContain('It prints a link to the status page.');
      expect(statSync(envPath).mode & 0o777).toBe(0o600);
      for (const secret of [KEY, CREDENTIALS_KEY, opsToken, shape.signing.secret]) {
        expect(output).not.toContain(secret);
      }
      expect(rows('policies').map(({ id }) => id)).toEqual(['pol-1', 'pol-2', 'pol-3', 'pol-4', 'pol-5']);
      expect(rows('vendors').map(({ id }) => id)).toEqual(['ven-1', 'ven-2', 'ven-3']);
      for (const row of [...rows('policies'), ...rows('vendors')]) expect(row.verified_at).not.toBeNull();
      expect(output).toContain('A delivery was taken: its signature fits.');

      const before = readFileSync(envPath);
      const again = person({});
      await run(again);
      expect(readFileSync(envPath).equals(before)).toBe(true);
      expect(upstream.registered).toHaveLength(1);
      expect(again.asked).not.toContain('--yes');
    },
  );

  it.each(IS_FULL ? [3, 11] : [3])(
    'a service whose form %i draws: a verified mirror of all that it tells',
    async (number) => {
      const sandbox = await startSandbox({
        port: 0,
        apiKeys: [KEY],
        seedNumber: number,
        shapes: drawShapes(seededRandom(number)),
      });
      const control = async <T>(path: string, body?: object): Promise<T> => {
        const init = body && { method: 'POST', body: JSON.stringify(body), headers: JSON_TYPE };
        return (await (await fetch(`${sandbox.url}/_sandbox/${path}`, init)).json()) as never;
      };
      const { shapes, vendors, policies } = await control<Drawn>('state');
      let made = '';
      upstream = {
        baseUrl: `${sandbox.url}/v1`,
        seen: [],
        registered: [],
        close: () => sandbox.close(),
        async emit() {
          const vendor = {
            kind: 'vendor',
            op: 'update',
            id: vendors[0]?.['id'],
            fields: { name: 'Changed' },
          };
          await control('mutate', vendor);
          const risk = { kind: 'risk_assessment', op: 'create', fields: { name: 'New' } };
          made = (await control<{ id: string }>('mutate', risk)).id;
        },
      };
      const place = shapes.registration.secret;
      await run(person({ ...answersFor(upstream), '--risk-id': [''], '--secret-at': [place] }));
      expect(rows('policies').map(({ id }) => id)).toEqual(policies.map((each) => each['policyId']).sort());
      expect(rows('vendors').map(({ id }) => id)).toEqual(vendors.map((each) => each['id']).sort());
      expect(rows('risk_assessments').map(({ id }) => id)).toContain(made);
      for (const table of ['policies', 'vendors', 'risk_assessments']) {
        for (const row of rows(table)) expect(row.verified_at).not.toBeNull();
      }
    },
  );

  it.each<[string, Shape['registration'], Record<string, string[]>, object]>([
    [
      'typed where the answer has none',
      (id) => ({ data: { id } }),
      { '--webhook-secrets-file': [PLAIN.signing.secret] },
      { WEBHOOK_SECRETS: PLAIN.signing.secret },
    ],
    [
      'taken from where the answer has it under no usual name',
      (id, token) => ({ data: { id, hook: { token, alg: 'sha256' } } }),
      { '--secret-at': ['data.nowhere', 'data.hook.token'] },
      {},
    ],
    [
      'typed where the answer has it nowhere, after one that is none',
      (id) => ({ data: { id, note: 'see the console' } }),
      { '--secret-at': ['', ''], '--webhook-secrets-file': ['too-short', PLAIN.signing.secret] },
      { WEBHOOK_SECRETS: PLAIN.signing.secret },
    ],
  ])('a registration’s secret is %s', async (_, registration, answers, differing) => {
    upstream = await startShaped({ ...PLAIN, registration: registration! });
    const asker = person({ ...answersFor(upstream), ...structuredClone(answers) });
    await run(asker);
    const {
      COMPLIANCE_BASE_URL: _base,
      COMPLIANCE_API_KEY: _api,
      CREDENTIALS_KEY: _key,
      ...rest
    } = written();
    expect(rest).toEqual(differing);
    for (const [flag, all] of Object.entries(answers)) {
      expect(asker.asked.filter((asked) => asked === flag)).toHaveLength(all.length);
    }
    expect(output).not.toContain(PLAIN.signing.secret);
    expect(output).not.toContain('A delivery came, and was rejected');
    expect(output).toContain('A delivery was taken: its signature fits.');
    expect(upstream.registered).toHaveLength(1);
  });

  it('the secret of a registration made by other means is asked for where ours is refused', async () => {
    upstream = await startShaped({ ...PLAIN, refusesRegistrations: true });
    await run(
      person({ ...answersFor(upstream), '--url': ['-'], '--webhook-secrets-file': [PLAIN.signing.secret] }),
    );
    expect(written()['WEBHOOK_SECRETS']).toBe(PLAIN.signing.secret);
    expect(output).toContain('answered 403');
    expect(output).toContain('A delivery was taken: its signature fits.');
  });

  it('a webhook that is registered by other means is not registered again, and its secret is asked for', async () => {
    upstream = await startShaped(PLAIN);
    upstream.registered.push(`http://127.0.0.1:${environment['PORT']}/webhooks`);
    const asker = person({
      ...answersFor(upstream),
      '--url, or --no-register': ['no address', 'https://mirror.example', '-'],
      '--webhook-secrets-file': [PLAIN.signing.secret],
    });
    await run(asker);
    expect(output).toContain('That is no address');
    expect(output).toContain('It does not end in /webhooks');
    expect(output).toContain('A delivery was taken: its signature fits.');
    expect(written()['WEBHOOK_SECRETS']).toBe(PLAIN.signing.secret);
    expect(upstream.seen.filter((request) => request.startsWith('POST'))).toEqual([]);
  });

  it('a script is told what is missing where the answer holds no secret', async () => {
    upstream = await startShaped({ ...PLAIN, registration: (id) => ({ data: { id } }) });
    const keyFile = join(folder, 'key');
    writeFileSync(keyFile, KEY);
    const options = { baseUrl: upstream.baseUrl, apiKeyFile: keyFile, wait: 3_000 };
    await expect(run(nobody, options)).rejects.toMatchObject({
      message: expect.stringContaining('no signing secret of hook-1 is known'),
      remedy: expect.stringMatching(/^set WEBHOOK_SECRETS/),
    });
    const secretsFile = join(folder, 'secret');
    writeFileSync(secretsFile, PLAIN.signing.secret);
    const running = run(nobody, { ...options, wait: 60_000, webhookSecretsFile: secretsFile });
    await expect.poll(() => output).toContain('Waiting for a first delivery');
    emitted.push(upstream.emit());
    await running;
    expect(upstream.registered).toHaveLength(1);
  });

  it('of a service in which something always changes, what is new may be outstanding', async () => {
    upstream = await startShaped({
      ...PLAIN,
      event: (number) => ({ type: 'vendor.updated', data: { vendorId: `ven-${1 + (number % 3)}` } }),
    });
    const asker = person(answersFor(upstream));
    let changes: NodeJS.Timeout | undefined;
    asker.enter = async () => {
      if (output.endsWith('Enter skips it.\n'))
        changes = setInterval(() => emitted.push(upstream.emit()), CHANGES_EVERY_MS);
      await new Promise(() => undefined);
    };
    try {
      await run(asker);
    } finally {
      clearInterval(changes);
    }
    expect(output).toMatch(/vendor: in sync(, but for what changes right now)?, 3 records/);
  });

  const keepingUp = {
    verdict: 'catching_up',
    readable_since: '2026-11-22T10:00:00.000Z',
    open_gaps: 0,
    records: 5,
    verified: 3,
    unverified: 2,
    oldest_unverified_at: '2026-11-22T10:00:09.000Z',
  } as const;
  it.each([
    ['what is outstanding is new', {}, true],
    ['nothing is outstanding, while a sync runs', { unverified: 0, oldest_unverified_at: null }, true],
    ['what was outstanding before still is', { oldest_unverified_at: '2026-11-22T10:00:04.000Z' }, false],
    ['nobody can say since when', { oldest_unverified_at: null }, false],
    ['a record that only an event has named was never read', { verified: 4 }, false],
    ['a gap is open', { open_gaps: 1 }, false],
    ['nothing was ever read', { readable_since: null }, false],
    ['a person has to act', { verdict: 'action_required' }, false],
    ['it does not answer', { verdict: 'unreachable' }, false],
  ] as const)('whether a kind keeps up, where %s', (_, differing, keepsUp) => {
    const status = { ...keepingUp, ...differing } as KindStatus;
    expect(isKeepingUp(status, '2026-11-22T10:00:05.000Z')).toBe(keepsUp);
  });

  it('what is wrong is said, and asked again', async () => {
    upstream = await startShaped(PLAIN);
    const { origin } = new URL(upstream.baseUrl);
    const [nobodysPort] = await freePorts(1);
    const asker = person({
      '--base-url': [
        'not an address',
        `http://127.0.0.1:${nobodysPort}/v1`,
        `${origin}/elsewhere/v1`,
        upstream.baseUrl,
      ],
      '--api-key-file': ['a-wrong-key', KEY],
    });
    await run(asker);
    expect(output).toContain('COMPLIANCE_BASE_URL: takes');
    expect(output).toContain('ECONNREFUSED');
    expect(output).toMatch(/GET \/policies\S*: answered 404/);
    expect(output).toContain('refuses the API key');
    expect(asker.asked.filter((flag) => flag === '--base-url')).toHaveLength(4);
    expect(asker.asked.filter((flag) => flag === '--api-key-file')).toHaveLength(2);
  });

  it('a wrong answer is neither offered nor said again: it may be a key, at the wrong question', async () => {
    upstream = await startShaped(PLAIN);
    const asker = person({
      '--base-url': [KEY, upstream.baseUrl],
      '--auth': [KEY],
      '--api-key-file': [KEY],
    });
    await run(asker);
    expect(output).toContain('COMPLIANCE_BASE_URL: takes');
    expect(output).toContain('COMPLIANCE_AUTH: takes');
    expect(output).not.toContain(KEY);
    expect(asker.offered.slice(0, 4)).toEqual([undefined, undefined, 'api_key', 'api_key']);
    expect(output).not.toMatch(/\b1 records/);
  });

  it('a person signs in on the way, with the key for the tokens written before', async () => {
    const server = await startOauthServer();
    try {
      upstream = await startShaped(PLAIN, (bearer) => bearer.startsWith(ACCESS_PREFIX));
      const secretFile = join(folder, 'secret');
      writeFileSync(secretFile, CLIENT_SECRET);
      const options = {
        baseUrl: upstream.baseUrl,
        auth: 'oauth',
        authUrl: `${server.origin}/auth`,
        clientId: CLIENT_ID,
        clientSecretFile: secretFile,
        redirectUri: REDIRECT_URI,
      };
      const running = run(person({}), options);
      await expect.poll(() => /^http\S+authorize\S+$/m.test(output)).toBe(true);
      expect(Object.keys(written())).toContain('CREDENTIALS_KEY');
      const address = /^http\S+authorize\S+$/m.exec(output)![0];
      expect(new URL(address).searchParams.get('scope')).toBe('read write');
      expect(await (await fetch(address)).text()).toContain('Signed in');
      await running;
      expect(written()).toMatchObject({
        COMPLIANCE_AUTH: 'oauth',
        COMPLIANCE_CLIENT_SECRET_FILE: secretFile,
      });
      expect(rows('policies')).toHaveLength(5);
      expect(upstream.registered).toHaveLength(1);
    } finally {
      await server.close();
    }
  });

  it('a wrong setting beside those of a sign-in ends it with the words about that setting', async () => {
    Object.assign(environment, { DEDUPE_DAYS: '1', COMPLIANCE_CLIENT_SECRET: CLIENT_SECRET });
    const options = {
      baseUrl: 'https://api.example.com/v1',
      auth: 'oauth',
      authUrl: 'https://auth.example.com',
      clientId: CLIENT_ID,
      redirectUri: REDIRECT_URI,
    };
    const refused = run({ ...nobody, ask: async () => 'risk-1' }, options);
    await expect(refused).rejects.toThrow('DEDUPE_DAYS: got 1');
    await expect(refused).rejects.toThrow(UsageError);
  });

  it('a wrong setting that is not asked for ends it, and is not taken for a wrong address', async () => {
    upstream = await startShaped(PLAIN);
    writeFileSync(envPath, 'SYNC_FULL_MINUTES=often\n');
    const asker = person({ '--base-url': [upstream.baseUrl], '--api-key-file': [KEY] });
    await expect(run(asker)).rejects.toThrow('SYNC_FULL_MINUTES: got "often"');
    expect(asker.asked.filter((flag) => flag === '--base-url')).toHaveLength(1);
  });

  it('for a sign-in into a server’s database the token of the operators is shown and written with the rest', async () => {
    Object.assign(environment, {
      DATABASE_URL: 'postgres://mirror@127.0.0.1:1/mirror',
      COMPLIANCE_CLIENT_SECRET: CLIENT_SECRET,
    });
    const options = {
      baseUrl: 'https://127.0.0.1:1/v1',
      auth: 'oauth',
      authUrl: 'https://127.0.0.1:1',
      clientId: CLIENT_ID,
      redirectUri: REDIRECT_URI,
    };
    await expect(run({ ...nobody, ask: async () => 'risk-1' }, options)).rejects.toThrow();
    expect(output.indexOf('Made: OPS_TOKENS')).toBeGreaterThan(output.indexOf('Made: CREDENTIALS_KEY'));
    expect(output.indexOf('Reading from')).toBeGreaterThan(output.indexOf('Made: OPS_TOKENS'));
  });

  it('an option that does not work is asked for, and what the environment sets ends it', async () => {
    upstream = await startShaped(PLAIN);
    const keyFile = join(folder, 'key');
    writeFileSync(keyFile, 'a-wrong-key-in-a-file');
    const asker = person({ ...answersFor(upstream), '--api-key-file': [KEY] });
    await run(asker, { apiKeyFile: keyFile });
    expect(asker.asked.filter((flag) => flag === '--api-key-file')).toHaveLength(1);
    expect(written()).toMatchObject({ COMPLIANCE_API_KEY: KEY });
    expect(written()).not.toHaveProperty('COMPLIANCE_API_KEY_FILE');

    environment['COMPLIANCE_API_KEY'] = 'a-wrong-key-in-the-environment';
    const requests = upstream.seen.length;
    await expect(run(person({}))).rejects.toThrow('answered 401');
    expect(upstream.seen.length - requests).toBeLessThan(3);
  });

  it.each(Object.entries(DEFAULTS))('%s=%s is the default, which needs no line', (name, value) => {
    expect(JSON.stringify(loadConfig({ [name]: value }))).toBe(JSON.stringify(loadConfig({})));
  });

  it('asks a script nothing, and names the option that is missing', async () => {
    upstream = await startShaped(PLAIN);
    await expect(run(nobody)).rejects.toMatchObject({ remedy: expect.stringContaining('--base-url') });
    const { baseUrl } = upstream;
    const missing = run(nobody, { baseUrl });
    await expect(missing).rejects.toThrow(UsageError);
    await expect(missing).rejects.toMatchObject({ remedy: expect.stringContaining('--api-key-file') });
    expect(existsSync(envPath)).toBe(false);
  });

  it('a script has the secret in its file alone, and what the environment sets is written nowhere', async () => {
    upstream = await startShaped(PLAIN);
    environment['COMPLIANCE_BASE_URL'] = upstream.baseUrl;
    const keyFile = join(folder, 'key');
    writeFileSync(keyFile, `${KEY}\n`);
    await run(nobody, { apiKeyFile: keyFile, wait: 3_000 });
    const { CREDENTIALS_KEY: _, ...rest } = written();
    expect(rest).toEqual({ COMPLIANCE_API_KEY_FILE: keyFile });
    expect(upstream.registered).toEqual([`http://127.0.0.1:${environment['PORT']}/webhooks`]);
    expect(output).toContain('No delivery that fits has come');
    await expect(run(nobody, { baseUrl: 'https://api.example.com/v1' })).rejects.toThrow(
      'the environment sets',
    );
  });

  it('a setting that no signature has proven is named at the end', async () => {
    upstream = await startShaped(PLAIN);
    const keyFile = join(folder, 'key');
    writeFileSync(keyFile, KEY);
    const running = run(nobody, { baseUrl: upstream.baseUrl, apiKeyFile: keyFile, wait: 4_000 });
    await expect.poll(() => output).toContain('Waiting for a first delivery');
    const headers = { 'X-Guess': `t=1700000000, v1=${'a'.repeat(64)}` };
    await fetch(upstream.registered[0]!, { method: 'POST', body: '{}', headers });
    await expect(running).rejects.toThrow('wrong: rejections');
    expect(written()).toMatchObject({ WEBHOOK_SIGNATURE_HEADER: 'x-guess' });
    const [, closing] = output.split('No delivery that fits has come');
    expect(closing).toContain('No signature has proven WEBHOOK_SIGNATURE_HEADER');
  });

  it('stopped at any question leaves a whole file or none, and goes on from there', async () => {
    upstream = await startShaped(PLAIN);
    for (let questions = 1; questions <= 8; questions += IS_FULL ? 1 : 2) {
      const stop = new AbortController();
      const talker = person(answersFor(upstream));
      const ask = talker.ask.bind(talker);
      let left = questions;
      talker.ask = async (question) => {
        left -= 1;
        if (left > 0) return await ask(question);
        stop.abort();
        throw stop.signal.reason;
      };
      talker.enter = async () => {
        stop.abort();
      };
      await expect(run(talker, {}, stop.signal)).rejects.toThrow('aborted');
      if (existsSync(envPath)) expect(Object.keys(written())).toContain('CREDENTIALS_KEY');
    }
    await run(person(answersFor(upstream)));
    expect(upstream.registered).toHaveLength(1);
  });

  it('keeps the lines and comments that are there, and says what the environment would have to say', async () => {
    upstream = await startShaped({ ...PLAIN, paging: { page: 'page', size: 'per_page', first: 1 } });
    environment['COMPLIANCE_PER_PAGE_PARAM'] = 'perPage';
    const before = `# ours\nCOMPLIANCE_BASE_URL='${upstream.baseUrl}' # the test system\n\nLOG_LEVEL=warn\nCOMPLIANCE_API_KEY=\n`;
    writeFileSync(envPath, before);
    await run(person({ '--api-key-file': [KEY] }));
    const after = readFileSync(envPath, 'utf8');
    expect(after.startsWith(before.replace('COMPLIANCE_API_KEY=\n', `COMPLIANCE_API_KEY=${KEY}\n`))).toBe(
      true,
    );
    expect(output).toContain(
      'COMPLIANCE_PER_PAGE_PARAM should be per_page, and the environment says otherwise',
    );
  });
});

import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Asker, nobody } from '../../src/cli/asker.ts';
import { withEnvText } from '../../src/cli/env-file.ts';
import { DifferenceFound } from '../../src/cli/exit.ts';
import { setup } from '../../src/cli/setup.ts';
import { systemClock } from '../../src/platform/clock.ts';
import {
  ACCESS_PREFIX,
  CLIENT_ID,
  CLIENT_SECRET,
  REDIRECT_URI,
  startOauthServer,
} from '../compliance/oauth-server.ts';
import { freePorts } from '../support/ports.ts';
import { KEY, PLAIN, type ShapedUpstream, startShaped } from './shaped-upstream.ts';

let folder: string;
let envPath: string;
let environment: Record<string, string>;
let upstream: ShapedUpstream | undefined;
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
  upstream = undefined;
  await Promise.all(emitted.splice(0));
  rmSync(folder, { recursive: true, force: true });
});

const screen = () => ({
  write: (text: string) => {
    output += text;
  },
  isTerminal: false,
  columns: undefined,
});
const script = () => nobody({ out: screen() });

/** Answers by the setting or the option that each question names, one after the other; where none is left, Enter. */
function person(answers: Record<string, string[]>): Asker & { asked: string[] } {
  const asked: string[] = [];
  return {
    asked,
    isPerson: true,
    async ask({ flag, text, otherwise, problem }) {
      for (;;) {
        asked.push(flag);
        if (asked.length > 100) throw new Error(`asked for ever; so far:\n${output}`);
        const answer = answers[flag]?.shift() ?? otherwise;
        if (answer === undefined) throw new Error(`nothing to say to ${text}; so far:\n${output}`);
        const wrong = answer === otherwise ? null : (problem?.(answer) ?? null);
        if (wrong === null) return answer;
        output += `${wrong}\n`;
      }
    },
    async enter(text) {
      if (text.startsWith('Waiting for a first delivery')) emitted.push(upstream!.emit());
      await new Promise(() => undefined);
    },
    say: script().say,
  };
}

async function run(asker: Asker, options: object = {}, signal = new AbortController().signal): Promise<void> {
  const text = existsSync(envPath) ? readFileSync(envPath, 'utf8') : '';
  const cli = { env: withEnvText(environment, text), out: screen(), err: screen() };
  const given = { wait: 60_000, ...options };
  // Given a clock, the service has no threads: to start them takes most of the time.
  const clock = systemClock();
  await setup({ cli, environment, asker, options: given, signal, path: envPath, clock });
}

const answersFor = ({ baseUrl }: ShapedUpstream) => ({
  COMPLIANCE_BASE_URL: [baseUrl],
  COMPLIANCE_API_KEY: [KEY],
});
const hook = () => `http://127.0.0.1:${environment['PORT']}/webhooks`;
const times = (asked: readonly string[], flag: string) => asked.filter((each) => each === flag).length;

function rows(table: string): { id: string; verified_at: string | null }[] {
  const db = new Database(join(folder, 'mirror.db'), { readonly: true });
  try {
    return db.prepare(`SELECT id, verified_at FROM ${table} ORDER BY id`).all() as never;
  } finally {
    db.close();
  }
}

const written = () => parseEnv(readFileSync(envPath, 'utf8'));
const secretFile = (name: string) => join(folder, 'secrets', name);
const FILES = {
  get COMPLIANCE_API_KEY_FILE() {
    return secretFile('compliance-api-key');
  },
  get CREDENTIALS_KEY_FILE() {
    return secretFile('credentials-key');
  },
};

describe('setting up against a compliance service', () => {
  it('ends with a verified mirror, each secret in a file, and in .env what differs from the defaults', async () => {
    upstream = await startShaped(PLAIN);
    await run(person(answersFor(upstream)));

    expect(written()).toEqual({ COMPLIANCE_BASE_URL: upstream.baseUrl, ...FILES });
    expect(readFileSync(secretFile('compliance-api-key'), 'utf8')).toBe(`${KEY}\n`);
    const key = readFileSync(secretFile('credentials-key'), 'utf8').trim();
    expect(Buffer.from(key, 'base64')).toHaveLength(32);
    for (const path of [envPath, secretFile('compliance-api-key'), secretFile('credentials-key')]) {
      expect(statSync(path).mode & 0o777).toBe(0o600);
    }
    const opsToken = readFileSync(join(folder, 'ops-token'), 'utf8').trim();
    for (const secret of [KEY, key, opsToken, PLAIN.secret]) expect(output).not.toContain(secret);
    expect(rows('policies').map(({ id }) => id)).toEqual(['pol-1', 'pol-2', 'pol-3', 'pol-4', 'pol-5']);
    expect(rows('vendors').map(({ id }) => id)).toEqual(['ven-1', 'ven-2', 'ven-3']);
    for (const row of [...rows('policies'), ...rows('vendors')]) expect(row.verified_at).not.toBeNull();
    expect(output).toContain('A delivery was taken: its signature fits.');

    const before = readFileSync(envPath);
    await run(person({}));
    expect(readFileSync(envPath).equals(before)).toBe(true);
    expect(upstream.registered).toHaveLength(1);
  });

  it('what the service would have to have set otherwise is said, and where a secret may be', async () => {
    upstream = await startShaped({
      ...PLAIN,
      paging: { page: 'page', size: 'perPage', first: 0, most: 100 },
      registration: (id, token) => ({ data: { id, hook: { token, alg: 'sha256' } } }),
    });
    await expect(run(person(answersFor(upstream)), { wait: 3_000 })).rejects.toThrow('not in sync');
    expect(output.replaceAll(/\s+/g, ' ')).toContain('set COMPLIANCE_FIRST_PAGE=0');
    expect(output).toContain('take it from the answer with --secret-at (it has texts at: data.hook.token');
    expect(output).not.toContain(PLAIN.secret);
  });

  it('a webhook that is registered by other means is not registered again, and its secret is asked for', async () => {
    upstream = await startShaped(PLAIN);
    upstream.registered.push(hook());
    const answers = { WEBHOOK_SECRETS: ['too-short', PLAIN.secret] };
    await run(person({ ...answersFor(upstream), ...answers }));
    expect(output).toContain('A delivery was taken: its signature fits.');
    expect(written()['WEBHOOK_SECRETS_FILE']).toBe(secretFile('webhook-secrets'));
    expect(upstream.seen.filter((request) => request.startsWith('POST'))).toEqual([]);
  });

  it('a first delivery that is rejected ends the wait, and doctor says why', async () => {
    upstream = await startShaped({ ...PLAIN, content: (t, body) => `${t}:${body}` });
    // Nor are the full syncs waited for: until a delivery is accepted, no kind is in sync.
    const waiting = run(person(answersFor(upstream)));
    await expect(waiting).rejects.toThrow(DifferenceFound);
    expect(output).toMatch(/A delivery came, and was rejected.*WEBHOOK_SIGNED_CONTENT/s);
  });

  it('a wrong address and a wrong key are found at once, with what the service said', async () => {
    upstream = await startShaped(PLAIN);
    const { origin } = new URL(upstream.baseUrl);
    const [nobodysPort] = await freePorts(1);
    const wrong = [KEY, `http://127.0.0.1:${nobodysPort}/v1`, `${origin}/elsewhere/v1`];
    const asker = person({
      COMPLIANCE_BASE_URL: [...wrong, upstream.baseUrl],
      COMPLIANCE_API_KEY: ['a-key', 'a-key', 'a-wrong-key', KEY],
    });
    await run(asker);
    expect(output).toContain('It takes an https URL');
    expect(output).toContain('ECONNREFUSED');
    expect(output).toContain('answered 404');
    expect(output).toContain('The service says: no such key');
    expect(output).not.toContain(KEY);
    expect([times(asker.asked, 'COMPLIANCE_BASE_URL'), times(asker.asked, 'COMPLIANCE_API_KEY')]).toEqual([
      4, 4,
    ]);
  });

  it('a person signs in on the way, with the key for the tokens written before', async () => {
    const server = await startOauthServer();
    try {
      upstream = await startShaped(PLAIN, (bearer) => bearer.startsWith(ACCESS_PREFIX));
      const answers = {
        COMPLIANCE_BASE_URL: [upstream.baseUrl],
        COMPLIANCE_AUTH: ['oauth'],
        COMPLIANCE_AUTH_URL: [`${server.origin}/auth`],
        COMPLIANCE_CLIENT_ID: [CLIENT_ID],
        COMPLIANCE_CLIENT_SECRET: [CLIENT_SECRET],
        COMPLIANCE_REDIRECT_URI: [REDIRECT_URI],
      };
      const running = run(person(answers));
      await expect.poll(() => /^http\S+authorize\S+$/m.test(output)).toBe(true);
      expect(Object.keys(written())).toContain('CREDENTIALS_KEY_FILE');
      const address = /^http\S+authorize\S+$/m.exec(output)![0];
      expect(new URL(address).searchParams.get('scope')).toBe('read write');
      expect(await (await fetch(address)).text()).toContain('Signed in');
      await running;
      expect(rows('policies')).toHaveLength(5);
      expect(upstream.registered).toHaveLength(1);
    } finally {
      await server.close();
    }
  });

  it('a wrong setting that is not asked for ends it, and is not taken for a wrong address', async () => {
    upstream = await startShaped(PLAIN);
    writeFileSync(envPath, 'SYNC_FULL_MINUTES=often\n');
    const asker = person(answersFor(upstream));
    await expect(run(asker)).rejects.toThrow('SYNC_FULL_MINUTES');
    expect(times(asker.asked, 'COMPLIANCE_BASE_URL')).toBe(1);
  });

  it('a script has the secret in its own file, and what the environment sets is written nowhere', async () => {
    upstream = await startShaped(PLAIN);
    environment['COMPLIANCE_BASE_URL'] = upstream.baseUrl;
    const keyFile = join(folder, 'key');
    writeFileSync(keyFile, `${KEY}\n`);
    writeFileSync(envPath, `COMPLIANCE_API_KEY_FILE=${keyFile}\n`);
    await run(script(), { url: hook(), wait: 3_000 });
    const { CREDENTIALS_KEY_FILE } = FILES;
    expect(written()).toEqual({ CREDENTIALS_KEY_FILE, COMPLIANCE_API_KEY_FILE: keyFile });
    expect(upstream.registered).toEqual([hook()]);
    expect(output).toContain('No delivery has come');
  });

  it('stopped at any question it says what was really written, and goes on from there', async () => {
    upstream = await startShaped(PLAIN);
    for (const questions of [1, 4, 7]) {
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
      talker.enter = async () => stop.abort();
      output = '';
      const isThere = existsSync(envPath);
      await expect(run(talker, {}, stop.signal)).rejects.toThrow('stopped before the end');
      expect(output.includes('Written, for their owner')).toBe(!isThere && existsSync(envPath));
    }
    await run(person(answersFor(upstream)));
    expect(upstream.registered).toHaveLength(1);
  });

  it('keeps the lines and comments that are there', async () => {
    upstream = await startShaped(PLAIN);
    const before = `# ours\nCOMPLIANCE_BASE_URL='${upstream.baseUrl}' # the test system\n\nLOG_LEVEL=warn\n`;
    writeFileSync(envPath, `${before}COMPLIANCE_API_KEY=\n`);
    await run(person({ COMPLIANCE_API_KEY: [KEY] }));
    const after = readFileSync(envPath, 'utf8');
    expect(after.startsWith(before)).toBe(true);
    expect(written()).not.toHaveProperty('COMPLIANCE_API_KEY');
  });
});

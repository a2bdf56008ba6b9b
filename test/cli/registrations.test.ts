import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sealSecret } from '../../src/compliance/secrets.ts';
import { openStore } from '../../src/store/open.ts';
import { json, startUpstream } from '../compliance/upstream.ts';
import { eventBody, header, nowSeconds } from '../receive/sign.ts';
import { cli, inTemporaryDirectory, start } from './executable.ts';

const HOOK = 'http://127.0.0.1:1/webhooks';
const DAY_MS = 86_400_000;

let service: Awaited<ReturnType<typeof startUpstream>>;
/** The secret that the next registration's answer holds; its id is `wh_NUMBER`. */
let secret: string | undefined;
let made = 0;
/** What the next registration is answered, where it is not the usual. */
let answerOf: ((usual: object) => unknown) | null = null;
/** Told when the answer has left. */
let onAnswered: () => void = () => undefined;

beforeAll(async () => {
  service = await startUpstream((response, { method, body }) => {
    if (method === 'GET') return json(response, 200, { data: [], meta: { total: 0 } });
    made += 1;
    const usual = { ...(JSON.parse(body) as object), id: `wh_${made}`, secret };
    response.once('finish', onAnswered);
    json(response, 201, answerOf === null ? { data: usual } : answerOf(usual));
  });
});
afterAll(async () => {
  await service.close();
});

function settingsFor(directory: string, key: Buffer = randomBytes(32)): Record<string, string> {
  made = 0;
  answerOf = null;
  onAnswered = () => undefined;
  secret = randomBytes(16).toString('hex');
  return {
    DATABASE_URL: `file:${join(directory, 'mirror.db')}`,
    PORT: '0',
    OPS_PORT: '0',
    COMPLIANCE_BASE_URL: service.settings.baseUrl.href,
    COMPLIANCE_API_KEY: 'any',
    CREDENTIALS_KEY: key.toString('base64'),
  };
}

interface Listed {
  id: string;
  secret: string;
  expires_at: string | null;
}

async function listed(settings: Record<string, string>): Promise<Listed[]> {
  const { code, out } = await cli(['registrations', 'list', '--json'], settings);
  expect(code).toBe(0);
  return JSON.parse(out) as Listed[];
}

const register = (settings: Record<string, string>, ...more: string[]) =>
  cli(['register', '--url', HOOK, ...more], settings);

/** The newest entry of the audit. */
async function lastAudit(settings: Record<string, string>): Promise<unknown> {
  const { out } = await cli(['export', 'audit', '--format', 'ndjson'], settings);
  const entries = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { id: number });
  return entries.sort((a, b) => a.id - b.id).at(-1);
}

describe('the secret in the answer of a registration', () => {
  it('that WEBHOOK_SECRET_ENCODING makes no key of is kept, and what to set instead is said at once', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory);
      secret = 'whsec:0123456789abcdef';
      const hex = { ...settings, WEBHOOK_SECRET_ENCODING: 'hex' };
      const first = await register(hex);
      expect(first.code).toBe(3);
      expect(first.out).toContain('Its signing secret is stored');
      for (const { err } of [first, await register(hex)]) {
        expect(err).toContain('of wh_1 is stored and cannot be used: it is not wholly hex');
        expect(err).toContain('set WEBHOOK_SECRET_ENCODING=utf8,');
        expect(err).not.toContain('0123456789abcdef');
      }
      expect(await listed(hex)).toMatchObject([{ id: 'wh_1', secret: 'not_in_encoding' }]);
      const doctor = await cli(['doctor'], hex);
      expect(doctor.code).toBe(3);
      expect(doctor.out).toContain('of wh_1 is stored and cannot be used');
      expect(doctor.out).toContain('set WEBHOOK_SECRET_ENCODING=utf8,');
      expect(await listed(settings)).toMatchObject([{ id: 'wh_1', secret: 'verifies' }]);
    });
  });

  it('that is too short under every encoding is none, and is said to be', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory);
      secret = 'short';
      const { code, err } = await register(settings);
      expect(code).toBe(3);
      expect(err).toContain('it is shorter than 16 bytes');
      expect(err).toContain('no encoding makes a key of it');
    });
  });
});

describe('a registration that is made anew', () => {
  it('lets the secret of the one before expire after a day, and only once its own can be used', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory);
      expect((await register(settings)).code).toBe(0);
      secret = 'short';
      const useless = await register(settings, '--again');
      expect(useless.code).toBe(3);
      expect(useless.out).toContain('The secret of wh_1 goes on verifying');
      expect((await listed(settings)).map(({ expires_at }) => expires_at)).toEqual([null, null]);

      secret = randomBytes(16).toString('hex');
      const before = Date.now();
      const anew = await register(settings, '--again');
      expect(anew.code).toBe(0);
      expect(anew.out).toContain('The secret of wh_1 verifies until ');
      const held = await listed(settings);
      expect(held).toMatchObject([
        { id: 'wh_1', secret: 'verifies' },
        { id: 'wh_2', secret: 'too_short' },
        { id: 'wh_3', secret: 'verifies', expires_at: null },
      ]);
      for (const { expires_at } of held.slice(0, 2)) {
        expect(Date.parse(expires_at ?? '')).toBeGreaterThanOrEqual(before + DAY_MS);
        expect(Date.parse(expires_at ?? '')).toBeLessThanOrEqual(Date.now() + DAY_MS);
      }
      expect(await lastAudit(settings)).toMatchObject({ action: 'registration_forget', target: 'wh_2' });
      expect((await register(settings)).out).toContain('Registered already, as wh_3');
    });
  });
});

describe('forgetting a registration', () => {
  it('takes it away at once, with an entry in the audit, and warns where no secret is left', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory);
      await register(settings);
      const forgotten = await cli(['registrations', 'forget', 'wh_1'], settings);
      expect(forgotten.code).toBe(0);
      expect(forgotten.out).toContain('Forgotten: wh_1.');
      expect(forgotten.err).toContain('every delivery will be answered 503');
      expect(await listed(settings)).toEqual([]);
      expect(await lastAudit(settings)).toMatchObject({
        actor: 'cli',
        action: 'registration_forget',
        outcome: 'ok',
        target: 'wh_1',
      });
      expect(await cli(['registrations', 'forget', 'wh_1'], settings)).toMatchObject({ code: 1 });
    });
  });

  it('can be put off, and then counts as done for “register”', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory);
      await register(settings);
      const { code, out } = await cli(['registrations', 'forget', 'wh_1', '--after', '7d'], settings);
      expect({ code, out }).toMatchObject({ code: 0, out: expect.stringContaining('verifies until') });
      const [held] = await listed(settings);
      expect(held).toMatchObject({ id: 'wh_1', secret: 'verifies' });
      expect(Date.parse(held?.expires_at ?? '')).toBeGreaterThan(Date.now() + 6 * DAY_MS);
      expect((await register(settings)).out).toContain('Registered as wh_2');
    });
  });

  it('makes none of a database that is not there, and takes a length of time only', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory);
      expect((await cli(['registrations', 'forget', 'wh_1'], settings)).code).not.toBe(0);
      expect(existsSync(join(directory, 'mirror.db'))).toBe(false);
      expect((await cli(['registrations', 'forget', 'wh_1', '--after', 'soon'], settings)).code).toBe(2);
    });
  });
});

describe('rotating the key of what is stored', () => {
  const fileOf = (directory: string, key: Buffer, name: string) => {
    const path = join(directory, name);
    writeFileSync(path, `${key.toString('base64')}\n`);
    return path;
  };

  it('encrypts everything anew under a running service, which goes on taking deliveries before and after', async () => {
    await inTemporaryDirectory(async (directory) => {
      const [old, fresh] = [randomBytes(32), randomBytes(32)];
      const keyFile = fileOf(directory, old, 'key');
      const settings: Record<string, string> = {
        ...settingsFor(directory, old),
        CREDENTIALS_KEY: '',
        CREDENTIALS_KEY_FILE: keyFile,
      };
      const newKey = fileOf(directory, fresh, 'new.key');
      await register(settings);
      const store = await openStore(settings['DATABASE_URL'] ?? '');
      const entry = { actor: 'login', action: 'token_grant', outcome: 'ok', target: 'oauth' };
      await store.saveTokens('oauth', sealSecret(old, '{}', { table: 'tokens', row: 'oauth' }), null, entry, {
        wall: Date.now(),
        steady: 0,
      });
      await store.close();

      const running = start(['serve'], settings);
      const receiver = (await running.line('Deliveries: ')).replace('Deliveries: ', '').trim();
      let sent = 0;
      const deliver = async (key: string) => {
        const body = eventBody({ id: `evt_${++sent}` });
        const headers = { 'x-webhook-signature': header(nowSeconds(), body, key) };
        return (await fetch(receiver, { method: 'POST', body, headers })).status;
      };
      const first = secret ?? '';
      expect(await deliver(first)).toBe(202);

      const rotated = await cli(['credentials', 'rotate-key', '--new-key-file', newKey], settings);
      expect(rotated).toMatchObject({ code: 0, out: expect.stringContaining('Encrypted anew: 3.') });
      expect(await lastAudit(settings)).toMatchObject({
        actor: 'cli',
        action: 'rotate_key',
        outcome: 'ok:3',
      });
      expect(await deliver(first)).toBe(202);
      const again = await cli(['credentials', 'rotate-key', '--new-key-file', newKey], settings);
      expect(again).toMatchObject({ code: 0, out: expect.stringContaining('with that key already') });

      renameSync(newKey, keyFile);
      expect(await deliver(first)).toBe(202);
      secret = randomBytes(16).toString('hex');
      expect((await register(settings, '--again')).code).toBe(0);
      await expect.poll(() => deliver(secret ?? '')).toBe(202);
      expect(await running.stop()).toBe(0);
      const restarted = start(['serve'], settings);
      await restarted.line('Operators: ');
      expect(await restarted.stop()).toBe(0);
    });
  });

  it('takes up what was stored with the old key while the keys were exchanged', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory);
      await register(settings);
      const store = await openStore(settings['DATABASE_URL'] ?? '');
      const path = fileOf(directory, randomBytes(32), 'new.key');
      const rotate = () => cli(['credentials', 'rotate-key', '--new-key-file', path], settings);
      expect((await rotate()).out).toContain('Encrypted anew: 2.');
      // As by a "register" that had sent its request before.
      const { upstreamId } = (await store.listRegistrations())[0]!;
      const key = Buffer.from(settings['CREDENTIALS_KEY'] ?? '', 'base64');
      const place = { table: 'tokens', row: 'oauth' } as const;
      const entry = { actor: 'login', action: 'token_grant', outcome: 'ok', target: 'oauth' };
      const at = { wall: Date.now(), steady: 0 };
      await store.saveTokens('oauth', sealSecret(key, '{}', place), null, entry, at);
      expect((await rotate()).out).toContain('Encrypted anew: 1.');
      expect((await rotate()).out).toContain('with that key already');
      const held = await cli(['registrations', 'list'], {
        ...settings,
        CREDENTIALS_KEY: readFileSync(path, 'utf8').trim(),
      });
      expect(held.out).toMatch(new RegExp(`${upstreamId}.*verifies`));
      await store.close();
    });
  });

  it('changes nothing where one does not open, and names it', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory);
      await register(settings);
      const store = await openStore(settings['DATABASE_URL'] ?? '');
      const [held] = await store.listRegistrations();
      // Copied from another row, where it opened.
      await store.saveRegistration({ ...held!, upstreamId: 'wh_copy' });
      const before = await store.listSealed();
      const path = fileOf(directory, randomBytes(32), 'new.key');
      const { code, err } = await cli(['credentials', 'rotate-key', '--new-key-file', path], settings);
      expect(code).toBe(2);
      expect(err).toContain('nothing was changed: registration_answers wh_copy, registrations wh_copy');
      expect(await store.listSealed()).toEqual(before);
      await store.close();
    });
  });

  it.each([
    ['the present key', (key: Buffer) => key.toString('base64'), 'the present key'],
    ['no key', () => 'not a key', '32 bytes in base64'],
    ['a key that somebody typed', () => Buffer.alloc(32, 'typed').toString('base64'), 'is not random'],
  ])('takes no file with %s', async (_, content, message) => {
    await inTemporaryDirectory(async (directory) => {
      const key = randomBytes(32);
      const path = join(directory, 'new.key');
      writeFileSync(path, content(key));
      const command = ['credentials', 'rotate-key', '--new-key-file', path];
      const { code, err } = await cli(command, settingsFor(directory, key));
      expect(code).toBe(2);
      expect(err).toContain(message);
      expect(err).toContain('--new-key-file');
    });
  });
});

describe('an answer in which no secret is recognised', () => {
  it('is kept encrypted, and the secret is taken from it later without anything being sent', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory);
      const token = `${secret}`;
      answerOf = (usual) => ({ data: { ...usual, secret: undefined, hook: { token } } });
      const made = await register(settings);
      expect(made.code).toBe(3);
      expect(made.out).toContain('data.hook.token');
      const posts = () => service.received.filter(({ method }) => method === 'POST').length;
      const sent = posts();
      for (const { code, err } of [
        await register(settings),
        await register(settings, '--secret-at', 'data.id.x'),
      ]) {
        expect(code).toBeGreaterThan(1);
        expect(err).not.toContain(token);
      }
      expect(await listed(settings)).toMatchObject([{ id: 'wh_1', secret: 'not_stored' }]);
      const other = { ...settings, CREDENTIALS_KEY: randomBytes(32).toString('base64') };
      expect((await cli(['register', '--secret-at', 'data.hook.token'], other)).code).toBe(2);
      const taken = await cli(['register', '--secret-at', 'data.hook.token'], settings);
      expect({ code: taken.code, err: taken.err }).toEqual({ code: 0, err: '' });
      expect(await listed(settings)).toMatchObject([{ id: 'wh_1', secret: 'verifies' }]);
      expect(await lastAudit(settings)).toMatchObject({ action: 'registration_secret', target: 'wh_1' });
      expect(posts()).toBe(sent);
      expect(made.out + made.err + taken.out).not.toContain(token);
      for (const file of readdirSync(directory)) {
        expect(readFileSync(join(directory, file)).includes(token)).toBe(false);
      }
    });
  });

  it('is never written over by one that brings the same id, and --id says which is meant', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory);
      answerOf = () => ({ id: 'account', token: `first-${secret}` });
      expect((await register(settings)).code).toBe(3);
      answerOf = () => ({ id: 'account', token: `second-${secret}` });
      expect((await register(settings, '--again')).code).toBe(3);
      const ids = (await listed(settings)).map(({ id }) => id);
      expect(ids).toEqual(['account', expect.stringMatching(/^account#[0-9a-f]{8}$/)]);
      const open = await cli(['register', '--secret-at', 'token'], settings);
      expect(open).toMatchObject({ code: 2, err: expect.stringContaining('--id') });
      for (const id of ids) {
        expect((await cli(['register', '--secret-at', 'token', '--id', id], settings)).code).toBe(0);
      }
      expect((await listed(settings)).map(({ secret }) => secret)).toEqual(['verifies', 'verifies']);
    });
  });
});

describe('deliveries that follow the answer at once', () => {
  it.each([
    ['the first secret of all', {}],
    ['one beside another', { WEBHOOK_SECRETS: 'another-secret-0123456789' }],
  ])(
    'are answered 503 until the secret is taken up, never 401, and are then accepted: %s',
    async (_, more) => {
      await inTemporaryDirectory(async (directory) => {
        const settings = { ...settingsFor(directory), ...more };
        const running = start(['serve'], settings);
        try {
          const receiver = (await running.line('Deliveries: ')).replace('Deliveries: ', '').trim();
          const answered = new Promise<void>((resolve) => {
            onAnswered = resolve;
          });
          const registered = register(settings);
          await answered;
          const statuses: number[] = [];
          while (statuses.at(-1) !== 202) {
            const body = eventBody({ id: `evt_${statuses.length}` });
            const headers = { 'x-webhook-signature': header(nowSeconds(), body, secret!) };
            statuses.push((await fetch(receiver, { method: 'POST', headers, body })).status);
            expect(statuses.filter((status) => status !== 503 && status !== 202)).toEqual([]);
          }
          expect((await registered).code).toBe(0);
        } finally {
          expect(await running.stop()).toBe(0);
        }
      });
    },
  );
});

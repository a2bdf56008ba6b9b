import { randomBytes } from 'node:crypto';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sealSecret } from '../../src/compliance/secrets.ts';
import { openStore } from '../../src/store/open.ts';
import { json, startUpstream } from '../compliance/upstream.ts';
import { eventBody, header, nowSeconds } from '../receive/sign.ts';
import { cli, inTemporaryDirectory } from './executable.ts';
import { serviceHere } from './service-here.ts';

const HOOK = 'http://127.0.0.1:1/webhooks';

let service: Awaited<ReturnType<typeof startUpstream>>;
/** The secret that the next registration's answer holds; its id is `wh_NUMBER`. */
let secret: string | undefined;
let made = 0;

beforeAll(async () => {
  service = await startUpstream((response, { method, body }) => {
    if (method === 'GET') return json(response, 200, { data: [], meta: { total: 0 } });
    made += 1;
    json(response, 201, { data: { ...(JSON.parse(body) as object), id: `wh_${made}`, secret } });
  });
});
afterAll(async () => {
  await service.close();
});

function settingsFor(directory: string, key: Buffer = randomBytes(32)): Record<string, string> {
  made = 0;
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

const register = (settings: Record<string, string>, ...more: string[]) =>
  cli(['webhook', 'register', '--url', HOOK, ...more], settings);

/** The newest entry of the audit. */
async function lastAudit(settings: Record<string, string>): Promise<unknown> {
  const store = await openStore(settings['DATABASE_URL']!, { readOnly: true });
  const [newest] = (await store.list('audit', { limit: 1 })).items;
  await store.close();
  return newest;
}

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
      await store.saveTokens(
        'oauth',
        { sealed: sealSecret(old, '{}', { table: 'tokens', row: 'oauth' }) },
        null,
        entry,
        {
          wall: Date.now(),
          steady: 0,
        },
      );
      await store.close();

      const running = await serviceHere(settings);
      let sent = 0;
      const deliver = async (key: string) => {
        const body = eventBody({ id: `evt_${++sent}` });
        const headers = { 'x-webhook-signature': header(nowSeconds(), body, key) };
        return (await fetch(running.deliveries, { method: 'POST', body, headers })).status;
      };
      const first = secret ?? '';
      expect(await deliver(first)).toBe(202);

      const rotated = await cli(['rotate-key', '--new-key-file', newKey], settings);
      expect(rotated).toMatchObject({ code: 0, out: expect.stringContaining('Encrypted anew: 3.') });
      expect(await lastAudit(settings)).toMatchObject({
        actor: 'cli',
        action: 'rotate_key',
        outcome: 'ok:3',
      });
      expect(await deliver(first)).toBe(202);
      const again = await cli(['rotate-key', '--new-key-file', newKey], settings);
      expect(again).toMatchObject({ code: 0, out: expect.stringContaining('with that key already') });

      renameSync(newKey, keyFile);
      expect(await deliver(first)).toBe(202);
      secret = randomBytes(16).toString('hex');
      expect((await register(settings, '--yes')).code).toBe(0);
      await expect.poll(() => deliver(secret ?? '')).toBe(202);
      await running.stop();
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
      const before = await store.listRegistrations();
      const path = fileOf(directory, randomBytes(32), 'new.key');
      const { code, err } = await cli(['rotate-key', '--new-key-file', path], settings);
      expect(code).toBe(2);
      expect(err).toContain('nothing was changed: registration_answers wh_copy, registrations wh_copy');
      expect(await store.listRegistrations()).toEqual(before);
      await store.close();
    });
  });

  it.each([
    ['the present key', (key: Buffer) => key.toString('base64'), 'the present key'],
    ['no key', () => 'not a key', '32 bytes in base64'],
  ])('takes no file with %s', async (_, content, message) => {
    await inTemporaryDirectory(async (directory) => {
      const key = randomBytes(32);
      const path = join(directory, 'new.key');
      writeFileSync(path, content(key));
      const command = ['rotate-key', '--new-key-file', path];
      const { code, err } = await cli(command, settingsFor(directory, key));
      expect(code).toBe(2);
      expect(err).toContain(message);
      expect(err).toContain('--new-key-file');
    });
  });
});

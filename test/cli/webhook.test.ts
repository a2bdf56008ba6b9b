import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
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
/** What the next registration is answered, where it is not the usual; null: its connection is cut. */
let answerOf: (usual: object) => unknown;
let status = 201;
/** Told when the answer has left. */
let onAnswered: () => void;

beforeAll(async () => {
  service = await startUpstream((response, { method, body }) => {
    if (method === 'GET') return json(response, 200, { data: [], meta: { total: 0 } });
    made += 1;
    response.once('finish', onAnswered);
    const answer = answerOf({ ...(JSON.parse(body) as object), id: `wh_${made}`, secret });
    if (answer === null) response.destroy();
    else json(response, status, answer);
  });
});
afterAll(() => service.close());

function settingsFor(directory: string): Record<string, string> {
  [made, status] = [0, 201];
  answerOf = (usual) => ({ data: usual });
  onAnswered = () => undefined;
  secret = randomBytes(16).toString('hex');
  return {
    DATABASE_URL: `file:${join(directory, 'mirror.db')}`,
    PORT: '0',
    OPS_PORT: '0',
    COMPLIANCE_BASE_URL: service.settings.baseUrl.href,
    COMPLIANCE_API_KEY: 'any',
    CREDENTIALS_KEY: randomBytes(32).toString('base64'),
  };
}

/** `work` with the settings for a folder of its own. */
const withSettings = (work: (settings: Record<string, string>, directory: string) => Promise<void>) =>
  inTemporaryDirectory((directory) => work(settingsFor(directory), directory));

const register = (settings: Record<string, string>, ...more: string[]) =>
  cli(['webhook', 'register', '--url', HOOK, ...more], settings);
const forget = (settings: Record<string, string>, ...more: string[]) =>
  cli(['webhook', 'forget', ...more], settings);

interface Listed {
  id: string;
  secret: string;
}

async function listed(settings: Record<string, string>): Promise<Listed[]> {
  const { code, out } = await cli(['webhook', 'list', '--json'], settings);
  expect(code).toBe(0);
  return JSON.parse(out) as Listed[];
}

describe('registering', () => {
  it('asks once, the secret is stored encrypted, and the second time says that it is done already', async () => {
    await withSettings(async (settings, directory) => {
      const first = await register(settings);
      expect(first).toMatchObject({ code: 0, err: '' });
      expect(first.out).toContain(`Registered as wh_1: ${HOOK}\nIts signing secret is stored, encrypted.`);
      const again = await register(settings, '--events', 'policy.*');
      expect(again.out).toMatch(
        /is registered already, as wh_1 since .*; its secret is here\.\nNothing was sent/,
      );
      expect([again.code, made]).toEqual([0, 1]);
      expect(first.out + again.out).not.toContain(secret);
      for (const file of readdirSync(directory)) {
        expect(readFileSync(join(directory, file)).includes(secret!)).toBe(false);
      }
    });
  });

  it('once more keeps the secret before until it is forgotten, and says so', async () => {
    await withSettings(async (settings) => {
      await register(settings);
      secret = 'short';
      expect((await register(settings, '--yes')).err).toContain('No encoding makes a key of it');
      secret = randomBytes(16).toString('hex');
      const anew = await register(settings, '--yes');
      expect(anew).toMatchObject({
        code: 0,
        out: expect.stringContaining('The secret of wh_1 still verifies'),
      });
      expect(await listed(settings)).toMatchObject([{ id: 'wh_1' }, { id: 'wh_2' }, { id: 'wh_3' }]);
    });
  });

  it('whose answer is lost is reported as unknown, and not sent again unless somebody insists', async () => {
    await withSettings(async (settings) => {
      answerOf = () => null;
      const first = await register(settings);
      expect({ code: first.code, made }).toEqual({ code: 1, made: 1 });
      expect(first.err).toContain('unknown');
      const second = await register(settings, '--events', 'vendor.*');
      expect({ code: second.code, made }).toEqual({ code: 1, made: 1 });
      expect(second.err).toContain('add --yes');
      answerOf = (usual) => usual;
      expect(await register(settings, '--yes')).toMatchObject({ code: 0 });
      expect(made).toBe(2);
    });
  });

  it('that is refused says why, may be tried again, and both are in the audit without the query', async () => {
    await withSettings(async (settings) => {
      [status, answerOf] = [422, () => ({ detail: 'events must be one of the twelve event types' })];
      const refused = await cli(['webhook', 'register', '--url', `${HOOK}?key=of-the-proxy`], settings);
      expect(refused.code).toBe(1);
      expect(refused.out).toContain(
        'The compliance service says: events must be one of the twelve event types',
      );
      [status, answerOf] = [201, (usual: object) => usual];
      expect(await register(settings)).toMatchObject({ code: 0 });
      const store = await openStore(settings['DATABASE_URL']!, { readOnly: true });
      const entries = (await store.list('audit', { limit: 10 })).items;
      await store.close();
      expect(entries.filter(({ action }) => action === 'register')).toMatchObject([
        { actor: 'register', outcome: 'ok', target: HOOK },
        { actor: 'register', outcome: 'failed', target: HOOK },
      ]);
    });
  });

  it.each([
    ['without a key to keep the secret with', ['--url', HOOK], { CREDENTIALS_KEY: '' }, 'CREDENTIALS_KEY'],
    ['of plain http to elsewhere', ['--url', 'http://hooks.example/webhooks'], {}, '--url'],
    ['of a pattern that is none', ['--url', HOOK, '--events', '*'], {}, '--events'],
  ])('%s is bad usage, and nothing is sent', async (_, args, more, named) => {
    await withSettings(async (settings) => {
      const { code, err } = await cli(['webhook', 'register', ...args], { ...settings, ...more });
      expect({ code, made }).toEqual({ code: 2, made: 0 });
      expect(err).toContain(named);
    });
  });
});

describe('the secret in the answer', () => {
  it('that is not recognised is kept sealed, and is taken from there later without anything being sent', async () => {
    await withSettings(async (settings, directory) => {
      const token = `${secret}`;
      answerOf = (usual) => ({ data: { ...usual, secret: undefined, hook: { token } } });
      const first = await register(settings);
      expect(first).toMatchObject({ code: 3, err: expect.stringContaining('data.hook.token') });
      for (const again of [await register(settings), await register(settings, '--secret-at', 'data.id.x')]) {
        expect(again.code).toBeGreaterThan(1);
        expect(again.out + again.err).not.toContain(token);
      }
      expect(await listed(settings)).toMatchObject([{ id: 'wh_1', secret: 'not_stored' }]);
      const taken = await cli(['webhook', 'register', '--secret-at', 'data.hook.token'], settings);
      expect(taken).toMatchObject({ code: 0, err: '' });
      expect(await listed(settings)).toMatchObject([{ id: 'wh_1', secret: 'verifies' }]);
      expect(made).toBe(1);
      expect(first.out + first.err + taken.out).not.toContain(token);
      for (const file of readdirSync(directory)) {
        expect(readFileSync(join(directory, file)).includes(token)).toBe(false);
      }
    });
  });

  it('that does not open with CREDENTIALS_KEY is bad configuration, until it is forgotten', async () => {
    await withSettings(async (settings) => {
      await register(settings);
      const lost = { ...settings, CREDENTIALS_KEY: randomBytes(32).toString('base64') };
      for (const command of [['webhook', 'register', '--url', HOOK], ['serve']]) {
        const { code, err } = await cli(command, lost);
        expect(code).toBe(2);
        expect(err).toContain('does not open with this CREDENTIALS_KEY');
        expect(err).toContain('webhook forget');
      }
      expect(made).toBe(1);
      expect((await forget(lost, 'wh_1')).code).toBe(0);
      expect(await register(lost)).toMatchObject({ code: 0 });
    });
  });
});

describe('forgetting a registration', () => {
  it('takes it away at once, and warns where no secret is left', async () => {
    await withSettings(async (settings) => {
      await register(settings);
      const forgotten = await forget(settings, 'wh_1');
      expect(forgotten).toMatchObject({ code: 0, out: expect.stringContaining('Forgotten: wh_1.') });
      expect(forgotten.err).toContain('every delivery will be answered 503');
      expect(await listed(settings)).toEqual([]);
      expect(await forget(settings, 'wh_1')).toMatchObject({ code: 1 });
    });
  });
});

describe('deliveries that follow the answer at once', () => {
  it('are answered 503 until the secret is taken up beside another, never 401, and are then accepted', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = { ...settingsFor(directory), WEBHOOK_SECRETS: 'another-secret-0123456789' };
      const running = await serviceHere(settings);
      try {
        const answered = new Promise<void>((resolve) => {
          onAnswered = resolve;
        });
        const registered = register(settings);
        await answered;
        const statuses: number[] = [];
        while (statuses.at(-1) !== 202) {
          const body = eventBody({ id: `evt_${statuses.length}` });
          const headers = { 'x-webhook-signature': header(nowSeconds(), body, secret!) };
          statuses.push((await fetch(running.deliveries, { method: 'POST', headers, body })).status);
          expect(statuses.filter((status) => status !== 503 && status !== 202)).toEqual([]);
        }
        expect((await registered).code).toBe(0);
      } finally {
        await running.stop();
      }
    });
  });
});

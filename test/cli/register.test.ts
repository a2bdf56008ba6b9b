import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { json, startUpstream } from '../compliance/upstream.ts';
import { cli, inTemporaryDirectory, type Running, start } from './executable.ts';

const API_KEY = 'a-key-for-the-sandbox';
const HOOK = 'http://127.0.0.1:1/webhooks';

function settingsFor(directory: string, baseUrl: string): Record<string, string> {
  return {
    DATABASE_URL: `file:${join(directory, 'mirror.db')}`,
    COMPLIANCE_BASE_URL: baseUrl,
    COMPLIANCE_API_KEY: API_KEY,
    CREDENTIALS_KEY: randomBytes(32).toString('base64'),
  };
}

describe('registering with the compliance service', () => {
  let sandbox: Running;
  let baseUrl: string;

  beforeAll(async () => {
    sandbox = start(['sandbox', '--port', '0'], {
      SANDBOX_API_KEY: API_KEY,
      SANDBOX_WEBHOOK_SECRET: 'the-secret-that-is-not-to-be-seen',
    });
    baseUrl = (await sandbox.line('Sandbox: ')).replace('Sandbox: ', '');
  });
  afterAll(async () => {
    expect(await sandbox.stop()).toBe(0);
  });

  async function registrations(): Promise<{ url: string; description: string }[]> {
    const state = await fetch(`${new URL(baseUrl).origin}/_sandbox/state`);
    return ((await state.json()) as { registrations: { url: string; description: string }[] }).registrations;
  }

  it('asks once, and the second time says that it is done already', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory, baseUrl);
      const args = ['register', '--url', HOOK, '--description', 'once'];
      const first = await cli(args, settings);
      expect({ code: first.code, err: first.err }).toEqual({ code: 0, err: '' });
      expect(first.out).toContain('Registered as');
      const again = await cli([...args, '--events', 'vendor.*,risk.*,policy.*'], settings);
      expect(again.code).toBe(0);
      expect(again.out).toContain('Registered already');
      expect((await registrations()).filter((each) => each.description === 'once')).toHaveLength(1);
    });
  });

  it('asks once, however many commands come to it at the same time', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory, baseUrl);
      const service = start(['serve'], { ...settings, PORT: '0', OPS_PORT: '0' });
      await service.line('Deliveries: ');
      const args = ['register', '--url', HOOK, '--description', 'together'];
      const results = await Promise.all([1, 2, 3].map(() => cli(args, settings)));
      expect(await service.stop()).toBe(0);
      expect((await registrations()).filter((each) => each.description === 'together')).toHaveLength(1);
      expect(results.map(({ code }) => code)).toContain(0);
      for (const { out, err } of results) expect(out + err).toMatch(/Registered|requested before/);
    });
  });

  it('makes it anew where it is said that the service has lost it, and the newest is the one that counts', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory, baseUrl);
      const args = ['register', '--url', HOOK, '--description', 'lost'];
      await cli(args, settings);
      expect((await cli(args, settings)).out).toContain('add --again');
      const anew = await cli([...args, '--again'], settings);
      expect(anew.code).toBe(0);
      const id = /^Registered as (\S+):/.exec(anew.out)?.[1];
      expect((await registrations()).filter((each) => each.description === 'lost')).toHaveLength(2);
      expect((await cli(args, settings)).out).toContain(`Registered already, as ${id};`);
    });
  });

  it('stands in the audit with its outcome, and without the query of its address', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory, baseUrl);
      await cli(['register', '--url', `${HOOK}?key=of-the-proxy`], settings);
      await cli(['register', '--url', HOOK, '--events', 'vendors.*'], settings);
      const { code, out } = await cli(['export', 'audit', '--format', 'ndjson'], settings);
      expect(code).toBe(0);
      const entries = out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      expect(entries.filter((entry) => entry.action === 'register')).toMatchObject([
        { actor: 'register', outcome: 'failed', target: HOOK },
        { actor: 'register', outcome: 'ok', target: HOOK },
      ]);
    });
  });

  it('warns where another registration brings the same events to the same address', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory, baseUrl);
      const first = await cli(['register', '--url', HOOK, '--events', 'policy.*,vendor.added'], settings);
      expect(first.err).not.toContain('come twice');
      const id = /^Registered as (\S+):/.exec(first.out)?.[1];
      const second = await cli(['register', '--url', HOOK, '--events', 'risk.*,vendor.*'], settings);
      expect(second).toMatchObject({ code: 0 });
      expect(second.err).toContain(`${id} delivers to ${HOOK} as well`);
      expect(second.err).toMatch(/: vendor\.added\n/);
    });
  });

  it('with --json prints what is held, and the rest beside it', async () => {
    await inTemporaryDirectory(async (directory) => {
      const args = ['register', '--url', HOOK, '--json'];
      const { code, out, err } = await cli(args, settingsFor(directory, baseUrl));
      expect(code).toBe(0);
      expect(JSON.parse(out)).toMatchObject([{ url: HOOK, secret: 'verifies' }]);
      expect(err).toContain('Registered as');
    });
  });

  it('shows the secret nowhere and stores it encrypted', async () => {
    await inTemporaryDirectory(async (directory) => {
      const { out, err } = await cli(['register', '--url', HOOK], settingsFor(directory, baseUrl));
      expect(out).toContain('stored, encrypted');
      expect(out + err).not.toContain('not-to-be-seen');
      for (const file of readdirSync(directory)) {
        expect(readFileSync(join(directory, file)).includes('not-to-be-seen')).toBe(false);
      }
    });
  });

  it('warns of event types that will not come', async () => {
    await inTemporaryDirectory(async (directory) => {
      const args = ['register', '--url', HOOK, '--events', 'policy.*,vendor.added'];
      const { code, err } = await cli(args, settingsFor(directory, baseUrl));
      expect(code).toBe(0);
      expect(err).toContain('not covered');
      expect(err).toContain('vendor.removed');
      expect(err).not.toContain('policy.');
      expect(err).toContain('nothing at all of: risk)');
    });
  });

  it('warns of an address whose path the receiver does not take, each time it is shown', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory, baseUrl);
      const args = ['register', '--url', 'http://127.0.0.1:1/webhook'];
      for (const { code, err } of [
        await cli(args, settings),
        await cli(['registrations', 'list'], settings),
      ]) {
        expect(code).toBe(0);
        expect(err).toContain('does not end in /webhooks');
      }
      const behindProxy = ['register', '--url', 'https://hooks.example.com/mirror/webhooks'];
      expect((await cli(behindProxy, settings)).err).not.toContain('does not end');
    });
  });

  it('sends nothing without a key to keep the secret with', async () => {
    await inTemporaryDirectory(async (directory) => {
      const before = (await registrations()).length;
      const { code, err } = await cli(['register', '--url', HOOK, '--description', 'keyless'], {
        ...settingsFor(directory, baseUrl),
        CREDENTIALS_KEY: '',
      });
      expect(code).toBe(2);
      expect(err).toContain('CREDENTIALS_KEY');
      expect(await registrations()).toHaveLength(before);
    });
  });

  it.each([
    ['plain http to elsewhere', ['--url', 'http://hooks.example/webhooks'], '--url'],
    ['no URL at all', ['--url', 'webhooks'], '--url'],
    ['no events', ['--url', HOOK, '--events', ' , '], '--events'],
    ['a pattern that is none', ['--url', HOOK, '--events', '*'], '--events'],
  ])('refuses %s', async (_, args, named) => {
    await inTemporaryDirectory(async (directory) => {
      const { code, err } = await cli(['register', ...args], settingsFor(directory, baseUrl));
      expect(code).toBe(2);
      expect(err).toContain(named);
    });
  });

  it('says which pattern selects nothing when the service refuses the registration, and why it does', async () => {
    await inTemporaryDirectory(async (directory) => {
      const args = ['register', '--url', HOOK, '--events', 'policy.*,vendors.*'];
      const { code, err } = await cli(args, settingsFor(directory, baseUrl));
      expect(code).toBe(1);
      expect(err).toContain('answered 422');
      expect(err).toContain('no known event type is selected by: vendors.*\n');
      expect(err).toContain('The compliance service says: ');
      expect(err).toContain('one of the twelve event types');
    });
  });

  it('says why when the API key is refused, and may then be tried again', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory, baseUrl);
      const refused = await cli(['register', '--url', HOOK], { ...settings, COMPLIANCE_API_KEY: 'wrong' });
      expect(refused.code).toBe(1);
      expect(refused.err).toContain('COMPLIANCE_API_KEY');
      expect((await cli(['register', '--url', HOOK], settings)).code).toBe(0);
    });
  });
});

describe('a service that registers something else than it was asked for', () => {
  it('is warned of by what it answered, again each time, and shown with all that is held', async () => {
    const service = await startUpstream((response, { method, body }) => {
      if (method === 'GET') return json(response, 200, { data: [], meta: { total: 0 } });
      const asked = JSON.parse(body) as { url: string; description: string };
      const events = asked.description === 'all' ? ['policy.*'] : undefined;
      json(response, 201, { data: { ...asked, id: `wh_${asked.description}`, events, extra: { a: 1 } } });
    });
    try {
      await inTemporaryDirectory(async (directory) => {
        const settings = {
          ...settingsFor(directory, service.settings.baseUrl.href),
          WEBHOOK_SECRETS: 'shown-elsewhere-0123456789',
        };
        const args = ['register', '--url', HOOK, '--description', 'all'];
        const first = await cli(args, settings);
        expect(first.code).toBe(0);
        expect(first.err).toContain('asked for policy.*, risk.*, vendor.*, and the answer names policy.*');
        const again = await cli(args, settings);
        expect(again.out).toContain('Registered already');
        for (const { err } of [first, again]) {
          expect(err).toMatch(
            /not covered .*risk\.identified.*vendor\.removed \(nothing at all of: risk, vendor\)/,
          );
          expect(err).not.toContain('policy.created');
        }
        // Together with the first, the second covers everything at that address.
        const more = ['register', '--url', HOOK, '--description', 'rest', '--events', 'risk.*,vendor.*'];
        const second = await cli(more, settings);
        expect(second).toMatchObject({ code: 0, err: '' });
        for (const id of ['wh_all', 'wh_rest']) expect(second.out).toContain(id);

        const sent = service.received.length;
        const shown = await cli(['registrations', 'list'], settings);
        expect(shown).toMatchObject({ code: 0, err: '' });
        expect(shown.out).toContain('wh_all');
        const listed = await cli(['registrations', 'list', '--json'], settings);
        expect(JSON.parse(listed.out)).toMatchObject([
          { id: 'wh_all', events: ['policy.*'], secret: 'not_stored' },
          { id: 'wh_rest', events: ['risk.*', 'vendor.*'] },
        ]);
        expect(service.received).toHaveLength(sent);
        const doctor = await cli(['doctor', '--json'], settings);
        expect(doctor.out).toContain('wh_rest');
      });
    } finally {
      await service.close();
    }
  });
});

describe('a stored secret that does not open with CREDENTIALS_KEY', () => {
  it('is bad configuration for whatever needs it, and can be given up by forgetting it', async () => {
    const service = await startUpstream((response, { method, body }, count) => {
      if (method === 'GET') return json(response, 200, { data: [], meta: { total: 0 } });
      json(response, 201, {
        ...(JSON.parse(body) as object),
        id: `wh_${count}`,
        secret: 'whsec_0123456789abcdef',
      });
    });
    try {
      await inTemporaryDirectory(async (directory) => {
        const settings = {
          ...settingsFor(directory, service.settings.baseUrl.href),
          PORT: '0',
          OPS_PORT: '0',
        };
        const args = ['register', '--url', HOOK];
        expect((await cli(args, settings)).code).toBe(0);
        const lost = { ...settings, CREDENTIALS_KEY: randomBytes(32).toString('base64') };
        for (const command of [args, ['serve']]) {
          const { code, err } = await cli(command, lost);
          expect(code).toBe(2);
          expect(err).toContain('does not open with this CREDENTIALS_KEY');
          expect(err).toContain('registrations forget');
        }
        const doctor = await cli(['doctor'], lost);
        expect(doctor.code).toBe(3);
        expect(doctor.out).toContain(
          'do not open with CREDENTIALS_KEY: registration_answers wh_1, registrations wh_1',
        );
        expect(service.received.filter(({ method }) => method === 'POST')).toHaveLength(1);
        expect((await cli(['registrations', 'forget', 'wh_1'], lost)).code).toBe(0);
        expect(await cli(args, lost)).toMatchObject({ code: 0 });
        const started = start(['serve'], lost);
        await started.line('Operators: ');
        expect(await started.stop()).toBe(0);
      });
    } finally {
      await service.close();
    }
  });
});

describe('a registration whose answer is lost', () => {
  let server: Server;
  let received = 0;

  beforeAll(async () => {
    server = createServer((request) => {
      request.on('end', () => {
        received += 1;
        request.socket.destroy();
      });
      request.resume();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  afterAll(() => {
    server.close();
  });

  it('is reported as unknown, and not sent again unless somebody insists', async () => {
    await inTemporaryDirectory(async (directory) => {
      const port = (server.address() as AddressInfo).port;
      const settings = settingsFor(directory, `http://127.0.0.1:${port}/v1`);
      const args = ['register', '--url', HOOK];
      const first = await cli(args, settings);
      expect({ code: first.code, received }).toEqual({ code: 1, received: 1 });
      expect(first.err).toContain('unknown');

      const second = await cli(args, settings);
      expect({ code: second.code, received }).toEqual({ code: 1, received: 1 });
      expect(second.err).toContain('--again');

      await cli([...args, '--again'], settings);
      expect(received).toBe(2);
    });
  });
});

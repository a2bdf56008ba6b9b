import { createHmac, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { CLIENT_ID, CLIENT_SECRET, startOauthServer } from '../compliance/oauth-server.ts';
import { json, startUpstream, type Upstream } from '../compliance/upstream.ts';
import { SPECIMENS } from '../doctor/specimens.ts';
import { cli, inTemporaryDirectory, start } from './executable.ts';

const FIXTURES = fileURLToPath(new URL('../fixtures/doctor/', import.meta.url));
const SECRET = 'correct-horse-battery-staple';
const RETIRED = 'the-secret-of-last-year-0123';
const ARRIVED = ['--received-at', '2026-11-02T12:00:00Z'];
const HEADER = 't=1793620800, v1=79997e3bbe8e11b7013752bff993a71a07a2e744272c8cffb5052b7758fc3dec';
const API_KEY = 'an-api-key-for-the-doctor';

const BASE64 = 'jx0sO0pZaHeGlaSzwtHg/wARIjNEVWZ3iJmqu8zd7v8=';
const REJECTION = {
  address: null,
  times: 1,
  reason: 'bad_signature',
  t: '1793620800',
  bytes: 3,
  bodySha256: null,
  wall: Date.parse('2026-11-02T12:00:00Z'),
};

const body = (name: string) => ['--body', `${FIXTURES}${name}.body`];

describe('doctor on one recorded delivery', () => {
  it('is content with a healthy one, and exits 0', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = { DATABASE_URL: `file:${join(directory, 'none.db')}` };
      const args = ['doctor', '--header', HEADER, ...body('healthy'), '--secret', SECRET, ...ARRIVED];
      const { code, out, err } = await cli(args, settings);
      expect({ code, err }).toEqual({ code: 0, err: '' });
      expect(out).toContain('{t}.{body}');
      expect(out).not.toContain(SECRET);
    });
  });

  it('takes the body from standard input', async () => {
    const piped = start(['doctor', '--header', HEADER, '--body', '-', '--secret', SECRET, ...ARRIVED]);
    piped.child.stdin!.end(readFileSync(`${FIXTURES}healthy.body`));
    await piped.line('{t}.{body}');
    expect(await piped.exited).toBe(0);
  });

  it.each([
    ['empty_body', ''],
    ['not_json', 'no JSON'],
    ['not_an_object', '[]'],
    ['invalid_created', '{"id":"e1","type":"vendor.updated","created":"2026-02-30T00:00:00Z","data":{}}'],
    ['too_large', `{"pad":"${'x'.repeat(1024)}"}`],
  ])(
    'does not call a delivery well whose signature is right and whose body is refused: %s',
    async (code, text) => {
      await inTemporaryDirectory(async (directory) => {
        const file = join(directory, 'a.body');
        writeFileSync(file, text);
        const mac = createHmac('sha256', SECRET).update(`1793620800.${text}`).digest('hex');
        const args = ['doctor', '--header', `t=1793620800, v1=${mac}`, '--body', file, ...ARRIVED, '--json'];
        const finished = await cli(args, {
          DATABASE_URL: `file:${join(directory, 'none.db')}`,
          WEBHOOK_SECRETS: SECRET,
          WEBHOOK_MAX_BODY_BYTES: '1024',
        });
        expect(finished.code).toBe(3);
        expect(JSON.parse(finished.out)).toMatchObject({ healthy: false, causes: [{ code }] });
      });
    },
  );

  it('takes a whole header line, and names the cause with what to do, and exits 3', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = { DATABASE_URL: `file:${join(directory, 'none.db')}`, WEBHOOK_SECRETS: SECRET };
      const line = `X-Webhook-Signature: ${HEADER}`;
      const args = ['doctor', '--header', line, ...body('bom-added'), ...ARRIVED];
      const { code, out, err } = await cli(args, settings);
      expect(code).toBe(3);
      expect(out).toContain('byte order mark');
      expect(out).toContain('What to do');
      expect(err).toContain('rejected');
      const bare = await cli(['doctor', ...body('healthy')], settings);
      expect(bare.out).toContain('[header_missing]');
    });
  });

  it('names a secret by its place on the command line, also after one that is configured', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = { DATABASE_URL: `file:${join(directory, 'none.db')}`, WEBHOOK_SECRETS: SECRET };
      const given = ['--retired', SECRET, '--retired', RETIRED];
      const header = readFileSync(`${FIXTURES}retired-secret.header`, 'utf8');
      const args = ['doctor', '--header', header, ...body('retired-secret'), ...ARRIVED, ...given];
      expect((await cli(args, settings)).out).toContain('(--retired number 2)');
    });
  });

  it('tells a secret that is not in use from one that is, by --retired and by --secret', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = { DATABASE_URL: `file:${join(directory, 'none.db')}`, WEBHOOK_SECRETS: SECRET };
      for (const option of ['--retired', '--secret']) {
        const args = [
          'doctor',
          '--header',
          HEADER,
          ...body('healthy'),
          ...ARRIVED,
          '--json',
          option,
          RETIRED,
        ];
        const other = await cli(args, { ...settings, WEBHOOK_SECRETS: 'another-secret-in-use' });
        expect(JSON.parse(other.out)).toMatchObject({ healthy: false, causes: [{ code: 'wrong_secret' }] });
        const swapped = [...args.slice(0, -1), SECRET];
        const { code, out } = await cli(swapped, { ...settings, WEBHOOK_SECRETS: RETIRED });
        expect(code).toBe(3);
        expect(JSON.parse(out)).toMatchObject({ causes: [{ code: 'secret_not_in_use' }] });
        expect(out).not.toContain(SECRET);
      }
    });
  });

  it.each([
    [['--header', HEADER], '--body'],
    [['--header', HEADER, '--body', '/nowhere/at/all'], 'cannot be read'],
    [['--header', HEADER, ...body('healthy'), '--received-at', 'yesterday'], '--received-at'],
    [['--header', HEADER, ...body('healthy'), '--received-at', '2026-02-30T12:00:00Z'], '--received-at'],
    [['--delivery', 'x'], 'there is no database'],
    [['--delivery', '1', ...body('healthy')], '--delivery'],
  ])('refuses %j and says why', async (args, remedy) => {
    const { code, err } = await cli(['doctor', ...args], { DATABASE_URL: 'file:/nowhere/mirror.db' });
    expect(code).toBe(2);
    expect(err).toContain(remedy);
  });
});

describe('doctor on a delivery that was kept', () => {
  it('explains rejected deliveries and quarantined ones by their numbers, and by the event that they name', async () => {
    await inTemporaryDirectory(async (directory) => {
      const url = `file:${join(directory, 'mirror.db')}`;
      const store = await openStore(url);
      const rejection = {
        t: '1793620800',
        bytes: 3,
        bodySha256: null,
        address: null,
        times: 1,
        wall: Date.parse('2026-11-02T12:00:00Z'),
      };
      const signed = Buffer.from('{}');
      await store.recordRejections([
        { ...rejection, reason: 'bad_signature', header: HEADER, body: signed },
        { ...rejection, reason: 'missing_header', header: null, body: null },
        { ...rejection, reason: 'bad_signature', header: HEADER, body: null },
      ]);
      const unusable = { reason: 'not_json', t: '1', body: Buffer.from('{'), kind: null, recordId: null };
      const now = { wall: Date.now(), steady: 1 };
      const named = { ...unusable, reason: 'invalid_created', body: Buffer.from('{"id":"evt_q"}') };
      await store.accept({ events: [], unusable: [unusable, named] }, now, { settleMs: 1 });
      await store.close();
      const settings = { DATABASE_URL: url, WEBHOOK_SECRETS: SECRET };
      const causes = async (id: string) => {
        const { code, out, err } = await cli(['doctor', '--delivery', id, '--json'], settings);
        if (code !== 3) return err;
        return (JSON.parse(out) as { causes: { code: string }[] }).causes.map((cause) => cause.code);
      };
      expect(await causes('1')).toContain('say rejection:1 or quarantine:1');
      expect(await causes('rejection:1')).toEqual(['wrong_secret']);
      expect(await causes('rejections/2')).toEqual(['header_missing']);
      expect(await causes('3')).toEqual(['bad_signature']);
      expect(await causes('quarantine:1')).toEqual(['not_json']);
      expect(await causes('evt_q')).toEqual(['invalid_created']);
      expect(await causes('9')).toContain('no delivery 9');
    });
  });

  it('says of an event what is known: accepted, its state, and why it was given up', async () => {
    await inTemporaryDirectory(async (directory) => {
      const url = `file:${join(directory, 'mirror.db')}`;
      const store = await openStore(url);
      const now = { wall: Date.parse('2026-11-02T12:00:00Z'), steady: 1 };
      await accepted(store, ['evt_waits', 'evt_failed', '1', 'rejection:1'], now);
      const claimed = await store.claimEvents('test', 9, 1000, now);
      const event = claimed.find(({ id }) => id === 'evt_failed')!;
      const failure = { event, retryAtMs: null, error: 'no record in it' };
      await store.deferEvent(failure, now, { settleMs: 1 });
      const signed = Buffer.from('{"id":"evt_rejected","type":"policy.updated"}');
      await store.recordRejections([
        { ...REJECTION, header: HEADER, body: signed },
        { ...REJECTION, header: HEADER, body: Buffer.from('{"id":"evt_waits"}') },
        // Kept too: a registration was being made, whose secret was not known yet.
        {
          ...REJECTION,
          reason: 'no_signing_secret',
          header: HEADER,
          body: Buffer.from('{"id":"evt_early"}'),
        },
      ]);
      await store.close();
      const settings = { DATABASE_URL: url, WEBHOOK_SECRETS: SECRET };
      const doctor = (id: string, ...more: string[]) => cli(['doctor', '--delivery', id, ...more], settings);

      const waiting = await doctor('evt_waits');
      expect(waiting.code).toBe(0);
      expect(waiting.out).toContain('its signature was right');
      expect(waiting.out).toContain('Which secret fitted is not kept');
      expect(waiting.out).toContain('waits to be processed, about policy p1');
      expect(waiting.out).toContain('doctor --delivery rejection:2');
      const given = await doctor('event:evt_failed', '--json');
      expect(given.code).toBe(3);
      expect(JSON.parse(given.out)).toMatchObject({
        healthy: false,
        causes: [{ code: 'failed_event', remedy: expect.stringContaining('events retry evt_failed') }],
      });
      expect((await doctor('evt_early')).err).toContain('Rejected, as rejection:3');
      const rejected = await doctor('evt_rejected');
      expect(rejected.code).toBe(3);
      expect(rejected.out).toContain('[wrong_secret]');
      expect(rejected.err).toContain('rejection:1');
      expect((await doctor('1')).err).toContain('say rejection:1 or event:1');
      expect((await doctor('event:1')).code).toBe(0);
      // An event whose id looks like a prefix is found by the whole of it.
      expect((await doctor('rejection:1')).out).toContain('Event rejection:1');
      expect((await doctor('rejections/1')).out).toContain('[wrong_secret]');
    });
  });
});

describe('doctor where a header is signed too', () => {
  const SIGNED = {
    WEBHOOK_SECRETS: SECRET,
    WEBHOOK_SIGNED_CONTENT: '{t}.{header:X-Tenant}.{body}',
  };
  const BODY = readFileSync(`${FIXTURES}healthy.body`);
  const mac = createHmac('sha256', SECRET).update('1793620800.north.').update(BODY).digest('hex');
  const header = `X-Webhook-Signature: t=1793620800, v1=${mac}`;
  const doctor = async (directory: string, ...args: string[]) =>
    await cli(['doctor', '--json', ...args], { ...SIGNED, DATABASE_URL: `file:${join(directory, 'm.db')}` });
  const codes = (out: string) =>
    (JSON.parse(out) as { causes: { code: string }[] }).causes.map(({ code }) => code);

  it('does not accuse the right secret for want of its value, and is content with it', async () => {
    await inTemporaryDirectory(async (directory) => {
      const args = ['--header', header, ...body('healthy'), ...ARRIVED];
      const without = await doctor(directory, ...args);
      expect(codes(without.out)).toEqual(['missing_signed_header']);
      expect(without.out).toContain("--header 'x-tenant: VALUE'");
      const withIt = await doctor(directory, ...args, '--header', 'X-Tenant: north');
      expect({ code: withIt.code, causes: codes(withIt.out) }).toEqual({ code: 0, causes: [] });
      const another = await doctor(directory, ...args, '--header', 'X-Tenant: south');
      expect(codes(another.out)).toEqual(['wrong_secret']);
    });
  });

  it('takes it beside a kept rejection as well', async () => {
    await inTemporaryDirectory(async (directory) => {
      const store = await openStore(`file:${join(directory, 'm.db')}`);
      await store.recordRejections([{ ...REJECTION, header: header.split(': ')[1]!, body: BODY }]);
      await store.close();
      expect(codes((await doctor(directory, '--delivery', 'rejection:1')).out)).toEqual([
        'missing_signed_header',
      ]);
      const given = await doctor(directory, '--delivery', 'rejection:1', '--header', 'X-Tenant: north');
      expect(codes(given.out)).toEqual([]);
      // What is read here is not what the service has read.
      expect(given.out).toContain('restart it');
      expect(given.out).toContain('It was rejected at');
      const twice = await doctor(directory, '--delivery', 'rejection:1', '--header', header);
      expect(twice.code).toBe(2);
    });
  });
});

describe('doctor on every specimen that openssl signed', () => {
  const settings = { WEBHOOK_SECRETS: `${SECRET},${BASE64}` };
  it.each(SPECIMENS)('the command says of %s: %j', async (name, codes) => {
    await inTemporaryDirectory(async (directory) => {
      const file = `${FIXTURES}${name}.header`;
      const header = existsSync(file) ? ['--header', readFileSync(file, 'utf8')] : [];
      const args = ['doctor', '--json', ...header, ...body(name), '--retired', RETIRED, ...ARRIVED];
      const { code, out } = await cli(args, {
        ...settings,
        DATABASE_URL: `file:${join(directory, 'no.db')}`,
      });
      const { healthy, causes } = JSON.parse(out) as {
        healthy: boolean;
        causes: { code: string; remedy: string }[];
      };
      expect(causes.map((cause) => cause.code)).toEqual(codes);
      expect({ code, healthy }).toEqual({ code: codes.length === 0 ? 0 : 3, healthy: codes.length === 0 });
      for (const { remedy } of causes) expect(remedy).not.toBe('');
      for (const secret of [SECRET, RETIRED, BASE64]) expect(out).not.toContain(secret);
    });
  });
});

async function accepted(store: Store, ids: readonly string[], now: { wall: number; steady: number }) {
  const events = ids.map((id) => ({
    id,
    type: 'policy.updated',
    created: '2026-11-02T11:59:58Z',
    createdMs: now.wall,
    // A record of its own for each, so that all of them can be claimed at once.
    kind: 'policy' as const,
    recordId: id === 'evt_waits' ? 'p1' : `of-${id}`,
    known: true,
    body: JSON.stringify({ id }),
    t: '1793620800',
  }));
  await store.accept({ events, unusable: [] }, now, { settleMs: 1 });
}

describe('doctor on the running configuration', () => {
  let service: Upstream;
  beforeAll(async () => {
    service = await startUpstream((response, { headers, url }) => {
      if (headers.authorization !== `Bearer ${API_KEY}`) return json(response, 401, {});
      const date = { date: new Date(Date.now() + 600_000).toUTCString() };
      if (url.startsWith('/api/v1/vendors')) return json(response, 403, {}, date);
      json(response, 200, { data: [], meta: { total: 0 } }, date);
    });
  });
  afterAll(() => service.close());

  const statesOf = (out: string) => {
    const { checks } = JSON.parse(out) as {
      checks: { name: string; state: string; remedy: string | null }[];
    };
    for (const { state, remedy } of checks)
      if (state === 'wrong' || state === 'warning') expect(remedy).not.toBeNull();
    return Object.fromEntries(checks.map(({ name, state }) => [name, state]));
  };

  it('names everything that is wrong, and exits 3', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = {
        DATABASE_URL: `file:${join(directory, 'mirror.db')}`,
        COMPLIANCE_BASE_URL: service.settings.baseUrl.href,
        COMPLIANCE_API_KEY: API_KEY,
        COMPLIANCE_PAGESIZE: '3',
      };
      const absent = await cli(['doctor', '--json'], settings);
      expect(absent.code).toBe(3);
      expect(statesOf(absent.out)).toEqual({
        settings: 'warning',
        database: 'wrong',
        service: 'warning',
        'base URL': 'ok',
        credentials: 'ok',
        scopes: 'wrong',
        'write scope': 'skipped',
        paging: 'ok',
        'risk assessments': 'skipped',
        clock: 'wrong',
        'signing secrets': 'wrong',
        registration: 'skipped',
        'last delivery': 'skipped',
        rejections: 'skipped',
        'stored secrets': 'skipped',
        'record ids': 'skipped',
        'sender clock': 'skipped',
        'failed events': 'skipped',
        quarantine: 'skipped',
        gaps: 'skipped',
        paused: 'skipped',
        'sync-runs': 'skipped',
      });

      await (await openStore(settings.DATABASE_URL)).close();
      const rejected = await cli(['doctor', '--json'], { ...settings, COMPLIANCE_API_KEY: 'another-key' });
      expect(statesOf(rejected.out)).toMatchObject({
        database: 'ok',
        'base URL': 'ok',
        credentials: 'wrong',
        scopes: 'skipped',
        registration: 'wrong',
        'last delivery': 'warning',
        'sync-runs': 'wrong',
      });

      const silent = await cli(['doctor', '--json'], {
        ...settings,
        COMPLIANCE_BASE_URL: 'http://127.0.0.1:1/v1',
      });
      expect(statesOf(silent.out)).toMatchObject({
        'base URL': 'wrong',
        credentials: 'skipped',
        clock: 'skipped',
      });
      expect(silent.out + rejected.out).not.toContain(API_KEY);
    });
  });

  it('asks nothing more of a service that wants to be left alone, and says so instead of waiting', async () => {
    const asked: string[] = [];
    const busy = await startUpstream((response, { url }) => {
      asked.push(url);
      json(response, 429, {}, { 'retry-after': '600' });
    });
    await inTemporaryDirectory(async (directory) => {
      const { code, out } = await cli(['doctor', '--json'], {
        DATABASE_URL: `file:${join(directory, 'mirror.db')}`,
        COMPLIANCE_BASE_URL: busy.settings.baseUrl.href,
        COMPLIANCE_API_KEY: API_KEY,
      });
      expect(code).toBe(3);
      expect(statesOf(out)).toMatchObject({ 'base URL': 'wrong', credentials: 'skipped', paging: 'skipped' });
      expect(out).toContain('429, and asks to wait 600 s');
      expect(asked).toHaveLength(1);
    }).finally(() => busy.close());
  });

  it('tells by its answer what is not the API, and by what they show pages that go by another name', async () => {
    const rows = Array.from({ length: 30 }, (_, n) => ({ id: `v-${n}`, policyId: `v-${n}`, name: 'N' }));
    let isApi = false;
    const other = await startUpstream((response, { url }) => {
      const page = Number(new URL(url, 'http://localhost').searchParams.get('pageNumber') ?? 1);
      const data = rows.slice(10 * (page - 1), 10 * page);
      if (isApi) json(response, 200, { data, meta: { total: rows.length } });
      else response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Hello</h1>');
    });
    await inTemporaryDirectory(async (directory) => {
      const settings = {
        DATABASE_URL: `file:${join(directory, 'mirror.db')}`,
        COMPLIANCE_BASE_URL: other.settings.baseUrl.href,
        COMPLIANCE_API_KEY: API_KEY,
      };
      expect((await cli(['doctor'], settings)).out).toMatch(
        /WRONG +base URL +GET .*: the answer is not JSON/,
      );
      isApi = true;
      expect((await cli(['doctor'], settings)).out).toContain('set COMPLIANCE_PAGE_PARAM=pageNumber');
    }).finally(() => other.close());
  });

  it('asks for an assessment that is known, and says whether what was granted may write; it posts nothing', async () => {
    await inTemporaryDirectory(async (directory) => {
      const oauth = await startOauthServer();
      try {
        const ids = join(directory, 'ids.txt');
        writeFileSync(ids, '# ours\n\nra_1\n');
        const settings = {
          DATABASE_URL: `file:${join(directory, 'mirror.db')}`,
          COMPLIANCE_BASE_URL: `${oauth.origin}/v1`,
          COMPLIANCE_AUTH: 'service_account',
          COMPLIANCE_AUTH_URL: `${oauth.origin}/auth`,
          COMPLIANCE_CLIENT_ID: CLIENT_ID,
          COMPLIANCE_CLIENT_SECRET: CLIENT_SECRET,
          RISK_IDS_FILE: ids,
        };
        await (await openStore(settings.DATABASE_URL)).close();
        const granted = statesOf((await cli(['doctor', '--json'], settings)).out);
        expect(granted).toMatchObject({ 'write scope': 'ok', 'risk assessments': 'warning' });
        oauth.answer = { ...oauth.answer, scope: 'read' };
        const reading = await cli(['doctor', '--json'], settings);
        expect(statesOf(reading.out)).toMatchObject({ 'write scope': 'warning', scopes: 'ok' });
        expect(reading.out).toContain('allow the service account');
        expect([...new Set(oauth.calls.map(({ path }) => path))]).toEqual([
          '/v1/policies',
          '/v1/vendors',
          '/v1/risk-assessments/ra_1',
        ]);
      } finally {
        await oauth.close();
      }
    });
  });

  it('lays it to the credentials, and to nothing else, when there is nobody to get a token from', async () => {
    await inTemporaryDirectory(async (directory) => {
      const ids = join(directory, 'ids.txt');
      writeFileSync(ids, 'ra_1\n');
      const settings = {
        DATABASE_URL: `file:${join(directory, 'mirror.db')}`,
        COMPLIANCE_BASE_URL: service.settings.baseUrl.href,
        COMPLIANCE_AUTH: 'service_account',
        COMPLIANCE_AUTH_URL: 'http://127.0.0.1:9',
        COMPLIANCE_CLIENT_ID: CLIENT_ID,
        COMPLIANCE_CLIENT_SECRET: CLIENT_SECRET,
        RISK_IDS_FILE: ids,
      };
      await (await openStore(settings.DATABASE_URL)).close();
      const asked = service.received.length;
      const { out } = await cli(['doctor', '--json'], settings);
      expect(statesOf(out)).toMatchObject({
        'base URL': 'skipped',
        credentials: 'wrong',
        scopes: 'skipped',
        'write scope': 'skipped',
        'risk assessments': 'skipped',
        clock: 'skipped',
      });
      expect(out).toContain('COMPLIANCE_AUTH_URL');
      expect(service.received).toHaveLength(asked);
    });
  });

  it('says to sign in where nobody has', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = {
        DATABASE_URL: `file:${join(directory, 'mirror.db')}`,
        COMPLIANCE_BASE_URL: service.settings.baseUrl.href,
        COMPLIANCE_AUTH: 'oauth',
        COMPLIANCE_AUTH_URL: 'http://127.0.0.1:9',
        COMPLIANCE_CLIENT_ID: CLIENT_ID,
        COMPLIANCE_CLIENT_SECRET: CLIENT_SECRET,
        COMPLIANCE_REDIRECT_URI: 'http://127.0.0.1:8765/callback',
        CREDENTIALS_KEY: randomBytes(32).toString('base64'),
      };
      await (await openStore(settings.DATABASE_URL)).close();
      const { out } = await cli(['doctor', '--json'], settings);
      const { checks } = JSON.parse(out) as { checks: { name: string; remedy: string | null }[] };
      expect(checks.find(({ name }) => name === 'credentials')?.remedy).toContain('compliance-mirror login');
    });
  });

  it('is content with what can be well before a service runs, and prints a line for each check', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = {
        DATABASE_URL: `file:${join(directory, 'mirror.db')}`,
        WEBHOOK_SECRETS: randomBytes(16).toString('hex'),
      };
      await (await openStore(settings.DATABASE_URL)).close();
      const { code, out } = await cli(['doctor'], settings);
      expect(code).toBe(0);
      expect(out.split('\n').filter((line) => /^(ok|warning|-) /.test(line))).toHaveLength(22);
    });
  });

  it.each<[string, (path: string) => Promise<void>, RegExp]>([
    [
      'a newer version wrote',
      async (path) => {
        await (await openStore(`file:${path}`)).close();
        const db = new Database(path);
        db.exec("INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('of tomorrow', 9999999999999)");
        db.close();
      },
      /was written by a newer version/,
    ],
    [
      'an older build made',
      async (path) => {
        await (await openStore(`file:${path}`)).close();
        const db = new Database(path);
        db.exec("UPDATE __drizzle_migrations SET hash = 'other', created_at = created_at - 1000");
        db.close();
      },
      /tables are from an older build/,
    ],
    [
      'is another program’s',
      async (path) => {
        const db = new Database(path);
        db.exec('CREATE TABLE __drizzle_migrations (id, hash, created_at)');
        db.exec("INSERT INTO __drizzle_migrations VALUES (1, 'x', 1)");
        db.close();
      },
      /another program's database/,
    ],
    [
      'cannot be made',
      async (path) => {
        writeFileSync(dirname(path), 'a file where the folder should be');
      },
      /is not a folder/,
    ],
  ])('ends as "serve" does, in the same words, where the database %s', async (_, make, words) => {
    await inTemporaryDirectory(async (directory) => {
      const path = join(directory, words.source.includes('folder') ? 'sub/mirror.db' : 'mirror.db');
      await make(path);
      const settings = { DATABASE_URL: `file:${path}`, WEBHOOK_SECRETS: SECRET, PORT: '0', OPS_PORT: '0' };
      const [served, doctored] = [await cli(['serve'], settings), await cli(['doctor'], settings)];
      expect([served.code, doctored.code]).toEqual([2, 2]);
      expect(served.err).toMatch(words);
      expect(doctored.err).toContain(served.err.trim().split('\n').at(-1));
      expect(doctored.out).toMatch(words);
    });
  });

  it('exits 3 where deliveries were rejected since the last accepted one, and says so with --json too', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = { DATABASE_URL: `file:${join(directory, 'mirror.db')}`, WEBHOOK_SECRETS: SECRET };
      const store = await openStore(settings.DATABASE_URL);
      const wall = Date.now() - 60_000;
      await accepted(store, ['evt_waits'], { wall, steady: 1 });
      await store.recordRejections([
        { ...REJECTION, reason: 'timestamp_too_old', header: null, body: null, wall },
      ]);
      const before = await cli(['doctor', '--json'], settings);
      expect({ code: before.code, ...statesOf(before.out) }).toMatchObject({
        code: 0,
        rejections: 'warning',
      });
      await store.recordRejections([
        { ...REJECTION, reason: 'timestamp_too_old', header: null, body: null, wall: wall + 1 },
      ]);
      await store.close();
      const after = await cli(['doctor', '--json'], settings);
      expect({ code: after.code, ...statesOf(after.out) }).toMatchObject({
        code: 3,
        rejections: 'wrong',
        'sender clock': 'wrong',
      });
      expect(JSON.parse(after.out)).toMatchObject({ healthy: false });
    });
  });

  it('says which file cannot be used', async () => {
    await inTemporaryDirectory(async (directory) => {
      const path = join(directory, 'mirror.db');
      writeFileSync(path, 'this is no database at all, and long enough to be looked at');
      const { code, out } = await cli(['doctor'], { DATABASE_URL: `file:${path}`, WEBHOOK_SECRETS: SECRET });
      expect(code).toBe(3);
      expect(out).toContain(path);
      expect(out).toMatch(/WRONG +database/);
    });
  });
});

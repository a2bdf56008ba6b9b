import { createHmac, randomBytes } from 'node:crypto';
import {
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EXPORTED_TABLES } from '../../src/cli/export.ts';
import * as schemas from '../../src/store/report-rows.ts';
import { createService, eventually, type Service } from '../convergence/service.ts';
import { type IndependentUpstream, startIndependentUpstream } from '../support/independent-upstream.ts';
import { createSender, eventAbout } from '../support/independent-upstream-sender.ts';
import { cli, start } from './executable.ts';

/** More than a page of the API. */
const VENDORS = 620;
const POLICY = { id: 'p1', name: 'Access', version: '1', status: 'draft' };
const FORMULA = '=HYPERLINK("http://x","y")';
const TOKEN = 'reader-at-home-0123456789';

describe('export and the commands from afar', () => {
  let upstream: IndependentUpstream;
  let service: Service;
  let folder: string;
  /** On the machine of the database; and on another one, which has neither the database nor any other setting. */
  let here: Record<string, string>;
  let afar: Record<string, string>;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'export-'));
    upstream = await startIndependentUpstream();
    upstream.records.put('policies', POLICY);
    for (let n = 0; n < VENDORS; n += 1) {
      const id = `v${String(n).padStart(4, '0')}`;
      upstream.records.put('vendors', { id, name: n === 0 ? FORMULA : `Vendor, no. ${n}`, status: 'active' });
    }
    service = await createService(upstream, {
      SYNC_SETTLE_SECONDS: '0.2',
      SYNC_FULL_MINUTES: '0',
      COMPLIANCE_REQUESTS_PER_MINUTE: '3000',
    });
    here = service.settings;
    here['OPS_TOKENS'] += `,home:operate:${TOKEN}`;
    await service.start();
    afar = { OPS_URL: `http://127.0.0.1:${here['OPS_PORT']}`, OPS_TOKEN: TOKEN };
    const sender = createSender(service.webhookUrl);
    const event = eventAbout('policy.created', 'policies', POLICY, 'evt_1');
    expect(await sender.attempt(event)).toBe(202);
    sender.close();
    await eventually('all vendors', async () => {
      const { kinds } = await service.get<{ kinds: { kind: string; records: number }[] }>('/api/status');
      return kinds.find((one) => one.kind === 'vendor')?.records === VENDORS;
    });
    await quiet();
  });
  afterAll(async () => {
    await service.end();
    await upstream.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Until nothing that two commands read one after the other changes between them. */
  const quiet = () =>
    eventually('quiet', async () => {
      const { kinds } = await service.get<{ kinds: { unverified: number }[] }>('/api/status');
      const gaps = await service.get<{ items: object[] }>('/api/gaps?open=true');
      const syncRuns = await service.get<{ items: { outcome: string | null }[] }>('/api/sync-runs');
      return (
        kinds.every(({ unverified }) => unverified === 0) &&
        gaps.items.length === 0 &&
        syncRuns.items.every(({ outcome }) => outcome !== null)
      );
    });
  const lines = (text: string) => text.trimEnd().split('\n');

  it('a name that tells no known format is refused, and writes nothing', async () => {
    const file = join(folder, 'vendors.xml');
    const refused = await cli(['export', 'vendors', file], here);
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining('csv and ndjson') });
    expect(existsSync(file)).toBe(false);
    expect((await cli(['export', 'vendors', file, '--format', 'csv'], here)).code).toBe(0);
  });

  it('a table is written whole, the same from here and from afar, to a file that only its owner reads', async () => {
    const [one, other] = [join(folder, 'here.ndjson'), join(folder, 'afar.ndjson')];
    expect(await cli(['export', 'vendors', one], here)).toMatchObject({ code: 0, out: '' });
    expect(await cli(['export', 'vendors', other], afar)).toMatchObject({ code: 0, out: '' });
    const rows = lines(readFileSync(one, 'utf8')).map((line) => JSON.parse(line));
    expect(rows).toHaveLength(VENDORS);
    expect(rows[0]).toMatchObject({
      id: 'v0000',
      name: FORMULA,
      data: { status: 'active' },
      deleted_at: null,
    });
    expect(readFileSync(other, 'utf8')).toBe(readFileSync(one, 'utf8'));
    expect(statSync(one).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder).filter((name) => name.includes('partial'))).toEqual([]);
  });

  it('CSV goes to standard output, as stored, or safe for a spreadsheet where that is asked for', async () => {
    const { code, out, err } = await cli(['export', 'vendors'], here);
    expect(code).toBe(0);
    const [head, first] = out.split('\r\n');
    expect(head).toBe(
      'id,name,status,data,first_seen_at,synced_at,verified_at,unverified_since,deleted_at,last_event_id,last_event_at,cause',
    );
    expect(first).toContain('"=HYPERLINK(""http://x"",""y"")"');
    expect(err).toContain(`Exported ${VENDORS} rows`);
    const safe = (await cli(['export', 'vendors', '--spreadsheet'], here)).out.split('\r\n')[1];
    expect(safe).toContain('"\'=HYPERLINK(""http://x"",""y"")"');
  });

  it.each([
    'policies',
    'risk_assessments',
    'changes',
    'events',
    'gaps',
    'sync_runs',
    'quarantine',
    'rejections',
    'audit',
  ])('the table %s comes with its columns, empty or not, from afar too', async (table) => {
    const { code, out } = await cli(['export', table, '--format', 'csv'], afar);
    expect(code).toBe(0);
    expect(out.split('\r\n')[0]).toMatch(/^(id|seq),/);
  });

  it.each([
    ['changes', schemas.change],
    ['events', schemas.event],
    ['gaps', schemas.gap],
    ['sync_runs', schemas.syncRun],
    ['quarantine', schemas.quarantined],
    ['rejections', schemas.rejection],
    ['audit', schemas.auditEntry],
  ] as const)('the table %s comes with all that the API shows of it', async (table, { shape }) => {
    expect(await EXPORTED_TABLES[table]!.columns()).toEqual(Object.keys(shape));
  });

  it('bodies come where they are asked for', async () => {
    const ask = async (...more: string[]) =>
      JSON.parse((await cli(['export', 'events', '--format', 'ndjson', ...more], here)).out);
    expect((await ask()).body).toBeNull();
    expect(JSON.parse((await ask('--bodies')).body)).toMatchObject({ id: 'evt_1' });
  });

  it('bytes that are no text are kept, of what is in quarantine and of what was rejected', async () => {
    const body = Buffer.from([0xff, 0x00, 0x7b]);
    const t = String(Math.floor(Date.now() / 1000));
    const post = (v1: string) =>
      fetch(service.webhookUrl, {
        method: 'POST',
        body,
        headers: { 'x-webhook-signature': `t=${t}, v1=${v1}` },
      });
    const mac = createHmac('sha256', here['WEBHOOK_SECRETS']!).update(`${t}.`).update(body).digest('hex');
    expect((await post(mac)).status).toBe(400);
    expect((await post('0'.repeat(64))).status).toBe(401);
    for (const table of ['quarantine', 'rejections']) {
      const ask = async (settings: Record<string, string>, ...more: string[]) => {
        const { out } = await cli(['export', table, '--format', 'ndjson', ...more], settings);
        return out === '' ? null : JSON.parse(lines(out)[0]!);
      };
      // Refusals are written at a bounded rate, and so a moment later.
      await eventually(`a row of ${table}`, async () => (await ask(here)) !== null);
      for (const settings of [here, afar]) {
        expect(await ask(settings)).toMatchObject({ body: null, body_base64: null });
        expect(await ask(settings, '--bodies')).toMatchObject({ body_base64: body.toString('base64') });
      }
    }
  });

  it('a file that is there stays unless --force says otherwise', async () => {
    const file = join(folder, 'twice.csv');
    expect((await cli(['export', 'gaps', file], here)).code).toBe(0);
    const refused = await cli(['export', 'gaps', file], here);
    expect(refused.code).toBe(2);
    expect(refused.err).toContain('--force');
    expect((await cli(['export', 'gaps', file, '--force'], here)).code).toBe(0);
    expect((await cli(['export', 'gaps', join(folder, 'no', 'where.csv')], here)).code).toBe(2);
    expect((await cli(['export', 'persons'], here)).code).toBe(2);
  });

  it.each([
    ['export', 'gaps', ''],
    ['backup', ''],
  ])('an empty name, as of a variable that is not set, is bad usage of %s', async (...args) => {
    expect(await cli(args, here)).toMatchObject({
      code: 2,
      err: expect.stringContaining('is empty (name one)'),
    });
  });

  it('a place where no file can be made is bad usage, and the remedy is named', async () => {
    // The name is too long: root may write into any folder.
    const file = join(folder, `${'x'.repeat(250)}.csv`);
    expect(await cli(['export', 'gaps', file], here)).toMatchObject({
      code: 2,
      err: expect.stringMatching(/cannot write .* \(name a file in a writable folder\)/),
    });
  });

  it('neither the database, nor what goes with it, nor a device is replaced, whatever is asked for', async () => {
    const database = here['DATABASE_URL']!.replace('file:', '');
    const device = join(folder, 'device');
    symlinkSync('/dev/null', device);
    for (const file of [database, `${database}-wal`, `${database}.lock`, device]) {
      const before = lstatSync(file).ino;
      const { code, err } = await cli(['export', 'gaps', file, '--force', '--format', 'csv'], here);
      expect({ file, code, err }).toEqual({
        file,
        code: 2,
        err: expect.stringMatching(/the database itself|not a file/),
      });
      expect(lstatSync(file).ino).toBe(before);
    }
  });

  it('what cannot be read to its end leaves no file', async () => {
    const file = join(folder, 'never.csv');
    const { code } = await cli(['export', 'vendors', file], { ...afar, OPS_TOKEN: 'not-a-token-of-theirs' });
    expect(code).toBe(1);
    expect(existsSync(file)).toBe(false);
    expect(readdirSync(folder).filter((name) => name.startsWith('never'))).toEqual([]);
  });

  it('what came since an instant comes alone, of tables in the order of time', async () => {
    const all = lines((await cli(['export', 'changes', '--format', 'ndjson'], here)).out);
    const { at } = JSON.parse(all.at(-1)!);
    const since = (table: string, instant: string) =>
      cli(['export', table, '--format', 'ndjson', '--since', instant], afar);
    expect(lines((await since('changes', at)).out)).toEqual(all.filter((line) => JSON.parse(line).at >= at));
    expect(lines((await since('changes', '1h')).out)).toEqual(all);
    expect(await since('events', '2999-01-01')).toMatchObject({ code: 0, out: '' });
    expect(lines((await since('events', '2h')).out)).toHaveLength(1);
    expect(await since('vendors', '2h')).toMatchObject({
      code: 2,
      err: expect.stringContaining('export "changes" since then'),
    });
  });

  it('changes and deliveries are followed as they are made, also past a start of the service, until it is told to stop', async () => {
    const before = lines((await cli(['export', 'changes', '--format', 'ndjson'], here)).out);
    const following = start(['export', 'changes', '--follow', '--format', 'ndjson'], afar);
    const deliveries = start(['deliveries', 'follow', '--since', '1h'], afar);
    await following.line(before.at(-1)!);
    await deliveries.line('evt_1');
    await service.stop();
    await service.start();
    const sender = createSender(service.webhookUrl);
    upstream.records.put('policies', { ...POLICY, name: 'Access, renamed' });
    const event = eventAbout('policy.updated', 'policies', { ...POLICY, name: 'Access, renamed' }, 'evt_2');
    expect(await sender.attempt(event)).toBe(202);
    sender.close();
    expect(JSON.parse(await following.line('Access, renamed'))).toMatchObject({ operation: 'update' });
    await deliveries.line('evt_2');
    expect([await following.stop(), await deliveries.stop()]).toEqual([0, 0]);
    expect((await cli(['export', 'events', '--follow'], here)).code).toBe(2);
    expect((await cli(['export', 'changes', 'file.csv', '--follow'], here)).code).toBe(2);
  });

  it('reading commands say the same from afar', async () => {
    await quiet();
    for (const args of [
      ['records', 'list', 'vendor', '--limit', '3', '--json'],
      ['records', 'show', 'vendor', 'v0001', '--json'],
      ['records', 'history', 'vendor', 'v0001', '--json'],
      ['records', 'list', 'vendor', '--search', 'v000', '--limit', '4', '--json'],
      ['events', 'list', '--kind', 'policy', '--json'],
      ['events', 'show', 'evt_1', '--json'],
      ['sync-runs', 'list', '--json'],
      ['gaps', 'list', '--json'],
      ['quarantine', 'list', '--json'],
      ['records', 'list', 'vendor', '--at', '2999-01-01', '--limit', '2', '--json'],
    ]) {
      const [one, other] = [await cli(args, here), await cli(args, afar)];
      expect(one, args.join(' ')).toMatchObject({ code: 0, err: '' });
      expect(other, args.join(' ')).toMatchObject({ code: 0, out: one.out });
    }
    expect((await cli(['records', 'show', 'vendor', 'none'], afar)).err).toContain('holds no vendor');
    const status = await cli(['status'], afar);
    expect(status).toMatchObject({ code: 0 });
    expect(status.out).toMatch(/vendor .*620/);
  });

  it('changing commands work from afar, and are audited by the token’s name', async () => {
    expect((await cli(['pause'], afar)).code).toBe(0);
    expect((await service.get<{ verdict: string }>('/api/status')).verdict).toBe('action_required');
    expect((await cli(['resume'], afar)).code).toBe(0);
    expect((await cli(['sync', '--kind', 'vendor', '--wait'], afar)).out).toContain('of vendor: complete');
    const { out } = await cli(['export', 'audit', '--format', 'ndjson'], afar);
    const actions = lines(out).map((line) => JSON.parse(line));
    expect(actions.filter(({ actor }) => actor === 'home').map(({ action }) => action)).toEqual([
      'sync',
      'resume',
      'pause',
    ]);
  });

  it('an instant before a record was there lists none of it', async () => {
    const { out } = await cli(['records', 'list', 'vendor', '--at', '2020-01-01T00:00:00Z', '--json'], here);
    expect(JSON.parse(out)).toEqual({ items: [], next: null });
    expect((await cli(['records', 'list', 'vendor', '--at', 'yesterday'], here)).code).toBe(2);
    expect((await cli(['records', 'list', 'vendor', '--at', '2026-02-30'], here)).code).toBe(2);
    for (const other of [
      ['--search', 'v'],
      ['--status', 'x'],
      ['--field', 'a=b'],
      ['--order', 'id'],
      ['--unverified'],
    ]) {
      const both = await cli(['records', 'list', 'vendor', '--at', '2026-02-20', ...other], here);
      expect(both).toMatchObject({
        code: 2,
        err: expect.stringContaining(`cannot be used with option '${other[0]}`),
      });
    }
  });

  it('a registration is not made from afar', async () => {
    const settings = { ...afar, CREDENTIALS_KEY: randomBytes(32).toString('base64') };
    const { code, err } = await cli(['register', '--url', 'https://mirror.example/webhooks'], settings);
    expect(code).toBe(2);
    expect(err).toContain('OPS_URL');
  });

  it('OPS_URL wants a token, and https or this machine', async () => {
    const without = await cli(['status'], { OPS_URL: afar['OPS_URL']! });
    expect(without).toMatchObject({ code: 2 });
    expect(without.err).toContain('OPS_TOKEN');
    const open = await cli(['status'], { OPS_URL: 'http://mirror.example', OPS_TOKEN: TOKEN });
    expect(open).toMatchObject({ code: 2 });
    expect(open.err).toContain('https');
  });

  it('changes are written whole where they are large, and a page of them has fewer', async () => {
    const all = async () => lines((await cli(['export', 'changes', '--format', 'ndjson'], afar)).out);
    const before = await all();
    const sender = createSender(service.webhookUrl);
    const large = Array.from({ length: 10 }, (_, n) => ({
      ...POLICY,
      id: `large${n}`,
      text: 'x'.repeat(1_000_000),
    }));
    for (const policy of large) {
      upstream.records.put('policies', policy);
      expect(await sender.attempt(eventAbout('policy.created', 'policies', policy, `of_${policy.id}`))).toBe(
        202,
      );
    }
    sender.close();
    await eventually('all shown', async () => {
      const { items } = await service.get<{ items: object[] }>('/api/events?state=pending');
      return items.length === 0;
    });
    // What the API shows of them later is another change.
    const appeared = (await all())
      .slice(before.length)
      .map((line) => JSON.parse(line))
      .filter(({ operation }) => operation === 'insert');
    expect(appeared.map(({ record_id }) => record_id)).toEqual(large.map(({ id }) => id));
  });

  it('who follows on the machine of the database is told that a backup was put in its place', async () => {
    const file = here['DATABASE_URL']!.replace(/^file:/, '');
    const following = start(['export', 'changes', '--follow', '--format', 'ndjson'], here);
    const deliveries = start(['deliveries', 'follow', '--since', '1h'], here);
    await following.line('Vendor, no. 1');
    await deliveries.line('evt_1');
    const backup = join(folder, 'put-back.db');
    expect((await cli(['backup', backup], here)).code).toBe(0);
    await service.stop();
    for (const suffix of ['', '-wal', '-shm']) rmSync(`${file}${suffix}`, { force: true });
    renameSync(backup, file);
    await service.start();
    for (const { line, exited } of [following, deliveries]) {
      await line('was removed or replaced while it was open');
      expect(await exited).toBe(1);
    }
  });
});

import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStore } from '../../src/store/open.ts';
import { PAGE_LIMIT_MAX } from '../../src/store/reports.ts';
import { eventually } from '../convergence/service.ts';
import { eventBody, header, nowSeconds } from '../receive/sign.ts';
import { cli, type Running, start } from './executable.ts';

describe('beside a running service', () => {
  let directory: string;
  let sandbox: Running;
  let service: Running;
  let sandboxUrl: string;
  let settings: Record<string, string>;

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-test-'));
    sandbox = start(['sandbox', '--port', '0']);
    const baseUrl = (await sandbox.line('Sandbox: ')).replace('Sandbox: ', '');
    sandboxUrl = new URL(baseUrl).origin;
    settings = {
      PORT: '0',
      OPS_PORT: '0',
      DATABASE_URL: `file:${join(directory, 'mirror.db')}`,
      COMPLIANCE_BASE_URL: baseUrl,
      COMPLIANCE_API_KEY: (await sandbox.line('API key: ')).replace('API key: ', ''),
      COMPLIANCE_REQUESTS_PER_MINUTE: '3000',
      CREDENTIALS_KEY: randomBytes(32).toString('base64'),
      WEBHOOK_SECRETS: randomBytes(32).toString('hex'),
      // Shorter than two commands, one after the other, take on the fastest machine: else the later reading is too soon.
      SYNC_SETTLE_SECONDS: '0.05',
      SYNC_FULL_MINUTES: '0',
    };
    service = start(['serve'], settings);
    await service.line('Operators: ');
  });
  afterAll(async () => {
    expect(await service.stop()).toBe(0);
    expect(await sandbox.stop()).toBe(0);
    rmSync(directory, { recursive: true, force: true });
  });

  async function mutate(mutation: object): Promise<void> {
    const body = JSON.stringify({ silent: true, ...mutation });
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${sandboxUrl}/_sandbox/mutate`, { method: 'POST', body, headers });
    expect(answer.ok).toBe(true);
  }

  async function firstRecord(kind: string): Promise<{ id: string; name: string }> {
    const { out } = await cli(['records', 'list', kind, '--limit', '1', '--json'], settings);
    return JSON.parse(out).items[0];
  }

  it('a full sync can be asked for and waited for, and repairs what was never announced', async () => {
    // The first one may find what the start has not read yet, and says so.
    await expect
      .poll(async () => (await cli(['sync', '--wait'], settings)).code, { timeout: 60_000 })
      .toBe(0);
    await expect.poll(async () => (await cli(['status', '--check'], settings)).code).toBe(0);
    const { id } = await firstRecord('vendor');
    await mutate({ kind: 'vendor', op: 'update', id, fields: { name: 'Renamed in silence' } });
    const { code, out } = await cli(['sync', '--kind', 'vendor', '--wait'], settings);
    expect(code).toBe(3);
    expect(out).toMatch(/Sync run \d+ of vendor: complete, \d+ seen/);
    expect(out).toContain('differences: 0 missing, 0 extra, 1 different, 1 repaired');
    expect(JSON.parse((await cli(['records', 'show', 'vendor', id, '--json'], settings)).out).name).toBe(
      'Renamed in silence',
    );
    const history = JSON.parse((await cli(['records', 'history', 'vendor', id, '--json'], settings)).out);
    expect(history.items[0]).toMatchObject({ operation: 'update', after: { name: 'Renamed in silence' } });
    expect(history.items[0].cause).toMatch(/^sync:\d+$/);
    expect((await cli(['sync-runs', 'list'], settings)).out).toContain('complete');
  });

  it('one record is read again on demand', async () => {
    const { id } = await firstRecord('vendor');
    await mutate({ kind: 'vendor', op: 'update', id, fields: { name: 'Renamed again' } });
    expect((await cli(['refetch', 'vendor', id], settings)).out).toContain('1 record will be read again now');
    await expect
      .poll(async () => (await firstRecord('vendor')).name, { timeout: 60_000 })
      .toBe('Renamed again');
  });

  it('a kind is read again on demand, policies too, which have no address of their own', async () => {
    const { id } = await firstRecord('policy');
    await mutate({ kind: 'policy', op: 'redraft', id });
    expect((await cli(['refetch', 'policy'], settings)).out).toContain('All policies will be read again now');
    const status = async () =>
      JSON.parse((await cli(['records', 'show', 'policy', id, '--json'], settings)).out).status;
    await expect.poll(status, { timeout: 60_000 }).toBe('draft');
    // The full sync that reads a single one names who asked.
    expect((await cli(['refetch', 'policy', id], settings)).code).toBe(0);
    await expect
      .poll(async () => (await cli(['sync-runs', 'list'], settings)).out, { timeout: 60_000 })
      .toContain('operator:first-start+refetch');
  });

  it('the status names the process and where its page is', async () => {
    const status = JSON.parse((await cli(['status', '--json'], settings)).out);
    expect(status.service.pid).toBe(service.child.pid);
    expect((await fetch(`${status.service.ops_url}/livez`)).status).toBe(200);
    expect(status.kinds).toHaveLength(3);
  });

  it('the status has one form, beside the service and through its listener', async () => {
    const store = await openStore(settings['DATABASE_URL']!);
    const learned = {
      kind: 'vendor',
      path: 'a.b',
      eventId: 'evt_1',
      recordId: 'ven_1',
      isUsed: true,
    } as const;
    await store.learnPointer(learned, { wall: Date.now(), steady: Date.now() });
    await store.close();
    const statusBeside = async () => JSON.parse((await cli(['status', '--json'], settings)).out);
    // What a service tells may be a second old.
    await expect.poll(async () => (await statusBeside()).learned_pointers).toHaveLength(1);
    const beside = await statusBeside();
    const away = {
      OPS_URL: beside.service.ops_url,
      OPS_TOKEN: readFileSync(join(directory, 'ops-token'), 'utf8').trim(),
    };
    const statusThrough = async () => JSON.parse((await cli(['status', '--json'], away)).out);
    const through = await statusThrough();
    expect(Object.keys(through).sort()).toEqual(Object.keys(beside).sort());
    expect(Object.keys(through.service)).toEqual(Object.keys(beside.service));
    expect(through.learned_pointers).toEqual(beside.learned_pointers);
    expect(beside.learned_pointers[0].setting).toMatch(/^ID_POINTERS_VENDOR=a\.b,/);
  });

  it('a delivery is followed as it comes, and one that is rejected is found by its own id', async () => {
    const url = (await service.line('Deliveries: ')).replace('Deliveries: ', '');
    const follower = start(['deliveries', 'follow', '--json', '--since', '2026-01-01'], settings);
    const send = async (id: string, secret: string) => {
      const body = eventBody({ id, type: 'ledger.closed', data: {} });
      const headers = { 'x-webhook-signature': header(nowSeconds(), body, secret) };
      return (await fetch(url, { method: 'POST', headers, body })).status;
    };
    expect(await send('evt_taken', settings['WEBHOOK_SECRETS']!)).toBe(202);
    expect(await send('evt_lost', 'f'.repeat(64))).toBe(401);
    expect(JSON.parse(await follower.line('evt_taken'))).toMatchObject({ outcome: 'accepted' });
    expect(JSON.parse(await follower.line('evt_lost'))).toMatchObject({
      outcome: 'rejected',
      reason: 'bad_signature',
      type: 'ledger.closed',
    });
    expect(await follower.stop()).toBe(0);
    const found = await cli(['deliveries', 'list', '--search', 'evt_lost', '--json'], settings);
    const [{ number, ...lost }] = JSON.parse(found.out).items;
    expect(lost).toMatchObject({ outcome: 'rejected', address: '127.0.0.1' });
    const shown = await cli(['deliveries', 'show', `rejection:${number}`], settings);
    expect(shown.out).toContain('"evt_lost"');
    expect((await cli(['deliveries', 'show', 'evt_taken'], settings)).out).toMatch(/state +ignored/);
    expect((await cli(['deliveries', 'show', 'quarantine:99'], settings)).code).toBe(1);
    expect((await cli(['resume'], settings)).code).toBe(0);
    expect((await cli(['audit', 'list'], settings)).out).toMatch(/ resume +ok/);
  });

  it('a change without the token that the service has made says how to have one made again', async () => {
    const file = join(directory, 'ops-token');
    renameSync(file, `${file}.gone`);
    expect(await cli(['pause'], settings)).toMatchObject({
      code: 2,
      err: expect.stringContaining('restart it, and it makes that file again'),
    });
    renameSync(`${file}.gone`, file);
  });

  it('more deliveries than a page holds are followed all, each once, in the order in which they came', async () => {
    const url = (await service.line('Deliveries: ')).replace('Deliveries: ', '');
    const ids = Array.from({ length: PAGE_LIMIT_MAX + 20 }, (_, n) => `burst_${n}`);
    const post = async (id: string) => {
      const body = eventBody({ id, type: 'ledger.closed', data: {} });
      const headers = { 'x-webhook-signature': header(nowSeconds(), body, settings['WEBHOOK_SECRETS']!) };
      expect((await fetch(url, { method: 'POST', headers, body })).status).toBe(202);
    };
    for (let from = 0; from < ids.length; from += 20) {
      await Promise.all(ids.slice(from, from + 20).map(post));
    }
    const follower = start(['deliveries', 'follow', '--since', '2026-01-01', '--search', 'burst_'], settings);
    const told: string[] = [];
    createInterface({ input: follower.child.stdout! }).on('line', (line) => told.push(line));
    await eventually('every delivery', async () =>
      ids.every((id) => told.some((line) => line.includes(` ${id} `))),
    );
    expect(await follower.stop()).toBe(0);
    // Again only where its event has moved on.
    const first = [
      ...new Map(told.map((line) => [/burst_\d+/.exec(line)![0], line.split(' ')[0]!] as const).toReversed()),
    ];
    expect(first).toHaveLength(ids.length);
    expect(first.map(([, at]) => at)).toEqual(
      first
        .map(([, at]) => at)
        .toSorted()
        .toReversed(),
    );
  });

  it.each([[['serve']], [['migrate']]])('a second %j exits 2 and names the first', async (args) => {
    const { code, err } = await cli(args, settings);
    expect(code).toBe(2);
    expect(err).toContain(String(service.child.pid));
  });

  it('pausing goes through the service, and so does resuming', async () => {
    const status = JSON.parse((await cli(['status', '--json'], settings)).out);
    expect((await cli(['pause'], settings)).code).toBe(0);
    expect((await fetch(`${status.service.ops_url}/api/pause`, { method: 'POST' })).status).toBe(401);
    expect((await cli(['status'], settings)).out).toMatch(
      /The mirror is paused; .* Since \d{4}-\d\d-\d\dT[\d:.]+Z\.\n/,
    );
    expect((await cli(['resume'], settings)).out).toBe('Resumed.\n');
  });

  it('what is asked for while it is paused is said to wait, and is not waited for', async () => {
    const { id } = await firstRecord('vendor');
    expect((await cli(['pause'], settings)).code).toBe(0);
    expect((await cli(['refetch', 'vendor', id], settings)).out).toContain('read again after "resume"');
    const { code, out, err } = await cli(['sync', '--kind', 'vendor', '--wait'], settings);
    expect({ code, out }).toEqual({ code: 1, out: 'Asked for: vendor; it begins after "resume"\n' });
    expect(err).toContain('the mirror is paused');
    expect((await cli(['resume'], settings)).code).toBe(0);
  });

  it.each([
    [['events', 'retry', 'a/../b']],
    [['events', 'discard', 'e1']],
    [['quarantine', 'release', '1']],
    [['deletions', 'approve', '1']],
    [['deletions', 'approve', '999']],
  ])('%j of what is not there exits 1 and says so', async (args) => {
    const { code, err } = await cli(args, settings);
    expect(code).toBe(1);
    expect(err).toMatch(/^compliance-mirror: no (event|delivery|deletions)/);
  });

  it('a token that the service does not know is refused with what to do', async () => {
    const stranger = { ...settings, OPS_TOKENS: 'me:operate:not-the-right-token-at-all' };
    const { code, err } = await cli(['pause'], stranger);
    expect(code).toBe(1);
    expect(err).toContain('OPS_TOKENS');
    // The database is here, and so the kinds are shown all the same.
    const status = await cli(['status'], stranger);
    expect(status).toMatchObject({ code: 0, err: expect.stringContaining('OPS_TOKENS') });
    expect(status.out).toContain('COMPLETE THROUGH');
  });

  it('a token that may only read is not even tried', async () => {
    const { code, err } = await cli(['pause'], { ...settings, OPS_TOKENS: 'me:read:a-token-that-may-read' });
    expect(code).toBe(2);
    expect(err).toContain('operate');
  });

  it('of several tokens one that may change things is taken', async () => {
    const known = readFileSync(join(directory, 'ops-token'), 'utf8').trim();
    const OPS_TOKENS = `me:read:a-token-that-may-read,her:operate:${known}`;
    expect(await cli(['resume'], { ...settings, OPS_TOKENS })).toMatchObject({ code: 0 });
  });
});

describe('a service that is started by another program', () => {
  it('stops by itself, and cleanly, when that program closes its standard input', async () => {
    const sandbox = start(['sandbox', '--port', '0', '--attached']);
    await sandbox.line('Sandbox: ');
    sandbox.child.stdin?.end();
    expect(await sandbox.exited).toBe(0);
  });
});

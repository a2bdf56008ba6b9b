import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Sandbox, startSandbox } from '../../sandbox/sandbox.ts';
import { eventBody, header, nowSeconds } from '../receive/sign.ts';
import { cli, start } from './executable.ts';
import { type ServiceHere, serviceHere } from './service-here.ts';

const API_KEY = 'key-of-the-operators-commands';

describe('beside a running service', () => {
  let directory: string;
  let sandbox: Sandbox;
  let service: ServiceHere;
  let settings: Record<string, string>;

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-test-'));
    sandbox = await startSandbox({ port: 0, apiKeys: [API_KEY] });
    settings = {
      PORT: '0',
      OPS_PORT: '0',
      DATABASE_URL: `file:${join(directory, 'mirror.db')}`,
      COMPLIANCE_BASE_URL: `${sandbox.url}/v1`,
      COMPLIANCE_API_KEY: API_KEY,
      COMPLIANCE_REQUESTS_PER_MINUTE: '3000',
      CREDENTIALS_KEY: randomBytes(32).toString('base64'),
      WEBHOOK_SECRETS: randomBytes(32).toString('hex'),
      // Shorter than two commands, one after the other, take on the fastest machine: else the later reading is too soon.
      SYNC_SETTLE_SECONDS: '0.05',
      SYNC_FULL_MINUTES: '0',
    };
    service = await serviceHere(settings);
  });
  afterAll(async () => {
    await service.stop();
    await sandbox.close();
    rmSync(directory, { recursive: true, force: true });
  });

  async function mutate(mutation: object): Promise<void> {
    const body = JSON.stringify({ silent: true, ...mutation });
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${sandbox.url}/_sandbox/mutate`, { method: 'POST', body, headers });
    expect(answer.ok).toBe(true);
  }

  async function firstRecord(kind: string): Promise<{ id: string; name: string }> {
    const { out } = await cli(['records', kind, '--limit', '1', '--json'], settings);
    return JSON.parse(out).items[0];
  }

  it('a full sync can be asked for and waited for, and repairs what was never announced', async () => {
    // The first one may find what the start has not read yet, and says so.
    await expect
      .poll(async () => (await cli(['sync', '--wait'], settings)).code, { timeout: 60_000 })
      .toBe(0);
    await expect.poll(async () => (await cli(['status', '--check'], settings)).code).toBe(0);
    const now = () => new Date().toISOString();
    // The next heartbeat notes the verdict.
    await expect
      .poll(async () => (await cli(['status', '--check', '--at', now()], settings)).code, { timeout: 30_000 })
      .toBe(0);
    expect((await cli(['status', '--at', now()], settings)).out).toMatch(
      /^known_only at 20[\s\S]*\nKIND [\s\S]*\nvendor +in_sync +yes +[1-9]\d* [\s\S]*SHA-256 of the records +[0-9a-f]{64}\n/,
    );
    for (const at of ['2020-01-01', '2999-01-01']) {
      const { code, err } = await cli(['status', '--at', at], settings);
      expect([code, err]).toEqual([2, expect.stringContaining('cannot be told')]);
    }
    const { id } = await firstRecord('vendor');
    await mutate({ kind: 'vendor', op: 'update', id, fields: { name: 'Renamed in silence' } });
    const { code, out } = await cli(['sync', 'vendor', '--wait'], settings);
    expect(code).toBe(3);
    expect(out).toMatch(/\n *\d+ +vendor +complete /);
    expect(out).toContain('0 new, 0 deleted upstream, 1 different; 1 repaired');
    expect(out).toMatch(new RegExp(`\n${id} +different +.*name.* yes\n`));
    expect(JSON.parse((await cli(['records', 'show', 'vendor', id, '--json'], settings)).out).name).toBe(
      'Renamed in silence',
    );
    const history = JSON.parse((await cli(['records', 'history', 'vendor', id, '--json'], settings)).out);
    expect(history.items[0]).toMatchObject({ operation: 'update', after: { name: 'Renamed in silence' } });
    expect(history.items[0].cause).toBe('sync');
    const run = /\n *(\d+) +vendor +complete /.exec(out)![1]!;
    expect((await cli(['sync', 'show', run], settings)).out).toContain('1 different; 1 repaired');
    expect((await cli(['sync', 'list', 'kind=vendor'], settings)).out).not.toContain('policy');
  });

  it('one record is read again on demand, also one of a kind whose records have no address of their own', async () => {
    const { id } = await firstRecord('vendor');
    await mutate({ kind: 'vendor', op: 'update', id, fields: { name: 'Renamed again' } });
    const vendor = await cli(['sync', 'vendor', id, '--wait'], settings);
    expect(vendor).toMatchObject({ code: 0, out: expect.stringContaining(`${id}: confirmed by the API`) });
    expect((await firstRecord('vendor')).name).toBe('Renamed again');
    const policy = await firstRecord('policy');
    await mutate({ kind: 'policy', op: 'redraft', id: policy.id });
    expect((await cli(['sync', 'policy', policy.id, '--wait'], settings)).code).toBe(0);
    expect((await cli(['records', 'show', 'policy', policy.id], settings)).out).toMatch(/\nstatus +draft\n/);
  });

  it('an id that the API does not know is not waited for: its problem is named', async () => {
    const { code, err } = await cli(['sync', 'risk_assessment', 'risk_nobody', '--wait'], settings);
    expect(code).toBe(3);
    const id = /“problems show (\d+)”/.exec(err)![1]!;
    expect((await cli(['problems'], settings)).out).toMatch(
      /\n *\d+ +unknown_record +problems resolve \d+ --find +risk_assessment +risk_nobody/,
    );
    expect((await cli(['problems', 'show', id], settings)).out).toContain('risk_nobody');
    expect(await cli(['problems', 'resolve', id, '--find'], settings)).toMatchObject({
      code: 3,
      err: expect.stringContaining('No place was proven: no event of it is kept'),
    });
    const asked = await cli(['problems', 'resolve', id], settings);
    expect(asked.code).toBe(2);
    const [, digest] = new RegExp(`problems resolve ${id} --digest (\\w+)`).exec(asked.err)!;
    expect((await cli(['problems', 'resolve', id, '--digest', 'another'], settings)).code).toBe(1);
    const done = await cli(['problems', 'resolve', id, '--digest', digest!], settings);
    expect(done).toMatchObject({ code: 0, err: '' });
    expect((await cli(['problems', 'state=resolved', 'reason=unknown_record'], settings)).out).toContain(
      'risk_nobody',
    );
  });

  it('records are found by a text, by status and by any field of their data', async () => {
    const { id, name } = await firstRecord('vendor');
    const found = async (...words: string[]) =>
      JSON.parse((await cli(['records', 'vendor', ...words, '--json'], settings)).out).items as {
        id: string;
      }[];
    expect((await found(name)).map((each) => each.id)).toEqual([id]);
    const { data } = JSON.parse((await cli(['records', 'show', 'vendor', id, '--json'], settings)).out);
    expect((await found(`name=${data.name}`)).map((each) => each.id)).toEqual([id]);
    expect(await found('status=nothing-has-it')).toEqual([]);
  });

  it('a delivery is followed as it comes, and one that is rejected is found by its own id', async () => {
    const follower = start(['deliveries', 'follow', '--json', '--since', '2026-01-01'], settings);
    const send = async (id: string, secret: string) => {
      const body = eventBody({ id, type: 'ledger.closed', data: {} });
      const headers = { 'x-webhook-signature': header(nowSeconds(), body, secret) };
      return (await fetch(service.deliveries, { method: 'POST', headers, body })).status;
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
    const found = await cli(['deliveries', 'evt_lost', '--json'], settings);
    const [{ id, ...lost }] = JSON.parse(found.out).items;
    expect((await cli(['deliveries', 'state=rejected', '--json'], settings)).out).toBe(found.out);
    expect(lost).toMatchObject({ outcome: 'rejected', address: '127.0.0.1' });
    const shown = await cli(['deliveries', 'show', id], settings);
    expect(shown.out).toContain('"evt_lost"');
    expect(shown.out).toMatch(/^WRONG +wrong secret: /);
    expect((await cli(['deliveries', 'show', 'evt_taken'], settings)).out).toMatch(/state +ignored/);
    expect((await cli(['deliveries', 'show', 'evt_never'], settings)).err).toContain('no delivery evt_never');
    expect((await cli(['deliveries', 'show', 'rejection:99'], settings)).code).toBe(1);
    expect((await cli(['resume'], settings)).code).toBe(0);
    expect((await cli(['audit', 'action=resume', '--since', '1h'], settings)).out).toMatch(/ resume +-/);
  });

  it('pausing goes through the service, and so does resuming', async () => {
    expect((await cli(['pause'], settings)).code).toBe(0);
    const { out } = await cli(['status'], settings);
    expect(out).toMatch(/^action_required since \d{4}-\d\d-\d\dT[\d:.]+Z: The mirror is paused/);
    expect(out).toContain('Command: resume');
    expect((await cli(['resume'], settings)).out).toBe('Resumed.\n');
  });

  it('a token that the service does not know is refused with what to do', async () => {
    const stranger = { ...settings, OPS_TOKENS: 'me:operate:not-the-right-token-at-all-of-thirt' };
    const { code, err } = await cli(['pause'], stranger);
    expect(code).toBe(1);
    expect(err).toContain('OPS_TOKENS');
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

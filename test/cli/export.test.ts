import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createService, eventually, type Service } from '../convergence/service.ts';
import { type IndependentUpstream, startIndependentUpstream } from '../support/independent-upstream.ts';
import { createSender, eventAbout } from '../support/independent-upstream-sender.ts';
import { cli } from './executable.ts';

/** More than a page of the API. */
const VENDORS = 620;
const POLICY = { id: 'p1', name: 'Access', version: '1', status: 'draft' };
const FORMULA = '=HYPERLINK("http://x","y")';
/** A double would round it. */
const CODE = '1795892039123456789';
const TOKEN = 'reader-at-home-0123456789-of-thirt';

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
    // Not yet in TypeScript's library.
    const code = (JSON as unknown as { rawJSON(text: string): object }).rawJSON(CODE);
    for (let n = 0; n < VENDORS; n += 1) {
      const id = `v${String(n).padStart(4, '0')}`;
      upstream.records.put('vendors', {
        id,
        name: n === 0 ? FORMULA : `Vendor, no. ${n}`,
        status: 'active',
        code,
      });
    }
    const settings = {
      SYNC_SETTLE_SECONDS: '0.2',
      SYNC_FULL_MINUTES: '0',
      COMPLIANCE_REQUESTS_PER_MINUTE: '3000',
    };
    service = await createService(upstream, settings, { here: true });
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
      const gaps = await service.get<{ items: object[] }>('/api/problems');
      const syncRuns = await service.get<{ items: { outcome: string | null }[] }>('/api/syncs');
      const fields = await service.get<{ items: { column: string }[] }>('/api/views/fields');
      return (
        // The columns of a kind follow its records.
        fields.items.some(({ column }) => column === 'code') &&
        kinds.every(({ unverified }) => unverified === 0) &&
        gaps.items.length === 0 &&
        syncRuns.items.every(({ outcome }) => outcome !== null)
      );
    });
  const lines = (text: string) => text.trimEnd().split('\n');

  it('a table is written whole, the same from here and from afar, to a file that only its owner reads', async () => {
    const [one, other] = [join(folder, 'here.ndjson'), join(folder, 'afar.ndjson')];
    expect(await cli(['export', 'vendors', one, '--ndjson'], here)).toMatchObject({ code: 0, out: '' });
    expect(await cli(['export', 'vendors', other, '--ndjson'], afar)).toMatchObject({ code: 0, out: '' });
    const rows = lines(readFileSync(one, 'utf8')).map((line) => JSON.parse(line));
    expect(rows).toHaveLength(VENDORS);
    expect(rows[0]).toMatchObject({
      id: 'v0000',
      name: FORMULA,
      data: { status: 'active', code: CODE },
      code: CODE,
      deleted_at: null,
    });
    expect(readFileSync(other, 'utf8')).toBe(readFileSync(one, 'utf8'));
    expect(statSync(one).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder).filter((name) => name.includes('partial'))).toEqual([]);
  });

  it('CSV is as stored, with a typed column for each field, and its head stands there once', async () => {
    const { code, out } = await cli(['export', 'vendors'], here);
    expect(code).toBe(0);
    const all = lines(out);
    expect(all).toHaveLength(VENDORS + 1);
    expect(all[0]).toMatch(/^id,name,status,data,first_seen_at,.*,cause\b/);
    expect(all[1]).toContain(CODE);
    expect(all[1]).toContain('"=HYPERLINK(""http://x"",""y"")"');
    expect(all.filter((line) => line.startsWith('id,'))).toHaveLength(1);
  });

  it.each(['changes', 'deliveries', 'audit', 'fields'])(
    '%s come with their columns, empty or not, from afar too',
    async (thing) => {
      const { code, out } = await cli(['export', thing], afar);
      expect(code).toBe(0);
      expect(out.split('\r\n')[0]).toMatch(/^(id|seq|kind),/);
    },
  );

  it('a file that is there stays unless --force says otherwise', async () => {
    const file = join(folder, 'twice.csv');
    expect((await cli(['export', 'problems', file], here)).code).toBe(0);
    const refused = await cli(['export', 'problems', file], here);
    expect(refused.code).toBe(2);
    expect(refused.err).toContain('--force');
    expect((await cli(['export', 'problems', file, '--force'], here)).code).toBe(0);
    expect((await cli(['export', 'problems', join(folder, 'no', 'where.csv')], here)).code).toBe(2);
    expect((await cli(['export', 'persons'], here)).code).toBe(2);
  });

  it('what cannot be read to its end leaves no file', async () => {
    const file = join(folder, 'never.csv');
    const { code } = await cli(['export', 'vendors', file], { ...afar, OPS_TOKEN: 'not-a-token-of-theirs' });
    expect(code).toBe(1);
    expect(existsSync(file)).toBe(false);
    expect(readdirSync(folder).filter((name) => name.startsWith('never'))).toEqual([]);
  });

  it('reading commands say the same from afar', async () => {
    await quiet();
    for (const args of [
      ['records', 'vendor', '--limit', '3', '--json'],
      ['records', 'history', 'vendor', 'v0001', '--json'],
      ['deliveries', 'show', 'evt_1', '--json'],
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
    expect((await cli(['sync', 'vendor', '--wait'], afar)).out).toMatch(/vendor +complete/);
    const { out } = await cli(['export', 'audit', '--ndjson'], afar);
    const actions = lines(out).map((line) => JSON.parse(line));
    expect(
      actions
        .filter(({ actor, action }) => actor === 'home' && action !== 'export')
        .map(({ action }) => action),
    ).toEqual(['sync', 'resume', 'pause']);
  });
});

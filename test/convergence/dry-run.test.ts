import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cli } from '../cli/executable.ts';
import { type IndependentUpstream, startIndependentUpstream } from '../support/independent-upstream.ts';
import { fill } from '../support/independent-upstream-records.ts';
import { alive, compare } from './compare.ts';
import { createService, eventually, type Service } from './service.ts';

interface Report {
  in_sync: boolean;
  kinds: {
    kind: string;
    missing: number;
    extra: number;
    different: number;
    fields: Record<string, number>;
  }[];
}

let upstream: IndependentUpstream;
let service: Service;

const inSync = () => compare(service.database, upstream.records, new Set()).differences.length === 0;

beforeAll(async () => {
  upstream = await startIndependentUpstream();
  fill(upstream.records, { policies: 8, assessments: 0, vendors: 8 });
  service = await createService(upstream, {
    SYNC_SETTLE_SECONDS: '0.2',
    SYNC_FULL_MINUTES: '0',
    COMPLIANCE_REQUESTS_PER_MINUTE: '6000',
    LOG_LEVEL: 'error',
  });
  await service.start();
  await eventually('the first equality', inSync);
  await eventually('the end of the full syncs', async () => {
    const { items } = await service.get<{ items: { outcome: string | null }[] }>('/api/sync-runs');
    return items.filter(({ outcome }) => outcome === 'complete').length === 3;
  });
});
afterAll(async () => {
  await service.end();
  await upstream.close();
});

/** One of each kind of difference, and nobody says so. */
function differences(): void {
  upstream.records.put('policies', { id: 'pol-unseen', name: 'New', version: '1.0', status: 'draft' });
  upstream.records.put('vendors', {
    ...upstream.records.find('vendors', 'ven-1')!,
    name: 'Renamed',
    tags: [],
  });
  upstream.records.remove('vendors', 'ven-2');
}

const EXPECTED = [
  { kind: 'policy', missing: 1, extra: 0, different: 0, fields: {} },
  { kind: 'risk_assessment', missing: 0, extra: 0, different: 0, fields: {} },
  { kind: 'vendor', missing: 0, extra: 1, different: 1, fields: { name: 1, 'data.name': 1, 'data.tags': 1 } },
];

describe('status', () => {
  it('says what the page says, in its words, beside the service and from elsewhere', async () => {
    const { sentence } = await service.get<{ sentence: string }>('/api/status');
    expect(sentence.length).toBeGreaterThan(10);
    const { OPS_PORT, OPS_TOKENS } = service.settings;
    const afar = { OPS_URL: `http://127.0.0.1:${OPS_PORT}`, OPS_TOKEN: OPS_TOKENS!.split(':').at(-1)! };
    for (const settings of [service.settings, afar]) {
      expect((await cli(['status'], settings)).out).toContain(`\n${sentence}`);
      expect(JSON.parse((await cli(['status', '--json'], settings)).out).service).toMatchObject({ sentence });
    }
    // Whoever holds no token reads the tables still.
    const { OPS_TOKENS: _, ...tokenless } = service.settings;
    const { code, out } = await cli(['status'], {
      ...tokenless,
      OPS_TOKENS: 'rita:read:rita-reads-with-this-one',
    });
    expect([code, out.includes(sentence), out.includes('8 listed by the API at the last full sync')]).toEqual(
      [0, false, true],
    );
  });

  it('counts what is covered, says until when, and how long a full sync of the assessments takes', async () => {
    const { out } = await cli(['status'], service.settings);
    expect(out).toMatch(/GAPS +COMPLETE THROUGH +IN SYNC SINCE +LAST FULL SYNC +COVERAGE/);
    expect(out).toMatch(/policy .* 0 +\d{4}-\S+Z .*Z +8 listed by the API at the last full sync/);
    expect(out).toMatch(/risk_assessment .* known ids only: 0/);
    expect(out).toMatch(/reading assessments +the last took ([\d.]+|under 1) s\n/);
    const { assessment_sync } = await service.get<{ assessment_sync: object }>('/api/status');
    expect(assessment_sync).toEqual({ last_seconds: expect.any(Number), running: null });
  });
});

describe('sync --dry-run', () => {
  it('beside a running service finds nothing where nothing differs, and exits 0', async () => {
    const { code, out } = await cli(['sync', '--dry-run', '--json'], service.settings);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ in_sync: true });
  });

  it('of a list that cannot be whole says so, and exits 1 where nothing differs in what it read', async () => {
    const { total } = upstream;
    upstream.total = (rows) => rows + 1;
    const { code, out, err } = await cli(['sync', '--dry-run', '--kind', 'vendor'], service.settings);
    upstream.total = total;
    expect(code).toBe(1);
    expect(out).toContain('nothing absent counts: the list shows 8 records where its total says 9');
    expect(err).toContain('not the whole list: vendor');
  });

  it('beside a running service tells what differs, exits 3 and writes nothing', async () => {
    differences();
    const syncRunsBefore = await service.get('/api/sync-runs');
    const { code, out } = await cli(['sync', '--dry-run', '--json'], service.settings);

    expect(code).toBe(3);
    const report = JSON.parse(out) as Report;
    expect(report.in_sync).toBe(false);
    expect(report.kinds).toMatchObject(EXPECTED);
    expect(alive(service.database, 'policies')).toBe(8);
    expect(alive(service.database, 'vendors')).toBe(8);
    expect(await service.get('/api/sync-runs')).toEqual(syncRunsBefore);
  });

  it('compares only the kinds that are asked for, and names the records in its text', async () => {
    const { code, out } = await cli(['sync', '--dry-run', '--kind', 'vendor'], service.settings);
    expect(code).toBe(3);
    expect(out).toContain('vendor: 0 missing, 1 extra, 1 different');
    expect(out).toMatch(/ven-1 +different +data.name, data.tags, name +no/);
    expect(out).not.toContain('policy');
  });

  it('is done by a service elsewhere, with none of its settings here', async () => {
    const { OPS_PORT, OPS_TOKENS } = service.settings;
    const afar = { OPS_URL: `http://127.0.0.1:${OPS_PORT}`, OPS_TOKEN: OPS_TOKENS!.split(':').at(-1)! };
    const { code, out } = await cli(['sync', '--dry-run', '--kind', 'vendor', '--json'], afar);
    expect(code).toBe(3);
    expect((JSON.parse(out) as Report).kinds).toMatchObject([EXPECTED[2]]);
  });

  it('through the API answers with the differences, and says what went wrong when it cannot read', async () => {
    const answer = await service.post<Report>('/api/sync-runs', { dry_run: true, kinds: ['vendor'] });
    expect(answer).toMatchObject({ status: 'compared', in_sync: false, kinds: [EXPECTED[2]] });

    upstream.faultOf = () => ({ fault: 'status', status: 403 });
    await expect(service.post('/api/sync-runs', { dry_run: true })).rejects.toThrow(
      /answered 502: .*upstream_forbidden/,
    );
    upstream.faultOf = () => null;
  });

  it('without a running service compares by itself, and not a byte of the database changes', async () => {
    await service.stop();
    const before = readFileSync(service.database);
    const { code, out } = await cli(['sync', '--dry-run', '--json'], service.settings);
    expect(code).toBe(3);
    expect((JSON.parse(out) as Report).kinds).toMatchObject(EXPECTED);
    expect(readFileSync(service.database).equals(before)).toBe(true);
    await service.start();
  });

  it('a full sync then repairs it, and shows what it found', async () => {
    await eventually('equality after the restart', inSync);
    // Else one of the start's might repair what the one that is asked for is to find.
    await eventually('the end of the full syncs of the restart', async () => {
      const { items } = await service.get<{ items: { outcome: string | null }[] }>('/api/sync-runs');
      return items.length >= 6 && items.every(({ outcome }) => outcome !== null);
    });
    differences();
    upstream.records.put('vendors', { ...upstream.records.find('vendors', 'ven-3')!, name: 'Renamed again' });
    const fullSync = await cli(['sync', '--kind', 'vendor', '--wait'], service.settings);
    expect(fullSync.code).toBe(3);
    expect(fullSync.out).toContain('differences: 0 missing, 0 extra, 1 different, 1 repaired');
    expect(fullSync.out).toMatch(/ven-3 +different +data.name, name +yes/);
    expect(fullSync.err).toContain('the mirror differed from the API: vendor');
    expect((await cli(['sync', '--kind', 'vendor', '--wait'], service.settings)).code).toBe(0);
    const id = /Sync run (\d+) of vendor/.exec(fullSync.out)![1]!;
    const shown = await cli(['sync-runs', 'show', id], service.settings);
    expect(shown.out).toContain('differences: 0 missing, 0 extra, 1 different, 1 repaired');
    expect(shown.out).toMatch(/ven-3 +different +data.name, name +yes/);
  });
});

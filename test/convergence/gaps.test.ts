import { randomUUID } from 'node:crypto';
import { renameSync, rmSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { GAP_TEXTS } from '../../src/ops/gap-texts.ts';
import { backUpSqlite } from '../../src/store/sqlite/backup.ts';
import type { GapReason } from '../../src/store/store.ts';
import { approveDeletions } from '../support/approve-deletions.ts';
import { eventAbout, signature } from '../support/independent-upstream-sender.ts';
import { createStage, type GapSeen, type Stage } from './stage.ts';

interface Case {
  reason: GapReason;
  when: string;
  /** Of several gaps the one of this kind. */
  about?: string;
  /** How many are opened. Default: one. */
  counted?: number;
  open(stage: Stage): Promise<void>;
  /** What ends the cause; the service does the rest. Null: nothing can. */
  resolve: ((stage: Stage, gap: GapSeen) => Promise<void>) | null;
}

const HOUR_MS = 3_600_000;

const nothing = async () => undefined;
const works = async ({ upstream }: Stage) => {
  upstream.faultOf = () => null;
};
const event = (type: string, data: unknown, id: string = randomUUID()) => ({
  id,
  body: JSON.stringify({ id, type, created: '2026-11-20T12:00:00Z', data }),
});
const fullSync = (stage: Stage, kind: string) => stage.post<unknown>('/api/sync-runs', { kinds: [kind] });
const isList = (path: string, name: string) => path.includes(`/${name}?`);

const CASES: readonly Case[] = [
  {
    reason: 'downtime',
    when: 'the service was not there for ten minutes',
    async open(stage) {
      await stage.stop();
      stage.clock.leap(600_000);
      await stage.start();
    },
    resolve: nothing,
  },
  {
    reason: 'downtime',
    when: 'the service stood still for ten minutes, as on a machine that slept',
    async open(stage) {
      stage.clock.leap(600_000);
    },
    resolve: nothing,
  },
  {
    reason: 'upstream_unavailable',
    when: 'no request has been answered for a while',
    async open(stage) {
      stage.upstream.faultOf = () => ({ fault: 'status', status: 503 });
      await stage.post('/api/sync-runs');
    },
    resolve: works,
  },
  {
    reason: 'credentials_rejected',
    when: 'a request is answered 401, which is about every kind',
    counted: 3,
    about: 'vendor',
    async open(stage) {
      stage.upstream.faultOf = () => ({ fault: 'status', status: 401 });
      await fullSync(stage, 'vendor');
    },
    resolve: works,
  },
  {
    reason: 'rejected_timestamp',
    when: 'a delivery is signed rightly, and too long ago',
    async open(stage) {
      const late = stage.touchVendor('ven-1');
      await stage.deliver(late, signature(late.body, { t: stage.seconds() - 1_000 }));
    },
    resolve: nothing,
  },
  {
    reason: 'rejected_signatures',
    when: 'several deliveries in a row are signed with another secret',
    async open(stage) {
      for (let count = 0; count < 6; count += 1) {
        const { body, id } = stage.touchVendor('ven-1');
        const header = signature(body, { t: stage.seconds(), secret: 'a secret that nobody told us of' });
        expect(await stage.deliver({ body, id }, header)).toBe(401);
      }
    },
    async resolve(stage) {
      expect(await stage.deliver(stage.touchVendor('ven-1'))).toBe(202);
    },
  },
  {
    reason: 'unresolved',
    when: 'an event names a vendor that the API has never shown',
    async open(stage) {
      await stage.deliver(event('vendor.added', { id: 'ven-unheard-of' }));
    },
    async resolve(stage) {
      stage.upstream.records.put('vendors', { id: 'ven-unheard-of', name: 'Late', status: 'active' });
    },
  },
  {
    reason: 'unresolved',
    when: 'a person asks for an assessment that the API has never shown',
    async open(stage) {
      await stage.post('/api/records/risk_assessment/refetch', { ids: ['ra-mistyped'] });
    },
    async resolve(stage) {
      stage.upstream.records.put('assessments', { id: 'ra-mistyped', name: 'Late', status: 'open' });
    },
  },
  {
    reason: 'unreadable_answer',
    when: 'a record is answered with what means nothing here',
    async open(stage) {
      stage.upstream.faultOf = ({ path }) =>
        path.endsWith('/vendors/ven-1') ? { fault: 'status', status: 400 } : null;
      await stage.deliver(stage.touchVendor('ven-1'));
    },
    resolve: works,
  },
  {
    reason: 'unproven_id',
    when: 'an event names an assessment that the API has never shown, nor any other',
    async open(stage) {
      await stage.deliver(event('risk.identified', { id: 'ra-unheard-of' }));
    },
    async resolve(stage) {
      stage.upstream.records.put('assessments', { id: 'ra-unheard-of', name: 'Late', status: 'open' });
    },
  },
  {
    reason: 'unaddressable',
    when: 'an event names an id that no path can carry',
    async open(stage) {
      await stage.deliver(event('vendor.added', { id: '..' }));
    },
    resolve: null,
  },
  {
    reason: 'no_record_id',
    when: 'the data of an event does not say which record it is about',
    async open(stage) {
      expect(await stage.deliver(event('vendor.updated', { says: 'not which' }))).toBe(202);
    },
    resolve: nothing,
  },
  {
    reason: 'unusable_delivery',
    when: 'a signed delivery is no event',
    async open(stage) {
      expect(await stage.deliver({ id: '', body: 'no JSON at all' })).toBe(400);
    },
    resolve: nothing,
  },
  {
    reason: 'conflicting_content',
    when: 'an event id comes again with other content',
    async open(stage) {
      const first = stage.touchVendor('ven-1');
      expect(await stage.deliver(first)).toBe(202);
      const other = eventAbout('vendor.assessed', 'vendors', { id: 'ven-2' }, first.id);
      expect(await stage.deliver(other)).toBe(200);
    },
    resolve: nothing,
  },
  {
    reason: 'total_mismatch',
    when: 'a list’s total is not what the list shows',
    async open(stage) {
      stage.upstream.total = (rows) => rows + 1;
      await fullSync(stage, 'vendor');
    },
    async resolve({ upstream }) {
      upstream.total = (rows) => rows;
    },
  },
  {
    reason: 'total_mismatch',
    when: 'a list and its total leave out what we hold and what still answers',
    async open(stage) {
      stage.upstream.unlisted.add('ven-3');
      await fullSync(stage, 'vendor');
    },
    async resolve({ upstream }) {
      upstream.unlisted.clear();
    },
  },
  {
    reason: 'silence',
    when: 'nothing is delivered for a day',
    async open(stage) {
      stage.clock.leap(25 * HOUR_MS);
    },
    async resolve(stage) {
      await stage.deliver(stage.touchVendor('ven-1'));
    },
  },
  {
    reason: 'list_incomplete',
    when: 'a list cannot be read to its end',
    async open(stage) {
      stage.upstream.faultOf = ({ path }) =>
        isList(path, 'vendors') ? { fault: 'status', status: 404 } : null;
      await fullSync(stage, 'vendor');
    },
    resolve: works,
  },
  {
    reason: 'deletions_unproven',
    when: 'each list scan shows other records than the one before',
    async open(stage) {
      const { records } = stage.upstream;
      let renewed = 0;
      stage.upstream.onRequest = ({ path }) => {
        if (!isList(path, 'policies') || !path.includes('page=1&')) return;
        renewed += 1;
        records.remove('policies', `pol-${renewed}`);
        records.put('policies', { id: `pol-new-${renewed}`, name: 'New', version: '1', status: 'draft' });
      };
      await fullSync(stage, 'policy');
    },
    async resolve(stage) {
      stage.upstream.onRequest = () => undefined;
    },
  },
  {
    reason: 'deletion_pending',
    when: 'many records are gone at once, and no event said so',
    async open(stage) {
      for (let index = 0; index < 10; index += 1) stage.upstream.records.remove('policies', `pol-${index}`);
      await fullSync(stage, 'policy');
    },
    async resolve(stage) {
      expect(await approveDeletions(stage)).toBe(10);
    },
  },
  {
    reason: 'restored',
    when: 'a copy of the database is put back, and a person has seen to it',
    async open(stage) {
      await stage.stop();
      await backUpSqlite({ from: stage.database, to: `${stage.database}.copy` });
      renameSync(`${stage.database}.copy`, stage.database);
      for (const suffix of ['-wal', '-shm']) rmSync(stage.database + suffix, { force: true });
      await stage.start();
    },
    about: 'risk_assessment',
    counted: 3,
    async resolve(stage, { id }) {
      const ofLists = async () =>
        (await stage.gaps()).filter(
          ({ reason, kind }) => reason === 'restored' && kind !== 'risk_assessment',
        );
      await stage.leapUntil('lists', async () =>
        (await ofLists()).every(({ resolved_at }) => resolved_at !== null),
      );
      // However often everything is read, that of the assessments waits.
      stage.clock.leap(2 * HOUR_MS);
      await stage.leapUntil('sync-runs', syncRunsEnded);
      expect((await stage.gaps()).find((gap) => gap.id === id)?.resolved_at).toBeNull();
      await stage.post(`/api/gaps/${id}/resolve`);
    },
  },
];

let stage: Stage;

beforeEach(async () => {
  stage = await createStage();
  await stage.start();
  await stage.leapUntil('first equality', () => stage.compare().differences.length === 0);
  await stage.leapUntil('end of the start’s full syncs', syncRunsEnded);
});
afterEach(() => stage.end());

async function syncRunsEnded(): Promise<boolean> {
  const { items } = await stage.get<{ items: { outcome: string | null }[] }>('/api/sync-runs');
  return items.length >= 3 && items.every(({ outcome }) => outcome !== null);
}

async function counted(reason: GapReason): Promise<number> {
  const text = await stage.get<string>('/metrics');
  const line = new RegExp(`^compliance_mirror_gaps_opened_total\\{reason="${reason}"\\} (\\d+)$`, 'm').exec(
    text,
  );
  return Number(line?.[1] ?? 0);
}

describe('a gap opens, resolves by itself, stays in the history and is counted', () => {
  it.each(CASES)('$reason: $when', async ({ reason, about, counted: times = 1, open, resolve }) => {
    expect(await stage.gaps()).toEqual([]);
    expect(await counted(reason)).toBe(0);

    await open(stage);
    const ours = (gap: GapSeen) => gap.reason === reason && (about === undefined || gap.kind === about);
    const gap = await stage.leapUntil(`gap ${reason}`, async () => (await stage.gaps()).find(ours) ?? null);
    expect(gap.error).toEqual(expect.any(String));
    await stage.leapUntil('count', async () => (await counted(reason)) === times, 2_000);

    if (resolve === null) {
      await stage.post('/api/sync-runs');
      stage.clock.leap(48 * HOUR_MS);
      await stage.leapUntil('sync-runs', syncRunsEnded);
      expect((await stage.gaps()).find(ours)?.resolved_at).toBeNull();
      return;
    }
    await resolve(stage, gap);
    const resolved = await stage.leapUntil(
      `resolving of ${reason}`,
      async () =>
        (await stage.gaps()).find(({ id, resolved_at }) => id === gap.id && resolved_at !== null) ?? null,
      5_000,
    );
    expect(resolved.record_id).toBe(gap.record_id);
    // What it hid is repaired, too.
    await stage.leapUntil('equality', () => stage.compare().differences.length === 0, 5_000);
  });

  it('has a case here for every reason there is', () => {
    // No event from outside can break its processing: that would be a mistake of ours. The store's own tests have it. And
    // this service knows its secret: those of the watch over deliveries have one that does not. An event
    // that is trimmed too early is among those that are not read: unread.test.ts.
    const reasons = [
      'failed_event',
      'no_signing_secret',
      'trimmed_event',
      ...CASES.map(({ reason }) => reason),
    ];
    expect([...new Set(reasons)].sort()).toEqual(Object.keys(GAP_TEXTS).sort());
  });
});

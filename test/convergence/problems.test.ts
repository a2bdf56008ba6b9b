import { randomUUID } from 'node:crypto';
import { renameSync, rmSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PROBLEM_REASONS } from '../../src/mirror/problems.ts';
import { backUpSqlite } from '../../src/store/sqlite/file.ts';
import type { ProblemReason } from '../../src/store/store.ts';
import { approveDeletions } from '../support/approve-deletions.ts';
import { eventAbout, signature } from '../support/independent-upstream-sender.ts';
import { createStage, type ProblemSeen, type Stage } from './stage.ts';

interface Case {
  reason: ProblemReason;
  when: string;
  /** Of several problems the one of this kind. */
  about?: string;
  /** How many are opened. Default: one. */
  counted?: number;
  open(stage: Stage): Promise<void>;
  /** What ends the cause; the service does the rest. */
  resolve: (stage: Stage, problem: ProblemSeen) => Promise<void>;
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
const fullSync = (stage: Stage, kind: string) => stage.post<unknown>('/api/syncs', { kinds: [kind] });
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
    reason: 'unreachable',
    when: 'no request has been answered for a while',
    async open(stage) {
      stage.upstream.faultOf = () => ({ fault: 'status', status: 503 });
      await stage.post('/api/syncs');
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
    reason: 'paused',
    when: 'a person pauses it',
    async open(stage) {
      await stage.post('/api/pause');
    },
    async resolve(stage) {
      await stage.post('/api/resume');
    },
  },
  {
    reason: 'full_sync_overdue',
    when: 'no list has been whole for hours',
    about: 'vendor',
    async open(stage) {
      stage.upstream.faultOf = ({ path }) =>
        isList(path, 'vendors') ? { fault: 'status', status: 404 } : null;
      stage.clock.leap(3 * HOUR_MS);
    },
    resolve: works,
  },
  {
    reason: 'rejected_deliveries',
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
    reason: 'unknown_record',
    when: 'an event names a vendor that the API has never shown',
    async open(stage) {
      await stage.deliver(event('vendor.added', { id: 'ven-unheard-of' }));
    },
    async resolve(stage) {
      stage.upstream.records.put('vendors', { id: 'ven-unheard-of', name: 'Late', status: 'active' });
    },
  },
  {
    reason: 'unknown_record',
    when: 'a person asks for an assessment that the API has never shown',
    async open(stage) {
      await stage.post('/api/syncs', { kind: 'risk_assessment', ids: ['ra-mistyped'] });
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
    reason: 'unknown_record',
    when: 'an event names an assessment that the API has never shown, nor any other',
    async open(stage) {
      await stage.deliver(event('risk.identified', { id: 'ra-unheard-of' }));
    },
    async resolve(stage) {
      stage.upstream.records.put('assessments', { id: 'ra-unheard-of', name: 'Late', status: 'open' });
    },
  },
  {
    reason: 'unknown_record',
    when: 'an event names an id that no path can carry',
    async open(stage) {
      await stage.deliver(event('vendor.added', { id: '..' }));
    },
    resolve: nothing,
  },
  {
    reason: 'unknown_record',
    when: 'the data of an event does not say which record it is about',
    async open(stage) {
      expect(await stage.deliver(event('vendor.updated', { says: 'not which' }))).toBe(202);
    },
    resolve: nothing,
  },
  {
    reason: 'quarantined',
    when: 'a signed delivery is no event',
    async open(stage) {
      expect(await stage.deliver({ id: '', body: 'no JSON at all' })).toBe(400);
    },
    // Of each kind that it may be about; of assessments a person resolves it.
    about: 'vendor',
    counted: 3,
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
    reason: 'incomplete_list',
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
    reason: 'incomplete_list',
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
    reason: 'incomplete_list',
    when: 'a list cannot be read to its end',
    async open(stage) {
      stage.upstream.faultOf = ({ path }) =>
        isList(path, 'vendors') ? { fault: 'status', status: 404 } : null;
      await fullSync(stage, 'vendor');
    },
    resolve: works,
  },
  {
    reason: 'incomplete_list',
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
      // By now they are many.
      await stage.leapUntil('approval', async () => (await approveDeletions(stage)) > 0);
    },
  },
  {
    reason: 'pending_deletions',
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
    async resolve(stage, { id, digest }) {
      const ofLists = async () =>
        (await stage.problems()).filter(
          ({ reason, kind }) => reason === 'restored' && kind !== 'risk_assessment',
        );
      await stage.leapUntil('lists', async () =>
        (await ofLists()).every(({ resolved_at }) => resolved_at !== null),
      );
      // However often everything is read, that of the assessments waits.
      stage.clock.leap(2 * HOUR_MS);
      await stage.leapUntil('sync-runs', syncRunsEnded);
      expect((await stage.problems()).find((problem) => problem.id === id)?.resolved_at).toBeNull();
      await stage.post(`/api/problems/${id}/resolve`, { digest });
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
  const { items } = await stage.get<{ items: { outcome: string | null }[] }>('/api/syncs');
  return items.length >= 3 && items.every(({ outcome }) => outcome !== null);
}

async function counted(reason: ProblemReason): Promise<number> {
  const text = await stage.get<string>('/metrics');
  const line = new RegExp(
    `^compliance_mirror_problems_opened_total\\{reason="${reason}"\\} (\\d+)$`,
    'm',
  ).exec(text);
  return Number(line?.[1] ?? 0);
}

describe('a problem opens, resolves by itself, stays in the history and is counted', () => {
  it.each(CASES)('$reason: $when', async ({ reason, about, counted: times = 1, open, resolve }) => {
    expect(await stage.problems()).toEqual([]);
    expect(await counted(reason)).toBe(0);

    await open(stage);
    const ours = (problem: ProblemSeen) =>
      problem.reason === reason && (about === undefined || problem.kind === about);
    const problem = await stage.leapUntil(
      `problem ${reason}`,
      async () => (await stage.problems()).find(ours) ?? null,
    );
    if (reason !== 'paused') expect(problem.error).toEqual(expect.any(String));
    await stage.leapUntil('count', async () => (await counted(reason)) >= times, 2_000);

    await resolve(stage, problem);
    const resolved = await stage.leapUntil(
      `resolving of ${reason}`,
      async () =>
        (await stage.problems()).find(({ id, resolved_at }) => id === problem.id && resolved_at !== null) ??
        null,
      5_000,
    );
    expect(resolved.record_id).toBe(problem.record_id);
    // What it hid is repaired, too.
    await stage.leapUntil('equality', () => stage.compare().differences.length === 0, 5_000);
  });

  it('has a case here for every reason there is', () => {
    // No event from outside can break its processing: that would be a mistake of ours. The store's own tests have it.
    // Too many fields are a matter of the upkeep alone, and among its tests.
    const reasons = ['failed_event', 'full_columns', ...CASES.map(({ reason }) => reason)];
    expect([...new Set(reasons)].sort()).toEqual([...PROBLEM_REASONS].sort());
  });
});

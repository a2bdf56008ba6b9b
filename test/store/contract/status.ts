import { describe, expect, it } from 'vitest';
import { KINDS, type Kind } from '../../../src/compliance/kinds.ts';
import { PROBLEM_REASONS, VERDICTS, weigh } from '../../../src/mirror/problems.ts';
import type { ServiceFacts } from '../../../src/store/store.ts';
import { createScene, isoOf, type OpenEngine, type Scene, SETTLE_MS, TIMING } from '../scene.ts';

const MINUTE_MS = 60_000;
const progress = { pages: 0, seen: 7, inserted: 0, updated: 0, deleted: 0, unchanged: 0 };

export async function beat(scene: Scene, over: Partial<ServiceFacts> = {}) {
  const facts = {
    eventsOnly: false,
    settleMs: SETTLE_MS,
    fullSyncMs: 60 * MINUTE_MS,
    unreachable: false as const,
    access: 'key',
    ...over,
  };
  await scene.store.beat(scene.now(), facts);
}

/** Every kind has been read with these credentials. */
async function readAll(scene: Scene, access = 'key') {
  for (const kind of KINDS) await scene.store.noteAccess(kind, access, 'read', scene.now());
}

export async function fullSyncAll(
  scene: Scene,
  takesMs = 0,
  outcome: 'complete' | 'incomplete' = 'complete',
) {
  const runs: { id: number; listed: boolean }[] = [];
  for (const kind of KINDS) {
    const { id } = await scene.store.startSyncRun(kind, 'timer', scene.now());
    runs.push({ id, listed: kind !== 'risk_assessment' });
  }
  scene.pass(takesMs);
  for (const { id, listed } of runs) {
    const end = { outcome, error: null, progress, differences: {}, listed };
    await scene.store.finishSyncRun(id, end, scene.now());
  }
}

async function status(scene: Scene, kind: Kind = 'policy') {
  const [row] = await scene.query(`SELECT * FROM sync_status WHERE kind = '${kind}'`);
  const report = (await scene.store.summary()).kinds.find((one) => one.kind === kind);
  const isNow = (at: unknown) => Math.abs(Date.parse(String(at)) - Date.now()) < MINUTE_MS;
  const since = isNow(row?.['since']) && isNow(report?.since) ? report?.since : row?.['since'];
  expect(report).toEqual({ ...row, complete: Boolean(row?.['complete']), since });
  return report!;
}

/** A complete full sync of what is listed, with a pause before and after `during`. Returns the instant that it tells of. */
async function fullSyncOf(
  scene: Scene,
  kind: Kind,
  pauseMs: number,
  during: () => Promise<unknown> = async () => undefined,
): Promise<string> {
  const { id } = await scene.store.startSyncRun(kind, 'timer', scene.now());
  const startedAt = isoOf(scene.now().wall - SETTLE_MS);
  scene.pass(pauseMs);
  await during();
  // Later than what it has left to a person.
  scene.pass(1);
  const end = { outcome: 'complete', error: null, progress, differences: {}, listed: true } as const;
  await scene.store.finishSyncRun(id, end, scene.now());
  scene.pass(pauseMs);
  return startedAt;
}

/** The view asks the database's own clock, so these stories play in the present. */
export function inPresent(
  open: OpenEngine,
  story: (scene: Scene) => Promise<void>,
  agoMs = 0,
  reads = readAll,
) {
  return async () => {
    const scene = await createScene(open, { wall: Date.now() - agoMs });
    try {
      await reads(scene);
      await story(scene);
    } finally {
      await scene.close();
    }
  };
}

export const presentOn =
  (open: OpenEngine) =>
  (name: string, story: (scene: Scene) => Promise<void>, ...how: [agoMs?: number, reads?: typeof readAll]) =>
    it(name, inPresent(open, story, ...how));

export function describeStatus(open: OpenEngine): void {
  const present = presentOn(open);
  describe('the view sync_status', () => {
    present('promises nothing before the service has run', async (scene) => {
      const rows = await scene.query('SELECT kind, verdict FROM sync_status ORDER BY kind');
      expect(rows).toEqual(KINDS.map((kind) => ({ kind, verdict: 'stale' })));
    });

    present(
      'says that the API cannot be reached, unless a person must act, and not what is behind meanwhile',
      async (scene) => {
        await beat(scene, { unreachable: { error: 'a timeout' } });
        expect((await status(scene)).verdict).toBe('unreachable');
        await fullSyncAll(scene);
        expect((await status(scene)).verdict).toBe('unreachable');
        await scene.store.openProblem({ reason: 'paused', kind: null, recordId: null }, null, scene.now());
        expect((await status(scene)).verdict).toBe('action_required');
        await scene.store.endProblem({ reason: 'paused', kind: null, recordId: null }, scene.now());
        await beat(scene);
        expect((await status(scene)).verdict).toBe('in_sync');
      },
    );

    const asked = async () => undefined;

    present(
      'is catching up until the present credentials have been seen to read the kind, and again with others',
      async (scene) => {
        await beat(scene);
        await fullSyncAll(scene);
        expect(await status(scene)).toMatchObject({ verdict: 'catching_up', complete: false });
        await scene.store.noteAccess('policy', 'another key', 'read', scene.now());
        expect((await status(scene)).verdict).toBe('catching_up');
        scene.pass(1_000);
        await scene.store.noteAccess('policy', 'key', 'read', scene.now());
        await beat(scene);
        expect(await status(scene)).toMatchObject({ verdict: 'in_sync', complete: true });
        expect((await status(scene, 'vendor')).verdict).toBe('catching_up');
        await beat(scene, { access: 'a new key' });
        expect(await status(scene)).toMatchObject({ verdict: 'catching_up', complete: false });
      },
      5_000,
      asked,
    );

    present(
      'is catching up until a full sync that began with the present credentials is complete, and again with others',
      async (scene) => {
        await beat(scene);
        await fullSyncAll(scene);
        await beat(scene);
        expect((await status(scene)).verdict).toBe('in_sync');
        expect(await scene.wanted()).toEqual([]);
        const old = await scene.store.startSyncRun('policy', 'timer', scene.now());
        await beat(scene, { access: 'a new key' });
        await readAll(scene, 'a new key');
        const unread = {
          verdict: 'catching_up',
          complete_through: null,
        };
        expect(await status(scene)).toMatchObject(unread);
        const end = { outcome: 'complete', error: null, progress, differences: {}, listed: true } as const;
        await scene.store.finishSyncRun(old.id, end, scene.now());
        expect(await status(scene)).toMatchObject(unread);
        // Also for a process that never got the answer to its heartbeat.
        expect(await scene.wanted()).toEqual([...KINDS]);
        await fullSyncAll(scene);
        expect(await scene.wanted()).toEqual([]);
        await beat(scene, { access: 'a new key' });
        const { verdict, complete_through } = await status(scene);
        expect([verdict, complete_through]).toEqual(['in_sync', expect.any(String)]);
      },
      5_000,
    );

    present(
      'takes a made-up id that is unknown for access, while no id is known and another kind has been read',
      async (scene) => {
        const kind = 'risk_assessment';
        await beat(scene);
        await fullSyncAll(scene);
        await scene.store.noteAccess(kind, 'key', 'absence', scene.now());
        expect((await status(scene, kind)).verdict).toBe('catching_up');
        await scene.store.noteAccess('vendor', 'another key', 'read', scene.now());
        expect((await status(scene, kind)).verdict).toBe('catching_up');
        await scene.store.noteAccess('vendor', 'key', 'read', scene.now());
        await beat(scene);
        expect((await status(scene, kind)).verdict).toBe('known_only');
        await scene.store.makeKnown(kind, ['ra_1'], scene.now());
        expect(await status(scene, kind)).toMatchObject({ verdict: 'catching_up', complete: false });
      },
      5_000,
      asked,
    );

    present(
      'takes it for access as well where all that are known are deleted',
      async (scene) => {
        const kind = 'vendor';
        await beat(scene);
        await fullSyncAll(scene);
        await scene.show(kind, 'ven_1', { id: 'ven_1', name: 'one' });
        await scene.accept(scene.event({ kind, recordId: 'ven_1', type: 'vendor.removed' }));
        await scene.work();
        for (let reads = 0; reads < 2; reads += 1) {
          scene.pass(SETTLE_MS);
          await scene.missing(kind, 'ven_1');
        }
        await scene.conclude(kind);
        await beat(scene);
        expect(await status(scene, kind)).toMatchObject({ verdict: 'in_sync', records: 0, deleted: 1 });
        await beat(scene, { access: 'new key' });
        await scene.store.noteAccess('policy', 'new key', 'read', scene.now());
        expect((await status(scene, kind)).verdict).toBe('catching_up');
        await scene.store.noteAccess(kind, 'new key', 'absence', scene.now());
        await fullSyncAll(scene);
        await beat(scene, { access: 'new key' });
        expect((await status(scene, kind)).verdict).toBe('in_sync');
      },
      60_000,
    );

    present(
      'is blocked by an answer that nobody understands, until that very request is answered',
      async (scene) => {
        await beat(scene);
        await fullSyncAll(scene);
        await beat(scene);
        const problem = { reason: 'unreadable_answer', kind: 'vendor' } as const;
        await scene.store.openProblem({ ...problem, recordId: 'ven_1' }, 'a web page', scene.now());
        await scene.store.openProblem({ ...problem, recordId: null }, 'a web page', scene.now());
        expect((await status(scene)).verdict).toBe('in_sync');
        expect((await status(scene, 'vendor')).verdict).toBe('action_required');
        await fullSyncAll(scene);
        expect(await scene.openProblems()).toEqual(['unreadable_answer vendor ven_1']);
        expect((await status(scene, 'vendor')).verdict).toBe('action_required');
        // A row of the list says nothing of its own address.
        const page = { ...scene.endRead(await scene.beginRead()), isOfList: true };
        const cause = { cause: 'sync', causeId: '7' } as const;
        const context = { cause, syncRunId: null, timing: TIMING, pointers: scene.rules().pointers };
        await scene.store.applyReads('vendor', [{ id: 'ven_1', json: '{"id":"ven_1"}' }], page, context);
        expect((await status(scene, 'vendor')).verdict).toBe('action_required');
        await scene.store.openProblem({ ...problem, recordId: 'ven_2' }, 'a web page', scene.now());
        await scene.store.openProblem({ ...problem, recordId: 'ven_1' }, 'a web page', scene.now());
        expect(await scene.store.unreadableRecords('vendor', 9)).toEqual(['ven_2', 'ven_1']);
        expect(await scene.store.unreadableRecords('vendor', 1)).toEqual(['ven_2']);
        expect(await scene.store.unreadableRecords('risk_assessment', 9)).toEqual([]);
        await scene.show('vendor', 'ven_1', { id: 'ven_1' });
        expect(await scene.openProblems()).toEqual(['unreadable_answer vendor ven_2']);
        await scene.missing('vendor', 'ven_2');
        await beat(scene);
        expect((await status(scene, 'vendor')).verdict).toBe('in_sync');
      },
    );

    present(
      'is action_required again once an event names a record whose answer was accepted',
      async (scene) => {
        await scene.show('vendor', 'ven_1', { id: 'ven_1' });
        await fullSyncAll(scene);
        await beat(scene);
        const problem = { reason: 'unreadable_answer', kind: 'vendor', recordId: 'ven_1' } as const;
        const open = () => scene.store.openProblem(problem, 'a 500', scene.now(), 'a 500');
        const accept = async () => scene.resolve((await scene.store.summary()).problems[0]!.id);
        await open();
        await accept();
        await open();
        const accepted = { verdict: 'in_sync', complete: false, accepted: 1, unverified: 0 };
        expect(await status(scene, 'vendor')).toMatchObject(accepted);
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_1' }));
        await scene.work();
        expect(await status(scene, 'vendor')).toMatchObject({ verdict: 'catching_up', unverified: 1 });
        await open();
        expect(await status(scene, 'vendor')).toMatchObject({ verdict: 'action_required', accepted: 0 });
        await accept();
        await open();
        expect(await status(scene, 'vendor')).toMatchObject(accepted);
      },
    );

    present('goes from catching up to in sync, and says since when', async (scene) => {
      await beat(scene);
      expect(await status(scene)).toMatchObject({
        verdict: 'catching_up',
        last_full_sync_at: null,
      });
      await fullSyncAll(scene, 2_500);
      await beat(scene);
      const since = isoOf(scene.now().wall);
      scene.pass(1_000);
      await beat(scene);
      expect(await status(scene)).toMatchObject({
        verdict: 'in_sync',
        since,
        last_full_sync_at: since,
        problems: 0,
      });
    });

    present('says since when it is in sync before the service has noted it: since now', async (scene) => {
      await beat(scene);
      await fullSyncAll(scene);
      const sinces: number[] = [Date.now()];
      for (let look = 0; look < 2; look += 1) {
        const [row] = await scene.query("SELECT * FROM sync_status WHERE kind = 'policy'");
        expect(row).toMatchObject({ verdict: 'in_sync', since: expect.any(String) });
        sinces.push(Date.parse(String(row?.['since'])));
      }
      sinces.push(Date.now());
      expect(sinces).toEqual([...sinces].sort((a, b) => a - b));
      await beat(scene);
      expect((await status(scene)).since).toBe(isoOf(scene.now().wall));
    });

    present('is catching up from an event until a read covers it, for its kind alone', async (scene) => {
      await fullSyncAll(scene);
      await beat(scene);
      await scene.accept(scene.event());
      // It has no row yet.
      expect(await status(scene)).toMatchObject({
        verdict: 'catching_up',
        unverified: 1,
        oldest_unverified_at: isoOf(scene.now().wall),
      });
      expect((await status(scene, 'vendor')).verdict).toBe('in_sync');
      await beat(scene);
      await scene.work();
      const since = (await scene.row('policy', 'pol_1'))?.unverified_since;
      expect(await status(scene)).toMatchObject({ records: 1, unverified: 1, oldest_unverified_at: since });
      scene.pass(SETTLE_MS);
      await scene.show('policy', 'pol_1', { policyId: 'pol_1', name: 'evt_1' });
      await beat(scene);
      expect(await status(scene)).toMatchObject({
        verdict: 'in_sync',
        unverified: 0,
        oldest_unverified_at: null,
      });
      expect((await status(scene)).since).toBe(isoOf(scene.now().wall));
    });

    present(
      'is in sync since the end of a full sync that found what nothing had announced, and of no other',
      async (scene) => {
        await fullSyncAll(scene);
        await beat(scene);
        const first = isoOf(scene.now().wall);
        const fullSync = async (hasDifferences: boolean) => {
          scene.pass(1_000);
          const { id } = await scene.store.startSyncRun('policy', 'timer', scene.now());
          const end = { outcome: 'complete', error: null, progress, hasDifferences, listed: true } as const;
          await scene.store.finishSyncRun(id, end, scene.now());
          await beat(scene);
        };
        await fullSync(false);
        expect((await status(scene)).since).toBe(first);
        await fullSync(true);
        expect((await status(scene)).since).toBe(isoOf(scene.now().wall));
        expect((await status(scene, 'vendor')).since).toBe(first);
      },
    );

    present(
      'is complete through a full sync only once what that left unverified is read, or nobody knows its id',
      async (scene) => {
        const through = async () => (await status(scene, 'vendor')).complete_through;
        const fullSync = (during?: () => Promise<unknown>) => fullSyncOf(scene, 'vendor', 100, during);
        await beat(scene);
        expect(await through()).toBeNull();
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_9', data: {} }));
        await scene.work();
        expect(await fullSync().then(through)).toBeNull();
        const unknown = { reason: 'unknown_record', kind: 'vendor', recordId: 'ven_9' } as const;
        await scene.store.openProblem(unknown, '404', scene.now());
        expect(await through()).not.toBeNull();
        await scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'one' });
        scene.pass(100);
        const before = await through();
        // Which of the two is older, nothing tells yet.
        const differs = () => scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'two' });
        const startedAt = await fullSync(differs);
        expect(await through()).toBe(before);
        scene.pass(SETTLE_MS);
        await differs();
        expect(await through()).toBe(startedAt);
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_1' }));
        await scene.work();
        expect(await through()).toBe(startedAt);
      },
      60_000,
    );

    present(
      'is complete through no full sync that has left deletions to a person, until that one has decided',
      async (scene) => {
        const ids = ['pol_1', 'pol_2'];
        const through = async () => (await status(scene, 'policy')).complete_through;
        const fullSync = (during?: () => Promise<unknown>) => fullSyncOf(scene, 'policy', SETTLE_MS, during);
        await beat(scene);
        const first = await fullSync(async () => {
          for (const id of ids) await scene.show('policy', id, { id, name: id });
        });
        expect(await through()).toBe(first);
        await scene.accept(scene.event({ kind: 'policy', recordId: 'pol_1', shows: {} }));
        await scene.work();
        const second = await fullSync();
        expect(await through()).toBe(first);
        // What the event was about is never read.
        const third = await fullSync(async () => {
          expect((await scene.conclude('policy', { absent: ids })).pending).toEqual(ids);
        });
        expect(await through()).toBe(first);
        await scene.decide('policy', 'keep');
        expect([second, third]).toContain(await through());
      },
      60_000,
    );

    present('is catching up while an event waits that names no record', async (scene) => {
      await fullSyncAll(scene);
      await beat(scene);
      await scene.accept(scene.event({ kind: 'vendor', recordId: null }));
      expect(await status(scene, 'vendor')).toMatchObject({ verdict: 'catching_up', unverified: 0 });
      expect((await status(scene)).verdict).toBe('in_sync');
    });

    present('is catching up while a record is read as gone that nobody has judged yet', async (scene) => {
      await scene.show('vendor', 'ven_1', { id: 'ven_1' });
      await scene.show('vendor', 'ven_2', { id: 'ven_2' });
      await fullSyncAll(scene);
      await beat(scene);
      scene.pass(SETTLE_MS);
      await scene.show('vendor', 'ven_1', { id: 'ven_1' });
      await scene.show('vendor', 'ven_2', { id: 'ven_2' });
      expect((await status(scene, 'vendor')).verdict).toBe('in_sync');
      expect(await scene.missing('vendor', 'ven_1')).toBe('first');
      scene.pass(SETTLE_MS);
      expect(await scene.missing('vendor', 'ven_1')).toBe('proven');
      await beat(scene);
      expect(await status(scene, 'vendor')).toMatchObject({ verdict: 'catching_up', unverified: 1 });
      expect((await scene.conclude('vendor')).deleted).toMatchObject([{ id: 'ven_1' }]);
      await beat(scene);
      expect(await status(scene, 'vendor')).toMatchObject({ verdict: 'in_sync', unverified: 0 });
    });

    present('counts the living, the deleted and what is to be read', async (scene) => {
      await beat(scene);
      for (const id of ['a', 'b', 'c']) await scene.show('risk_assessment', id, { id });
      await scene.conclude('risk_assessment', { absent: ['a'] });
      await scene.store.makeKnown('risk_assessment', ['d'], scene.now());
      expect(await status(scene, 'risk_assessment')).toMatchObject({
        records: 2,
        deleted: 1,
        unverified: 1,
      });
    });

    present(
      'does not wait for a record that the API does not know beside its problem, until an event comes about it again',
      async (scene) => {
        const kind = 'risk_assessment';
        await fullSyncAll(scene);
        await beat(scene);
        await scene.accept(scene.event({ kind, recordId: 'risk_7', data: {} }));
        await scene.work();
        expect(await status(scene, kind)).toMatchObject({ verdict: 'catching_up', unverified: 1 });
        const unknown = { reason: 'unknown_record', kind, recordId: 'risk_7' } as const;
        await scene.store.openProblem(unknown, '404', scene.now());
        expect(await status(scene, kind)).toMatchObject({
          verdict: 'action_required',
          problems: 2,
          unverified: 0,
          oldest_unverified_at: null,
        });
        const shown = (await scene.store.summary()).problems.find(
          ({ reason }) => reason === 'unknown_record',
        )!;
        expect(await scene.store.resolveProblem(shown.id, 'another digest', scene.now())).toBe('changed');
        expect(await scene.store.resolveProblem(shown.id, shown.digest, scene.now())).toBe('resolved');
        expect(await scene.store.resolveProblem(shown.id, shown.digest, scene.now())).toBe('not_open');
        // With it the failed event about it is settled.
        const accepted = { verdict: 'known_only', problems: 0, accepted: 1, unverified: 0 };
        expect(await status(scene, kind)).toMatchObject(accepted);
        await scene.store.openProblem(unknown, 'asked for again', scene.now());
        expect(await status(scene, kind)).toMatchObject(accepted);
        await scene.accept(scene.event({ kind, recordId: 'risk_7' }));
        await scene.work();
        expect(await status(scene, kind)).toMatchObject({ verdict: 'catching_up', unverified: 1 });
        await scene.store.openProblem(unknown, null, scene.now());
        expect(await status(scene, kind)).toMatchObject({
          verdict: 'action_required',
          problems: 1,
          accepted: 0,
        });
        scene.pass(SETTLE_MS);
        await scene.show(kind, 'risk_7', { id: 'risk_7' });
        scene.pass(SETTLE_MS);
        await scene.show(kind, 'risk_7', { id: 'risk_7' });
        expect(await status(scene, kind)).toMatchObject({
          verdict: 'known_only',
          problems: 0,
          unverified: 0,
        });
      },
      50_000,
    );

    present(
      'waits for a record that the API did not know, once it shows it and not all of that is confirmed',
      async (scene) => {
        await fullSyncAll(scene);
        await beat(scene);
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_9', shows: { name: 'Nine' } }));
        await scene.work();
        const unknown = { reason: 'unknown_record', kind: 'vendor', recordId: 'ven_9' } as const;
        await scene.store.openProblem(unknown, '404', scene.now());
        expect(await status(scene, 'vendor')).toMatchObject({ verdict: 'catching_up', unverified: 0 });
        const [shown] = (await scene.store.summary()).problems;
        await scene.store.resolveProblem(shown!.id, shown!.digest, scene.now());
        // Its row stays unverified, and is accepted.
        expect(await status(scene, 'vendor')).toMatchObject({
          verdict: 'in_sync',
          complete: false,
          accepted: 1,
          records: 1,
        });
        // As a start does. The first read keeps what the event has shown.
        await scene.store.markUnverifiedDirty(scene.now(), TIMING);
        await scene.show('vendor', 'ven_9', { id: 'ven_9', name: 'Ten' });
        scene.pass(SETTLE_MS);
        await scene.show('vendor', 'ven_9', { id: 'ven_9', name: 'Ten' });
        expect(await status(scene, 'vendor')).toMatchObject({
          verdict: 'in_sync',
          complete: true,
          accepted: 0,
          unverified: 0,
        });
      },
      50_000,
    );

    it('knows the verdicts and their order as the code has them', async () => {
      await inPresent(open, async (scene) => {
        const source = await scene.query(
          scene.store.engine === 'sqlite'
            ? "SELECT sql AS text FROM sqlite_schema WHERE name = 'sync_status'"
            : "SELECT pg_get_viewdef('sync_status'::regclass) AS text",
        );
        const places = [...String(source[0]!['text']).matchAll(/\((\d), ?'(\w+)'(?:::text)?\)/g)];
        expect(places.map(([, place, verdict]) => [Number(place), verdict])).toEqual(
          VERDICTS.map((verdict, place) => [place, verdict]),
        );
      })();
    });

    present('is the worst of each problem of all kinds and one of each verdict besides', async (scene) => {
      await fullSyncAll(scene);
      await beat(scene);
      const worst = (...verdicts: (typeof VERDICTS)[number][]) =>
        VERDICTS.find((verdict) => verdicts.includes(verdict));
      const verdictOf = (reason: (typeof PROBLEM_REASONS)[number], kind: Kind | null) =>
        weigh(reason, { kind, recordId: null, times: 1, hasList: true }).verdict;
      const told: unknown[] = [];
      const expected: unknown[] = [];
      const byVerdict = new Map(PROBLEM_REASONS.map((reason) => [verdictOf(reason, 'policy'), reason]));
      for (const one of PROBLEM_REASONS) {
        const ofAll = { reason: one, kind: null, recordId: null } as const;
        await scene.store.openProblem(ofAll, 'x', scene.now());
        for (const other of byVerdict.values()) {
          const ofPolicies = { reason: other, kind: 'policy', recordId: null } as const;
          await scene.store.openProblem(ofPolicies, 'x', scene.now());
          const rows = await scene.query('SELECT kind, verdict, problems FROM sync_status ORDER BY kind');
          told.push([one, other, ...rows]);
          const all = verdictOf(one, null);
          expected.push([
            one,
            other,
            { kind: 'policy', verdict: worst(all, verdictOf(other, 'policy')), problems: 2 },
            { kind: 'risk_assessment', verdict: worst(all, 'known_only'), problems: 1 },
            { kind: 'vendor', verdict: worst(all, 'in_sync'), problems: 1 },
          ]);
          await scene.store.endProblem(ofPolicies, scene.now());
        }
        await scene.store.endProblem(ofAll, scene.now());
      }
      expect(told).toEqual(expected);
      expect(await status(scene)).toMatchObject({ verdict: 'in_sync', problems: 0 });
    });

    present(
      'is in sync and not complete with a list of which a person has accepted what it hides, until that changes',
      async (scene) => {
        await beat(scene);
        const list = { reason: 'incomplete_list', kind: 'vendor', recordId: null } as const;
        const fullSync = async (
          stays: string | undefined,
          outcome: 'complete' | 'incomplete' = 'incomplete',
        ) => {
          const { id } = await scene.store.startSyncRun('vendor', 'timer', scene.now());
          scene.pass(10);
          const end = { outcome, error: 'x', progress, differences: {}, listed: true, stays };
          const ended = await scene.store.finishSyncRun(id, end, scene.now());
          if (ended === 'incomplete') await scene.store.openProblem(list, 'x', scene.now(), stays);
          return ended;
        };
        expect(await fullSync('2 hidden')).toBe('incomplete');
        expect((await status(scene, 'vendor')).verdict).toBe('catching_up');
        for (const _ of ['second', 'third']) await fullSync('2 hidden');
        expect((await status(scene, 'vendor')).verdict).toBe('action_required');
        const [shown] = (await scene.store.summary()).problems;
        expect(shown).toMatchObject({ reason: 'incomplete_list', times: 3, needs: 'you' });
        expect(await scene.store.resolveProblem(shown!.id, shown!.digest, scene.now())).toBe('resolved');
        // Not before it was read so.
        expect((await status(scene, 'vendor')).verdict).toBe('catching_up');
        expect(await fullSync('2 hidden')).toBe('accepted');
        const green = {
          verdict: 'in_sync',
          complete: false,
          complete_through: null,
          problems: 0,
          accepted: 1,
        };
        expect(await status(scene, 'vendor')).toMatchObject(green);
        // Nor does an answer come back that a person has accepted with it.
        const answer = { reason: 'unreadable_answer', kind: 'vendor', recordId: null } as const;
        const opened = () => scene.store.openProblem(answer, 'no page 3', scene.now(), 'page 3');
        await opened();
        const [asked] = (await scene.store.summary()).problems;
        expect(await scene.store.resolveProblem(asked!.id, asked!.digest, scene.now())).toBe('resolved');
        expect(await fullSync('2 hidden')).toBe('accepted');
        await opened();
        expect(await scene.openProblems()).toEqual([]);
        await scene.store.endProblem(answer, scene.now());
        // What an event is about that list may hide: only a person can settle it.
        const unknown = { reason: 'unknown_record', kind: 'vendor', recordId: 'ven_9' } as const;
        await scene.store.openProblem(unknown, '404', scene.now());
        expect((await status(scene, 'vendor')).verdict).toBe('action_required');
        expect(await fullSync('2 hidden')).toBe('accepted');
        expect(await scene.openProblems()).toEqual(['unknown_record vendor ven_9']);
        await scene.store.endProblem(unknown, scene.now());
        expect(await fullSync('3 hidden')).toBe('incomplete');
        expect(await status(scene, 'vendor')).toMatchObject({
          verdict: 'catching_up',
          problems: 1,
          accepted: 0,
        });
        expect(await fullSync('2 hidden')).toBe('incomplete');
        expect(await fullSync(undefined, 'complete')).toBe('complete');
        const whole = { verdict: 'in_sync', complete: true, problems: 0, accepted: 0 };
        expect(await status(scene, 'vendor')).toMatchObject(whole);
      },
      50_000,
    );

    present(
      'is in sync with assessments once a person has named all of them, and they were read',
      async (scene) => {
        await fullSyncAll(scene);
        await beat(scene);
        const { id } = await scene.store.startSyncRun('risk_assessment', 'timer', scene.now());
        expect(await status(scene, 'risk_assessment')).toMatchObject({
          verdict: 'known_only',
          complete: false,
          complete_through: null,
        });
        const end = { outcome: 'complete', error: null, progress, differences: {}, listed: true } as const;
        await scene.store.finishSyncRun(id, end, scene.now());
        expect(await status(scene, 'risk_assessment')).toMatchObject({
          verdict: 'in_sync',
          complete: true,
          complete_through: expect.any(String),
        });
      },
    );

    it.each([
      { seconds: 29, verdict: 'in_sync' },
      { seconds: 31, verdict: 'catching_up' },
    ] as const)(
      'after an outage of $seconds s is $verdict, and then reads every kind in full',
      async (outage) => {
        await inPresent(
          open,
          async (scene) => {
            await fullSyncAll(scene);
            await beat(scene, { unreachable: { error: 'a timeout' } });
            scene.pass(outage.seconds * 1_000);
            await beat(scene, { unreachable: null });
            expect((await status(scene)).verdict).toBe('unreachable');
            await beat(scene, { unreachable: { error: 'a timeout' } });
            await beat(scene);
            expect(await status(scene)).toMatchObject({ verdict: outage.verdict, problems: 0 });
            const wanted = outage.verdict === 'in_sync' ? [] : [...KINDS];
            expect(await scene.wanted()).toEqual(wanted);
            await fullSyncAll(scene);
            expect((await status(scene)).verdict).toBe('in_sync');
          },
          40_000,
        )();
      },
    );

    it.each([
      { kind: 'risk_assessment', verdict: 'action_required' },
      { kind: 'policy', verdict: 'catching_up' },
      { kind: 'vendor', verdict: 'catching_up' },
    ] as const)('of $kind is $verdict after a restore', async ({ kind, verdict }) => {
      await inPresent(open, async (scene) => {
        await fullSyncAll(scene);
        await beat(scene);
        const green = kind === 'risk_assessment' ? 'known_only' : 'in_sync';
        expect((await status(scene, kind)).verdict).toBe(green);
        await scene.store.openProblem({ reason: 'restored', kind, recordId: null }, 'x', scene.now());
        expect(await status(scene, kind)).toMatchObject({ verdict, problems: 1 });
        await fullSyncAll(scene);
        const after = verdict === 'action_required' ? verdict : 'in_sync';
        expect(await status(scene, kind)).toMatchObject({ verdict: after });
      })();
    });

    present(
      'needs a person as soon as somebody has paused it, and no longer once that is over, whoever did it and before any heartbeat',
      async (scene) => {
        await fullSyncAll(scene);
        await beat(scene);
        await scene.store.openProblem({ reason: 'paused', kind: null, recordId: null }, null, scene.now());
        expect(await status(scene)).toMatchObject({ verdict: 'action_required', complete: false });
        await scene.store.endProblem({ reason: 'paused', kind: null, recordId: null }, scene.now());
        expect(await status(scene)).toMatchObject({ verdict: 'in_sync', complete: true });
      },
    );

    present('is unverified when the service has no API to read', async (scene) => {
      await fullSyncAll(scene);
      await beat(scene, { eventsOnly: true });
      expect(await status(scene)).toMatchObject({ verdict: 'unverified', complete: false });
    });

    present(
      'is stale when the service has not been heard of for more than a minute',
      async (scene) => {
        await fullSyncAll(scene);
        await beat(scene);
        expect((await status(scene)).verdict).toBe('stale');
      },
      2 * MINUTE_MS,
    );

    present(
      'needs a person also while no service runs',
      async (scene) => {
        await fullSyncAll(scene);
        await beat(scene);
        await scene.store.openProblem({ reason: 'paused', kind: null, recordId: null }, null, scene.now());
        expect((await status(scene, 'vendor')).verdict).toBe('action_required');
        await scene.store.endProblem({ reason: 'paused', kind: null, recordId: null }, scene.now());
        expect((await status(scene, 'vendor')).verdict).toBe('stale');
        const problem = { reason: 'pending_deletions', kind: 'policy', recordId: null } as const;
        await scene.store.openProblem(problem, null, scene.now());
        expect((await status(scene)).verdict).toBe('action_required');
        expect((await status(scene, 'vendor')).verdict).toBe('stale');
      },
      2 * MINUTE_MS,
    );

    present(
      'is stale when the service was last heard of in the future: it ended, and then the clock was set back',
      async (scene) => {
        await fullSyncAll(scene);
        await beat(scene);
        expect((await status(scene)).verdict).toBe('stale');
      },
      -2 * MINUTE_MS,
    );

    present('needs a person from the commit on that lets deletions wait', async (scene) => {
      const ids = ['a', 'b', 'c', 'd'];
      await scene.apply(
        'policy',
        ids.map((id) => ({ id, data: { id, name: id } })),
      );
      scene.pass(SETTLE_MS);
      await fullSyncAll(scene);
      await beat(scene);
      expect((await status(scene)).verdict).toBe('in_sync');
      expect((await scene.conclude('policy', { absent: ids })).pending).toEqual(ids);
      expect((await status(scene)).verdict).toBe('action_required');
    });

    present(
      'with pending deletions needs a person until all of them are approved, and again once the approval has run out',
      async (scene) => {
        const ids = ['pol_1', 'pol_2', 'pol_3'];
        for (const id of ids) await scene.show('policy', id, { id });
        await fullSyncAll(scene);
        await beat(scene);
        for (const id of ids.slice(0, 2))
          await scene.store.askToDelete('policy', id, 'not listed', scene.now());
        const approve = async (untilWall: number) => {
          await scene.decide('policy', 'approve', { untilWall });
          return (await status(scene)).verdict;
        };
        const later = scene.now().wall + 60 * MINUTE_MS;
        expect(await approve(later)).toBe('catching_up');
        await scene.store.askToDelete('policy', 'pol_3', 'not listed', scene.now());
        expect((await status(scene)).verdict).toBe('action_required');
        expect(await approve(later)).toBe('catching_up');
        expect(await approve(scene.now().wall - MINUTE_MS)).toBe('action_required');
      },
    );

    present(
      'is stale when two full syncs in a row are long overdue, unless none are wanted',
      async (scene) => {
        await fullSyncAll(scene);
        scene.pass(15 * MINUTE_MS);
        await beat(scene, { fullSyncMs: 2 * MINUTE_MS });
        expect((await status(scene)).verdict).toBe('stale');
        await beat(scene, { fullSyncMs: 3 * MINUTE_MS });
        expect((await status(scene)).verdict).toBe('in_sync');
        await beat(scene, { fullSyncMs: 0 });
        expect((await status(scene)).verdict).toBe('in_sync');
      },
      15 * MINUTE_MS,
    );

    it.each(['were never whole', 'were whole once'])(
      'is stale when full syncs that %s have long failed, whatever is outstanding besides',
      async (since) => {
        await inPresent(
          open,
          async (scene) => {
            await scene.store.noteAccess('policy', 'key', 'read', scene.now());
            await fullSyncAll(scene, 0, since === 'were never whole' ? 'incomplete' : 'complete');
            await scene.store.openProblem(
              { reason: 'downtime', kind: null, recordId: null },
              'x',
              scene.now(),
            );
            scene.pass(15 * MINUTE_MS);
            await beat(scene, { fullSyncMs: 3 * MINUTE_MS });
            expect((await status(scene)).verdict).toBe('catching_up');
            await beat(scene, { fullSyncMs: 2 * MINUTE_MS });
            expect((await status(scene)).verdict).toBe('stale');
          },
          15 * MINUTE_MS,
        )();
      },
    );
  });
}

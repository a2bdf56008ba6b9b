import { describe, expect, it } from 'vitest';
import { KINDS, type Kind } from '../../../src/compliance/kinds.ts';
import { beginPause, endPause } from '../../../src/service/state.ts';
import type { ServiceFacts } from '../../../src/store/store.ts';
import { createScene, isoOf, type OpenEngine, type Scene, SETTLE_MS, TIMING } from '../scene.ts';

const MINUTE_MS = 60_000;
const progress = { pages: 0, seen: 7, inserted: 0, updated: 0, deleted: 0, unchanged: 0 };

async function beat(scene: Scene, over: Partial<ServiceFacts> = {}) {
  const facts = {
    eventsOnly: false,
    settleMs: SETTLE_MS,
    fullSyncMs: 60 * MINUTE_MS,
    unreachable: false,
    access: 'key',
    ...over,
  };
  await scene.store.beat(scene.now(), facts);
}

/** Every kind has been read with these credentials. */
async function readAll(scene: Scene, access = 'key') {
  for (const kind of KINDS) await scene.store.noteAccess(kind, access, 'read', scene.now());
}

async function fullSyncAll(scene: Scene, takesMs = 0, outcome: 'complete' | 'incomplete' = 'complete') {
  const ids: number[] = [];
  for (const kind of KINDS) ids.push((await scene.store.startSyncRun(kind, 'timer', scene.now())).id);
  scene.pass(takesMs);
  for (const id of ids) {
    await scene.store.finishSyncRun(id, { outcome, error: null, progress, differences: {} }, scene.now());
  }
}

async function status(scene: Scene, kind: Kind = 'policy') {
  const [row] = await scene.query(`SELECT * FROM sync_status WHERE kind = '${kind}'`);
  const report = (await scene.store.summary()).kinds.find((one) => one.kind === kind);
  const { verified: _, ...view } = report!;
  expect(view).toEqual(row);
  return report!;
}

async function verified(scene: Scene, kind: Kind) {
  return (await scene.store.summary()).kinds.find((one) => one.kind === kind)?.verified;
}

/** The view asks the database's own clock, so these stories play in the present. */
function inPresent(open: OpenEngine, story: (scene: Scene) => Promise<void>, agoMs = 0, reads = readAll) {
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

export function describeStatus(open: OpenEngine): void {
  describe('the view sync_status', () => {
    it(
      'promises nothing before the service has run',
      inPresent(open, async (scene) => {
        const rows = await scene.query('SELECT kind, verdict FROM sync_status ORDER BY kind');
        expect(rows).toEqual(KINDS.map((kind) => ({ kind, verdict: 'unverified' })));
      }),
    );

    it(
      'says that the API cannot be reached, unless a person must act, and not what is behind meanwhile',
      inPresent(open, async (scene) => {
        await beat(scene, { unreachable: true });
        expect((await status(scene)).verdict).toBe('unreachable');
        await fullSyncAll(scene);
        expect((await status(scene)).verdict).toBe('unreachable');
        await beginPause(scene.store, scene.now().wall);
        expect((await status(scene)).verdict).toBe('action_required');
        await endPause(scene.store);
        await beat(scene);
        expect((await status(scene)).verdict).toBe('in_sync');
      }),
    );

    const asked = async () => undefined;

    it(
      'is catching up until the present credentials have been seen to read the kind, and again with others',
      inPresent(
        open,
        async (scene) => {
          await beat(scene);
          await fullSyncAll(scene);
          expect(await status(scene)).toMatchObject({
            verdict: 'catching_up',
            readable_since: null,
            coverage: 'not read with the present credentials yet',
          });
          await scene.store.noteAccess('policy', 'another key', 'read', scene.now());
          expect((await status(scene)).verdict).toBe('catching_up');
          scene.pass(1_000);
          await scene.store.noteAccess('policy', 'key', 'read', scene.now());
          const since = isoOf(scene.now().wall);
          scene.pass(1_000);
          await scene.store.noteAccess('policy', 'key', 'read', scene.now());
          await beat(scene);
          expect(await status(scene)).toMatchObject({ verdict: 'in_sync', readable_since: since });
          expect((await status(scene, 'vendor')).verdict).toBe('catching_up');
          await beat(scene, { access: 'a new key' });
          expect(await status(scene)).toMatchObject({ verdict: 'catching_up', readable_since: null });
        },
        5_000,
        asked,
      ),
    );

    it(
      'is catching up until a full sync that began with the present credentials is complete, and again with others',
      inPresent(
        open,
        async (scene) => {
          await beat(scene);
          await fullSyncAll(scene);
          await beat(scene);
          expect((await status(scene)).verdict).toBe('in_sync');
          expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual([]);
          const old = await scene.store.startSyncRun('policy', 'timer', scene.now());
          await beat(scene, { access: 'a new key' });
          await readAll(scene, 'a new key');
          const unread = {
            verdict: 'catching_up',
            coverage: 'not read in full with the present credentials yet',
            complete_through: null,
          };
          expect(await status(scene)).toMatchObject(unread);
          const end = { outcome: 'complete', error: null, progress, differences: {} } as const;
          await scene.store.finishSyncRun(old.id, end, scene.now());
          expect(await status(scene)).toMatchObject(unread);
          // Also for a process that never got the answer to its heartbeat.
          expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual([...KINDS]);
          await fullSyncAll(scene);
          expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual([]);
          await beat(scene, { access: 'a new key' });
          const { verdict, complete_through } = await status(scene);
          expect([verdict, complete_through]).toEqual(['in_sync', expect.any(String)]);
        },
        5_000,
      ),
    );

    it(
      'takes a made-up id that is unknown for access, while no id is known and another kind has been read',
      inPresent(
        open,
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
          expect((await status(scene, kind)).verdict).toBe('in_sync');
          await scene.store.makeKnown(kind, ['ra_1'], scene.now());
          await scene.missing(kind, 'ra_1');
          await scene.store.openGap({ reason: 'unresolved', kind, recordId: 'ra_1' }, null, scene.now());
          expect(await status(scene, kind)).toMatchObject({ verdict: 'catching_up', readable_since: null });
          await scene.store.noteAccess(kind, 'key', 'read', scene.now());
          await beat(scene);
          expect((await status(scene, kind)).verdict).toBe('in_sync');
        },
        5_000,
        asked,
      ),
    );

    it(
      'takes it for access as well where all that are known are deleted',
      inPresent(
        open,
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
      ),
    );

    it(
      'is blocked by an answer that nobody understands, until that very request is answered',
      inPresent(open, async (scene) => {
        await beat(scene);
        await fullSyncAll(scene);
        await beat(scene);
        const gap = { reason: 'unreadable_answer', kind: 'vendor' } as const;
        await scene.store.openGap({ ...gap, recordId: 'ven_1' }, 'a web page', scene.now());
        await scene.store.openGap({ ...gap, recordId: null }, 'a web page', scene.now());
        expect((await status(scene)).verdict).toBe('in_sync');
        expect((await status(scene, 'vendor')).verdict).toBe('action_required');
        await fullSyncAll(scene);
        expect(await scene.openGaps()).toEqual(['unreadable_answer vendor ven_1']);
        expect((await status(scene, 'vendor')).verdict).toBe('action_required');
        // By the list, or by its own address: the store cannot know.
        await scene.show('vendor', 'ven_1', { id: 'ven_1' });
        expect((await status(scene, 'vendor')).verdict).toBe('action_required');
        await scene.store.openGap({ ...gap, recordId: 'ven_2' }, 'a web page', scene.now());
        await scene.store.openGap({ ...gap, recordId: 'ven_1' }, 'a web page', scene.now());
        expect(await scene.store.unreadableRecords('vendor', 9)).toEqual(['ven_2', 'ven_1']);
        expect(await scene.store.unreadableRecords('vendor', 1)).toEqual(['ven_2']);
        expect(await scene.store.unreadableRecords('risk_assessment', 9)).toEqual([]);
        for (const recordId of ['ven_1', 'ven_2'])
          await scene.store.resolveGap({ ...gap, recordId }, scene.now());
        await beat(scene);
        expect((await status(scene, 'vendor')).verdict).toBe('in_sync');
      }),
    );

    it(
      'goes from catching up to in sync, and says since when',
      inPresent(open, async (scene) => {
        await beat(scene);
        expect(await status(scene)).toMatchObject({
          verdict: 'catching_up',
          last_full_sync_at: null,
          last_full_sync_seconds: null,
          coverage: 'what the API lists, not read in full yet',
        });
        await fullSyncAll(scene, 2_500);
        await beat(scene);
        const since = isoOf(scene.now().wall);
        scene.pass(1_000);
        await beat(scene);
        expect(await status(scene)).toMatchObject({
          verdict: 'in_sync',
          in_sync_since: since,
          last_full_sync_at: since,
          open_gaps: 0,
          coverage: '7 listed by the API at the last full sync',
          last_full_sync_seconds: 2.5,
          known: 0,
        });
      }),
    );

    it(
      'says since when it is in sync before the service has noted it: since now',
      inPresent(open, async (scene) => {
        await beat(scene);
        await fullSyncAll(scene);
        const sinces: number[] = [Date.now()];
        for (let look = 0; look < 2; look += 1) {
          const [row] = await scene.query("SELECT * FROM sync_status WHERE kind = 'policy'");
          expect(row).toMatchObject({ verdict: 'in_sync', in_sync_since: expect.any(String) });
          sinces.push(Date.parse(String(row?.['in_sync_since'])));
        }
        sinces.push(Date.now());
        expect(sinces).toEqual([...sinces].sort((a, b) => a - b));
        await beat(scene);
        expect((await status(scene)).in_sync_since).toBe(isoOf(scene.now().wall));
      }),
    );

    it(
      'is catching up from an event until a read covers it, for its kind alone',
      inPresent(open, async (scene) => {
        await fullSyncAll(scene);
        await beat(scene);
        await scene.accept(scene.event());
        // It has no row yet.
        expect(await status(scene)).toMatchObject({
          verdict: 'catching_up',
          in_sync_since: null,
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
        expect((await status(scene)).in_sync_since).toBe(isoOf(scene.now().wall));
      }),
    );

    it(
      'is in sync since the end of a full sync that found what nothing had announced, and of no other',
      inPresent(open, async (scene) => {
        await fullSyncAll(scene);
        await beat(scene);
        const first = isoOf(scene.now().wall);
        const fullSync = async (hasDifferences: boolean) => {
          scene.pass(1_000);
          const { id } = await scene.store.startSyncRun('policy', 'timer', scene.now());
          const end = { outcome: 'complete', error: null, progress, hasDifferences } as const;
          await scene.store.finishSyncRun(id, end, scene.now());
          await beat(scene);
        };
        await fullSync(false);
        expect((await status(scene)).in_sync_since).toBe(first);
        await fullSync(true);
        expect((await status(scene)).in_sync_since).toBe(isoOf(scene.now().wall));
        expect((await status(scene, 'vendor')).in_sync_since).toBe(first);
      }),
    );

    it(
      'is complete through a full sync only once what that left unverified is read, or nobody knows its id',
      inPresent(
        open,
        async (scene) => {
          const through = async () => (await status(scene, 'vendor')).complete_through;
          const fullSync = async (during: () => Promise<unknown> = async () => undefined) => {
            const { id } = await scene.store.startSyncRun('vendor', 'timer', scene.now());
            const startedAt = isoOf(scene.now().wall - SETTLE_MS);
            scene.pass(100);
            await during();
            const end = { outcome: 'complete', error: null, progress, differences: {} } as const;
            await scene.store.finishSyncRun(id, end, scene.now());
            scene.pass(100);
            return startedAt;
          };
          await beat(scene);
          expect(await through()).toBeNull();
          await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_9' }));
          await scene.work();
          expect(await fullSync().then(through)).toBeNull();
          const unknown = { reason: 'unresolved', kind: 'vendor', recordId: 'ven_9' } as const;
          await scene.store.openGap(unknown, '404', scene.now());
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
      ),
    );

    it(
      'is catching up while an event waits that names no record',
      inPresent(open, async (scene) => {
        await fullSyncAll(scene);
        await beat(scene);
        await scene.accept(scene.event({ kind: 'vendor', recordId: null }));
        expect(await status(scene, 'vendor')).toMatchObject({ verdict: 'catching_up', unverified: 0 });
        expect((await status(scene)).verdict).toBe('in_sync');
      }),
    );

    it(
      'is catching up while a record is read as gone that nobody has judged yet',
      inPresent(open, async (scene) => {
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
      }),
    );

    it(
      'counts the living, the deleted and the known',
      inPresent(open, async (scene) => {
        await beat(scene);
        for (const id of ['a', 'b', 'c']) await scene.show('risk_assessment', id, { id });
        await scene.conclude('risk_assessment', { absent: ['a'] });
        await scene.store.makeKnown('risk_assessment', ['d'], scene.now());
        expect(await status(scene, 'risk_assessment')).toMatchObject({
          records: 2,
          deleted: 1,
          unverified: 1,
          known: 4,
          coverage: 'known ids only: 4',
        });
        expect(await verified(scene, 'risk_assessment')).toBe(2);
      }),
    );

    it(
      'does not wait for a record that the API will never show',
      inPresent(open, async (scene) => {
        await fullSyncAll(scene);
        await beat(scene);
        await scene.accept(scene.event({ kind: 'risk_assessment', recordId: 'risk_7' }));
        await scene.work();
        expect((await status(scene, 'risk_assessment')).verdict).toBe('catching_up');
        await scene.store.openGap(
          { reason: 'unresolved', kind: 'risk_assessment', recordId: 'risk_7' },
          '404',
          scene.now(),
        );
        // As long as nobody has looked for another id in what the event says, it may be about a record that is missing here.
        expect((await status(scene, 'risk_assessment')).verdict).toBe('catching_up');
        const found = { through: await scene.store.currentNumber(), event: 0, named: [] };
        await scene.store.noteSearched('risk_assessment', 'risk_7', found, scene.now(), TIMING);
        expect(await status(scene, 'risk_assessment')).toMatchObject({
          verdict: 'in_sync',
          open_gaps: 1,
          oldest_unverified_at: null,
        });
        await scene.accept(scene.event({ kind: 'risk_assessment', recordId: 'risk_7' }));
        await scene.work();
        await scene.store.openGap(
          { reason: 'unresolved', kind: 'risk_assessment', recordId: 'risk_7' },
          null,
          scene.now(),
        );
        expect((await status(scene, 'risk_assessment')).verdict).toBe('catching_up');
      }),
    );

    it(
      'waits for a record that the API did not know, once it shows it and not all of that is confirmed',
      inPresent(open, async (scene) => {
        await fullSyncAll(scene);
        await beat(scene);
        await scene.show('vendor', 'ven_1', { id: 'ven_1' });
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_9', shows: { name: 'Nine' } }));
        await scene.work();
        const found = { through: await scene.store.currentNumber(), event: 0, named: [] };
        await scene.store.noteSearched('vendor', 'ven_9', found, scene.now(), TIMING);
        const unknown = { reason: 'unresolved', kind: 'vendor', recordId: 'ven_9' } as const;
        await scene.store.openGap(unknown, '404', scene.now());
        expect((await status(scene, 'vendor')).verdict).toBe('in_sync');
        // As a start does. The first read keeps what the event has shown.
        await scene.store.markUnverifiedDirty(scene.now(), TIMING);
        await scene.show('vendor', 'ven_9', { id: 'ven_9', name: 'Ten' });
        expect(await status(scene, 'vendor')).toMatchObject({ verdict: 'catching_up', unverified: 1 });
        scene.pass(SETTLE_MS);
        await scene.show('vendor', 'ven_9', { id: 'ven_9', name: 'Ten' });
        expect(await status(scene, 'vendor')).toMatchObject({ verdict: 'in_sync', unverified: 0 });
      }),
    );

    it(
      'does not wait for a record that no request can name, and does not call it verified',
      inPresent(open, async (scene) => {
        await fullSyncAll(scene);
        await beat(scene);
        await scene.show('vendor', 'ven_1', { id: 'ven_1' });
        await scene.accept(scene.event({ kind: 'vendor', recordId: '..', shows: { name: 'Dots' } }));
        await scene.work();
        const gap = { reason: 'unaddressable', kind: 'vendor', recordId: '..' } as const;
        await scene.store.openGap(gap, null, scene.now());
        expect(await status(scene, 'vendor')).toMatchObject({
          verdict: 'in_sync',
          open_gaps: 1,
          records: 2,
          unverified: 0,
        });
        expect(await verified(scene, 'vendor')).toBe(1);
      }),
    );

    it.each([
      { reason: 'credentials_rejected', verdict: 'action_required' },
      { reason: 'deletion_pending', verdict: 'action_required' },
      { reason: 'trimmed_event', verdict: 'action_required' },
      { reason: 'downtime', verdict: 'catching_up' },
      { reason: 'silence', verdict: 'in_sync' },
    ] as const)('with an open gap "$reason" is $verdict', async ({ reason, verdict }) => {
      await inPresent(open, async (scene) => {
        await fullSyncAll(scene);
        await beat(scene);
        await scene.store.openGap({ reason, kind: null, recordId: null }, 'x', scene.now());
        expect(await status(scene)).toMatchObject({ verdict, open_gaps: 1 });
      })();
    });

    it.each([
      { kind: 'risk_assessment', verdict: 'action_required' },
      { kind: 'policy', verdict: 'catching_up' },
      { kind: 'vendor', verdict: 'catching_up' },
    ] as const)('of $kind is $verdict after a restore', async ({ kind, verdict }) => {
      await inPresent(open, async (scene) => {
        await fullSyncAll(scene);
        await beat(scene);
        expect((await status(scene, kind)).verdict).toBe('in_sync');
        await scene.store.openGap({ reason: 'restored', kind, recordId: null }, 'x', scene.now());
        expect(await status(scene, kind)).toMatchObject({ verdict, open_gaps: 1 });
        await fullSyncAll(scene);
        const after = verdict === 'action_required' ? verdict : 'in_sync';
        expect(await status(scene, kind)).toMatchObject({ verdict: after });
      })();
    });

    it(
      'needs a person as soon as somebody has paused it, and no longer once that is over, whoever did it and before any heartbeat',
      inPresent(open, async (scene) => {
        await fullSyncAll(scene);
        await beat(scene);
        const coverage = '7 listed by the API at the last full sync';
        await beginPause(scene.store, scene.now().wall);
        expect(await status(scene)).toMatchObject({
          verdict: 'action_required',
          coverage,
          in_sync_since: null,
        });
        await endPause(scene.store);
        expect(await status(scene)).toMatchObject({ verdict: 'in_sync', coverage });
      }),
    );

    it(
      'is unverified when the service has no API to read',
      inPresent(open, async (scene) => {
        await fullSyncAll(scene);
        await beat(scene, { eventsOnly: true });
        expect(await status(scene)).toMatchObject({
          verdict: 'unverified',
          coverage: 'payloads of events only',
          in_sync_since: null,
        });
      }),
    );

    it(
      'is stale when the service has not been heard of for more than a minute',
      inPresent(
        open,
        async (scene) => {
          await fullSyncAll(scene);
          await beat(scene);
          expect((await status(scene)).verdict).toBe('stale');
        },
        2 * MINUTE_MS,
      ),
    );

    it(
      'needs a person also while no service runs',
      inPresent(
        open,
        async (scene) => {
          await fullSyncAll(scene);
          await beat(scene);
          await beginPause(scene.store, scene.now().wall);
          expect((await status(scene, 'vendor')).verdict).toBe('action_required');
          await endPause(scene.store);
          expect((await status(scene, 'vendor')).verdict).toBe('stale');
          const gap = { reason: 'deletion_pending', kind: 'policy', recordId: null } as const;
          await scene.store.openGap(gap, null, scene.now());
          expect((await status(scene)).verdict).toBe('action_required');
          expect((await status(scene, 'vendor')).verdict).toBe('stale');
        },
        2 * MINUTE_MS,
      ),
    );

    it(
      'is stale when the service was last heard of in the future: it ended, and then the clock was set back',
      inPresent(
        open,
        async (scene) => {
          await fullSyncAll(scene);
          await beat(scene);
          expect((await status(scene)).verdict).toBe('stale');
        },
        -2 * MINUTE_MS,
      ),
    );

    it(
      'needs a person from the commit on that lets deletions wait',
      inPresent(open, async (scene) => {
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
      }),
    );

    it(
      'with pending deletions needs a person until all of them are approved, and again once the approval has run out',
      inPresent(open, async (scene) => {
        const fullSync = await scene.store.startSyncRun('policy', 'timer', scene.now());
        await fullSyncAll(scene);
        await beat(scene);
        for (const id of ['pol_1', 'pol_2']) {
          await scene.store.addPendingDeletion('policy', id, fullSync.id, scene.now());
        }
        const gap = { reason: 'deletion_pending', kind: 'policy', recordId: null } as const;
        await scene.store.openGap(gap, null, scene.now());
        const approve = async (until: number, ids: string[]) => {
          await scene.store.approveDeletions('policy', ids, fullSync.id, until);
          return (await status(scene)).verdict;
        };
        const later = scene.now().wall + 60 * MINUTE_MS;
        expect(await approve(later, ['pol_1'])).toBe('action_required');
        expect(await approve(later, ['pol_2'])).toBe('catching_up');
        expect(await approve(scene.now().wall - MINUTE_MS, ['pol_2'])).toBe('action_required');
      }),
    );

    it(
      'is stale when two full syncs in a row are long overdue, unless none are wanted',
      inPresent(
        open,
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
      ),
    );

    it.each(['were never whole', 'were whole once'])(
      'is stale when full syncs that %s have long failed, whatever is outstanding besides',
      async (since) => {
        await inPresent(
          open,
          async (scene) => {
            await scene.store.noteAccess('policy', 'key', 'read', scene.now());
            await fullSyncAll(scene, 0, since === 'were never whole' ? 'incomplete' : 'complete');
            await scene.store.openGap({ reason: 'downtime', kind: null, recordId: null }, 'x', scene.now());
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

import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../src/compliance/pointers.ts';
import type { ReadObject } from '../../../src/store/store.ts';
import { inScene, type OpenEngine, type Scene, SETTLE_MS, TIMING } from '../scene.ts';

/** What a read of a record that is alive and verified comes to, if it shows it unchanged. */
const CONFIRMED = {
  outcome: 'unchanged',
  differences: [],
  verified: true,
  lagMs: null,
  witness: true,
  announced: false,
  lacks: false,
};

const KIND = 'vendor';
const POINTERS = { policy: ['id'], risk_assessment: ['riskId', 'id'], vendor: ['id'] };

const held = (id: string): JsonObject => ({ id, name: 'Held', owner: { name: 'Ann', tags: ['a', 'b'] } });

/** What became of records before a list shows them. */
const HISTORIES: Record<string, (scene: Scene, ids: string[]) => Promise<void>> = {
  unheard: async () => undefined,
  held: hold,
  async heardOf(scene, ids) {
    await hold(scene, ids);
    await hear(scene, ids, 'vendor.updated', { name: 'Held' });
  },
  async showsNothing(scene, ids) {
    await hold(scene, ids);
    await hear(scene, ids, 'vendor.assessed', {});
  },
  fromAnEvent: (scene, ids) => hear(scene, ids, 'vendor.added', { name: 'Held' }),
  async saidToBeGone(scene, ids) {
    await hold(scene, ids);
    await hear(scene, ids, 'vendor.removed', {});
  },
  async missing(scene, ids) {
    await hold(scene, ids);
    for (const id of ids) await scene.missing(KIND, id);
  },
  async gone(scene, ids) {
    await hold(scene, ids);
    for (const id of ids) await scene.missing(KIND, id);
    scene.pass(SETTLE_MS);
    for (const id of ids) await scene.missing(KIND, id);
    expect((await scene.conclude(KIND)).deleted).toHaveLength(ids.length);
  },
  async failed(scene, ids) {
    await hold(scene, ids);
    for (const id of ids)
      await scene.store.recordReadFailure(KIND, id, 'a timeout', scene.now().steady, {
        settleMs: SETTLE_MS,
        since: scene.now().steady,
      });
  },
  // Held before all others are, too.
  readAgain: hold,
};

/** What a list shows of one. */
const SHOWN: Record<string, (id: string) => JsonObject> = {
  asHeld: held,
  inAnotherOrder: (id) => ({ owner: { tags: ['a', 'b'], name: 'Ann' }, name: 'Held', id }),
  otherwise: (id) => ({ ...held(id), owner: { name: 'Ann', tags: ['b', 'a'] } }),
  inPart: (id) => ({ id, name: 'Held' }),
  withAnother: (id) => ({ ...held(id), riskId: 'ra_named' }),
};

/** Of a record's row and of what is known of it, all that is no number of its own. */
const COLUMNS = `r.name, r.status, r.data, r.first_seen_at, r.synced_at, r.verified_at, r.unverified_since AS row_unverified,
  r.deleted_at, r.cause, r.shown, s.dirty_at, s.first_dirty_at, s.unverified_since, s.read_number, s.read_ended_at, s.returned,
  s.missing_since, s.missing_number, s.proven, s.refusals, s.attempts, s.error, s.due_at, s.sync_run_id`;

export function describeListPages(open: OpenEngine): void {
  describe('a page of a list', () => {
    it.each(['before', 'meanwhile'] as const)(
      'becomes of its records what each would become alone, whatever was heard of them %s',
      (when) =>
        inScene(
          open,
          async (scene) => {
            const inPage: ReadObject[] = [];
            const alone: ReadObject[] = [];
            const idsOf = (group: 'page' | 'lone', history: string) =>
              Object.keys(SHOWN).map((name) => `${group}_${history}_${name}`);
            await hold(scene, [...idsOf('page', 'readAgain'), ...idsOf('lone', 'readAgain')]);
            const early = await scene.beginRead();
            for (const [history, happens] of Object.entries(HISTORIES)) {
              const [ones, others] = [idsOf('page', history), idsOf('lone', history)];
              await happens(scene, [...ones, ...others]);
              for (const [nth, shows] of Object.values(SHOWN).entries()) {
                const shown = (id: string) => ({ id, json: JSON.stringify(shows(id)) });
                inPage.push(shown(ones[nth]!));
                alone.push(shown(others[nth]!));
              }
              scene.pass(1);
            }
            if (when === 'before') scene.pass(2 * SETTLE_MS);
            const read = {
              ...scene.endRead(when === 'before' ? await scene.beginRead() : early),
              isOfList: true,
            };
            const context = {
              cause: { cause: 'sync', causeId: '7' } as const,
              syncRunId: 7,
              timing: TIMING,
              pointers: POINTERS,
            };
            const ofPage = await scene.store.applyReads(KIND, inPage, read, context);
            const ofEach = [];
            for (const object of alone)
              ofEach.push(...(await scene.store.applyReads(KIND, [object], read, context)));
            const nameless = (found: unknown) =>
              JSON.stringify(found)
                .replaceAll('lone_', 'page_')
                .replaceAll(/evt_\d+/g, 'evt');
            // A page does not tell of those that it only confirms.
            const told = new Set(ofPage.map(({ id }) => id.replace('page_', 'lone_')));
            for (const { id, ...one } of ofEach) if (!told.has(id)) expect(one).toEqual(CONFIRMED);
            expect(ofPage.map(nameless)).toEqual(ofEach.filter(({ id }) => told.has(id)).map(nameless));
            const rows = (prefix: string) =>
              scene.query(
                `SELECT s.id, ${COLUMNS} FROM record_state s LEFT JOIN vendors r ON r.id = s.id
               WHERE s.kind = 'vendor' AND s.id LIKE '${prefix}%' ORDER BY s.id`,
              );
            const rowsOfPage = await rows('page_');
            const found = rowsOfPage.map(nameless);
            expect(found).toHaveLength(inPage.length);
            expect(found).toEqual((await rows('lone_')).map(nameless));
            // Of what was read nothing is left to do, but where the list leaves something out.
            const done = ofPage.filter(
              ({ outcome, verified, lacks }) => outcome !== 'refused' && verified && !lacks,
            );
            for (const { id } of done)
              expect(rowsOfPage.find((row) => row['id'] === id)).toMatchObject({
                attempts: 0,
                refusals: 0,
                due_at: null,
                missing_since: null,
                error: null,
              });
            expect(await scene.store.countKnown('risk_assessment')).toBe(1);
          },
          { guardPercent: 100 },
        )(),
    );

    it.each([1, 2])(
      'that is saved late, among %i records, takes nothing back of a read that began after it',
      (count) =>
        inScene(open, async (scene) => {
          const ids = ['ven_1', 'ven_2'].slice(0, count);
          await hold(scene, ids);
          const late = { ...scene.endRead(await scene.beginRead()), isOfList: true };
          await hear(scene, ['ven_other'], 'vendor.updated', {});
          scene.pass(SETTLE_MS + 2_000);
          await scene.apply(KIND, [{ id: 'ven_1', data: held('ven_1') }]);
          const verified = () =>
            scene
              .query("SELECT verified_at FROM vendors WHERE id = 'ven_1'")
              .then(([row]) => row!['verified_at']);
          const before = await verified();
          const page = ids.map((id) => ({ id, json: JSON.stringify(held(id)) }));
          const context = {
            cause: { cause: 'sync', causeId: '7' } as const,
            syncRunId: 7,
            timing: TIMING,
            pointers: POINTERS,
          };
          await scene.store.applyReads(KIND, page, late, context);
          expect(await verified()).toEqual(before);
          scene.pass(SETTLE_MS / 2);
          // Too soon after it to be told from a stale answer.
          const other = { ...held('ven_1'), name: 'Other' };
          expect(await scene.apply(KIND, [{ id: 'ven_1', data: other }])).toMatchObject([
            { outcome: 'deferred' },
          ]);
        })(),
    );
  });
}

async function hold(scene: Scene, ids: string[]): Promise<void> {
  await scene.apply(
    KIND,
    ids.map((id) => ({ id, data: held(id) })),
  );
  scene.pass(2 * SETTLE_MS);
}

async function hear(scene: Scene, ids: string[], type: string, shows: JsonObject): Promise<void> {
  await scene.accept(
    ...ids.map((id) => scene.event({ kind: KIND, recordId: id, type, data: { id, ...shows } })),
  );
  await scene.work({ pointers: POINTERS });
}

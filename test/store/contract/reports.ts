import { describe, expect, it } from 'vitest';
import { type Filters, PAGE_LIMIT_MAX, type Paging, type Period } from '../../../src/store/reports.ts';
import { IS_FULL } from '../../support/full.ts';
import { inScene, isoOf, type OpenEngine, type Scene, SETTLE_MS, shownOf, TIMING } from '../scene.ts';
import { storyOn } from './story.ts';

/** Reads a list to its end, two rows at a time. */
async function pages<Row>(
  read: (paging: Paging) => Promise<Row[]>,
  key: (row: Row) => string | number,
): Promise<Row[]> {
  const rows: Row[] = [];
  let after: string | undefined;
  for (;;) {
    const page = await read({ limit: 2, after });
    expect(page.length).toBeLessThanOrEqual(2);
    rows.push(...page);
    const last = page.at(-1);
    if (last === undefined) return rows;
    after = String(key(last));
  }
}

async function fill(scene: Scene): Promise<void> {
  for (const n of [1, 2, 3, 4, 5]) {
    await scene.accept(scene.event({ id: `evt_${n}`, recordId: 'pol_1', shows: { name: `Name ${n}` } }));
    await scene.work();
    await scene.show('vendor', `ven_${n}`, { id: `ven_${n}`, name: `Vendor ${n}` });
    await scene.store.openProblem(
      { reason: 'unknown_record', kind: 'vendor', recordId: `x${n}` },
      null,
      scene.now(),
    );
    await scene.store.startSyncRun('policy', 'timer', scene.now());
    await scene.store.audit({ actor: 'olga', action: 'retry', outcome: 'ok', target: `${n}` }, scene.now());
    const rejection = { reason: 'no_match', t: `${n}`, bytes: n, bodySha256: null, header: null, body: null };
    await scene.store.recordRejections([{ ...rejection, address: null, times: 1, wall: scene.now().wall }]);
    const unusable = {
      reason: 'invalid_json',
      t: `${n}`,
      body: Buffer.from('x'),
      kind: null,
      recordId: null,
    };
    await scene.store.accept({ events: [], unusable: [unusable] }, scene.now(), TIMING);
    scene.pass(1_000);
  }
}

const NEWEST_FIRST = ['5', '4', '3', '2', '1'];

export function describeReports(open: OpenEngine): void {
  const story = storyOn(open);
  describe('lists', () => {
    story('can be read page by page to their end, every row once, newest first', async (scene) => {
      await fill(scene);
      const { store } = scene;
      const problems = await pages(
        async (paging) => (await store.list('problems', { open: true, ...paging })).items,
        (row) => row.id,
      );
      expect(problems.flatMap((row) => row.record_id ?? [])).toEqual(NEWEST_FIRST.map((n) => `x${n}`));
      const audit = await pages(
        async (paging) => (await store.list('audit', paging)).items,
        (row) => row.id,
      );
      expect(audit.map((row) => row.target)).toEqual(NEWEST_FIRST);
      const syncRuns = await pages(
        async (paging) => (await store.list('sync_runs', paging)).items,
        (row) => row.id,
      );
      expect(syncRuns.map((row) => row.id)).toEqual([...syncRuns.map((row) => row.id)].sort((a, b) => b - a));
      expect(syncRuns).toHaveLength(5);
      const history = await pages(
        async (paging) =>
          (await store.list('changes', { kind: 'policy', record_id: 'pol_1', ...paging })).items,
        (row) => row.seq,
      );
      expect(history.map((row) => row.after['name'])).toEqual(NEWEST_FIRST.map((n) => `Name ${n}`));
      const { items: after } = await store.list('changes', {
        kind: 'policy',
        record_id: 'pol_1',
        limit: 2,
        after: String(history.at(-1)!.seq),
        oldestFirst: true,
      });
      expect(after).toEqual(history.toReversed().slice(1, 3));
    });

    story('of a period hold what is of it and nothing else, page by page', async (scene) => {
      const start = scene.now().wall;
      await fill(scene);
      const { store } = scene;
      type Read = (paging: Paging & Period) => Promise<object[]>;
      const lists: [key: string, time: string, read: Read][] = [
        ['id', 'opened_at', async (paging) => (await store.list('problems', paging)).items],
        ['id', 'started_at', async (paging) => (await store.list('sync_runs', paging)).items],
        ['id', 'at', async (paging) => (await store.list('audit', paging)).items],
      ];
      const instants = [undefined, ...[-1, 0, 1, 1_500, 3_000, 99_000].map((after) => isoOf(start + after))];
      for (const [key, time, read] of lists) {
        const field = (row: object, name: string) => row[name as keyof object] as string;
        const all = await read({ limit: 100 });
        for (const since of instants) {
          for (const until of instants) {
            const found = await pages(
              (paging) => read({ ...paging, since, until }),
              (row) => field(row, key),
            );
            const isOfIt = (at: string) =>
              (since === undefined || at >= since) && (until === undefined || at < until);
            expect(found).toEqual(all.filter((row) => isOfIt(field(row, time))));
          }
        }
      }
    });

    story('of changes can begin with an instant', async (scene) => {
      const start = scene.now().wall;
      await fill(scene);
      const { store } = scene;
      const all = (await store.list('changes', { oldestFirst: true, after: 0, limit: 100 })).items;
      for (const after of [-1, 0, 1, 2_000, 99_000]) {
        const instant = isoOf(start + after);
        const found = (
          await store.list('changes', {
            oldestFirst: true,
            after: (await store.feed(instant)).after,
            limit: 100,
          })
        ).items;
        expect(found).toEqual(all.filter(({ at }) => at >= instant));
      }
    });

    story('of records are in the order of their ids', async (scene) => {
      await fill(scene);
      const rows = await pages(
        async (paging) => (await scene.store.list('records', { kind: 'vendor', ...paging })).items,
        (row) => row.id,
      );
      expect(rows.map((row) => row.id)).toEqual(['ven_1', 'ven_2', 'ven_3', 'ven_4', 'ven_5']);
      expect(rows[0]).not.toHaveProperty('version');
      expect((await scene.store.list('records', { kind: 'policy', limit: 1 })).items[0]).toHaveProperty(
        'version',
        null,
      );
    });

    story(
      'of records, snapshots and a record alone show the same columns, and no other of the mirror’s own than its failed read',
      async (scene) => {
        await fill(scene);
        const shared = ['status', 'data', 'first_seen_at', 'synced_at', 'verified_at', 'unverified_since'];
        const last = [
          'deleted_at',
          'deletion_pending_since',
          'last_event_id',
          'last_event_at',
          'cause',
          'cause_id',
        ];
        const columns = { policy: ['id', 'name', 'version'], vendor: ['id', 'name'] };
        for (const [kind, id, search] of [
          ['policy', 'pol_1', 'Name'],
          ['vendor', 'ven_1', 'Vendor 1'],
        ] as const) {
          const { read_error, ...alone } = (await scene.store.show('records', { kind, id }))!;
          expect(read_error).toBeNull();
          expect(Object.keys(alone)).toEqual([...columns[kind], ...shared, ...last]);
          for (const filter of [{}, { search: id }, { search }]) {
            expect((await scene.store.list('records', { kind, ...filter, limit: 1 })).items).toStrictEqual([
              alone,
            ]);
          }
        }
      },
    );

    story('of what is stored show one moment, however much is written meanwhile', async (scene) => {
      let isOver = false;
      const writing = (async () => {
        while (!isOver) {
          await scene.accept(scene.event());
          await scene.work();
        }
      })();
      const moments = new Set<string>();
      for (let n = 0; n < 100 || (moments.size < 2 && n < 50_000); n += 1) {
        const { events, oldest_pending_at } = await scene.store.summary();
        moments.add(`${events.pending} waiting, the oldest ${oldest_pending_at === null ? 'none' : 'one'}`);
      }
      isOver = true;
      await writing;
      expect([...moments].sort()).toEqual(['0 waiting, the oldest none', '1 waiting, the oldest one']);
    });

    story('of changes go on after any number, oldest first', async (scene) => {
      await fill(scene);
      const all = (await scene.store.list('changes', { oldestFirst: true, after: 0, limit: 500 })).items;
      expect(all.map((change) => change.seq)).toEqual(all.map((change) => change.seq).sort((a, b) => a - b));
      expect(
        (await scene.store.list('changes', { oldestFirst: true, after: all[3]!.seq, limit: 2 })).items,
      ).toEqual(all.slice(4, 6));
      expect(
        (await scene.store.list('changes', { oldestFirst: true, after: all.at(-1)!.seq, limit: 2 })).items,
      ).toEqual([]);
    });

    story('never give more rows than their limit allows, nor none for a limit of nothing', async (scene) => {
      const ids = Array.from({ length: PAGE_LIMIT_MAX + 1 }, (_, n) => `ven_${n}`);
      await scene.apply(
        'vendor',
        ids.map((id) => ({ id, data: { id } })),
      );
      const records = async (limit: number) =>
        (await scene.store.list('records', { kind: 'vendor', limit })).items;
      expect(await records(10_000)).toHaveLength(PAGE_LIMIT_MAX);
      expect(await records(0)).toHaveLength(1);
      expect(
        (await scene.store.list('changes', { oldestFirst: true, after: 0, limit: 10_000 })).items,
      ).toHaveLength(PAGE_LIMIT_MAX);
    });

    it.runIf(IS_FULL)(
      'of records and changes end where their JSON has a bound of bytes, after one row at least, and go on from there',
      inScene(open, async (scene) => {
        const { store } = scene;
        const megabytes = [3, 1, 1, 1, 9, 1, 2];
        for (const [n, each] of megabytes.entries()) {
          // One that takes little room in a database, and one that takes more as text than there.
          const notes = n % 2 === 0 ? 'x'.repeat(each * 1_000_000) : '"\u00e9'.repeat(each * 250_000);
          await scene.show('vendor', `v${n}`, {
            id: `v${n}`,
            name: `Name ${9 - n}`,
            status: 'active',
            notes,
          });
          await scene.show('vendor', 'v', { id: 'v', notes: `${n} ${notes}` });
          scene.pass(SETTLE_MS);
        }
        async function idsByPage<Row>(
          read: (after: string | undefined) => Promise<{ items: Row[]; next: string | null }>,
          idOf: (row: Row) => string | number,
        ) {
          const found: string[] = [];
          for (let after: string | undefined, isOver = false; !isOver; ) {
            const { items, next } = await read(after);
            found.push(items.map(idOf).join(' '));
            isOver = next === null;
            after = next ?? undefined;
          }
          return found;
        }
        const limit = PAGE_LIMIT_MAX;
        const list = (filter: Partial<Filters['records']>) =>
          idsByPage(
            (after) => store.list('records', { kind: 'vendor', ...filter, limit, after }),
            ({ id }) => id,
          );
        expect(await list({})).toEqual(['v v0', 'v1 v2 v3 v4', 'v5 v6']);
        expect(await list({ status: 'active' })).toEqual(['v0 v1 v2', 'v3 v4', 'v5 v6']);
        expect(await list({ search: 'name' })).toEqual(['v0 v1 v2', 'v3 v4', 'v5 v6']);
        const changes = (after?: string) => store.list('changes', { oldestFirst: true, after, limit });
        // A change has what was before it and the whole record after it, too.
        expect(await idsByPage(changes, ({ record_id }) => record_id)).toEqual([
          ...['v0', 'v', 'v1 v', 'v2 v', 'v3 v', 'v4', 'v', 'v5 v', 'v6 v', ''],
        ]);
        const history = (after: string | undefined) =>
          store.list('changes', { kind: 'vendor', record_id: 'v', limit, after });
        const versions = await idsByPage(history, ({ after }) =>
          (after['data'] as { notes: string }).notes.slice(0, 1),
        );
        expect(versions).toEqual(['6', '5', '4', '3 2', '1', '0', '']);
      }),
    );

    story('of deliveries are filtered by state, type, kind and record', async (scene) => {
      await scene.accept(
        scene.event({ id: 'a', kind: 'policy', recordId: 'x' }),
        scene.event({ id: 'b', kind: 'vendor', recordId: 'x' }),
        scene.event({ id: 'c', kind: 'vendor', type: 'vendor.added', recordId: 'y' }),
        scene.event({ id: 'd', kind: 'vendor', type: 'vendor.odd', recordId: 'y', known: false }),
      );
      const ids = async (filter: Filters['deliveries']) =>
        (await scene.store.list('deliveries', { ...filter, limit: 10 })).items.map((row) => row.id).join('');
      expect(await ids({})).toBe('dcba');
      expect(await ids({ state: 'ignored' })).toBe('d');
      expect(await ids({ type: 'vendor.added' })).toBe('c');
      expect(await ids({ kind: 'vendor' })).toBe('dcb');
      expect(await ids({ record_id: 'x' })).toBe('ba');
      expect(await ids({ record_id: 'x', kind: 'vendor', state: 'pending' })).toBe('b');
      expect(await ids({ record_id: 'nobody' })).toBe('');
    });

    it.each([
      { search: 'ven', found: ['ven_1', 'ven_2'] },
      { search: 'ven_1', found: ['ven_1'] },
      { search: 'Acme', found: ['ven_1', 'zed'] },
      { search: 'e', found: ['pct', 'ven_1', 'ven_2', 'zed'] },
      { search: 'acme', found: ['ven_1', 'zed'] },
      { search: '100%', found: ['pct'] },
      { search: '1_0', found: ['und'] },
      { search: 'back\\', found: ['bsl'] },
      { search: 'CME', found: ['ven_1', 'zed'] },
      { search: 'acmes', found: [] },
    ])('of records are searched by how ids begin and what names hold: $search', async ({ search, found }) => {
      await inScene(open, async (scene) => {
        const names = {
          ven_1: 'Acme Ltd',
          ven_2: 'Zenith',
          zed: 'ACME Inc',
          pct: '100% sure',
          und: '1_0',
          off: '1x0',
          bsl: 'back\\slash',
        };
        await scene.apply(
          'vendor',
          Object.entries(names).map(([id, name]) => ({ id, data: { id, name } })),
        );
        const { items } = await scene.store.list('records', { kind: 'vendor', search, limit: 10 });
        expect(items.map((row) => row.id)).toEqual(found);
      })();
    });

    story('of records are filtered by what is outstanding and what is deleted', async (scene) => {
      for (const id of ['a', 'b', 'c']) await scene.show('policy', id, { id });
      await scene.conclude('policy', { absent: ['b'] });
      await scene.accept(scene.event({ recordId: 'c' }));
      const ids = async (filter: Partial<Filters['records']>) =>
        (await scene.store.list('records', { kind: 'policy', ...filter, limit: 10 })).items
          .map((row) => row.id)
          .join('');
      expect(await ids({ unverified: true })).toBe('c');
      expect(await ids({ unverified: false })).toBe('ab');
      expect(await ids({ deleted: true })).toBe('b');
      expect(await ids({ deleted: true, search: 'a' })).toBe('');
      expect(await ids({ deleted: false, unverified: false })).toBe('a');
      const current = await scene.query('SELECT id FROM current_policies ORDER BY id');
      expect(current.map((row) => row['id'])).toEqual(['a', 'c']);
    });

    story('of audit entries show what was asked for, until it is said what came of it', async (scene) => {
      const entry = { actor: 'olga', action: 'pause', outcome: 'asked', target: null };
      const [first, second] = [
        await scene.store.audit(entry, scene.now()),
        await scene.store.audit({ ...entry, action: 'resume' }, scene.now()),
      ];
      await scene.store.settleAudit(first, 'ok');
      await scene.store.settleAudit(first, 'failed');
      const rows = (await scene.store.list('audit', { limit: 5 })).items;
      expect(rows.map(({ id, action, outcome }) => [id, action, outcome])).toEqual([
        [second, 'resume', 'asked'],
        [first, 'pause', 'ok'],
      ]);
    });

    story('and single reports say null for what is not there', async (scene) => {
      expect(await scene.store.show('deliveries', 'x')).toBeNull();
      expect(await scene.store.show('records', { kind: 'policy', id: 'x' })).toBeNull();
      expect(await scene.store.show('sync_runs', 1)).toBeNull();
      expect(await scene.store.show('deliveries', 'rejection:1')).toBeNull();
      expect(await scene.store.list('changes', { kind: 'policy', record_id: 'x', limit: 10 })).toEqual({
        items: [],
        next: null,
      });
    });
  });

  describe('the summary', () => {
    story(
      'counts open problems by reason and kind, and deliveries in quarantine, as counting the rows would',
      async (scene) => {
        const opened: string[] = [];
        const open_ = async (
          reason: 'unknown_record' | 'unreadable_answer' | 'silence',
          kind: 'vendor' | 'risk_assessment' | null,
          recordId: string | null,
        ) => {
          await scene.store.openProblem({ reason, kind, recordId }, null, scene.now());
          opened.push(isoOf(scene.now().wall));
          scene.pass(1_000);
        };
        await open_('unknown_record', 'risk_assessment', 'a');
        await open_('unreadable_answer', 'vendor', 'a');
        for (const id of ['a', 'b', 'c']) await open_('unknown_record', 'vendor', id);
        await open_('silence', null, null);
        // A second occurrence is no second problem.
        await open_('unknown_record', 'vendor', 'a');
        await scene.store.endProblem(
          { reason: 'unknown_record', kind: 'vendor', recordId: 'a' },
          scene.now(),
        );
        const summary = await scene.store.summary();
        // What `status --json` prints, in the order of the type.
        expect(Object.keys(summary)).toEqual([
          ...['kinds', 'events', 'oldest_pending_at', 'last_delivery_at', 'quarantined', 'problems'],
          ...['open_problems', 'open_problems_by', 'learned_pointers', 'database_bytes', 'wal_bytes'],
        ]);
        const { open_problems, open_problems_by } = summary;
        expect(open_problems).toBe(5);
        const others = [
          { reason: 'unknown_record', kind: 'risk_assessment', count: 1, oldest_at: opened[0] },
          { reason: 'unknown_record', kind: 'vendor', count: 2, oldest_at: opened[3] },
          { reason: 'unreadable_answer', kind: 'vendor', count: 1, oldest_at: opened[1] },
        ];
        // The worst first.
        expect(summary.problems.map(({ reason, kind, verdict }) => `${verdict} ${reason} ${kind}`)).toEqual([
          'action_required unknown_record risk_assessment',
          'action_required unreadable_answer vendor',
          'stale silence null',
          'catching_up unknown_record vendor',
          'catching_up unknown_record vendor',
        ]);
        const silence = { reason: 'silence', kind: null, count: 1, oldest_at: opened[5] };
        expect(open_problems_by).toEqual([silence, ...others]);
        await scene.store.endProblem({ reason: 'silence', kind: null, recordId: null }, scene.now());
        expect((await scene.store.summary()).open_problems_by).toEqual(others);

        const unusable = { reason: 'no id', t: '1', body: Buffer.from('{}'), kind: null, recordId: null };
        await scene.store.accept({ events: [], unusable: [unusable, unusable] }, scene.now(), TIMING);
        expect((await scene.store.summary()).quarantined).toBe(2);
        const [first] = await shownOf(scene.store, 'quarantined');
        for (const done of [true, false]) {
          expect(await scene.store.dismissDelivery(first!.id, scene.now(), TIMING)).toBe(done);
          expect((await scene.store.summary()).quarantined).toBe(1);
        }
      },
    );

    story('says what waits, since when, and when a delivery last came in', async (scene) => {
      expect(await scene.store.summary()).toMatchObject({
        oldest_pending_at: null,
        last_delivery_at: null,
        quarantined: 0,
        open_problems: 0,
      });
      const first = scene.event();
      await scene.accept(first);
      const oldest_pending_at = isoOf(scene.now().wall);
      scene.pass(1_000);
      await scene.accept(scene.event());
      scene.pass(1_000);
      await scene.accept(first);
      await scene.store.openProblem({ reason: 'silence', kind: null, recordId: null }, null, scene.now());
      const summary = await scene.store.summary();
      expect(summary).toMatchObject({
        oldest_pending_at,
        last_delivery_at: isoOf(scene.now().wall),
        open_problems: 1,
      });
      await scene.accept(...Array.from({ length: 1_000 }, () => scene.event()));
      scene.pass(1_000);
      await scene.accept(scene.event());
      const last_delivery_at = isoOf(scene.now().wall);
      expect(await scene.store.summary()).toMatchObject({ oldest_pending_at, last_delivery_at });
      expect(summary.kinds.map((one) => one.kind).sort()).toEqual(['policy', 'risk_assessment', 'vendor']);
    });
  });
}

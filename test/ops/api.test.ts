import { once } from 'node:events';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Kind } from '../../src/compliance/kinds.ts';
import { isUsableId } from '../../src/compliance/pointers.ts';
import { WAITING_MAX_OF_ONE } from '../../src/ops/api/feed.ts';
import { createOps } from '../../src/ops/app.ts';
import { GAP_TEXTS, isOfUnknownId } from '../../src/ops/gap-texts.ts';
import { MirrorError } from '../../src/platform/errors.ts';
import { listen } from '../../src/receive/server.ts';
import { EVENTS_LOOKED_AT, PAGE_LIMIT_MAX } from '../../src/store/reports.ts';
import type { GapReason } from '../../src/store/store.ts';
import { bearer, type Harness, incoming, OPERATE, opsHarness } from './harness.ts';

let h: Harness;
beforeEach(async () => {
  h = await opsHarness();
});
afterEach(() => h.close());

const TIMING = { settleMs: 10_000 };

// biome-ignore lint/suspicious/noExplicitAny: answers are looked into freely here
async function get(path: string): Promise<{ status: number; body: any }> {
  const response = await h.app.request(path, { headers: bearer(OPERATE) });
  return { status: response.status, body: await response.json() };
}

// biome-ignore lint/suspicious/noExplicitAny: as above
async function post(path: string, body?: unknown): Promise<{ status: number; body: any }> {
  const response = await h.app.request(path, {
    method: 'POST',
    headers: bearer(OPERATE),
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  return { status: response.status, body: await response.json() };
}

/** What its pending deletions were shown with. */
async function digestOf(syncRun: number): Promise<string> {
  const { body } = await get(`/api/deletions?sync_run=${syncRun}`);
  return body.sync_runs[0].digest;
}

const mirrorVendor = (id: string, data: Record<string, unknown>) => h.mirror('vendor', id, data);

async function failedEvent(id: string, words: Parameters<typeof incoming>[0] = {}): Promise<void> {
  await h.store.accept({ events: [incoming({ id, ...words })], unusable: [] }, h.now(), TIMING);
  const [event] = await h.store.claimEvents('test', 1, 1000, h.now());
  await h.store.deferEvent({ event: event!, retryAtMs: null, error: 'it broke' }, h.now(), TIMING);
}

describe('status', () => {
  test('tells the verdict and its figures, instants as text', async () => {
    await h.store.accept({ events: [incoming()], unusable: [] }, h.now(), TIMING);
    const { body } = await get('/api/status');
    expect(body).toMatchObject({
      verdict: 'catching_up',
      service: { state: 'running', settle_seconds: 10, full_sync_minutes: 60 },
      backlog: { events: 1 },
      upstream: { origin: 'https://compliance.example', budget_left: 48 },
    });
    expect(body.kinds).toHaveLength(3);
    expect(body.at).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/);
  });

  test('still answers when the database does not', async () => {
    await h.store.close();
    const { status, body } = await get('/api/status');
    expect([status, body.verdict, body.reason, body.kinds]).toEqual([
      200,
      'action_required',
      'database_unreadable',
      null,
    ]);
  });
});

describe('a database that does not answer', () => {
  test('does not keep the status waiting', async () => {
    h.context.store.summary = () => new Promise(() => undefined);
    const slept: number[] = [];
    h.context.clock.sleep = async (ms) => void slept.push(ms);
    const { status, body } = await get('/api/status');
    expect([status, body.reason]).toEqual([200, 'database_unreadable']);
    expect(Math.max(...slept)).toBeLessThan(7_500);
  });

  test.each(['/', '/sync-runs'])('nor the page %s for longer than people wait', async (path) => {
    const never = () => new Promise<never>(() => undefined);
    Object.assign(h.context.store, { summary: never, pendingDeletions: never });
    Object.assign(h.context, { traffic: never, credentials: never });
    const began = performance.now();
    const passed = () => (performance.now() - began) * 20;
    h.context.clock.steady = passed;
    h.context.clock.sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms / 20));
    const page = await createOps(h.context).request(path, { headers: bearer(OPERATE) });
    expect(page.status).toBe(200);
    expect(passed()).toBeLessThan(20_000);
  });
});

describe('lists', () => {
  test('lead from page to page without gap or repetition', async () => {
    const ids = Array.from({ length: 7 }, (_, n) => `evt_${n}`);
    await h.store.accept({ events: ids.map((id) => incoming({ id })), unusable: [] }, h.now(), TIMING);
    const seen: string[] = [];
    let next: string | null = '';
    while (next !== null) {
      const { body } = await get(`/api/events?limit=3${next === '' ? '' : `&after=${next}`}`);
      seen.push(...body.items.map((item: { id: string }) => item.id));
      next = body.next;
    }
    expect(seen).toEqual(ids.toReversed());
  });

  test('of records go on after the last id, whatever it is', async () => {
    const ids = ['a', 'a/b', 'a b', 'é', '%2e', '?x=1&y'];
    for (const id of ids) await mirrorVendor(id, { name: id });
    const seen: string[] = [];
    let after: string | null = null;
    do {
      const { body } = await get(
        `/api/records/vendor?limit=1${after === null ? '' : `&after=${encodeURIComponent(after)}`}`,
      );
      seen.push(...body.items.map((item: { id: string }) => item.id));
      after = body.next;
    } while (after !== null);
    expect(seen.sort()).toEqual(ids.sort());
  });

  test('give as many as they can to whoever asks for more', async () => {
    const ids = Array.from({ length: PAGE_LIMIT_MAX + 1 }, (_, n) => `evt_${n}`);
    await h.store.accept({ events: ids.map((id) => incoming({ id })), unusable: [] }, h.now(), TIMING);
    const { status, body } = await get(`/api/events?limit=${PAGE_LIMIT_MAX + 1}`);
    expect([status, body.items.length]).toEqual([200, PAGE_LIMIT_MAX]);
    expect((await get(`/api/events?limit=1000000&after=${body.next}`)).body.items).toHaveLength(1);
  });

  test('filter', async () => {
    await failedEvent('evt_failed');
    await h.store.accept(
      { events: [incoming({ id: 'evt_ok', recordId: 'pol/2' })], unusable: [] },
      h.now(),
      TIMING,
    );
    expect((await get('/api/events?state=failed')).body.items).toMatchObject([
      { id: 'evt_failed', error: 'it broke' },
    ]);
    expect(
      (await get(`/api/events?kind=policy&record_id=${encodeURIComponent('pol/2')}`)).body.items,
    ).toMatchObject([{ id: 'evt_ok' }]);
    expect((await get('/api/gaps?open=true')).body.items).toMatchObject([{ reason: 'failed_event' }]);
    expect((await get('/api/gaps?open=false')).body.items).toEqual([]);
  });

  test.each([
    ['/api/events?limit=0', 'limit'],
    ['/api/events?limit=many', 'limit'],
    ['/api/events?after=x', 'after'],
    ['/api/events?state=lost', 'state'],
    ['/api/events?stat=dead', 'stat'],
    ['/api/events?kind=person', 'kind'],
    ['/api/events?limit=1&limit=2', 'limit'],
    ['/api/records/vendor?deleted=maybe', 'deleted'],
    // Nothing that SQLite takes for a name.
    ['/api/records/vendor?field=%00a=x', 'field'],
    ['/api/records/vendor?field=owner%5C=x', 'field'],
    ['/api/gaps?open=1', 'open'],
    ['/api/changes?after=-1', 'after'],
    ['/api/sync-runs?__proto__=x', '__proto__'],
  ])('%s is a 400 that names %s', async (path, name) => {
    const { status, body } = await get(path);
    expect([status, body.code]).toEqual([400, 'invalid_parameter']);
    expect(body.detail).toContain(`\`${name}\``);
  });

  test.each([
    'gaps',
    'sync-runs',
    'quarantine',
    'rejections',
    'audit',
    'events',
    'records/policy',
    'records/risk_assessment',
  ])('%s are empty at first', async (name) => {
    expect(await get(`/api/${name}`)).toMatchObject({ status: 200, body: { items: [], next: null } });
  });

  test('a page of events that found nothing among so many says how far it looked', async () => {
    const events = Array.from({ length: EVENTS_LOOKED_AT + 1 }, (_, n) => incoming({ id: `evt_${n}` }));
    await h.store.accept({ events, unusable: [] }, h.now(), TIMING);
    const first = (await get('/api/events?type=policy.lost')).body;
    expect(first).toMatchObject({ items: [], next: expect.any(String), looked_back_to: expect.any(String) });
    expect((await get(`/api/events?type=policy.lost&after=${first.next}`)).body).toEqual({
      items: [],
      next: null,
      looked_back_to: null,
    });
  });
});

test('the feed of changes says where to go on from, also when nothing is new', async () => {
  expect((await get('/api/changes')).body).toMatchObject({
    items: [],
    next: expect.stringMatching(/^\w+\.0$/),
  });
  await mirrorVendor('v1', { name: 'One' });
  await mirrorVendor('v2', { name: 'Two' });
  const first = (await get('/api/changes?after=0&limit=1')).body;
  expect(first.items).toMatchObject([{ record_id: 'v1', operation: 'insert', cause: 'sync:1' }]);
  const second = (await get(`/api/changes?after=${first.next}`)).body;
  expect(second.items).toMatchObject([{ record_id: 'v2' }]);
  expect((await get(`/api/changes?after=${second.next}`)).body).toMatchObject({
    items: [],
    next: second.next,
  });
});

describe('one thing', () => {
  test('an event comes with its body', async () => {
    await h.store.accept({ events: [incoming({ id: 'evt/1' })], unusable: [] }, h.now(), TIMING);
    const { body } = await get(`/api/events/${encodeURIComponent('evt/1')}`);
    expect(JSON.parse(body.body)).toMatchObject({ id: 'evt/1' });
  });

  test('a record comes with its data, and its history apart', async () => {
    await mirrorVendor('__proto__', { name: '<script>', nested: { constructor: 1 } });
    expect((await get('/api/records/vendor/__proto__')).body).toMatchObject({
      id: '__proto__',
      name: '<script>',
    });
    expect((await get('/api/records/vendor/__proto__/history')).body.items).toHaveLength(1);
    expect((await get('/api/records/vendor/__proto__/history?after=1')).body.items).toEqual([]);
  });

  test.each([
    '/api/events/none',
    '/api/records/vendor/none',
    '/api/records/vendor/none/history',
    '/api/records/person/1',
    '/api/sync-runs/1',
    '/api/sync-runs/x',
    '/api/sync-runs/1e3',
    '/api/quarantine/1',
    '/api/nothing',
  ])('%s is a 404', async (path) => {
    const { status, body } = await get(path);
    expect([status, body.status]).toEqual([404, 404]);
  });

  test.each([
    ['POST', '/api/status', 'GET, HEAD'],
    ['DELETE', '/api/events/none', 'GET, HEAD'],
    ['GET', '/api/events/none/retry', 'POST'],
    ['PUT', '/api/sync-runs', 'GET, HEAD, POST'],
    ['GET', '/api/records/vendor/__proto__/refetch', 'POST'],
    ['PATCH', '/metrics', 'GET, HEAD'],
  ])('%s %s is a 405 that names what is taken there', async (method, path, allow) => {
    const response = await h.app.request(path, { method, headers: bearer(OPERATE) });
    expect([response.status, response.headers.get('allow')]).toEqual([405, allow]);
    expect(await response.json()).toMatchObject({ status: 405, code: 'method_not_allowed' });
  });

  test('a method that is nowhere taken is no news of a path that is not there', async () => {
    const response = await h.app.request('/api/nothing', { method: 'PUT', headers: bearer(OPERATE) });
    expect([response.status, response.headers.get('allow')]).toEqual([404, null]);
  });

  test('any usable id reaches the store as it is, percent-encoded in the path', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc
          .oneof(
            fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }),
            fc.stringMatching(/^[%./?#&+\\;:@2eEfF ]{1,12}$/),
          )
          .filter((id) => isUsableId(id) && id !== '.' && id !== '..'),
        async (id) => {
          h.asked.length = 0;
          const { status } = await post(`/api/records/policy/${encodeURIComponent(id)}/refetch`);
          expect([status, h.asked]).toEqual([202, [`refetch policy ${id}`]]);
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe('changes', () => {
  const about = (data: object) => ({ body: JSON.stringify({ data }) });

  test('a failed event is read anew and processed, and one that is not failed cannot be', async () => {
    await failedEvent('evt/failed', about({ id: 'pol/7' }));
    const path = `/api/events/${encodeURIComponent('evt/failed')}`;
    const told = { status: 'processed', id: 'evt/failed', kind: 'policy', record_id: 'pol/7' };
    expect(await post(`${path}/retry`)).toEqual({ status: 200, body: told });
    expect((await get(path)).body).toMatchObject({ state: 'processed', record_id: 'pol/7' });
    expect((await post(`${path}/retry`)).body).toMatchObject({ status: 409, code: 'event_state' });
    expect((await post('/api/events/none/retry')).status).toBe(404);
  });

  test('a failed event that fails again says why', async () => {
    await failedEvent('evt_failed', about({ says: 'nothing' }));
    expect(await post('/api/events/evt_failed/retry')).toMatchObject({
      status: 409,
      body: { code: 'failed_again', detail: expect.stringContaining('no id of a policy') },
    });
    expect((await get('/api/events/evt_failed')).body).toMatchObject({ state: 'failed', attempts: 2 });
    expect((await get('/api/audit')).body.items).toMatchObject([
      { action: 'event_retry', outcome: 'failed_again', target: 'evt_failed' },
    ]);
  });

  test('all that failed because they name no record are tried at once, and told apart', async () => {
    await failedEvent('found', { ...about({ id: 'pol_7' }), recordId: null });
    await failedEvent('not found', { ...about({ says: 'nothing' }), recordId: null });
    await failedEvent('another', about({ id: 'pol_1' }));
    expect((await post('/api/events/retry', { failed_for: 'no_record_id' })).body).toMatchObject({
      status: 'tried',
      processed: 1,
      failed: 1,
      errors: [{ id: 'not found', error: expect.stringContaining('no id of a policy') }],
    });
    expect((await get('/api/events/another')).body.state).toBe('failed');
    expect((await post('/api/events/retry', {})).status).toBe(400);
  });

  test('however many failed because they name no record, each is tried once', async () => {
    for (let n = 0; n <= 100; n += 1)
      await failedEvent(`evt_${n}`, { ...about({ says: 'nothing' }), recordId: null });
    const { body } = await post('/api/events/retry', { failed_for: 'no_record_id' });
    expect(body).toMatchObject({ processed: 0, failed: 101 });
  });

  test('a failed event is discarded', async () => {
    await failedEvent('evt_failed');
    expect((await post('/api/events/evt_failed/discard')).status).toBe(200);
    expect((await get('/api/events/evt_failed')).body.state).toBe('discarded');
  });

  test('a full sync is of all kinds, or of those named', async () => {
    expect((await post('/api/sync-runs')).body.kinds).toEqual(['policy', 'risk_assessment', 'vendor']);
    expect((await post('/api/sync-runs', { kinds: ['vendor', 'vendor'] })).body.kinds).toEqual(['vendor']);
    expect(h.asked).toEqual([
      'sync policy,risk_assessment,vendor operator:olga',
      'sync vendor operator:olga',
    ]);
    expect((await post('/api/sync-runs', { kind: 'policy' })).body.kinds).toEqual(['policy']);
    const both = { kind: 'vendor', kinds: ['vendor'] };
    for (const bad of [{ kinds: ['person'] }, { kinds: [] }, { kind: 'person' }, both, '{', '[]', '"x"']) {
      expect((await post('/api/sync-runs', bad)).status).toBe(400);
    }
  });

  test('as many records are read again at once as the document says, with the longest ids there are', async () => {
    const ids = Array.from({ length: 500 }, (_, n) => `${n}`.padEnd(255, '鷗'));
    const { status, body } = await post('/api/records/vendor/refetch', { ids });
    expect([status, body]).toEqual([202, { status: 'queued', queued: 500 }]);
    expect((await post('/api/sync-runs', { kinds: ids })).status).toBe(413);
  });

  test.each(['ra_17\r', 'a\0b', '\ud800'])(
    'an id that no record can have (%j) is not read again',
    async (id) => {
      expect(await post('/api/records/vendor/refetch', { ids: ['v1', id] })).toMatchObject({
        status: 400,
        body: { detail: '`ids.1`: no record can have this id.' },
      });
      // No path can have half of a surrogate pair.
      const inPath = encodeURIComponent(id.toWellFormed().replace('\ufffd', '\n'));
      expect((await post(`/api/records/vendor/${inPath}/refetch`)).status).toBe(404);
      const form = await h.app.request('/actions/refetch', {
        method: 'POST',
        headers: bearer(OPERATE),
        body: new URLSearchParams({ kind: 'vendor', id: id.isWellFormed() ? id : '\n' }),
      });
      expect(form.status).toBe(400);
      expect(h.asked).toEqual([]);
    },
  );

  test('without credentials there is nothing to compare or fetch', async () => {
    h.live.eventsOnly = true;
    expect((await post('/api/sync-runs')).body).toMatchObject({ status: 409, code: 'events_only' });
    expect((await post('/api/records/vendor/v1/refetch')).body).toMatchObject({
      status: 409,
      code: 'events_only',
    });
    expect(h.asked).toEqual([]);
  });

  test('pending deletions of all kinds are told with what is mirrored, by whom they were found, and in pages', async () => {
    const [vendors, policies] = [
      await h.hold('vendor', ['v1', 'v2', 'v3']),
      await h.hold('policy', ['p/1', 'p2']),
    ];
    await h.store.addPendingDeletion('vendor', 'never shown', vendors, h.now());
    const { body } = await get('/api/deletions');
    expect(body.sync_runs).toMatchObject([
      { sync_run_id: policies, kind: 'policy', waiting: 2, approved: 0 },
      { sync_run_id: vendors, kind: 'vendor', waiting: 4, approved: 0 },
    ]);
    expect(body.items[0]).toEqual({
      kind: 'policy',
      id: 'p/1',
      name: 'p/1',
      status: null,
      sync_run_id: policies,
      synced_at: expect.stringMatching(/Z$/),
      pending_since: expect.stringMatching(/Z$/),
      approved_until: null,
    });
    const named = body.items.map(({ kind, id, name }: Record<string, string>) => `${kind} ${id} ${name}`);
    expect(named).toEqual([
      ...['policy p/1 p/1', 'policy p2 p2'],
      ...['vendor never shown null', 'vendor v1 v1', 'vendor v2 v2', 'vendor v3 v3'],
    ]);
    const paged: string[] = [];
    for (let after = ''; after !== null; ) {
      const page = (await get(`/api/deletions?limit=1${after && `&${new URLSearchParams({ after })}`}`)).body;
      paged.push(...page.items.map(({ kind, id, name }: Record<string, string>) => `${kind} ${id} ${name}`));
      after = page.next;
    }
    expect(paged).toEqual(named);
    const ofOne = (await get(`/api/deletions?sync_run=${vendors}&limit=2`)).body;
    expect(ofOne).toMatchObject({
      sync_runs: [{ kind: 'vendor', waiting: 4 }],
      items: [{ id: 'never shown' }, { id: 'v1' }],
    });
    for (const bad of ['sync_run=x', 'sync_run=0', 'after=v1', 'kind=vendor']) {
      expect((await get(`/api/deletions?${bad}`)).status, bad).toBe(400);
    }
  });

  test('approval is for one sync run’s deletions, and asks for the proof that uses it', async () => {
    const ids = ['v1', 'v2', 'v3'];
    const fullSync = await h.hold('vendor', ids);
    await h.hold('policy', ['p1', 'p2']);
    const digest = await digestOf(fullSync);
    const { status, body } = await post('/api/deletions/approve', { digest });
    expect([status, body]).toEqual([
      200,
      { status: 'approved', sync_run_id: fullSync, kind: 'vendor', ids, until: expect.any(String) },
    ]);
    expect(Date.parse(body.until)).toBeGreaterThan(Date.now());
    expect(h.asked).toEqual([`sync vendor approval:${fullSync}+operator:olga`]);
    expect((await get('/api/deletions')).body.sync_runs).toMatchObject([
      { kind: 'policy', waiting: 2, approved: 0 },
      { kind: 'vendor', waiting: 0, approved: 3, digest: null },
    ]);
    expect((await post('/api/deletions/approve', { digest })).body.code).toBe('deletions_changed');
  });

  test('approval of what was shown is rejected once something else waits', async () => {
    const fullSync = await h.hold('vendor', ['v1', 'v2', 'v3']);
    const digest = await digestOf(fullSync);
    await h.store.addPendingDeletion('vendor', 'v4', fullSync, h.now());
    const rejected = await post('/api/deletions/approve', { digest });
    expect([rejected.status, rejected.body.code]).toEqual([409, 'deletions_changed']);
    for (const bad of [{ digets: digest }, {}, { digest: null }, { digest: '' }]) {
      expect((await post('/api/deletions/approve', bad)).status).toBe(400);
    }
    expect(h.asked).toEqual([]);
    expect(
      (await post('/api/deletions/approve', { digest: await digestOf(fullSync) })).body.ids,
    ).toHaveLength(4);
  });

  test('approval reaches no deletion that is found while it is given', async () => {
    const fullSync = await h.hold('vendor', ['v1', 'v2', 'v3']);
    const digest = await digestOf(fullSync);
    const approveDeletions: Harness['store']['approveDeletions'] = async (...approval) => {
      await h.store.addPendingDeletion('vendor', 'v4', fullSync, h.now());
      return await h.store.approveDeletions(...approval);
    };
    h.app = createOps({ ...h.context, store: { ...h.context.store, approveDeletions } });
    expect((await post('/api/deletions/approve', { digest })).body.ids).toEqual(['v1', 'v2', 'v3']);
    expect((await get('/api/deletions')).body.sync_runs).toMatchObject([{ waiting: 1, approved: 3 }]);
  });

  test('approval of what is no longer pending when it is given is rejected', async () => {
    const digest = await digestOf(await h.hold('vendor', ['v1', 'v2', 'v3']));
    const approveDeletions: Harness['store']['approveDeletions'] = (kind, _ids, ...rest) =>
      h.store.approveDeletions(kind, [], ...rest);
    h.app = createOps({ ...h.context, store: { ...h.context.store, approveDeletions } });
    expect((await post('/api/deletions/approve', { digest })).body.code).toBe('deletions_changed');
    expect(h.asked).toEqual([]);
  });

  test('approval holds for the same ids when a later sync run has found them again', async () => {
    const first = await h.hold('vendor', ['v1', 'v2', 'v3']);
    const digest = await digestOf(first);
    const later = (await h.store.startSyncRun('vendor', 'test', h.now())).id;
    for (const id of ['v1', 'v2', 'v3']) await h.store.addPendingDeletion('vendor', id, later, h.now());
    expect((await post('/api/deletions/approve', { digest })).body.sync_run_id).toBe(first);
  });

  test('approval where nothing waits is rejected', async () => {
    const rejected = await post('/api/deletions/approve', { digest: 'any' });
    expect([rejected.status, rejected.body.code]).toEqual([409, 'nothing_pending']);
    expect(h.asked).toEqual([]);
  });

  test('a quarantined delivery is released once', async () => {
    const unusable = { reason: 'no id', t: '1', body: Buffer.from('{}'), kind: null, recordId: null };
    await h.store.accept({ events: [], unusable: [unusable] }, h.now(), TIMING);
    const [delivery] = (await get('/api/quarantine')).body.items;
    expect((await get(`/api/quarantine/${delivery.id}`)).body.body).toBe('{}');
    expect((await post(`/api/quarantine/${delivery.id}/release`)).status).toBe(200);
    expect((await post(`/api/quarantine/${delivery.id}/release`)).body).toMatchObject({
      code: 'not_releasable',
    });
    expect((await post('/api/quarantine/99/release')).status).toBe(404);
  });

  describe('a gap', () => {
    const open = async (reason: GapReason, kind: Kind | null) => {
      await h.store.openGap({ reason, kind, recordId: null }, 'x', h.now());
      return (await h.store.list('gaps', { limit: 1 }))[0]!.id;
    };
    const resolve = (id: number) => post(`/api/gaps/${id}/resolve`);

    test('that only a person can end is resolved once, by its number, and audited', async () => {
      const [first, second] = [await open('restored', 'risk_assessment'), await open('silence', null)];
      expect(await resolve(first)).toMatchObject({ status: 200, body: { status: 'resolved', id: first } });
      expect(await resolve(first)).toMatchObject({ status: 409, body: { code: 'resolved_already' } });
      expect((await resolve(99)).status).toBe(404);
      expect((await post('/api/gaps/none/resolve')).status).toBe(404);
      expect((await get('/api/gaps?open=true')).body.items.map(({ id }: { id: number }) => id)).toEqual([
        second,
      ]);
      expect((await get('/api/audit')).body.items.toReversed()).toMatchObject([
        { actor: 'olga', action: 'gap_resolve', outcome: 'ok', target: String(first) },
        { actor: 'olga', action: 'gap_resolve', outcome: 'not_possible', target: String(first) },
        { actor: 'olga', action: 'gap_resolve', outcome: 'not_possible', target: '99' },
      ]);
    });

    test.each(
      Object.keys(GAP_TEXTS)
        .filter((reason) => reason !== 'restored' && !isOfUnknownId({ reason }))
        .map((reason) => reason as GapReason),
    )('of the reason %s is not, and what ends it is said', async (reason) => {
      const id = await open(reason, 'vendor');
      const { status, body } = await resolve(id);
      expect([status, body.code]).toEqual([409, 'not_by_a_person']);
      expect(body.detail).toContain(GAP_TEXTS[reason].remedy);
      expect((await h.store.list('gaps', { open: true, limit: 5 })).map((gap) => gap.id)).toEqual([id]);
    });

    test('of a restore is not where a list shows all there is, unless there is no API to read it from', async () => {
      const id = await open('restored', 'policy');
      expect((await resolve(id)).body).toMatchObject({
        code: 'not_by_a_person',
        detail: expect.stringContaining('next full sync of the policies'),
      });
      h.live.eventsOnly = true;
      expect((await resolve(id)).status).toBe(200);
    });
  });

  test('pause and resume', async () => {
    expect((await post('/api/pause')).body).toEqual({ paused: true });
    expect((await get('/api/status')).body.service.paused).toBe(true);
    expect((await post('/api/resume')).body).toEqual({ paused: false });
    // Although a reading is good for a second otherwise.
    expect((await get('/api/status')).body.service.paused).toBe(false);
    expect(h.asked).toEqual(['pause', 'resume']);
  });

  test('each is audited with who, what and how it ended', async () => {
    await failedEvent('evt_1');
    await post('/api/events/evt_1/discard');
    await post('/api/events/none/retry');
    await post('/api/events/retry', { failed_for: 'no_record_id' });
    await post('/api/sync-runs', { kinds: ['policy'] });
    await post('/api/records/vendor/ven_1/refetch');
    await post('/api/quarantine/7/release');
    const fullSync = await h.hold('vendor', ['v1', 'v2', 'v3']);
    await post('/api/deletions/approve', { digest: await digestOf(fullSync) });
    await post('/api/resume');
    h.context.actions.pause = () => Promise.reject(new Error('no'));
    expect((await post('/api/pause')).status).toBe(500);
    expect((await get('/api/audit')).body.items.toReversed()).toMatchObject([
      { actor: 'olga', action: 'event_discard', outcome: 'ok', target: 'evt_1' },
      { actor: 'olga', action: 'event_retry', outcome: 'not_possible', target: 'none' },
      { actor: 'olga', action: 'events_retry', outcome: 'ok:0', target: 'no_record_id' },
      { actor: 'olga', action: 'sync', outcome: 'ok', target: 'policy' },
      { actor: 'olga', action: 'refetch', outcome: 'ok', target: 'vendor/ven_1' },
      { actor: 'olga', action: 'quarantine_release', outcome: 'not_possible', target: '7' },
      {
        actor: 'olga',
        action: 'approve_deletions',
        outcome: 'ok:3',
        target: `vendor, sync run ${fullSync}`,
      },
      { actor: 'olga', action: 'resume', outcome: 'ok', target: null },
      { actor: 'olga', action: 'pause', outcome: 'failed', target: null },
    ]);
  });
});

test('dry runs are made one after the other, also after one that failed', async () => {
  const begun = Promise.withResolvers<void>();
  const over = Promise.withResolvers<void>();
  const { dryRun } = h.context.actions;
  h.context.actions.dryRun = async () => {
    begun.resolve();
    await over.promise;
    throw new MirrorError('timeout', 'GET /policies: no answer');
  };
  const first = post('/api/sync-runs', { dry_run: true });
  await begun.promise;
  expect((await post('/api/sync-runs', { dry_run: true })).body.code).toBe('dry_run_under_way');
  over.resolve();
  expect((await first).status).toBe(502);
  h.context.actions.dryRun = dryRun;
  expect((await post('/api/sync-runs', { dry_run: true })).status).toBe(200);
});

test('whoever hangs up ends the dry run that he asked for, and leaves no error in the log', async () => {
  const { port, close } = await listen({ fetch: h.app.fetch, host: '127.0.0.1', port: 0 });
  const errors = vi.spyOn(h.context.logger, 'error');
  try {
    const begun = Promise.withResolvers<AbortSignal>();
    h.context.actions.dryRun = async (_, signal) => {
      begun.resolve(signal);
      await once(signal, 'abort');
      throw signal.reason;
    };
    const leaving = new AbortController();
    const asked = fetch(`http://127.0.0.1:${port}/api/sync-runs`, {
      method: 'POST',
      headers: bearer(OPERATE),
      body: '{"dry_run":true}',
      signal: leaving.signal,
    });
    const signal = await begun.promise;
    leaving.abort();
    await expect(asked).rejects.toThrow();
    await expect.poll(() => signal.aborted).toBe(true);
    expect(errors).not.toHaveBeenCalled();
  } finally {
    await close(0);
  }
});

test('whoever hangs up gives back the place at which he waited for a change', async () => {
  const { port, close } = await listen({ fetch: h.app.fetch, host: '127.0.0.1', port: 0 });
  const changes = (wait: number, signal?: AbortSignal) =>
    fetch(`http://127.0.0.1:${port}/api/changes?wait=${wait}`, {
      headers: bearer(OPERATE),
      signal: signal ?? null,
    });
  try {
    const leaving = new AbortController();
    const waiting = Array.from({ length: WAITING_MAX_OF_ONE }, () => changes(30, leaving.signal));
    await expect.poll(async () => (await changes(0.01)).status).toBe(503);
    leaving.abort();
    await Promise.allSettled(waiting);
    await expect.poll(async () => (await changes(0.01)).status, { timeout: 5_000 }).toBe(200);
  } finally {
    await close(0);
  }
});

test('a body that is no object is refused in words', async () => {
  for (const body of ['null', '[]', '"x"', '7']) {
    const refused = await post('/api/sync-runs', body);
    expect(refused).toMatchObject({ status: 400, body: { detail: 'The body is no JSON object.' } });
  }
  expect((await get('/api/events?search=x')).body.detail).toBe('`search`: there is no such parameter.');
  expect((await get('/api/events?record_id=')).body.detail).toContain('a text of 1 to 255 characters');
  // SQLite's names end at it where their case is ignored, and PostgreSQL's do not.
  const { status, body } = await get('/api/records/vendor?search=a%00b');
  expect([status, body.detail]).toEqual([400, '`search`: a text without U+0000.']);
});

test.each(['0000-06-01T00:00:00Z', '0001-01-01T00:00:00+01:00', '9999-12-31T23:59:59-01:00'])(
  '%s, which one engine cannot compare, is no instant to list from',
  async (since) => {
    const asked = encodeURIComponent(since);
    for (const path of ['events', 'deliveries', 'gaps', 'audit', 'changes']) {
      const { status, body } = await get(`/api/${path}?since=${asked}`);
      expect([status, body.detail]).toEqual([400, '`since`: an instant such as 2026-11-01T12:00:00Z.']);
    }
  },
);

test.each(['', '?wait=0'])(
  'of many pages that are asked for at once (%j) a few are read at a time, and the status is told meanwhile',
  async (query) => {
    const gate = Promise.withResolvers<void>();
    let reading = 0;
    h.context.store.listChanges = async () => {
      reading += 1;
      await gate.promise;
      return [];
    };
    const asked = Array.from({ length: 50 }, () => get(`/api/changes${query}`));
    await expect.poll(() => reading).toBeGreaterThan(0);
    expect((await get('/api/status')).status).toBe(200);
    expect(reading).toBe(8);
    gate.resolve();
    expect((await Promise.all(asked)).every(({ status }) => status === 200)).toBe(true);
    expect(reading).toBe(50);
  },
);

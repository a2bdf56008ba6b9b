import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Kind } from '../../src/compliance/kinds.ts';
import { PROBLEM_REASONS, PROBLEMS, type ProblemReason, problemRule } from '../../src/mirror/problems.ts';
import { createOps } from '../../src/ops/app.ts';
import { PAGE_LIMIT_MAX } from '../../src/store/reports.ts';
import { fullSyncsOf } from '../store/planner.ts';
import { failPending } from '../support/pending.ts';
import { bearer, type Harness, incoming, OPERATE, opsHarness } from './harness.ts';

let h: Harness;
beforeEach(async () => {
  h = await opsHarness();
});
afterEach(() => h.close());

const TIMING = { settleMs: 10_000 };

// biome-ignore lint/suspicious/noExplicitAny: answers are looked into freely here
async function get(path: string, of = h): Promise<{ status: number; body: any }> {
  const response = await of.app.request(path, { headers: bearer(OPERATE) });
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
const digestOf = async (kind: Kind): Promise<string> => (await h.store.pendingOf(kind, Date.now())).digest;

const mirrorVendor = (id: string, data: Record<string, unknown>) => h.mirror('vendor', id, data);

async function failedEvent(id: string, words: Parameters<typeof incoming>[0] = {}): Promise<void> {
  await h.store.accept({ events: [incoming({ id, ...words })], unusable: [] }, h.now(), TIMING);
  await failPending(h.store, h.now(), 'it broke', 1);
}

describe('status', () => {
  test('tells the verdict and its figures, instants as text', async () => {
    await h.store.accept({ events: [incoming()], unusable: [] }, h.now(), TIMING);
    const { body } = await get('/api/status');
    expect(body).toMatchObject({
      verdict: 'catching_up',
      service: { state: 'running' },
      events: { pending: 1 },
      upstream: { origin: 'https://compliance.example', budget_left: 48 },
    });
    expect(body.kinds).toHaveLength(3);
    expect(body.at).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/);
  });

  test('still answers when the database does not', async () => {
    await h.store.close();
    const { status, body } = await get('/api/status');
    expect([status, body.verdict, body.kinds]).toEqual([200, 'action_required', []]);
    expect(body.problems).toMatchObject([{ id: 0, reason: 'database' }]);
  });
});

describe('a database that does not answer', () => {
  test('does not keep the status waiting', async () => {
    h.context.store.summary = () => new Promise(() => undefined);
    const slept: number[] = [];
    h.context.clock.sleep = async (ms) => void slept.push(ms);
    const { status, body } = await get('/api/status');
    expect([status, body.problems[0].reason]).toEqual([200, 'database']);
    expect(Math.max(...slept)).toBeLessThan(7_500);
  });

  test.each(['/', '/syncs'])('nor the page %s', async (path) => {
    const never = () => new Promise<never>(() => undefined);
    Object.assign(h.context.store, { summary: never });
    h.context.clock.sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms / 20));
    const page = await createOps(h.context).request(path, { headers: bearer(OPERATE) });
    expect(page.status).toBe(200);
  });
});

describe('lists', () => {
  test('lead from page to page without gap or repetition', async () => {
    const ids = Array.from({ length: 7 }, (_, n) => `evt_${n}`);
    await h.store.accept({ events: ids.map((id) => incoming({ id })), unusable: [] }, h.now(), TIMING);
    const seen: string[] = [];
    let next: string | null = '';
    while (next !== null) {
      const { body } = await get(`/api/deliveries?limit=3${next === '' ? '' : `&after=${next}`}`);
      seen.push(...body.items.map((item: { id: string }) => item.id));
      next = body.next;
    }
    expect(seen).toEqual(ids.toReversed());
  });

  test('give as many as they can to whoever asks for more', async () => {
    const ids = Array.from({ length: PAGE_LIMIT_MAX + 1 }, (_, n) => `evt_${n}`);
    await h.store.accept({ events: ids.map((id) => incoming({ id })), unusable: [] }, h.now(), TIMING);
    const { status, body } = await get(`/api/deliveries?limit=${PAGE_LIMIT_MAX + 1}`);
    expect([status, body.items.length]).toEqual([200, PAGE_LIMIT_MAX]);
    expect((await get(`/api/deliveries?limit=1000000&after=${body.next}`)).body.items).toHaveLength(1);
  });

  test('filter', async () => {
    await failedEvent('evt_failed');
    await h.store.accept(
      { events: [incoming({ id: 'evt_ok', recordId: 'pol/2' })], unusable: [] },
      h.now(),
      TIMING,
    );
    expect((await get('/api/deliveries?state=failed')).body.items).toMatchObject([
      { id: 'evt_failed', reason: 'it broke' },
    ]);
    expect(
      (await get(`/api/deliveries?kind=policy&record_id=${encodeURIComponent('pol/2')}`)).body.items,
    ).toMatchObject([{ id: 'evt_ok' }]);
    expect((await get('/api/problems')).body.items).toMatchObject([
      { reason: 'failed_event', record_id: 'pol_1', verdict: 'catching_up', needs: 'time', times: 1 },
    ]);
    expect((await get('/api/problems?state=resolved')).body.items).toEqual([]);
  });

  test('a parameter that cannot be used is a 400 that names it', async () => {
    for (const [path, name] of [
      ['/api/deliveries?limit=0', 'limit'],
      ['/api/deliveries?limit=many', 'limit'],
      ['/api/deliveries?after=x', 'after'],
      ['/api/deliveries?state=lost', 'state'],
      ['/api/deliveries?stat=dead', 'stat'],
      ['/api/deliveries?kind=person', 'kind'],
      ['/api/deliveries?limit=1&limit=2', 'limit'],
      ['/api/records/vendor?deleted=maybe', 'deleted'],
      // Nothing that SQLite takes for a name.
      ['/api/records/vendor?field=%00a=x', 'field'],
      ['/api/records/vendor?field=owner%5C=x', 'field'],
      ['/api/problems?state=none', 'state'],
      ['/api/changes?after=-1', 'after'],
      ['/api/syncs?__proto__=x', '__proto__'],
    ] as const) {
      const { status, body } = await get(path);
      expect([path, status, body.code]).toEqual([path, 400, 'invalid_parameter']);
      expect(body.detail).toContain(`\`${name}\``);
    }
  });

  test('are empty at first', async () => {
    for (const name of [
      'problems',
      'syncs',
      'audit',
      'deliveries',
      'records/policy',
      'records/risk_assessment',
    ]) {
      expect(await get(`/api/${name}`), name).toMatchObject({ status: 200, body: { items: [], next: null } });
    }
  });
});

test('records are listed as of an instant, and of a time that nothing is known of there is no list', async () => {
  const asOf = (at: string) => get(`/api/records/vendor?at=${at}`);
  expect(await asOf('2026-11-01T00:00:00Z')).toMatchObject({ status: 404, body: { code: 'not_kept' } });
  await mirrorVendor('v1', { name: 'One', tier: 1 });
  const [first] = (await get('/api/changes')).body.items;
  expect((await asOf(first.at)).body.items).toMatchObject([
    { id: 'v1', name: 'One', data: { tier: 1 }, synced_at: first.at, verified_at: null },
  ]);
  for (const at of [new Date(Date.parse(first.at) - 1).toISOString(), '2999-01-01T00:00:00Z']) {
    const { status, body } = await asOf(at);
    expect([status, body.detail]).toEqual([404, expect.stringContaining(`begins at ${first.at}`)]);
  }
});

test('what was so at an instant has a digest of the records, the same for two mirrors that held the same', async () => {
  const facts = { eventsOnly: false, settleMs: 1, fullSyncMs: 0, unreachable: false, access: 'key' } as const;
  const settled = (of: Harness) => of.store.beat(of.now(), facts);
  const then = (at: string, of = h) => get(`/api/status?at=${at}`, of);
  /** Until the clock has gone on: what is written in the instant that is asked for is in it. */
  const instant = async () => {
    const began = Date.now();
    await expect.poll(() => Date.now()).toBeGreaterThan(began);
    return new Date(began).toISOString();
  };
  expect(await then(await instant())).toMatchObject({ status: 404, body: { code: 'not_kept' } });
  await settled(h);
  await mirrorVendor('v1', { name: 'One', tier: 1, owner: { team: 'Legal', id: 7 } });
  await h.mirror('policy', 'p1', { name: 'Access' });
  const first = await instant();
  const { body } = await then(first);
  expect(body).toMatchObject({
    at: first,
    verdict: expect.stringMatching(/^\w+$/),
    kinds: [
      { kind: 'policy', records: 1, last_full_sync: null },
      { kind: 'risk_assessment', records: 0 },
      { kind: 'vendor', records: 1 },
    ],
    problems: [],
    digest: expect.stringMatching(/^[0-9a-f]{64}$/),
  });

  const other = await opsHarness();
  await settled(other);
  await other.mirror('policy', 'p1', { name: 'Access' });
  const differing = await instant();
  await other.mirror('vendor', 'v1', { owner: { id: 7, team: 'Legal' }, tier: 1, name: 'One' });
  const same = await instant();
  expect((await then(same, other)).body.digest).toBe(body.digest);
  expect((await then(differing, other)).body.digest).not.toBe(body.digest);
  await other.close();

  await mirrorVendor('v2', { name: 'Two' });
  const second = await instant();
  expect((await then(first)).body).toEqual(body);
  expect((await then(second)).body).toMatchObject({ kinds: [{}, {}, { records: 2 }] });
  for (const at of ['2020-01-01T00:00:00Z', '2999-01-01T00:00:00Z'])
    expect(await then(at)).toMatchObject({ status: 404, body: { code: 'not_kept' } });
});

test('the rows of a view are listed as they are', async () => {
  const { body } = await get('/api/views/sync_status?limit=2');
  expect(body).toMatchObject({ items: [{ kind: 'policy' }, { kind: 'risk_assessment' }], next: '2' });
  expect((await get('/api/views/sync_status?limit=2&after=2')).body).toMatchObject({
    items: [{ kind: 'vendor' }],
    next: null,
  });
  expect(await get('/api/views/tokens')).toMatchObject({ status: 404 });
});

test('the feed of changes says where to go on from, also when nothing is new', async () => {
  expect((await get('/api/changes')).body).toMatchObject({
    items: [],
    next: expect.stringMatching(/^\w+\.0$/),
  });
  await mirrorVendor('v1', { name: 'One' });
  await mirrorVendor('v2', { name: 'Two' });
  const first = (await get('/api/changes?after=0&limit=1')).body;
  expect(first.items).toMatchObject([{ record_id: 'v1', operation: 'insert', cause: 'sync', cause_id: '1' }]);
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
    const { body } = await get(`/api/deliveries/${encodeURIComponent('evt/1')}`);
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

  test('what is not there is a 404', async () => {
    for (const path of [
      '/api/deliveries/none',
      '/api/records/vendor/none',
      '/api/records/vendor/none/history',
      '/api/records/person/1',
      '/api/syncs/1',
      '/api/syncs/x',
      '/api/syncs/1e3',
      '/api/nothing',
    ]) {
      const { status, body } = await get(path);
      expect([path, status, body.status]).toEqual([path, 404, 404]);
    }
  });

  test('a method that is not taken is a 405 that names what is taken there', async () => {
    for (const [method, path, allow] of [
      ['POST', '/api/status', 'GET, HEAD'],
      ['DELETE', '/api/deliveries/none', 'GET, HEAD'],
      ['GET', '/api/deliveries/none/retry', 'POST'],
      ['PUT', '/api/syncs', 'GET, HEAD, POST'],
      ['GET', '/api/problems/1/approve', 'POST'],
      ['PATCH', '/metrics', 'GET, HEAD'],
    ] as const) {
      const response = await h.app.request(path, { method, headers: bearer(OPERATE) });
      expect([path, response.status, response.headers.get('allow')]).toEqual([path, 405, allow]);
      expect(await response.json()).toMatchObject({ status: 405, code: 'method_not_allowed' });
    }
  });
});

describe('changes', () => {
  const about = (data: object) => ({ body: JSON.stringify({ data }) });

  test('a failed event is read anew and processed, and one that is not failed cannot be', async () => {
    await failedEvent('evt/failed', about({ id: 'pol/7' }));
    const path = `/api/deliveries/${encodeURIComponent('evt/failed')}`;
    const told = { status: 'processed', id: 'evt/failed', kind: 'policy', record_id: 'pol/7' };
    expect(await post(`${path}/retry`)).toEqual({ status: 200, body: told });
    expect((await get(path)).body).toMatchObject({ state: 'processed', record_id: 'pol/7' });
    expect((await post(`${path}/retry`)).body).toMatchObject({ status: 409, code: 'delivery_state' });
    expect((await post('/api/deliveries/none/retry')).status).toBe(404);
  });

  test('a failed event that fails again says why', async () => {
    await failedEvent('evt_failed', about({ says: 'nothing' }));
    expect(await post('/api/deliveries/evt_failed/retry')).toMatchObject({
      status: 409,
      body: { code: 'failed_again', detail: expect.stringContaining('no id of a policy') },
    });
    expect((await get('/api/deliveries/evt_failed')).body).toMatchObject({ state: 'failed', attempts: 2 });
    expect((await get('/api/audit')).body.items).toMatchObject([
      { action: 'delivery_retry', outcome: 'not_possible', target: 'evt_failed' },
    ]);
  });

  test('without credentials there is nothing to compare or fetch', async () => {
    h.live.service.events_only = true;
    expect((await post('/api/syncs')).body).toMatchObject({ status: 409, code: 'events_only' });
    expect((await post('/api/syncs', { kind: 'vendor', ids: ['v1'] })).body).toMatchObject({
      status: 409,
      code: 'events_only',
    });
    expect(h.asked).toEqual([]);
  });

  test('approval is for one kind’s deletions, exactly those shown, and asks for the proof that uses it', async () => {
    const ids = ['v1', 'v2', 'v3'];
    const id = await h.hold('vendor', ids);
    const policies = await h.hold('policy', ['p1', 'p2']);
    const digest = await digestOf('vendor');
    for (const of of [{ digets: digest }, {}, { digest: null }, { digest: '' }])
      expect((await post(`/api/problems/${id}/approve`, of)).status).toBe(400);
    for (const [problem, code] of [
      [policies, 'deletions_changed'],
      [99, 'not_found'],
    ] as const)
      expect((await post(`/api/problems/${problem}/approve`, { digest })).body.code).toBe(code);
    expect(h.asked).toEqual([]);

    const { status, body } = await post(`/api/problems/${id}/approve`, { digest });
    expect([status, body]).toEqual([
      200,
      { status: 'approved', id, kind: 'vendor', ids, until: expect.any(String) },
    ]);
    expect(Date.parse(body.until)).toBeGreaterThan(Date.now());
    expect(h.asked).toEqual([`sync vendor approval:${id}+operator:olga`]);
    const pending = await get('/api/records/vendor?deletion_pending=true');
    expect(pending.body.items.map((row: { id: string }) => row.id)).toEqual(ids);
    expect(await fullSyncsOf(h.store, h.now(), 'pending')).toEqual(['policy']);
    const audited = (await get('/api/audit?limit=1')).body.items[0];
    expect(audited).toMatchObject({
      actor: 'olga',
      action: 'problem_approve',
      outcome: 'ok:3',
      target: `${id} (vendor)`,
    });
  });

  test('without credentials an approval asks for no full sync, since nothing can prove more', async () => {
    h.live.service.events_only = true;
    const id = await h.hold('vendor', ['v1', 'v2', 'v3']);
    expect((await post(`/api/problems/${id}/approve`, { digest: await digestOf('vendor') })).status).toBe(
      200,
    );
    expect(h.asked).toEqual([]);
  });

  test('what was shown is neither approved nor kept once something else waits', async () => {
    const id = await h.hold('vendor', ['v1', 'v2', 'v3']);
    const digest = await digestOf('vendor');
    await h.mirror('vendor', 'v4', { name: 'v4' });
    await h.store.askToDelete('vendor', 'v4', 'not listed', h.now());
    for (const verb of ['approve', 'keep']) {
      const refused = await post(`/api/problems/${id}/${verb}`, { digest });
      expect([refused.status, refused.body.code]).toEqual([409, 'deletions_changed']);
    }
    expect(h.asked).toEqual([]);
    const kept = await post(`/api/problems/${id}/keep`, { digest: await digestOf('vendor') });
    expect(kept.body).toEqual({ status: 'kept', id, kind: 'vendor', ids: ['v1', 'v2', 'v3', 'v4'] });
    expect((await get('/api/problems')).body.items).toEqual([]);
    const again = await post(`/api/problems/${id}/keep`, { digest: await digestOf('vendor') });
    expect([again.status, again.body.code]).toEqual([409, 'nothing_pending']);
  });

  describe('a problem', () => {
    const open = async (reason: ProblemReason, kind: Kind | null) => {
      await h.store.openProblem({ reason, kind, recordId: null }, 'x', h.now());
      const [row] = (await get('/api/problems')).body.items;
      return row as { id: number; digest: string; sentence: string; action: string };
    };
    const resolve = (id: number, digest: string) => post(`/api/problems/${id}/resolve`, { digest });

    test('of a record that cannot be found has the API asked, and the answer says which place it has proven', async () => {
      const unknown = await open('unknown_record', 'risk_assessment');
      const find = (id: number, more = {}) => post(`/api/problems/${id}/resolve`, { find: true, ...more });
      expect(await find(unknown.id)).toMatchObject({
        status: 200,
        body: { status: 'not_found', id: unknown.id, pointer: null, says: 'No place was proven.' },
      });
      h.proven.path = 'assessment.ref';
      expect(await find(unknown.id)).toMatchObject({
        status: 200,
        body: {
          status: 'found',
          pointer: { kind: 'risk_assessment', path: 'assessment.ref', record_id: 'ra_1', event_id: 'evt' },
          retried: 2,
          says: 'assessment.ref holds the id.',
        },
      });
      expect(h.asked).toEqual(['find risk_assessment null', 'find risk_assessment null']);
      const other = await open('silence', null);
      expect(await find(other.id)).toMatchObject({ status: 409, body: { code: 'nothing_to_find' } });
      expect((await find(unknown.id, { digest: unknown.digest })).status).toBe(400);
      await resolve(unknown.id, unknown.digest);
      expect(await find(unknown.id)).toMatchObject({ status: 409, body: { code: 'resolved_already' } });
      h.live.service.events_only = true;
      expect(await find(unknown.id)).toMatchObject({ status: 409, body: { code: 'events_only' } });
      const found = (await get('/api/audit')).body.items.filter(
        ({ action }: { action: string }) => action === 'problem_find',
      );
      expect(found).toMatchObject([
        { outcome: 'ok', target: String(unknown.id) },
        { outcome: 'not_found', target: String(unknown.id) },
      ]);
    });

    test('is resolved once, by the digest of what it shows, and audited with the person', async () => {
      const first = await open('restored', 'risk_assessment');
      expect(first).toMatchObject({ sentence: PROBLEMS.restored.sentence, action: PROBLEMS.restored.action });
      const second = await open('silence', null);
      expect(await resolve(first.id, second.digest)).toMatchObject({
        status: 409,
        body: { code: 'problem_changed' },
      });
      expect(await resolve(first.id, first.digest)).toMatchObject({
        status: 200,
        body: { status: 'resolved', id: first.id },
      });
      expect(await resolve(first.id, first.digest)).toMatchObject({
        status: 409,
        body: { code: 'resolved_already' },
      });
      expect((await resolve(99, 'x')).status).toBe(404);
      expect((await post('/api/problems/none/resolve', { digest: 'x' })).status).toBe(404);
      expect((await post(`/api/problems/${second.id}/resolve`)).status).toBe(400);
      expect((await get('/api/problems')).body.items.map(({ id }: { id: number }) => id)).toEqual([
        second.id,
      ]);
      const about = (id: number, outcome: string) => ({
        actor: 'olga',
        action: 'problem_resolve',
        outcome,
        target: String(id),
      });
      expect((await get('/api/audit')).body.items.toReversed()).toMatchObject([
        about(first.id, 'not_possible'),
        about(first.id, 'ok'),
        about(first.id, 'not_possible'),
        about(99, 'not_possible'),
      ]);
    });

    test('whose cause must end is not resolved, and what ends it is said', async () => {
      const own = PROBLEM_REASONS.filter((reason) => problemRule(reason).hasOwnEnd);
      expect(own.length).toBeGreaterThan(2);
      for (const reason of own) {
        const { id, digest, action } = await open(reason, 'vendor');
        const { status, body } = await resolve(id, digest);
        expect([reason, status, body.code]).toEqual([reason, 409, 'not_by_resolving']);
        expect(body.detail).toContain(action);
      }
      expect((await get('/api/problems')).body.items).toHaveLength(own.length);
    });
  });

  test('a notification can be tried where NOTIFY_URL is set, and what came of it is said', async () => {
    expect((await post('/api/notify-test')).body).toMatchObject({ status: 409, code: 'no_notify_url' });
    h.live.service.notifies = true;
    expect(await post('/api/notify-test')).toMatchObject({ status: 200, body: { status: 'delivered' } });
    h.context.actions.testNotification = async () => 'it answered 500';
    expect((await post('/api/notify-test')).body).toMatchObject({
      status: 502,
      code: 'not_delivered',
      detail: 'it answered 500',
    });
    expect(h.asked).toEqual(['notify-test']);
  });

  test('pause and resume', async () => {
    expect((await post('/api/pause')).body).toEqual({ paused: true });
    expect((await get('/api/status')).body.problems).toMatchObject([{ reason: 'paused' }]);
    expect((await post('/api/resume')).body).toEqual({ paused: false });
    // Although a reading is good for a second otherwise.
    expect((await get('/api/status')).body.problems).toEqual([]);
    expect(h.asked).toEqual(['pause', 'resume']);
  });

  test('each is audited with who, what and how it ended', async () => {
    await failedEvent('evt_1');
    await post('/api/deliveries/evt_1/dismiss');
    await post('/api/deliveries/evt_1/retry');
    await post('/api/syncs', { kinds: ['policy'] });
    await post('/api/syncs', { kind: 'vendor', ids: ['ven_1'] });
    const problem = await h.hold('vendor', ['v1', 'v2', 'v3']);
    await post(`/api/problems/${problem}/approve`, { digest: await digestOf('vendor') });
    await post('/api/resume');
    h.context.actions.pause = () => Promise.reject(new Error('no'));
    expect((await post('/api/pause')).status).toBe(500);
    expect((await get('/api/audit')).body.items.toReversed()).toMatchObject([
      { actor: 'olga', action: 'delivery_dismiss', outcome: 'ok', target: 'evt_1' },
      { actor: 'olga', action: 'delivery_retry', outcome: 'not_possible', target: 'evt_1' },
      { actor: 'olga', action: 'sync', outcome: 'ok', target: 'policy' },
      { actor: 'olga', action: 'refetch', outcome: 'ok', target: 'vendor/ven_1' },
      {
        actor: 'olga',
        action: 'problem_approve',
        outcome: 'ok:3',
        target: `${problem} (vendor)`,
      },
      { actor: 'olga', action: 'resume', outcome: 'ok', target: null },
      { actor: 'olga', action: 'pause', outcome: 'failed', target: null },
    ]);
  });
});

test('what one engine cannot compare is no instant to list from', async () => {
  for (const since of ['0000-06-01T00:00:00Z', '0001-01-01T00:00:00+01:00', '9999-12-31T23:59:59-01:00']) {
    const asked = encodeURIComponent(since);
    for (const path of ['deliveries', 'problems', 'audit', 'changes']) {
      const { status, body } = await get(`/api/${path}?since=${asked}`);
      expect([status, body.detail]).toEqual([400, '`since`: an instant such as 2026-11-01T12:00:00Z.']);
    }
  }
});

test.each(['', '?wait=0'])(
  'of many pages that are asked for at once (%j) a few are read at a time, and the status is told meanwhile',
  async (query) => {
    const gate = Promise.withResolvers<void>();
    let reading = 0;
    h.context.store.list = async (name) => {
      if (name === 'changes') {
        reading += 1;
        await gate.promise;
      }
      return { items: [], next: null } as never;
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

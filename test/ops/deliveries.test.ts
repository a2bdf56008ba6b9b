import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { failPending } from '../support/pending.ts';
import { bearer, type Harness, incoming, OPERATE, opsHarness, READ } from './harness.ts';

let h: Harness;
beforeEach(async () => {
  h = await opsHarness();
});
afterEach(() => h.close());

const TIMING = { settleMs: 10_000 };

// biome-ignore lint/suspicious/noExplicitAny: answers are looked into freely here
async function get(path: string): Promise<any> {
  return (await h.app.request(path, { headers: bearer(READ) })).json();
}
async function csv(path: string): Promise<{ lines: string[]; next: string | undefined }> {
  const response = await h.app.request(path, { headers: { ...bearer(READ), accept: 'text/csv' } });
  expect(response.headers.get('content-type')).toBe('text/csv; charset=utf-8');
  const next = /^<(.+)>; rel="next"$/.exec(response.headers.get('link') ?? '')?.[1];
  return { lines: (await response.text()).trimEnd().split('\r\n'), next };
}
async function post(path: string, body?: object) {
  const response = await h.app.request(path, {
    method: 'POST',
    headers: bearer(OPERATE),
    body: body === undefined ? null : JSON.stringify(body),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

/** One delivery of each outcome and state that waits: accepted, failed, quarantined and rejected. */
async function oneOfEach(): Promise<void> {
  const failed = incoming({ id: 'evt_failed', recordId: 'pol_f', body: '{"data":{"id":"pol_f"}}' });
  await h.store.accept({ events: [failed], unusable: [] }, h.now(), TIMING);
  await failPending(h.store, h.now(), 'it broke', 1);
  const unusable = { reason: 'no id', t: '1', body: Buffer.from('{"x":1}'), kind: null, recordId: null };
  await h.store.accept({ events: [incoming({ id: 'evt_ok' })], unusable: [unusable] }, h.now(), TIMING);
  await h.store.recordRejections([
    {
      ...{ wall: h.now().wall, reason: 'bad_signature', t: '2', bytes: 3, bodySha256: 'ab', header: 't=2' },
      ...{ address: '203.0.113.9', times: 4, body: Buffer.from([0xff, 0x7b, 0x7d]) },
    },
  ]);
}

const ids = ({ items }: { items: { id: string }[] }) => items.map(({ id }) => id).sort();

describe('deliveries of all outcomes', () => {
  beforeEach(oneOfEach);

  test('are one list, each with the id that shows it', async () => {
    const all = await get('/api/deliveries');
    expect(ids(all)).toEqual(['evt_failed', 'evt_ok', 'rejection:1', 'rejection:2']);
    for (const id of ids(all)) expect(await get(`/api/deliveries/${id}`)).toMatchObject({ id });
  });

  test('are filtered', async () => {
    for (const [filter, found] of [
      ['outcome=accepted', ['evt_failed', 'evt_ok']],
      ['outcome=quarantined', ['rejection:1']],
      ['outcome=rejected', ['rejection:2']],
      ['state=failed', ['evt_failed']],
      ['state=pending', ['evt_ok']],
      ['state=dismissed', []],
      ['state=failed&outcome=rejected', []],
      ['record_id=pol_1', ['evt_ok']],
      ['record_id=pol_1&state=failed', []],
      ['search=evt_ok', ['evt_ok']],
    ] as const) {
      expect(ids(await get(`/api/deliveries?${filter}`)), filter).toEqual(found);
    }
  });

  test('have one detail: what does not apply is null', async () => {
    const [event, quarantined, rejected] = await Promise.all(
      ['evt_failed', 'rejection:1', 'rejection:2'].map((id) => get(`/api/deliveries/${id}`)),
    );
    expect(event).toMatchObject({ outcome: 'accepted', state: 'failed', reason: 'it broke' });
    expect(event).toMatchObject({ attempts: 1, body: '{"data":{"id":"pol_f"}}', body_base64: null });
    expect(quarantined).toMatchObject({ outcome: 'quarantined', state: null, reason: 'no id' });
    expect(quarantined).toMatchObject({ body: '{"x":1}', dismissed_at: null, attempts: null });
    expect(rejected).toMatchObject({ outcome: 'rejected', header: 't=2', bytes: 3, deliveries: 4 });
    expect(rejected).toMatchObject({ body_base64: '/3t9' });
    const fields = [event, quarantined, rejected].map((each) => Object.keys(each).sort());
    expect(fields[1]).toEqual(fields[0]);
    expect(fields[2]).toEqual(fields[0]);
  });

  test('an id that nothing has is not found', async () => {
    for (const id of ['none', 'rejection:9', 'rejection:0']) {
      const response = await h.app.request(`/api/deliveries/${id}`, { headers: bearer(READ) });
      expect(response.status, id).toBe(404);
      expect((await post(`/api/deliveries/${id}/dismiss`)).status).toBe(404);
    }
  });

  test('are retried and dismissed where that can be, with what is in the way otherwise', async () => {
    const done = async (id: string, what: string) => {
      const { status, body } = await post(`/api/deliveries/${id}/${what}`);
      return [status, body['code'] ?? body['status']];
    };
    expect(await done('evt_failed', 'retry')).toEqual([200, 'processed']);
    expect(await done('evt_failed', 'retry')).toEqual([409, 'delivery_state']);
    expect(await done('evt_failed', 'dismiss')).toEqual([409, 'delivery_state']);
    expect(await done('evt_ok', 'dismiss')).toEqual([200, 'dismissed']);
    expect(await done('rejection:1', 'retry')).toEqual([409, 'failed_again']);
    expect(await done('rejection:2', 'retry')).toEqual([409, 'rejected_delivery']);
    expect(await done('rejection:1', 'dismiss')).toEqual([200, 'dismissed']);
    expect(await done('rejection:1', 'dismiss')).toEqual([409, 'delivery_state']);
    expect(await done('rejection:2', 'dismiss')).toEqual([409, 'rejected_delivery']);
    expect(ids(await get('/api/deliveries?state=dismissed'))).toEqual(['evt_ok', 'rejection:1']);
    expect((await get('/api/deliveries/rejection:1')).state).toBe('dismissed');
    const audited = (await get('/api/audit')).items.toReversed();
    expect(audited.map(({ action, target }: Record<string, string>) => `${action} ${target}`)).toContain(
      'delivery_dismiss rejection:1',
    );
  });

  test('are taken by a retry where what was quarantined is an event by now, once', async () => {
    const body = JSON.stringify({
      id: 'evt_late',
      type: 'risk.assessed',
      created: '2026-11-02T12:00:00Z',
      data: { id: 'p' },
    });
    const unusable = {
      reason: 'no id',
      t: '1',
      body: Buffer.from(body),
      kind: 'risk_assessment',
      recordId: 'p',
    } as const;
    await h.store.accept({ events: [], unusable: [unusable, unusable] }, h.now(), TIMING);
    const problems = async () =>
      (await h.store.list('problems', { open: true, limit: 9 })).items.filter(
        ({ record_id }) => record_id === 'p',
      );
    for (const [id, deliveries, open] of [
      ['rejection:3', 1, 1],
      ['rejection:4', 2, 0],
    ] as const) {
      const retried = await post(`/api/deliveries/${id}/retry`);
      expect(retried).toMatchObject({
        status: 200,
        body: { status: 'accepted', id, kind: 'risk_assessment', record_id: 'p' },
      });
      expect(await get('/api/deliveries/evt_late')).toMatchObject({ outcome: 'accepted', deliveries, body });
      expect((await post(`/api/deliveries/${id}/retry`)).body['code']).toBe('delivery_state');
      expect(await problems()).toHaveLength(open);
    }
  });

  test('lead on as CSV too, page after page, and the export is one entry of the audit', async () => {
    const first = await csv('/api/deliveries?limit=3');
    expect(first.lines[0]).toMatch(/^id,outcome,number,received_at,/);
    expect(first.lines).toHaveLength(4);
    const second = await csv(first.next!);
    expect([second.lines.length, second.next]).toEqual([2, undefined]);
    expect((await get('/api/audit')).items).toMatchObject([
      { actor: 'rita', action: 'export', outcome: 'ok', target: '/api/deliveries?limit=3' },
    ]);
  });
});

test('every list is CSV for whoever asks for that', async () => {
  // The audit first: an export is noted in it.
  for (const name of ['audit', 'problems', 'deliveries', 'syncs', 'changes', 'snapshot', 'records/policy']) {
    const { lines, next } = await csv(`/api/${name}`);
    expect([name, lines.length, next]).toEqual([name, 1, undefined]);
    expect(lines[0]).toMatch(/^\w+(,\w+)+$/);
  }
});

test('records as CSV have the typed columns beside the fixed ones, as stored', async () => {
  await h.mirror('vendor', 'v1', { name: '=1+1', tier: 2, on: true, since: '2026-11-01', note: 'a "b"' });
  await h.mirror('vendor', 'v2', { name: 'Two', owner: { team: 'Legal' } });
  const look = await h.store.seeFields(null, 100);
  await h.store.learnFields(look);
  const { lines } = await csv('/api/records/vendor');
  expect(lines[0]).toBe(
    'id,name,status,data,first_seen_at,synced_at,verified_at,unverified_since,deleted_at,' +
      'deletion_pending_since,last_event_id,last_event_at,cause,cause_id,note,on,since,tier,owner_team',
  );
  expect(lines[1]).toMatch(/^v1,=1\+1,,.*,sync,1,"a ""b""",true,2026-11-01,2,$/);
  expect(lines[2]).toMatch(/,,,,,Legal$/);

  const { at } = (await get('/api/changes')).items.at(-1);
  await expect.poll(() => Date.now()).toBeGreaterThan(Date.parse(at));
  await h.mirror('vendor', 'v1', { name: 'Two', tier: 3 });
  const then = (await csv(`/api/records/vendor?at=${at}`)).lines;
  expect(then[0]).toBe(lines[0]);
  expect(then[1]).toMatch(/,sync,1,"a ""b""",true,2026-11-01,2,$/);
});

describe('problems', () => {
  test('are the open ones, the resolved or all', async () => {
    for (const reason of ['silence', 'restored'] as const)
      await h.store.openProblem({ reason, kind: 'risk_assessment', recordId: null }, 'x', h.now());
    const of = async (query: string) =>
      (await get(`/api/problems${query}`)).items.map(({ reason }: { reason: string }) => reason);
    expect(await of('')).toEqual(['restored', 'silence']);
    const [restored] = (await get('/api/problems')).items;
    const { digest } = restored;
    expect((await post(`/api/problems/${restored.id}/resolve`, { digest })).body).toEqual({
      status: 'resolved',
      id: restored.id,
      full_sync: false,
    });
    // What was accepted of a list counts once a full sync has ended with it, which is not left to the timer.
    await h.store.openProblem({ reason: 'incomplete_list', kind: 'vendor', recordId: null }, 'x', h.now());
    const [list] = (await get('/api/problems')).items;
    expect((await post(`/api/problems/${list.id}/resolve`, { digest: list.digest })).body).toMatchObject({
      full_sync: true,
    });
    expect(h.asked).toEqual([`sync vendor problem:${list.id}+operator:olga`]);
    expect(await of('?state=open')).toEqual(['silence']);
    expect(await of('?state=resolved')).toEqual(['incomplete_list', 'restored']);
    expect(await of('?state=all')).toHaveLength(3);
    expect((await get('/api/problems?state=other')).code).toBe('invalid_parameter');
  });
});

describe('a sync', () => {
  test('is of all kinds, of those named, or of records', async () => {
    expect(await post('/api/syncs')).toEqual({
      status: 202,
      body: { status: 'queued', kinds: ['policy', 'risk_assessment', 'vendor'], records: null },
    });
    expect((await post('/api/syncs', { kinds: ['vendor', 'vendor'] })).body['kinds']).toEqual(['vendor']);
    expect(await post('/api/syncs', { kind: 'vendor', ids: ['v1', 'v2', 'v1'] })).toEqual({
      status: 202,
      body: { status: 'queued', kinds: ['vendor'], records: 2 },
    });
    expect(h.asked).toEqual([
      'sync policy,risk_assessment,vendor operator:olga',
      'sync vendor operator:olga',
      'refetch vendor v1,v2',
    ]);
  });

  test('of anything else is refused', async () => {
    for (const body of [
      { kinds: [] },
      { kinds: ['person'] },
      { kind: 'vendor' },
      { ids: ['v1'] },
      { kind: 'vendor', ids: [] },
      { kind: 'vendor', ids: ['a\0b'] },
      { kinds: ['vendor'], kind: 'vendor', ids: ['v1'] },
      { dry_run: true },
    ]) {
      expect(await post('/api/syncs', body), JSON.stringify(body)).toMatchObject({
        status: 400,
        body: { code: 'invalid_parameter' },
      });
    }
    expect(h.asked).toEqual([]);
  });

  test('of as many records as the document says is taken, with the longest ids there are', async () => {
    const many = Array.from({ length: 500 }, (_, n) => `${n}`.padEnd(255, '鷗'));
    expect((await post('/api/syncs', { kind: 'vendor', ids: many })).body['records']).toBe(500);
  });
});

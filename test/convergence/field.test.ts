import Database from 'better-sqlite3';
import { afterEach, expect, it } from 'vitest';
import type { Resource } from '../support/independent-upstream-records.ts';
import { createStage, type ProblemSeen, type Stage } from './stage.ts';

/**
 * What services were seen to do, and what is right then, each case against the whole service. Others of these kinds: signed batches
 * (`batches.test.ts`), ends that prove nothing (`end-of-list.test.ts`), and every shape of a failure inside a 2xx (`gate.test.ts`).
 */

let stage: Stage;
afterEach(() => stage.end());

const POLICIES = 30;
const VENDORS = 12;

interface SyncRun {
  id: number;
  kind: string;
  outcome: string | null;
  updated: number;
}

async function startInSync(settings: Record<string, string> = {}): Promise<void> {
  stage = await createStage(settings);
  await stage.start();
  await inSync('policy', 'vendor');
}

const inSync = (...kinds: string[]) =>
  stage.leapUntil(`${kinds.join(' and ')} in sync`, () =>
    kinds.every((kind) => stage.verdicts()[kind] === 'in_sync'),
  );

/** Rows of a list, page by page, as the upstream itself would show them. */
const rowsOf = (path: string, resource: Resource, leaveOut: readonly string[] = []) => {
  const page = Number(new URL(path, 'http://x').searchParams.get('page') ?? 1);
  const all = stage.upstream.records.newestFirst(resource).filter(({ id }) => !leaveOut.includes(id));
  return page === 1 ? all : [];
};
const isList = (path: string, resource: Resource) => path.includes(`/${resource}?`);

/** `answer`: the body, or null for what the upstream itself answers. */
function answers(answer: (path: string) => object | null, headers: Record<string, string> = {}): void {
  stage.upstream.faultOf = ({ path }) => {
    const body = answer(path);
    return body === null ? null : { fault: 'answer', body, headers };
  };
}

const openProblems = async () => (await stage.problems()).filter(({ resolved_at }) => resolved_at === null);
const problemOf = (reason: string, kind: string, recordId?: string): Promise<ProblemSeen> =>
  stage.leapUntil(
    `the problem ${reason} of ${kind}`,
    async () =>
      (await openProblems()).find(
        (one) =>
          one.reason === reason &&
          one.kind === kind &&
          (recordId === undefined || one.record_id === recordId),
      ) ?? null,
  );

async function fullSync(kind: string): Promise<SyncRun> {
  const runs = async () =>
    (await stage.get<{ items: SyncRun[] }>('/api/syncs?limit=50')).items.filter(
      (run) => run.kind === kind && run.outcome !== null,
    );
  const before = Math.max(0, ...(await runs()).map(({ id }) => id));
  await stage.post('/api/syncs', { kinds: [kind] });
  return await stage.leapUntil(
    'the full sync',
    async () => (await runs()).find(({ id }) => id > before) ?? null,
  );
}

function sql<Row>(text: string): Row[] {
  const db = new Database(stage.database, { readonly: true });
  try {
    return db.prepare(text).all() as Row[];
  } finally {
    db.close();
  }
}
const aliveOf = (table: string) =>
  sql<{ id: string }>(`SELECT id FROM ${table} WHERE deleted_at IS NULL ORDER BY id`).map(({ id }) => id);

it('a list that says that it failed, and shows nothing, brings no kind into sync', async () => {
  stage = await createStage();
  const body = { data: [], errors: [{ message: 'scope missing' }] };
  answers((path) => (isList(path, 'policies') || isList(path, 'vendors') ? body : null));
  await stage.start();
  for (const kind of ['policy', 'vendor'])
    expect((await problemOf('unreadable_answer', kind)).error).toContain('scope missing');
  const status = sql<object>(
    "SELECT verdict, records, complete_through FROM sync_status WHERE kind <> 'risk_assessment'",
  );
  const nothing = { verdict: 'action_required', records: 0, complete_through: null };
  expect(status).toEqual([nothing, nothing]);
});

it('a list that marks each of its records as deleted is not believed before a person accepts it', async () => {
  stage = await createStage();
  answers((path) => {
    if (!isList(path, 'vendors')) return null;
    return { data: rowsOf(path, 'vendors').map((row) => ({ ...row, deletedAt: '2025-01-01T00:00:00Z' })) };
  });
  await stage.start();
  const { id, digest, error } = await problemOf('incomplete_list', 'vendor');
  expect(error).toContain('DELETED_MARKERS');
  expect(stage.verdicts()['vendor']).not.toBe('in_sync');
  await stage.post(`/api/problems/${id}/resolve`, { digest });
  await inSync('vendor');
});

it.each<[string, (rows: object[], all: object[]) => object]>([
  ['has errors beside its rows', (data) => ({ data, errors: [{ message: 'one shard timed out' }] })],
  ['says so in meta', (data) => ({ data, meta: { total: data.length, incomplete_results: true } })],
  ['counts the shards that failed', (data) => ({ data, _shards: { failed: 1 }, total: data.length })],
  ['goes on by a Link whatever page is asked for', (_, all) => ({ data: all.slice(0, 7) })],
])('a list that shows only a part, and %s, deletes nothing', async (_how, shown) => {
  await startInSync();
  const all = stage.upstream.records.newestFirst('policies');
  const body = (path: string) => shown(rowsOf(path, 'policies').slice(0, 20), all);
  answers((path) => (isList(path, 'policies') ? body(path) : null), {
    link: '</v1/policies?after=7>; rel="next"',
  });
  expect((await fullSync('policy')).outcome).not.toBe('complete');
  expect(stage.verdicts()['policy']).not.toBe('in_sync');
  expect(aliveOf('policies')).toHaveLength(POLICIES);
});

it.each<[string, (id: string) => object]>([
  [
    'an error object beside its id',
    (id) => ({ error: { code: 'forbidden', message: 'no' }, data: null, id }),
  ],
  ['what could not be read', (id) => ({ data: { id, name: null }, errors: [{ path: ['name'] }] })],
  ['an error within data', (id) => ({ data: { id, error: { code: 'INTERNAL' } } })],
  ['a code and a message', (id) => ({ id, code: 'NOT_FOUND', message: 'no such vendor' })],
  ['its id and nothing else', (id) => ({ data: { id, object: 'vendor' } })],
  ['nothing in its fields', (id) => ({ data: { id, name: null, status: '' } })],
  ['what is no field of it', (id) => ({ __type: 'ThrottlingException', message: 'slow down', id })],
])(
  'a record that is answered with %s stays as it was, unverified, and a problem says so',
  async (_what, body) => {
    await startInSync();
    const id = 'ven-3';
    answers((path) => (path.endsWith(`/vendors/${id}`) ? body(id) : null));
    await stage.deliver(stage.touchVendor(id));
    await problemOf('unreadable_answer', 'vendor', id);
    const [row] = sql<object>(
      `SELECT name, status, unverified_since IS NULL AS verified FROM vendors WHERE id = '${id}'`,
    );
    expect(row).toEqual({ name: 'Vendor 3', status: 'active', verified: 0 });
    expect(stage.verdicts()['vendor']).not.toBe('in_sync');
  },
);

it.each<[string, object]>([
  ['a stub', { id: 'ven-3', object: 'vendor', deleted: true }],
  [
    'all of it, and when it was deleted',
    { id: 'ven-3', name: 'Vendor 3', status: 'archived', deletedAt: '2026-11-20T12:00:00Z' },
  ],
  ['its state', { id: 'ven-3', name: 'Vendor 3', state: 'deleted' }],
  ['its id alone', { id: 'ven-3' }],
  ['that it is gone', { id: 'ven-3', gone: true }],
  ['the vendor that it was merged into', { id: 'ven-4', name: 'Vendor 4' }],
])('a vendor that was removed, and is still answered with %s, stays deleted', async (_what, data) => {
  await startInSync({ SYNC_FULL_MINUTES: '0' });
  const vendor = stage.upstream.records.find('vendors', 'ven-3')!;
  stage.upstream.records.remove('vendors', 'ven-3');
  answers((path) => (path.endsWith('/vendors/ven-3') ? { data } : null));
  expect(await stage.tell('vendor.removed', 'vendors', vendor)).toBe(202);
  await stage.leapUntil('the deletion', () => aliveOf('vendors').length === VENDORS - 1);
  await inSync('vendor');
  await fullSync('vendor');
  await inSync('vendor');
  expect(sql("SELECT operation FROM changes WHERE record_id = 'ven-3' ORDER BY seq")).toEqual([
    { operation: 'insert' },
    { operation: 'delete' },
  ]);
});

it('a vendor that the list hides, and its own address shows, is a problem that a person can accept', async () => {
  await startInSync();
  stage.upstream.unlisted.add('ven-3');
  await fullSync('vendor');
  const { id, digest, error } = await problemOf('incomplete_list', 'vendor');
  expect(error).toContain('ven-3');
  expect(stage.verdicts()['vendor']).not.toBe('in_sync');
  await stage.post(`/api/problems/${id}/resolve`, { digest });
  await fullSync('vendor');
  await inSync('vendor');
  expect(aliveOf('vendors')).toContain('ven-3');
});

it('a vendor that an event has reported as removed, that its own address shows and the list hides, is not in sync before a person accepts it', async () => {
  await startInSync();
  stage.upstream.unlisted.add('ven-3');
  // A third state, which counts at once: the list is the only one that agrees with the event.
  stage.upstream.records.put('vendors', {
    ...stage.upstream.records.find('vendors', 'ven-3')!,
    archived: true,
  });
  expect(await stage.tell('vendor.removed', 'vendors', { id: 'ven-3' })).toBe(202);
  const hidden = await stage.leapUntil('what the list hides', async () => {
    expect(stage.verdicts()['vendor']).not.toBe('in_sync');
    return (await openProblems()).find(({ error }) => error?.includes('still show: ven-3')) ?? null;
  });
  await stage.post(`/api/problems/${hidden.id}/resolve`, { digest: hidden.digest });
  await inSync('vendor');
  expect(aliveOf('vendors')).toContain('ven-3');
});

it('a policy that the list shows much later than its event is not deleted, and its kind not in sync before', async () => {
  await startInSync();
  const policy = { id: 'pol-new', name: 'New', version: '1.0', status: 'draft' };
  stage.upstream.records.put('policies', policy);
  answers((path) => {
    if (!isList(path, 'policies')) return null;
    return { data: rowsOf(path, 'policies', ['pol-new']), meta: { total: POLICIES } };
  });
  expect(await stage.tell('policy.created', 'policies', policy)).toBe(202);
  // Eight times the read delay.
  for (let second = 0; second < 8; second += 1) {
    stage.clock.leap(1_000);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(stage.verdicts()['policy']).not.toBe('in_sync');
  }
  stage.upstream.faultOf = () => null;
  await inSync('policy');
  expect(aliveOf('policies')).toContain('pol-new');
  expect(sql("SELECT 1 FROM changes WHERE record_id = 'pol-new' AND operation = 'delete'")).toEqual([]);
});

it('what a cache answers takes no change back, and is named', async () => {
  await startInSync();
  const before = stage.upstream.records.find('vendors', 'ven-3')!;
  const event = stage.touchVendor('ven-3');
  answers((path) => (path.endsWith('/vendors/ven-3') ? { data: before } : null), {
    age: '3600',
    'x-cache': 'Hit',
  });
  await stage.deliver(event);
  expect((await problemOf('unreadable_answer', 'vendor', 'ven-3')).error).toContain('cache');
  expect(stage.verdicts()['vendor']).not.toBe('in_sync');
  stage.upstream.faultOf = () => null;
  await inSync('vendor');
  expect(stage.compare().differences).toEqual([]);
});

it('a list that a cache answers is read again ever less often', async () => {
  stage = await createStage({ SYNC_FULL_MINUTES: '0' });
  const page = (path: string) => ({ data: rowsOf(path, 'policies') });
  answers((path) => (isList(path, 'policies') ? page(path) : null), { age: '5' });
  await stage.start();
  await problemOf('unreadable_answer', 'policy');
  const ends = () =>
    sql<{ at: string }>("SELECT finished_at AS at FROM sync_runs WHERE kind = 'policy' ORDER BY id").map(
      ({ at }) => Date.parse(at),
    );
  await stage.leapUntil('more full syncs', () => ends().filter((at) => at > 0).length >= 6);
  const [before, last] = ends().slice(4, 6);
  expect(last! - before!).toBeGreaterThan(10_000);
});

it('a page size that the service does not take is halved until it does, and a restart begins with the one that was found', async () => {
  stage = await createStage();
  const sizes: string[] = [];
  stage.upstream.faultOf = ({ path }) => {
    if (!isList(path, 'policies') && !isList(path, 'vendors')) return null;
    const size = new URL(path, 'http://x').searchParams.get('perPage')!;
    sizes.push(size);
    const body = { error: 'perPage must not be greater than 30' };
    return Number(size) > 30 ? { fault: 'answer', status: 400, body } : null;
  };
  await stage.start();
  await inSync('policy', 'vendor');
  expect([...new Set(sizes)]).toEqual(['100', '50', '25']);
  sizes.length = 0;
  await stage.stop();
  await stage.start();
  await stage.leapUntil('lists', () => sizes.length > 1);
  expect(sizes).not.toContain('100');
});

it('a link that is signed anew in each answer is no difference, once a setting says so', async () => {
  stage = await createStage({ IGNORED_FIELDS: 'policy:documentUrl' });
  let reads = 0;
  answers((path) => {
    if (!isList(path, 'policies')) return null;
    reads += 1;
    const data = rowsOf(path, 'policies').map((row) => ({
      ...row,
      documentUrl: `https://files.example/?sig=${reads}`,
    }));
    return { data, meta: { total: POLICIES } };
  });
  await stage.start();
  await inSync('policy');
  expect(await fullSync('policy')).toMatchObject({ outcome: 'complete', updated: 0 });
  expect(sql("SELECT DISTINCT operation FROM changes WHERE kind = 'policy'")).toEqual([
    { operation: 'insert' },
  ]);
});

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { afterEach, expect, it } from 'vitest';
import { API_KEY } from '../support/independent-upstream.ts';
import { eventAbout } from '../support/independent-upstream-sender.ts';
import { createStage, type Stage } from './stage.ts';

/** The service against services that answer otherwise than it expects: in sync, or not, and why. */

interface Answer {
  status?: number;
  type?: string;
  body: unknown;
}
type Upstream = (path: string, query: URLSearchParams) => Answer;

interface Kind {
  kind: string;
  verdict: string;
  records: number;
}
interface Problem {
  reason: string;
  kind: string | null;
  record_id: string | null;
  error: string | null;
}

interface SyncRun {
  id: number;
  kind: string;
  outcome: string | null;
}

let stage: Stage | null = null;
let close: () => Promise<void> = async () => undefined;
afterEach(async () => {
  await stage?.end();
  await close();
});

async function against(answerOf: Upstream, settings: Record<string, string> = {}): Promise<Stage> {
  const server = createServer(
    { keepAliveTimeout: 0 },
    (request: IncomingMessage, response: ServerResponse) => {
      const url = new URL(request.url ?? '', 'http://x');
      const {
        status = 200,
        type = 'application/json',
        body,
      } = request.headers.authorization === `Bearer ${API_KEY}`
        ? answerOf(url.pathname.replace(/^\/v1/, ''), url.searchParams)
        : { status: 401, body: { error: 'no' } };
      const text = typeof body === 'string' ? body : body === undefined ? '' : JSON.stringify(body);
      response.writeHead(status, { 'content-type': type }).end(text);
    },
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  stage = await createStage({ COMPLIANCE_BASE_URL: baseUrl, SYNC_SETTLE_SECONDS: '0.2', ...settings });
  await stage.start();
  return stage;
}

const eventually: Stage['leapUntil'] = (...asked) => stage!.leapUntil(...asked);
const openProblems = async () => (await stage!.get<{ items: Problem[] }>('/api/problems?limit=500')).items;
const problemOf = (reason: string, kind: string) =>
  eventually(
    `the problem ${reason} of ${kind}`,
    async () =>
      (await openProblems()).find((problem) => problem.reason === reason && problem.kind === kind) ?? null,
  );
/** What the page shows may be a moment old. */
const verdictOf = (kind: string, verdict: string) =>
  eventually(`${kind} ${verdict}`, () => stage!.verdicts()[kind] === verdict);
/** Risk assessments have no list that could show all of them. */
const bestOf = (kind: string) => (kind === 'risk_assessment' ? 'known_only' : 'in_sync');
const inSync = (...names: string[]) =>
  eventually(`${names.join(', ')} in sync`, () => {
    const now = stage!.verdicts();
    return names.every((name) => now[name] === bestOf(name));
  });

async function fullSyncVendors(): Promise<void> {
  const newest = async () => {
    const { items } = await stage!.get<{ items: SyncRun[] }>('/api/syncs?limit=20');
    return items.find(({ kind, outcome }) => kind === 'vendor' && outcome !== null)?.id ?? 0;
  };
  const before = await newest();
  await stage!.post('/api/syncs', { kinds: ['vendor'] });
  await eventually('the full sync', async () => (await newest()) > before);
}

const EMPTY = { body: { data: [], meta: { total: 0 } } };
const UNKNOWN = { status: 404, body: { error: 'no such record' } };
/** Lists of nothing, and no records. */
const bare: Upstream = (path) => (/^\/(policies|vendors)$/.test(path) ? EMPTY : UNKNOWN);

it('nothing to read, and all of it allowed, is no problem: a made-up assessment is unknown', async () => {
  await against(bare);
  await inSync('policy', 'vendor', 'risk_assessment');
  expect(await openProblems()).toEqual([]);
});

it.each<[string, Upstream, Record<string, string>, string]>([
  ['a wrong key', bare, { COMPLIANCE_API_KEY: 'wrong-key-0123456789' }, 'credentials_rejected'],
  [
    'a record for every id',
    (path) =>
      path.includes('assessments/') ? { body: { data: { name: 'x' } } } : bare(path, new URLSearchParams()),
    {},
    'unreadable_answer',
  ],
  [
    '403 to assessments alone',
    (path) => (path.includes('assessments/') ? { status: 403, body: {} } : bare(path, new URLSearchParams())),
    {},
    'credentials_rejected',
  ],
])('with %s assessments are never in sync', async (_what, upstream, settings, reason) => {
  await against(upstream, settings);
  await problemOf(reason, 'risk_assessment');
  await verdictOf('risk_assessment', 'action_required');
});

it('a vendor whose own address nobody understands keeps its kind from being in sync, whatever the list shows', async () => {
  let isBroken = true;
  let name = 'One';
  const listed = () => ({ body: { data: [{ id: 'ven-1', name }], meta: { total: 1 } } });
  await against((path, query) => {
    if (path === '/vendors')
      return query.get('page') === '1' ? listed() : { body: { data: [], meta: { total: 1 } } };
    if (path !== '/vendors/ven-1') return bare(path, query);
    return isBroken
      ? { type: 'text/html', body: '<html>Sign in' }
      : { body: { data: { id: 'ven-1', name } } };
  });
  await inSync('vendor');
  name = 'Two';
  await stage!.post('/api/syncs', { kind: 'vendor', ids: ['ven-1'] });
  await problemOf('unreadable_answer', 'vendor');
  for (let times = 0; times < 3; times += 1) {
    await fullSyncVendors();
    const { items } = await stage!.get<{ items: object[] }>('/api/records/vendor');
    expect(items).toMatchObject([{ id: 'ven-1', name: 'Two', unverified_since: null }]);
    expect(await openProblems()).toMatchObject([{ reason: 'unreadable_answer', kind: 'vendor' }]);
    await verdictOf('vendor', 'action_required');
  }
  isBroken = false;
  await fullSyncVendors();
  await inSync('vendor');
  expect(await openProblems()).toEqual([]);
});

it('a list that leaves out what a vendor’s own address shows undoes nothing, and what changes behind it is found', async () => {
  let whole: Record<string, unknown> = {
    id: 'ven-1',
    name: 'One',
    notes: 'x',
    owner: { id: 'u', name: 'Jo' },
  };
  await against((path, query) => {
    const page = query.get('page') === '1' ? [{ id: 'ven-1', name: whole['name'], owner: { id: 'u' } }] : [];
    if (path === '/vendors') return { body: { data: page, meta: { total: 1 } } };
    return path === '/vendors/ven-1' ? { body: { data: whole } } : bare(path, query);
  });
  await inSync('vendor');
  const shows = (what: string) =>
    eventually(what, async () => {
      const { items } = await stage!.get<{ items: { data: object; unverified_since: string | null }[] }>(
        '/api/records/vendor',
      );
      return items[0]?.unverified_since === null && isDeepStrictEqual(items[0].data, whole);
    });
  const changes = async () => {
    const { items } = await stage!.get<{ items: { before: object; after: object }[] }>(
      '/api/records/vendor/ven-1/history',
    );
    return items.length;
  };
  await stage!.post('/api/syncs', { kind: 'vendor', ids: ['ven-1'] });
  await shows('all of it');
  const before = await changes();
  for (let times = 0; times < 2; times += 1) {
    await fullSyncVendors();
    await inSync('vendor');
    await shows('all of it still');
  }
  expect(await changes()).toBe(before);
  for (const next of [
    { ...whole, notes: 'y' },
    { ...whole, name: 'Two' },
    { id: 'ven-1', name: 'Two', owner: { id: 'u', name: 'Jo' } },
  ]) {
    whole = next;
    await fullSyncVendors();
    await shows(JSON.stringify(next));
    await inSync('vendor');
  }
});

it('a vendor that is deleted, and which a list still shows in part, stays so until its own address shows it', async () => {
  let isGone = false;
  const whole = (id: string) => ({ body: { data: { id, name: id, notes: 'x' } } });
  await against((path, query) => {
    const ids = query.get('page') === '1' ? ['ven-1', 'ven-2', 'ven-3'] : [];
    if (path === '/vendors')
      return { body: { data: ids.map((id) => ({ id, name: id })), meta: { total: 3 } } };
    const [, id] = /^\/vendors\/(ven-\d)$/.exec(path) ?? [];
    return id === undefined || (id === 'ven-1' && isGone) ? bare(path, query) : whole(id);
  });
  await inSync('vendor');
  await stage!.post('/api/syncs', { kind: 'vendor', ids: ['ven-1'] });
  const history = async () => {
    const address = '/api/records/vendor/ven-1/history';
    const { items } = await stage!.get<{ items: { operation: string }[] }>(address);
    return items.map(({ operation }) => operation).toReversed();
  };
  const became = (operations: string[]) =>
    eventually(operations.join(), async () => isDeepStrictEqual(await history(), operations));
  await became(['insert', 'update']);
  isGone = true;
  expect(await stage!.deliver(eventAbout('vendor.removed', 'vendors', { id: 'ven-1' }))).toBe(202);
  await became(['insert', 'update', 'delete']);
  await inSync('vendor');
  for (let times = 0; times < 2; times += 1) {
    await fullSyncVendors();
    await inSync('vendor');
    expect(await history()).toEqual(['insert', 'update', 'delete']);
  }
  isGone = false;
  await fullSyncVendors();
  await became(['insert', 'update', 'delete', 'restore']);
});

it.each(['risk_assessment'])(
  'what an event reports is read before the many records (%s) that a person asks for, and all of those are read too',
  async (kind) => {
    const ids = Array.from({ length: 300 }, (_, index) => `asked-${index}`);
    const known = [...ids, 'reported'];
    const reads: string[] = [];
    await against(
      (path, query) => {
        const [, resource, id] = path.split('/');
        const page = query.get('page') === '1' ? known.map((one) => ({ id: one, name: one })) : [];
        if (resource === 'vendors' && id === undefined)
          return { body: { data: page, meta: { total: known.length } } };
        if (id === undefined || !known.includes(id)) return bare(path, query);
        reads.push(id);
        return { body: { data: { id, name: id } } };
      },
      { COMPLIANCE_PAGE_SIZE: '500' },
    );
    await inSync('vendor');
    await stage!.post('/api/syncs', { kind, ids });
    expect(
      await stage!.deliver(eventAbout('vendor.updated', 'vendors', { id: 'reported', name: 'new' })),
    ).toBe(202);
    await eventually('all reads', () => new Set(reads).size === known.length);
    expect(reads.indexOf('reported')).toBeLessThan(ids.length / 2);
  },
);

it('with a web page for everything no kind is in sync, and the service is unreachable', async () => {
  await against(() => ({ type: 'text/html', body: '<html>Sign in' }), {});
  for (const kind of ['policy', 'risk_assessment', 'vendor']) await verdictOf(kind, 'unreachable');
});

it.each<[string, Answer]>([
  ['a web page', { type: 'text/html', body: '<html>\nSign in' }],
  ['another record', { body: { data: { id: 'ra-2', name: 'B' } } }],
])('an assessment that is answered with %s is a problem until it is answered', async (_what, answer) => {
  let current: Answer = answer;
  await against((path, query) => (path === '/risk-assessments/ra-1' ? current : bare(path, query)));
  await inSync('risk_assessment');
  await tell('ra-1');
  const problem = await problemOf('unreadable_answer', 'risk_assessment');
  expect(problem).toMatchObject({
    record_id: 'ra-1',
    error: expect.stringContaining('GET /risk-assessments/ra-1: '),
  });
  await verdictOf('risk_assessment', 'action_required');
  expect(stage!.verdicts()['policy']).toBe('in_sync');
  expect(await stage!.get('/api/status')).toMatchObject({
    verdict: 'action_required',
    problems: [{ reason: 'unreadable_answer', record_id: 'ra-1' }],
  });
  current = { body: { data: { id: 'ra-1', name: 'A' } } };
  await stage!.post('/api/syncs', { kind: 'risk_assessment', ids: ['ra-1'] });
  await inSync('risk_assessment');
  expect(await openProblems()).toEqual([]);
});

const VENDORS = Array.from({ length: 120 }, (_, index) => ({ id: `v${index}`, name: `V${index}` }));
/** Vendors in pages of fifty, from where the parameters say. */
const paged =
  (from: (query: URLSearchParams) => number, more: object = {}): Upstream =>
  (path, query) => {
    if (path !== '/vendors') return bare(path, query);
    const start = from(query);
    return { body: { data: VENDORS.slice(start, start + 50), ...more } };
  };
const number = (query: URLSearchParams, name: string) => Number(query.get(name) ?? 0);

it.each<[string, Upstream, Record<string, string>]>([
  ['an offset', paged((query) => number(query, 'offset')), { COMPLIANCE_PAGE_PARAM: 'offset' }],
])(
  'a list with %s is not in sync, says what to set, and is once it is set',
  async (_what, upstream, settings) => {
    await against(upstream);
    const { error } = await problemOf('unreadable_answer', 'vendor');
    const [[name, value] = []] = Object.entries(settings);
    expect(error).toMatch(new RegExp(`set ${name} .*${value}`));
    await verdictOf('vendor', 'action_required');
    await verdictOf('policy', 'in_sync');
    await stage!.end();
    await close();

    await against(upstream, settings);
    await inSync('vendor');
    const { kinds: all } = await stage!.get<{ kinds: Kind[] }>('/api/status');
    expect(all.find(({ kind }) => kind === 'vendor')?.records).toBe(VENDORS.length);
  },
);

it('ids that are numbers of 64 bits, alike but for the last digit, are records of their own', async () => {
  const known = ['9007199254740992', '9007199254740993'];
  const page = (ids: readonly string[]) =>
    `{"data":[${ids.map((id) => `{"id":${id}}`).join()}],"meta":{"total":${known.length}}}`;
  await against((path, query) => {
    const id = known.find((one) => path === `/vendors/${one}`);
    if (id !== undefined) return { body: `{"data":{"id":${id}}}` };
    if (path !== '/vendors') return bare(path, query);
    return { body: page(query.get('page') === '1' ? known : []) };
  });
  await inSync('vendor');
  known.push('9007199254740995');
  const event = eventAbout('vendor.added', 'vendors', { id: 'ID' });
  expect(await stage!.deliver({ ...event, body: event.body.replace('"ID"', known[2]!) })).toBe(202);
  await eventually('all three', async () => {
    const { items } = await stage!.get<{ items: { id: string; verified_at: string | null }[] }>(
      '/api/records/vendor',
    );
    const verified = items.filter((each) => each.verified_at !== null).map((each) => each.id);
    return isDeepStrictEqual(verified.toSorted(), known);
  });
  await inSync('vendor');
  expect(await openProblems()).toEqual([]);
});

it.each<[string, unknown, string]>([
  ['has no usable id', { id: 'v\u00011' }, 'has an id with a control character at id'],
])(
  'a list with one row that %s brings all others, and is in sync once that is mended',
  async (_, row, why) => {
    let second = row;
    await against((path, query) => {
      const rows = query.get('page') === '1' ? [{ id: 'v0' }, second, { id: 'v2' }] : [];
      return path === '/vendors' ? { body: { data: rows, meta: { total: 3 } } } : bare(path, query);
    });
    expect((await problemOf('unreadable_answer', 'vendor')).error).toContain(
      `row 2 of page 1: a vendor ${why}`,
    );
    await verdictOf('vendor', 'action_required');
    const { items } = await stage!.get<{ items: { id: string }[] }>('/api/records/vendor');
    expect(items.map((each) => each.id).toSorted()).toEqual(['v0', 'v2']);
    second = { id: 'v1' };
    await fullSyncVendors();
    await inSync('vendor');
    expect(await openProblems()).toEqual([]);
  },
);

async function tell(id: string): Promise<void> {
  const event = eventAbout('risk.assessed', 'assessments', { id });
  expect(await stage!.deliver(event)).toBe(202);
}

import { randomUUID } from 'node:crypto';
import { afterEach, expect, it } from 'vitest';
import { createStage, type Stage } from './stage.ts';

let stage: Stage;
afterEach(() => stage.end());

interface SyncRun {
  kind: string;
  outcome: string | null;
  error: string | null;
}

const POLICIES_PER_PAGE = 10;
const POLICIES = 30;
const pageOf = (path: string) => Number(/[?&]page=(\d+)/.exec(path)?.[1]);

const policySyncRuns = async () =>
  (await stage.get<{ items: SyncRun[] }>('/api/syncs?limit=500')).items.filter(
    ({ kind, outcome }) => kind === 'policy' && outcome !== null,
  );
const differences = () => stage.compare().differences;

async function startInSync(): Promise<void> {
  await stage.start();
  const isInSync = async () => (await policySyncRuns()).length > 0 && differences().length === 0;
  await stage.leapUntil('the first equality', isInSync);
}

const isBehindLast = (path: string) => pageOf(path) > POLICIES / POLICIES_PER_PAGE;

it.each([
  ['answers 404 behind its last page', {}, isBehindLast, 404],
  [
    'knows no pages and shows all of it each time',
    { COMPLIANCE_PAGE_PARAM: 'nobody', COMPLIANCE_PER_PAGE_PARAM: 'knows' },
    () => false,
    404,
  ],
])('a list that %s is read to its end, and shows what is gone', async (_what, settings, isBehind, status) => {
  stage = await createStage({ COMPLIANCE_PAGE_SIZE: String(POLICIES_PER_PAGE), ...settings });
  stage.upstream.faultOf = ({ path }) =>
    path.includes('/policies?') && isBehind(path) ? { fault: 'status', status } : null;
  await startInSync();
  const id = stage.upstream.records.ids('policies')[0]!;
  stage.upstream.records.remove('policies', id);
  // One fewer is still on as many pages.
  expect(differences()).not.toEqual([]);
  await stage.post('/api/syncs', { kinds: ['policy'] });
  await stage.leapUntil('the deletion', () => differences().length === 0);
  const syncRuns = await policySyncRuns();
  expect(syncRuns.map(({ outcome, error }) => error ?? outcome)).toEqual(syncRuns.map(() => 'complete'));
});

it('a list that answers 404 behind its last page, and has moved while it was read, is read again and raises no alarm', async () => {
  stage = await createStage({ COMPLIANCE_PAGE_SIZE: String(POLICIES_PER_PAGE) });
  const { records } = stage.upstream;
  let isMoved = false;
  stage.upstream.faultOf = ({ path }) => {
    if (!path.includes('/policies?')) return null;
    // It comes first, so that the last one of the first page is the first of the second, too.
    if (pageOf(path) === 2 && !isMoved)
      records.put('policies', { id: 'pol-new', name: 'New', version: '1', status: 'draft' });
    isMoved ||= pageOf(path) === 2;
    const isBehind = (pageOf(path) - 1) * POLICIES_PER_PAGE >= records.ids('policies').length;
    return isBehind ? { fault: 'status', status: 404 } : null;
  };
  await stage.start();
  await stage.leapUntil('a complete full sync', async () =>
    (await policySyncRuns()).some(({ outcome }) => outcome === 'complete'),
  );
  expect((await policySyncRuns()).map(({ outcome }) => outcome)).toEqual(['complete', 'incomplete']);
  expect(differences()).toEqual([]);
  expect(await stage.problems()).toEqual([]);
});

it.each([404])('a list of which a page before the last answers %i proves nothing', async (status) => {
  stage = await createStage({ COMPLIANCE_PAGE_SIZE: String(POLICIES_PER_PAGE) });
  await startInSync();
  stage.upstream.faultOf = ({ path }) =>
    path.includes('/policies?') && pageOf(path) === 3 ? { fault: 'status', status } : null;
  await stage.post('/api/syncs', { kinds: ['policy'] });
  const isOver = async () => (await policySyncRuns()).find(({ outcome }) => outcome === 'incomplete') ?? null;
  expect((await stage.leapUntil('the end of the full sync', isOver)).error).toContain(`answered ${status}`);
  expect(differences()).toEqual([]);
});

it.each([
  ['says how many it holds', (rows: number) => rows],
  ['does not say how many', () => undefined as unknown as number],
])(
  'a list that %s is read again where a record may have moved over the end of a page unseen',
  async (_what, total) => {
    stage = await createStage({ COMPLIANCE_PAGE_SIZE: String(POLICIES_PER_PAGE) });
    stage.upstream.total = total;
    const { records } = stage.upstream;
    const listed = records.newestFirst('policies').map(({ id }) => id);
    const [gone, atBorder] = [listed[0]!, listed[POLICIES_PER_PAGE]!];
    stage.upstream.faultOf = ({ path }) => {
      // The first of the second page is now the last of the first.
      if (path.includes('/policies?') && pageOf(path) === 2) records.remove('policies', gone);
      return null;
    };
    await stage.start();
    await stage.leapUntil('a complete full sync', async () =>
      (await policySyncRuns()).some(({ outcome }) => outcome === 'complete'),
    );
    expect(differences().filter((difference) => difference.includes(atBorder))).toEqual([]);
  },
);

it('a list that stayed as long as it was is read again where a deletion announced meanwhile may have moved a record over', async () => {
  stage = await createStage({ COMPLIANCE_PAGE_SIZE: String(POLICIES_PER_PAGE) });
  const { records } = stage.upstream;
  // A new one comes last, so that it moves nothing back.
  const listed = records.newestFirst.bind(records);
  records.newestFirst = (resource) => listed(resource).toReversed();
  const [gone, atBorder] = [
    records.newestFirst('policies')[0]!,
    records.newestFirst('policies')[POLICIES_PER_PAGE]!,
  ];
  let isTold = false;
  stage.upstream.faultOf = ({ path }) => {
    if (!path.includes('/policies?') || pageOf(path) !== 2 || isTold) return null;
    isTold = true;
    records.remove('policies', gone.id);
    records.put('policies', { id: 'pol-another', name: 'Another', version: '1', status: 'draft' });
    return {
      fault: 'held',
      until: stage.tell('policy.deleted', 'policies', gone).then(() => {}),
    };
  };
  await stage.start();
  await stage.leapUntil('a complete full sync', async () =>
    (await policySyncRuns()).some(({ outcome }) => outcome === 'complete'),
  );
  expect(isTold).toBe(true);
  expect(differences().filter((difference) => difference.includes(atBorder.id))).toEqual([]);
});

const vendorInSync = () => stage.leapUntil('vendors in sync', () => stage.verdicts()['vendor'] === 'in_sync');
const vendorShown = async (id: string) =>
  (
    await stage.get<{ items: { id: string; data: Record<string, unknown> }[] }>(
      '/api/records/vendor?limit=100',
    )
  ).items.find((one) => one.id === id)?.data ?? null;
/** An event that says nothing of which vendor it is about: the whole list settles it. */
function nameless() {
  const id = randomUUID();
  const said = { id, type: 'vendor.updated', created: '2026-11-20T12:00:00Z', data: { note: 'which one?' } };
  return { id, body: JSON.stringify(said) };
}
const settledByTheList = () =>
  stage.leapUntil('the problem to be resolved', async () =>
    (await stage.problems()).some(
      (problem) => problem.reason === 'unknown_record' && problem.resolved_at !== null,
    ),
  );

it('a row that leaves something out is asked for at its own address, though given up for a read begun before it', async () => {
  stage = await createStage();
  const { records } = stage.upstream;
  const listed = records.newestFirst.bind(records);
  const find = records.find.bind(records);
  records.newestFirst = (resource) =>
    listed(resource).map(({ notes: _, ...rest }) => rest as typeof rest & { id: string });
  records.put('vendors', { id: 'ven-x', name: 'One', notes: 'old' });
  await stage.start();
  await stage.leapUntil('its row', async () => (await vendorShown('ven-x')) !== null);
  await stage.post('/api/syncs', { kind: 'vendor', ids: ['ven-x'] });
  await stage.leapUntil('its notes', async () => (await vendorShown('ven-x'))?.['notes'] === 'old');
  await vendorInSync();
  stage.clock.leap(5_000);

  // A read is under way that shows the name which nobody has told of, and takes longer than a page of the list.
  const asItWas = { id: 'ven-x', name: 'Two', notes: 'old' };
  records.put('vendors', { ...asItWas, notes: 'new' });
  const read = Promise.withResolvers<void>();
  const page = Promise.withResolvers<void>();
  const asked = { read: 0, page: 0 };
  let isEarly = true;
  records.find = (resource, id) => (id === 'ven-x' && isEarly ? asItWas : find(resource, id));
  stage.upstream.faultOf = ({ path }) => {
    if (path.endsWith('/vendors/ven-x') && ++asked.read === 1) return { fault: 'held', until: read.promise };
    if (asked.read > 0 && path.includes('/vendors?') && ++asked.page === 1)
      return { fault: 'held', until: page.promise };
    return null;
  };
  await stage.post('/api/syncs', { kind: 'vendor', ids: ['ven-x'] });
  await stage.leapUntil('the read', () => asked.read === 1, 100);
  await stage.deliver(nameless());
  await stage.leapUntil('the page', () => asked.page === 1);
  read.resolve();
  await stage.leapUntil('the older read', async () => (await vendorShown('ven-x'))?.['name'] === 'Two', 1);
  isEarly = false;
  page.resolve();
  await settledByTheList();
  await vendorInSync();
  expect(await vendorShown('ven-x')).toMatchObject({ name: 'Two', notes: 'new' });
});

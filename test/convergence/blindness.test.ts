import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { approveDeletions } from '../support/approve-deletions.ts';
import { type IndependentUpstream, startIndependentUpstream } from '../support/independent-upstream.ts';
import { fill } from '../support/independent-upstream-records.ts';
import { alive, compare } from './compare.ts';
import { createService, eventually, type Service } from './service.ts';

/** An upstream that seems to hold nothing, in the ways in which that is not so. */

const INSISTED_ON = ['ven-0', 'ven-1'];
const COUNTS = { policies: 6, assessments: 4, vendors: 6 };

interface SyncRun {
  id: number;
  kind: string;
  outcome: string | null;
}
interface Problem {
  reason: string;
  kind: string | null;
  resolved_at: string | null;
}

let upstream: IndependentUpstream;
let service: Service;

beforeEach(async () => {
  upstream = await startIndependentUpstream();
  fill(upstream.records, COUNTS);
  // The records that name the assessments, which no list does.
  for (const [index, id] of upstream.records.ids('assessments').entries()) {
    upstream.records.put('vendors', {
      ...upstream.records.find('vendors', `ven-${index}`)!,
      riskAssessmentId: id,
    });
  }
  service = await createService(
    upstream,
    { SYNC_SETTLE_SECONDS: '0.2', COMPLIANCE_REQUESTS_PER_MINUTE: '6000' },
    { here: true },
  );
  await service.start();
  await eventually('the first equality', () => inSync());
});
afterEach(async () => {
  await service.end();
  await upstream.close();
});

const inSync = () => {
  const named = new Set(upstream.records.ids('assessments'));
  return compare(service.database, upstream.records, named).differences.length === 0;
};
const newestSyncRun = async () =>
  (await service.get<{ items: SyncRun[] }>('/api/syncs?limit=1')).items[0]?.id ?? 0;
const openProblems = async () => (await service.get<{ items: Problem[] }>('/api/problems?limit=500')).items;
const pendingOf = async (kind: string) =>
  (await service.get<{ items: unknown[] }>(`/api/records/${kind}?deletion_pending=true&limit=500`)).items;

/** Asks for a full sync of everything, and waits until each of these kinds has had one. */
async function fullSync(...kinds: string[]): Promise<void> {
  const before = await newestSyncRun();
  await service.post('/api/syncs');
  await eventually(`a full sync of ${kinds.join(', ')}`, async () => {
    const { items } = await service.get<{ items: SyncRun[] }>('/api/syncs?limit=100');
    const ended = new Set(
      items.filter(({ id, outcome }) => id > before && outcome !== null).map(({ kind }) => kind),
    );
    return kinds.every((kind) => ended.has(kind));
  });
}

/** How often a vendor was asked for by itself. */
const askedFor = (id: string) => upstream.seen.filter(({ path }) => path.endsWith(`/vendors/${id}`)).length;

function expectEverythingAlive(): void {
  expect({
    policies: alive(service.database, 'policies'),
    assessments: alive(service.database, 'assessments'),
    vendors: alive(service.database, 'vendors'),
  }).toEqual(COUNTS);
}

describe('without a delete event or approval nothing is deleted', () => {
  it.each([
    { what: '401 to everything', status: 401, problem: 'credentials_rejected' },
    { what: '404 to everything, as a wrong base path has it', status: 404, problem: 'incomplete_list' },
  ])('when the upstream answers $what', async ({ status, problem }) => {
    upstream.seen.length = 0;
    upstream.faultOf = () => ({ fault: 'status', status });
    // Records are asked for by themselves, too.
    for (const id of upstream.records.ids('vendors'))
      await service.post('/api/syncs', { kind: 'vendor', ids: [id] });
    await service.post('/api/syncs');
    await eventually('the problem', async () =>
      (await openProblems()).some(({ reason }) => reason === problem),
    );
    // Somebody insists on some, for longer than the SETTLE that a proof takes.
    await eventually('vendors that are asked for often', async () => {
      for (const id of INSISTED_ON) await service.post('/api/syncs', { kind: 'vendor', ids: [id] });
      return INSISTED_ON.every((id) => askedFor(id) >= 12);
    });

    expectEverythingAlive();

    upstream.faultOf = () => null;
    await service.post('/api/syncs');
    await eventually('equality after it', () => inSync());
    await eventually('the problem to resolve', async () => (await openProblems()).length === 0);
  });

  it('when every list is empty and says so, and single records are still there', async () => {
    upstream.listsAreEmpty = true;
    await fullSync('policy', 'vendor', 'risk_assessment');

    expectEverythingAlive();
    expect(await pendingOf('policy')).toHaveLength(COUNTS.policies);
    for (const kind of ['vendor', 'risk_assessment']) expect(await pendingOf(kind)).toEqual([]);

    upstream.listsAreEmpty = false;
    await service.post('/api/syncs');
    await eventually('equality after it', () => inSync());
    await eventually('the problems to resolve', async () => (await openProblems()).length === 0);
  });
});

it('an operator’s approval deletes exactly what was pending', async () => {
  for (const id of upstream.records.ids('policies').slice(0, 3)) upstream.records.remove('policies', id);
  await service.post('/api/syncs', { kinds: ['policy'] });
  await eventually('pending deletions', async () => (await pendingOf('policy')).length === 3);
  expect(alive(service.database, 'policies')).toBe(COUNTS.policies);

  expect(await approveDeletions(service)).toBe(3);
  await eventually('equality after approval', () => inSync());
  expect(alive(service.database, 'policies')).toBe(COUNTS.policies - 3);
});

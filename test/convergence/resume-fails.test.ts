import { afterEach, expect, it } from 'vitest';
import { FULL_SYNC_BACKOFF } from '../../src/backfill/backfill.ts';
import { createStage, type Stage } from './stage.ts';

let stage: Stage;
afterEach(() => stage.end());

interface SyncRun {
  kind: string;
  reason: string;
  outcome: string | null;
  pages: number;
  started_at: string;
  finished_at: string | null;
}

/** Half of the first step of the backoff is as short as chance may make it; its ends are told by another clock. */
const SHORTEST_PAUSE_MS = FULL_SYNC_BACKOFF.firstMs / 2 - 50;

const policySyncRuns = async () =>
  (await stage.get<{ items: SyncRun[] }>('/api/syncs?limit=100')).items
    .filter(({ kind }) => kind === 'policy')
    .reverse();

const isPolicies = (path: string) => path.includes('/policies?');
const pageOf = (path: string) => Number(/[?&]page=(\d+)/.exec(path)?.[1]);

/** Of fifteen. */
async function stopAfterTwelvePages(): Promise<void> {
  stage = await createStage({ COMPLIANCE_PAGE_SIZE: '2', SYNC_FULL_MINUTES: '0' });
  stage.upstream.faultOf = ({ path }) =>
    isPolicies(path) && pageOf(path) === 13 ? { fault: 'hang', ms: 60_000 } : null;
  await stage.start();
  await stage.leapUntil('twelve pages', async () => ((await policySyncRuns())[0]?.pages ?? 0) >= 12, 0);
  // Sent and not yet arrived, the request of the process that stops would count as one of the next process.
  const hanging = () => stage.upstream.seen.some(({ path }) => isPolicies(path) && pageOf(path) === 13);
  await stage.leapUntil('the page that hangs', hanging, 0);
  await stage.stop();
}

it('a resumed full sync that fails is tried again after a pause, like any other', async () => {
  await stopAfterTwelvePages();
  const asked: number[] = [];
  stage.upstream.faultOf = ({ path }) => {
    if (!isPolicies(path)) return null;
    asked.push(pageOf(path));
    return { fault: 'status', status: 404 };
  };
  await stage.start();
  // In leaps that are short beside the pause.
  await stage.leapUntil('the request of the next full sync', () => asked.length >= 2, 100);
  expect(asked.slice(0, 2)).toEqual([13, 1]);
  const [, resumed, next] = await policySyncRuns();
  expect(resumed?.outcome).toBe('incomplete');
  expect(next?.reason).toBe('again');
  const pauseMs = Date.parse(next!.started_at) - Date.parse(String(resumed!.finished_at));
  expect(pauseMs).toBeGreaterThanOrEqual(SHORTEST_PAUSE_MS);
});

it('a resumed full sync ends with the list also where the service answers 404 behind its last page', async () => {
  await stopAfterTwelvePages();
  stage.upstream.faultOf = ({ path }) =>
    isPolicies(path) && pageOf(path) > 15 ? { fault: 'status', status: 404 } : null;
  await stage.start();
  await stage.leapUntil(
    'the whole full sync',
    async () => (await policySyncRuns())[2]?.outcome === 'complete',
  );
  const [, resumed, next] = await policySyncRuns();
  const problems = (await stage.problems()).map(({ reason }) => reason);
  expect([problems, resumed?.pages, next?.reason]).toEqual([[], 16, 'resumed']);
});

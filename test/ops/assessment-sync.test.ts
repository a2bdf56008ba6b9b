import { expect, test } from 'vitest';
import { assessmentSyncOf, assessmentSyncWords } from '../../src/ops/status-report.ts';
import type { StoreSummary } from '../../src/store/reports.ts';
import { liveFacts } from './harness.ts';

const HOUR_MS = 3_600_000;

interface Running {
  startedAt: number;
  seen: number;
  total: number;
}

function assessmentSync(last_full_sync_seconds: number | null, running: Running | null, at: number) {
  const summary = { kinds: [{ kind: 'risk_assessment', last_full_sync_seconds }] } as StoreSummary;
  const of = {
    kind: 'risk_assessment' as const,
    id: 1,
    pages: 1,
    records_per_second: null,
    seconds_left: null,
  };
  const runningSyncRuns = (running === null ? [] : [running]).map(({ seen, total, startedAt }) => ({
    ...of,
    seen,
    estimated_total: total,
    started_at: new Date(startedAt).toISOString(),
  }));
  return assessmentSyncOf({ summary, live: liveFacts({ runningSyncRuns }), at });
}

test.each([
  { last: null, running: null, words: 'none completed yet' },
  { last: 0, running: null, words: 'the last took under 1 s' },
  { last: 12.4, running: null, words: 'the last took 12 s' },
  { last: 119.4, running: null, words: 'the last took 119 s' },
  { last: 12_000, running: null, words: 'the last took 3 h 20 min' },
  {
    last: 60,
    running: { startedAt: HOUR_MS - 20_000, seen: 50, total: 200 },
    words: 'the last took 60 s; one under way for 20 s, about 80 s in all',
  },
  {
    last: null,
    running: { startedAt: HOUR_MS - 600_000, seen: 0, total: 200 },
    words: 'none completed yet; one under way for 10 min, its length not known yet',
  },
])('the full sync of the assessments reads as: $words', ({ last, running, words }) => {
  expect(assessmentSyncWords(assessmentSync(last, running, HOUR_MS))).toBe(words);
});

test('the estimate of a full sync never undercuts the time it has taken', () => {
  const running = { startedAt: 0, seen: 9, total: 5 };
  expect(assessmentSync(null, running, 3_000)).toEqual({
    last_seconds: null,
    running: { elapsed_seconds: 3, estimated_seconds: 3 },
  });
});

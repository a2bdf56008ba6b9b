import { expect, it } from 'vitest';
import { attentionOf } from '../../src/ops/attention.ts';
import { liveFacts } from './harness.ts';

const events = { pending: 3, processed: 9, ignored: 1, failed: 0, discarded: 2 };
const verdict = { reason: 'in_sync' };
const summary = { events, quarantined: 0, open_gaps_by: [] } as never;

it('nothing needs attention where nothing waits for a person', () => {
  expect(attentionOf({ summary, pending: [], rejected: [], live: liveFacts(), verdict })).toEqual([]);
  expect(attentionOf({ summary: null, pending: [], rejected: [], live: liveFacts(), verdict })).toEqual([]);
});

it('all that waits for a person is named, each with its one place', () => {
  const live = liveFacts();
  const list = attentionOf({
    summary: {
      events: { ...events, failed: 2 },
      quarantined: 1,
      open_gaps_by: [
        { reason: 'failed_event', kind: 'vendor', count: 2, oldest_at: '' },
        { reason: 'downtime', kind: null, count: 1, oldest_at: '' },
        { reason: 'unreadable_answer', kind: 'vendor', count: 2, oldest_at: '' },
        { reason: 'unreadable_answer', kind: 'policy', count: 1, oldest_at: '' },
        { reason: 'restored', kind: 'risk_assessment', count: 1, oldest_at: '' },
      ],
    } as never,
    pending: [{ sync_run_id: 7, kind: 'vendor', count: 1 }],
    rejected: [
      ['bad_signature', 3],
      ['too_old', 1],
    ],
    live,
    verdict,
  });
  expect(list.map(({ what, href }) => `${what} → ${href}`)).toEqual([
    '1 deletion of vendors waits for approval → /sync-runs/7#pending',
    '4 gaps need a person → /gaps?reason=unreadable_answer,restored',
    '2 events failed → /events?state=failed',
    '1 signed delivery could not be used → /quarantine',
    '4 deliveries rejected in the last hour, for 2 reasons → /deliveries?outcome=rejected',
  ]);
});

it('a pause and a service that does not answer are named where the headline speaks of something else', () => {
  const live = liveFacts();
  live.pausedSince = Date.now();
  live.unreachableSince = 1;
  const named = (reason: string) =>
    attentionOf({ summary, pending: [], rejected: [], live, verdict: { reason } }).map(({ what }) => what);
  const [paused, unreachable] = ['The mirror is paused', 'The compliance service gives no usable answer'];
  expect(named('database_unwritable')).toEqual([paused, unreachable]);
  expect(named('paused')).toEqual([unreachable]);
  expect(named('upstream_unreachable')).toEqual([paused]);
});

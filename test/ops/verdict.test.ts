import { describe, expect, test } from 'vitest';
import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import type { Verdict } from '../../src/mirror/problems.ts';
import { PROBLEMS } from '../../src/mirror/problems.ts';
import { commandOf, databaseProblem, type Problem, worstFirst } from '../../src/ops/problems.ts';
import { isWell, serviceVerdict } from '../../src/ops/verdict.ts';
import type { KindStatus } from '../../src/store/reports.ts';
import type { ProblemReason } from '../../src/store/store.ts';

const NOW = Date.parse('2026-11-20T12:00:00Z');
const ago = (minutes: number) => new Date(NOW - minutes * 60_000).toISOString();

const kind = (of: Kind, verdict: Verdict, over: Partial<KindStatus> = {}): KindStatus => ({
  kind: of,
  verdict,
  complete: true,
  since: ago(30),
  records: 10,
  deleted: 0,
  unverified: 0,
  oldest_unverified_at: null,
  last_full_sync_at: ago(20),
  complete_through: ago(20),
  problems: 0,
  accepted: 0,
  ...over,
});
const all = (policy: Verdict, risk: Verdict, vendor: Verdict, over: Partial<KindStatus> = {}) =>
  [policy, risk, vendor].map((verdict, nth) => kind(KINDS[nth]!, verdict, over));

const problem = (reason: ProblemReason, over: Partial<Problem> = {}): Problem => {
  const { verdict, needs, sentence, action } = PROBLEMS[reason];
  return {
    id: 1,
    kind: null,
    record_id: null,
    reason,
    verdict,
    needs,
    sentence,
    action,
    opened_at: ago(5),
    resolved_at: null,
    times: 1,
    error: null,
    digest: 'x',
    ...over,
  };
};

describe('the verdict of the service', () => {
  test.each([
    ['in sync', all('in_sync', 'in_sync', 'in_sync'), [], 'in_sync', /^The mirror is in sync with/],
    ['known only', all('in_sync', 'known_only', 'in_sync'), [], 'known_only', /no list of risk assessments/],
    [
      'at work',
      all('in_sync', 'catching_up', 'in_sync', { unverified: 2 }),
      [],
      'catching_up',
      /^The mirror is catching up: 3 events wait, 2 records are to be verified\.$/,
    ],
    [
      'in its first full sync',
      all('catching_up', 'catching_up', 'in_sync', { last_full_sync_at: null }),
      [],
      'catching_up',
      /the first full sync is not finished, /,
    ],
    ['without an API', all('unverified', 'unverified', 'unverified'), [], 'unverified', /cannot check it\.$/],
    [
      'without a heartbeat',
      all('stale', 'stale', 'stale'),
      [problem('downtime')],
      'stale',
      /its heartbeat\.$/,
    ],
    [
      'the worst of its problems',
      all('catching_up', 'catching_up', 'action_required'),
      worstFirst([problem('downtime'), problem('pending_deletions', { kind: 'vendor' })]),
      'action_required',
      new RegExp(PROBLEMS.pending_deletions.sentence),
    ],
    [
      'of a database that cannot be read',
      [],
      [databaseProblem({ unwritableSince: null, databaseError: null }, NOW, NOW)!],
      'action_required',
      /^The database cannot be read\.$/,
    ],
  ] as const)('is %s', (_, kinds, problems, verdict, sentence) => {
    const found = serviceVerdict(kinds, problems, {
      pending: verdict === 'catching_up' && kinds[1]!.unverified > 0 ? 3 : 0,
      failed: 0,
    });
    expect(found).toMatchObject({ verdict, sentence: expect.stringMatching(sentence) });
    expect(isWell(found.verdict)).toBe(verdict === 'in_sync' || verdict === 'known_only');
  });

  test('holds since its problem opened, or since the first kind fell to it or the last one rose to it', () => {
    const [one, two, three] = [
      kind('policy', 'in_sync', { since: ago(9) }),
      kind('vendor', 'in_sync', { since: ago(4) }),
      kind('risk_assessment', 'catching_up', { since: ago(2) }),
    ];
    expect(serviceVerdict([one, two], []).since).toBe(ago(4));
    expect(serviceVerdict([one, { ...two, verdict: 'catching_up' }, three], []).since).toBe(ago(4));
    expect(serviceVerdict([{ ...one, verdict: 'action_required' }], [problem('paused')]).since).toBe(ago(5));
    expect(serviceVerdict([one, { ...two, since: null }], []).since).toBeNull();
  });
});

test('the worst problem comes first, of equal ones the one that needs you, then the older', () => {
  const listed = [
    problem('downtime', { id: 1 }),
    problem('full_sync_overdue', { id: 2 }),
    problem('silence', { id: 3 }),
    problem('paused', { id: 4 }),
    problem('credentials_rejected', { id: 5, opened_at: ago(9) }),
    problem('unreachable', { id: 6 }),
  ];
  expect(worstFirst(listed).map(({ id }) => id)).toEqual([5, 4, 6, 3, 2, 1]);
});

test('a database that took no write for a moment is no problem, and then one', () => {
  const at = (ms: number) =>
    databaseProblem({ unwritableSince: NOW - ms, databaseError: 'disk full' }, null, NOW);
  expect(at(5_000)).toBeNull();
  expect(at(6_000)).toMatchObject({
    id: 0,
    error: 'disk full',
    sentence: expect.stringContaining('takes no writes'),
  });
});

test('the command that helps has the problem’s own names', () => {
  expect(commandOf(problem('pending_deletions', { id: 7 }))).toBe('problems approve 7');
  expect(commandOf(problem('downtime'))).toBeNull();
});

import { describe, expect, test } from 'vitest';
import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import { GAP_TEXTS } from '../../src/ops/gap-texts.ts';
import { judge } from '../../src/ops/judge.ts';
import type { VerdictInput } from '../../src/ops/verdict.ts';
import type { KindStatus, OpenGaps, StoreSummary } from '../../src/store/reports.ts';
import type { GapReason } from '../../src/store/store.ts';
import { liveFacts } from './harness.ts';

const NOW = Date.parse('2026-11-20T12:00:00Z');
const MINUTE = 60_000;
const ago = (minutes: number) => new Date(NOW - minutes * MINUTE).toISOString();

function kindStatus(kind: Kind, over: Partial<KindStatus> = {}): KindStatus {
  return {
    kind,
    verdict: 'in_sync',
    in_sync_since: ago(30),
    records: 10,
    verified: 10,
    unverified: 0,
    deleted: 0,
    complete_through: null,
    readable_since: ago(60),
    oldest_unverified_at: null,
    last_full_sync_seconds: 1,
    known: 1,
    last_full_sync_at: ago(20),
    open_gaps: 0,
    coverage: '',
    ...over,
  };
}

function summary(over: Partial<StoreSummary> = {}, policies: Partial<KindStatus> = {}): StoreSummary {
  return {
    kinds: [kindStatus('policy', policies), kindStatus('risk_assessment'), kindStatus('vendor')],
    events: { pending: 0, processed: 5, ignored: 0, failed: 0, discarded: 0 },
    oldest_pending_at: null,
    last_delivery_at: ago(3),
    quarantined: 0,
    open_gaps: 0,
    open_gaps_by: [],
    resolved_gaps_last_day: 0,
    learned_pointers: [],
    database_bytes: 1,
    wal_bytes: 1,
    ...over,
  };
}

function gap(reason: GapReason, over: Partial<OpenGaps> = {}): OpenGaps {
  return { reason, kind: null, count: 1, oldest_at: ago(5), ...over };
}

function input(
  { gaps, summary: given = summary(), ...over }: Partial<VerdictInput> & { gaps?: OpenGaps[] } = {},
  live: Partial<VerdictInput['live']> = {},
): VerdictInput {
  return {
    summary: given && { ...given, open_gaps_by: gaps ?? given.open_gaps_by },
    pending: [],
    now: NOW,
    live: { ...liveFacts({ startedAt: NOW - 600 * MINUTE }), ...live },
    ...over,
  };
}

const backlog = { pending: 3, processed: 0, ignored: 0, failed: 0, discarded: 0 };
const down = {
  upstream: { ...liveFacts().upstream, ok: false, last_ok_at: ago(20), last_error: 'timeout' },
  unreachableSince: NOW - 20 * MINUTE,
};

const cases: [name: string, VerdictInput, verdict: string, reason: string, sentence: RegExp][] = [
  ['all is well', input(), 'in_sync', 'in_sync', /in sync with the compliance service\.$/],
  [
    'a copy of the database was put back',
    input({ gaps: [gap('restored', { kind: 'risk_assessment' })] }),
    'action_required',
    'restored',
    /^A copy of the database was put back, so risk assessments may be missing here\.$/,
  ],
  [
    'a copy was put back, and what has a list is being read again',
    input({ summary: summary({}, { verdict: 'catching_up' }), gaps: [gap('restored', { kind: 'policy' })] }),
    'catching_up',
    'gaps_open',
    /policies are being brought into sync/,
  ],
  [
    'a copy was put back, and there is no API to read anything again',
    input({ gaps: [gap('restored', { kind: 'policy' })] }, { eventsOnly: true }),
    'action_required',
    'restored',
    /so records may be missing here\.$/,
  ],
  [
    'a record the API does not show',
    input({ gaps: [gap('unresolved', { kind: 'policy' })] }),
    'in_sync',
    'in_sync_but_unresolved',
    /does not show 1 record that/,
  ],
  // blocked
  [
    'the database cannot be read',
    input({ summary: null }),
    'action_required',
    'database_unreadable',
    /cannot be read/,
  ],
  [
    'the database takes no writes',
    input({}, { unwritableSince: NOW - 20_000 }),
    'action_required',
    'database_unwritable',
    /takes no writes/,
  ],
  [
    'the database took none for a moment',
    input({}, { unwritableSince: NOW - 3_000 }),
    'in_sync',
    'in_sync',
    /in sync/,
  ],
  [
    'no secret is known',
    input({}, { secrets: [] }),
    'action_required',
    'no_signing_secret',
    /No signing secret/,
  ],
  [
    'it is paused',
    input({ summary: summary({ events: backlog }) }, { pausedSince: NOW }),
    'action_required',
    'paused',
    /3 events wait/,
  ],
  [
    'one event waits while paused',
    input({ summary: summary({ events: { ...backlog, pending: 1 } }) }, { pausedSince: NOW }),
    'action_required',
    'paused',
    /1 event waits/,
  ],
  [
    'the credentials are rejected',
    input({ gaps: [gap('credentials_rejected')] }),
    'action_required',
    'credentials_rejected',
    /rejects our credentials, so nothing can be verified\.$/,
  ],
  [
    'the credentials are rejected for one kind, while the others are read',
    input({ gaps: [gap('credentials_rejected', { kind: 'vendor' })] }),
    'action_required',
    'credentials_rejected',
    /rejects our credentials for the vendors, which cannot be verified\.$/,
  ],
  [
    'the credentials are rejected for each kind',
    input({ gaps: KINDS.map((kind) => gap('credentials_rejected', { kind })) }),
    'action_required',
    'credentials_rejected',
    /rejects our credentials, so nothing can be verified\.$/,
  ],
  [
    'no token can be used',
    input({ gaps: [gap('credentials_rejected')] }, { lacksCredentials: true }),
    'action_required',
    'credentials_rejected',
    /^There is no token .* that can be used/,
  ],
  [
    'deletions are pending',
    input({ pending: [{ sync_run_id: 4, kind: 'vendor', count: 7 }] }),
    'action_required',
    'deletion_pending',
    /^7 deletions wait for your approval/,
  ],
  [
    'the upstream gives no usable answer',
    input({}, down),
    'unreachable',
    'upstream_unreachable',
    /gives no usable answer/,
  ],
  [
    'the upstream gives no usable answer, and nothing was ever read',
    input({ summary: summary({}, { last_full_sync_at: null }) }, down),
    'unreachable',
    'upstream_unreachable',
    /no usable answer/,
  ],
  [
    'deletions cannot be proven',
    input({ gaps: [gap('deletions_unproven', { kind: 'policy' })] }),
    'action_required',
    'deletions_unproven',
    /could not be proven/,
  ],
  [
    'an event does not say which assessment it is about',
    input({ gaps: [gap('no_record_id', { kind: 'risk_assessment' })] }),
    'action_required',
    'no_record_id',
    /do not say which risk assessment/,
  ],
  [
    'an event does not say which policy it is about, which the list will show',
    input({
      summary: summary({}, { verdict: 'catching_up' }),
      gaps: [gap('no_record_id', { kind: 'policy' })],
    }),
    'catching_up',
    'gaps_open',
    /policies are being brought/,
  ],
  [
    'an answer cannot be understood',
    input({ gaps: [gap('unreadable_answer', { kind: 'vendor' })] }),
    'action_required',
    'unreadable_answer',
    /could not be understood/,
  ],
  [
    'the view calls a kind blocked',
    input({ summary: summary({}, { verdict: 'action_required' }) }),
    'action_required',
    'action_required',
    /policies/,
  ],
  // stale
  [
    'the last full sync is too long ago',
    input({ summary: summary({}, { last_full_sync_at: ago(140) }) }),
    'stale',
    'full_sync_overdue',
    /policies were last compared in full 2 hours ago/,
  ],
  [
    'no full sync was ever whole, and the view calls that stale',
    input({ summary: summary({}, { last_full_sync_at: null, verdict: 'stale' }) }),
    'stale',
    'full_sync_overdue',
    /policies have never been compared in full/,
  ],
  [
    'a record has long been unverified',
    input({ summary: summary({}, { unverified: 2, oldest_unverified_at: ago(50) }) }),
    'stale',
    'verification_overdue',
    /2 policies have been unverified for up to 50 minutes/,
  ],
  [
    'nothing has arrived for a day',
    input({ summary: summary({ last_delivery_at: ago(26 * 60) }) }, { startedAt: NOW - 3000 * MINUTE }),
    'stale',
    'silence',
    /26 hours/,
  ],
  [
    'nothing has ever arrived',
    input({ summary: summary({ last_delivery_at: null }) }, { startedAt: NOW - 3000 * MINUTE }),
    'stale',
    'silence',
    /No delivery has ever/,
  ],
  ['the silence is a gap already', input({ gaps: [gap('silence')] }), 'stale', 'silence', /3 minutes/],
  [
    'signatures are rejected',
    input({ gaps: [gap('rejected_signatures')], summary: summary({ last_delivery_at: ago(9) }) }),
    'stale',
    'rejected_signatures',
    /rejected for their signature/,
  ],
  [
    'signatures are rejected again after one was accepted',
    input({ gaps: [gap('rejected_signatures')] }, { rejectsSignatures: true }),
    'stale',
    'rejected_signatures',
    /rejected for their signature/,
  ],
  [
    'signatures were rejected, and a delivery was accepted since',
    input({ gaps: [gap('rejected_signatures')], summary: summary({}, { verdict: 'catching_up' }) }),
    'catching_up',
    'gaps_open',
    /./,
  ],
  [
    'all that is signed correctly is rejected for its time',
    input({}, { untimelySince: NOW - 3 * MINUTE }),
    'stale',
    'rejected_timestamp',
    /rejected for their time/,
  ],
  [
    'events wait for long',
    input({ summary: summary({ events: backlog, oldest_pending_at: ago(9) }) }),
    'stale',
    'backlog_overdue',
    /3 events wait, the oldest for 9 minutes/,
  ],
  [
    'the heart has stopped',
    input({ summary: summary({}, { verdict: 'stale' }) }),
    'stale',
    'heartbeat_missed',
    /stopped writing its heartbeat/,
  ],
  // unverified
  [
    'there are no credentials',
    input({}, { eventsOnly: true }),
    'unverified',
    'events_only',
    /cannot check it\.$/,
  ],
  [
    'there are no credentials, and events wait',
    input({ summary: summary({ events: backlog }) }, { eventsOnly: true }),
    'unverified',
    'events_only',
    /3 events still/,
  ],
  [
    'there are no credentials any more, and what was read with them is old',
    input(
      {
        summary: summary(
          {},
          { last_full_sync_at: ago(9999), unverified: 2, oldest_unverified_at: ago(9999) },
        ),
      },
      { eventsOnly: true },
    ),
    'unverified',
    'events_only',
    /cannot check it\.$/,
  ],
  // catching up
  ['it is starting', input({}, { state: 'starting' }), 'catching_up', 'starting', /is starting/],
  ['it is migrating', input({}, { state: 'migrating' }), 'catching_up', 'migrating', /is starting/],
  ['it is draining', input({}, { state: 'draining' }), 'catching_up', 'draining', /stops/],
  [
    'the first full sync is not finished',
    input({ summary: summary({}, { last_full_sync_at: null }) }),
    'catching_up',
    'first_full_sync',
    /first full sync of the policies is not finished/,
  ],
  [
    'events wait for longer than a burst explains',
    input({ summary: summary({ events: backlog, oldest_pending_at: ago(1) }) }),
    'catching_up',
    'backlog_late',
    /^3 events wait, the oldest for 1 minute\.$/,
  ],
  [
    'events wait',
    input({ summary: summary({ events: backlog }) }),
    'catching_up',
    'backlog',
    /processing 3 events/,
  ],
  [
    'a record is unverified',
    input({ summary: summary({}, { unverified: 1, oldest_unverified_at: ago(1) }) }),
    'catching_up',
    'verifying',
    /^1 record is being checked/,
  ],
  [
    'the view calls a kind catching up',
    input({ summary: summary({}, { verdict: 'catching_up' }), gaps: [gap('downtime')] }),
    'catching_up',
    'gaps_open',
    /policies are being brought/,
  ],
];

test.each(cases)('when %s', (_name, given, verdict, reason, sentence) => {
  const judged = judge(given);
  expect(judged).toMatchObject({ verdict, reason });
  expect(judged.sentence).toMatch(sentence);
});

test.each(cases.filter(([, , verdict]) => ['action_required', 'stale', 'unverified'].includes(verdict)))(
  'when %s, it also says what to do',
  (_name, given) => {
    expect(judge(given).remedy).toMatch(/\w{3}.*\.$/);
    // Commands and notifications have it as well, and nothing after it.
    expect(judge(given).remedy).not.toContain('below');
  },
);

test('without a signing secret, who has registered already is told what is left to do', () => {
  const { remedy } = judge(input({}, { secrets: [] }));
  expect(remedy).toMatch(
    /If it is registered, .*restart: the service was started without CREDENTIALS_KEY\.$/,
  );
});

test('while no answer is of use, the remedy has the error and leads to the doctor, who knows what helps against it', () => {
  expect(judge(input({}, down)).remedy).toMatch(/“doctor” says what to do about the last error: timeout\.$/);
});

describe('what does not yet make it worse', () => {
  test.each([
    [
      'a full sync within twice its interval',
      input({ summary: summary({}, { last_full_sync_at: ago(125) }) }),
    ],
    [
      'no timer for full syncs',
      input({ summary: summary({}, { last_full_sync_at: ago(9999) }) }, { fullSyncMs: 0 }),
    ],
    [
      'silence that nobody asked about',
      input({ summary: summary({ last_delivery_at: ago(9999) }) }, { silenceMs: 0 }),
    ],
    ['silence since a start that is younger', input({ summary: summary({ last_delivery_at: ago(9999) }) })],
    ['one failed request', input({}, { ...down, unreachableSince: null })],
    ['a short outage of the upstream', input({ gaps: [gap('upstream_unavailable')] })],
    [
      'a long outage that is over, but for its gap',
      input({ gaps: [gap('upstream_unavailable', { oldest_at: ago(45) })] }),
    ],
    [
      'no heartbeat just after the start',
      input({ summary: summary({}, { verdict: 'stale' }) }, { startedAt: NOW - 5000 }),
    ],
  ])('%s', (_name, given) => {
    expect(judge(given).verdict).toBe('in_sync');
  });
});

test('what a person must mend is said before what is merely late', () => {
  const late = summary({ events: backlog }, { last_full_sync_at: ago(9999), unverified: 3 });
  expect(judge(input({ summary: late, gaps: [gap('credentials_rejected')] })).reason).toBe(
    'credentials_rejected',
  );
  expect(judge(input({ summary: late })).verdict).toBe('stale');
  // A long outage delays all else.
  expect(judge(input({ summary: late }, down)).verdict).toBe('unreachable');
});

test('a service without credentials whose heart has stopped is first of all not running well', () => {
  const stopped = input({ summary: summary({}, { verdict: 'stale' }) }, { eventsOnly: true });
  expect(judge(stopped).reason).toBe('heartbeat_missed');
});

test('a start that finds no full sync and an old heartbeat is not late yet', () => {
  const unread = summary({}, { last_full_sync_at: null, verdict: 'stale' });
  expect(judge(input({ summary: unread }, { startedAt: NOW - 5000 })).reason).toBe('first_full_sync');
});

test('records are unverified since the oldest of them, whatever its kind', () => {
  const unverified = (kind: Kind, minutes: number) =>
    kindStatus(kind, { unverified: 1, oldest_unverified_at: ago(minutes) });
  const kinds = [unverified('policy', 2), unverified('risk_assessment', 9), unverified('vendor', 4)];
  expect(judge(input({ summary: summary({ kinds }) })).since).toBe(ago(9));
});

test('an old record that the API does not show makes the others neither late nor hidden', () => {
  const gaps = [gap('unresolved', { kind: 'policy' })];
  const judged = judge(
    input({ gaps, summary: summary({}, { unverified: 1, oldest_unverified_at: ago(500) }) }),
  );
  expect(judged.reason).toBe('verifying');
});

test.each([
  [29, 0, 'verifying'],
  [31, 0, 'verification_overdue'],
  [59, 3 * MINUTE, 'verifying'],
  [61, 3 * MINUTE, 'verification_overdue'],
])('unverified for %i minutes, with a consistency window of %i ms, is %s', (minutes, settleMs, reason) => {
  const unverified = summary({}, { unverified: 1, oldest_unverified_at: ago(minutes) });
  // What the API does not show of another kind excuses nothing.
  const gaps = [gap('unresolved', { kind: 'vendor' })];
  expect(judge(input({ summary: unverified, gaps }, { settleMs })).reason).toBe(reason);
});

test('what waits for the compliance service says so while that does not answer', () => {
  const silent = { ...down, unreachableSince: null };
  const unasked = { upstream: { ...down.upstream, ok: null } };
  for (const waiting of [{ unverified: 1 }, { verdict: 'catching_up' }, { readable_since: null }] as const) {
    const remedyWith = (live: Parameters<typeof input>[1]) =>
      judge(input({ summary: summary({}, waiting) }, live)).remedy;
    expect(remedyWith(silent)).toMatch(/gives no usable answer right now. It is asked again automatically/);
    expect(remedyWith(unasked) ?? '').not.toMatch(/no usable answer/);
  }
});

test('a compliance service that asks for a pause is not said to be asked before its end', () => {
  const upstream = { ...down.upstream, waits_until: '2026-11-27T00:09:01.000Z' };
  expect(judge(input({}, { ...down, upstream })).remedy).toMatch(
    /^It asked us to wait, so it is asked again at 00:10 UTC, and deliveries/,
  );
});

test('deletions wait since the first of them was found', () => {
  const gaps = [gap('deletion_pending', { kind: 'vendor' }), gap('downtime', { oldest_at: ago(90) })];
  const pending = [{ sync_run_id: 4, kind: 'vendor' as const, count: 7 }];
  expect(judge(input({ pending, gaps })).since).toBe(ago(5));
});

test('what is open counts, however many gaps hide it', () => {
  const many = gap('failed_event', { kind: 'vendor', count: 40_000 });
  expect(judge(input({ gaps: [many, gap('credentials_rejected')] })).reason).toBe('credentials_rejected');
  const unresolved = gap('unresolved', { kind: 'vendor', count: 700 });
  const heardSince = gap('rejected_signatures');
  expect(judge(input({ gaps: [unresolved, heardSince] })).sentence).toMatch(/does not show 700 records/);
});

test('the oldest gap of several says since when a kind is behind', () => {
  const gaps = [
    gap('list_incomplete', { kind: 'policy' }),
    gap('downtime', { oldest_at: ago(90) }),
    gap('total_mismatch', { kind: 'vendor', oldest_at: ago(200) }),
    gap('unresolved', { kind: 'policy', oldest_at: ago(300) }),
  ];
  const judged = judge(input({ summary: summary({}, { verdict: 'catching_up' }), gaps }));
  expect(judged).toMatchObject({ reason: 'gaps_open', since: ago(90) });
});

test('once all pending deletions are approved, nobody is asked to approve them', () => {
  const gaps = [gap('deletion_pending', { kind: 'policy' })];
  const judged = judge(input({ summary: summary({}, { verdict: 'catching_up' }), gaps }));
  expect(judged).toMatchObject({
    verdict: 'catching_up',
    remedy: expect.stringMatching(/^The deletions are approved\./),
  });
});

test('a first full sync that cannot end says why, and what to do', () => {
  const first = summary({}, { last_full_sync_at: null });
  const judged = judge(input({ summary: first, gaps: [gap('total_mismatch', { kind: 'policy' })] }));
  expect(judged).toMatchObject({ reason: 'first_full_sync', verdict: 'catching_up' });
  expect(judged.remedy).toMatch(/^A list and its own total disagree\. .*permission hides records/);
  expect(judge(input({ summary: first })).remedy).toContain('the last full syncs say');
  const running = { id: 1, kind: 'policy' as const, pages: 1, seen: 1, estimated_total: null };
  const rates = { records_per_second: 1, seconds_left: null, started_at: ago(1) };
  expect(judge(input({ summary: first }, { runningSyncRuns: [{ ...running, ...rates }] }))).toMatchObject({
    sentence: expect.stringContaining('is under way'),
    remedy: null,
  });
});

test('what is paused is so since the pause, or since nobody knows when', () => {
  expect(judge(input({}, { pausedSince: Date.parse(ago(7)) })).since).toBe(ago(7));
});

test('it is in sync since the last kind came into sync', () => {
  expect(judge(input({ summary: summary({}, { in_sync_since: ago(4) }) })).since).toBe(ago(4));
  expect(judge(input({ summary: summary({}, { in_sync_since: null }) })).since).toBeNull();
});

test.each([
  ['resume', input({}, { pausedSince: NOW })],
  ['approve', input({ pending: [{ sync_run_id: 1, kind: 'policy', count: 3 }] })],
  ['sync', input({ summary: summary({}, { last_full_sync_at: ago(500) }) })],
])('the button %s stands beside the verdict that it ends', (action, given) => {
  expect(judge(given).action).toBe(action);
});

test('where the error of an unreadable answer names a setting, that comes before all else', () => {
  expect(GAP_TEXTS.unreadable_answer.remedy).toMatch(
    /^If the error of the gap names a setting, change that and restart\. /,
  );
});

test('every reason for a gap has words and a remedy', () => {
  for (const [reason, text] of Object.entries(GAP_TEXTS)) {
    expect(text.title, reason).toMatch(/^[A-Z].*[^.]$/);
    expect(text.remedy, reason).toMatch(/^[A-Z].*\.$/);
  }
});

test('where the database said what is wrong, the remedy has its words and not a list of guesses', () => {
  const databaseError = 'Its error: the disk is full (free space; nothing acknowledged is lost).';
  const [unwritable, unreadable] = [
    judge(input({}, { unwritableSince: NOW - 20_000, databaseError })),
    judge(input({ summary: null }, { databaseError })),
  ];
  expect([unwritable.remedy, unreadable.remedy]).toEqual(
    Array(2).fill(expect.stringContaining(databaseError)),
  );
  expect(unwritable.remedy).not.toContain('See whether');
});

test('where no service runs, the remedy says to start it', () => {
  expect(judge(input({}, { state: 'stopped' })).remedy).toContain('serve');
  expect(judge(input({}, { state: 'elsewhere' })).remedy).toBeNull();
});

test('a remedy that has a setting changed says what takes it up', () => {
  const remedies = [
    judge(input({ gaps: [gap('credentials_rejected')] })),
    judge(input({ gaps: [gap('rejected_signatures')], summary: summary({ last_delivery_at: null }) })),
    judge(input({}, { secrets: [] })),
    judge(input({}, { eventsOnly: true })),
  ].map(({ remedy }) => remedy);
  expect(remedies).toEqual(Array(4).fill(expect.stringContaining('restart')));
});

describe('for a command that asked none of the services', () => {
  const elsewhere = { state: 'elsewhere' as const, secrets: [], startedAt: NOW };

  test('the tables give the reason, and never that of a secret which they do not show', () => {
    const gaps = [gap('credentials_rejected')];
    const blocked = summary({}, { verdict: 'action_required' });
    expect(judge(input({ summary: blocked, gaps }, elsewhere)).reason).toBe('credentials_rejected');
  });

  test('its own start is no beginning', () => {
    const unread = summary({}, { verdict: 'catching_up', last_full_sync_at: null });
    expect(judge(input({ summary: unread }, elsewhere))).toMatchObject({
      reason: 'first_full_sync',
      since: null,
    });
  });

  test('a verdict that the tables do not explain is one to ask a service about', () => {
    const lost = summary({}, { verdict: 'unreachable' });
    const judged = judge(input({ summary: lost, gaps: [gap('upstream_unavailable')] }, elsewhere));
    expect(judged).toMatchObject({ verdict: 'unreachable', reason: 'not_asked' });
    expect(judged.remedy).toContain('OPS_URL');
  });
});

import { describe, expect, it } from 'vitest';
import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import { EVERY_FAMILY } from '../../src/compliance/registration.ts';
import { type Findings, judge, type StoredFindings, type UpstreamFindings } from '../../src/doctor/judge.ts';
import type { KindStatus } from '../../src/store/reports.ts';

const NOW = Date.parse('2026-11-02T12:00:00Z');
const HOUR_MS = 3_600_000;
const isoAgo = (ms: number) => new Date(NOW - ms).toISOString();
const kinds = (lastSyncRun: string | null) =>
  KINDS.map((kind) => ({ kind, last_full_sync_at: lastSyncRun }) as KindStatus);

const UPSTREAM: UpstreamFindings = {
  baseUrl: 'https://api.example.com/v1',
  auth: 'oauth',
  reads: [{ route: 'GET /policies', outcome: 'ok', message: '', remedy: null }],
  answered: true,
  skewMs: 0,
  paging: [],
  assessment: { id: 'ra_1', outcome: 'found' },
  write: { granted: true, why: null },
};
const UNKNOWN = { granted: null, why: null };
const READ_ONLY = { ...UPSTREAM, write: { granted: false, why: 'read' } };
const withAssessment = (outcome: 'missing' | 'failed') => ({
  ...UPSTREAM,
  assessment: { id: 'ra_1', outcome },
});
const failed = (outcome: 'unreachable' | 'unauthorized' | 'forbidden' | 'not_the_api' | 'failing') => ({
  ...UPSTREAM,
  answered: outcome !== 'unreachable',
  reads: [{ route: 'GET /policies', outcome, message: `it is ${outcome}`, remedy: 'do this' }],
});

const STORED: StoredFindings = {
  summary: {
    kinds: kinds(isoAgo(60_000)),
    events: { pending: 0, processed: 9, ignored: 0, failed: 0, discarded: 0 },
    last_delivery_at: isoAgo(60_000),
    quarantined: 0,
    open_gaps_by: [],
  },
  isPaused: false,
  registrations: [
    {
      upstreamId: 'wh_1',
      url: 'https://hooks.example.com/webhooks',
      delivers: ['policy.*', 'risk.*', 'vendor.*'],
      expiresWall: null,
    },
  ],
  sealed: { open: 0, closed: [] },
  rejections: [],
  toSet: [],
};

const WELL: Findings = {
  now: NOW,
  warnings: [],
  database: { path: '/data/mirror.db', problem: null, remedy: null, exposure: null },
  service: { pid: 7, opsUrl: 'http://127.0.0.1:8081' },
  upstream: UPSTREAM,
  settings: { silenceMs: 24 * HOUR_MS, fullSyncMs: HOUR_MS, toleranceSeconds: 300 },
  secrets: { configured: 1, stored: 0, unusable: [] },
  receiver: { host: '127.0.0.1', port: 8080 },
  stored: STORED,
};

const stored = (changes: Partial<StoredFindings>) => ({ stored: { ...STORED, ...changes } });
const summed = (changes: Partial<StoredFindings['summary']>, others: Partial<StoredFindings> = {}) =>
  stored({ ...others, summary: { ...STORED.summary, ...changes } });
const openGap = (reason: string, kind: Kind | null) => ({ reason, kind, count: 1, oldest_at: isoAgo(0) });
const rejected = (reason: string, agoMs: number): Partial<StoredFindings> => ({
  // One that is older comes after it, as from the database.
  rejections: [
    { id: 3, at: isoAgo(agoMs), reason, t: '1793620000' },
    { id: 2, at: isoAgo(agoMs + 1), reason: 'no_signature', t: null },
  ],
});
const registered = (url: string, expiresWall: number | null = null) =>
  stored({ registrations: [{ ...STORED.registrations[0]!, url, expiresWall }] });

const stateOf = (changes: Partial<Findings>, name: string) => {
  const check = judge({ ...WELL, ...changes }).find((each) => each.name === name);
  if (check?.state === 'wrong' || check?.state === 'warning') expect(check.remedy).not.toBeNull();
  return check?.state;
};

describe('the check of a configuration', () => {
  it('finds nothing where nothing is wrong', () => {
    expect(judge(WELL).filter(({ state }) => state !== 'ok')).toEqual([]);
  });

  const cases: [string, Partial<Findings>, string, string][] = [
    [
      'a setting that nothing reads',
      { warnings: ['WEBHOOK_SECRET: no such setting'] },
      'settings',
      'warning',
    ],
    [
      'a database that cannot be used',
      { database: { ...WELL.database, problem: 'full' } },
      'database',
      'wrong',
    ],
    [
      'a database over a network without TLS',
      { database: { ...WELL.database, exposure: { says: 'open', remedy: 'close it' } } },
      'database',
      'warning',
    ],
    ['no service', { service: null }, 'service', 'warning'],
    ['replicas', { service: { replicas: 2 } }, 'service', 'ok'],
    ['replicas that cannot be counted', { service: undefined }, 'service', 'skipped'],
    ['no answer', { upstream: failed('unreachable') }, 'base URL', 'wrong'],
    ['no answer, for the credentials', { upstream: failed('unreachable') }, 'credentials', 'skipped'],
    ['an answer of something else', { upstream: failed('not_the_api') }, 'base URL', 'wrong'],
    ['a failing service', { upstream: failed('failing') }, 'base URL', 'wrong'],
    ['refused credentials', { upstream: failed('unauthorized') }, 'credentials', 'wrong'],
    ['refused credentials, for the address', { upstream: failed('unauthorized') }, 'base URL', 'ok'],
    ['no sign-in', { upstream: { ...failed('unauthorized'), answered: false } }, 'base URL', 'skipped'],
    ['a scope too few', { upstream: failed('forbidden') }, 'scopes', 'wrong'],
    ['a scope too few, for the credentials', { upstream: failed('forbidden') }, 'credentials', 'ok'],
    ['clocks 6 s apart', { upstream: { ...UPSTREAM, skewMs: -6_000 } }, 'clock', 'warning'],
    ['clocks 10 min apart', { upstream: { ...UPSTREAM, skewMs: 600_000 } }, 'clock', 'wrong'],
    ['no Date', { upstream: { ...UPSTREAM, skewMs: null } }, 'clock', 'skipped'],
    [
      'an API key, for writing',
      { upstream: { ...UPSTREAM, auth: 'api_key', write: UNKNOWN } },
      'write scope',
      'skipped',
    ],
    ['scopes of no known meaning', { upstream: { ...UPSTREAM, write: UNKNOWN } }, 'write scope', 'skipped'],
    ['a sign-in for reading, registered', { upstream: READ_ONLY }, 'write scope', 'ok'],
    [
      'a sign-in for reading, not registered',
      { upstream: READ_ONLY, ...stored({ registrations: [] }) },
      'write scope',
      'warning',
    ],
    ['refused credentials, for writing', { upstream: failed('unauthorized') }, 'write scope', 'skipped'],
    [
      'a page parameter that nobody heeds',
      {
        upstream: {
          ...UPSTREAM,
          paging: [
            {
              kind: 'policy',
              finding: { set: { name: 'COMPLIANCE_PAGE_PARAM', value: 'offset' }, sentence: 'x' },
            },
          ],
        },
      },
      'paging',
      'wrong',
    ],
    [
      'no assessment to ask for',
      { upstream: { ...UPSTREAM, assessment: null } },
      'risk assessments',
      'skipped',
    ],
    ['an assessment not found', { upstream: withAssessment('missing') }, 'risk assessments', 'warning'],
    ['assessments that cannot be read', { upstream: withAssessment('failed') }, 'risk assessments', 'wrong'],
    [
      'assessments, where the credentials are refused',
      { upstream: { ...failed('unauthorized'), assessment: { id: 'ra_1', outcome: 'failed' } } },
      'risk assessments',
      'skipped',
    ],
    [
      'assessments, where nothing answers',
      { upstream: { ...failed('unreachable'), assessment: { id: 'ra_1', outcome: 'failed' } } },
      'risk assessments',
      'skipped',
    ],
    ['events only', { upstream: null }, 'sync-runs', 'skipped'],
    [
      'no secret in the settings, and a database that cannot say whether it has one',
      {
        secrets: { configured: 0, stored: 0, unusable: [] },
        stored: null,
        database: { ...WELL.database, problem: 'the disk is full', remedy: 'free space' },
      },
      'signing secrets',
      'skipped',
    ],
    [
      'no secret in the settings, and no database yet',
      {
        secrets: { configured: 0, stored: 0, unusable: [] },
        stored: null,
        database: { ...WELL.database, problem: 'there is no database yet', remedy: null },
      },
      'signing secrets',
      'wrong',
    ],
    ['no secret', { secrets: { configured: 0, stored: 0, unusable: [] } }, 'signing secrets', 'wrong'],
    [
      'a secret of a registration',
      { secrets: { configured: 0, stored: 1, unusable: [] } },
      'signing secrets',
      'ok',
    ],
    [
      'one that makes no key',
      { secrets: { configured: 1, stored: 0, unusable: [{ what: 'it is no hex', remedy: 'do this' }] } },
      'signing secrets',
      'wrong',
    ],
    [
      'one that does not open, beside the one that is configured',
      {
        ...stored({ sealed: { open: 0, closed: ['registrations wh_1'] } }),
        secrets: { configured: 1, stored: 0, unusable: [] },
      },
      'signing secrets',
      'ok',
    ],
    ['stored secrets that open', stored({ sealed: { open: 2, closed: [] } }), 'stored secrets', 'ok'],
    [
      'a stored one that does not open',
      stored({ sealed: { open: 1, closed: ['tokens oauth'] } }),
      'stored secrets',
      'wrong',
    ],
    ['no registration, with a secret', stored({ registrations: [] }), 'registration', 'warning'],
    [
      'no registration and no secret',
      { ...stored({ registrations: [] }), secrets: { configured: 0, stored: 0, unusable: [] } },
      'registration',
      'wrong',
    ],
    [
      'types that are not covered',
      stored({ registrations: [{ ...STORED.registrations[0]!, delivers: ['policy.*'] }] }),
      'registration',
      'warning',
    ],
    [
      'types that are covered at another address only',
      stored({
        registrations: [
          {
            upstreamId: 'wh_1',
            url: 'https://other.example/webhooks',
            delivers: [...EVERY_FAMILY],
            expiresWall: null,
          },
          {
            upstreamId: 'wh_2',
            url: 'https://mirror.example/webhooks',
            delivers: ['policy.*'],
            expiresWall: null,
          },
        ],
      }),
      'registration',
      'warning',
    ],
    [
      'types that two registrations of one address cover together',
      stored({
        registrations: [
          {
            upstreamId: 'wh_1',
            url: 'https://mirror.example/webhooks',
            delivers: ['policy.*'],
            expiresWall: null,
          },
          {
            upstreamId: 'wh_2',
            url: 'https://mirror.example/webhooks',
            delivers: ['risk.*', 'vendor.*'],
            expiresWall: null,
          },
        ],
      }),
      'registration',
      'ok',
    ],
    ['no delivery ever', summed({ last_delivery_at: null }), 'last delivery', 'warning'],
    ['silence', summed({ last_delivery_at: isoAgo(25 * HOUR_MS) }), 'last delivery', 'wrong'],
    [
      'silence that nobody minds',
      { ...summed({ last_delivery_at: isoAgo(25 * HOUR_MS) }), settings: { ...WELL.settings, silenceMs: 0 } },
      'last delivery',
      'ok',
    ],
    ['a rejection since the last delivery', stored(rejected('bad_signature', 1_000)), 'rejections', 'wrong'],
    ['a rejection before it', stored(rejected('bad_signature', HOUR_MS)), 'rejections', 'warning'],
    ['an old rejection before it', stored(rejected('bad_signature', 25 * HOUR_MS)), 'rejections', 'ok'],
    [
      'a rejection, and never a delivery',
      summed({ last_delivery_at: null }, rejected('bad_signature', 25 * HOUR_MS)),
      'rejections',
      'wrong',
    ],
    ['no database to look for rejections in', { stored: null }, 'rejections', 'skipped'],
    ['a sender clock that is off', stored(rejected('timestamp_too_old', 1_000)), 'sender clock', 'wrong'],
    ['milliseconds', stored(rejected('timestamp_milliseconds', 1_000)), 'sender clock', 'wrong'],
    ['one that was off', stored(rejected('timestamp_too_new', HOUR_MS)), 'sender clock', 'warning'],
    ['one that was off long ago', stored(rejected('timestamp_too_new', 25 * HOUR_MS)), 'sender clock', 'ok'],
    ['no database, for the sender clock', { stored: null }, 'sender clock', 'skipped'],
    [
      'events that failed',
      summed({ events: { ...STORED.summary.events, failed: 1 } }),
      'failed events',
      'wrong',
    ],
    ['a quarantined delivery', summed({ quarantined: 1 }), 'quarantine', 'wrong'],
    ['an open gap', summed({ open_gaps_by: [openGap('silence', null)] }), 'gaps', 'wrong'],
    ['a pause', stored({ isPaused: true }), 'paused', 'wrong'],
    ['no database, for what waits', { stored: null }, 'gaps', 'skipped'],
    ['a registration for our port', registered('http://127.0.0.1:8080/webhooks'), 'registration', 'ok'],
    ['the same by name', registered('http://localhost:8080/webhooks?k=1'), 'registration', 'ok'],
    ['one for another port', registered('http://127.0.0.1:8090/webhooks'), 'registration', 'wrong'],
    ['one for no port', registered('http://127.0.0.1/webhooks'), 'registration', 'wrong'],
    ['one for another path', registered('http://127.0.0.1:8080/webhook'), 'registration', 'wrong'],
    ['one for another path elsewhere', registered('https://m.example/hooks'), 'registration', 'wrong'],
    ['one for elsewhere', registered('https://m.example/a/webhooks'), 'registration', 'ok'],
    ['one for a proxy on this machine', registered('https://localhost/webhooks'), 'registration', 'ok'],
    [
      'one for loopback where the receiver is not',
      { ...registered('http://127.0.0.1:8080/webhooks'), receiver: { host: '10.0.0.7', port: 8080 } },
      'registration',
      'wrong',
    ],
    [
      'one for loopback where the receiver is everywhere',
      { ...registered('http://[::1]:8080/webhooks'), receiver: { host: '0.0.0.0', port: 8080 } },
      'registration',
      'ok',
    ],
    [
      'one for a port that is not known',
      { ...registered('http://127.0.0.1:9/webhooks'), receiver: { host: '127.0.0.1', port: 0 } },
      'registration',
      'ok',
    ],
    [
      'one for another port that was replaced',
      registered('http://127.0.0.1:9/webhooks', NOW),
      'registration',
      'ok',
    ],
    ['a full sync within two intervals', summed({ kinds: kinds(isoAgo(2 * HOUR_MS)) }), 'sync-runs', 'ok'],
    ['a full sync that is late', summed({ kinds: kinds(isoAgo(2.1 * HOUR_MS)) }), 'sync-runs', 'wrong'],
    ['no complete full sync', summed({ kinds: kinds(null) }), 'sync-runs', 'wrong'],
    [
      'a first full sync that is under way',
      summed({ kinds: kinds(null).map((kind) => ({ ...kind, verdict: 'catching_up' })) }),
      'sync-runs',
      'warning',
    ],
    [
      'events that name no record',
      summed({ open_gaps_by: [openGap('no_record_id', 'vendor')] }),
      'record ids',
      'wrong',
    ],
    [
      'ids that were found where no setting looks',
      stored({ toSet: [{ kind: 'vendor', path: 'a.b', setting: 'ID_POINTERS_VENDOR=a.b' }] }),
      'record ids',
      'warning',
    ],
    ['no database to look for ids in', { stored: null }, 'record ids', 'skipped'],
    [
      'full syncs on demand',
      { ...summed({ kinds: kinds(null) }), settings: { ...WELL.settings, fullSyncMs: 0 } },
      'sync-runs',
      'skipped',
    ],
  ];
  it.each(cases)('%s', (_, changes, name, expected) => {
    expect(stateOf(changes, name)).toBe(expected);
  });

  it('says which address lacks which types, and where nothing is taken', () => {
    const registrations = [
      {
        upstreamId: 'wh_1',
        url: 'https://mirror.example/webhook',
        delivers: [...EVERY_FAMILY],
        expiresWall: null,
      },
      {
        upstreamId: 'wh_2',
        url: 'https://mirror.example/webhooks',
        delivers: ['policy.*', 'risk.*'],
        expiresWall: null,
      },
    ];
    const { detail } = judge({ ...WELL, ...stored({ registrations }) }).find(
      ({ name }) => name === 'registration',
    )!;
    expect(detail).toMatch(/\/webhook \(not \/webhooks,/);
    expect(detail).toMatch(
      /; not covered at https:\/\/mirror\.example\/webhooks: vendor\.added, vendor\.\w+, vendor\.\w+, vendor\.\w+$/,
    );
  });

  it('says which pointer to set, as it was found where it was', () => {
    const gap = openGap('no_record_id', 'risk_assessment');
    const about = (gaps: (typeof gap)[], toSet: StoredFindings['toSet']) =>
      judge({ ...WELL, ...summed({ open_gaps_by: gaps }, { toSet }) }).find(
        ({ name }) => name === 'record ids',
      )?.remedy;
    expect(about([gap], [])).toMatch(
      /set ID_POINTERS_RISK_ASSESSMENT .*events retry --failed-for no_record_id/,
    );
    const setting = 'ID_POINTERS_RISK_ASSESSMENT=assessment.ref,id';
    const toSet = [{ kind: 'risk_assessment', path: 'assessment.ref', setting } as const];
    expect(about([gap], toSet)).toContain(`set ${setting} to`);
    expect(about([], toSet)).toBe(`set ${setting}`);
  });

  it('says which delivery to have explained', () => {
    const found = { ...WELL, ...stored(rejected('bad_signature', 1_000)) };
    expect(judge(found).find(({ name }) => name === 'rejections')?.remedy).toContain(
      '--delivery rejection:3',
    );
  });
});

it('where only the key is wrong, nobody is told to register again', () => {
  const sealed = { open: 0, closed: ['registrations wh_1'] };
  const found = {
    ...WELL,
    stored: { ...STORED, sealed },
    secrets: { configured: 0, stored: 0, unusable: [] },
  };
  const line = judge(found).find(({ name }) => name === 'signing secrets');
  expect(line).toMatchObject({ state: 'wrong', remedy: expect.not.stringContaining('register') });
});

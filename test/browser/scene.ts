import { createHash } from 'node:crypto';
import Database from 'better-sqlite3';
import type { Kind } from '../../src/compliance/kinds.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { type Harness, incoming, NOTHING_SYNCED, opsHarness } from '../ops/harness.ts';
import { failPending, showPending } from '../support/pending.ts';

/** Names of nobody: invented, like everything said about them. */
const VENDORS = [
  'Alder Analytics',
  'Birch Payments',
  'Cedar Mail',
  'Dogwood Cloud',
  'Elm Logistics',
  'Fir Payroll',
];
const POLICIES = [
  'Access control',
  'Incident response',
  'Data retention',
  'Acceptable use',
  'Vendor management',
];
const RISKS = ['Lost laptop', 'Phishing of finance staff', 'Outage of the payment provider'];

const TIMING = { settleMs: 1000 };
const RULES = {
  pointers: { policy: ['policyId', 'id'], risk_assessment: ['id'], vendor: ['vendorId', 'id'] },
  eventsOnly: false,
  toleranceMs: 300_000,
  guardPercent: 20,
  timing: TIMING,
};

/** A service in the middle of its day, with one of everything that a page can show. Returns the ids it made. */
export async function fillDay(h: Harness): Promise<{ synced: number; quarantined: number }> {
  await fillRecords(h);
  const synced = await fillSyncRuns(h);
  await fillEvents(h);
  fillSecrets(h);
  const silence = { reason: 'silence', kind: null, recordId: null } as const;
  await h.store.openProblem(silence, 'no delivery since 2026-11-01T09:12:00Z', h.now());
  await h.store.endProblem(silence, h.now());
  await h.store.openProblem(
    { reason: 'downtime', kind: null, recordId: null },
    'the service was not running for 212 s',
    h.now(),
  );
  await h.store.openProblem(
    { reason: 'unknown_record', kind: 'risk_assessment', recordId: 'risk_01HV8Z' },
    'GET /risk-assessments/risk_01HV8Z: 404',
    h.now(),
  );
  await h.store.accept(
    {
      events: [],
      unusable: [
        {
          reason: 'not_json',
          t: '1793534400',
          kind: 'vendor',
          recordId: null,
          body: Buffer.from([0x7b, 0x22, 0x69, 0x64, 0x22, 0x3a, 0xff, 0xfe, 0x7d]),
        },
        {
          reason: 'missing_id',
          t: '1793534460',
          kind: null,
          recordId: null,
          body: Buffer.from(
            '{"type":"vendor.updated","created":"2026-11-01T12:00:00Z","data":{"name":"<b>Alder</b>"}}',
          ),
        },
      ],
    },
    h.now(),
    TIMING,
  );
  await reject(h);
  await h.store.audit({ actor: 'olga', action: 'sign_in', outcome: 'ok', target: '127.0.0.1' }, h.now());
  await h.store.audit(
    { actor: 'rita', action: 'change', outcome: 'forbidden', target: '/api/pause' },
    h.now(),
  );
  await h.store.audit({ actor: 'service', action: 'token_refresh', outcome: 'ok', target: 'oauth' }, h.now());
  await h.hold('vendor', ['ven_old_1', 'ven_old_2', 'ven_old_3']);
  return { synced, quarantined: 1 };
}

/**
 * A good hour, lived through minute by minute: what is drawn, what is counted and what is stored tell of the same deliveries.
 * The service has run for as long.
 */
export async function goodHour(): Promise<Harness> {
  const { wall, steady, sleep } = systemClock();
  const real = { wall: wall(), steady: steady() };
  const began = real.wall - HOUR_MS;
  // The clock stands while the hour is filled, however long that takes here; then it is the real one.
  let held: number | null = began;
  const h = await opsHarness({
    clock: {
      wall: () => held ?? wall(),
      steady: () => (held === null ? steady() : real.steady + held - real.wall),
      sleep,
    },
  });
  const mirrorAll = async () => {
    for (const { kind, id, data } of GOOD_RECORDS) await h.mirror(kind, id, data);
  };
  const syncAll = async (reason: string) => {
    for (const [kind, records] of Map.groupBy(GOOD_RECORDS, ({ kind }) => kind)) {
      const { id } = await h.store.startSyncRun(kind, reason, h.now());
      held! += 400 + records.length * 13;
      const progress = { ...NOTHING_SYNCED, pages: 1, seen: records.length, unchanged: records.length };
      await h.store.finishSyncRun(
        id,
        {
          outcome: 'complete',
          error: null,
          progress,
          differences: NO_DIFFERENCES,
          listed: kind !== 'risk_assessment',
        },
        h.now(),
      );
      await h.store.noteAccess(kind, 'key', 'read', h.now());
    }
  };
  await mirrorAll();
  await syncAll('start');
  for (let minute = 0; minute < 55; minute += 1) {
    held = began + minute * 60_000 + 30_000;
    const events = Array.from(
      { length: Math.round(13 + 6 * Math.sin(minute / 9) + 4 * Math.sin(minute * 2.3)) },
      (_, n) => goodEvent(h, `${minute}-${n}`, minute * 31 + n * 7),
    );
    await h.store.accept({ events, unusable: [] }, h.now(), TIMING);
    // One in four minutes has a duplicate.
    if (minute % 4 === 3) await h.store.accept({ events: events.slice(0, 1), unusable: [] }, h.now(), TIMING);
    await showPending(h.store, h.now(), RULES);
  }
  // What shows exactly what was verified before an event counts after eighteen read delays.
  for (const ago of [300_000, 230_000, 110_000]) {
    held = wall() - ago;
    await mirrorAll();
  }
  held = wall() - 6_000;
  await syncAll('timer');
  held = null;
  await mirrorAll();
  await beat(h);
  // As the service does by and by: else the file would seem to hold nothing yet.
  const database = new Database(h.database);
  database.pragma('wal_checkpoint(TRUNCATE)');
  database.close();
  h.live.service.started_at = new Date(began).toISOString();
  h.live.service.secrets = [
    { position: 1, registration: 'wh_1', last_used_at: new Date(Date.now()).toISOString() },
  ];
  return h;
}

const HOUR_MS = 3_600_000;
const NO_DIFFERENCES = { new: 0, deleted_upstream: 0, different: 0, repaired: 0, fields: {}, examples: [] };

const GOOD_RECORDS = (
  [
    ['policy', POLICIES, 41],
    ['risk_assessment', RISKS, 17],
    ['vendor', VENDORS, 58],
  ] as const
).flatMap(([kind, names, count]) =>
  Array.from({ length: count }, (_, n) => ({
    kind,
    id: `${kind}_${n}`,
    data: { name: names[n % names.length]!, status: 'approved' },
  })),
);

function goodEvent(h: Harness, name: string, draw: number) {
  const { kind, id, data } = GOOD_RECORDS[draw % GOOD_RECORDS.length]!;
  const type = { policy: 'policy.updated', risk_assessment: 'risk.assessed', vendor: 'vendor.updated' }[kind];
  const created = new Date(h.now().wall).toISOString();
  const body = JSON.stringify({ id: `evt_${name}`, type, created, data: { id, ...data } });
  return incoming({
    id: `evt_${name}`,
    type,
    kind,
    recordId: id,
    created,
    createdMs: Date.parse(created),
    body,
    t: String(Math.floor(h.now().wall / 1000)),
    address: '192.0.2.7',
  });
}

/** The service writes its heartbeat now. */
export async function beat(h: Harness, eventsOnly = false): Promise<void> {
  await h.store.beat(h.now(), {
    eventsOnly,
    settleMs: 10_000,
    fullSyncMs: 3_600_000,
    unreachable: false,
    access: 'key',
  });
}

async function fillRecords(h: Harness): Promise<void> {
  const made: [Kind, string, string[]][] = [
    ['vendor', 'ven', VENDORS],
    ['policy', 'pol', POLICIES],
    ['risk_assessment', 'risk', RISKS],
  ];
  for (const [kind, prefix, names] of made) {
    for (const [index, name] of names.entries()) {
      const extra =
        kind === 'vendor'
          ? {
              status: index % 3 === 0 ? 'under_review' : 'approved',
              contact: { email: `hello@${index}.example` },
            }
          : kind === 'policy'
            ? { version: `1.${index}`, status: index === 0 ? 'draft' : 'approved' }
            : { status: 'open', severity: index };
      await h.mirror(kind, `${prefix}_${index}`, { name, ...extra });
    }
  }
  const { wall, steady } = h.now();
  const renamed = { name: 'Alder Analytics Ltd', status: 'approved', contact: { email: 'new@0.example' } };
  await h.store.applyReads(
    'vendor',
    [{ id: 'ven_0', json: JSON.stringify({ id: 'ven_0', ...renamed }) }],
    { number: await h.store.currentNumber(), beganAt: steady, endedAt: steady, endedWall: wall },
    {
      cause: { cause: 'sync', causeId: '3' },
      syncRunId: null,
      timing: { settleMs: 0 },
      pointers: { policy: ['id'], risk_assessment: ['id'], vendor: ['id'] },
    },
  );
}

async function fillSyncRuns(h: Harness): Promise<number> {
  let synced = 0;
  for (const [kind, seen] of [
    ['policy', 48],
    ['risk_assessment', 82],
    ['vendor', 564],
  ] as const) {
    const fullSync = await h.store.startSyncRun(kind, 'start', h.now());
    const progress = {
      ...NOTHING_SYNCED,
      pages: 6,
      seen,
      inserted: kind === 'vendor' ? 3 : 0,
      unchanged: seen,
    };
    const differences =
      kind === 'vendor'
        ? {
            new: 1,
            deleted_upstream: 0,
            different: 2,
            repaired: 3,
            fields: { status: 2, 'contact.email': 1 },
            examples: [
              { id: 'ven_0', what: 'different', fields: ['status', 'contact.email'], repaired: true },
              { id: 'ven_3', what: 'different', fields: ['status'], repaired: true },
              { id: 'ven_5', what: 'new', fields: [], repaired: true },
            ],
          }
        : { new: 0, deleted_upstream: 0, different: 0, repaired: 0, fields: {}, examples: [] };
    await h.store.finishSyncRun(
      fullSync.id,
      { outcome: 'complete', error: null, progress, differences, listed: kind !== 'risk_assessment' },
      h.now(),
    );
    synced = fullSync.id;
  }
  const failed = await h.store.startSyncRun('vendor', 'operator:olga', h.now());
  await h.store.finishSyncRun(
    failed.id,
    {
      outcome: 'failed',
      error: 'GET /vendors: 503 after 3 pages',
      progress: { ...NOTHING_SYNCED, pages: 3, seen: 212 },
    },
    h.now(),
  );
  const running = await h.store.startSyncRun('vendor', 'operator:olga', h.now());
  h.live.running = [
    {
      id: running.id,
      kind: 'vendor',
      pages: 3,
      seen: 300,
      estimated_total: 564,
      started_at: new Date().toISOString(),
    },
  ];
  await beat(h);
  return synced;
}

async function fillEvents(h: Harness): Promise<void> {
  const events = Array.from({ length: 60 }, (_, n) => {
    const id = `evt_${String(n).padStart(4, '0')}`;
    const record = `ven_${n % VENDORS.length}`;
    const data = { vendorId: record, name: VENDORS[n % VENDORS.length], score: 12345678901234567890n };
    const body = JSON.stringify(
      { id, type: 'vendor.updated', created: '2026-11-01T12:00:00Z', data },
      (_key, value) => (typeof value === 'bigint' ? Number(value) : value),
    );
    return incoming({
      id,
      type: 'vendor.updated',
      kind: 'vendor',
      recordId: record,
      body,
      address: '192.0.2.7',
    });
  });
  await h.store.accept({ events, unusable: [] }, h.now(), TIMING);
  await h.store.accept({ events: events.slice(0, 1), unusable: [] }, h.now(), TIMING);
  await showPending(h.store, h.now(), { ...RULES, limit: 5 });
  await failPending(h.store, h.now(), 'data holds no id where one is looked for');
}

function fillSecrets(h: Harness): void {
  h.live.service.secrets = [
    { position: 1, registration: null, last_used_at: new Date(Date.now() - 70_000).toISOString() },
    { position: 2, registration: null, last_used_at: null },
    { position: 3, registration: 'wh_1', last_used_at: new Date(Date.now() - 3 * 86_400_000).toISOString() },
  ];
}

async function reject(h: Harness): Promise<void> {
  const body = Buffer.from('{"id":"evt_forged","type":"vendor.updated","data":{}}');
  const bodySha256 = createHash('sha256').update(body).digest('hex');
  await h.store.recordRejections([
    {
      reason: 'bad_signature',
      t: '1793534400',
      bytes: body.length,
      bodySha256,
      header: `t=1793534400, v1=${'ab'.repeat(32)}`,
      body,
      address: '192.0.2.7',
      times: 1,
      wall: h.now().wall,
    },
    {
      reason: 'missing_header',
      t: null,
      bytes: 22,
      bodySha256: null,
      header: null,
      body: null,
      address: '192.0.2.7',
      times: 1,
      wall: h.now().wall,
    },
    {
      reason: 'timestamp_too_old',
      t: '1793530000',
      bytes: body.length,
      bodySha256,
      header: `t=1793530000, v1=${'cd'.repeat(32)}`,
      body,
      address: '192.0.2.7',
      times: 1,
      wall: h.now().wall,
    },
  ]);
  h.context.diagnose = async () => ({
    causes: [
      {
        code: 'wrong_secret',
        what: 'No known secret fits, in any reading, over any form of the body: WEBHOOK_SECRETS number 1.',
        remedy:
          'The sender uses another secret: copy it anew from the compliance service into WEBHOOK_SECRETS.',
      },
    ],
    fit: null,
  });
}

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { askOperators, type Mirror, startMirror } from './processes.ts';
import { median } from './statistics.ts';

/**
 * What each page and each list of the API costs with a hundred times as much stored: `node test/bench/pages.ts`, after
 * a build. Exits 1 if anything costs more than `MOST` times what it did. Both services run side by side and are asked in
 * turn, so that whatever else the machine does meets both.
 */
const SMALL = { events: 10_000, records: 1_000 };
const LARGE = { events: 1_000_000, records: 100_000 };
const MOST = 3;
const ROUNDS = 25;
/** A page's cost is made of milliseconds; below this, a ratio is noise. */
const FLOOR_MS = 1;

/** What these show is read anew once a second, and kept until then: asked more often, nothing would be measured. */
const KEPT = new Set(['/', '/metrics', '/api/status', '/sweeps']);
const KEPT_MS = 1_100;
const KEPT_ROUNDS = 9;

const LAST_EVENT = (events: number) => `evt_${String(events - 1).padStart(9, '0')}`;

const paths = ({ events, records }: typeof SMALL) => {
  const event = LAST_EVENT(events);
  const record = `ven_${String(Math.floor(records / 6)).padStart(7, '0')}`;
  const common = '?type=vendor.updated&state=done';
  return [
    ...[
      '/',
      '/metrics',
      '/api/status',
      '/gaps',
      '/gaps?show=healed',
      '/sweeps',
      '/quarantine',
      '/refusals',
      '/audit',
    ],
    ...[
      '/events',
      '/events?state=dead',
      '/events?state=done',
      '/events?state=pending',
      '/events?kind=policy',
    ],
    ...[`/events${common}`, '/events?type=rare.type', `/events?record_id=${record}`, `/events/${event}`],
    ...[
      `/api/events?after=${Math.floor(events / 2)}&limit=50`,
      '/api/changes?after=0&limit=50',
      '/api/gaps',
      '/api/audit',
    ],
    ...[
      '/records/vendor',
      '/records/vendor?search=Vendor',
      '/records/vendor?search=ven_00005',
      '/records/vendor?deleted=yes',
    ],
    ...['/records/vendor?unverified=yes', `/records/vendor?after=${record}`, `/records/vendor/${record}`],
    ...[`/api/records/vendor/${record}/history`, '/api/records/policy?search=policy+1'],
  ];
};

const folder = mkdtempSync(join(tmpdir(), 'mirror-pages-'));
const started: Mirror[] = [];
try {
  const small = await stored('small', SMALL);
  const large = await stored('large', LARGE);
  const failed: string[] = [];
  const [smallPaths, largePaths] = [paths(SMALL), paths(LARGE)];
  for (const [index, path] of smallPaths.entries()) {
    const times: [number[], number[]] = [[], []];
    for (let round = 0; round < (KEPT.has(path) ? KEPT_ROUNDS : ROUNDS); round += 1) {
      if (KEPT.has(path)) await setTimeout(KEPT_MS);
      times[0].push(await timed(small, path));
      times[1].push(await timed(large, largePaths[index]!));
    }
    const [before, after] = times.map(median) as [number, number];
    const ratio = Math.max(after, FLOOR_MS) / Math.max(before, FLOOR_MS);
    if (ratio > MOST) failed.push(path);
    console.log(
      `${before.toFixed(1).padStart(8)} ms ${after.toFixed(1).padStart(8)} ms  ×${ratio.toFixed(2)}  ${path}`,
    );
  }
  console.log(failed.length === 0 ? `No page costs more than ×${MOST}.` : `Too dear: ${failed.join(', ')}`);
  process.exitCode = failed.length === 0 ? 0 : 1;
} finally {
  await Promise.all(started.map(stop));
  rmSync(folder, { recursive: true, force: true });
}

async function timed(mirror: Mirror, path: string): Promise<number> {
  const started = performance.now();
  await (await askOperators(mirror, path)).text();
  return performance.now() - started;
}

async function stop(mirror: Mirror): Promise<void> {
  mirror.kill('SIGTERM');
  await mirror.exited;
}

/** A service over a database that holds so much. Its rows are written beside it, as no API could in this time. */
async function stored(name: string, { events, records }: typeof SMALL): Promise<Mirror> {
  const database = join(folder, `${name}.db`);
  await stop(await startMirror(database));
  const db = new Database(database);
  const numbers = (count: number) =>
    `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ${count - 1})`;
  const at = `strftime('%Y-%m-%dT%H:%M:%fZ', 1790000000 + i, 'unixepoch')`;
  const third = Math.ceil(records / 3);
  db.exec(`BEGIN;
    ${numbers(events)} INSERT INTO events (seq, id, type, created, created_ms, kind, record_id, received_at, last_delivered_at,
      state, attempts, processed_at, error, content_hash, body)
    SELECT i + 1, printf('evt_%09d', i), CASE WHEN i = 7 THEN 'rare.type' WHEN i % 3 = 0 THEN 'vendor.updated'
      WHEN i % 3 = 1 THEN 'policy.updated' ELSE 'risk.assessed' END, ${at}, 0,
      CASE i % 3 WHEN 0 THEN 'vendor' WHEN 1 THEN 'policy' ELSE 'risk_assessment' END,
      printf('%s_%07d', CASE i % 3 WHEN 0 THEN 'ven' WHEN 1 THEN 'pol' ELSE 'risk' END, i % ${third}), ${at}, ${at},
      CASE WHEN i % 97 = 0 THEN 'dead' ELSE 'done' END, 0, ${at}, NULL, printf('%064d', i),
      printf('{"id":"evt_%09d","type":"vendor.updated","data":{"vendorId":"x","note":"%0200d"}}', i, i) FROM n;
    UPDATE event_counts SET count = (SELECT count(*) FROM events WHERE events.state = event_counts.state);
    UPDATE counter SET value = ${events + records};
    COMMIT;`);
  for (const [kind, table, prefix] of [
    ['vendor', 'vendors', 'ven'],
    ['policy', 'policies', 'pol'],
    ['risk_assessment', 'risk_assessments', 'risk'],
  ] as const) {
    db.exec(`BEGIN;
      ${numbers(third)} INSERT INTO ${table} (id, name, status, data, first_seen_at, synced_at, verified_at, unverified_since, deleted_at, cause)
      SELECT printf('${prefix}_%07d', i), printf('${kind} %d', i), 'approved', '{"note":"some text"}', ${at}, ${at}, ${at}, NULL,
        CASE WHEN i % 50 = 0 THEN ${at} END, 'sweep:1' FROM n;
      ${numbers(third)} INSERT INTO record_state (kind, id, hint, write, returned) SELECT '${kind}', printf('${prefix}_%07d', i), i, i, 1 FROM n;
      COMMIT;`);
  }
  db.exec(`BEGIN;
    ${numbers(records)} INSERT INTO changes (seq, kind, record_id, operation, before, after, cause, at)
      SELECT i + 1, 'vendor', printf('ven_%07d', i % ${third}), 'update', '{"status":"a"}', '{"status":"b"}', 'sweep:1', ${at} FROM n;
    ${numbers(records / 10)} INSERT INTO gaps (kind, record_id, reason, opened_at, healed_at, number)
      SELECT 'vendor', printf('ven_%07d', i), 'dead_letter', ${at}, CASE WHEN i % 500 <> 0 THEN ${at} END, i FROM n;
    ${numbers(records / 10)} INSERT INTO audit (at, actor, action, outcome) SELECT ${at}, 'olga', 'sweep', 'ok' FROM n;
    ${numbers(records / 10)} INSERT INTO sweeps (kind, reason, started_at, finished_at, outcome, number)
      SELECT 'vendor', 'timer', ${at}, ${at}, 'complete', i FROM n;
    COMMIT;`);
  db.pragma('wal_checkpoint(TRUNCATE)');
  db.close();
  const mirror = await startMirror(database);
  started.push(mirror);
  return mirror;
}

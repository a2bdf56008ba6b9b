import { join } from 'node:path';
import Database from 'better-sqlite3';
import { openStore } from '../../src/store/open.ts';
import { type Mirror, startMirror } from './processes.ts';

/** How much a database holds. */
export interface Size {
  events: number;
  records: number;
}

/** A service over a database that holds so much. */
export async function startStored(folder: string, name: string, size: Size): Promise<Mirror> {
  return await startMirror(await fillStored(folder, name, size));
}

/** A database that holds so much: its path. Rows are written by hand, as no API could in this time. */
export async function fillStored(folder: string, name: string, { events, records }: Size): Promise<string> {
  const database = join(folder, `${name}.db`);
  await (await openStore(`file:${database}`)).close();
  const db = new Database(database);
  const numbers = (count: number) =>
    `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ${count - 1})`;
  const at = `strftime('%Y-%m-%dT%H:%M:%fZ', 1790000000 + i, 'unixepoch')`;
  const third = Math.ceil(records / 3);
  db.exec(`BEGIN;
    ${numbers(events)} INSERT INTO events (seq, id, type, created, created_ms, kind, record_id, received_at, last_delivered_at,
      state, attempts, processed_at, error, body)
    SELECT i + 1, printf('evt_%09d', i), CASE WHEN i = 7 THEN 'rare.type' WHEN i % 3 = 0 THEN 'vendor.updated'
      WHEN i % 3 = 1 THEN 'policy.updated' ELSE 'risk.assessed' END, ${at}, 0,
      CASE i % 3 WHEN 0 THEN 'vendor' WHEN 1 THEN 'policy' ELSE 'risk_assessment' END,
      printf('%s_%07d', CASE i % 3 WHEN 0 THEN 'ven' WHEN 1 THEN 'pol' ELSE 'risk' END, i % ${third}), ${at}, ${at},
      CASE WHEN i % 97 = 0 THEN 'failed' WHEN i % 1009 = 5 THEN 'ignored' WHEN i = 11 THEN 'dismissed' ELSE 'processed' END, 0, ${at}, NULL,
      printf('{"id":"evt_%09d","type":"vendor.updated","data":{"vendorId":"x","note":"%0200d"}}', i, i) FROM n;
    UPDATE counter SET value = ${events + records};
    COMMIT;`);
  for (const [kind, table, prefix] of [
    ['vendor', 'vendors', 'ven'],
    ['policy', 'policies', 'pol'],
    ['risk_assessment', 'risk_assessments', 'risk'],
  ] as const) {
    db.exec(`BEGIN;
      ${numbers(third)} INSERT INTO ${table} (id, name, status, data, first_seen_at, synced_at, verified_at, unverified_since, deleted_at, cause, change_seq)
      SELECT printf('${prefix}_%07d', i), printf('${kind} %d', i), 'approved',
        json_object('id', printf('${prefix}_%07d', i), 'name', printf('${kind} %d', i), 'status', 'approved'), ${at}, ${at}, ${at}, NULL,
        CASE WHEN i % 50 = 0 THEN ${at} END, 'sync:1', i FROM n;
      ${numbers(third)} INSERT INTO record_state (kind, id, dirty, returned) SELECT '${kind}', printf('${prefix}_%07d', i), i, 1 FROM n;
      COMMIT;`);
  }
  db.exec(`BEGIN;
    ${numbers(records)} INSERT INTO changes (seq, kind, record_id, operation, before, after, data, cause, at)
      SELECT i + 1, 'vendor', printf('ven_%07d', i / 3), 'update', '{"status":"a"}', '{"status":"b"}', '{}', 'sync', ${at} FROM n;
    ${numbers(records / 10)} INSERT INTO problems (kind, record_id, reason, verdict, needs, opened_at, resolved_at, digest, acceptable, number)
      SELECT 'vendor', printf('ven_%07d', i), 'failed_event', 'action_required', 'you', ${at}, CASE WHEN i % 500 <> 0 THEN ${at} END, 'd' || i, 0, i FROM n;
    ${numbers(records / 10)} INSERT INTO sync_history (kind, verdict, complete, since, until) SELECT 'vendor', 'in_sync', 1, ${at}, ${at} FROM n;
    ${numbers(records / 10)} INSERT INTO audit (at, actor, action, outcome) SELECT ${at}, 'olga', 'sync', 'ok' FROM n;
    ${numbers(records / 10)} INSERT INTO rejections (received_at, outcome, reason, t, body, bytes, body_sha256, dismissed_at)
      SELECT ${at}, 'quarantined', 'invalid_json', '1', CAST('{' AS BLOB), 1, printf('%064d', i), CASE WHEN i % 5 = 0 THEN ${at} END FROM n;
    ${numbers(1_000)} INSERT INTO rejections (received_at, outcome, reason, t, bytes, header) SELECT ${at}, 'rejected', 'no_match', '1', 480, 't=1' FROM n;
    ${numbers(records / 10)} INSERT INTO sync_runs (kind, reason, started_at, finished_at, outcome, number, began_at)
      SELECT 'vendor', 'timer', ${at}, ${at}, 'complete', i, i FROM n;
    COMMIT;`);
  db.pragma('wal_checkpoint(TRUNCATE)');
  db.close();
  return database;
}

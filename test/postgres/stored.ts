import type { TestDatabase } from './database.ts';

/** The same as `fillStored` of the benchmarks makes, as far as work meets it: by hand, as no API could in this time. */
export async function fillStoredDatabase(
  { query }: Pick<TestDatabase, 'query'>,
  size: number,
): Promise<void> {
  const third = Math.ceil(size / 3);
  const at = 'to_timestamp(1790000000 + i)';
  const name = (prefix: string, n: string) => `'${prefix}_' || lpad((${n})::text, 7, '0')`;
  const numbers = (count: number) => `generate_series(0, ${count - 1}) AS i`;
  await query(`
    INSERT INTO events (seq, id, type, created, created_ms, kind, record_id, received_at, last_delivered_at, state, processed_at, body)
      SELECT i + 1, 'evt_' || lpad(i::text, 9, '0'), 'vendor.updated', ${at}, 0, 'vendor', ${name('ven', `i % ${third}`)}, ${at}, ${at},
        CASE WHEN i % 97 = 0 THEN 'failed' ELSE 'processed' END, ${at}, '{"id":"' || i || '","data":{"note":"' || repeat('x', 200) || '"}}'
      FROM ${numbers(size)};
    INSERT INTO changes (seq, kind, record_id, operation, before, after, data, cause, at)
      SELECT i + 1, 'vendor', ${name('ven', 'i / 3')}, 'update', '{"status":"a"}', '{"status":"b"}', '{}', 'sync', ${at} FROM ${numbers(size)};
    UPDATE counter SET value = ${2 * size};
    INSERT INTO trimmed_events (id, content_hash, received_at) SELECT 'gone_' || lpad(seq::text, 9, '0'), id, received_at FROM events;
    INSERT INTO problems (kind, record_id, reason, verdict, needs, opened_at, resolved_at, digest, acceptable, number)
      SELECT 'vendor', ${name('ven', 'i')}, 'failed_event', 'action_required', 'you', ${at}, CASE WHEN i % 500 <> 0 THEN ${at} END, 'd' || i, false, i FROM ${numbers(size / 10)};
    INSERT INTO sync_history (kind, verdict, complete, since, until) SELECT 'vendor', 'in_sync', true, ${at}, ${at} FROM ${numbers(size / 10)};
    INSERT INTO audit (at, actor, action, outcome) SELECT ${at}, 'olga', 'sync', 'ok' FROM ${numbers(size / 10)};
    INSERT INTO rejections (received_at, outcome, reason, t, body, bytes, body_sha256, dismissed_at)
      SELECT ${at}, 'quarantined', 'invalid_json', '1', '{'::bytea, 1, lpad(i::text, 64, '0'), CASE WHEN i % 5 = 0 THEN ${at} END FROM ${numbers(size / 10)};
    INSERT INTO rejections (received_at, outcome, reason, t, bytes, header)
      SELECT ${at}, 'rejected', 'no_match', '1', 480, 't=1' FROM ${numbers(1_000)};
    INSERT INTO sync_runs (kind, reason, started_at, finished_at, outcome, number, began_at)
      SELECT (ARRAY['vendor', 'policy', 'risk_assessment'])[i % 3 + 1], 'timer', ${at}, ${at}, 'complete', i, i FROM ${numbers(size / 10)};`);
  for (const [kind, table, prefix] of [
    ['vendor', 'vendors', 'ven'],
    ['policy', 'policies', 'pol'],
    ['risk_assessment', 'risk_assessments', 'risk'],
  ] as const) {
    const id = name(prefix, 'i');
    await query(`
      INSERT INTO ${table} (id, name, status, data, first_seen_at, synced_at, verified_at, deleted_at, cause, change_seq)
        SELECT ${id}, '${kind} ' || i, 'approved', jsonb_build_object('id', ${id}, 'name', '${kind} ' || i, 'status', 'approved'),
          ${at}, ${at}, ${at}, CASE WHEN i % 50 = 0 THEN ${at} END, 'sync:1', i FROM ${numbers(third)};
      INSERT INTO record_state (kind, id, dirty, returned) SELECT '${kind}', ${id}, i, true FROM ${numbers(third)};`);
  }
}

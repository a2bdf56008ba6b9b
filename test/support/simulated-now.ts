import type Database from 'better-sqlite3';

/**
 * The view `sync_status` asks what time it is. For this connection it is that of the last heartbeat, since a clock that leaps or is
 * simulated is not the machine's. Call what it returns before each question, so that it is the last one.
 */
export function asOfLastHeartbeat(db: Database.Database): () => void {
  let now: unknown = null;
  db.function('julianday', (instant: unknown) =>
    instant === 'now'
      ? now
      : typeof instant === 'string'
        ? Date.parse(instant) / 86_400_000 + 2_440_587.5
        : null,
  );
  const beat = db.prepare(`SELECT julianday(value) FROM facts WHERE name = 'heartbeat'`).pluck();
  return () => {
    now = beat.get() ?? null;
  };
}

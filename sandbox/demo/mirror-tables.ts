import { DatabaseSync } from 'node:sqlite';
import type { Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import type { MirrorRecords, MirrorRow } from './compare.ts';

/** One row of `changes`, as far as it matters here. */
export interface Change {
  seq: number;
  kind: Kind;
  recordId: string;
  cause: string;
}

interface MirrorSnapshot {
  records: MirrorRecords;
  /** Those after the sequence number asked for, in order. */
  changes: Change[];
  pendingEvents: number;
}

interface EventCounts {
  events: number;
  redeliveries: number;
}

/**
 * The mirror's tables as any team would read them: from outside, by SQL, through names that are public.
 * Through Node's own SQLite and not through our store, which is part of what is being checked.
 */
export interface MirrorTables {
  /** One consistent moment. */
  read(changesAfter: number): Promise<MirrorSnapshot>;
  countEvents(): Promise<EventCounts>;
  /** What `--tamper` does: the hand of somebody who can write there. Returns what it changed, or null: no rows. */
  tamper(): Promise<{ kind: Kind; id: string; field: string } | null>;
  close(): Promise<void>;
}

const TABLES = { policy: 'policies', risk_assessment: 'risk_assessments', vendor: 'vendors' } as const;
/** The service's own transactions take milliseconds. */
const BUSY_TIMEOUT_MS = 5_000;

/** The same on either engine. */
export function rowsQuery(kind: Kind): string {
  const version = kind === 'policy' ? 'version' : 'NULL AS version';
  return `SELECT id, name, ${version}, status, data, verified_at, unverified_since, deleted_at FROM ${TABLES[kind]}`;
}

export function openMirrorTables(path: string): MirrorTables {
  const database = new DatabaseSync(path, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
  const changes = database.prepare(
    'SELECT seq, kind, record_id, cause FROM changes WHERE seq > ? ORDER BY seq',
  );
  const pending = database.prepare("SELECT count(*) AS n FROM events WHERE state = 'pending'");
  const counts = database.prepare(
    'SELECT count(*) AS events, coalesce(sum(deliveries - 1), 0) AS redeliveries FROM events',
  );
  const rowsOf = (kind: Kind) => database.prepare(rowsQuery(kind));
  const rows = {
    policy: rowsOf('policy'),
    risk_assessment: rowsOf('risk_assessment'),
    vendor: rowsOf('vendor'),
  };
  const recordsOf = (kind: Kind) =>
    new Map(
      rows[kind].all().map((row) => {
        const data = JSON.parse(String(row['data'])) as JsonObject;
        return [String(row['id']), { ...row, data } as unknown as MirrorRow];
      }),
    );

  return {
    async read(changesAfter) {
      database.exec('BEGIN');
      try {
        return {
          records: {
            policy: recordsOf('policy'),
            risk_assessment: recordsOf('risk_assessment'),
            vendor: recordsOf('vendor'),
          },
          changes: changes.all(changesAfter).map((row) => ({
            seq: Number(row['seq']),
            kind: row['kind'] as Kind,
            recordId: String(row['record_id']),
            cause: String(row['cause']),
          })),
          pendingEvents: Number(pending.get()?.['n']),
        };
      } finally {
        database.exec('COMMIT');
      }
    },
    async countEvents() {
      const row = counts.get();
      return { events: Number(row?.['events']), redeliveries: Number(row?.['redeliveries']) };
    },
    tamper: async () => tamper(path),
    close: async () => database.close(),
  };
}

function tamper(path: string): { kind: Kind; id: string; field: string } | null {
  const database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
  try {
    const row = database.prepare('SELECT id FROM vendors WHERE deleted_at IS NULL ORDER BY id LIMIT 1').get();
    if (row === undefined) return null;
    const id = String(row['id']);
    database.prepare('UPDATE vendors SET status = ? WHERE id = ?').run('tampered with', id);
    return { kind: 'vendor', id, field: 'status' };
  } finally {
    database.close();
  }
}

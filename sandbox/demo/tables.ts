import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import type { MirrorRecords, MirrorRow } from './compare.ts';
import type { Repair } from './repairs.ts';

const TABLES = { policy: 'policies', risk_assessment: 'risk_assessments', vendor: 'vendors' } as const;
/** More than enough: the service's own transactions take milliseconds. */
const BUSY_TIMEOUT_MS = 5_000;
/** So that an endless run does not fill the memory. */
const MAX_REPAIRS = 2_000;
/** What the status page shows in green. */
const GREEN: ReadonlySet<unknown> = new Set(['in_sync', 'known_only']);

/** The mirror's tables by SQL, as any team reads them: without our store, which is part of what the demo checks. */
export function openMirrorTables(path: string) {
  const database = new DatabaseSync(path, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
  const ask = (text: string, ...values: SQLInputValue[]) => database.prepare(text).all(...values);

  const recordsOf = (kind: Kind) => {
    const version = kind === 'policy' ? 'version' : 'NULL AS version';
    const columns = `id, name, ${version}, status, data, deleted_at`;
    return new Map(
      ask(`SELECT ${columns} FROM ${TABLES[kind]}`).map((row) => [
        String(row['id']),
        { ...row, data: JSON.parse(String(row['data'])) } as unknown as MirrorRow,
      ]),
    );
  };

  return {
    /** Everything as of one moment. */
    read() {
      database.exec('BEGIN');
      try {
        const records: MirrorRecords = {
          policy: recordsOf('policy'),
          risk_assessment: recordsOf('risk_assessment'),
          vendor: recordsOf('vendor'),
        };
        const verdicts = ask('SELECT verdict FROM sync_status');
        return {
          records,
          isGreen: verdicts.length === KINDS.length && verdicts.every(({ verdict }) => GREEN.has(verdict)),
        };
      } finally {
        database.exec('COMMIT');
      }
    },
    /** What the API has changed since then (ISO 8601), in order; of very many the newest. */
    repairs(since: string): Repair[] {
      const rows = ask(
        `SELECT kind, record_id, cause, at, before, after FROM changes
         WHERE at >= ? AND cause IN ('refetch', 'sync') ORDER BY seq DESC LIMIT ${MAX_REPAIRS}`,
        since,
      );
      const namesIn = (json: unknown) => {
        const { data = {}, ...columns } = JSON.parse(String(json ?? '{}')) as Record<string, object>;
        return [...Object.keys(columns), ...Object.keys(data ?? {})];
      };
      return rows.toReversed().map(({ kind, record_id, cause, at, before, after }) => ({
        kind: kind as Kind,
        recordId: String(record_id),
        cause: String(cause),
        at: String(at),
        fields: [...new Set([...namesIn(before), ...namesIn(after)])],
      }));
    },
    countEvents() {
      const [row] = ask(
        'SELECT count(*) AS events, coalesce(sum(deliveries - 1), 0) AS redeliveries FROM events',
      );
      return { events: Number(row?.['events']), redeliveries: Number(row?.['redeliveries']) };
    },
    /** Whether each list was read as a whole since then. */
    hasFullSyncs(since: string): boolean {
      const ended = ask(
        `SELECT DISTINCT kind FROM sync_runs WHERE started_at > ? AND outcome = 'complete' AND kind <> 'risk_assessment'`,
        since,
      );
      return ended.length === KINDS.length - 1;
    },
    /** For `--tamper`: edits a row by SQL. Resolves with what it changed; null: there are no rows. */
    tamper() {
      const writable = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
      const [row] = writable
        .prepare(
          `UPDATE vendors SET status = 'tampered with' WHERE id =
           (SELECT id FROM vendors WHERE deleted_at IS NULL ORDER BY id LIMIT 1) RETURNING id`,
        )
        .all();
      writable.close();
      return row === undefined ? null : { kind: 'vendor', id: String(row['id']), field: 'status' };
    },
    close: () => database.close(),
  };
}

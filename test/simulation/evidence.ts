import Database from 'better-sqlite3';
import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import { asOfLastHeartbeat } from '../support/simulated-now.ts';

export interface Row {
  kind: Kind;
  id: string;
  data: string | null;
  deleted_at: string | null;
  unverified_since: string | null;
  /** Null: no field is one that only events have shown. */
  shown: unknown;
  state_unverified: string | null;
  write: number;
  refusals: number;
  cause: string | null;
}

/** What the invariants are judged by: the database itself, never what the mirror says of it. */
export interface Evidence {
  answer<Answer>(question: Question): Answer[];
  /** Asks the database anew; absent: every answer does. */
  look?(): Promise<void>;
}

export type Question = keyof typeof QUESTIONS;

export const TABLES: Readonly<Record<Kind, string>> = {
  policy: 'policies',
  risk_assessment: 'risk_assessments',
  vendor: 'vendors',
};

/** An open problem. */
export interface Problem {
  id: number;
  reason: string;
  kind: Kind | null;
  recordId: string | null;
  needs: 'you' | 'time';
  digest: string;
}

/** In words that both engines understand. */
export const QUESTIONS = {
  rows: KINDS.map(
    (kind) =>
      `SELECT '${kind}' AS kind, r.id, CAST(r.data AS text) AS data, r.deleted_at, r.unverified_since,
         s.unverified_since AS state_unverified, r.change_seq AS write, s.refusals, r.cause || ':' || coalesce(r.cause_id, '') AS cause, r.shown
       FROM ${TABLES[kind]} r LEFT JOIN record_state s ON s.kind = '${kind}' AND s.id = r.id`,
  ).join(' UNION ALL '),
  stored: 'SELECT id FROM events',
  twice: `SELECT cause_id AS cause, count(*) AS count FROM changes WHERE cause = 'event' GROUP BY cause_id HAVING count(*) > 1`,
  pending: `SELECT count(*) AS count FROM events WHERE state = 'pending'`,
  unverified: `SELECT count(*) AS count FROM record_state s WHERE unverified_since IS NOT NULL AND NOT EXISTS
    (SELECT 1 FROM problems p WHERE (p.resolved_at IS NULL OR p.accepted_at IS NOT NULL) AND p.reason = 'unknown_record' AND p.kind = s.kind AND p.record_id = s.id)`,
  problems:
    'SELECT id, reason, kind, record_id AS "recordId", needs, digest FROM problems WHERE resolved_at IS NULL ORDER BY id',
  through: 'SELECT kind, complete_through AS instant FROM sync_status WHERE complete_through IS NOT NULL',
  inSync: `SELECT kind FROM sync_status WHERE verdict IN ('in_sync', 'known_only')`,
  unread: `SELECT id FROM events WHERE state = 'failed' AND kind IS NOT NULL AND record_id IS NULL`,
  quarantined: `SELECT id, event_id AS "eventId", record_id AS "recordId" FROM rejections
    WHERE outcome = 'quarantined' AND dismissed_at IS NULL AND (kind = 'risk_assessment' OR kind IS NULL)`,
  deletions: 'SELECT kind, id FROM pending_deletions WHERE kept_number IS NULL ORDER BY kind, id',
} as const;

/** Of a SQLite file, as it stands at each question; asked again only once somebody has committed. */
export function evidenceInFile(path: string): Evidence & { close(): void } {
  const db = new Database(path, { readonly: true });
  const lookAtTime = asOfLastHeartbeat(db);
  const statements = new Map(Object.entries(QUESTIONS).map(([question, sql]) => [question, db.prepare(sql)]));
  const answers = new Map<Question, unknown[]>();
  let answersVersion: unknown = null;
  const dataVersion = db.prepare('PRAGMA data_version').pluck();
  return {
    answer<Answer>(question: Question) {
      const version = dataVersion.get();
      if (version !== answersVersion) {
        answers.clear();
        lookAtTime();
      }
      answersVersion = version;
      const answer = answers.get(question) ?? statements.get(question)!.all();
      answers.set(question, answer);
      return answer as Answer[];
    },
    close() {
      db.close();
    },
  };
}

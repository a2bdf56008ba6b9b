import { createTestDatabase, type TestDatabase } from '../postgres/database.ts';
import { type Evidence, QUESTIONS, type Question, type Row, TABLES } from './evidence.ts';

/**
 * What a transaction has made of one record, or an event that it brought, as the database itself wrote it down while
 * it committed. With transactions at the same time nobody outside could tell the states between.
 */
export interface Note extends Row {
  transaction: string;
  /** The process whose connection it was, and who had the lease of the repairs then. */
  who: string;
  lease_owner: string | null;
  /** Of an event or of a delivery put aside; else null. */
  body: string | null;
  /** The counter as the read began that this transaction applied; null: it was no read. */
  read_number: number | null;
}

/** One after another, in the order of their commits: who writes holds the counter until then. */
const SCHEMA = `
CREATE SCHEMA witness;
CREATE TABLE witness.notes (
  number bigserial PRIMARY KEY, transaction text NOT NULL DEFAULT pg_current_xact_id()::text,
  who text NOT NULL DEFAULT current_setting('application_name'), lease_owner text, body text, kind text, id text,
  data text, deleted_at timestamptz, unverified_since timestamptz, state_unverified timestamptz, write bigint,
  refusals integer, cause text, read_number bigint
);
CREATE FUNCTION witness.note() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  read bigint;
BEGIN
  IF TG_TABLE_NAME = 'record_state' AND TG_OP = 'UPDATE' THEN
    IF OLD.read_number <> NEW.read_number THEN read := NEW.read_number; END IF;
  END IF;
  EXECUTE format(
    'INSERT INTO witness.notes (lease_owner, kind, id, data, deleted_at, unverified_since, state_unverified, write, refusals, cause, read_number)
     SELECT (SELECT owner FROM public.leases WHERE name = ''worker''), $1, r.id, r.data::text, r.deleted_at, r.unverified_since,
       s.unverified_since, r.change_seq, s.refusals, r.cause || '':'' || coalesce(r.cause_id, ''''), $3
     FROM public.%I r LEFT JOIN public.record_state s ON s.kind = $1 AND s.id = r.id WHERE r.id = $2',
    CASE to_jsonb(NEW)->>'kind' WHEN 'policy' THEN 'policies' WHEN 'vendor' THEN 'vendors'
      WHEN 'risk_assessment' THEN 'risk_assessments' ELSE TG_TABLE_NAME END)
  USING coalesce(to_jsonb(NEW)->>'kind', TG_ARGV[0]), NEW.id, read;
  RETURN NULL;
END $$;
CREATE FUNCTION witness.note_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO witness.notes (body) VALUES (NEW.body);
  RETURN NULL;
END $$;
CREATE FUNCTION witness.note_quarantined() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO witness.notes (body) VALUES (convert_from(NEW.body, 'UTF8'));
  RETURN NULL;
END $$;
CREATE TRIGGER noted AFTER INSERT ON public.events FOR EACH ROW EXECUTE FUNCTION witness.note_event();
CREATE TRIGGER noted AFTER INSERT ON public.rejections FOR EACH ROW WHEN (NEW.outcome = 'quarantined') EXECUTE FUNCTION witness.note_quarantined();
CREATE CONSTRAINT TRIGGER noted AFTER INSERT OR UPDATE ON public.record_state DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION witness.note();
${Object.entries(TABLES)
  .map(
    ([kind, table]) =>
      `CREATE CONSTRAINT TRIGGER noted AFTER INSERT OR UPDATE ON public.${table} DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION witness.note('${kind}');`,
  )
  .join('\n')}
DO $$ BEGIN
  -- The view asks what time it is, which in a simulation is that of the last heartbeat.
  EXECUTE 'CREATE VIEW witness.sync_status AS ' || replace(pg_get_viewdef('public.sync_status'::regclass), 'clock_timestamp()',
    '(SELECT value::timestamptz FROM public.facts WHERE name = ''heartbeat'')');
END $$;`;

const NOT_ROWS = (Object.keys(QUESTIONS) as Question[]).filter((question) => question !== 'rows');

export interface Witness extends Evidence {
  /** What was committed since, in the order of commits. */
  take(): Promise<Note[]>;
  /** From now on, `rows` answers with this as well. */
  learn(note: Note): void;
  /** Asks the database these anew; default: everything but the rows. */
  look(...questions: Question[]): Promise<void>;
  /** Rows that differ from what the notes came to: then they prove nothing. */
  unnoticed(): Promise<string[]>;
}

/** A database with a witness in it, for one run after another. */
export async function createWitnessedDatabase(
  server: Parameters<typeof createTestDatabase>[0],
): Promise<TestDatabase> {
  const database = await createTestDatabase(server);
  await database.query(SCHEMA);
  return database;
}

export function createWitness(database: TestDatabase): Witness {
  const rows = new Map<string, Row>();
  const answers = new Map<Question, unknown[]>();

  return {
    answer: <Answer>(question: Question) =>
      (question === 'rows' ? [...rows.values()] : (answers.get(question) ?? [])) as Answer[],
    async take() {
      const notes = await database.query(
        'WITH taken AS (DELETE FROM witness.notes RETURNING *) SELECT * FROM taken ORDER BY number',
      );
      return notes as unknown as Note[];
    },
    learn(note) {
      rows.set(`${note.kind} ${note.id}`, note);
    },
    async look(...questions) {
      for (const question of questions.length > 0 ? questions : NOT_ROWS)
        answers.set(
          question,
          await database.query(QUESTIONS[question].replace(' sync_status', ' witness.sync_status')),
        );
    },
    async unnoticed() {
      const found = (await database.query(QUESTIONS.rows)) as unknown as Row[];
      const text = ({ data, deleted_at, unverified_since, write }: Row) =>
        JSON.stringify([data, deleted_at, unverified_since, write]);
      return found
        .filter((row) => {
          const noted = rows.get(`${row.kind} ${row.id}`);
          return noted === undefined || text(noted) !== text(row);
        })
        .map((row) => `${row.kind} ${row.id}`);
    },
  };
}

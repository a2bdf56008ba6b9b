import type { EventState } from '../reports.ts';
import type { RetentionStore, Trimmed, TrimStep } from '../store.ts';
import type { Connection, Transact } from './connection.ts';
import { iso } from './records.ts';

/** Where the history begins, as `facts` keep it. */
export const TRIMMED_CHANGES_FACT = 'changes_trimmed';

/** How far bodies have been trimmed, as `facts` keep it: up to this number no event has one but dead ones. */
const TRIMMED_BODIES_FACT = 'bodies_trimmed';

/** For whoever takes an event out of a state that keeps its body: trimming comes back to it. Within a transaction. */
export function trimBodiesAgainFrom(db: Connection): (seq: number) => void {
  const lower = db.prepare('UPDATE facts SET value = ? WHERE name = ? AND CAST(value AS INTEGER) >= ?');
  return (seq) => {
    lower.run(String(seq - 1), TRIMMED_BODIES_FACT, seq);
  };
}

interface Candidate {
  key: number;
  at: string;
  /** 0: looked at, and to be left alone whatever its age. */
  ready: 0 | 1;
}

/** Each verb looks at a few of the oldest rows in the order in which they came, and is over at the first one too young. */
export function createRetentionVerbs(db: Connection, transact: Transact): RetentionStore {
  const candidates = (sql: string) => db.prepare(`${sql} ORDER BY key LIMIT ?`);
  const bodies = db.prepare(
    'SELECT seq AS key, received_at AS at, state, body IS NOT NULL AS held FROM events WHERE seq > ? ORDER BY seq LIMIT ?',
  );
  const events = candidates(
    `SELECT seq AS key, received_at AS at, state IN ('done', 'ignored', 'discarded') AS ready
     FROM events WHERE seq > ?`,
  );
  const quarantined = candidates(
    'SELECT id AS key, received_at AS at, 1 AS ready FROM quarantine WHERE body IS NOT NULL AND id > ?',
  );
  const changes = candidates('SELECT seq AS key, at, 1 AS ready FROM changes WHERE seq > ?');
  const audit = candidates('SELECT id AS key, at, 1 AS ready FROM audit WHERE id > ?');

  const emptyEvent = db.prepare(
    'UPDATE events SET content_hash = coalesce(content_hash, content_hash_of(body)), body = NULL WHERE seq = ?',
  );
  const emptyQuarantined = db.prepare('UPDATE quarantine SET body = NULL WHERE id = ?');
  const rememberId = db.prepare(
    `INSERT INTO trimmed_events (id, content_hash, received_at)
     SELECT id, coalesce(content_hash, content_hash_of(body)), received_at FROM events WHERE seq = ?`,
  );
  const deleteEvent = db.prepare('DELETE FROM events WHERE seq = ? RETURNING state').pluck();
  const countLess = db.prepare('UPDATE event_counts SET count = count - 1 WHERE state = ?');
  const deleteChange = db.prepare('DELETE FROM changes WHERE seq = ?');
  const readFact = db.prepare('SELECT value FROM facts WHERE name = ?').pluck();
  const noteTrimmed = db.prepare(
    'INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
  );
  const deleteAudit = db.prepare('DELETE FROM audit WHERE id = ?');
  const deleteRegistrations = db.prepare(
    `DELETE FROM registrations WHERE upstream_id IN
       (SELECT upstream_id FROM registrations WHERE expires_at < ? ORDER BY expires_at LIMIT ?)`,
  );
  const forgetIds = db.prepare(
    `DELETE FROM trimmed_events WHERE id IN
       (SELECT id FROM trimmed_events WHERE received_at < ? ORDER BY received_at LIMIT ?)`,
  );

  function walk(
    { before, after, limit }: TrimStep,
    source: ReturnType<typeof candidates>,
    trim: (row: Candidate) => void,
    finish: (last: Candidate) => void = () => undefined,
  ): Trimmed {
    return transact(() => {
      const looked = source.all(after, limit) as Candidate[];
      const tooYoung = looked.findIndex((row) => row.at >= iso(before));
      const old = tooYoung === -1 ? looked : looked.slice(0, tooYoung);
      const ready = old.filter((row) => row.ready === 1);
      for (const row of ready) trim(row);
      const last = ready.at(-1);
      if (last !== undefined) finish(last);
      const isOver = tooYoung !== -1 || looked.length < limit;
      return { trimmed: ready.length, next: isOver ? null : (looked.at(-1)?.key ?? null) };
    });
  }

  return {
    async trimEventBodies({ before, limit }) {
      return transact(() => {
        const from = Number(readFact.get(TRIMMED_BODIES_FACT) ?? 0);
        const looked = bodies.all(from, limit) as {
          key: number;
          at: string;
          state: EventState;
          held: 0 | 1;
        }[];
        // One that waits is worked off before trimming goes past it; a dead one brings trimming back when it is dead no more.
        const end = looked.findIndex((row) => row.at >= iso(before) || row.state === 'pending');
        const past = end === -1 ? looked : looked.slice(0, end);
        const ready = past.filter((row) => row.held === 1 && row.state !== 'dead');
        for (const { key } of ready) emptyEvent.run(key);
        const last = past.at(-1)?.key;
        if (last !== undefined) noteTrimmed.run(TRIMMED_BODIES_FACT, String(last));
        return { trimmed: ready.length, next: end === -1 && looked.length === limit ? (last ?? null) : null };
      });
    },
    trimQuarantineBodies: async (step) => walk(step, quarantined, ({ key }) => emptyQuarantined.run(key)),
    trimEvents: async (step) =>
      walk(step, events, ({ key }) => {
        rememberId.run(key);
        countLess.run(deleteEvent.get(key) as EventState);
      }),
    trimChanges: async (step) =>
      walk(
        step,
        changes,
        ({ key }) => deleteChange.run(key),
        // With the rows it speaks of: a follower that finds them gone must find this as well.
        ({ key, at }) => noteTrimmed.run(TRIMMED_CHANGES_FACT, JSON.stringify({ through: key, at })),
      ),
    trimAudit: async (step) => walk(step, audit, ({ key }) => deleteAudit.run(key)),
    async trimRegistrations({ before, limit }) {
      const trimmed = transact(() => deleteRegistrations.run(iso(before), limit).changes);
      return { trimmed, next: trimmed < limit ? null : 0 };
    },
    async trimEventIds({ before, limit }) {
      const trimmed = transact(() => forgetIds.run(iso(before), limit).changes);
      return { trimmed, next: trimmed < limit ? null : 0 };
    },
  };
}

import type { Notice, ReplicaStore } from '../replicas.ts';
import type { Database } from './connection.ts';
import { createListener, NOTICE_CHANNEL } from './listener.ts';

/** A database this much behind its processes was set back, or is another server; less is how clocks drift. */
const BEHIND_MS = 250;
/** How far the steady time of all replicas is ahead of the server's clock. */
export const CLOCK_FACT = 'clock_ahead_ms';

type OwnVerbs = Pick<ReplicaStore, 'sharedTime' | 'notify' | 'listen'>;

/** The server's clock, by which all replicas go, and how they hear of each other. */
export function createNoticeVerbs(db: Database): OwnVerbs {
  const { sql } = db;

  return {
    async sharedTime(atLeast) {
      const [row] = await sql.query<{ wall: number; ahead: string | null }>(
        `SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS wall,
           (SELECT value FROM facts WHERE name = $1) AS ahead`,
        [CLOCK_FACT],
      );
      if (row === undefined) return null;
      const ahead = Number(row.ahead ?? 0);
      if (atLeast === null || atLeast - (row.wall + ahead) < BEHIND_MS) {
        return { wall: row.wall, steady: row.wall + ahead };
      }
      const [mended] = await sql.query<{ value: string }>(
        `INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE
         SET value = greatest(facts.value::float8, excluded.value::float8)::text RETURNING value`,
        [CLOCK_FACT, String(atLeast - row.wall)],
      );
      return { wall: row.wall, steady: row.wall + Number(mended?.value ?? 0) };
    },

    async notify(notice) {
      await sql.query('SELECT pg_notify($1, $2)', [NOTICE_CHANNEL, `${db.schema} ${notice}`]);
    },
    async listen(onNotice: (notice: Notice) => void) {
      return createListener(db, onNotice);
    },
  };
}

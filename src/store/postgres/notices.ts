import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { Notice, ReplicaStore } from '../replicas.ts';
import type { Database } from './connection.ts';

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

/** One for all mirrors of a database: the payload names the schema. */
const NOTICE_CHANNEL = 'compliance_mirror';

const NOTICES: readonly Notice[] = ['events', 'work'];

/** Until a lost connection is sought again, doubled each time. Meanwhile everybody looks for themselves now and then. */
const AGAIN_FIRST_MS = 200;
const AGAIN_LONGEST_MS = 10_000;

/** Hears notices on a connection of its own, and connects again when that is lost, until it is stopped. */
function createListener(
  db: Pick<Database, 'schema' | 'dedicated'>,
  onNotice: (notice: Notice) => void,
): { stop: () => Promise<void> } {
  const end = new AbortController();
  let failures = 0;

  function hear({ payload }: pg.Notification): void {
    const notice = NOTICES.find((each) => payload === `${db.schema} ${each}`);
    if (notice !== undefined) onNotice(notice);
  }

  async function once(): Promise<void> {
    const client = await db.dedicated();
    try {
      const { promise: over, resolve } = Promise.withResolvers<void>();
      for (const event of ['error', 'end'] as const) client.once(event, () => resolve());
      end.signal.addEventListener('abort', () => resolve(), { once: true });
      client.on('notification', hear);
      await client.query(`LISTEN ${NOTICE_CHANNEL}`);
      failures = 0;
      // Whatever was told before is lost on us.
      NOTICES.forEach(onNotice);
      if (!end.signal.aborted) await over;
    } finally {
      await client.end().catch(() => undefined);
    }
  }

  async function run(): Promise<void> {
    while (!end.signal.aborted) {
      // The same trouble is told by everybody who asks the pool.
      await once().catch(() => undefined);
      if (end.signal.aborted) return;
      const ms = Math.min(AGAIN_LONGEST_MS, AGAIN_FIRST_MS * 2 ** failures);
      await sleep(ms, undefined, { signal: end.signal }).catch(() => undefined);
      failures += 1;
    }
  }

  const running = run();
  return {
    async stop() {
      end.abort();
      await running;
    },
  };
}

import { setImmediate as turn } from 'node:timers/promises';
import type { Sql } from '../../src/store/database.ts';
import type { PostgresDatabase } from '../../src/store/postgres/connection.ts';
import type { SQL } from '../../src/store/statement.ts';

/** What a process that has died throws in its own transactions, so that nothing more of them happens. */
export class Killed extends Error {}

/**
 * A database of one process whose transactions let others run between their statements, and end where the process
 * does. `step` comes before every statement, and once more before the commit.
 */
export function interleaved(
  database: PostgresDatabase,
  step: () => Promise<void>,
  { crowd, place }: { crowd: Crowd; place: object },
): PostgresDatabase {
  const stepping = (sql: Sql): Sql => ({
    ...sql,
    async query<Row>(statement: SQL) {
      await step();
      return await sql.query<Row>(statement);
    },
    async change(statement) {
      await step();
      return await sql.change(statement);
    },
  });
  const whole =
    <S extends Sql, A extends unknown[], T>(work: (sql: S, ...given: A) => Promise<T>) =>
    async (sql: S, ...given: A): Promise<T> => {
      const result = await work({ ...sql, ...stepping(sql) }, ...given);
      await step();
      return result;
    };
  return {
    ...database,
    sql: stepping(database.sql),
    transact: (work, first, flush) =>
      crowd.counted(place, () =>
        database.transact(whole(work), first && ((sql) => first(stepping(sql))), flush),
      ),
    atOneMoment: (work) => database.atOneMoment(whole(work)),
    transactApart: (opening, work) => database.transactApart(opening, whole(work)),
  };
}

/** How many transactions wanted the counter while another process's had it, or waited for it. */
export interface Crowd {
  met(): number;
  counted<T>(place: object, transaction: () => Promise<T>): Promise<T>;
}

export function createCrowd(): Crowd {
  const open = new Map<object, object>();
  let met = 0;
  return {
    met: () => met,
    async counted(place, transaction) {
      const mine = {};
      if ([...open.values()].some((other) => other !== place)) met += 1;
      open.set(mine, place);
      try {
        return await transaction();
      } finally {
        open.delete(mine);
      }
    },
  };
}

/** So many turns of the real event loop: other connections' answers come in meanwhile. */
export async function giveTurns(count: number): Promise<void> {
  for (let left = count; left > 0; left -= 1) await turn();
}

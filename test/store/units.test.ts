import { expect, it, onTestFinished } from 'vitest';
import type { Database, Sql, Unit } from '../../src/store/database.ts';
import { connect } from '../../src/store/sqlite/connection.ts';
import { createDatabase, statementsOf } from '../../src/store/sqlite/database.ts';
import { migrateSchema } from '../../src/store/sqlite/file.ts';
import { createBackfillVerbs } from '../../src/store/units/backfill.ts';
import { createDeletionVerbs } from '../../src/store/units/deletions.ts';
import { createDueVerbs } from '../../src/store/units/due.ts';
import { createHeartbeatVerbs } from '../../src/store/units/heartbeat.ts';
import { createPlannerVerbs } from '../../src/store/units/next-work.ts';
import { workNow } from './planner.ts';
import { TIMING } from './scene.ts';

const NOW = { wall: Date.parse('2026-03-01T12:00:00Z'), steady: 1_000_000 };

/**
 * A database in memory that tells of each statement which a unit, or a single verb, waits for: `asked` before it is. What a
 * unit only sends goes to `sent`.
 */
function overheard(
  asked: (statement: Parameters<Sql['query']>[0]) => void = () => undefined,
  sent: () => void = () => undefined,
) {
  const db = connect(':memory:', { readOnly: false });
  onTestFinished(() => void db.close());
  migrateSchema(db);
  const real = createDatabase(db);
  const hearing = <T extends Sql>(sql: T): T => ({
    ...sql,
    query: (statement) => {
      asked(statement);
      return sql.query(statement);
    },
    change: (statement) => {
      asked(statement);
      return sql.change(statement);
    },
  });
  const database: Database = {
    keepsTime: false,
    sql: hearing(real.sql),
    transact: (work, first) =>
      real.transact((unit, read) => {
        const send: Unit['send'] = (statement) => {
          sent();
          unit.send(statement);
        };
        return work(hearing<Unit>({ ...unit, send }), read as never);
      }, first as never),
    transactApart: real.transactApart,
    atOneMoment: real.atOneMoment,
    currentNumber: real.currentNumber,
  };
  return { db, database };
}

it('a beat, and a read that found nothing, wait for no answer while they hold the counter', async () => {
  let waited = 0;
  const { database } = overheard(() => {
    waited += 1;
  });
  await createDueVerbs(database).makeKnown('vendor', ['v'], NOW);
  waited = 0;
  await createHeartbeatVerbs(database).beat(NOW, {
    eventsOnly: false,
    settleMs: 1_000,
    fullSyncMs: 0,
    unreachable: false as const,
    access: 'key',
  });
  expect(waited).toBe(0);
  const read = { number: 0, beganAt: NOW.steady, endedAt: NOW.steady, endedWall: NOW.wall };
  const context = { witnessed: false, timing: TIMING } as never;
  await createBackfillVerbs(database).recordMissing('vendor', 'v', read as never, context);
  expect(waited).toBe(0);
});

it('what is missing is found among what is missing, however many records there are', async () => {
  const plans: string[] = [];
  const { db, database } = overheard((statement) => {
    const { prepared, params } = statementsOf(db)(statement);
    if (!/missing_since IS NOT NULL\s*(ORDER|$)/.test(prepared.source)) return;
    const plan = db.prepare(`EXPLAIN QUERY PLAN ${prepared.source}`).all(...params) as { detail: string }[];
    plans.push(plan[0]!.detail);
  });
  const verbs = createDeletionVerbs(database);
  await workNow(createPlannerVerbs(database), NOW);
  await verbs.concludeDeletions(
    'vendor',
    null,
    {
      cause: { cause: 'refetch', causeId: null } as const,
      unannounced: null,
      guardPercent: 20,
      timing: { settleMs: 0 },
    },
    NOW,
  );
  const walked = expect.stringContaining('INDEX record_state_missing');
  expect(plans).toEqual([walked, walked, walked, walked]);
});

import { StoreUnavailable } from '../../platform/errors.ts';
import { writeFact } from '../units/facts.ts';
import { beginEpoch, EPOCH_FACT } from '../units/restored.ts';
import type { Database, Sql, Unit } from './connection.ts';
import { CLOCK_FACT } from './notices.ts';

/** Where this life is lived, as `PLACE` tells it. */
const PLACE_FACT = 'place';

/**
 * The cluster, its timeline, the database, the table. A restore to a point in time and a standby that takes over begin another
 * timeline; a dump is put back into another table, or elsewhere. None of them is sure to bring along all that was committed.
 */
const PLACE = `concat_ws('/', (SELECT system_identifier FROM pg_control_system()),
  left(pg_walfile_name(pg_current_wal_lsn()), 8),
  (SELECT oid FROM pg_database WHERE datname = current_database()), to_regclass('facts')::oid)`;

/** SQLSTATEs: the user may not ask; and the server is still recovering, as a standby that is about to take over. */
const FORBIDDEN = '42501';
const RECOVERING = '55000';

/**
 * To be asked at the start and before each heartbeat, since a server may be restored, or another take over, beneath a running
 * service. A database without an epoch begins one, which is how a person says that a copy was put back, and so does one
 * that finds itself in another place. In the same commit it says what it lacks; of several replicas, one does.
 */
export function epochSettler(database: Database): () => Promise<void> {
  let tells = true;

  /** Null: this server does not tell, as some that are rented. Rejects where only now cannot be known: nothing may be written then. */
  async function placeNow(): Promise<string | null> {
    if (!tells) return null;
    try {
      const [row] = await database.sql.query<{ place: string }>(`SELECT ${PLACE} AS place`);
      return row?.place ?? null;
    } catch (error) {
      const { code, cause } = error as { code?: string; cause?: { code?: string } };
      const state = cause?.code ?? code;
      if (state === RECOVERING || (error instanceof StoreUnavailable && state !== FORBIDDEN)) throw error;
      tells = false;
      return null;
    }
  }

  return async () => {
    const place = await placeNow();
    if (!isOther(await factsIn(database.sql), place)) return;
    await database.transact(async (unit) => {
      const facts = await factsIn(unit);
      // Else another replica has settled it meanwhile.
      if (isOther(facts, place)) await settle(unit, facts, place);
    });
  };
}

type Facts = Readonly<Record<string, string | undefined>>;

async function factsIn(sql: Sql): Promise<Facts> {
  const rows = await sql.query<{ name: string; value: string }>(
    'SELECT name, value FROM facts WHERE name = ANY ($1::text[])',
    [[EPOCH_FACT, PLACE_FACT, CLOCK_FACT]],
  );
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
}

const isOther = (facts: Facts, place: string | null): boolean =>
  facts[EPOCH_FACT] === undefined || (place !== null && facts[PLACE_FACT] !== place);

async function settle(unit: Unit, facts: Facts, place: string | null): Promise<void> {
  // Made here, and its place not asked for before.
  const goesOn = facts[EPOCH_FACT] !== undefined && facts[PLACE_FACT] === undefined;
  if (!goesOn) await begin(unit, facts);
  if (place !== null) await writeFact(unit, PLACE_FACT, place);
}

async function begin(unit: Unit, facts: Facts): Promise<void> {
  const [row] = await unit.query<{ wall: number }>(
    'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS wall',
  );
  const wall = row?.wall ?? Date.now();
  await beginEpoch(unit, null, { wall, steady: wall + Number(facts[CLOCK_FACT] ?? 0) });
}

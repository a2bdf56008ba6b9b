import type { Database, Sql } from '../database.ts';
import { registrations, tokens } from '../schema.ts';
import type { OperatorStore, SealedText, StoredTokens } from '../store.ts';
import { noteAudit } from './facts.ts';
import { as, iso, one, set, sql, update, upsert } from './sql.ts';

/** OAuth tokens, and the lease on renewing them. */
export function createTokenVerbs(database: Database) {
  return {
    readTokens: (name) => readTokens(database.sql, name),

    leaseTokens: (name, owner, leaseMs, { wall }) =>
      database.transact(async (unit) => {
        // One that ends far later than any can was taken before the wall clock was set back: it counts as over. Not one
        // that ends a little later, for the clocks of two processes differ.
        const taken = await unit.change(
          sql`UPDATE ${tokens} SET ${set(tokens, { leaseOwner: owner, leaseUntil: wall + leaseMs })}
            WHERE ${tokens.name} = ${name} AND (${tokens.leaseOwner} IS NULL OR ${tokens.leaseOwner} = ${owner}
              OR ${tokens.leaseUntil} <= ${wall} OR ${tokens.leaseUntil} > ${wall + 2 * leaseMs})`,
        );
        return taken > 0 ? await readTokens(unit, name) : null;
      }),

    async releaseTokens(name, owner) {
      await database.transact((unit) =>
        unit.change(
          sql`UPDATE ${tokens} SET ${set(tokens, { leaseOwner: null, leaseUntil: null })}
            WHERE ${tokens.name} = ${name} AND ${tokens.leaseOwner} = ${owner}`,
        ),
      );
    },

    saveTokens: (name, sealed, version, entry, now) =>
      database.transact(async (unit) => {
        const present = await versionOf(unit, name);
        if (version !== null && present !== version) return false;
        await unit.change(
          upsert(
            tokens,
            ['name'],
            { name, sealed, version: (present ?? 0) + 1, savedAt: iso(now.wall) },
            { refusal: null, leaseOwner: null, leaseUntil: null },
          ),
        );
        await noteAudit(unit, entry, now);
        return true;
      }),

    listSealed: () => database.sql.query<SealedText>(SEALED_TEXTS),

    reseal: (present, resealed, entry, now) =>
      database.transact(async (unit) => {
        if (!isSameSealed(await unit.query<SealedText>(SEALED_TEXTS), present)) return 'changed';
        const leases = await unit.query(
          sql`SELECT ${tokens.name} FROM ${tokens} WHERE ${tokens.leaseOwner} IS NOT NULL AND ${tokens.leaseUntil} > ${now.wall}`,
        );
        if (leases.length > 0) return 'leased';
        for (const [index, { table, row }] of present.entries())
          await unit.change(RESEAL[table](resealed[index]!, row));
        await noteAudit(unit, entry, now);
        return 'done';
      }),

    refuseTokens: (name, refusal, version, entry, now) =>
      database.transact(async (unit) => {
        if ((await versionOf(unit, name)) !== version) return false;
        await unit.change(update(tokens, { refusal }, sql`${tokens.name} = ${name}`));
        await noteAudit(unit, entry, now);
        return true;
      }),
  } satisfies Partial<OperatorStore>;
}

const RESEAL = {
  registrations: (sealedSecret: string, id: string) =>
    update(registrations, { sealedSecret }, sql`${registrations.upstreamId} = ${id}`),
  registration_answers: (sealedAnswer: string, id: string) =>
    update(registrations, { sealedAnswer }, sql`${registrations.upstreamId} = ${id}`),
  // Another version: who read the text before must read it again before saving over it.
  tokens: (sealed: string, name: string) =>
    update(tokens, { sealed, version: sql`${tokens.version} + 1` }, sql`${tokens.name} = ${name}`),
};

async function readTokens(unit: Sql, name: string): Promise<StoredTokens | null> {
  const { version, sealed, refusal } = tokens;
  return await one<StoredTokens>(
    unit,
    sql`SELECT ${as({ version, sealed, refusal })} FROM ${tokens} WHERE ${tokens.name} = ${name}`,
  );
}

async function versionOf(unit: Sql, name: string): Promise<number | null> {
  return (await readTokens(unit, name))?.version ?? null;
}

/** Where something sealed with CREDENTIALS_KEY stands: every such column of the schema, on both engines. */
const SEALED_TEXTS = sql`SELECT 'registrations' AS "table", upstream_id AS "row", sealed_secret AS sealed
  FROM registrations WHERE sealed_secret IS NOT NULL
  UNION ALL SELECT 'registration_answers', upstream_id, sealed_answer FROM registrations WHERE sealed_answer IS NOT NULL
  UNION ALL SELECT 'tokens', name, sealed FROM tokens ORDER BY 1, 2`;

function isSameSealed(stored: readonly SealedText[], read: readonly SealedText[]): boolean {
  const isSame = (each: SealedText, index: number) => {
    const other = read[index];
    return other?.table === each.table && other.row === each.row && other.sealed === each.sealed;
  };
  return stored.length === read.length && stored.every(isSame);
}

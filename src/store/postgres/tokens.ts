import { isSameSealed, SEALED_TEXTS } from '../sealed.ts';
import type { OperatorStore, SealedText, StoredTokens } from '../store.ts';
import type { Database, Sql } from './connection.ts';
import { noteAudit } from './facts.ts';
import { instantOf } from './types.ts';

type TokenVerbs = Pick<
  OperatorStore,
  'readTokens' | 'leaseTokens' | 'releaseTokens' | 'saveTokens' | 'refuseTokens' | 'listSealed' | 'reseal'
>;

/** OAuth tokens, and the lease on renewing them: one row, which every verb here locks. */
export function createTokenVerbs(database: Database): TokenVerbs {
  return {
    async readTokens(name) {
      return await readTokens(database.sql, name);
    },

    async leaseTokens(name, owner, leaseMs, now) {
      return await database.transact(async (unit) => {
        // One that ends far later than any can was taken before the wall clock was set back: it counts as over. Not one
        // that ends a little later, for the clocks of two processes differ.
        const taken = await unit.change(
          `UPDATE tokens SET lease_owner = $2, lease_until = $4::bigint WHERE name = $1 AND (lease_owner IS NULL
             OR lease_owner = $2 OR lease_until <= $3::bigint OR lease_until > $5::bigint)`,
          [name, owner, now.wall, now.wall + leaseMs, now.wall + 2 * leaseMs],
        );
        return taken > 0 ? await readTokens(unit, name) : null;
      });
    },

    async releaseTokens(name, owner) {
      await database.transact((unit) =>
        unit.change(
          'UPDATE tokens SET lease_owner = NULL, lease_until = NULL WHERE name = $1 AND lease_owner = $2',
          [name, owner],
        ),
      );
    },

    async saveTokens(name, sealed, version, entry, now) {
      return await database.transact(async (unit) => {
        const present = await versionOf(unit, name);
        if (version !== null && present !== version) return false;
        await unit.change(
          `INSERT INTO tokens (name, sealed, version, saved_at) VALUES ($1, $2, $3, $4)
           ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed, version = excluded.version, refusal = NULL,
             lease_owner = NULL, lease_until = NULL, saved_at = excluded.saved_at`,
          [name, sealed, (present ?? 0) + 1, instantOf(now.wall)],
        );
        await noteAudit(unit, entry, now);
        return true;
      });
    },

    async listSealed() {
      return await database.sql.query<SealedText>(SEALED_TEXTS);
    },

    async reseal(present, resealed, entry, now) {
      return await database.transact(async (unit) => {
        if (!isSameSealed(await unit.query<SealedText>(SEALED_TEXTS), present)) return 'changed';
        const leases = await unit.query(
          'SELECT name FROM tokens WHERE lease_owner IS NOT NULL AND lease_until > $1::bigint',
          [now.wall],
        );
        if (leases.length > 0) return 'leased';
        for (const [index, { table, row }] of present.entries()) {
          await unit.change(RESEAL[table], [resealed[index], row]);
        }
        await noteAudit(unit, entry, now);
        return 'done';
      });
    },

    async refuseTokens(name, refusal, version, entry, now) {
      return await database.transact(async (unit) => {
        if ((await versionOf(unit, name)) !== version) return false;
        await unit.change('UPDATE tokens SET refusal = $2 WHERE name = $1', [name, refusal]);
        await noteAudit(unit, entry, now);
        return true;
      });
    },
  };
}

const RESEAL: Record<SealedText['table'], string> = {
  registrations: 'UPDATE registrations SET sealed_secret = $1 WHERE upstream_id = $2',
  registration_answers: 'UPDATE registrations SET sealed_answer = $1 WHERE upstream_id = $2',
  // Another version: who read the text before must read it again before saving over it.
  tokens: 'UPDATE tokens SET sealed = $1, version = version + 1 WHERE name = $2',
};

async function readTokens(sql: Sql, name: string): Promise<StoredTokens | null> {
  const [row] = await sql.query<StoredTokens>('SELECT version, sealed, refusal FROM tokens WHERE name = $1', [
    name,
  ]);
  return row ?? null;
}

async function versionOf(sql: Sql, name: string): Promise<number | null> {
  const [row] = await sql.query<{ version: number }>('SELECT version FROM tokens WHERE name = $1', [name]);
  return row?.version ?? null;
}

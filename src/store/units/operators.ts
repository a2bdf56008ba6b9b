import type { Database, Sql } from '../database.ts';
import { AUDIT_ASKED } from '../reports.ts';
import { audit, registrations, tokens } from '../schema.ts';
import { fromJson, json, sql } from '../statement.ts';
import type { AuditEntry, Now, SealedText, StoredRegistration, StoredTokens } from '../values.ts';
import { reading } from './reading.ts';
import {
  excluded,
  firstRow,
  iso,
  noteAudit,
  readFact,
  set,
  update,
  upsert,
  writeFact,
  writerOf,
} from './sql.ts';

/** Audit, registrations, tokens and facts. */
export function createOperatorVerbs(database: Database) {
  const { sql: statements } = database;
  const write = writerOf(database);
  return {
    /** Returns its id. The outcome is `AUDIT_ASKED` until the action is done. */
    audit: (entry: AuditEntry, now: Now): Promise<number> =>
      database.transact((unit) => noteAudit(unit, entry, now)),

    /** Changes nothing if the entry has its outcome already. */
    settleAudit: (id: number, outcome: string): Promise<void> =>
      write(update(audit, { outcome }, sql`id = ${id} AND outcome = ${AUDIT_ASKED}`)),

    /** Replaces the registration with the same id. If there is no new secret, the old one stays. */
    saveRegistration({ createdWall, ...registration }: StoredRegistration): Promise<void> {
      const { sealedSecret, sealedAnswer, createdAt } = registrations;
      const row = {
        ...registration,
        events: json(registration.events),
        delivers: json(registration.delivers),
        createdAt: iso(createdWall),
      };
      const kept = {
        createdAt,
        sealedSecret: sql`coalesce(${excluded(sealedSecret)}, ${sealedSecret})`,
        sealedAnswer: sql`coalesce(${excluded(sealedAnswer)}, ${sealedAnswer})`,
      };
      return write(upsert(registrations, ['upstreamId'], row, kept));
    },

    /** False: there is none, and nothing was written. */
    forgetRegistration: (id: string, entry: AuditEntry, now: Now): Promise<boolean> =>
      database.transact(async (unit) => {
        const changed = await unit.change(sql`DELETE FROM registrations WHERE upstream_id = ${id}`);
        if (changed > 0) await noteAudit(unit, entry, now);
        return changed > 0;
      }),

    listRegistrations: reading(async (): Promise<StoredRegistration[]> => {
      type Row = Omit<StoredRegistration, 'createdWall'>;
      const rows = await statements.query<Row & { createdAt: string }>(
        sql`SELECT upstream_id AS "upstreamId", url, events, description, delivers, sealed_secret AS "sealedSecret",
            sealed_answer AS "sealedAnswer", created_at AS "createdAt"
          FROM registrations ORDER BY created_at, upstream_id`,
      );
      return rows.map(({ createdAt, ...row }) => ({
        ...row,
        events: fromJson(row.events) as string[],
        delivers: fromJson(row.delivers) as string[],
        createdWall: Date.parse(createdAt),
      }));
    }),

    listSealed: reading((): Promise<SealedText[]> => statements.query<SealedText>(SEALED_TEXTS)),

    /** Replaces `present[n]` by `resealed[n]`. Writes nothing if the database has other texts by now, or if tokens are being renewed. */
    reseal: (
      present: readonly SealedText[],
      resealed: readonly string[],
      entry: AuditEntry,
      now: Now,
    ): Promise<'done' | 'changed' | 'leased'> =>
      database.transact(async (unit) => {
        const stored = await unit.query<SealedText>(SEALED_TEXTS);
        if (contentOf(stored) !== contentOf(present)) return 'changed';
        const leased = await unit.query(
          sql`SELECT 1 FROM tokens WHERE lease_owner IS NOT NULL AND lease_until > ${now.wall}`,
        );
        if (leased.length > 0) return 'leased';
        for (const [index, { table, row }] of present.entries())
          await unit.change(RESEAL[table](resealed[index]!, row));
        await noteAudit(unit, entry, now);
        return 'done';
      }),

    /** Null: nobody has signed in yet. */
    readTokens: (name: string): Promise<StoredTokens | null> => readTokens(statements, name),

    /** Gives the right to renew the tokens for `leaseMs`, by the wall clock. Null: another owner has it, or there are no tokens. */
    leaseTokens: (
      name: string,
      owner: string,
      leaseMs: number,
      { wall }: Now,
    ): Promise<StoredTokens | null> =>
      database.transact(async (unit) => {
        // A lease that ends far later than any can was taken before the wall clock was set back, and counts as over. Twice the
        // length, since the clocks of two processes may differ a little.
        const taken = await unit.change(
          sql`UPDATE tokens SET ${set(tokens, { leaseOwner: owner, leaseUntil: wall + leaseMs })}
            WHERE name = ${name} AND (lease_owner IS NULL OR lease_owner = ${owner}
              OR lease_until <= ${wall} OR lease_until > ${wall + 2 * leaseMs})`,
        );
        return taken > 0 ? await readTokens(unit, name) : null;
      }),

    releaseTokens: (name: string, owner: string): Promise<void> =>
      write(
        update(
          tokens,
          { leaseOwner: null, leaseUntil: null },
          sql`name = ${name} AND lease_owner = ${owner}`,
        ),
      ),

    /** Replaces the tokens of this `version` (null: of any). False: other tokens were saved since, and nothing was written. */
    saveTokens: (
      name: string,
      sealed: string,
      version: number | null,
      entry: AuditEntry,
      now: Now,
    ): Promise<boolean> =>
      database.transact(async (unit) => {
        const present = (await readTokens(unit, name))?.version ?? null;
        if (version !== null && present !== version) return false;
        const saved = { name, sealed, version: (present ?? 0) + 1, savedAt: iso(now.wall) };
        const free = { refusal: null, leaseOwner: null, leaseUntil: null };
        await unit.change(upsert(tokens, ['name'], saved, free));
        await noteAudit(unit, entry, now);
        return true;
      }),

    /** Notes that the upstream refused to renew these tokens. False: other tokens were saved since, and nothing was written. */
    refuseTokens: (
      name: string,
      refusal: string,
      version: number,
      entry: AuditEntry,
      now: Now,
    ): Promise<boolean> =>
      database.transact(async (unit) => {
        const refused = update(tokens, { refusal }, sql`name = ${name} AND version = ${version}`);
        if ((await unit.change(refused)) === 0) return false;
        await noteAudit(unit, entry, now);
        return true;
      }),

    /** Null: never set. */
    readFact: (name: string): Promise<string | null> => readFact(statements, name),

    /** False: it has this value already, so somebody else has written it. */
    writeFact: (name: string, value: string): Promise<boolean> =>
      database.transact(async (unit) => {
        if ((await readFact(unit, name)) === value) return false;
        await writeFact(unit, name, value);
        return true;
      }),
  };
}

const readTokens = (unit: Sql, name: string): Promise<StoredTokens | null> =>
  firstRow<StoredTokens>(unit, sql`SELECT version, sealed, refusal FROM tokens WHERE name = ${name}`);

/** Everything in the schema that is sealed with CREDENTIALS_KEY. */
const SEALED_TEXTS = sql`SELECT 'registrations' AS "table", upstream_id AS "row", sealed_secret AS sealed
  FROM registrations WHERE sealed_secret IS NOT NULL
  UNION ALL SELECT 'registration_answers', upstream_id, sealed_answer FROM registrations WHERE sealed_answer IS NOT NULL
  UNION ALL SELECT 'tokens', name, sealed FROM tokens ORDER BY 1, 2`;

const contentOf = (texts: readonly SealedText[]): string =>
  JSON.stringify(texts.map(({ table, row, sealed }) => [table, row, sealed]));

const RESEAL = {
  registrations: (sealedSecret: string, id: string) =>
    update(registrations, { sealedSecret }, sql`upstream_id = ${id}`),
  registration_answers: (sealedAnswer: string, id: string) =>
    update(registrations, { sealedAnswer }, sql`upstream_id = ${id}`),
  // A new version, so that whoever has read the old text cannot save over this one.
  tokens: (sealed: string, name: string) =>
    update(tokens, { sealed, version: sql`${tokens.version} + 1` }, sql`name = ${name}`),
};

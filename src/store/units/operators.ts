import type { Database, Sql } from '../database.ts';
import { AUDIT_ASKED } from '../reports.ts';
import { audit, registrations, tokens } from '../schema.ts';
import { fromJson, json, sql } from '../statement.ts';
import type { AuditEntry, Now, SealedText, StoredRegistration, StoredTokens } from '../values.ts';
import { reading } from './reading.ts';
import {
  columnsOf,
  excluded,
  firstRow,
  iso,
  noteAudit,
  readFact,
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
    saveRegistration(registration: StoredRegistration): Promise<void> {
      const { sealedSecret, sealedAnswer, createdAt } = registrations;
      const { events, delivers } = registration;
      const kept = {
        createdAt,
        sealedSecret: sql`coalesce(${excluded(sealedSecret)}, ${sealedSecret})`,
        sealedAnswer: sql`coalesce(${excluded(sealedAnswer)}, ${sealedAnswer})`,
      };
      const row = { ...registration, events: json(events), delivers: json(delivers) };
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
      const rows = await statements.query<StoredRegistration>(
        sql`SELECT ${columnsOf(registrations)} FROM registrations ORDER BY created_at, upstream_id`,
      );
      return rows.map((row) => ({
        ...row,
        events: fromJson(row.events) as string[],
        delivers: fromJson(row.delivers) as string[],
      }));
    }),

    /**
     * Replaces each sealed text by what `turn` makes of all of them, at once; null: nothing is replaced. Not for a store in threads. The
     * caller holds the lease of the tokens.
     */
    reseal: (
      turn: (present: readonly SealedText[]) => { resealed: readonly string[]; entry: AuditEntry } | null,
      now: Now,
    ): Promise<void> =>
      database.transact(async (unit) => {
        const present = await unit.query<SealedText>(SEALED_TEXTS);
        const turned = turn(present);
        if (turned === null) return;
        for (const [index, { table, row }] of present.entries())
          await unit.change(RESEAL[table](turned.resealed[index]!, row));
        await noteAudit(unit, turned.entry, now);
      }),

    /** Null: nobody has signed in yet. */
    readTokens: (name: string): Promise<StoredTokens | null> => readTokens(statements, name),

    /** Saves tokens over those of this `version` (null: of any), or notes that the upstream refused to renew those. False: other tokens were saved since, and nothing was written. */
    saveTokens: (
      name: string,
      saved: { sealed: string } | { refusal: string },
      version: number | null,
      entry: AuditEntry,
      now: Now,
    ): Promise<boolean> =>
      database.transact(async (unit) => {
        const present = await readTokens(unit, name);
        if (version !== null && present?.version !== version) return false;
        if ('refusal' in saved) await unit.change(update(tokens, saved, sql`name = ${name}`));
        else {
          const row = { ...saved, name, version: (present?.version ?? 0) + 1, savedAt: iso(now.wall) };
          await unit.change(upsert(tokens, ['name'], row, { refusal: null }));
        }
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

const RESEAL = {
  registrations: (sealedSecret: string, id: string) =>
    update(registrations, { sealedSecret }, sql`upstream_id = ${id}`),
  registration_answers: (sealedAnswer: string, id: string) =>
    update(registrations, { sealedAnswer }, sql`upstream_id = ${id}`),
  // A new version, so that whoever has read the old text cannot save over this one.
  tokens: (sealed: string, name: string) =>
    update(tokens, { sealed, version: sql`${tokens.version} + 1` }, sql`name = ${name}`),
};

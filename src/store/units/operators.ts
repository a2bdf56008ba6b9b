import type { Database } from '../database.ts';
import { AUDIT_ASKED } from '../reports.ts';
import { audit, registrations, traffic } from '../schema.ts';
import type { OperatorStore, StoredRegistration } from '../store.ts';
import { noteAudit, readFact, writeFact } from './facts.ts';
import { as, excluded, iso, sql, update, upsert } from './sql.ts';
import { createTokenVerbs } from './tokens.ts';

/** What operators do, besides what concerns records: audit, registrations, tokens, traffic, facts. */
export function createOperatorVerbs(database: Database): OperatorStore {
  const { sql: statements } = database;
  return {
    ...createTokenVerbs(database),

    audit: (entry, now) => database.transact((unit) => noteAudit(unit, entry, now)),

    async settleAudit(id, outcome) {
      await database.transact((unit) =>
        unit.change(
          update(audit, { outcome }, sql`${audit.id} = ${id} AND ${audit.outcome} = ${AUDIT_ASKED}`),
        ),
      );
    },

    async saveRegistration({ createdWall, expiresWall, ...registration }) {
      const { sealedSecret, sealedAnswer, createdAt } = registrations;
      await database.transact((unit) =>
        unit.change(
          upsert(
            registrations,
            ['upstreamId'],
            {
              ...registration,
              events: unit.dialect.json(registration.events),
              delivers: unit.dialect.json(registration.delivers),
              createdAt: iso(createdWall),
              expiresAt: expiresWall === null ? null : iso(expiresWall),
            },
            {
              createdAt,
              sealedSecret: sql`coalesce(${excluded(sealedSecret)}, ${sealedSecret})`,
              sealedAnswer: sql`coalesce(${excluded(sealedAnswer)}, ${sealedAnswer})`,
            },
          ),
        ),
      );
    },

    forgetRegistration: (id, expiresWall, entry, now) =>
      database.transact(async (unit) => {
        const own = sql`${registrations.upstreamId} = ${id}`;
        const changed = await unit.change(
          expiresWall > now.wall
            ? update(registrations, { expiresAt: iso(expiresWall) }, own)
            : sql`DELETE FROM ${registrations} WHERE ${own}`,
        );
        if (changed > 0) await noteAudit(unit, entry, now);
        return changed > 0;
      }),

    async listRegistrations() {
      const { upstreamId, url, events, description, delivers, sealedSecret, sealedAnswer } = registrations;
      const { createdAt, expiresAt } = registrations;
      const rows = await statements.query<
        Omit<StoredRegistration, 'events' | 'delivers' | 'createdWall' | 'expiresWall'> &
          Record<'events' | 'delivers', unknown> & { createdAt: string; expiresAt: string | null }
      >(
        sql`SELECT ${as({ upstreamId, url, events, description, delivers, sealedSecret, sealedAnswer, createdAt, expiresAt })}
          FROM ${registrations} ORDER BY ${createdAt}, ${upstreamId}`,
      );
      return rows.map(({ createdAt, expiresAt, ...row }) => ({
        ...row,
        events: statements.dialect.fromJson(row.events) as string[],
        delivers: statements.dialect.fromJson(row.delivers) as string[],
        createdWall: Date.parse(createdAt),
        expiresWall: expiresAt === null ? null : Date.parse(expiresAt),
      }));
    },

    async addTraffic(counted, keepSince) {
      const { times, totalMs, maxMs } = traffic;
      await database.transact(async (unit) => {
        for (const { minute, what, ...sums } of counted) {
          unit.send(
            upsert(
              traffic,
              ['minute', 'what'],
              { minute, what, times: sums.times, totalMs: sums.total_ms, maxMs: sums.max_ms },
              {
                times: sql`${times} + ${excluded(times)}`,
                totalMs: sql`${totalMs} + ${excluded(totalMs)}`,
                maxMs: sql`CASE WHEN ${maxMs} < ${excluded(maxMs)} THEN ${excluded(maxMs)} ELSE ${maxMs} END`,
              },
            ),
          );
        }
        await unit.change(sql`DELETE FROM ${traffic} WHERE ${traffic.minute} < ${iso(keepSince)}`);
      });
    },

    readFact: (name) => readFact(statements, name),

    async writeFact(name, value) {
      await database.transact((unit) => writeFact(unit, name, value));
    },
  };
}

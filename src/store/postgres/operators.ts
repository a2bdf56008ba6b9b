import { AUDIT_ASKED, type OperatorStore, type StoredRegistration } from '../store.ts';
import type { Database } from './connection.ts';
import { noteAudit, readFact, writeFact } from './facts.ts';
import { rowsOf } from './rows.ts';
import { keepJson } from './text.ts';
import { createTokenVerbs } from './tokens.ts';
import { instantOf } from './types.ts';

export function createOperatorVerbs(database: Database): OperatorStore {
  const { sql } = database;
  return {
    ...createTokenVerbs(database),

    async audit(entry, now) {
      await database.transact((unit) => noteAudit(unit, entry, now));
    },

    async askAudit(entry, now) {
      return await database.transact((unit) => noteAudit(unit, { ...entry, outcome: AUDIT_ASKED }, now));
    },

    async settleAudit(id, outcome) {
      await database.transact((unit) =>
        unit.change('UPDATE audit SET outcome = $2 WHERE id = $1 AND outcome = $3', [
          id,
          outcome,
          AUDIT_ASKED,
        ]),
      );
    },

    async saveRegistration(r) {
      await database.transact((unit) =>
        unit.change(
          `INSERT INTO registrations AS r
             (upstream_id, url, events, description, delivers, sealed_secret, sealed_answer, created_at, expires_at)
           VALUES ($1, $2, $3::jsonb, $4, $5::jsonb, $6, $7, $8, $9) ON CONFLICT (upstream_id) DO UPDATE SET
             url = excluded.url, events = excluded.events, description = excluded.description,
             delivers = excluded.delivers, expires_at = excluded.expires_at,
             sealed_secret = coalesce(excluded.sealed_secret, r.sealed_secret),
             sealed_answer = coalesce(excluded.sealed_answer, r.sealed_answer)`,
          [
            ...[r.upstreamId, r.url, keepJson(r.events), r.description, keepJson(r.delivers), r.sealedSecret],
            ...[r.sealedAnswer, instantOf(r.createdWall)],
            ...[r.expiresWall === null ? null : instantOf(r.expiresWall)],
          ],
        ),
      );
    },

    async forgetRegistration(id, expiresWall, entry, now) {
      return await database.transact(async (unit) => {
        const changed =
          expiresWall > now.wall
            ? await unit.change('UPDATE registrations SET expires_at = $2 WHERE upstream_id = $1', [
                id,
                instantOf(expiresWall),
              ])
            : await unit.change('DELETE FROM registrations WHERE upstream_id = $1', [id]);
        if (changed > 0) await noteAudit(unit, entry, now);
        return changed > 0;
      });
    },

    async listRegistrations() {
      const rows = await sql.query<
        Omit<StoredRegistration, 'createdWall' | 'expiresWall'> & {
          created_at: string;
          expires_at: string | null;
        }
      >(
        `SELECT upstream_id AS "upstreamId", url, events, description, delivers, sealed_secret AS "sealedSecret",
           sealed_answer AS "sealedAnswer",
           created_at, expires_at FROM registrations ORDER BY created_at, upstream_id`,
      );
      return rows.map(({ created_at, expires_at, ...row }) => ({
        ...{ ...row, createdWall: Date.parse(created_at) },
        expiresWall: expires_at === null ? null : Date.parse(expires_at),
      }));
    },

    async addTraffic(counted, keepSince) {
      await database.transact(async (unit) => {
        await unit.change(
          `INSERT INTO traffic AS t (minute, what, times, total_ms, max_ms)
           SELECT minute, what, sum(times), sum(total_ms), max(max_ms) FROM json_to_recordset($1::json)
             AS x (minute timestamptz, what text, times bigint, total_ms float8, max_ms float8) GROUP BY minute, what
           ON CONFLICT (minute, what) DO UPDATE SET times = t.times + excluded.times,
             total_ms = t.total_ms + excluded.total_ms, max_ms = greatest(t.max_ms, excluded.max_ms)`,
          [rowsOf(counted)],
        );
        await unit.change('DELETE FROM traffic WHERE minute < $1', [instantOf(keepSince)]);
      });
    },

    async readRejection(id) {
      const [row] = await sql.query<{
        reason: string;
        t: string | null;
        bytes: number;
        bodySha256: string | null;
        header: string | null;
        body: Buffer | null;
        address: string | null;
        at: string;
      }>(
        'SELECT reason, t, bytes, body_sha256 AS "bodySha256", header, body, address, at FROM rejections WHERE id = $1',
        [id],
      );
      if (row === undefined) return null;
      const { at, ...rejection } = row;
      return { ...rejection, wall: Date.parse(at) };
    },

    async readFact(name) {
      return await readFact(sql, name);
    },

    async writeFact(name, value) {
      await database.transact((unit) => writeFact(unit, name, value));
    },
  };
}

import { AUDIT_ASKED, type OperatorStore, type StoredRegistration } from '../store.ts';
import type { Connection, Transact } from './connection.ts';
import { iso } from './records.ts';
import { createTokenVerbs } from './tokens.ts';

export function createOperatorVerbs(db: Connection, transact: Transact): OperatorStore {
  const audit = db.prepare('INSERT INTO audit (at, actor, action, outcome, target) VALUES (?, ?, ?, ?, ?)');
  const settleAudit = db.prepare('UPDATE audit SET outcome = ? WHERE id = ? AND outcome = ?');
  const saveRegistration = db.prepare(
    `INSERT INTO registrations (upstream_id, url, events, description, delivers, sealed_secret, sealed_answer, created_at, expires_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (upstream_id) DO UPDATE SET url = excluded.url, events = excluded.events,
       description = excluded.description, delivers = excluded.delivers, expires_at = excluded.expires_at,
       sealed_secret = coalesce(excluded.sealed_secret, sealed_secret),
       sealed_answer = coalesce(excluded.sealed_answer, sealed_answer)`,
  );
  const listRegistrations = db.prepare('SELECT * FROM registrations ORDER BY created_at, upstream_id');
  const expireRegistration = db.prepare('UPDATE registrations SET expires_at = ? WHERE upstream_id = ?');
  const deleteRegistration = db.prepare('DELETE FROM registrations WHERE upstream_id = ?');
  const readFact = db.prepare('SELECT value FROM facts WHERE name = ?').pluck();
  const writeFact = db.prepare(
    'INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
  );

  const addTraffic = db.prepare(
    `INSERT INTO traffic (minute, what, times, total_ms, max_ms) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (minute, what) DO UPDATE SET times = times + excluded.times, total_ms = total_ms + excluded.total_ms,
       max_ms = max(max_ms, excluded.max_ms)`,
  );
  const forgetTraffic = db.prepare('DELETE FROM traffic WHERE minute < ?');
  const readRejection = db.prepare('SELECT * FROM rejections WHERE id = ?');

  return {
    ...createTokenVerbs(db, transact),

    async audit(entry, now) {
      transact(() => audit.run(iso(now.wall), entry.actor, entry.action, entry.outcome, entry.target));
    },

    async askAudit({ actor, action, target }, now) {
      return transact(() =>
        Number(audit.run(iso(now.wall), actor, action, AUDIT_ASKED, target).lastInsertRowid),
      );
    },

    async settleAudit(id, outcome) {
      transact(() => settleAudit.run(outcome, id, AUDIT_ASKED));
    },

    async saveRegistration(r) {
      transact(() =>
        saveRegistration.run(
          ...[r.upstreamId, r.url, JSON.stringify(r.events), r.description, JSON.stringify(r.delivers)],
          ...[r.sealedSecret, r.sealedAnswer, iso(r.createdWall)],
          r.expiresWall === null ? null : iso(r.expiresWall),
        ),
      );
    },

    async forgetRegistration(id, expiresWall, entry, now) {
      return transact(() => {
        const { changes } =
          expiresWall > now.wall ? expireRegistration.run(iso(expiresWall), id) : deleteRegistration.run(id);
        if (changes > 0) audit.run(iso(now.wall), entry.actor, entry.action, entry.outcome, entry.target);
        return changes > 0;
      });
    },

    async listRegistrations() {
      return (listRegistrations.all() as Record<string, string | null>[]).map(
        (row): StoredRegistration => ({
          upstreamId: row['upstream_id'] ?? '',
          url: row['url'] ?? '',
          events: JSON.parse(row['events'] ?? '[]') as string[],
          description: row['description'] ?? '',
          delivers: JSON.parse(row['delivers'] ?? '[]') as string[],
          sealedSecret: row['sealed_secret'] ?? null,
          sealedAnswer: row['sealed_answer'] ?? null,
          createdWall: Date.parse(row['created_at'] ?? ''),
          expiresWall: row['expires_at'] == null ? null : Date.parse(row['expires_at']),
        }),
      );
    },

    async addTraffic(counted, keepSince) {
      transact(() => {
        for (const { minute, what, times, total_ms, max_ms } of counted) {
          addTraffic.run(minute, what, times, total_ms, max_ms);
        }
        forgetTraffic.run(iso(keepSince));
      });
    },

    async readRejection(id) {
      const row = readRejection.get(id) as Record<string, unknown> | undefined;
      if (row === undefined) return null;
      return {
        reason: String(row['reason']),
        t: row['t'] as string | null,
        bytes: Number(row['bytes']),
        bodySha256: row['body_sha256'] as string | null,
        header: row['header'] as string | null,
        body: row['body'] as Buffer | null,
        address: row['address'] as string | null,
        wall: Date.parse(String(row['at'])),
      };
    },

    async readFact(name) {
      return (readFact.get(name) as string | undefined) ?? null;
    },

    async writeFact(name, value) {
      transact(() => writeFact.run(name, value));
    },
  };
}

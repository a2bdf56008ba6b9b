import { isSameSealed, SEALED_TEXTS } from '../sealed.ts';
import type { AuditEntry, Now, OperatorStore, SealedText, StoredTokens } from '../store.ts';
import type { Connection, Transact } from './connection.ts';
import { iso } from './records.ts';

type TokenVerbs = Pick<
  OperatorStore,
  'readTokens' | 'leaseTokens' | 'releaseTokens' | 'saveTokens' | 'refuseTokens' | 'listSealed' | 'reseal'
>;

export function createTokenVerbs(db: Connection, transact: Transact): TokenVerbs {
  const read = db.prepare('SELECT version, sealed, refusal FROM tokens WHERE name = ?');
  const readVersion = db.prepare('SELECT version FROM tokens WHERE name = ?').pluck();
  // One that ends far later than any can was taken before the wall clock was set back: it counts as over.
  const lease = db.prepare(
    `UPDATE tokens SET lease_owner = @owner, lease_until = @now + @leaseMs
     WHERE name = @name AND (lease_owner IS NULL OR lease_owner = @owner OR lease_until <= @now
       OR lease_until > @now + 2 * @leaseMs)`,
  );
  const release = db.prepare(
    'UPDATE tokens SET lease_owner = NULL, lease_until = NULL WHERE name = ? AND lease_owner = ?',
  );
  const save = db.prepare(
    `INSERT INTO tokens (name, sealed, version, saved_at) VALUES (@name, @sealed, @version, @at)
     ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed, version = excluded.version, refusal = NULL,
       lease_owner = NULL, lease_until = NULL, saved_at = excluded.saved_at`,
  );
  const refuse = db.prepare('UPDATE tokens SET refusal = ? WHERE name = ?');
  const audit = db.prepare('INSERT INTO audit (at, actor, action, outcome, target) VALUES (?, ?, ?, ?, ?)');

  const listSealed = db.prepare(SEALED_TEXTS);
  const leased = db
    .prepare('SELECT count(*) FROM tokens WHERE lease_owner IS NOT NULL AND lease_until > ?')
    .pluck();
  const reseal = {
    registrations: db.prepare('UPDATE registrations SET sealed_secret = ? WHERE upstream_id = ?'),
    registration_answers: db.prepare('UPDATE registrations SET sealed_answer = ? WHERE upstream_id = ?'),
    // Another version: who read the text before must read it again before saving over it.
    tokens: db.prepare('UPDATE tokens SET sealed = ?, version = version + 1 WHERE name = ?'),
  };

  const versionOf = (name: string) => (readVersion.get(name) as number | undefined) ?? null;
  const note = (entry: AuditEntry, now: Now) =>
    audit.run(iso(now.wall), entry.actor, entry.action, entry.outcome, entry.target);

  return {
    async readTokens(name) {
      return (read.get(name) as StoredTokens | undefined) ?? null;
    },

    async leaseTokens(name, owner, leaseMs, now) {
      return transact(() => {
        const taken = lease.run({ name, owner, leaseMs, now: now.wall }).changes > 0;
        return taken ? (read.get(name) as StoredTokens) : null;
      });
    },

    async releaseTokens(name, owner) {
      transact(() => release.run(name, owner));
    },

    async saveTokens(name, sealed, version, entry, now) {
      return transact(() => {
        const present = versionOf(name);
        if (version !== null && present !== version) return false;
        save.run({ name, sealed, version: (present ?? 0) + 1, at: iso(now.wall) });
        note(entry, now);
        return true;
      });
    },

    async listSealed() {
      return listSealed.all() as SealedText[];
    },

    async reseal(present, resealed, entry, now) {
      return transact(() => {
        if (!isSameSealed(listSealed.all() as SealedText[], present)) return 'changed';
        if (Number(leased.get(now.wall)) > 0) return 'leased';
        for (const [index, { table, row }] of present.entries()) reseal[table].run(resealed[index], row);
        note(entry, now);
        return 'done';
      });
    },

    async refuseTokens(name, refusal, version, entry, now) {
      return transact(() => {
        if (versionOf(name) !== version) return false;
        refuse.run(refusal, name);
        note(entry, now);
        return true;
      });
    },
  };
}

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { StoreUnavailable, UsageError } from '../../src/platform/errors.ts';
import { backUpStore, openStore } from '../../src/store/open.ts';
import { createDatabase } from '../../src/store/postgres/connection.ts';
import type { PostgresSettings } from '../../src/store/postgres/pool.ts';
import { sql } from '../../src/store/statement.ts';
import { startPooler } from '../postgres/pooler.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';

let server: PostgresServer;

beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

const now = { wall: Date.now(), steady: 5_000 };
const journal = JSON.parse(
  readFileSync(fileURLToPath(new URL('../../drizzle/postgres/meta/_journal.json', import.meta.url)), 'utf8'),
) as { entries: unknown[] };

async function opened(url: string, postgres: PostgresSettings = {}): Promise<void> {
  await (await openStore(url, { postgres })).close();
}

/** What opening says, in one text: the message and the dirty mark. */
async function refusal(
  url: string,
  options: Parameters<typeof openStore>[1] = {},
): Promise<{ error: unknown; says: string }> {
  const error: unknown = await openStore(url, options).then(
    async (store) => {
      await store.close();
      return new Error('it was opened');
    },
    (reason: unknown) => reason,
  );
  const { message, remedy } = error as UsageError;
  return { error, says: `${message}; ${remedy}` };
}

/** A user of its own, with its URL. */
async function createUser(url: string, name: string, sql = ''): Promise<string> {
  await server.query(`CREATE ROLE ${name} LOGIN PASSWORD 'secret-of-${name}'; ${sql}`, url);
  return server.url({
    database: new URL(url).pathname.slice(1),
    user: name,
    password: `secret-of-${name}`,
  });
}

describe('opening a PostgreSQL database', () => {
  it('makes the schema once, however many replicas start together', async () => {
    const url = await server.createDatabase();
    const stores = await Promise.all(Array.from({ length: 5 }, () => openStore(url)));
    for (const store of stores) {
      await store.checkWritable();
      await store.close();
    }
    const noted = await server.query('SELECT hash FROM __drizzle_migrations', url);
    expect(noted).toHaveLength(journal.entries.length);
  });

  it('keeps mirrors in schemas of one database apart, whatever the schemas are called', async () => {
    const url = await server.createDatabase();
    const schemas = ['public', 'mirror two', 'Mirror "3"', "quo'te"];
    const stores = await Promise.all(schemas.map((schema) => openStore(url, { postgres: { schema } })));
    for (const [place, store] of stores.entries()) await store.writeFact('place', String(place));
    for (const [place, store] of stores.entries()) {
      expect(await store.readFact('place')).toBe(String(place));
      expect((await store.summary()).database_bytes).toBeGreaterThan(0);
      await store.openProblem({ reason: 'downtime', kind: null, recordId: null }, null, now);
      expect((await store.summary()).open_problems).toBe(1);
      await store.close();
    }
    await opened(url, { schema: 'Mirror "3"' });
  });

  it('is refused where a newer version has written, and to look where another one has', async () => {
    const url = await server.createDatabase();
    expect((await refusal(url, { readOnly: true })).says).toMatch(/no mirror in the schema public.*migrate/);
    await opened(url);
    await opened(url);
    await server.query('UPDATE __drizzle_migrations SET created_at = created_at - 1', url);
    expect((await refusal(url, { readOnly: true })).says).toMatch(/schema of an earlier version.*migrate/);
    await server.query('UPDATE __drizzle_migrations SET created_at = created_at + 1000000', url);
    const { error, says } = await refusal(url);
    expect(error).toBeInstanceOf(UsageError);
    expect(says).toMatch(/newer version/);
  });

  it('works as a role that the user takes on, and whose rights he has in no other way', async () => {
    const url = await server.createDatabase();
    const user = await createUser(
      url,
      'taker',
      `ALTER ROLE taker NOINHERIT; CREATE ROLE taken NOLOGIN; GRANT taken TO taker; ALTER ROLE taker SET role = taken;
       CREATE SCHEMA mine AUTHORIZATION taken`,
    );
    await opened(user, { schema: 'mine' });
  });

  it('leaves the schema as it was when a step of its migration fails', async () => {
    const url = await server.createDatabase();
    await server.query('CREATE VIEW current_vendors AS SELECT 1', url);
    const { error, says } = await refusal(url);
    expect(error).toMatchObject({ code: 'migration_failed' });
    expect(says).toMatch(/current_vendors.*nothing was changed/);
    expect(await server.query("SELECT 1 FROM pg_tables WHERE schemaname = 'public'", url)).toEqual([]);
  });

  it('to look needs no more than SELECT, and changes nothing', async () => {
    const url = await server.createDatabase();
    await opened(url);
    const reader = await createUser(
      url,
      'looker',
      'GRANT SELECT ON ALL TABLES IN SCHEMA public TO looker; GRANT USAGE ON SCHEMA public TO looker',
    );
    const store = await openStore(reader, { readOnly: true });
    expect((await store.summary()).kinds).toHaveLength(3);
    await expect(store.writeFact('a', 'b')).rejects.toThrow(StoreUnavailable);
    await store.close();
  });

  it("shows readers the views, and nothing of the mirror's own tables", async () => {
    const url = await server.createDatabase();
    const store = await openStore(url);
    const reader = await createUser(
      url,
      'reader',
      'GRANT SELECT ON current_policies, current_risk_assessments, current_vendors, sync_status, changes TO reader',
    );
    await store.beat(now, {
      eventsOnly: false,
      settleMs: 1,
      fullSyncMs: 0,
      unreachable: false as const,
      access: 'key',
    });
    await store.close();
    expect(await server.query('SELECT * FROM current_policies', reader)).toEqual([]);
    const status = await server.query('SELECT kind, verdict FROM sync_status', reader);
    expect(status).toHaveLength(3);
    for (const table of ['record_state', 'tokens', 'registrations', 'events']) {
      await expect(server.query(`SELECT * FROM ${table}`, reader)).rejects.toThrow(/permission denied/);
    }
    await expect(server.query('DELETE FROM current_policies', reader)).rejects.toThrow(/permission denied/);
  });
});

describe('every connection', () => {
  it('has its limits, its schema, UTC and our name', async () => {
    const url = await server.createDatabase();
    await server.query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET transaction_timeout = '1s'`);
    const database = createDatabase(url, {
      schema: 'mine',
      statementTimeoutMs: 1234,
      lockTimeoutMs: 567,
    });
    const names = [
      ...['search_path', 'statement_timeout', 'lock_timeout', 'application_name', 'timezone'],
      ...['idle_in_transaction_session_timeout', 'default_transaction_isolation', 'transaction_timeout'],
    ];
    const rows = await database.sql.query<{ name: string; value: string }>(
      sql`SELECT name, current_setting(name) AS value FROM unnest(${names}::text[]) AS name`,
    );
    await database.close();
    expect(Object.fromEntries(rows.map(({ name, value }) => [name, value]))).toEqual({
      search_path: 'mine',
      statement_timeout: '1234ms',
      lock_timeout: '567ms',
      application_name: 'compliance-mirror',
      timezone: 'UTC',
      idle_in_transaction_session_timeout: '10s',
      default_transaction_isolation: 'read committed',
      transaction_timeout: '0',
    });
  });
});

describe('a server that will not do', () => {
  it('says which privileges are missing, and how to grant them', async () => {
    const url = await server.createDatabase();
    const user = await createUser(url, 'outsider');
    const first = await refusal(user);
    expect(first.says).toMatch(
      /could not be migrated: permission denied.*GRANT CREATE, USAGE ON SCHEMA "public" TO "outsider"/,
    );
    await opened(url);
    const { error, says } = await refusal(user);
    expect(error).toBeInstanceOf(UsageError);
    expect(says).toMatch(/the user outsider lacks privileges on \d+ tables of the schema public/);
    const grants = says.slice(says.indexOf('run ') + 4);
    await server.query(grants, url);
    const store = await openStore(user);
    await store.checkWritable();
    await store.openProblem({ reason: 'downtime', kind: null, recordId: null }, null, now);
    await store.close();
  });

  it('names other roles that may write our tables, or read what is not for readers, and how that ends', async () => {
    const url = await server.createDatabase();
    await server.query(
      `CREATE ROLE anon NOLOGIN; GRANT USAGE ON SCHEMA public TO anon;
       ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO anon`,
      url,
    );
    const store = await openStore(url);
    await server.query('CREATE ROLE analysts NOLOGIN; GRANT SELECT ON vendors, sync_status TO analysts', url);
    const [exposed, ...more] = await store.exposures();
    expect(more).toEqual([]);
    expect(exposed!.says).toMatch(
      /^the role anon may change tables .* of the schema public, among them __drizzle/,
    );
    const revoke = /REVOKE ALL ON .* FROM anon/.exec(exposed!.remedy)![0];
    await server.query(revoke, url);
    expect(await store.exposures()).toEqual([]);
    await store.close();
  });

  it('says whom a migration waits for', async () => {
    const url = await server.createDatabase();
    const other = new pg.Client({ connectionString: url, application_name: 'somebody' });
    await other.connect();
    // As another process does while it migrates: whoever else does must wait.
    await other.query('BEGIN; CREATE TABLE facts (name text)');
    const told = Promise.withResolvers<string>();
    const opening = openStore(url, { onWaiting: told.resolve });
    expect(await told.promise).toMatch(
      /a lock that is held by process \d+ \(user postgres, somebody, idle in/,
    );
    await other.query('ROLLBACK');
    await other.end();
    await (await opening).close();
  });

  it('is named where it takes no writes', async () => {
    const url = await server.createDatabase();
    await opened(url);
    const user = await createUser(
      url,
      'settled',
      'ALTER ROLE settled SUPERUSER; ALTER ROLE settled SET default_transaction_read_only = on',
    );
    const { error, says } = await refusal(user);
    expect(error).toBeInstanceOf(UsageError);
    expect(says).toMatch(/takes no writes.*ALTER ROLE "settled" SET default_transaction_read_only = off/);
    await (await openStore(user, { readOnly: true })).close();
  });

  it('is refused where a crash would lose what was acknowledged', async () => {
    const url = await server.createDatabase();
    const user = await createUser(
      url,
      'hasty',
      'ALTER ROLE hasty SUPERUSER; ALTER ROLE hasty SET synchronous_commit = off',
    );
    const { error, says } = await refusal(user);
    expect(error).toBeInstanceOf(UsageError);
    expect(says).toMatch(/synchronous_commit is off.*ALTER ROLE "hasty" SET synchronous_commit = on/);
    await server.query('ALTER ROLE hasty SET synchronous_commit = local', url);
    await opened(user);
  });

  it('is refused without fsync', async () => {
    const url = await server.createDatabase();
    await server.query('ALTER SYSTEM SET fsync = off', url);
    await server.reload();
    expect((await refusal(url)).says).toMatch(/fsync is off.*ALTER SYSTEM SET fsync = on/);
    await server.query('ALTER SYSTEM RESET fsync', url);
    await server.reload();
    await opened(url);
  });

  it('is refused where it cannot hold every text', async () => {
    await server.query(
      "CREATE DATABASE narrow ENCODING 'LATIN1' LOCALE 'C' LOCALE_PROVIDER libc TEMPLATE template0",
    );
    const { error, says } = await refusal(server.url({ database: 'narrow' }));
    expect(error).toBeInstanceOf(UsageError);
    expect(says).toMatch(/LATIN1.*ENCODING 'UTF8'/);
  });

  it.each([
    ['a wrong password', () => server.url({ password: 'wrong-and-secret' }), /refuses the password/],
    ['an unknown database', () => server.url({ database: 'nowhere' }), /no such database/],
    ['several hosts', () => 'postgres://u:wrong-and-secret@a,b/x', /several hosts.*with one host/],
    [
      'several hosts and ports',
      () => 'postgres://u:wrong-and-secret@a:1,b:2/x',
      /cannot be used.*with one host/,
    ],
    [
      'an address that is none',
      () => 'postgres://user:wrong-and-secret@host:port/x',
      /DATABASE_URL cannot be used/,
    ],
  ])('with %s is a wrong setting, and no secret is told', async (_what, url, message) => {
    const { error, says } = await refusal(url());
    expect(error).toBeInstanceOf(UsageError);
    expect(says).toMatch(message);
    expect(JSON.stringify([says, String((error as Error).stack)])).not.toContain('wrong-and-secret');
  });

  it('that lets nobody into the database for a while may do so again', async () => {
    const url = await server.createDatabase();
    await server.query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} ALLOW_CONNECTIONS false`);
    const { error, says } = await refusal(url);
    expect(error).toBeInstanceOf(StoreUnavailable);
    expect(says).toMatch(/not currently accepting connections.*ALLOW_CONNECTIONS true/);
  });

  it('that is not there may come yet', async () => {
    const { error, says } = await refusal('postgres://u:secret-word@127.0.0.1:1/x');
    expect(error).toBeInstanceOf(StoreUnavailable);
    expect(says).toMatch(/ECONNREFUSED.*is the server up/);
    expect(says).not.toContain('secret-word');
  });

  it("asks for TLS where the authority's file is named, and for that file", async () => {
    const url = await server.createDatabase();
    const missing = await refusal(url, { postgres: { tlsCaFile: '/nowhere/ca.pem' } });
    expect(missing.error).toBeInstanceOf(UsageError);
    expect(missing.says).toContain('/nowhere/ca.pem');
    const ca = fileURLToPath(new URL('../../package.json', import.meta.url));
    expect((await refusal(url, { postgres: { tlsCaFile: ca } })).says).toMatch(/does not support SSL/);
  });

  it('is not reached through a pooler of transactions', async () => {
    const url = new URL(await server.createDatabase());
    await opened(url.href);
    const pooler = await startPooler(Number(url.port), 'transaction');
    try {
      url.port = String(pooler.port);
      const { error, says } = await refusal(url.href);
      expect(error).toBeInstanceOf(UsageError);
      expect(says).toMatch(/a pooler of transactions.*pool_mode = session/);
    } finally {
      pooler.close();
    }
  });

  it('is no place for a backup of ours', async () => {
    await expect(backUpStore(server.url(), { to: '/nowhere' } as never)).rejects.toThrow(UsageError);
  });
});

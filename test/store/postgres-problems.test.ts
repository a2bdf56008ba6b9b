import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { openPostgres } from '../../src/store/postgres/postgres.ts';
import { createTestDatabase, type TestDatabase } from '../postgres/database.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { createScene, type Scene } from './scene.ts';

let server: PostgresServer;
let database: TestDatabase;
let scene: Scene;

beforeAll(async () => {
  server = await startPostgres();
  database = await createTestDatabase(server);
  await server.query('CREATE SEQUENCE commits', database.url);
});
afterAll(async () => {
  await database.close();
  await server.stop();
});

beforeEach(async () => {
  await database.empty();
  scene = await createScene(async () => {
    const store = await openPostgres(database.url);
    return { store, query: database.query, close: () => store.close() };
  });
  onTestFinished(() => scene.close());
});

/** Commits that touch a problem fail, as the server's own do: after all of their statements. */
async function failCommits(times: number, sqlState: string): Promise<void> {
  await server.query(
    `SELECT setval('commits', 1, false);
     CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       IF nextval('public.commits') <= ${times} THEN RAISE EXCEPTION 'not now' USING ERRCODE = '${sqlState}'; END IF;
       RETURN NULL;
     END $$;
     CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE ON problems DEFERRABLE INITIALLY DEFERRED
       FOR EACH ROW EXECUTE FUNCTION refuse()`,
    database.url,
  );
  onTestFinished(async () => void (await server.query('DROP FUNCTION refuse CASCADE', database.url)));
}

const tries = async () => Number((await database.query('SELECT last_value AS n FROM commits'))[0]?.['n']);

describe('a problem', () => {
  it('is told once, although its commit was tried again', async () => {
    await failCommits(2, '40001');
    await scene.accept(scene.event({ id: 'evt_a', recordId: null, data: { x: 1 } }));
    await scene.work();
    expect(await tries()).toBe(3);
    expect(await scene.openProblems()).toEqual(['unknown_record policy -']);
    expect(scene.toldOfProblems()).toHaveLength(1);
  });

  it('is not told where its commit failed', async () => {
    await failCommits(1, '23514');
    const opened = () =>
      scene.store.openProblem({ reason: 'silence', kind: null, recordId: null }, 'x', scene.now());
    await expect(opened()).rejects.toThrow('not now');
    expect(scene.toldOfProblems()).toEqual([]);
    await opened();
    expect(scene.toldOfProblems()).toEqual(['opened silence - -: x']);
  });
});

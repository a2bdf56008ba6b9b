import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { cli, inTemporaryDirectory, type Running, start } from '../cli/executable.ts';
import { type OauthServer, oauthSettings, startOauthServer } from './oauth-server.ts';

const OPS_TOKEN = 'operate-while-tokens-expire';
const POLICIES = Array.from({ length: 9 }, (_, n) => ({
  policyId: `p${n}`,
  name: `Policy ${n}`,
  version: '1.0',
  status: 'draft',
}));
const PAGE_SIZE = 2;
/** Far enough into the list that pages were read with the old token, and pages are left for the new one. */
const EXPIRES_AT_PAGE = 3;

let server: OauthServer;
beforeEach(async () => {
  server = await startOauthServer();
  server.policies = [...POLICIES];
});
afterEach(() => server.close());

const settingsFor = (directory: string): Record<string, string> => ({
  ...oauthSettings(server, directory),
  PORT: '0',
  OPS_PORT: '0',
  OPS_TOKENS: `test:operate:${OPS_TOKEN}`,
  WEBHOOK_SECRETS: 'a-secret-that-signs-nothing',
  COMPLIANCE_REQUESTS_PER_MINUTE: '6000',
  COMPLIANCE_PAGE_SIZE: String(PAGE_SIZE),
  SYNC_SETTLE_SECONDS: '0.1',
  SYNC_FULL_MINUTES: '0',
});

async function signIn(settings: Record<string, string>): Promise<void> {
  const login = start(['login'], settings);
  await fetch(await login.line('/auth/oauth/authorize'));
  expect(await login.exited).toBe(0);
}

const refreshes = () => server.grants.filter(({ body }) => body['grant_type'] === 'refresh_token');

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((done) => setTimeout(done, 20));
}

/** Holds the API's answers from the call on that `isIt`; resolves to what lets them go, once that call is there. */
async function heldFrom(isIt: () => boolean): Promise<() => void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const reached = Promise.withResolvers<void>();
  server.onCall = () => {
    if (!isIt()) return;
    server.gate = promise;
    server.onCall = () => {};
    reached.resolve();
  };
  await reached.promise;
  return () => {
    server.gate = null;
    resolve();
  };
}

/** Runs `ask` while the service waits for a page of its full sync, and the token both have in hand expires. */
async function expireUnderBoth<T>(syncing: () => Promise<unknown>, ask: () => Promise<T>): Promise<T> {
  const before = server.calls.length;
  const held = heldFrom(
    () => server.calls.slice(before).filter(({ path }) => path === '/v1/policies').length === EXPIRES_AT_PAGE,
  );
  const synced = syncing();
  const release = await held;
  const waiting = server.calls.length;
  const asked = ask();
  // The other process has sent its request with the same token, and neither has an answer.
  await until(() => server.calls.length > waiting);
  expect(new Set(server.calls.slice(before).map(({ authorization }) => authorization)).size).toBe(1);
  server.expireAccess();
  release();
  const answer = await asked;
  await synced;
  return answer;
}

const queried = <T>(directory: string, sql: string): T[] => {
  const database = new DatabaseSync(join(directory, 'mirror.db'), { readOnly: true, timeout: 30_000 });
  try {
    return database.prepare(sql).all() as T[];
  } finally {
    database.close();
  }
};
const gapsOf = (directory: string) =>
  queried<{ reason: string; kind: string; error: string; resolved_at: string | null }>(
    directory,
    "select reason, kind, error, resolved_at from gaps where reason = 'credentials_rejected' and kind = 'policy'",
  );
const isSynced = (directory: string) =>
  queried(directory, "select 1 from sync_runs where kind = 'policy' and outcome = 'complete' and seen = 9")
    .length > 0;
const live = (directory: string) =>
  queried<{ n: number }>(directory, 'select count(*) as n from policies where deleted_at is null')[0]!.n;

async function running(settings: Record<string, string>): Promise<Running> {
  const service = start(['serve'], settings);
  await service.line('Operators: ');
  return service;
}

it('a token that expires under a full sync and a command is renewed once between them, and the full sync completes', async () => {
  await inTemporaryDirectory(async (directory) => {
    const settings = settingsFor(directory);
    await signIn(settings);
    let service: Running | undefined;
    const asked = await expireUnderBoth(
      async () => {
        service = await running(settings);
      },
      () => cli(['api', 'GET', '/vendors?page=1&perPage=5'], settings),
    );
    expect(asked).toMatchObject({ code: 0, err: '' });
    await until(() => isSynced(directory));
    expect(refreshes()).toHaveLength(1);
    expect(live(directory)).toBe(POLICIES.length);
    expect(gapsOf(directory)).toEqual([]);

    // The rotated refresh token is the one that is kept: the next renewal uses it, again once for both.
    const again = await expireUnderBoth(
      () => cli(['sync', '--kind', 'policy', '--wait'], settings),
      () => cli(['api', 'GET', '/vendors?page=1&perPage=5'], settings),
    );
    expect(again.code).toBe(0);
    const used = refreshes().map(({ body }) => body['refresh_token']);
    expect(used).toHaveLength(2);
    expect(used[1]).not.toBe(used[0]);
    expect(await service!.stop()).toBe(0);
  });
});

it('a refresh token revoked under a full sync leaves a gap that says what to do; nothing stops and nothing is deleted', async () => {
  await inTemporaryDirectory(async (directory) => {
    const settings = settingsFor(directory);
    await signIn(settings);
    const service = await running(settings);
    await until(() => isSynced(directory));
    expect(live(directory)).toBe(POLICIES.length);

    server.revokeRefresh();
    let fullSync: Awaited<ReturnType<typeof cli>> | undefined;
    const asked = await expireUnderBoth(
      async () => {
        fullSync = await cli(['sync', '--kind', 'policy', '--wait'], settings);
      },
      async () => {
        // Whoever took the rest of the list scan for the truth would find everything gone.
        server.policies = [];
        return await cli(['api', 'GET', '/policies'], settings);
      },
    );
    expect(asked.code).toBe(1);
    expect(asked.err).toContain('compliance-mirror login');
    expect(fullSync!.code).toBe(1);
    expect(refreshes()).toHaveLength(1);
    expect(service.child.exitCode).toBeNull();
    expect(live(directory)).toBe(POLICIES.length);
    expect(gapsOf(directory)).toMatchObject([
      { resolved_at: null, error: expect.stringContaining('compliance-mirror login') },
    ]);

    server.policies = [...POLICIES];
    await signIn(settings);
    expect((await cli(['sync', '--kind', 'policy', '--wait'], settings)).code).toBe(0);
    expect(gapsOf(directory)).toMatchObject([{ resolved_at: expect.any(String) }]);
    expect(live(directory)).toBe(POLICIES.length);
    expect(await service.stop()).toBe(0);
  });
});

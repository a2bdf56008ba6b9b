import { expect, test } from 'vitest';
import {
  createSessions,
  SESSION_IDLE_MS,
  SESSION_LIFETIME_MS,
  sessionsInMemory,
} from '../../src/ops/sessions.ts';
import type { KnownToken } from '../../src/ops/tokens.ts';
import { openSqlite } from '../../src/store/sqlite/sqlite.ts';

/** In memory, and in a database that another process opens as well. */
const KEPT = ['in memory', 'in the database'] as const;

const TOKEN: KnownToken = { name: 'olga', role: 'operate', key: 'key' };
const ANOTHER: KnownToken = { name: 'rita', role: 'read', key: 'another' };

async function sessionsAt(where: (typeof KEPT)[number]) {
  const clock = { now: 0, steady: () => clock.now };
  const store = where === 'in memory' ? sessionsInMemory() : await openSqlite(':memory:');
  const tokens = new Set([ANOTHER, TOKEN]);
  const open = () => createSessions({ store, clock, tokens: () => [...tokens] });
  return { clock, store, tokens, sessions: open(), elsewhere: open() };
}

test.each(KEPT)('%s: a session is found by its id alone, and not after it is closed', async (where) => {
  const { sessions } = await sessionsAt(where);
  const id = await sessions.open(TOKEN);
  expect(await sessions.find(id)).toEqual({ name: 'olga', role: 'operate', isSession: true });
  expect(await sessions.find(`${id}x`)).toBeNull();
  await sessions.close(id);
  expect(await sessions.find(id)).toBeNull();
});

test.each(KEPT)('%s: a session that nobody uses ends, and use keeps it', async (where) => {
  const { clock, sessions } = await sessionsAt(where);
  const id = await sessions.open(TOKEN);
  clock.now += SESSION_IDLE_MS - 1;
  expect(await sessions.find(id)).not.toBeNull();
  clock.now += SESSION_IDLE_MS - 1;
  expect(await sessions.find(id)).not.toBeNull();
  clock.now += SESSION_IDLE_MS;
  expect(await sessions.find(id)).toBeNull();
});

test('the use of an open page is written once a minute, not at each look', async () => {
  const { clock, store } = await sessionsAt('in memory');
  const noted = new Set<number>();
  const useSession: typeof store.useSession = async (...args) => {
    const session = await store.useSession(...args);
    noted.add(session!.usedAt);
    return session;
  };
  const sessions = createSessions({ store: { ...store, useSession }, clock, tokens: () => [TOKEN] });
  const id = await sessions.open(TOKEN);
  for (; clock.now < 180_000; clock.now += 1_000) await sessions.find(id);
  expect([...noted]).toEqual([0, 60_000, 120_000]);
});

test.each(KEPT)('%s: no use keeps a session beyond its lifetime', async (where) => {
  const { clock, sessions } = await sessionsAt(where);
  const id = await sessions.open(TOKEN);
  while (clock.now < SESSION_LIFETIME_MS - SESSION_IDLE_MS / 2) {
    clock.now += SESSION_IDLE_MS / 2;
    expect((await sessions.find(id)) === null).toBe(clock.now >= SESSION_LIFETIME_MS);
  }
  clock.now = SESSION_LIFETIME_MS;
  expect(await sessions.find(id)).toBeNull();
});

test.each(KEPT)(
  '%s: beyond 50 sessions of a token its oldest is closed, and no other token’s',
  async (where) => {
    const { clock, sessions } = await sessionsAt(where);
    const ids: string[] = [];
    const another = await sessions.open(ANOTHER);
    for (let opened = 0; opened < 51; opened += 1) {
      clock.now += 1;
      ids.push(await sessions.open(TOKEN));
    }
    expect(await sessions.find(ids[0]!)).toBeNull();
    for (const id of [another, ids[1]!, ids[50]!]) expect(await sessions.find(id)).not.toBeNull();
  },
);

test('a session opened at one replica is known to the others, and closed for all', async () => {
  const { sessions, elsewhere } = await sessionsAt('in the database');
  const id = await sessions.open(TOKEN);
  const seen = await elsewhere.find(id);
  expect(seen).toEqual(await sessions.find(id));
  expect(seen).toMatchObject({ name: 'olga' });
  await elsewhere.close(id);
  expect(await sessions.find(id)).toBeNull();
});

test.each(KEPT)('%s: a session ends with its token, and no other token takes it over', async (where) => {
  const { sessions, tokens } = await sessionsAt(where);
  const id = await sessions.open(TOKEN);
  tokens.delete(TOKEN);
  expect(await sessions.find(id)).toBeNull();
  tokens.add(TOKEN);
  expect(await sessions.find(id)).toBeNull();
});

test.each(KEPT)('%s: what is kept of a session is no way in', async (where) => {
  const { store, sessions } = await sessionsAt(where);
  const kept: string[] = [];
  const spied = createSessions({
    store: {
      ...store,
      openSession: async (session, keep) => {
        kept.push(...Object.values(session).map(String));
        await store.openSession(session, keep);
      },
    },
    clock: { steady: () => 0 },
    tokens: () => [TOKEN],
  });
  const id = await spied.open(TOKEN);
  expect(await spied.find(id)).not.toBeNull();
  for (const text of kept) {
    expect(await sessions.find(text)).toBeNull();
    expect([id, 'key']).not.toContain(text);
  }
});

import { expect, test } from 'vitest';
import {
  createSessions,
  createSharedSessions,
  SESSION_IDLE_MS,
  SESSION_LIFETIME_MS,
} from '../../src/ops/sessions.ts';
import { openSqlite } from '../../src/store/sqlite/sqlite.ts';

/** In memory, and in a database that another process opens as well. */
const KEPT = ['in memory', 'in the database'] as const;

async function sessionsAt(where: (typeof KEPT)[number]) {
  const clock = { now: 0, steady: () => clock.now };
  if (where === 'in memory') return { clock, sessions: createSessions(clock) };
  const store = await openSqlite({ path: ':memory:' });
  const tokens = new Set(['key', 'another']);
  const open = () => createSharedSessions({ store, clock, tokenKeys: () => [...tokens] });
  return { clock, store, tokens, sessions: open(), elsewhere: open() };
}

test.each(KEPT)('%s: a session is found by its id alone, and not after it is closed', async (where) => {
  const { sessions } = await sessionsAt(where);
  const id = await sessions.open('key');
  expect(await sessions.find(id)).toMatchObject({ tokenKey: 'key' });
  expect(await sessions.find(`${id}x`)).toBeNull();
  await sessions.close(id);
  expect(await sessions.find(id)).toBeNull();
});

test.each(KEPT)('%s: a session that nobody uses ends, and use keeps it', async (where) => {
  const { clock, sessions } = await sessionsAt(where);
  const id = await sessions.open('key');
  clock.now += SESSION_IDLE_MS - 1;
  expect(await sessions.find(id)).not.toBeNull();
  clock.now += SESSION_IDLE_MS - 1;
  expect(await sessions.find(id)).not.toBeNull();
  clock.now += SESSION_IDLE_MS;
  expect(await sessions.find(id)).toBeNull();
});

test.each(KEPT)('%s: no use keeps a session beyond its lifetime', async (where) => {
  const { clock, sessions } = await sessionsAt(where);
  const id = await sessions.open('key');
  while (clock.now < SESSION_LIFETIME_MS - SESSION_IDLE_MS / 2) {
    clock.now += SESSION_IDLE_MS / 2;
    expect((await sessions.find(id)) === null).toBe(clock.now >= SESSION_LIFETIME_MS);
  }
  clock.now = SESSION_LIFETIME_MS;
  expect(await sessions.find(id)).toBeNull();
});

test.each(KEPT)('%s: ids and form secrets differ from session to session', async (where) => {
  const { sessions } = await sessionsAt(where);
  const [a, b] = [await sessions.open('key'), await sessions.open('key')];
  expect(a).not.toBe(b);
  expect((await sessions.find(a))!.csrf).not.toBe((await sessions.find(b))!.csrf);
});

test('a session opened at one replica is known to the others, and closed for all', async () => {
  const { sessions, elsewhere } = await sessionsAt('in the database');
  const id = await sessions.open('key');
  const seen = await elsewhere!.find(id);
  expect(seen).toEqual(await sessions.find(id));
  expect(seen).toMatchObject({ tokenKey: 'key' });
  await elsewhere!.close(id);
  expect(await sessions.find(id)).toBeNull();
});

test('a session ends with the token that opened it, and no other token takes it over', async () => {
  const { sessions, tokens } = await sessionsAt('in the database');
  const id = await sessions.open('key');
  tokens!.delete('key');
  expect(await sessions.find(id)).toBeNull();
  tokens!.add('key');
  expect(await sessions.find(id)).toBeNull();
});

test('what the database holds of a session is no way in', async () => {
  const { store, sessions } = await sessionsAt('in the database');
  const kept: string[] = [];
  const spied = createSharedSessions({
    store: {
      ...store!,
      openSession: async (session, keep) => {
        kept.push(...Object.values(session).map(String));
        await store!.openSession(session, keep);
      },
    },
    ...{ clock: { steady: () => 0 }, tokenKeys: () => ['key'] },
  });
  const id = await spied.open('key');
  const { csrf } = (await spied.find(id))!;
  for (const text of kept) {
    expect(await sessions.find(text)).toBeNull();
    expect([id, csrf, 'key']).not.toContain(text);
  }
});

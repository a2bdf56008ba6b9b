import { expect, test } from 'vitest';
import { createSessions, SESSION_IDLE_MS, SESSION_LIFETIME_MS } from '../../src/ops/sessions.ts';

function sessionsAt() {
  const clock = { now: 0, steady: () => clock.now };
  return { clock, sessions: createSessions(clock) };
}

test('a session is found by its id alone, and not after it is closed', () => {
  const { sessions } = sessionsAt();
  const id = sessions.open('key');
  expect(sessions.find(id)).toMatchObject({ tokenKey: 'key' });
  expect(sessions.find(`${id}x`)).toBeNull();
  sessions.close(id);
  expect(sessions.find(id)).toBeNull();
});

test('a session that nobody uses ends, and use keeps it', () => {
  const { clock, sessions } = sessionsAt();
  const id = sessions.open('key');
  clock.now += SESSION_IDLE_MS - 1;
  expect(sessions.find(id)).not.toBeNull();
  clock.now += SESSION_IDLE_MS - 1;
  expect(sessions.find(id)).not.toBeNull();
  clock.now += SESSION_IDLE_MS;
  expect(sessions.find(id)).toBeNull();
});

test('no use keeps a session beyond its lifetime', () => {
  const { clock, sessions } = sessionsAt();
  const id = sessions.open('key');
  while (clock.now < SESSION_LIFETIME_MS - SESSION_IDLE_MS / 2) {
    clock.now += SESSION_IDLE_MS / 2;
    expect(sessions.find(id) === null).toBe(clock.now >= SESSION_LIFETIME_MS);
  }
  clock.now = SESSION_LIFETIME_MS;
  expect(sessions.find(id)).toBeNull();
});

test('ids and form secrets differ from session to session', () => {
  const { sessions } = sessionsAt();
  const [a, b] = [1, 2].map(() => sessions.open('key'));
  expect(a).not.toBe(b);
  expect(sessions.find(a!)!.csrf).not.toBe(sessions.find(b!)!.csrf);
});

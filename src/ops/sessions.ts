import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../platform/clock.ts';
import type { Store } from '../store/store.ts';
import type { KnownToken } from './tokens.ts';

/** A working day, so that nobody signs in twice in one. */
export const SESSION_LIFETIME_MS = 12 * 60 * 60_000;
/** Without a request or an open page, so that a forgotten browser signs itself out. */
export const SESSION_IDLE_MS = 60 * 60_000;
/** Use is written at most this often: an open page would otherwise cause a write each second. */
const NOTE_USE_MS = 60_000;
/**
 * Of one token. Beyond it that token's oldest session ends: sign-ins cannot fill the memory, and whoever may only read cannot sign
 * everybody else out.
 */
const MAX_SESSIONS = 50;

export type SessionStore = Pick<Store, 'openSession' | 'useSession' | 'closeSession'>;

/** A copy of the database lets nobody sign in: it has only a hash of the cookie, and a hash of cookie and token together. */
export function createSessions(options: {
  store: SessionStore;
  clock: Pick<Clock, 'steady'>;
  /** The tokens that are valid now. */
  tokens: () => readonly KnownToken[];
}) {
  const { store, clock, tokens } = options;
  return {
    /** Returns the cookie's value. */
    async open({ name, key }: KnownToken): Promise<string> {
      const now = clock.steady();
      const id = randomBytes(32).toString('base64url');
      await store.openSession(
        { hash: digest('session', id), name, sealed: digest('token', id, key), openedAt: now, usedAt: now },
        { usedSince: now - SESSION_IDLE_MS, atMost: MAX_SESSIONS },
      );
      return id;
    },
    /** Null: unknown, expired, or its token is gone. Counts as use. */
    async find(id: string) {
      const hash = digest('session', id);
      const now = clock.steady();
      const session = await store.useSession(hash, now, NOTE_USE_MS);
      if (session === null) return null;
      const token = tokens().find(({ key }) => isSame(session.sealed, digest('token', id, key)));
      const isOver = now - session.openedAt >= SESSION_LIFETIME_MS || now - session.usedAt >= SESSION_IDLE_MS;
      // Taking a token away ends its sessions, even if the token comes back.
      if (isOver || token === undefined) {
        await store.closeSession(hash);
        return null;
      }
      return { name: token.name, role: token.role, isSession: true };
    },
    async close(id: string): Promise<void> {
      await store.closeSession(digest('session', id));
    },
  };
}

/** For a service that runs alone: a restart signs everybody out, and nothing is written to the database. */
export function sessionsInMemory(): SessionStore {
  // In the order in which they were opened.
  const sessions = new Map<string, Parameters<SessionStore['openSession']>[0]>();
  return {
    async openSession(session, { usedSince, atMost }) {
      for (const { hash, usedAt } of sessions.values()) if (usedAt <= usedSince) sessions.delete(hash);
      const own = [...sessions.values()].filter(({ name }) => name === session.name);
      for (const { hash } of own.slice(0, Math.max(0, own.length - atMost + 1))) sessions.delete(hash);
      sessions.set(session.hash, session);
    },
    async useSession(hash, now, noteMs) {
      const session = sessions.get(hash) ?? null;
      if (session !== null && now - session.usedAt >= noteMs) sessions.set(hash, { ...session, usedAt: now });
      return session;
    },
    async closeSession(hash) {
      sessions.delete(hash);
    },
  };
}

const digest = (...texts: readonly string[]) => hash('sha256', texts.join('\0'), 'base64url');

function isSame(one: string, two: string): boolean {
  return timingSafeEqual(Buffer.from(one), Buffer.from(two));
}

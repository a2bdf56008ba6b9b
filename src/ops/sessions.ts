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
/** Far more than there are operators. Beyond it the oldest session ends, so that sign-ins cannot fill the memory. */
const MAX_SESSIONS = 200;

export type SessionStore = Pick<Store, 'openSession' | 'findSession' | 'touchSession' | 'closeSession'>;

/**
 * A copy of the database lets nobody sign in: it has only a hash of the cookie, and a hash of cookie and token together. The
 * CSRF token is derived from the cookie, too.
 */
export function createSessions(options: {
  store: SessionStore;
  clock: Pick<Clock, 'steady'>;
  /** The tokens that are valid now. */
  tokens: () => readonly KnownToken[];
}) {
  const { store, clock, tokens } = options;
  return {
    /** Returns the cookie's value. */
    async open(tokenKey: string): Promise<string> {
      const now = clock.steady();
      const id = randomBytes(32).toString('base64url');
      await store.openSession(
        { hash: digest('session', id), sealed: digest('token', id, tokenKey), openedAt: now, usedAt: now },
        { usedSince: now - SESSION_IDLE_MS, atMost: MAX_SESSIONS },
      );
      return id;
    },
    /** Null: unknown, expired, or its token is gone. Counts as use. */
    async find(id: string) {
      const hash = digest('session', id);
      const session = await store.findSession(hash);
      if (session === null) return null;
      const now = clock.steady();
      const token = tokens().find(({ key }) => isSame(session.sealed, digest('token', id, key)));
      const isOver = now - session.openedAt >= SESSION_LIFETIME_MS || now - session.usedAt >= SESSION_IDLE_MS;
      // Taking a token away ends its sessions, even if the token comes back.
      if (isOver || token === undefined) {
        await store.closeSession(hash);
        return null;
      }
      if (now - session.usedAt >= NOTE_USE_MS) await store.touchSession(hash, now);
      // Every form carries `csrf`: a page of another origin cannot know it.
      return { name: token.name, role: token.role, csrf: digest('form', id) };
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
      for (const hash of sessions.keys()) {
        if (sessions.size < atMost) break;
        sessions.delete(hash);
      }
      sessions.set(session.hash, session);
    },
    async findSession(hash) {
      return sessions.get(hash) ?? null;
    },
    async touchSession(hash, usedAt) {
      const session = sessions.get(hash);
      if (session !== undefined) session.usedAt = usedAt;
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

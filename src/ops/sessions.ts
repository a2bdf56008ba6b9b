import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../platform/clock.ts';
import type { Store } from '../store/store.ts';

/** A working day: nobody signs in twice in one, and nobody's session outlives it. */
export const SESSION_LIFETIME_MS = 12 * 60 * 60_000;
/** Counted from the last request or the end of the last open page, so a forgotten browser signs itself out. */
export const SESSION_IDLE_MS = 60 * 60_000;
/** Far more than operators; beyond it the oldest goes, so that sign-ins cannot fill the memory. */
const MAX_SESSIONS = 200;

export interface Session {
  /** Which token opened it. Its name and role are asked of the tokens, which may change meanwhile. */
  tokenKey: string;
  /** Goes into every form: a page of another origin cannot know it. */
  csrf: string;
}

export interface Sessions {
  /** Returns the cookie's value. */
  open(tokenKey: string): Promise<string>;
  /** Null: unknown or expired. Counts as use. */
  find(id: string): Promise<Session | null>;
  close(id: string): Promise<void>;
}

interface Held extends Session {
  openedAt: number;
  usedAt: number;
}

/** In memory on purpose: a restart signs everybody out, and no copy of the database holds a way in. */
export function createSessions(clock: Pick<Clock, 'steady'>): Sessions {
  // Keyed by hash: the lookup's timing then says nothing about an id.
  const held = new Map<string, Held>();

  return {
    async open(tokenKey) {
      const now = clock.steady();
      for (const [key, session] of held) if (isOver(session, now)) held.delete(key);
      for (const key of held.keys()) {
        if (held.size < MAX_SESSIONS) break;
        held.delete(key);
      }
      const id = sessionSecret();
      held.set(digest(id), { tokenKey, csrf: sessionSecret(), openedAt: now, usedAt: now });
      return id;
    },
    async find(id) {
      const key = digest(id);
      const session = held.get(key);
      if (session === undefined) return null;
      const now = clock.steady();
      if (isOver(session, now)) {
        held.delete(key);
        return null;
      }
      session.usedAt = now;
      return session;
    },
    async close(id) {
      held.delete(digest(id));
    },
  };
}

function isOver(session: { openedAt: number; usedAt: number }, now: number): boolean {
  return now - session.openedAt >= SESSION_LIFETIME_MS || now - session.usedAt >= SESSION_IDLE_MS;
}

function sessionSecret(): string {
  return randomBytes(32).toString('base64url');
}

function digest(...texts: readonly string[]): string {
  return createHash('sha256').update(texts.join('\0')).digest('base64url');
}

/** Use is noted this rarely: a write for every look of an open page would be one each second. */
const NOTE_USE_MS = 60_000;

/**
 * For several replicas behind one address: whoever signed in at one is known to all, and signed out of all at once. In
 * the database, where no copy of it holds a way in: of the cookie there is a hash, and of the token that opened the
 * session one that nobody can check without the cookie. The forms' secret is made of the cookie, too.
 */
export function createSharedSessions(options: {
  store: Pick<Store, 'openSession' | 'findSession' | 'touchSession' | 'closeSession'>;
  clock: Pick<Clock, 'steady'>;
  /** Of the tokens that are good now. */
  tokenKeys: () => readonly string[];
}): Sessions {
  const { store, clock, tokenKeys } = options;
  return {
    async open(tokenKey) {
      const now = clock.steady();
      const id = sessionSecret();
      await store.openSession(
        { hash: digest('session', id), sealed: digest('token', id, tokenKey), openedAt: now, usedAt: now },
        {
          ...{ openedSince: now - SESSION_LIFETIME_MS, usedSince: now - SESSION_IDLE_MS },
          atMost: MAX_SESSIONS,
        },
      );
      return id;
    },
    async find(id) {
      const hash = digest('session', id);
      const held = await store.findSession(hash);
      if (held === null) return null;
      const now = clock.steady();
      const tokenKey = tokenKeys().find((key) => isSame(held.sealed, digest('token', id, key)));
      // Whoever took the token away meant its sessions too.
      if (isOver(held, now) || tokenKey === undefined) {
        await store.closeSession(hash);
        return null;
      }
      if (now - held.usedAt >= NOTE_USE_MS) await store.touchSession(hash, now);
      return { tokenKey, csrf: digest('form', id) };
    },
    async close(id) {
      await store.closeSession(digest('session', id));
    },
  };
}

function isSame(one: string, two: string): boolean {
  return one.length === two.length && timingSafeEqual(Buffer.from(one), Buffer.from(two));
}

import { createHash, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../platform/clock.ts';
import type { Store } from '../store/store.ts';
import {
  MAX_SESSIONS,
  SESSION_IDLE_MS,
  SESSION_LIFETIME_MS,
  type Sessions,
  sessionSecret,
} from './sessions.ts';

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
      const isOver = now - held.openedAt >= SESSION_LIFETIME_MS || now - held.usedAt >= SESSION_IDLE_MS;
      const tokenKey = tokenKeys().find((key) => isSame(held.sealed, digest('token', id, key)));
      // Whoever took the token away meant its sessions too.
      if (isOver || tokenKey === undefined) {
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

function digest(what: 'session' | 'token' | 'form', ...texts: readonly string[]): string {
  return createHash('sha256')
    .update([what, ...texts].join('\0'))
    .digest('base64url');
}

function isSame(one: string, two: string): boolean {
  return one.length === two.length && timingSafeEqual(Buffer.from(one), Buffer.from(two));
}

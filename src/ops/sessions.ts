import { createHash, randomBytes } from 'node:crypto';
import type { Clock } from '../platform/clock.ts';

/** A working day: nobody signs in twice in one, and nobody's session outlives it. */
export const SESSION_LIFETIME_MS = 12 * 60 * 60_000;
/** Counted from the last request or the end of the last open page, so a forgotten browser signs itself out. */
export const SESSION_IDLE_MS = 60 * 60_000;
/** Far more than operators; beyond it the oldest goes, so that sign-ins cannot fill the memory. */
export const MAX_SESSIONS = 200;

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

function isOver(session: Held, now: number): boolean {
  return now - session.openedAt >= SESSION_LIFETIME_MS || now - session.usedAt >= SESSION_IDLE_MS;
}

export function sessionSecret(): string {
  return randomBytes(32).toString('base64url');
}

function digest(id: string): string {
  return createHash('sha256').update(id).digest('base64url');
}

import { createHash, timingSafeEqual } from 'node:crypto';
import type { OpsToken } from '../platform/config.ts';

/** Longer than any token; what is longer is not hashed, so that a header cannot cost time. */
const MAX_TOKEN_LENGTH = 1024;

/** A token without its text. */
export interface KnownToken extends Pick<OpsToken, 'name' | 'role'> {
  /** Tells it from every other one, and says nothing of it. */
  key: string;
}

export interface Tokens {
  /** Null: no such token, now. */
  match(presented: string): KnownToken | null;
  /** The token of that key; null: it is gone. */
  find(key: string): KnownToken | null;
  keys(): string[];
}

/** Compares hashes of equal length in constant time, and always against every token. */
export function createTokens(current: () => readonly OpsToken[]): Tokens {
  let hashedOf: readonly OpsToken[] | null = null;
  let hashed: (KnownToken & { hash: Buffer })[] = [];

  const known = () => {
    const tokens = current();
    if (tokens !== hashedOf) {
      hashedOf = tokens;
      hashed = tokens.map(({ name, role, token }) => {
        const hash = sha256(token);
        return { name, role, hash, key: hash.toString('base64url') };
      });
    }
    return hashed;
  };

  return {
    match(presented) {
      if (presented.length === 0 || presented.length > MAX_TOKEN_LENGTH) return null;
      const hash = sha256(presented);
      let match: KnownToken | null = null;
      for (const { name, role, key, hash: expected } of known()) {
        if (timingSafeEqual(expected, hash)) match = { name, role, key };
      }
      return match;
    },
    find: (key) => known().find((token) => token.key === key) ?? null,
    keys: () => known().map((token) => token.key),
  };
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text, 'utf8').digest();
}

/** Signs in whoever opens it. The token stands behind the `#`, which browsers send to nobody. */
export function signInLink(baseUrl: string | URL, token: string): string {
  const url = new URL('/sign-in', baseUrl);
  url.hash = new URLSearchParams({ token }).toString();
  return url.href;
}

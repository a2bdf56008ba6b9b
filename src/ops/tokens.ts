import { createHash, timingSafeEqual } from 'node:crypto';
import type { OpsToken } from '../config.ts';

/** Longer than any token; what is longer is not hashed, so that a header cannot cost time. */
const MAX_TOKEN_LENGTH = 1024;

export type TokenMatcher = (presented: string) => Pick<OpsToken, 'name' | 'role'> | null;

/** Compares hashes of equal length in constant time, and always against every token. */
export function createTokenMatcher(tokens: readonly OpsToken[]): TokenMatcher {
  const known = tokens.map(({ name, role, token }) => ({ name, role, hash: sha256(token) }));
  return (presented) => {
    if (presented.length === 0 || presented.length > MAX_TOKEN_LENGTH) return null;
    const hash = sha256(presented);
    let match: Pick<OpsToken, 'name' | 'role'> | null = null;
    for (const token of known) {
      if (timingSafeEqual(token.hash, hash)) match = { name: token.name, role: token.role };
    }
    return match;
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

import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { includesAll, type Scopes } from '../scopes.ts';

/** RFC 6749 wants ten minutes at most; a redirect takes seconds. */
const CODE_LIFE_MS = 60_000;
/** Bounds on memory. Beyond them the oldest go first. */
const MAX_CODES = 1_000;
const MAX_GRANTS = 1_000;
const MAX_ACCESS_TOKENS = 10_000;

const SECRET_BYTES = 32;

/** What one consent, or one service account, has been given: every token that comes of it. */
interface Grant {
  id: string;
  clientId: string;
  scopes: Scopes;
  /** Number of the refresh token that is good now; null: there is none. */
  generation: number | null;
  revoked: boolean;
}

interface Code {
  clientId: string;
  redirectUri: string;
  scopes: Scopes;
  /** RFC 7636, S256; null when the request had none. */
  challenge: string | null;
  expiresAtMs: number;
  /** Set by its one use. */
  grantId: string | null;
}

export interface IssuedTokens {
  accessToken: string;
  refreshToken: string | null;
  expiresInSeconds: number;
  scopes: Scopes;
}

/**
 * Codes, access tokens and refresh tokens. Codes and access tokens are known by their digests alone; a refresh
 * token bears its grant and its number under a MAC, so that a used one is recognised however long ago that was.
 */
export class Grants {
  accessTokenSeconds: number;
  readonly #codes = new Map<string, Code>();
  readonly #grants = new Map<string, Grant>();
  readonly #accessTokens = new Map<string, { grantId: string; scopes: Scopes; expiresAtMs: number }>();
  readonly #key = randomBytes(SECRET_BYTES);
  readonly #now: () => number;

  /** `now`: monotonic milliseconds. */
  constructor(accessTokenSeconds: number, now: () => number = () => performance.now()) {
    this.accessTokenSeconds = accessTokenSeconds;
    this.#now = now;
  }

  issueCode(request: Omit<Code, 'expiresAtMs' | 'grantId'>): string {
    const code = randomBytes(SECRET_BYTES).toString('base64url');
    this.#codes.set(digestOf(code), { ...request, expiresAtMs: this.#now() + CODE_LIFE_MS, grantId: null });
    dropOldest(this.#codes, MAX_CODES);
    return code;
  }

  /** Null when the code is not good for this exchange. A second use revokes what the first one brought. */
  redeemCode(
    code: string,
    given: { clientId: string; redirectUri: string; verifier: string | null },
  ): IssuedTokens | null {
    const stored = this.#codes.get(digestOf(code));
    if (stored === undefined || stored.clientId !== given.clientId) return null;
    if (stored.grantId !== null) {
      this.revoke(stored.grantId);
      return null;
    }
    if (stored.expiresAtMs <= this.#now() || stored.redirectUri !== given.redirectUri) return null;
    if (!isProven(stored.challenge, given.verifier)) return null;
    const grant = this.#addGrant({ clientId: stored.clientId, scopes: stored.scopes, generation: 0 });
    stored.grantId = grant.id;
    return this.#issue(grant, grant.scopes);
  }

  /** Null when the token is not good. One that was used before revokes its whole grant (RFC 9700, 4.14). */
  refresh(token: string, clientId: string, wanted: readonly string[]): IssuedTokens | 'invalid_scope' | null {
    const parsed = this.#parseRefreshToken(token);
    const grant = parsed === null ? undefined : this.#grants.get(parsed.grantId);
    if (parsed === null || grant === undefined || grant.clientId !== clientId || grant.revoked) return null;
    if (grant.generation !== parsed.generation) {
      this.revoke(grant.id);
      return null;
    }
    if (!includesAll(grant.scopes, wanted)) return 'invalid_scope';
    grant.generation += 1;
    return this.#issue(grant, wanted.length === 0 ? grant.scopes : new Set(wanted));
  }

  /** For service accounts: nothing to renew, they ask again. */
  issueToAccount(clientId: string, scopes: Scopes): IssuedTokens {
    return this.#issue(this.#addGrant({ clientId, scopes, generation: null }), scopes);
  }

  /** Who an access token belongs to; null for any that is not good now. */
  holderOf(accessToken: string): { clientId: string; scopes: Scopes } | null {
    const token = this.#accessTokens.get(digestOf(accessToken));
    const grant = token === undefined ? undefined : this.#grants.get(token.grantId);
    if (token === undefined || grant === undefined || grant.revoked) return null;
    return token.expiresAtMs > this.#now() ? { clientId: grant.clientId, scopes: token.scopes } : null;
  }

  /** Ends a grant for good; false when there is none of this id. */
  revoke(grantId: string): boolean {
    const grant = this.#grants.get(grantId);
    if (grant !== undefined) grant.revoked = true;
    return grant !== undefined;
  }

  /** Ends its access tokens as if they had expired; what renews them stays good. */
  expireAccessTokens(grantId: string): boolean {
    for (const [digest, token] of this.#accessTokens) {
      if (token.grantId === grantId) this.#accessTokens.delete(digest);
    }
    return this.#grants.has(grantId);
  }

  list() {
    const now = this.#now();
    const live = [...this.#accessTokens.values()].filter((token) => token.expiresAtMs > now);
    return [...this.#grants.values()].map(({ id, clientId, scopes, generation, revoked }) => ({
      id,
      clientId,
      scopes: [...scopes],
      /** Renewals so far; null for a grant that cannot be renewed. */
      refreshes: generation,
      revoked,
      /** Those that would be let in now. */
      accessTokens: revoked ? 0 : live.filter((token) => token.grantId === id).length,
    }));
  }

  #addGrant(fields: Omit<Grant, 'id' | 'revoked'>): Grant {
    const grant = { ...fields, id: randomBytes(8).toString('hex'), revoked: false };
    this.#grants.set(grant.id, grant);
    dropOldest(this.#grants, MAX_GRANTS);
    return grant;
  }

  #issue(grant: Grant, scopes: Scopes): IssuedTokens {
    const now = this.#now();
    for (const [digest, token] of this.#accessTokens) {
      if (token.expiresAtMs <= now) this.#accessTokens.delete(digest);
    }
    const accessToken = `sandbox_access_${randomBytes(SECRET_BYTES).toString('base64url')}`;
    const expiresInSeconds = this.accessTokenSeconds;
    const expiresAtMs = now + expiresInSeconds * 1000;
    this.#accessTokens.set(digestOf(accessToken), { grantId: grant.id, scopes, expiresAtMs });
    dropOldest(this.#accessTokens, MAX_ACCESS_TOKENS);
    const refreshToken = grant.generation === null ? null : this.#refreshToken(grant.id, grant.generation);
    return { accessToken, refreshToken, expiresInSeconds, scopes };
  }

  #refreshToken(grantId: string, generation: number): string {
    const content = `${grantId}.${generation}`;
    const mac = createHmac('sha256', this.#key).update(content).digest('base64url');
    return `sandbox_refresh_${content}.${mac}`;
  }

  #parseRefreshToken(token: string): { grantId: string; generation: number } | null {
    const [, grantId, digits] = /^sandbox_refresh_([0-9a-f]{16})\.(\d{1,9})\./.exec(token) ?? [];
    if (grantId === undefined || digits === undefined) return null;
    const generation = Number(digits);
    const isOurs = digestOf(this.#refreshToken(grantId, generation)) === digestOf(token);
    return isOurs ? { grantId, generation } : null;
  }
}

/** A verifier without a challenge is refused too: whoever sends one believes that it is checked. */
function isProven(challenge: string | null, verifier: string | null): boolean {
  if (challenge === null || verifier === null) return challenge === verifier;
  const computed = createHash('sha256').update(verifier).digest();
  const expected = Buffer.from(challenge, 'base64url');
  return computed.length === expected.length && timingSafeEqual(computed, expected);
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('base64');
}

function dropOldest(map: Map<string, unknown>, limit: number): void {
  for (const key of map.keys()) {
    if (map.size <= limit) return;
    map.delete(key);
  }
}

import { hash, randomBytes } from 'node:crypto';
import { includesAll, type Scopes, sameText } from '../access.ts';

/** RFC 6749 allows at most ten minutes. A redirect takes seconds. */
const CODE_LIFE_MS = 60_000;
/** Limits memory: above this many codes, tokens or open pages, the oldest are forgotten. */
const MAX_KEPT = 1_000;

const SECRET_BYTES = 32;

/** One consent, or one request of a service account. Every token belongs to a grant. */
interface Grant {
  clientId: string;
  scopes: Scopes;
  /** How often its tokens were renewed; null: they cannot be. */
  refreshes: number | null;
  revoked: boolean;
}

interface Code {
  clientId: string;
  redirectUri: string;
  scopes: Scopes;
  /** RFC 7636, S256; null: the request had none. */
  challenge: string | null;
  expiresAtMs: number;
  /** Set when the code is used, which is possible only once. */
  grant: Grant | null;
}

export interface IssuedTokens {
  accessToken: string;
  refreshToken: string | null;
  expiresInSeconds: number;
  scopes: Scopes;
}

/** Codes, access tokens and refresh tokens. Only their digests are stored. */
export class Grants {
  readonly #accessTokenSeconds: number;
  readonly #codes = new Map<string, Code>();
  readonly #accessTokens = new Map<string, { grant: Grant; scopes: Scopes; expiresAtMs: number }>();
  /** Used ones stay, so that a second use is recognised. `number` counts them within their grant. */
  readonly #refreshTokens = new Map<string, { grant: Grant; number: number }>();
  readonly #now: () => number;

  /** `now`: monotonic milliseconds. */
  constructor(accessTokenSeconds: number, now: () => number = () => performance.now()) {
    this.#accessTokenSeconds = accessTokenSeconds;
    this.#now = now;
  }

  issueCode(request: Omit<Code, 'expiresAtMs' | 'grant'>): string {
    const code = newSecret();
    const expiresAtMs = this.#now() + CODE_LIFE_MS;
    remember(this.#codes, digestOf(code), { ...request, expiresAtMs, grant: null });
    return code;
  }

  /** Null: the code cannot be used for this. A second use revokes the tokens of the first. */
  redeemCode(
    code: string,
    given: { clientId: string; redirectUri: string; verifier: string | null },
  ): IssuedTokens | null {
    const stored = this.#codes.get(digestOf(code));
    if (stored === undefined || stored.clientId !== given.clientId) return null;
    if (stored.grant !== null) {
      stored.grant.revoked = true;
      return null;
    }
    if (stored.expiresAtMs <= this.#now() || stored.redirectUri !== given.redirectUri) return null;
    if (!isProven(stored.challenge, given.verifier)) return null;
    const { clientId, scopes } = stored;
    stored.grant = { clientId, scopes, refreshes: 0, revoked: false };
    return this.#issue(stored.grant, scopes);
  }

  /** Null: the token cannot be used. A second use revokes the whole grant (RFC 9700, 4.14). */
  refresh(token: string, clientId: string, wanted: readonly string[]): IssuedTokens | 'invalid_scope' | null {
    const { grant, number } = this.#refreshTokens.get(digestOf(token)) ?? {};
    if (grant === undefined || grant.clientId !== clientId || grant.revoked) return null;
    if (grant.refreshes === null || grant.refreshes !== number) {
      grant.revoked = true;
      return null;
    }
    if (!includesAll(grant.scopes, wanted)) return 'invalid_scope';
    grant.refreshes += 1;
    return this.#issue(grant, wanted.length === 0 ? grant.scopes : new Set(wanted));
  }

  /** Service accounts get no refresh token: they ask again. */
  issueToAccount(clientId: string, scopes: Scopes): IssuedTokens {
    return this.#issue({ clientId, scopes, refreshes: null, revoked: false }, scopes);
  }

  /** Null: the access token is not valid now. */
  scopesOf(accessToken: string): Scopes | null {
    const token = this.#accessTokens.get(digestOf(accessToken));
    if (token === undefined || token.grant.revoked || token.expiresAtMs <= this.#now()) return null;
    return token.scopes;
  }

  #issue(grant: Grant, scopes: Scopes): IssuedTokens {
    const accessToken = `sandbox_access_${newSecret()}`;
    const expiresInSeconds = this.#accessTokenSeconds;
    const expiresAtMs = this.#now() + expiresInSeconds * 1000;
    remember(this.#accessTokens, digestOf(accessToken), { grant, scopes, expiresAtMs });
    const number = grant.refreshes;
    const refreshToken = number === null ? null : `sandbox_refresh_${newSecret()}`;
    if (number !== null && refreshToken !== null) {
      remember(this.#refreshTokens, digestOf(refreshToken), { grant, number });
    }
    return { accessToken, refreshToken, expiresInSeconds, scopes };
  }
}

/** Also rejects a verifier without a challenge: its sender believes that the verifier is checked. */
function isProven(challenge: string | null, verifier: string | null): boolean {
  if (challenge === null || verifier === null) return challenge === verifier;
  return sameText(challenge, hash('sha256', verifier, 'base64url'));
}

const newSecret = (): string => randomBytes(SECRET_BYTES).toString('base64url');

const digestOf = (text: string): string => hash('sha256', text, 'base64');

export function remember<T>(map: Map<string, T>, key: string, value: T): void {
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > MAX_KEPT && oldest !== undefined) map.delete(oldest);
}

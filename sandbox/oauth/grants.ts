import { hash, randomBytes } from 'node:crypto';
import { type Scopes, sameText } from '../access.ts';

/** RFC 6749 allows at most ten minutes. A redirect takes seconds. */
const CODE_LIFE_MS = 60_000;
/** Limits memory: above this many codes, tokens or open pages, the oldest are forgotten. */
const MAX_KEPT = 1_000;

const SECRET_BYTES = 32;

interface Code {
  clientId: string;
  redirectUri: string;
  scopes: Scopes;
  /** RFC 7636, S256; null: the request had none. */
  challenge: string | null;
  expiresAtMs: number;
}

/** As the token endpoint answers (RFC 6749, section 5.1). */
export interface IssuedTokens {
  access_token: string;
  token_type: 'Bearer';
  expires_in: number;
  refresh_token?: string;
  scope: string;
}

/** Codes, access tokens and refresh tokens. A code and a refresh token are gone once somebody has tried to use them. */
export class Grants {
  readonly #accessTokenSeconds: number;
  readonly #codes = new Map<string, Code>();
  readonly #accessTokens = new Map<string, { scopes: Scopes; expiresAtMs: number }>();
  readonly #refreshTokens = new Map<string, { clientId: string; scopes: Scopes }>();
  readonly #now: () => number;

  /** `now`: monotonic milliseconds. */
  constructor(accessTokenSeconds: number, now: () => number = () => performance.now()) {
    this.#accessTokenSeconds = accessTokenSeconds;
    this.#now = now;
  }

  issueCode(request: Omit<Code, 'expiresAtMs'>): string {
    return remember(this.#codes, newSecret(), { ...request, expiresAtMs: this.#now() + CODE_LIFE_MS });
  }

  /** Null: the code cannot be used for this. */
  redeemCode(
    code: string,
    given: { clientId: string; redirectUri: string; verifier: string | null },
  ): IssuedTokens | null {
    const stored = take(this.#codes, code);
    if (stored === undefined || stored.clientId !== given.clientId) return null;
    if (stored.expiresAtMs <= this.#now() || stored.redirectUri !== given.redirectUri) return null;
    return isProven(stored.challenge, given.verifier) ? this.#issue(stored) : null;
  }

  /** Null: the token cannot be used. The scopes stay as they were. */
  refresh(token: string, clientId: string): IssuedTokens | null {
    const stored = take(this.#refreshTokens, token);
    return stored?.clientId === clientId ? this.#issue(stored) : null;
  }

  /** Service accounts get no refresh token: they ask again. */
  issueToAccount(scopes: Scopes): IssuedTokens {
    const expiresAtMs = this.#now() + this.#accessTokenSeconds * 1000;
    return {
      access_token: remember(this.#accessTokens, `sandbox_access_${newSecret()}`, { scopes, expiresAtMs }),
      token_type: 'Bearer',
      expires_in: this.#accessTokenSeconds,
      scope: [...scopes].join(' '),
    };
  }

  /** Null: the access token is not valid now. */
  scopesOf(accessToken: string): Scopes | null {
    const token = this.#accessTokens.get(accessToken);
    return token === undefined || token.expiresAtMs <= this.#now() ? null : token.scopes;
  }

  #issue({ clientId, scopes }: { clientId: string; scopes: Scopes }): IssuedTokens {
    const refresh_token = remember(this.#refreshTokens, `sandbox_refresh_${newSecret()}`, {
      clientId,
      scopes,
    });
    return { ...this.issueToAccount(scopes), refresh_token };
  }
}

/** Also rejects a verifier without a challenge: its sender believes that the verifier is checked. */
function isProven(challenge: string | null, verifier: string | null): boolean {
  if (challenge === null || verifier === null) return challenge === verifier;
  return sameText(challenge, hash('sha256', verifier, 'base64url'));
}

const newSecret = (): string => randomBytes(SECRET_BYTES).toString('base64url');

/** Returns the key. */
function remember<T>(map: Map<string, T>, key: string, value: T): string {
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > MAX_KEPT && oldest !== undefined) map.delete(oldest);
  return key;
}

function take<T>(map: Map<string, T>, key: string): T | undefined {
  const value = map.get(key);
  map.delete(key);
  return value;
}

import { z } from 'zod';
import { MirrorError, UsageError } from '../platform/errors.ts';
import { MalformedAnswer } from './envelope.ts';
import { openSecret, sealSecret, tokensPlace } from './secrets.ts';

/** What a grant brought. Times are wall-clock milliseconds: a token outlives the process. */
export interface Tokens {
  accessToken: string;
  /** Null: only the person can renew it. */
  refreshToken: string | null;
  expiresWall: number;
  renewWall: number;
  /** What was asked for, and what the answer says was granted (null: it says nothing). */
  askedScopes: readonly string[];
  grantedScopes: readonly string[] | null;
}

/** For an answer that names none. The specification shows no token answer. */
const DEFAULT_LIFETIME_SECONDS = 3600;
/** A token is renewed this long before its end: requests take time, and clocks differ. */
const RENEW_EARLY_MS = 60_000;
/** Not before this share of its life: a token that lives for 60 s would else be renewed at every request. */
const RENEW_AT_LEAST_AFTER = 1 / 2;
/** A longer lifetime is cut to this, so that sums of milliseconds stay whole. Ten years. */
const MAX_LIFETIME_SECONDS = 10 * 366 * 86_400;

/** What an Authorization header can carry. */
const TOKEN = /^[\x21-\x7e]+$/;

/** RFC 6749, section 5.1, read with tolerance: numbers as text, a missing token_type, null for absent. */
const answerSchema = z.looseObject({
  access_token: z.string().regex(TOKEN),
  token_type: z
    .string()
    .regex(/^bearer$/i)
    .nullish(),
  expires_in: z.coerce.number().positive().nullish(),
  refresh_token: z.string().regex(TOKEN).nullish(),
  scope: z.string().nullish(),
});

/**
 * The tokens in an answer of the token endpoint. `before`: those it renews, since an answer without a refresh token
 * leaves the old one in force (RFC 6749, section 6).
 * @throws MalformedAnswer; its message names fields and never their values.
 */
export function tokensIn(
  answer: unknown,
  context: { askedScopes: readonly string[]; before: Tokens | null; nowWall: number },
): Tokens {
  const parsed = answerSchema.safeParse(answer);
  if (!parsed.success) {
    const fields = parsed.error.issues.map((issue) => issue.path.join('.') || 'the whole').join(', ');
    throw new MalformedAnswer(`the token answer is unusable in: ${fields}`);
  }
  const { access_token, expires_in, refresh_token, scope } = parsed.data;
  const lifetimeMs = Math.min(expires_in ?? DEFAULT_LIFETIME_SECONDS, MAX_LIFETIME_SECONDS) * 1000;
  const usableMs = Math.max(lifetimeMs - RENEW_EARLY_MS, lifetimeMs * RENEW_AT_LEAST_AFTER);
  return {
    accessToken: access_token,
    refreshToken: refresh_token ?? context.before?.refreshToken ?? null,
    expiresWall: Math.round(context.nowWall + lifetimeMs),
    renewWall: Math.round(context.nowWall + usableMs),
    askedScopes: context.askedScopes,
    grantedScopes:
      scope == null ? (context.before?.grantedScopes ?? null) : scope.split(/\s+/).filter(Boolean),
  };
}

export function needsRenewal(tokens: Tokens, nowWall: number): boolean {
  return nowWall >= tokens.renewWall;
}

export type Needs = 'read' | 'write';

/** What to ask consent for. Reading asks for what is configured; writing asks for `write` besides. */
export function scopesFor(configured: readonly string[], needs: Needs): string[] {
  return [...new Set(needs === 'write' ? [...configured, 'write'] : configured)];
}

/** What was granted, or asked for where the answer does not say. */
export function scopesOf(tokens: Pick<Tokens, 'askedScopes' | 'grantedScopes'>): readonly string[] {
  return tokens.grantedScopes ?? tokens.askedScopes;
}

/** These tokens cannot write, by the two scopes the specification shows. With other scopes only the service can tell. */
export function isReadOnly(tokens: Tokens): boolean {
  const scopes = scopesOf(tokens);
  return scopes.length > 0 && scopes.every((scope) => scope === 'read');
}

/** What the tokens need of the store. */
export interface TokenStore {
  readTokens(name: string): Promise<SealedTokens | null>;
  /** One owner at a time, across processes; null: another has the lease until it is released or runs out. */
  leaseTokens(name: string, owner: string, leaseMs: number, now: Now): Promise<SealedTokens | null>;
  releaseTokens(name: string, owner: string): Promise<void>;
  /** Only over `version` (null: over any). False: another process has saved since, and nothing was done. */
  saveTokens(name: string, sealed: string, version: number | null, audit: Audit, now: Now): Promise<boolean>;
  refuseTokens(name: string, refusal: string, version: number, audit: Audit, now: Now): Promise<boolean>;
  audit(entry: Audit, now: Now): Promise<unknown>;
}

export interface SealedTokens {
  version: number;
  sealed: string;
  refusal: string | null;
}

interface Now {
  wall: number;
  steady: number;
}

interface Audit {
  actor: string;
  action: string;
  outcome: string;
  target: string | null;
}

/** The one grant of this installation: a sign-in replaces the one before. */
export const GRANT = 'oauth';

export function sealTokens(key: Uint8Array | null, tokens: Tokens): string {
  return sealSecret(required(key), JSON.stringify(tokens), tokensPlace(GRANT));
}

/** @throws MirrorError `secret_unreadable`; UsageError without a key. */
export function openTokens(key: Uint8Array | null, sealed: string): Tokens {
  const text = openSecret(required(key), sealed, tokensPlace(GRANT));
  try {
    return JSON.parse(text) as Tokens;
  } catch {
    // The parser's message would quote them.
    throw new MirrorError('secret_unreadable', 'the stored tokens are of another version', {
      remedy: 'Sign in again: `compliance-mirror login`.',
    });
  }
}

function required(key: Uint8Array | null): Uint8Array {
  if (key !== null) return key;
  throw new UsageError(
    'CREDENTIALS_KEY is not set, and tokens are stored encrypted or not at all',
    'Make one with: openssl rand -base64 32',
  );
}

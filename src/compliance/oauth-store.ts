import { MirrorError, UsageError } from '../errors.ts';
import type { Tokens } from './oauth-tokens.ts';
import { openSecret, type SealedPlace, sealSecret } from './secrets.ts';

/** What the tokens need of a database; the store's port has these verbs. */
export interface TokenStore {
  readTokens(name: string): Promise<SealedTokens | null>;
  /** One holder at a time, across processes; null: another one has it, until it lets go or its time is over. */
  leaseTokens(name: string, owner: string, leaseMs: number, now: Now): Promise<SealedTokens | null>;
  releaseTokens(name: string, owner: string): Promise<void>;
  /** Only over `version`, null: over anything. False: somebody else has saved since, and nothing was done. */
  saveTokens(name: string, sealed: string, version: number | null, audit: Audit, now: Now): Promise<boolean>;
  refuseTokens(name: string, refusal: string, version: number, audit: Audit, now: Now): Promise<boolean>;
  audit(entry: Audit, now: Now): Promise<void>;
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

/** Where tokens are sealed: the row of that name. */
export function tokensPlace(name: string): SealedPlace {
  return { purpose: 'tokens', row: name };
}

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

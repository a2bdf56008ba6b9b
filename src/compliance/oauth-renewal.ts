import { randomUUID } from 'node:crypto';
import type { Clock } from '../platform/clock.ts';
import type { ComplianceSettings } from '../platform/config.ts';
import { MirrorError } from '../platform/errors.ts';
import type { Credentials } from './credentials.ts';
import { UpstreamError } from './errors.ts';
import { GrantRefused, type TokenEndpoint } from './oauth-endpoint.ts';
import {
  GRANT,
  isReadOnly,
  type Needs,
  needsRenewal,
  openTokens,
  type SealedTokens,
  scopesOf,
  sealTokens,
  type TokenStore,
  type Tokens,
} from './oauth-tokens.ts';

export interface OauthCredentialsOptions {
  settings: ComplianceSettings;
  endpoint: TokenEndpoint;
  store: TokenStore;
  /** CREDENTIALS_KEY; asked anew each time, as its file may change. */
  key: () => Uint8Array | null;
  clock: Clock;
  /** Who asks, for the audit. */
  actor: string;
  needs: Needs;
}

/** How long others wait for one renewal: what its request may take, and its two writes. */
const LEASE_MARGIN_MS = 5_000;
/** How often a process looks whether another one's renewal is done. */
const LOOK_EVERY_MS = 100;

const SIGN_IN = 'run `compliance-mirror login`';

/**
 * A person's grant, as `login` stored it. The row is read at every request, so that a sign-in and a renewal by
 * another process count at once. Renewing is leased: most servers void a refresh token with its first use, and
 * two processes that used one together would lose the grant.
 *
 * Everything that only a person can mend is an UpstreamError of kind `unauthorized`, which opens a gap and
 * deletes nothing.
 */
export function oauthCredentials(options: OauthCredentialsOptions): Credentials {
  const { settings, endpoint, store, clock, actor } = options;
  const owner = `${process.pid}-${randomUUID()}`;
  const leaseMs = settings.timeoutMs + LEASE_MARGIN_MS;
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });
  let opened: { sealed: string; tokens: Tokens } | null = null;
  let renewal: Promise<Tokens> | null = null;

  function open(row: SealedTokens): Tokens {
    if (row.refusal !== null) throw consentNeeded(row.refusal);
    if (opened?.sealed !== row.sealed) {
      opened = { sealed: row.sealed, tokens: opening(() => openTokens(options.key(), row.sealed)) };
    }
    return opened.tokens;
  }

  async function current(): Promise<Tokens> {
    const row = await store.readTokens(GRANT);
    if (row === null) {
      throw unauthorized(`nobody has signed in to the compliance service yet: ${SIGN_IN}`);
    }
    try {
      return open(row);
    } catch (error) {
      // Re-encrypted with a key that is not here yet. What was open is good for as long as it would have been, and for no renewal.
      const isGood = row.refusal === null && opened !== null && !needsRenewal(opened.tokens, clock.wall());
      if (isGood && opened !== null) return opened.tokens;
      throw error;
    }
  }

  /** Still good, and not the very token that was just refused. */
  const isUsable = (tokens: Tokens, rejected: string | null) =>
    !needsRenewal(tokens, clock.wall()) && tokens.accessToken !== rejected;

  /** Within this process all wait for one; the lease does the same between processes. */
  async function renewed(rejected: string | null, signal: AbortSignal): Promise<Tokens> {
    for (;;) {
      const tokens = await current();
      if (isUsable(tokens, rejected)) return tokens;
      const shared = renewal;
      if (shared === null) {
        const own = renewOverLease(rejected, signal).finally(() => {
          renewal = null;
        });
        renewal = own;
        return await own;
      }
      try {
        await shared;
      } catch (error) {
        // Its own caller went away, which says nothing to this one.
        signal.throwIfAborted();
        if (error instanceof MirrorError) throw error;
      }
    }
  }

  async function renewOverLease(rejected: string | null, signal: AbortSignal): Promise<Tokens> {
    for (;;) {
      signal.throwIfAborted();
      const row = await store.leaseTokens(GRANT, owner, leaseMs, now());
      if (row !== null) {
        try {
          const tokens = open(row);
          const done = isUsable(tokens, rejected) ? tokens : await refresh(row, tokens, signal);
          if (done !== null) return done;
        } finally {
          await store.releaseTokens(GRANT, owner);
        }
      } else {
        await clock.sleep(LOOK_EVERY_MS, signal);
        const tokens = await current();
        if (isUsable(tokens, rejected)) return tokens;
      }
    }
  }

  /** Null: somebody saved other tokens meanwhile, and those count. */
  async function refresh(row: SealedTokens, tokens: Tokens, signal: AbortSignal): Promise<Tokens | null> {
    const { refreshToken } = tokens;
    if (refreshToken === null) {
      throw consentNeeded('the access token is no longer good, and there is no refresh token');
    }
    const entry = { actor, action: 'token_refresh', target: GRANT };
    try {
      const fresh = await endpoint.refresh({ ...tokens, refreshToken }, signal);
      const sealed = sealTokens(options.key(), fresh);
      const isSaved = await store.saveTokens(GRANT, sealed, row.version, { ...entry, outcome: 'ok' }, now());
      return isSaved ? fresh : null;
    } catch (error) {
      if (!(error instanceof GrantRefused)) throw error;
      const refused = { ...entry, outcome: error.reason };
      if (error.reason !== 'invalid_grant') {
        await store.audit(refused, now());
        throw error;
      }
      // Asking again would be refused again: the next sign-in clears this.
      const isCurrent = await store.refuseTokens(GRANT, error.reason, row.version, refused, now());
      if (isCurrent) throw consentNeeded(error.reason);
      return null;
    }
  }

  return {
    async authorization(signal) {
      const tokens = await current();
      if (options.needs === 'write' && isReadOnly(tokens)) {
        throw new UpstreamError('forbidden', 'the sign-in was for reading only, and this writes', {
          remedy: 'Run `compliance-mirror login --write` first.',
        });
      }
      const usable = isUsable(tokens, null) ? tokens : await renewed(null, signal);
      return `Bearer ${usable.accessToken}`;
    },

    async renew(signal, rejected) {
      const token = rejected.replace(/^Bearer /, '');
      const tokens = await current();
      // Without one there is nothing to try, and the refusal itself is the better message.
      if (tokens.refreshToken === null && tokens.accessToken === token) return false;
      await renewed(token, signal);
      return true;
    },

    async standing() {
      try {
        const tokens = await current();
        return { expiresWall: tokens.expiresWall, refusal: null, scopes: scopesOf(tokens) };
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error;
        return { expiresWall: null, refusal: error.message, scopes: null };
      }
    },
  };
}

function consentNeeded(reason: string): UpstreamError {
  const message = `consent to the compliance service is needed again (${reason}): ${SIGN_IN}`;
  return unauthorized(message);
}

function unauthorized(message: string, because: { remedy?: string; cause?: unknown } = {}): UpstreamError {
  return new UpstreamError('unauthorized', message, {
    remedy:
      'Sign in with `compliance-mirror login`: the running service uses it with its next request, and nothing is deleted meanwhile.',
    ...because,
  });
}

/** A key that is missing or another one is for a person to mend, too: it must not stop what runs. */
function opening<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof MirrorError)) throw error;
    throw unauthorized(`${error.message}: mend CREDENTIALS_KEY, or ${SIGN_IN}`, {
      remedy:
        'Set CREDENTIALS_KEY to the key the tokens were stored with, or sign in again; nothing is deleted meanwhile.',
      cause: error,
    });
  }
}

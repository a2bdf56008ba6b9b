import { randomUUID } from 'node:crypto';
import { type Clock, momentOf } from '../platform/clock.ts';
import type { ComplianceSettings } from '../platform/config.ts';
import { MirrorError } from '../platform/errors.ts';
import type { OperatorStore, StoredTokens } from '../store/store.ts';
import type { Credentials } from './client.ts';
import { UpstreamError } from './errors.ts';
import {
  GRANT,
  GrantRefused,
  isAboutGrant,
  isReadOnly,
  type Needs,
  needsRenewal,
  openTokens,
  scopesOf,
  sealTokens,
  type TokenEndpoint,
  type Tokens,
} from './oauth.ts';

/** The store's verbs for tokens. */
export type TokenStore = Pick<
  OperatorStore,
  'readTokens' | 'leaseTokens' | 'releaseTokens' | 'saveTokens' | 'refuseTokens' | 'audit'
>;

export interface CredentialsOptions {
  settings: ComplianceSettings;
  store: TokenStore;
  /** CREDENTIALS_KEY. Set if tokens are stored. Called each time, because the key's file may change. */
  key: () => Uint8Array | null;
  clock: Clock;
  /** Who asks, for the audit: `service`, or the command. */
  actor: string;
  /** `write` for POSTs. */
  needs: Needs;
}

/**
 * Resolves with the tokens that `usable` finds, or renews them once for all callers. If the renewal is refused, all callers
 * get the refusal. If it was aborted by its own caller, the next one begins another.
 */
export function createOneAtATime() {
  let renewal: Promise<Tokens> | null = null;
  return async (usable: () => Promise<Tokens | null>, renew: () => Promise<Tokens>): Promise<Tokens> => {
    for (;;) {
      const found = await usable();
      if (found !== null) return found;
      if (renewal === null) {
        renewal = renew().finally(() => {
          renewal = null;
        });
        return await renewal;
      }
      await renewal.catch((error: unknown) => {
        if (error instanceof MirrorError) throw error;
      });
    }
  };
}

/** Time for the two writes of a renewal, besides its request. */
const LEASE_MARGIN_MS = 5_000;
/** How often a process checks whether another process has finished a renewal. */
const LOOK_EVERY_MS = 100;

const SIGN_IN = 'run `compliance-mirror login`';

/**
 * A person's grant, as `login` stored it. The row is read at every request, so that a sign-in or a renewal by another process
 * counts at once. A renewal takes a lease: most servers void a refresh token with its first use, so two processes that used
 * the same one would lose the grant.
 *
 * If only a person can help, this throws an UpstreamError of kind `unauthorized`, which opens a problem and deletes nothing.
 */
export function grantCredentials(options: CredentialsOptions, endpoint: TokenEndpoint): Credentials {
  const { settings, store, clock, actor } = options;
  const owner = `${process.pid}-${randomUUID()}`;
  const leaseMs = settings.timeoutMs + LEASE_MARGIN_MS;
  const now = () => momentOf(clock);
  const oneAtATime = createOneAtATime();
  let opened: { sealed: string; tokens: Tokens } | null = null;
  /** The last renewed tokens. The refresh token of the stored `version` is used up, also if the database could not save them. */
  let latest: { version: number; tokens: Tokens } | null = null;

  function open(row: StoredTokens): Tokens {
    if (row.refusal !== null) throw consentNeeded(row.refusal);
    if (opened?.sealed !== row.sealed) {
      opened = { sealed: row.sealed, tokens: opening(() => openTokens(options.key()!, row.sealed)) };
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
      // The row may be encrypted with a new key that this process has not read yet. The tokens in memory are still good.
      if (row.refusal === null && opened !== null && !needsRenewal(opened.tokens, clock.wall()))
        return opened.tokens;
      throw error;
    }
  }

  /** Null: the tokens need a renewal, or were just `rejected`. */
  const ifUsable = (tokens: Tokens, rejected: string | null) =>
    !needsRenewal(tokens, clock.wall()) && tokens.accessToken !== rejected ? tokens : null;

  /** One renewal at a time in this process. The lease ensures the same between processes. */
  const renewed = (rejected: string | null, signal: AbortSignal): Promise<Tokens> =>
    oneAtATime(
      async () => ifUsable(await current(), rejected),
      () => renewOverLease(rejected, signal),
    );

  async function renewOverLease(rejected: string | null, signal: AbortSignal): Promise<Tokens> {
    for (;;) {
      signal.throwIfAborted();
      const row = await store.leaseTokens(GRANT, owner, leaseMs, now());
      if (row === null) {
        await clock.sleep(LOOK_EVERY_MS, signal);
        continue;
      }
      try {
        const tokens = open(row);
        const done = ifUsable(tokens, rejected) ?? (await refresh(row, tokens, signal));
        if (done !== null) return done;
      } finally {
        await store.releaseTokens(GRANT, owner);
      }
    }
  }

  /** Null: what is stored by now decides. */
  async function refresh(row: StoredTokens, tokens: Tokens, signal: AbortSignal): Promise<Tokens | null> {
    const { refreshToken } = tokens;
    if (refreshToken === null) {
      throw consentNeeded('the access token is no longer good, and there is no refresh token');
    }
    const entry = { actor, action: 'token_refresh', target: GRANT };
    try {
      const isKept = latest?.version === row.version;
      const fresh = isKept ? latest!.tokens : await endpoint.refresh({ ...tokens, refreshToken }, signal);
      latest = { version: row.version, tokens: fresh };
      const sealed = sealTokens(options.key()!, fresh);
      const isSaved = await store.saveTokens(GRANT, sealed, row.version, { ...entry, outcome: 'ok' }, now());
      return isSaved ? fresh : null;
    } catch (error) {
      if (!(error instanceof GrantRefused)) throw error;
      const refused = { ...entry, outcome: error.reason };
      if (!isAboutGrant(error.reason)) {
        await store.audit(refused, now());
        throw error;
      }
      // Saved, because another try would be refused too. The next sign-in clears it.
      await store.refuseTokens(GRANT, error.reason, row.version, refused, now());
      return null;
    }
  }

  return {
    async authorization(signal) {
      const tokens = await renewed(null, signal);
      if (options.needs === 'write' && isReadOnly(tokens)) {
        throw new UpstreamError('forbidden', 'the sign-in was for reading only, and this writes', {
          remedy: 'Run `compliance-mirror login --write` first.',
        });
      }
      return `Bearer ${tokens.accessToken}`;
    },

    async renew(signal, rejected) {
      const token = rejected.replace(/^Bearer /, '');
      const tokens = await current();
      // Without a refresh token there is nothing to try, and the 401 itself is the better message.
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

const consentNeeded = (reason: string): UpstreamError =>
  unauthorized(`consent to the compliance service is needed again (${reason}): ${SIGN_IN}`);

function unauthorized(message: string, because: { remedy?: string; cause?: unknown } = {}): UpstreamError {
  return new UpstreamError('unauthorized', message, {
    remedy:
      'Sign in with `compliance-mirror login`: the running service uses it with its next request, and nothing is deleted meanwhile.',
    ...because,
  });
}

/** Turns a wrong CREDENTIALS_KEY into rejected credentials, which do not stop the service. */
function opening<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof MirrorError)) throw error;
    throw unauthorized(`${error.message}: correct CREDENTIALS_KEY, or ${SIGN_IN}`, {
      remedy:
        'Set CREDENTIALS_KEY to the key the tokens were stored with, or sign in again; nothing is deleted meanwhile.',
      cause: error,
    });
  }
}

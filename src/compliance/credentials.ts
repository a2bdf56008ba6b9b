import { randomUUID, scryptSync } from 'node:crypto';
import { type Clock, momentOf } from '../platform/clock.ts';
import type { ComplianceSettings } from '../platform/config.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import type { Store, StoredTokens } from '../store/store.ts';
import type { Credentials } from './client.ts';
import { UpstreamError } from './errors.ts';
import {
  createTokenEndpoint,
  GRANT,
  GrantRefused,
  isAboutGrant,
  type Needs,
  openTokens,
  scopesFor,
  sealTokens,
  type TokenEndpoint,
  type Tokens,
} from './oauth.ts';

/** The store's verbs for tokens. */
export type TokenStore = Pick<Store, 'readTokens' | 'takeLease' | 'releaseLease' | 'saveTokens' | 'audit'>;

interface CredentialsOptions {
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

/** The credentials that COMPLIANCE_AUTH names. The configuration has checked that their settings are set. */
export function credentialsFor(options: CredentialsOptions): Credentials {
  const { settings } = options;
  if (settings.auth === 'api_key') return apiKeyCredentials(settings.apiKey!);
  const endpoint = createTokenEndpoint(options);
  return tokenCredentials(
    options,
    settings.auth === 'oauth' ? personsGrant(options, endpoint) : serviceAccount(options, endpoint),
  );
}

/** A static key. It is read at every request, so that a changed file takes effect without a restart. */
export function apiKeyCredentials(apiKey: (again?: 'again') => string): Credentials {
  return {
    async authorization(_signal, rejected) {
      // Its file may have another key by now, whatever its date says.
      const key = apiKey(rejected === undefined ? undefined : 'again');
      // fetch would refuse such a header too, but quote the key in its message.
      if (!/^[\x21-\x7e]+$/.test(key)) {
        throw new UsageError(
          'COMPLIANCE_API_KEY is empty or holds a character that no HTTP header can carry',
          'Look for spaces, line breaks or quotes around the key.',
        );
      }
      return `Bearer ${key}`;
    },
  };
}

// ─── tokens ─────────────────────────────────────────────────────────────────────────────────────────────

interface TokenSource {
  /** The tokens there are; null: none. Throws UpstreamError `no_credentials` if only a person can help. */
  current: () => Promise<Tokens | null>;
  /** Others in place of those that are at their end, or whose access token was `rejected`. */
  renew: (rejected: string | null, signal: AbortSignal) => Promise<Tokens>;
}

/** One renewal at a time in this process. If it is refused, all that wait get the refusal. If it was aborted by its own caller, the next one begins another. */
function tokenCredentials({ clock }: CredentialsOptions, source: TokenSource): Credentials {
  let renewal: Promise<Tokens> | null = null;

  async function usable(rejected: string | null, signal: AbortSignal): Promise<Tokens> {
    for (;;) {
      const tokens = await source.current();
      if (tokens !== null && isUsable(tokens, rejected, clock)) return tokens;
      if (renewal === null) {
        renewal = source.renew(rejected, signal).finally(() => {
          renewal = null;
        });
        return await renewal;
      }
      await renewal.catch((error: unknown) => {
        if (error instanceof MirrorError) throw error;
      });
    }
  }

  return {
    async authorization(signal, rejected) {
      const token = rejected?.replace(/^Bearer /, '') ?? null;
      return `Bearer ${(await usable(token, signal)).accessToken}`;
    },

    async needPerson() {
      try {
        await source.current();
      } catch (error) {
        if (error instanceof UpstreamError) return true;
        throw error;
      }
      return false;
    },
  };
}

const isUsable = (tokens: Tokens, rejected: string | null, clock: Clock): boolean =>
  clock.wall() < tokens.renewWall && tokens.accessToken !== rejected;

/** A service account's token, got with the client's secret. Not stored: a new one costs one request, and old ones stay valid. */
function serviceAccount(options: CredentialsOptions, endpoint: TokenEndpoint): TokenSource {
  const { settings, store, clock, actor, needs } = options;
  let tokens: Tokens | null = null;
  const audit = (outcome: string) =>
    store.audit({ actor, action: 'token_grant', target: 'service_account', outcome }, momentOf(clock));

  return {
    current: async () => tokens,
    async renew(_rejected, signal) {
      try {
        tokens = await endpoint.clientCredentials(scopesFor(settings.scopes, needs), signal);
      } catch (error) {
        if (error instanceof GrantRefused) await audit(error.reason);
        throw error;
      }
      await audit('ok');
      return tokens;
    },
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
 */
function personsGrant(options: CredentialsOptions, endpoint: TokenEndpoint): TokenSource {
  const { settings, store, clock, actor } = options;
  const owner = `${process.pid}-${randomUUID()}`;
  const leaseMs = settings.timeoutMs + LEASE_MARGIN_MS;
  const now = () => momentOf(clock);
  let opened: { sealed: string; tokens: Tokens } | null = null;
  /** The last renewed tokens. The refresh token of the stored `version` is used up, also if the database could not save them. */
  let latest: { version: number; tokens: Tokens } | null = null;

  function open(row: StoredTokens): Tokens {
    if (row.refusal !== null) throw consentNeeded(row.refusal);
    try {
      if (opened?.sealed !== row.sealed)
        opened = { sealed: row.sealed, tokens: openTokens(options.key()!, row.sealed) };
    } catch (error) {
      if (!(error instanceof MirrorError)) throw error;
      // A wrong CREDENTIALS_KEY does not stop the service.
      const { message, remedy } = error;
      throw new UpstreamError('no_credentials', message, { remedy, cause: error });
    }
    return opened.tokens;
  }

  async function stored(): Promise<StoredTokens> {
    const row = await store.readTokens(GRANT);
    if (row === null) throw noCredentials(`nobody has signed in to the compliance service yet: ${SIGN_IN}`);
    return row;
  }

  async function current(): Promise<Tokens> {
    const row = await stored();
    try {
      return open(row);
    } catch (error) {
      // The row may be encrypted with a new key that this process has not read yet. The tokens in memory are still good.
      if (row.refusal === null && opened !== null && isUsable(opened.tokens, null, clock))
        return opened.tokens;
      throw error;
    }
  }

  async function renew(rejected: string | null, signal: AbortSignal): Promise<Tokens> {
    for (;;) {
      signal.throwIfAborted();
      // By the wall clock, which a command and a service share.
      const lease = await store.takeLease(GRANT, owner, leaseMs, clock.wall());
      if (lease === null) {
        await clock.sleep(LOOK_EVERY_MS, signal);
        continue;
      }
      try {
        const row = await stored();
        const tokens = open(row);
        const done = isUsable(tokens, rejected, clock) ? tokens : await refresh(row, tokens, signal);
        if (done !== null) return done;
      } finally {
        await store.releaseLease(lease);
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
      const isSaved = await store.saveTokens(
        GRANT,
        { sealed },
        row.version,
        { ...entry, outcome: 'ok' },
        now(),
      );
      return isSaved ? fresh : null;
    } catch (error) {
      if (!(error instanceof GrantRefused)) throw error;
      const refused = { ...entry, outcome: error.reason };
      if (!isAboutGrant(error.reason)) {
        await store.audit(refused, now());
        throw error;
      }
      // Saved, because another try would be refused too. The next sign-in clears it.
      await store.saveTokens(GRANT, { refusal: error.reason }, row.version, refused, now());
      return null;
    }
  }

  return { current, renew };
}

const consentNeeded = (reason: string): UpstreamError =>
  noCredentials(`consent to the compliance service is needed again (${reason}): ${SIGN_IN}`);

const noCredentials = (message: string): UpstreamError => new UpstreamError('no_credentials', message);

const PRINT_BYTES = 16;

/**
 * A fingerprint of the credentials and the API's address. It reveals neither: it is slow to guess, and each database has its own
 * `salt`. A restored database gets a new salt, so that its notes about access do not count. A person's tokens change, so the
 * fingerprint holds only the client. It is computed again when a key's file has changed.
 */
export function accessPrint(settings: ComplianceSettings, salt: () => string): () => string {
  let last = { text: '', salt: '', print: '' };
  return () => {
    const { baseUrl, auth, apiKey, authUrl, clientId, clientSecret, scopes } = settings;
    const secret = (auth === 'api_key' ? apiKey : clientSecret)?.() ?? null;
    const text = JSON.stringify([baseUrl.href, auth, authUrl?.href, clientId, scopes, secret]);
    const salted = salt();
    if (text !== last.text || salted !== last.salt) {
      const print = scryptSync(text, salted, PRINT_BYTES).toString('hex');
      last = { text, salt: salted, print };
    }
    return last.print;
  };
}

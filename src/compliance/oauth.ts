import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../platform/clock.ts';
import type { ComplianceSettings } from '../platform/config.ts';
import { MalformedAnswer } from './envelope.ts';
import { UpstreamError, type UpstreamErrorDetails, type UpstreamErrorKind } from './errors.ts';
import { jsonIn, kindOf, reportIn, waitIn } from './gate.ts';
import { isObject } from './pointers.ts';
import { openSecret, sealSecret } from './secrets.ts';
import { type Answer, ExchangeFailure, exchange, urlFor } from './transport.ts';

// ─── tokens ─────────────────────────────────────────────────────────────────────────────────────────────

/** What a grant returned. Times are wall-clock milliseconds, because a token outlives the process. */
export interface Tokens {
  accessToken: string;
  /** Null: only a new sign-in brings another token. */
  refreshToken: string | null;
  expiresWall: number;
  renewWall: number;
  /** The scopes asked for, and the scopes granted (null: the answer does not say). */
  askedScopes: readonly string[];
  grantedScopes: readonly string[] | null;
}

/** For an answer that names no lifetime. The specification shows no token answer. */
const DEFAULT_LIFETIME_SECONDS = 3600;
/** A token is renewed this long before its end, because requests take time and clocks differ. */
const RENEW_EARLY_MS = 60_000;
/** It is not renewed before this share of its life has passed. Otherwise a token of 60 s would be renewed at every request. */
const RENEW_AT_LEAST_AFTER = 1 / 2;
/** Ten years. A longer lifetime is cut to this, so that sums of milliseconds stay exact. */
const MAX_LIFETIME_SECONDS = 10 * 366 * 86_400;

/** What an Authorization header can carry. */
const TOKEN = /^[\x21-\x7e]+$/;

/**
 * RFC 6749, section 5.1, with tolerance: numbers as text, a missing token_type, null for absent. An unreadable lifetime or scope
 * counts as absent: if the whole answer were rejected, its rotated refresh token, and with it the grant, would be lost.
 */
const answerSchema = z.looseObject({
  access_token: z.string().regex(TOKEN),
  token_type: z
    .string()
    .regex(/^bearer$/i)
    .nullish(),
  expires_in: z.coerce.number().positive().nullish().catch(null),
  refresh_token: z.string().nullish(),
  scope: z.string().nullish().catch(null),
});

/**
 * The tokens in an answer of the token endpoint. `before`: the tokens that it renews. If the answer has no refresh token, the
 * old one stays valid (RFC 6749, section 6).
 * @throws MalformedAnswer; its message names fields and never their values.
 */
export function tokensIn(
  answer: unknown,
  context: { askedScopes: readonly string[]; before: Tokens | null; nowWall: number },
): Tokens {
  const parsed = answerSchema.safeParse(answer);
  if (!parsed.success) {
    const fields = parsed.error.issues.map(({ path }) => path.join('.') || 'the whole answer').join(', ');
    throw new MalformedAnswer(`the token answer is unusable in: ${fields}`);
  }
  const { access_token, expires_in, refresh_token, scope } = parsed.data;
  const lifetimeMs = Math.min(expires_in ?? DEFAULT_LIFETIME_SECONDS, MAX_LIFETIME_SECONDS) * 1000;
  const usableMs = Math.max(lifetimeMs - RENEW_EARLY_MS, lifetimeMs * RENEW_AT_LEAST_AFTER);
  return {
    accessToken: access_token,
    refreshToken: refresh_token || context.before?.refreshToken || null,
    expiresWall: Math.round(context.nowWall + lifetimeMs),
    renewWall: Math.round(context.nowWall + usableMs),
    askedScopes: context.askedScopes,
    grantedScopes:
      scope == null ? (context.before?.grantedScopes ?? null) : scope.split(/\s+/).filter(Boolean),
  };
}

export type Needs = 'read' | 'write';

/** The scopes to ask consent for: the configured ones, and `write` for writing. */
export function scopesFor(configured: readonly string[], needs: Needs): string[] {
  return [...new Set(needs === 'write' ? [...configured, 'write'] : configured)];
}

/** The only grant of this installation: each sign-in replaces it. */
export const GRANT = 'oauth';

export function sealTokens(key: Uint8Array, tokens: Tokens): string {
  return sealSecret(key, JSON.stringify(tokens), { table: 'tokens', row: GRANT });
}

/** @throws MirrorError `secret_unreadable`. */
export function openTokens(key: Uint8Array, sealed: string): Tokens {
  return JSON.parse(openSecret(key, sealed, { table: 'tokens', row: GRANT })) as Tokens;
}

// ─── the authorization server ───────────────────────────────────────────────────────────────────────────

/** The authorization server refuses: the grant was used or revoked, or the client is unknown. Asking again does not help. */
export class GrantRefused extends UpstreamError {
  /** RFC 6749, section 5.2: `invalid_grant`, `invalid_client`, …; `http_<status>` where the answer names none. */
  readonly reason: string;

  constructor(reason: string, remedy: string) {
    super('no_credentials', `the authorization server refuses: ${reason}`, { remedy });
    this.reason = reason;
  }
}

const CLIENT_REMEDY =
  'Check COMPLIANCE_CLIENT_ID, COMPLIANCE_CLIENT_SECRET and what the compliance service allows this client.';
const ADDRESS_REMEDY = 'Check COMPLIANCE_AUTH_URL: it must end before /oauth/token, which the mirror adds.';
const GRANT_REMEDY = 'Consent is needed again: run `compliance-mirror login`.';

/** After an abort a request may go on for this long, because its answer may hold a rotated refresh token. */
const GRACE_MS = 2_000;

export type TokenEndpoint = ReturnType<typeof createTokenEndpoint>;

/**
 * Our own small client of the two OAuth addresses, over the API's transport. Refused: openid-client, oauth4webapi and
 * arctic send forms only, and the specification wants JSON; simple-oauth2 5.1 writes the client's secret to its debug
 * log, loses the refresh token when an answer does not repeat it, and cannot be aborted.
 */
export function createTokenEndpoint(options: { settings: ComplianceSettings; clock: Pick<Clock, 'wall'> }) {
  const { settings, clock } = options;
  const clientId = settings.clientId!;
  const addressOf = (path: string) => urlFor(settings.authUrl!, path);

  async function grant(
    fields: Readonly<Record<string, string>>,
    context: { askedScopes: readonly string[]; before: Tokens | null },
    signal: AbortSignal,
  ): Promise<Tokens> {
    signal.throwIfAborted();
    const own = new AbortController();
    let grace: NodeJS.Timeout | undefined;
    const leave = () => {
      grace = setTimeout(() => own.abort(), GRACE_MS);
    };
    signal.addEventListener('abort', leave, { once: true });
    try {
      const request = { method: 'POST', body: JSON.stringify(fields) };
      const reply = await exchange(addressOf('/oauth/token'), request, settings.timeoutMs, own.signal);
      if (reply instanceof ExchangeFailure && own.signal.aborted) throw signal.reason;
      const tokens = tokensIn(answerOf(reply, clock.wall()), { ...context, nowWall: clock.wall() });
      isRefused = false;
      return tokens;
    } catch (error) {
      isRefused = error instanceof GrantRefused;
      throw error instanceof MalformedAnswer ? failed('malformed', error.message) : error;
    } finally {
      clearTimeout(grace);
      signal.removeEventListener('abort', leave);
    }
  }

  /** Then the secret's file is read, whatever its date says. */
  let isRefused = false;
  const client = () => ({
    client_id: clientId,
    client_secret: settings.clientSecret!(isRefused ? 'again' : undefined),
  });

  return {
    /** The address at which a person consents. */
    authorizationUrl(asked: { redirectUri: string; scopes: readonly string[] } & ConsentAttempt): URL {
      const { redirectUri, scopes, state, verifier } = asked;
      const url = addressOf('/oauth/authorize');
      const parameters = new URLSearchParams({
        client_id: clientId,
        response_type: 'code',
        redirect_uri: redirectUri,
        scope: scopes.join(' '),
      });
      if (state !== null) parameters.set('state', state);
      if (verifier !== null) {
        parameters.set('code_challenge', challengeOf(verifier));
        parameters.set('code_challenge_method', 'S256');
      }
      url.search = parameters.toString();
      return url;
    },

    /** Section 5 of the specification: five fields, and `code_verifier` where PKCE is on. */
    exchangeCode(
      request: { code: string; redirectUri: string; verifier: string | null; scopes: readonly string[] },
      signal: AbortSignal,
    ): Promise<Tokens> {
      const { code, redirectUri, verifier, scopes } = request;
      const fields: Record<string, string> = {
        grant_type: 'authorization_code',
        code,
        ...client(),
        redirect_uri: redirectUri,
      };
      if (verifier !== null) fields['code_verifier'] = verifier;
      return grant(fields, { askedScopes: scopes, before: null }, signal);
    },

    refresh(before: Tokens & { refreshToken: string }, signal: AbortSignal): Promise<Tokens> {
      const fields = { grant_type: 'refresh_token', refresh_token: before.refreshToken, ...client() };
      return grant(fields, { askedScopes: before.askedScopes, before }, signal);
    },

    /** For service accounts. */
    clientCredentials(scopes: readonly string[], signal: AbortSignal): Promise<Tokens> {
      const fields = { grant_type: 'client_credentials', ...client(), scope: scopes.join(' ') };
      return grant(fields, { askedScopes: scopes, before: null }, signal);
    },
  };
}

/** The JSON of a 2xx. Throws every other reply, without its text, because that may echo our secrets. */
function answerOf(reply: Answer | ExchangeFailure, wallMs: number): unknown {
  if (reply instanceof ExchangeFailure) throw failed(reply.kind, reply.message, { cause: reply.cause });
  const { status } = reply;
  const answer = jsonIn(reply.body);
  const isSuccess = status >= 200 && status < 300;
  if (isSuccess && reportIn(answer, undefined) === null) return answer;
  const retryAfterMs = waitIn(reply, wallMs);
  const kind = kindOf(reply, retryAfterMs);
  if (kind === 'rate_limited' || status >= 500) throw failed(kind, `answered ${status}`, { retryAfterMs });
  const code = codeIn(answer);
  if (code !== null && PASSING_CODES.includes(code)) throw failed('server', `answered ${status}: ${code}`);
  let remedy = code !== null && isAboutGrant(code) ? GRANT_REMEDY : CLIENT_REMEDY;
  // An authorization server would not answer this at its own address.
  if (code === null && (status === 404 || status === 405)) remedy = ADDRESS_REMEDY;
  throw new GrantRefused(code ?? `http_${status}`, remedy);
}

/** Codes of RFC 6749 that are about the client or the request, and not about the grant. */
// biome-ignore format: names side by side
const CLIENT_CODES = ['invalid_client', 'unauthorized_client', 'invalid_request', 'unsupported_grant_type', 'invalid_scope'];
/** Codes that say to try again. */
const PASSING_CODES = ['server_error', 'temporarily_unavailable', 'slow_down'];

/** The grant itself is refused, under whatever name: asking again with it does not help. */
export const isAboutGrant = (code: string): boolean =>
  !CLIENT_CODES.includes(code) && !/^http_|^unnamed$/.test(code);

/** The error's code; null: it has none. The description beside it is free text and may hold a secret. */
function codeIn(answer: unknown): string | null {
  const error = isObject(answer) ? answer['error'] : null;
  const code = isObject(error) ? error['code'] : error;
  if (typeof code === 'string' && /^[a-z_]{1,40}$/i.test(code)) return code;
  return isObject(error) ? 'unnamed' : null;
}

function failed(kind: UpstreamErrorKind, what: string, details: UpstreamErrorDetails = {}): UpstreamError {
  return new UpstreamError(kind, `the authorization server: ${what}`, {
    ...details,
    remedy: 'Check COMPLIANCE_AUTH_URL and the way to it; it is asked again with the next request.',
  });
}

/** The secrets of one attempt to get a person's consent. */
export interface ConsentAttempt {
  /** The redirect must bring it back. Null: switched off. */
  state: string | null;
  /** RFC 7636. Null: PKCE is switched off. */
  verifier: string | null;
}

export type ConsentAnswer =
  | { outcome: 'granted'; code: string }
  /** `reason` is the service's code, such as `access_denied`. */
  | { outcome: 'refused'; reason: string }
  /** Not an answer to this attempt: with another state or none, or with no code. */
  | { outcome: 'foreign' };

/** In base64url that is 43 characters, the least that RFC 7636 allows. */
const SECRET_BYTES = 32;

export function startConsent(options: { pkce: boolean; state: boolean }): ConsentAttempt {
  const secret = () => randomBytes(SECRET_BYTES).toString('base64url');
  return { state: options.state ? secret() : null, verifier: options.pkce ? secret() : null };
}

/** S256 of RFC 7636. */
export function challengeOf(verifier: string): string {
  return hash('sha256', verifier, 'base64url');
}

/** The answer in the parameters of a redirect, which anyone may have made up. */
export function readConsent(parameters: URLSearchParams, attempt: ConsentAttempt): ConsentAnswer {
  const error = parameters.get('error');
  const codes = parameters.getAll('code');
  const [state, ...moreStates] = parameters.getAll('state');
  if (attempt.state !== null) {
    if (state === undefined || moreStates.length > 0 || !isSame(state, attempt.state)) {
      return { outcome: 'foreign' };
    }
  }
  if (error !== null) {
    return { outcome: 'refused', reason: /^[a-z_]{1,40}$/.test(error) ? error : 'unknown_error' };
  }
  const [code] = codes;
  if (code === undefined || code === '' || codes.length > 1) return { outcome: 'foreign' };
  return { outcome: 'granted', code };
}

function isSame(given: string, expected: string): boolean {
  const digest = (text: string) => hash('sha256', text, 'buffer');
  return timingSafeEqual(digest(given), digest(expected));
}

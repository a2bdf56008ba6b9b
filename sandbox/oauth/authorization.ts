import { randomBytes } from 'node:crypto';
import { parseScopes } from '../scopes.ts';
import type { Clients } from './clients.ts';

/** What a person is asked to consent to, once the request for it has been found in order. */
export interface ConsentRequest {
  clientId: string;
  redirectUri: string;
  scopes: readonly string[];
  /** Goes back as it came; null when there was none. */
  state: string | null;
  challenge: string | null;
}

export type Verdict =
  | { outcome: 'ask'; request: ConsentRequest }
  /** Told to the client, by way of its own redirect address. */
  | { outcome: 'redirect'; to: string }
  /** Told to the person: where the client or its address is wrong, nobody is redirected anywhere. */
  | { outcome: 'refuse'; reason: string };

/** SHA-256 in base64url. */
const CHALLENGE = /^[A-Za-z0-9_-]{43}$/;

/** Judges the parameters of `GET /oauth/authorize`; reads nothing but its arguments. */
export function judgeAuthorization(parameters: URLSearchParams, clients: Clients): Verdict {
  const { id, redirectUri } = clients.application;
  const only = (name: string) => {
    const values = parameters.getAll(name);
    return values.length === 1 ? values[0]! : null;
  };
  if (only('client_id') !== id) {
    return { outcome: 'refuse', reason: 'No client is registered under this client_id.' };
  }
  if (only('redirect_uri') !== redirectUri) {
    return { outcome: 'refuse', reason: 'This redirect_uri is not the one registered for the client.' };
  }
  const state = only('state');
  const refusal = (error: string): Verdict => ({
    outcome: 'redirect',
    to: redirectTo({ redirectUri, state }, { error }),
  });
  const repeated = [...parameters.keys()].find((name) => parameters.getAll(name).length > 1);
  if (repeated !== undefined) return refusal('invalid_request');
  if (parameters.get('response_type') !== 'code') return refusal('unsupported_response_type');
  const scopes = parseScopes(parameters.get('scope') ?? '');
  if (scopes === null || scopes.length === 0) return refusal('invalid_scope');
  const challenge = parameters.get('code_challenge');
  const method = parameters.get('code_challenge_method');
  // `plain` proves nothing to whoever saw the request, and RFC 7636 makes it the default.
  const isProof = challenge === null ? method === null : method === 'S256' && CHALLENGE.test(challenge);
  if (!isProof) return refusal('invalid_request');
  return { outcome: 'ask', request: { clientId: id, redirectUri, scopes, state, challenge } };
}

/** The redirect address with `answer`, and the state where there was one, added to its query. */
export function redirectTo(
  { redirectUri, state }: Pick<ConsentRequest, 'redirectUri' | 'state'>,
  answer: Readonly<Record<string, string>>,
): string {
  const url = new URL(redirectUri);
  const added = { ...answer, ...(state === null ? {} : { state }) };
  for (const [name, value] of Object.entries(added)) url.searchParams.append(name, value);
  return url.href;
}

const TICKET_LIFE_MS = 600_000;
/** A bound on memory: pages that were opened and never answered. */
const MAX_PENDING = 1_000;

/** Consent pages that wait for an answer; each form bears a ticket that only its page could know. */
export class PendingConsents {
  readonly #pending = new Map<string, { request: ConsentRequest; expiresAtMs: number }>();
  readonly #now: () => number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  add(request: ConsentRequest): string {
    const ticket = randomBytes(24).toString('base64url');
    this.#pending.set(ticket, { request, expiresAtMs: this.#now() + TICKET_LIFE_MS });
    const [oldest] = this.#pending.keys();
    if (this.#pending.size > MAX_PENDING && oldest !== undefined) this.#pending.delete(oldest);
    return ticket;
  }

  /** The request behind a ticket, once; null for one that is used, too old or made up. */
  take(ticket: string): ConsentRequest | null {
    const entry = this.#pending.get(ticket);
    this.#pending.delete(ticket);
    return entry !== undefined && entry.expiresAtMs > this.#now() ? entry.request : null;
  }
}

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** One attempt to get a person's consent: what only the browser that began it and we know. */
export interface ConsentAttempt {
  /** Comes back with the redirect; an answer without it was not asked for by us. Null where it is switched off. */
  state: string | null;
  /** RFC 7636; null where PKCE is switched off. */
  proof: { verifier: string; challenge: string } | null;
}

export type ConsentAnswer =
  | { outcome: 'granted'; code: string }
  /** `reason` is the service's code, such as `access_denied`. */
  | { outcome: 'refused'; reason: string }
  /** Not an answer to this attempt: with another state, with no code, or (`noState`) an answer without any state. */
  | { outcome: 'foreign'; noState: boolean };

/** 256 bits, as base64url the 43 characters that RFC 7636 wants at least. */
const SECRET_BYTES = 32;

export function startConsent(options: { pkce: boolean; state: boolean }): ConsentAttempt {
  const state = options.state ? randomBytes(SECRET_BYTES).toString('base64url') : null;
  if (!options.pkce) return { state, proof: null };
  const verifier = randomBytes(SECRET_BYTES).toString('base64url');
  return { state, proof: { verifier, challenge: challengeOf(verifier) } };
}

/** S256 of RFC 7636. */
export function challengeOf(verifier: string): string {
  return createHash('sha256').update(verifier).digest('base64url');
}

/** What the parameters of a redirect say. Everything in them may have been made up by anyone. */
export function readConsent(parameters: URLSearchParams, attempt: ConsentAttempt): ConsentAnswer {
  const error = parameters.get('error');
  const codes = parameters.getAll('code');
  const [state, ...moreStates] = parameters.getAll('state');
  if (attempt.state !== null) {
    const noState = (state ?? '') === '' && (error !== null || codes.length > 0);
    if (state === undefined || moreStates.length > 0 || !isSame(state, attempt.state)) {
      return { outcome: 'foreign', noState };
    }
  }
  if (error !== null) {
    return { outcome: 'refused', reason: /^[a-z_]{1,40}$/.test(error) ? error : 'unknown_error' };
  }
  const [code] = codes;
  if (code === undefined || code === '' || codes.length > 1) return { outcome: 'foreign', noState: false };
  return { outcome: 'granted', code };
}

function isSame(given: string, expected: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(expected));
}

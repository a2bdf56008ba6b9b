import { PROBLEM_CONTENT_TYPE, problem, problemText } from '../platform/problem.ts';

/** Retry-After when the database could not commit: a checkpoint or a full disk lasts longer than a second. */
const STORE_RETRY_AFTER_SECONDS = '5';
/** While other deliveries use up the limits. They take 15 s at most, and slow ones are dropped first. */
const TOO_MANY_RETRY_AFTER_SECONDS = '2';
/** While no signing secret is known: a person must add one. */
const NO_SECRET_RETRY_AFTER_SECONDS = '60';
/** While a registration is being made, which brings a secret. */
const AWAITED_SECRET_RETRY_AFTER_SECONDS = '2';

const JSON_HEADERS = { 'content-type': 'application/json' };
const UNAUTHORIZED_TEXT = problemText(
  401,
  'invalid_signature',
  'The signature is missing, wrong or not of this time.',
);
/** RFC 9110 requires a challenge in every 401. No registered scheme describes a signed webhook. */
const UNAUTHORIZED_HEADERS = { 'content-type': PROBLEM_CONTENT_TYPE, 'www-authenticate': 'Signature' };

const json = (status: number, text: string): Response =>
  new Response(text, { status, headers: JSON_HEADERS });

export const accepted = (id: string): Response =>
  json(202, `{"status":"accepted","id":${JSON.stringify(id)}}`);

export const duplicate = (id: string): Response =>
  json(200, `{"status":"duplicate","id":${JSON.stringify(id)}}`);

export const alive = (): Response => json(200, '{"status":"ok"}');

/** The same for every reason, so that a forger does not learn what is wrong. */
export function unauthorized(): Response {
  return new Response(UNAUTHORIZED_TEXT, { status: 401, headers: UNAUTHORIZED_HEADERS });
}

export function unusable(code: 'invalid_json' | 'invalid_event', reason: string): Response {
  const title = code === 'invalid_json' ? 'The body is not a JSON object.' : 'The body is not an event.';
  return problem(400, code, title, `Reason: ${reason}. The delivery was kept.`);
}

export function tooLarge(maxBodyBytes: number): Response {
  return problem(413, 'too_large', 'The body is too large.', `At most ${maxBodyBytes} bytes are taken.`);
}

export function tooManyChunks(): Response {
  return problem(413, 'too_large', 'The body comes in too many chunks.', 'Send it in fewer, larger ones.');
}

export function unsupportedEncoding(): Response {
  return problem(
    415,
    'unsupported_content_encoding',
    'Encoded bodies are not taken.',
    'Send the body as it was signed, without Content-Encoding.',
    { 'accept-encoding': 'identity' },
  );
}

export function interrupted(): Response {
  return problem(400, 'incomplete_body', 'The body ended early.');
}

const LATER = 'Send it again later.';
const retryAfter = (seconds: string) => ({ 'retry-after': seconds });

export function storeUnavailable(): Response {
  const headers = retryAfter(STORE_RETRY_AFTER_SECONDS);
  return problem(503, 'unavailable', 'The delivery cannot be kept now.', LATER, headers);
}

export function tooMany(): Response {
  const headers = retryAfter(TOO_MANY_RETRY_AFTER_SECONDS);
  return problem(503, 'too_many_deliveries', 'Too many deliveries come at once.', LATER, headers);
}

/** `isAwaited`: a registration is about to bring one. */
export function noSecret(isAwaited: boolean): Response {
  const headers = retryAfter(isAwaited ? AWAITED_SECRET_RETRY_AFTER_SECONDS : NO_SECRET_RETRY_AFTER_SECONDS);
  return problem(503, 'no_signing_secret', 'Deliveries cannot be verified yet.', LATER, headers);
}

export function internalError(): Response {
  return problem(500, 'internal_error', 'Something went wrong here.', LATER);
}

export function notFound(): Response {
  return problem(404, 'not_found', 'There is nothing here.');
}

export function methodNotAllowed(allow: string): Response {
  return problem(405, 'method_not_allowed', 'This method is not taken here.', `Allowed: ${allow}.`, {
    allow,
  });
}

import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { HttpBindings } from '@hono/node-server';
import { Hono } from 'hono';
import type { IdPointers } from '../compliance/pointers.ts';
import type { Inbox } from '../inbox/group-commit.ts';
import { type Addresses, networkOf } from '../platform/addresses.ts';
import type { Clock } from '../platform/clock.ts';
import type { Config } from '../platform/config.ts';
import { StoreUnavailable } from '../platform/errors.ts';
import type { LogLimit } from '../platform/log-limit.ts';
import { type Logger, stage } from '../platform/logger.ts';
import type { Metrics } from '../platform/metrics.ts';
import { PROBLEM_CONTENT_TYPE, problem, problemText } from '../platform/problem.ts';
import type { IncomingEvent } from '../store/store.ts';
import { createBodies, type NoBody } from './body.ts';
import { createShares, prove } from './connections.ts';
import { parseEnvelope } from './envelope.ts';
import {
  type BadSignature,
  type ClaimedSignature,
  MAX_HEADER_CHARACTERS,
  readSignature,
  type SignatureRejectionReason,
  type SignedDelivery,
  verifySignature,
} from './signature.ts';

export interface ReceiverOptions {
  inbox: Inbox;
  /** `secrets` includes those of registrations. */
  settings: Config['webhook'];
  /** A registration is being made. A delivery that no secret fits may be signed with its secret, which is not known yet. */
  isSecretAwaited: () => boolean;
  pointers: IdPointers;
  /** The client address of a delivery, as far as it can be trusted. */
  addresses: Addresses;
  clock: Pick<Clock, 'wall'>;
  logger: Logger;
  lines: LogLimit;
  metrics: Pick<Metrics, 'deliveries' | 'acknowledgementSeconds'>;
  /** A correctly signed delivery was rejected for its time. Its event may be lost, or a stranger replayed it. Must not throw. */
  onRejectedTimestamp?: (reason: SignatureRejectionReason, t: string) => void;
  /**
   * A correctly signed delivery about this record could not be stored; without a kind it is no event, and may be about any record.
   * Not called for an event of a family that is not mirrored. Must not throw.
   */
  onUnkept?: (about: About) => void;
  /** The secret that verified a delivery. Must not throw. */
  onSecretUsed?: (secret: Uint8Array) => void;
  /** Every delivery, once it is answered. Must not throw. */
  onDelivery?: (outcome: DeliveryOutcome, reason: string, answered: Answered) => void;
}

/** What a delivery is about, as far as it says. */
export type About = Pick<IncomingEvent, 'kind' | 'recordId'>;

/** A delivery that was answered. */
export interface Answered {
  /** Null: no event. */
  eventId: string | null;
  /** The client address, if known. */
  address: string | null;
  /** Wall-clock milliseconds. */
  endedWall: number;
  /** From the headers to the answer. */
  milliseconds: number;
}

/** What can become of a delivery. */
export type DeliveryOutcome =
  | 'accepted'
  | 'duplicate'
  | 'quarantined'
  | 'rejected'
  | 'aborted'
  | 'unavailable'
  | 'failed';

const LEVELS: Readonly<Record<DeliveryOutcome, 'info' | 'warn' | 'error'>> = {
  accepted: 'info',
  duplicate: 'info',
  quarantined: 'warn',
  rejected: 'warn',
  aborted: 'warn',
  unavailable: 'error',
  failed: 'error',
};

/**
 * Bodies of rejected deliveries up to this size are kept, so that `doctor` can try other settings on them. Larger ones are not
 * kept at all, because a part of a body has no signature. A hundred of them are 1.6 MB.
 */
export const REJECTION_BODY_BYTES = 16_384;

const EMPTY = Buffer.alloc(0);

/** A delivery whose headers have come. */
interface Arrival {
  incoming: IncomingMessage;
  /** By `performance.now`. */
  startedAt: number;
  /** Its Content-Length; 0: it has none. */
  declaredBytes: number;
}

/**
 * The public listener: `POST /webhooks` and `GET /livez`. Needs Node's own request (`env.incoming`), which @hono/node-server
 * passes along. Checks in this order: path, method, size, Content-Encoding, signature, JSON, envelope. If the headers alone
 * decide, the body is not read. An event is answered after its commit.
 */
export function createReceiver(options: ReceiverOptions): Hono<{ Bindings: HttpBindings }> {
  const { inbox, settings, addresses, clock, metrics } = options;
  const log = stage(options.logger, 'receive');
  const bodies = createBodies(settings.bodiesInFlightBytes);
  const shares = createShares();

  async function receive(incoming: IncomingMessage): Promise<Response> {
    const declaredBytes = Number(incoming.headers['content-length'] ?? 0);
    const arrival = { incoming, startedAt: performance.now(), declaredBytes };
    // Without a proxy, connections are limited instead.
    const client = addresses.isProxy(incoming.socket.remoteAddress) ? addresses.of(incoming) : null;
    const network = client === null ? null : networkOf(client);
    if (network !== null && !shares.enter(network)) return tooMany('address_share', arrival);
    let body: Buffer | NoBody = EMPTY;
    try {
      if (declaredBytes > settings.maxBodyBytes) return rejectUnread('too_large', arrival);
      if (!isIdentity(incoming.headers['content-encoding'])) return rejectUnread('content_encoding', arrival);
      if (settings.secrets().length === 0) return lackSecret(arrival, null);
      const headerOf = (name: string) => headerIn(incoming, name);
      const claimed = readSignature(headerIn(incoming, settings.header), headerOf, settings);
      if (!claimed.ok) return rejectSignature(claimed, arrival, null);
      body = await bodies.read(incoming, settings.maxBodyBytes, declaredBytes);
      if (body === 'too_large')
        return rejectUnread('too_large', { ...arrival, declaredBytes: settings.maxBodyBytes + 1 });
      if (body === 'too_many_pieces') return rejectUnread('too_many_chunks', arrival);
      if (body === 'no_room') return tooMany('bodies_in_flight', arrival);
      if (body === 'aborted') {
        report('aborted', 'incomplete_body', arrival);
        return problem(400, 'incomplete_body', 'The body ended early.');
      }
      // Asked again, because a secret may have been added while the body arrived.
      const secrets = settings.secrets();
      return await judge(arrival, claimed, { body, headerOf, secrets });
    } catch (error) {
      const unavailable = error instanceof StoreUnavailable;
      const reason = unavailable ? error.code : 'internal_error';
      report(unavailable ? 'unavailable' : 'failed', reason, arrival, { fields: { error } });
      if (!unavailable) return internalError();
      const headers = retryAfter(STORE_RETRY_AFTER_SECONDS);
      return problem(503, 'unavailable', 'The delivery cannot be kept now.', LATER, headers);
    } finally {
      if (typeof body === 'object') bodies.release(body);
      if (network !== null) shares.leave(network);
    }
  }

  /** Checks the signature, the JSON and the envelope, and commits. */
  async function judge(
    arrival: Arrival,
    claimed: ClaimedSignature,
    { body, ...signed }: Omit<SignedDelivery, 'nowSeconds'> & { body: Buffer },
  ): Promise<Response> {
    const { incoming } = arrival;
    const nowSeconds = Math.floor(clock.wall() / 1000);
    const verdict = verifySignature(claimed, { body, ...signed, nowSeconds }, settings);
    if (!verdict.ok) {
      return verdict.reason === 'bad_signature' && options.isSecretAwaited()
        ? lackSecret(arrival, body)
        : rejectSignature(verdict, arrival, body);
    }
    prove(incoming);
    options.onSecretUsed?.(signed.secrets[verdict.secretPosition]!);

    const address = addresses.of(incoming);
    const parsed = parseEnvelope(body, { pointers: options.pointers, t: verdict.t, address });
    if (!parsed.ok) {
      const { kind, recordId } = parsed.unusable;
      await stored(inbox.quarantine(parsed.unusable), parsed.unusable);
      const fields = { kind, record_id: recordId, bytes: body.length };
      report('quarantined', parsed.reason, arrival, { fields, address });
      const title =
        parsed.code === 'invalid_json' ? 'The body is not a JSON object.' : 'The body is not an event.';
      return problem(400, parsed.code, title, `Reason: ${parsed.reason}. The delivery was kept.`);
    }
    const { event } = parsed;
    const outcome = await stored(inbox.accept(event, incoming.socket), event.kind === null ? null : event);
    if (outcome.status === 'duplicate') {
      const answered = { fields: namesOf(event), eventId: event.id, address };
      if (outcome.conflicting) report('quarantined', 'conflicting_content', arrival, answered);
      else report('duplicate', '', arrival, answered);
      return json(200, `{"status":"duplicate","id":${JSON.stringify(event.id)}}`);
    }
    const fields = namesOf(event, outcome.seq);
    report('accepted', event.known ? '' : 'unknown_type', arrival, { fields, eventId: event.id, address });
    return json(202, `{"status":"accepted","id":${JSON.stringify(event.id)}}`);
  }

  async function stored<T>(commit: Promise<T>, about: About | null): Promise<T> {
    try {
      return await commit;
    } catch (error) {
      if (about !== null) options.onUnkept?.(about);
      throw error;
    }
  }

  // Of these, `body` is null if the headers or the size decided.

  function rejectSignature(
    { reason, t, macValid }: BadSignature,
    arrival: Arrival,
    body: Buffer | null,
  ): Response {
    reject(reason, t, arrival, body);
    if (macValid && t !== null) options.onRejectedTimestamp?.(reason, t);
    return new Response(UNAUTHORIZED_TEXT, { status: 401, headers: UNAUTHORIZED_HEADERS });
  }

  /** The fault is ours: we do not know the secret that may have signed the delivery. */
  function lackSecret(arrival: Arrival, body: Buffer | null): Response {
    reject('no_signing_secret', null, arrival, body);
    const isAwaited = options.isSecretAwaited();
    const headers = retryAfter(
      isAwaited ? AWAITED_SECRET_RETRY_AFTER_SECONDS : NO_SECRET_RETRY_AFTER_SECONDS,
    );
    return problem(503, 'no_signing_secret', 'Deliveries cannot be verified yet.', LATER, headers);
  }

  function rejectUnread(
    reason: 'too_large' | 'too_many_chunks' | 'content_encoding',
    arrival: Arrival,
  ): Response {
    reject(reason, null, arrival, null);
    return reason === 'content_encoding' ? unsupportedEncoding() : tooLarge(reason, settings.maxBodyBytes);
  }

  /** Notes and counts a rejection. */
  function reject(reason: string, t: string | null, arrival: Arrival, body: Buffer | null): void {
    const { incoming, declaredBytes } = arrival;
    const address = addresses.of(incoming);
    const bytes = body?.length ?? declaredBytes;
    inbox.reject({
      reason,
      t,
      bytes,
      bodySha256: body === null ? null : hash('sha256', body, 'hex'),
      header: headerIn(incoming, settings.header)?.slice(0, MAX_HEADER_CHARACTERS) ?? null,
      // A copy, because the body's memory counts as free from now on.
      body: body === null || bytes > REJECTION_BODY_BYTES ? null : Uint8Array.from(body),
      address,
      wall: clock.wall(),
    });
    report('rejected', reason, arrival, { fields: { bytes }, address });
  }

  function tooMany(reason: 'bodies_in_flight' | 'address_share', arrival: Arrival): Response {
    report('unavailable', reason, arrival);
    const headers = retryAfter(TOO_MANY_RETRY_AFTER_SECONDS);
    return problem(503, 'too_many_deliveries', 'Too many deliveries come at once.', LATER, headers);
  }

  /** Counts a delivery, and writes its log line. */
  function report(
    outcome: DeliveryOutcome,
    reason: string,
    { startedAt }: Arrival,
    about: { fields?: object; eventId?: string; address?: string | null } = {},
  ): void {
    const { fields, eventId = null, address = null } = about;
    const milliseconds = performance.now() - startedAt;
    metrics.deliveries.inc(outcome, reason);
    metrics.acknowledgementSeconds.observe(milliseconds / 1000);
    options.onDelivery?.(outcome, reason, { eventId, address, endedWall: clock.wall(), milliseconds });
    const level = LEVELS[outcome];
    if (!log.isLevelEnabled(level)) return;
    // A stranger can cause all of these, a duplicate by replaying a delivery.
    if (outcome !== 'accepted' && !options.lines.admits(log, level, 'delivery', { outcome, reason })) return;
    const duration_ms = Math.round(milliseconds * 1000) / 1000;
    log[level]({ ...NAMELESS, outcome, reason: reason || null, duration_ms, ...fields }, 'delivery');
  }

  const app = new Hono<{ Bindings: HttpBindings }>();
  // One route for all methods: of two routes for a path Hono builds a chain for each request.
  app.all('/webhooks', (c) => (c.req.method === 'POST' ? receive(c.env.incoming) : methodNotAllowed('POST')));
  app.get('/livez', () => json(200, '{"status":"ok"}'));
  app.all('/livez', () => methodNotAllowed('GET, HEAD'));
  app.notFound(() => problem(404, 'not_found', 'Not found.'));
  app.onError((error) => {
    if (options.lines.admits(log, 'error', 'request', { outcome: 'failed', reason: null }))
      log.error({ outcome: 'failed', error }, 'request');
    return internalError();
  });
  return app;
}

/** So that every line has the same fields. */
const NAMELESS = { event_id: null, kind: null, record_id: null };

function namesOf(event: IncomingEvent, seq?: number): object {
  return { event_id: event.id, type: event.type, kind: event.kind, record_id: event.recordId, seq };
}

function isIdentity(encoding: string | undefined): boolean {
  return encoding === undefined || encoding === '' || encoding.toLowerCase() === 'identity';
}

function headerIn(incoming: IncomingMessage, name: string): string | undefined {
  const value: unknown = incoming.headers[name];
  // A name such as `constructor` is inherited from Object and no header.
  return typeof value === 'string' ? value : undefined;
}

// ─── answers ────────────────────────────────────────────────────────────────────────────────────────────

/** Retry-After when the database could not commit: a checkpoint or a full disk lasts longer than a second. */
const STORE_RETRY_AFTER_SECONDS = '5';
/** While other deliveries use up the limits. They take 15 s at most, and slow ones are dropped first. */
const TOO_MANY_RETRY_AFTER_SECONDS = '2';
/** While no signing secret is known: a person must add one. */
const NO_SECRET_RETRY_AFTER_SECONDS = '60';
/** While a registration is being made, which brings a secret. */
const AWAITED_SECRET_RETRY_AFTER_SECONDS = '2';

const LATER = 'Send it again later.';
const retryAfter = (seconds: string) => ({ 'retry-after': seconds });

const JSON_HEADERS = { 'content-type': 'application/json' };
const json = (status: number, text: string): Response =>
  new Response(text, { status, headers: JSON_HEADERS });

/** The same for every reason, so that a forger does not learn what is wrong. */
const UNAUTHORIZED_TEXT = problemText(
  401,
  'invalid_signature',
  'The signature is missing, wrong or not of this time.',
);
/** RFC 9110 requires a challenge in every 401. No registered scheme describes a signed webhook. */
const UNAUTHORIZED_HEADERS = { 'content-type': PROBLEM_CONTENT_TYPE, 'www-authenticate': 'Signature' };

function tooLarge(reason: 'too_large' | 'too_many_chunks', maxBodyBytes: number): Response {
  return reason === 'too_large'
    ? problem(413, 'too_large', 'The body is too large.', `At most ${maxBodyBytes} bytes are taken.`)
    : problem(413, 'too_large', 'The body comes in too many chunks.', 'Send it in fewer, larger ones.');
}

function unsupportedEncoding(): Response {
  return problem(
    415,
    'unsupported_content_encoding',
    'Encoded bodies are not taken.',
    'Send the body as it was signed, without Content-Encoding.',
    { 'accept-encoding': 'identity' },
  );
}

function internalError(): Response {
  return problem(500, 'internal_error', 'Something went wrong here.', LATER);
}

function methodNotAllowed(allow: string): Response {
  const detail = `Allowed: ${allow}.`;
  return problem(405, 'method_not_allowed', 'This method is not taken here.', detail, { allow });
}

import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { HttpBindings } from '@hono/node-server';
import { Hono } from 'hono';
import type { IdPointers } from '../compliance/pointers.ts';
import type { Inbox } from '../inbox/group-commit.ts';
import type { Addresses } from '../platform/addresses.ts';
import type { Clock } from '../platform/clock.ts';
import type { Config } from '../platform/config.ts';
import { StoreUnavailable } from '../platform/errors.ts';
import type { LogLimit } from '../platform/log-limit.ts';
import { type Logger, stage } from '../platform/logger.ts';
import type { Metrics } from '../platform/metrics.ts';
import { PROBLEM_CONTENT_TYPE, problem, problemText } from '../platform/problem.ts';
import type { AcceptOutcome, IncomingEvent } from '../store/store.ts';
import { createBodies, type NoBody } from './body.ts';
import { parseEnvelope } from './envelope.ts';
import {
  type BadSignature,
  MAX_HEADER_CHARACTERS,
  readSignature,
  type SignatureHeader,
  type SignedDelivery,
  verifySignature,
} from './signature.ts';

export interface ReceiverOptions {
  inbox: Inbox;
  /** `secrets` includes those of registrations. */
  settings: Config['webhook'];
  /** For all bodies that are being received, two of the largest at least. Default: BODIES_BYTES. */
  bodiesBytes?: number;
  /** A registration is being made. A delivery that no secret fits may be signed with its secret, which is not known yet. */
  isSecretAwaited: () => boolean;
  pointers: IdPointers;
  /** The client address of a delivery, as far as it can be trusted. */
  addresses: Addresses;
  clock: Pick<Clock, 'wall'>;
  logger: Logger;
  lines: LogLimit;
  metrics: Pick<Metrics, 'deliveries' | 'acknowledgementSeconds'>;
  /** A correctly signed delivery about this was rejected for its time. Its event may be lost, or a stranger replayed it. Must not throw. */
  onRejectedTimestamp?: (about: About) => void;
  /**
   * A correctly signed delivery about this record could not be stored; without a kind it is no event, and may be about any record.
   * Not called for an event of a family that is not mirrored. Must not throw.
   */
  onUnkept?: (about: About) => void;
  /** The secret that verified a delivery. Must not throw. */
  onSecretUsed?: (secret: Uint8Array) => void;
  /** Every delivery, once it is answered; of a batch every event. `address`: the client's, if known. Must not throw. */
  onDelivery?: (outcome: DeliveryOutcome, reason: string, address: string | null) => void;
}

/** What a delivery is about, as far as it says. */
export type About = Pick<IncomingEvent, 'kind' | 'recordId'>;

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

/** Tens of thousands of usual bodies, and little of a small machine. */
const BODIES_BYTES = 64 * 1024 * 1024;

/** A delivery whose headers have come. */
interface Arrival {
  incoming: IncomingMessage;
  /** The client's, as far as it can be trusted. Null: its connection is closed already. */
  address: string | null;
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
  const { maxBodyBytes } = settings;
  const maxHeldBytes = Math.max(options.bodiesBytes ?? BODIES_BYTES, 2 * maxBodyBytes);
  const bodies = createBodies({ maxBodyBytes, maxHeldBytes });

  async function receive(incoming: IncomingMessage): Promise<Response> {
    const declaredBytes = Number(incoming.headers['content-length'] ?? 0);
    const address = addresses.of(incoming);
    const arrival = { incoming, address, startedAt: performance.now(), declaredBytes };
    let body: Buffer | NoBody | null = null;
    try {
      if (declaredBytes > maxBodyBytes) return rejectUnread('too_large', arrival);
      if (!isIdentity(incoming.headers['content-encoding'])) return rejectUnread('content_encoding', arrival);
      if (settings.secrets().length === 0) return lackSecret(arrival, null);
      const claimed = readSignature(headerIn(incoming, settings.header), settings);
      if (!claimed.ok) return rejectSignature(claimed, arrival, null);
      body = await bodies.read(incoming, declaredBytes);
      if (typeof body === 'string') return lackBody(body, arrival);
      // Asked again, because a secret may have been added while the body arrived.
      const secrets = settings.secrets();
      return await judge(arrival, claimed, { body, secrets });
    } catch (error) {
      const unavailable = error instanceof StoreUnavailable;
      const reason = unavailable ? error.code : 'internal_error';
      report(unavailable ? 'unavailable' : 'failed', reason, arrival, { error });
      if (!unavailable) return internalError();
      return problem(503, 'unavailable', 'The delivery cannot be kept now.', LATER, AFTER_A_COMMIT);
    } finally {
      if (body instanceof Buffer) bodies.release(body);
    }
  }

  /** Checks the signature, the JSON and the envelope, and commits. */
  async function judge(
    arrival: Arrival,
    claimed: SignatureHeader,
    { body, ...signed }: Omit<SignedDelivery, 'nowSeconds'> & { body: Buffer },
  ): Promise<Response> {
    const { address } = arrival;
    const nowSeconds = Math.floor(clock.wall() / 1000);
    const verdict = verifySignature(claimed, { body, ...signed, nowSeconds }, settings);
    if (!verdict.ok) {
      return verdict.reason === 'bad_signature' && options.isSecretAwaited()
        ? lackSecret(arrival, body)
        : rejectSignature(verdict, arrival, body);
    }
    options.onSecretUsed?.(signed.secrets[verdict.secretPosition]!);

    const parsed = parseEnvelope(body, { pointers: options.pointers, t: verdict.t, address });
    if (!parsed.ok) {
      const { kind, recordId } = parsed.unusable;
      await stored(inbox.quarantine(parsed.unusable), parsed.unusable);
      report('quarantined', parsed.reason, arrival, { kind, record_id: recordId, bytes: body.length });
      const title =
        parsed.code === 'invalid_json' ? 'The body is no JSON of events.' : 'The body is not an event.';
      return problem(400, parsed.code, title, `Reason: ${parsed.reason}. The delivery was kept.`);
    }
    const { events } = parsed;
    const about = events.filter(({ kind }) => kind !== null);
    const outcomes = await stored(inbox.accept(events), ...about);
    for (const [nth, event] of events.entries()) tell(event, outcomes[nth]!, arrival);
    if (events.length > 1) return json(202, `{"status":"accepted","events":${events.length}}`);
    const { id } = events[0]!;
    const { status } = outcomes[0]!;
    return json(status === 'accepted' ? 202 : 200, `{"status":"${status}","id":${JSON.stringify(id)}}`);
  }

  function tell(event: IncomingEvent, outcome: AcceptOutcome, arrival: Arrival): void {
    if (outcome.status === 'accepted')
      report('accepted', event.known ? '' : 'unknown_type', arrival, namesOf(event, outcome.seq));
    else if (outcome.conflicting) report('quarantined', 'conflicting_content', arrival, namesOf(event));
    else report('duplicate', '', arrival, namesOf(event));
  }

  async function stored<T>(commit: Promise<T>, ...about: readonly About[]): Promise<T> {
    try {
      return await commit;
    } catch (error) {
      for (const each of about) options.onUnkept?.(each);
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
    if (macValid && body !== null) noteLate(body, arrival);
    return new Response(UNAUTHORIZED_TEXT, { status: 401, headers: UNAUTHORIZED_HEADERS });
  }

  function noteLate(body: Buffer, { address }: Arrival): void {
    const parsed = parseEnvelope(body, { pointers: options.pointers, t: '', address });
    // An event of a family that is not mirrored is about no record.
    const about = parsed.ok ? parsed.events.filter(({ kind }) => kind !== null) : [parsed.unusable];
    for (const each of about) options.onRejectedTimestamp?.(each);
  }

  /** The fault is ours: we do not know the secret that may have signed the delivery. */
  function lackSecret(arrival: Arrival, body: Buffer | null): Response {
    reject('no_signing_secret', null, arrival, body);
    const headers = options.isSecretAwaited() ? SOON : AFTER_A_PERSON;
    return problem(503, 'no_signing_secret', 'Deliveries cannot be verified yet.', LATER, headers);
  }

  function lackBody(reason: NoBody, arrival: Arrival): Response {
    if (reason === 'aborted') {
      report('aborted', 'incomplete_body', arrival);
      return problem(400, 'incomplete_body', 'The body ended early.');
    }
    if (reason === 'too_large') return rejectUnread(reason, { ...arrival, declaredBytes: maxBodyBytes + 1 });
    if (reason === 'too_many_chunks') return rejectUnread(reason, arrival);
    report('unavailable', 'bodies_in_flight', arrival);
    return problem(503, 'too_many_deliveries', 'Too many deliveries come at once.', LATER, SOON);
  }

  /** `too_many_chunks`: nobody reads the answer, because the connection was cut. */
  function rejectUnread(
    reason: 'too_large' | 'too_many_chunks' | 'content_encoding',
    arrival: Arrival,
  ): Response {
    reject(reason, null, arrival, null);
    if (reason === 'content_encoding') return unsupportedEncoding();
    return problem(413, 'too_large', 'The body is too large.', `At most ${maxBodyBytes} bytes are taken.`);
  }

  /** Notes and counts a rejection. */
  function reject(reason: string, t: string | null, arrival: Arrival, body: Buffer | null): void {
    const { incoming, address, declaredBytes } = arrival;
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
    report('rejected', reason, arrival, { bytes });
  }

  /** Counts a delivery, of a batch each event, and writes its log line. */
  function report(
    outcome: DeliveryOutcome,
    reason: string,
    { address, startedAt }: Arrival,
    fields?: object,
  ): void {
    const milliseconds = performance.now() - startedAt;
    metrics.deliveries.inc({ outcome, reason });
    metrics.acknowledgementSeconds.observe(milliseconds / 1000);
    options.onDelivery?.(outcome, reason, address);
    const level = LEVELS[outcome];
    if (!log.isLevelEnabled(level)) return;
    const duration_ms = Math.round(milliseconds * 1000) / 1000;
    const line = { ...NAMELESS, outcome, reason: reason || null, duration_ms, ...fields };
    if (outcome === 'accepted') log.info(line, 'delivery');
    // A stranger can cause all others, a duplicate by replaying a delivery.
    else options.lines.write(log, level, line, 'delivery');
  }

  const app = new Hono<{ Bindings: HttpBindings }>();
  // One route for all methods: of two routes for a path Hono builds a chain for each request.
  app.all('/webhooks', (c) => (c.req.method === 'POST' ? receive(c.env.incoming) : methodNotAllowed('POST')));
  app.get('/livez', () => json(200, '{"status":"ok"}'));
  app.all('/livez', () => methodNotAllowed('GET, HEAD'));
  app.notFound(() => problem(404, 'not_found', 'Not found.'));
  app.onError((error) => {
    options.lines.write(log, 'error', { outcome: 'failed', reason: null, error }, 'request');
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

const LATER = 'Send it again later.';
/** A checkpoint or a full disk lasts longer than a second. */
const AFTER_A_COMMIT = { 'retry-after': '5' };
/** While others use up the limits, or a registration is being made, which brings a secret. */
const SOON = { 'retry-after': '2' };
/** A person must add a secret. */
const AFTER_A_PERSON = { 'retry-after': '60' };

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

import { createHmac, timingSafeEqual } from 'node:crypto';
import type { SignatureSettings, TemplatePart } from '../platform/config.ts';
import { MIN_SIGNING_KEY_BYTES } from '../platform/signing-secret.ts';
import { parseSignatureHeader, type SignatureHeader } from './signature-header.ts';

/** Value of a request header by its lower-case name, for `{header:NAME}`. */
type HeaderOf = (name: string) => string | undefined;

/** What is verified, and with what. Nothing outside it is read. */
export interface SignedDelivery {
  /** Exactly the bytes of the request's body. */
  body: Uint8Array;
  headerOf: HeaderOf;
  /** Any of these may have signed; already decoded. */
  secrets: readonly Uint8Array[];
  /** Whole seconds since 1970. */
  nowSeconds: number;
}

export type VerificationSettings = Pick<SignatureSettings, 'template' | 'algorithm' | 'toleranceSeconds'>;

/** Why a delivery is rejected. Stable words: they stand in metrics, logs and the table of rejections. */
export type SignatureRejectionReason =
  | 'missing_header'
  | 'header_too_long'
  | 'malformed_header'
  | 'no_timestamp'
  | 'bad_timestamp'
  | 'conflicting_timestamps'
  | 'no_signature'
  | 'malformed_signature'
  | 'too_many_signatures'
  /** `{header:NAME}` is part of what is signed, and the request has no such header. */
  | 'missing_signed_header'
  | 'bad_signature'
  /** These three are signed correctly. */
  | 'timestamp_too_old'
  | 'timestamp_too_new'
  | 'timestamp_milliseconds';

export interface BadSignature {
  ok: false;
  reason: SignatureRejectionReason;
  /** As sent, where there is one; not necessarily a number. */
  t: string | null;
  /** True: someone who knows a secret signed exactly these bytes. */
  macValid: boolean;
}

export type SignatureVerdict =
  /** `secretPosition` counts `secrets` from 0. */
  { ok: true; t: string; secretPosition: number } | BadSignature;

/** A signature in the right form, of which nothing is proven yet. */
export interface ClaimedSignature extends SignatureHeader {
  /** False: `t` counts milliseconds, which is rejected, but told from a forgery. */
  inSeconds: boolean;
}

const DIGEST_BYTES = { sha256: 32, sha384: 48, sha512: 64 } as const;

/** Every acceptable timestamp of today has ten digits; the eleventh lasts until the year 5138. */
const TIMESTAMP = /^(0|[1-9]\d{0,10})$/;
const MILLISECONDS = /^[1-9]\d{12}$/;

/**
 * All that the headers decide by themselves, before any byte of the body is worth reading. Pure. `headerValue` as received;
 * a header that was sent twice arrives joined by `, `.
 */
export function readSignature(
  headerValue: string | undefined,
  headerOf: HeaderOf,
  settings: Pick<VerificationSettings, 'template' | 'algorithm'>,
): ClaimedSignature | BadSignature {
  const header = parseSignatureHeader(headerValue, DIGEST_BYTES[settings.algorithm]);
  if (!header.ok) return { ok: false, reason: header.reason, t: header.t, macValid: false };
  const { t, signatures } = header;
  const inSeconds = TIMESTAMP.test(t);
  if (!inSeconds && !MILLISECONDS.test(t)) return { ok: false, reason: 'bad_timestamp', t, macValid: false };
  if (lacksSignedHeader(settings.template, headerOf)) {
    return { ok: false, reason: 'missing_signed_header', t, macValid: false };
  }
  return { ok: true, t, signatures, inSeconds };
}

/**
 * Did a holder of one of the secrets sign these bytes, and lately? Pure. The age is judged only after the MAC,
 * so that a reason `timestamp_…` tells that a real delivery came at the wrong time, and not that somebody
 * typed a header: such a delivery is worth looking for through the API.
 */
export function verifySignature(
  claimed: ClaimedSignature,
  delivery: SignedDelivery,
  settings: VerificationSettings,
): SignatureVerdict {
  const { t, inSeconds } = claimed;
  const secretPosition = findSigner(claimed, delivery, settings);
  if (secretPosition === -1) {
    return { ok: false, reason: inSeconds ? 'bad_signature' : 'bad_timestamp', t, macValid: false };
  }

  if (!inSeconds) return { ok: false, reason: 'timestamp_milliseconds', t, macValid: true };
  const ageSeconds = delivery.nowSeconds - Number(t);
  if (ageSeconds > settings.toleranceSeconds) {
    return { ok: false, reason: 'timestamp_too_old', t, macValid: true };
  }
  if (-ageSeconds > settings.toleranceSeconds) {
    return { ok: false, reason: 'timestamp_too_new', t, macValid: true };
  }
  return { ok: true, t, secretPosition };
}

/** Position of the first secret under which any of the header's signatures is right, or -1. */
function findSigner(
  header: SignatureHeader,
  delivery: SignedDelivery,
  settings: VerificationSettings,
): number {
  const candidates = header.signatures.map((hex) => Buffer.from(hex.toLowerCase(), 'latin1'));
  for (let position = 0; position < delivery.secrets.length; position++) {
    const mac = signatureOf(delivery.secrets[position]!, header.t, delivery, settings);
    const expected = Buffer.from(mac, 'latin1');
    // Lengths are equal: the header's parser has counted the digits.
    for (const candidate of candidates) if (timingSafeEqual(expected, candidate)) return position;
  }
  return -1;
}

/**
 * The MAC (HMAC, RFC 2104) that `secret` gives these bytes, in lower-case hex. Headers go in as the octets that came, which Node
 * reads as Latin-1.
 * @throws Error for a key that anyone could have: no secret that was decoded is one, so whoever hands one in has a fault. A
 * 5xx follows, and the sender comes again; a pass would let anyone in.
 */
export function signatureOf(
  secret: Uint8Array,
  t: string,
  { body, headerOf }: Pick<SignedDelivery, 'body' | 'headerOf'>,
  { algorithm, template }: Pick<SignatureSettings, 'template' | 'algorithm'>,
): string {
  if (secret.length < MIN_SIGNING_KEY_BYTES) {
    throw new Error(`a signing key of ${secret.length} bytes was about to be used`);
  }
  const mac = createHmac(algorithm, secret);
  for (const part of template) {
    if (part.kind === 'body') mac.update(body);
    else if (part.kind === 'header') mac.update(headerOf(part.name) ?? '', 'latin1');
    else mac.update(part.kind === 'timestamp' ? t : part.text, 'utf8');
  }
  return mac.digest('hex');
}

function lacksSignedHeader(template: readonly TemplatePart[], headerOf: HeaderOf): boolean {
  return template.some((part) => part.kind === 'header' && headerOf(part.name) === undefined);
}

import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { SignatureSettings } from '../platform/config.ts';
import { MIN_SIGNING_KEY_BYTES } from '../platform/signing-secret.ts';

export interface SignedDelivery {
  /** Exactly the bytes of the request's body. */
  body: Uint8Array;
  /** Decoded. Any of them may have signed. */
  secrets: readonly Uint8Array[];
  /** Whole seconds since 1970. */
  nowSeconds: number;
}

export type VerificationSettings = Pick<SignatureSettings, 'template' | 'algorithm' | 'toleranceSeconds'>;

/** Why a delivery is rejected. Stable codes in metrics, logs and the table `rejections`. */
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
  | 'bad_signature'
  /** These three deliveries are signed correctly. */
  | 'timestamp_too_old'
  | 'timestamp_too_new'
  | 'timestamp_milliseconds';

export interface BadSignature {
  ok: false;
  reason: SignatureRejectionReason;
  /** As sent, even if it is no number; null: absent, or not found before the error. */
  t: string | null;
  /** True: someone who knows a secret signed exactly these bytes. */
  macValid: boolean;
}

function bad(reason: SignatureRejectionReason, t: string | null, macValid = false): BadSignature {
  return { ok: false, reason, t, macValid };
}

export type SignatureVerdict =
  /** `secretPosition` counts `secrets` from 0. */
  { ok: true; t: string; secretPosition: number } | BadSignature;

export const DIGEST_BYTES = { sha256: 32, sha384: 48, sha512: 64 } as const;

/** Today's timestamps have ten digits. Eleven are enough until the year 5138. */
const TIMESTAMP = /^(0|[1-9]\d{0,10})$/;
/** Rejected with a reason of its own, if the signature is right. */
const MILLISECONDS = /^[1-9]\d{12}$/;

/**
 * Checks everything that the headers alone decide, before the body is read. `headerValue` is as received; a header that was sent
 * twice arrives joined by `, `. Pure.
 */
export function readSignature(
  headerValue: string | undefined,
  { algorithm }: Pick<VerificationSettings, 'algorithm'>,
): SignatureHeader | BadSignature {
  const header = parseSignatureHeader(headerValue, DIGEST_BYTES[algorithm]);
  if (!header.ok || TIMESTAMP.test(header.t) || MILLISECONDS.test(header.t)) return header;
  return bad('bad_timestamp', header.t);
}

/**
 * Whether a holder of one of the secrets signed these bytes recently. The age is checked after the MAC, so that a reason
 * `timestamp_…` means a real delivery at the wrong time, and its record is worth reading from the API. Pure.
 */
export function verifySignature(
  claimed: SignatureHeader,
  delivery: SignedDelivery,
  settings: VerificationSettings,
): SignatureVerdict {
  const { t } = claimed;
  const inSeconds = TIMESTAMP.test(t);
  const secretPosition = findSigner(claimed, delivery, settings);
  if (secretPosition === -1) return bad(inSeconds ? 'bad_signature' : 'bad_timestamp', t);
  if (!inSeconds) return bad('timestamp_milliseconds', t, true);
  const ageSeconds = delivery.nowSeconds - Number(t);
  if (ageSeconds > settings.toleranceSeconds) return bad('timestamp_too_old', t, true);
  if (-ageSeconds > settings.toleranceSeconds) return bad('timestamp_too_new', t, true);
  return { ok: true, t, secretPosition };
}

/** Position of the first secret under which any of the header's signatures is right, or -1. */
function findSigner(
  claimed: SignatureHeader,
  delivery: SignedDelivery,
  settings: VerificationSettings,
): number {
  const signatures = claimed.signatures.map((hex) => Buffer.from(hex, 'hex'));
  return delivery.secrets.findIndex((secret) => {
    const mac = signatureOf(secret, claimed.t, delivery, settings);
    // The lengths are equal, because the parser of the header has counted the digits.
    return signatures.some((each) => timingSafeEqual(mac, each));
  });
}

/**
 * The MAC (HMAC, RFC 2104) of these bytes under `secret`.
 * @throws Error for a key that is too short, since a signature with it proves nothing. No decoded secret is one, so this is a
 * fault of the caller. The sender gets a 5xx and tries again.
 */
export function signatureOf(
  secret: Uint8Array,
  t: string,
  { body }: Pick<SignedDelivery, 'body'>,
  { algorithm, template }: Pick<SignatureSettings, 'template' | 'algorithm'>,
): Buffer {
  if (secret.length < MIN_SIGNING_KEY_BYTES) {
    throw new Error(`a signing key of ${secret.length} bytes was about to be used`);
  }
  const mac = createHmac(algorithm, keyOf(secret));
  for (const part of template) {
    if (part.kind === 'body') mac.update(body);
    else mac.update(part.kind === 'timestamp' ? t : part.text, 'utf8');
  }
  return mac.digest();
}

/** One key object per secret, because `createHmac` with raw bytes takes five times as long. */
const keys = new WeakMap<Uint8Array, KeyObject>();

function keyOf(secret: Uint8Array): KeyObject {
  let key = keys.get(secret);
  if (key === undefined) {
    key = createSecretKey(secret);
    keys.set(secret, key);
  }
  return key;
}

/** The parts of `t=<unix_timestamp>, v1=<hex_signature>`: `t` as sent and not checked, each v1 as checked hex. */
export interface SignatureHeader {
  ok: true;
  t: string;
  signatures: readonly string[];
}

/** About twice the length of eight SHA-256 signatures. */
export const MAX_HEADER_CHARACTERS = 1024;
/** More secrets than this are never in rotation at once, and each signature costs a comparison. */
const MAX_SIGNATURES = 8;

/** Blanks are allowed only after a comma. HTTP removes those before the first element. */
const ELEMENT = /^[ \t]*[A-Za-z0-9_-]+=[^\s,]*$/;
const HEX = /^[0-9A-Fa-f]*$/;

/**
 * Strict, because each tolerance would allow a second spelling of the same delivery. One malformed element, such as a v1 of the
 * wrong length, rejects the whole header. Unknown keys are allowed, so that the sender can add schemes.
 */
export function parseSignatureHeader(
  value: string | undefined,
  digestBytes: number,
): SignatureHeader | BadSignature {
  if (value === undefined || value === '') return bad('missing_header', null);
  if (value.length > MAX_HEADER_CHARACTERS) return bad('header_too_long', null);

  let t: string | null = null;
  const signatures: string[] = [];
  for (const text of value.split(',')) {
    if (!ELEMENT.test(text)) return bad('malformed_header', t);
    const equals = text.indexOf('=');
    const key = text.slice(0, equals).trimStart();
    const content = text.slice(equals + 1);
    if (key === 't') {
      if (t !== null && t !== content) return bad('conflicting_timestamps', t);
      t = content;
    } else if (key === 'v1') {
      if (content.length !== digestBytes * 2 || !HEX.test(content)) return bad('malformed_signature', t);
      signatures.push(content);
    }
  }
  if (t === null) return bad('no_timestamp', t);
  if (signatures.length === 0) return bad('no_signature', t);
  if (signatures.length > MAX_SIGNATURES) return bad('too_many_signatures', t);
  return { ok: true, t, signatures };
}

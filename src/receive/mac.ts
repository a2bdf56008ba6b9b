import { createHmac, hash } from 'node:crypto';
import type { SignatureSettings } from '../config.ts';
import { MIN_SIGNING_KEY_BYTES } from '../signing-secret.ts';

type Algorithm = SignatureSettings['algorithm'];

/** Bytes that each hash takes at a time (FIPS 180-4): what HMAC pads its key to. */
const BLOCK_BYTES = { sha256: 64, sha384: 128, sha512: 128 } as const satisfies Record<Algorithm, number>;
const INNER_PAD = 0x36;
const OUTER_PAD = 0x5c;

/** Deliveries are some hundred bytes; what does not fit goes to Node's own HMAC, whose cost no longer shows then. */
const SCRATCH_BYTES = 16_384;
const scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);

/** The key's two blocks, the outer one with room for the inner digest behind it. */
interface Pads {
  inner: Buffer;
  outer: Buffer;
}

/** Worked out once for each secret and hash, and kept for as long as the secret's bytes are. */
const pads = new WeakMap<Uint8Array, Partial<Record<Algorithm, Pads>>>();

/** A piece of what is signed; text goes in as UTF-8, or as Latin-1 where it stands for octets. */
export type SignedPart = Uint8Array | { text: string; encoding: 'utf8' | 'latin1' };

/**
 * HMAC (RFC 2104) of the parts one after the other, in lower-case hex. Composed of two one-shot hashes because
 * `createHmac` makes an object for each delivery whose larger part lies outside the JavaScript heap: 1.8 µs instead of 1.0 by
 * itself, and under load it must be collected too.
 * @throws Error for a key that anyone could have: no secret that was decoded is one, so whoever hands one in has a fault.
 */
export function macOf(algorithm: Algorithm, secret: Uint8Array, parts: readonly SignedPart[]): string {
  const { inner, outer } = padsOf(algorithm, secret);
  let end = inner.copy(scratch);
  for (const part of parts) {
    if (end + mostBytesOf(part) > SCRATCH_BYTES) return streamedMacOf(algorithm, secret, parts);
    if (part instanceof Uint8Array) {
      scratch.set(part, end);
      end += part.length;
    } else end += scratch.write(part.text, end, part.encoding);
  }
  outer.write(hash(algorithm, scratch.subarray(0, end), 'hex'), BLOCK_BYTES[algorithm], 'hex');
  return hash(algorithm, outer, 'hex');
}

function streamedMacOf(algorithm: Algorithm, secret: Uint8Array, parts: readonly SignedPart[]): string {
  const hmac = createHmac(algorithm, secret);
  for (const part of parts) {
    if (part instanceof Uint8Array) hmac.update(part);
    else hmac.update(part.text, part.encoding);
  }
  return hmac.digest('hex');
}

/** No code unit of a string takes more than three bytes of UTF-8. */
function mostBytesOf(part: SignedPart): number {
  return part instanceof Uint8Array ? part.length : part.text.length * 3;
}

function padsOf(algorithm: Algorithm, secret: Uint8Array): Pads {
  let known = pads.get(secret);
  if (known === undefined) {
    known = {};
    pads.set(secret, known);
  }
  known[algorithm] ??= makePads(algorithm, secret);
  return known[algorithm];
}

function makePads(algorithm: Algorithm, secret: Uint8Array): Pads {
  // Here, so that it costs once for each secret. A 5xx follows, and the sender comes again; a pass would let anyone in.
  if (secret.length < MIN_SIGNING_KEY_BYTES) {
    throw new Error(`a signing key of ${secret.length} bytes was about to be used`);
  }
  const block = BLOCK_BYTES[algorithm];
  const key = secret.length > block ? hash(algorithm, secret, 'buffer') : secret;
  const inner = Buffer.alloc(block, INNER_PAD);
  const outer = Buffer.alloc(block + hash(algorithm, '', 'buffer').length, OUTER_PAD);
  for (const [index, byte] of key.entries()) {
    inner[index]! ^= byte;
    outer[index]! ^= byte;
  }
  return { inner, outer };
}

import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { MirrorError } from '../platform/errors.ts';
import type { SealedText } from '../store/store.ts';

const CIPHER = 'aes-256-gcm';
/** GCM's own length. Random nonces of it are safe for about 2^32 secrets under one key. */
const NONCE_BYTES = 12;
/** Stated when opening, because Node would also accept tags of 4 bytes. */
const TAG_BYTES = 16;
const VERSION = 'v1';

/** The row that holds a sealed text. In any other place the text does not open. */
export type SealedPlace = Pick<SealedText, 'table' | 'row'>;

/**
 * Encrypts `plaintext` with AES-256-GCM, bound to its place: a token does not open as a registration's secret, nor one
 * registration's secret as another's. The result is `version:nonce:ciphertext+tag`, the latter two in base64url.
 */
export function sealSecret(key: Uint8Array, plaintext: string, place: SealedPlace): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(associatedData(place));
  const sealed = Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final(), cipher.getAuthTag()]);
  return [VERSION, nonce.toString('base64url'), sealed.toString('base64url')].join(':');
}

/**
 * The plaintext that `sealSecret` sealed with the same key for the same place.
 * @throws MirrorError `secret_unreadable` when the text has another form, was altered, or was sealed with another key or for
 * another place. The message holds neither key nor secret.
 */
export function openSecret(key: Uint8Array, sealed: string, place: SealedPlace): string {
  const [version, nonceText, sealedText, ...rest] = sealed.split(':');
  if (version !== VERSION || nonceText === undefined || sealedText === undefined || rest.length > 0) {
    throw unreadable(
      place,
      `is not in the form ${VERSION}:…`,
      'It may come from a newer version of this service.',
    );
  }
  const nonce = Buffer.from(nonceText, 'base64url');
  const bytes = Buffer.from(sealedText, 'base64url');
  if (nonce.length !== NONCE_BYTES || bytes.length < TAG_BYTES) throw unreadable(place, 'is cut short');
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(associatedData(place));
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  try {
    const text = Buffer.concat([decipher.update(bytes.subarray(0, -TAG_BYTES)), decipher.final()]);
    return text.toString('utf8');
  } catch (error) {
    throw unreadable(place, 'does not open with this CREDENTIALS_KEY', undefined, error);
  }
}

/** As JSON, so that different places never have the same text. */
function associatedData({ table, row }: SealedPlace): Buffer {
  return Buffer.from(JSON.stringify(['compliance-mirror', VERSION, table, row]), 'utf8');
}

const LOST_KEY =
  'Set CREDENTIALS_KEY to the key it was stored with. If that is lost: `webhook forget` and `webhook register` anew, or `login` again.';

function unreadable(
  { table, row }: SealedPlace,
  what: string,
  remedy = LOST_KEY,
  cause?: unknown,
): MirrorError {
  return new MirrorError('secret_unreadable', `the stored secret (${table} ${row}) ${what}`, {
    remedy,
    cause,
  });
}

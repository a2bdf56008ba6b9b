import { createHmac } from 'node:crypto';

export type SignatureAlgorithm = 'sha256' | 'sha384' | 'sha512';

/** The value of the signature header for one attempt: the time and the hex HMAC over `{t}.{body}`. */
export function signatureHeader(
  secret: string,
  timestampSeconds: number,
  body: string,
  algorithm: SignatureAlgorithm,
): string {
  const mac = createHmac(algorithm, secret).update(`${timestampSeconds}.${body}`).digest('hex');
  return `t=${timestampSeconds}, v1=${mac}`;
}

/** `t=<unix_timestamp>, v1=<hex_signature>` taken apart: `t` as sent and not yet judged, each v1 as checked hex. */
export interface SignatureHeader {
  ok: true;
  t: string;
  signatures: readonly string[];
}

export interface BadSignatureHeader {
  ok: false;
  reason:
    | 'missing_header'
    | 'header_too_long'
    | 'malformed_header'
    | 'no_timestamp'
    | 'conflicting_timestamps'
    | 'no_signature'
    | 'malformed_signature'
    | 'too_many_signatures';
  /** As sent, where one was found before the fault. */
  t: string | null;
}

/** Twice what eight SHA-256 signatures fill, near enough. */
export const MAX_HEADER_CHARACTERS = 1024;
/** More secrets than this are never in rotation at once; each one costs a comparison. */
const MAX_SIGNATURES = 8;

/** Blanks may follow a comma and stand nowhere else. */
const ELEMENT = /^[ \t]*[A-Za-z0-9_-]+=[^\s,]*$/;
const HEX = /^[0-9A-Fa-f]*$/;

/**
 * Strict about form, because each leniency is a second spelling of one delivery: one ill-formed element, a v1
 * of the wrong length among them, and the whole header is refused. Keys that we do not know are allowed, so
 * that the sender may add schemes.
 */
export function parseSignatureHeader(
  value: string | undefined,
  digestBytes: number,
): SignatureHeader | BadSignatureHeader {
  if (value === undefined || value === '') return { ok: false, reason: 'missing_header', t: null };
  if (value.length > MAX_HEADER_CHARACTERS) return { ok: false, reason: 'header_too_long', t: null };

  let t: string | null = null;
  const signatures: string[] = [];
  for (const text of value.split(',')) {
    // A blank before the first element cannot come over HTTP.
    if (!ELEMENT.test(text)) return { ok: false, reason: 'malformed_header', t };
    const equals = text.indexOf('=');
    const key = text.slice(0, equals).trimStart();
    const content = text.slice(equals + 1);
    if (key === 't') {
      if (t !== null && t !== content) return { ok: false, reason: 'conflicting_timestamps', t };
      t = content;
    } else if (key === 'v1') {
      if (content.length !== digestBytes * 2 || !HEX.test(content)) {
        return { ok: false, reason: 'malformed_signature', t };
      }
      signatures.push(content);
    }
  }
  if (t === null) return { ok: false, reason: 'no_timestamp', t };
  if (signatures.length === 0) return { ok: false, reason: 'no_signature', t };
  if (signatures.length > MAX_SIGNATURES) return { ok: false, reason: 'too_many_signatures', t };
  return { ok: true, t, signatures };
}

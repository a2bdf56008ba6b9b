import type { SignatureSettings } from '../platform/config.ts';
import { MIN_SIGNING_KEY_BYTES, partsOfEncoding, type SecretEncoding } from '../platform/signing-secret.ts';
import type { parseSignatureHeader, SignatureRejectionReason } from '../receive/signature.ts';
import type { BodyFault } from './diagnosis-bodies.ts';
import { type ClaimedSignature, DIGEST_BYTES, type Fit, templateText } from './diagnosis-search.ts';

/** One delivery as somebody recorded it. */
export interface Specimen {
  /** The signature header's value; undefined: it came without. */
  headerValue: string | undefined;
  /** Every header that was recorded, by its name in lower case. */
  headers: ReadonlyMap<string, string>;
  body: Uint8Array;
  /** When it arrived. Seconds since 1970. */
  receivedSeconds: number;
}

export type DiagnosisSettings = Pick<
  SignatureSettings,
  'template' | 'algorithm' | 'header' | 'toleranceSeconds' | 'secretEncoding'
>;

// biome-ignore format: names side by side
export type CauseCode =
  | BodyFault
  | 'header_missing' | 'header_named_otherwise' | 'header_malformed'
  | 'no_timestamp' | 'timestamp_unreadable' | 'timestamp_in_milliseconds' | 'clock_behind' | 'clock_ahead'
  | 'no_v1' | 'signature_not_hex' | 'signed_content_differs' | 'timestamp_not_signed' | 'missing_signed_header' | 'hash_differs'
  | 'secret_encoding_differs' | 'secret_too_short' | 'secret_not_in_use' | 'wrong_secret' | 'no_secret';

export interface Cause {
  /** A CauseCode, or the recorded reason of a stored delivery. */
  code: string;
  what: string;
  remedy: string;
  /** Settings that would accept the delivery, if there are any. A signature that fits proves them, unless the header alone decided. */
  settings?: Readonly<Record<string, string>>;
}

/** The remedy if no setting can accept the delivery. */
export const ASK_SENDER = 'Only the sender can change this: show it what this says.';

export const cause = (code: CauseCode, what: string, remedy = ASK_SENDER): Cause => ({ code, what, remedy });

/** A cause that one setting corrects. */
const settingCause = (code: CauseCode, what: string, name: string, value: string): Cause => ({
  ...cause(code, what, `Set ${name}=${value}.`),
  settings: { [name]: value },
});

/** The differences between a signature that fits and the settings. */
export function fitCauses(fit: Fit, settings: DiagnosisSettings): Cause[] {
  const { secret, secretReading, template, algorithm, body } = fit;
  const causes: Cause[] = [];
  if (!secret.isInUse) {
    const what = `It is signed with a secret that is not in use here (${secret.name}): retired, or not configured yet.`;
    const remedy =
      'If the sender is right to use it, add it to WEBHOOK_SECRETS beside the others. If it was retired, change the sender to the new one.';
    causes.push(cause('secret_not_in_use', what, remedy));
  }
  const { encoding, name } = secretReading;
  if (secretReading.isTooShort) {
    const what = `It is signed with fewer than ${MIN_SIGNING_KEY_BYTES} bytes (the secret ${name}), which can be guessed from one recorded delivery: no setting takes that.`;
    const remedy = 'Have the sender use a longer secret, or read it otherwise: show it what this says.';
    causes.push(cause('secret_too_short', what, remedy));
  } else if (encoding !== settings.secretEncoding) {
    const code = 'secret_encoding_differs';
    const what = `The sender uses the secret ${name}; here it is read ${wordsOf(settings.secretEncoding)}.`;
    causes.push(
      encoding === null
        ? cause(code, what, 'Write the secret into WEBHOOK_SECRETS in that form.')
        : settingCause(code, what, 'WEBHOOK_SECRET_ENCODING', encoding),
    );
  }
  if (!template.isConfigured && template.parts.some(({ kind }) => kind === 'timestamp')) {
    const shown = JSON.stringify(template.text);
    const what = `The sender signs ${shown}; here ${JSON.stringify(templateText(settings.template))} is expected.`;
    const remedy = `Set WEBHOOK_SIGNED_CONTENT to ${shown}, without the quotes.`;
    const found = { WEBHOOK_SIGNED_CONTENT: template.text };
    causes.push({ ...cause('signed_content_differs', what, remedy), settings: found });
  } else if (!template.isConfigured) {
    const what =
      'The sender signs the body alone, without the time: a recorded delivery could be replayed for ever.';
    causes.push(cause('timestamp_not_signed', what, `No setting takes that. ${ASK_SENDER}`));
  }
  if (algorithm !== settings.algorithm) {
    const what = `The sender uses HMAC-${algorithm.toUpperCase()}; here ${settings.algorithm.toUpperCase()} is expected.`;
    causes.push(
      algorithm === 'sha1'
        ? cause('hash_differs', what, `SHA-1 is not taken. ${ASK_SENDER}`)
        : settingCause('hash_differs', what, 'WEBHOOK_SIGNATURE_ALGORITHM', algorithm),
    );
  }
  if (body.fault !== null) {
    const what = `${BODY_FAULTS[body.fault]} The signature fits the body ${body.name}.`;
    const remedy =
      'Something between the sender and here changes bodies: a proxy, a gateway or a function that parses and prints them. Have it pass the bytes as they are.';
    causes.push(cause(body.fault, what, remedy));
  }
  return causes;
}

function wordsOf(encoding: SecretEncoding): string {
  const { prefix, form } = partsOfEncoding(encoding);
  const words = form === 'utf8' ? 'as text' : `as ${form}`;
  return prefix === '' ? words : `${words} behind "${prefix}"`;
}

const BODY_FAULTS: Record<BodyFault, string> = {
  bom_added: 'A byte order mark was put in front of the body after it was signed.',
  bom_removed: 'The byte order mark in front of the body was taken off after it was signed.',
  line_endings_changed: 'The line ends of the body were changed after it was signed.',
  final_newline_changed: 'The line end behind the body was added or taken off after it was signed.',
  body_reserialised: 'The body was parsed and printed again after it was signed.',
};

export function missingHeader({ headers }: Specimen, settings: DiagnosisSettings): Cause {
  const [other] =
    [...headers].find(([name, value]) => name !== settings.header && /\bv1=[0-9a-f]/i.test(value)) ?? [];
  if (other !== undefined) {
    const what = `There is no ${settings.header}; the signature is in ${other}.`;
    return settingCause('header_named_otherwise', what, 'WEBHOOK_SIGNATURE_HEADER', other);
  }
  const remedy =
    'Whoever sent it did not sign it, or a proxy on the way takes the header off: let it pass. If the sender uses another name, set WEBHOOK_SIGNATURE_HEADER.';
  return cause('header_missing', `The delivery came without the header ${settings.header}.`, remedy);
}

/** What is wrong with the form of the header; null: nothing, or something that another cause names. */
export function formCause(
  strict: ReturnType<typeof parseSignatureHeader>,
  signatures: readonly ClaimedSignature[],
  fit: Fit | null,
  algorithm: DiagnosisSettings['algorithm'],
): Cause | null {
  const otherKey = fit === null || fit.signature.key === 'v1' ? null : fit.signature.key;
  if (strict.ok) {
    if (otherKey === null) return null;
    const what = `The v1 of the header is wrong; the signature under ${otherKey} is right, and only v1 is believed.`;
    return cause('no_v1', what, NO_V1_REMEDY);
  }
  const { reason } = strict;
  if (reason === 'no_signature' || otherKey !== null) {
    const keys = [...new Set(signatures.map(({ key }) => key))].join(', ');
    const holds = keys === '' ? '' : `; it holds ${keys}`;
    const fits = fit === null ? '' : ` The one under ${fit.signature.key} is right.`;
    return cause('no_v1', `The header holds no v1, and only that is believed${holds}.${fits}`, NO_V1_REMEDY);
  }
  if (fit?.signature.encoding === 'base64')
    return cause('signature_not_hex', 'The signature is written in base64, and v1 is hex.');
  if (reason === 'no_timestamp') return cause('no_timestamp', 'The header holds no t.');
  if (reason === 'malformed_signature') {
    // The length shows another hash, which another cause names.
    if (fit !== null && fit.algorithm !== algorithm) return null;
    const hash = hashByLength(signatures);
    if (hash !== null && hash !== algorithm) {
      const what = `By its length, v1 is an HMAC-${hash.toUpperCase()}; here another hash is expected.`;
      return settingCause('hash_differs', what, 'WEBHOOK_SIGNATURE_ALGORITHM', hash);
    }
  }
  return cause('header_malformed', FORM_FAULTS[reason] ?? 'The header is not in its form.', FORM_REMEDY);
}

/** The hash by the length of the signature, the only sign of it if the body was not read. */
function hashByLength(signatures: readonly ClaimedSignature[]): string | null {
  const own = signatures.filter(({ key, text }) => key === 'v1' && /^[0-9a-f]+$/i.test(text));
  const [length, ...others] = new Set(own.map(({ text }) => text.length));
  if (others.length > 0) return null;
  return (['sha256', 'sha384', 'sha512'] as const).find((hash) => 2 * DIGEST_BYTES[hash] === length) ?? null;
}

const NO_V1_REMEDY = `The sender must sign with the scheme v1. ${ASK_SENDER}`;
const FORM_REMEDY = `The form is "t=<seconds>, v1=<hex>". ${ASK_SENDER}`;
const FORM_FAULTS: Partial<Record<SignatureRejectionReason, string>> = {
  header_too_long: 'The header is longer than any rightful one.',
  malformed_header:
    'The header has an element that is not of the form key=value, or blanks in the wrong place.',
  conflicting_timestamps: 'The header names two different times.',
  malformed_signature: 'A v1 is not hex, or has not the length that the hash gives.',
  too_many_signatures: 'The header holds more signatures than are ever in rotation.',
};

/** No real header has more elements, and each one costs comparisons. */
const MAX_ELEMENTS = 32;

/** The parts of a header, read less strictly than the receiver reads it. */
export function looseElements(value: string): { t: string | null; signatures: ClaimedSignature[] } {
  let t: string | null = null;
  const signatures: ClaimedSignature[] = [];
  for (const element of value.split(/[,;\s]+/).slice(0, MAX_ELEMENTS)) {
    const cut = element.indexOf('=');
    const key = element.slice(0, Math.max(0, cut));
    const text = element.slice(cut + 1).replace(/^["']|["']$/g, '');
    if (/^(t|ts|timestamp)$/i.test(key)) t ??= text;
    else if (text.length >= 20) signatures.push({ key: key === '' ? 'no name' : key, text });
  }
  return { t, signatures };
}

const SECONDS = /^(0|[1-9]\d{0,10})$/;
const MILLISECONDS = /^[1-9]\d{12}$/;

/** What is wrong with the time in the header; null: nothing, or there is none. */
export function timeCause(
  t: string | null,
  fit: Fit | null,
  { receivedSeconds }: Specimen,
  { toleranceSeconds }: DiagnosisSettings,
): Cause | null {
  if (t === null) return null;
  if (MILLISECONDS.test(t))
    return cause('timestamp_in_milliseconds', `t=${t} is in milliseconds, and seconds are expected.`);
  if (!SECONDS.test(t)) {
    const what = 'The t of the header is not a whole number of seconds since 1970.';
    return cause('timestamp_unreadable', what);
  }
  const ageSeconds = receivedSeconds - Number(t);
  // Only a signature that fits proves the time: somebody may have typed it.
  if (fit === null || Math.abs(ageSeconds) <= toleranceSeconds) return null;
  const isBehind = ageSeconds > 0;
  const what = `It was signed ${spanText(Math.abs(ageSeconds))} ${isBehind ? 'before' : 'after'} it arrived, by the two clocks; ${toleranceSeconds} s are allowed (WEBHOOK_TOLERANCE_SECONDS).`;
  const compared = "`doctor` compares our clock with the service's.";
  return isBehind
    ? cause(
        'clock_behind',
        what,
        `The sender's clock is behind, ours is ahead, or the delivery was held back or replayed. ${compared} For a recording, give its arrival with --received-at.`,
      )
    : cause('clock_ahead', what, `The sender's clock is ahead, or ours is behind. ${compared}`);
}

function spanText(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 120
    ? `${minutes} min ${seconds % 60} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

import type { SignatureSettings } from '../platform/config.ts';
import { MIN_SIGNING_KEY_BYTES, partsOfEncoding, type SecretEncoding } from '../platform/signing-secret.ts';
import type { BadSignatureHeader, parseSignatureHeader } from '../receive/signature.ts';
import type { BodyFault } from './diagnosis-bodies.ts';
import { type ClaimedSignature, type Fit, templateText } from './diagnosis-search.ts';

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

export interface DiagnosisSettings
  extends Pick<SignatureSettings, 'template' | 'algorithm' | 'header' | 'toleranceSeconds'> {
  secretEncoding: SecretEncoding;
}

export type CauseCode =
  | BodyFault
  | 'header_missing'
  | 'header_named_otherwise'
  | 'header_malformed'
  | 'no_timestamp'
  | 'timestamp_unreadable'
  | 'timestamp_in_milliseconds'
  | 'no_v1'
  | 'signature_not_hex'
  | 'signed_content_differs'
  | 'timestamp_not_signed'
  | 'hash_differs'
  | 'secret_encoding_differs'
  | 'secret_too_short'
  | 'secret_not_in_use'
  | 'wrong_secret'
  | 'missing_signed_header'
  | 'no_secret'
  | 'clock_behind'
  | 'clock_ahead';

export interface Cause {
  code: CauseCode;
  what: string;
  remedy: string;
  /** The settings that take it as it is, where there are such; proven as far as a signature was found to fit. */
  settings?: Readonly<Record<string, string>>;
}

/** Of what no setting can take. */
export const ASK_SENDER = 'Only the sender can change this: show it what this says.';

/** What a signature that fits tells by how it differs from the settings. */
export function fitCauses(fit: Fit, settings: DiagnosisSettings): Cause[] {
  const causes: Cause[] = [];
  if (fit.secret.standing === 'retired') {
    causes.push({
      code: 'secret_not_in_use',
      what: `It is signed with a secret that is not in use here (${fit.secret.name}): retired, or not configured yet.`,
      remedy:
        'If the sender is right to use it, add it to WEBHOOK_SECRETS beside the others. If it was retired, change the sender to the new one.',
    });
  }
  const { encoding, name, isTooShort } = fit.secretReading;
  if (isTooShort) {
    causes.push({
      code: 'secret_too_short',
      what: `It is signed with fewer than ${MIN_SIGNING_KEY_BYTES} bytes (the secret ${name}), which can be guessed from one recorded delivery: no setting takes that.`,
      remedy: 'Have the sender use a longer secret, or read it otherwise: show it what this says.',
    });
  } else if (encoding !== settings.secretEncoding) {
    causes.push({
      code: 'secret_encoding_differs',
      what: `The sender uses the secret ${name}; here it is read ${wordsOf(settings.secretEncoding)}.`,
      remedy:
        encoding === null
          ? 'Write the secret into WEBHOOK_SECRETS in that form.'
          : `Set WEBHOOK_SECRET_ENCODING=${encoding}.`,
      ...(encoding === null ? {} : { settings: { WEBHOOK_SECRET_ENCODING: encoding } }),
    });
  }
  if (!fit.template.isConfigured) {
    const signsTime = fit.template.parts.some((part) => part.kind === 'timestamp');
    const shown = JSON.stringify(fit.template.text);
    causes.push(
      signsTime
        ? {
            code: 'signed_content_differs',
            what: `The sender signs ${shown}; here ${JSON.stringify(templateText(settings.template))} is expected.`,
            remedy: `Set WEBHOOK_SIGNED_CONTENT to ${shown}, without the quotes.`,
            settings: { WEBHOOK_SIGNED_CONTENT: fit.template.text },
          }
        : {
            code: 'timestamp_not_signed',
            what: 'The sender signs the body alone, without the time: a recorded delivery could be replayed for ever.',
            remedy: `No setting takes that. ${ASK_SENDER}`,
          },
    );
  }
  if (fit.algorithm !== settings.algorithm) {
    causes.push({
      code: 'hash_differs',
      what: `The sender uses HMAC-${fit.algorithm.toUpperCase()}; here ${settings.algorithm.toUpperCase()} is expected.`,
      remedy:
        fit.algorithm === 'sha1'
          ? `SHA-1 is not taken. ${ASK_SENDER}`
          : `Set WEBHOOK_SIGNATURE_ALGORITHM=${fit.algorithm}.`,
      ...(fit.algorithm === 'sha1' ? {} : { settings: { WEBHOOK_SIGNATURE_ALGORITHM: fit.algorithm } }),
    });
  }
  if (fit.body.fault !== null) {
    causes.push({
      code: fit.body.fault,
      what: `${BODY_FAULTS[fit.body.fault]} The signature fits the body ${fit.body.name}.`,
      remedy:
        'Something between the sender and here changes bodies: a proxy, a gateway or a function that parses and prints them. Have it pass the bytes as they are.',
    });
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
  const other = [...headers].find(
    ([name, value]) => name !== settings.header && /\bv1=[0-9a-f]/i.test(value),
  );
  if (other !== undefined) {
    return {
      code: 'header_named_otherwise',
      what: `There is no ${settings.header}; the signature is in ${other[0]}.`,
      remedy: `Set WEBHOOK_SIGNATURE_HEADER=${other[0]}.`,
      settings: { WEBHOOK_SIGNATURE_HEADER: other[0] },
    };
  }
  return {
    code: 'header_missing',
    what: `The delivery came without the header ${settings.header}.`,
    remedy:
      'Whoever sent it did not sign it, or a proxy on the way takes the header off: let it pass. If the sender uses another name, set WEBHOOK_SIGNATURE_HEADER.',
  };
}

type Strict = ReturnType<typeof parseSignatureHeader>;

/** What its form alone is at fault for; `fit` tells which of its signatures is right. */
export function formCauses(
  strict: Strict,
  signatures: readonly ClaimedSignature[],
  fit: Fit | null,
  algorithm: DiagnosisSettings['algorithm'],
): Cause[] {
  if (strict.ok) {
    if (fit === null || fit.signature.key === 'v1') return [];
    const what = `The v1 of the header is wrong; the signature under ${fit.signature.key} is right, and only v1 is believed.`;
    return [{ code: 'no_v1', what, remedy: NO_V1_REMEDY }];
  }
  const { reason } = strict;
  const keys = [...new Set(signatures.map(({ key }) => key))].join(', ');
  if (reason === 'no_signature' || (fit !== null && fit.signature.key !== 'v1')) {
    const fits = fit === null ? '' : ` The one under ${fit.signature.key} is right.`;
    return [
      {
        code: 'no_v1',
        what: `The header holds no v1, and only that is believed${keys === '' ? '' : `; it holds ${keys}`}.${fits}`,
        remedy: NO_V1_REMEDY,
      },
    ];
  }
  if (fit !== null && fit.signature.encoding === 'base64') {
    return [
      {
        code: 'signature_not_hex',
        what: 'The signature is written in base64, and v1 is hex.',
        remedy: ASK_SENDER,
      },
    ];
  }
  if (reason === 'no_timestamp') {
    return [{ code: 'no_timestamp', what: 'The header holds no t.', remedy: ASK_SENDER }];
  }
  // A signature of another length is another hash, which is said by its name.
  if (reason === 'malformed_signature' && fit !== null && fit.algorithm !== algorithm) return [];
  const hash = reason === 'malformed_signature' ? hashByLength(signatures) : null;
  if (hash !== null) return [hash];
  return [
    {
      code: 'header_malformed',
      what: FORM_FAULTS[reason] ?? 'The header is not in its form.',
      remedy: FORM_REMEDY,
    },
  ];
}

const HASH_OF_DIGITS: Readonly<Record<number, string>> = { 64: 'sha256', 96: 'sha384', 128: 'sha512' };

/** Of a delivery whose body was never read only the length of its signature tells. */
function hashByLength(signatures: readonly ClaimedSignature[]): Cause | null {
  const own = signatures.filter(({ key, text }) => key === 'v1' && /^[0-9a-f]+$/i.test(text));
  const hashes = new Set(own.map(({ text }) => HASH_OF_DIGITS[text.length]));
  const [hash] = hashes;
  if (hash === undefined || hashes.size !== 1) return null;
  return {
    code: 'hash_differs',
    what: `By its length, v1 is an HMAC-${hash.toUpperCase()}; here another hash is expected.`,
    remedy: `Set WEBHOOK_SIGNATURE_ALGORITHM=${hash}.`,
    settings: { WEBHOOK_SIGNATURE_ALGORITHM: hash },
  };
}

const NO_V1_REMEDY = `The sender must sign with the scheme v1. ${ASK_SENDER}`;
const FORM_REMEDY = `The form is "t=<seconds>, v1=<hex>". ${ASK_SENDER}`;
const FORM_FAULTS: Partial<Record<BadSignatureHeader['reason'], string>> = {
  header_too_long: 'The header is longer than any rightful one.',
  malformed_header:
    'The header has an element that is not of the form key=value, or blanks in the wrong place.',
  conflicting_timestamps: 'The header names two different times.',
  malformed_signature: 'A v1 is not hex, or has not the length that the hash gives.',
  too_many_signatures: 'The header holds more signatures than are ever in rotation.',
};

/** More elements than this are nobody's header; each one costs comparisons. */
const MAX_ELEMENTS = 32;

/** What a header says, read without its strict form. */
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

/** What the time in the header tells, as far as it is one. */
export function timeCauses(
  t: string | null,
  fit: Fit | null,
  { receivedSeconds }: Specimen,
  { toleranceSeconds }: DiagnosisSettings,
): Cause[] {
  if (t === null) return [];
  if (MILLISECONDS.test(t)) {
    return [
      {
        code: 'timestamp_in_milliseconds',
        what: `t=${t} is in milliseconds, and seconds are expected.`,
        remedy: ASK_SENDER,
      },
    ];
  }
  if (!SECONDS.test(t)) {
    const what = 'The t of the header is not a whole number of seconds since 1970.';
    return [{ code: 'timestamp_unreadable', what, remedy: ASK_SENDER }];
  }
  const ageSeconds = receivedSeconds - Number(t);
  // An unsigned time says nothing: somebody may have typed it.
  if (fit === null || Math.abs(ageSeconds) <= toleranceSeconds) return [];
  const distance = spanText(Math.abs(ageSeconds));
  const allowed = `${toleranceSeconds} s are allowed (WEBHOOK_TOLERANCE_SECONDS)`;
  return ageSeconds > 0
    ? [
        {
          code: 'clock_behind',
          what: `It was signed ${distance} before it arrived, by the two clocks; ${allowed}.`,
          remedy:
            "The sender's clock is behind, ours is ahead, or the delivery was held back or replayed. `doctor` compares our clock with the service's. For a recording, give its arrival with --received-at.",
        },
      ]
    : [
        {
          code: 'clock_ahead',
          what: `It was signed ${distance} after it arrived, by the two clocks; ${allowed}.`,
          remedy:
            "The sender's clock is ahead, or ours is behind. `doctor` compares our clock with the service's.",
        },
      ];
}

function spanText(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 120
    ? `${minutes} min ${seconds % 60} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

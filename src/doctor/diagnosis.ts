import type { SignatureSettings, TemplatePart } from '../platform/config.ts';
import { templateParts } from '../platform/config-parsers.ts';
import {
  decodeSigningSecret,
  fittingEncodings,
  partsOfEncoding,
  type SecretEncoding,
} from '../platform/signing-secret.ts';
import {
  DIGEST_BYTES,
  parseSignatureHeader,
  type SignatureHeader,
  type SignatureRejectionReason,
  signatureOf,
} from '../receive/signature.ts';
import type { ShownDelivery } from '../store/reports.ts';

/** One delivery as it came. */
export interface Specimen {
  /** The signature's header; null: it had none. */
  header: string | null;
  body: Uint8Array;
  /** When it arrived. Seconds since 1970. */
  receivedSeconds: number;
}

/** A secret to try, as text. Which bytes it means is found out. */
export interface CandidateSecret {
  text: string;
  /** For people, such as "WEBHOOK_SECRETS number 2": never the secret itself. */
  name: string;
}

export type DiagnosisSettings = Pick<
  SignatureSettings,
  'template' | 'algorithm' | 'header' | 'toleranceSeconds' | 'secretEncoding'
>;

// biome-ignore format: names side by side
export type CauseCode =
  | 'header_missing' | 'header_malformed'
  | 'timestamp_unreadable' | 'timestamp_in_milliseconds' | 'timestamp_not_signed' | 'clock_behind' | 'clock_ahead'
  | 'signed_content_differs'
  | 'secret_encoding_differs' | 'wrong_secret' | 'no_secret';

export interface Cause {
  /** A CauseCode, or the recorded reason of a stored delivery. Stable, for programs. */
  code: string;
  what: string;
  remedy: string;
  /** Settings that would accept the delivery, if there are any. A signature that fits proves them, unless the header alone decided. */
  settings?: Readonly<Record<string, string>> | undefined;
}

export interface Diagnosis {
  /** The service would accept its signature. */
  healthy: boolean;
  /** Every reason why not; empty when healthy. */
  causes: Cause[];
  /** What the signature was made of; null: nothing that was tried. */
  fit: Readonly<Record<string, string>> | null;
}

/** The remedy if no setting can accept the delivery. */
const ASK_SENDER = 'Only the sender can change this: show it what this says.';

const cause = (code: CauseCode, what: string, remedy = ASK_SENDER): Cause => ({ code, what, remedy });

/** A cause that one setting corrects. */
const settingCause = (code: CauseCode, what: string, name: string, value: string): Cause => ({
  ...cause(code, what, `Set ${name}=${value}`),
  settings: { [name]: value },
});

const rejectedFor = (...causes: Cause[]): Diagnosis => ({ healthy: false, causes, fit: null });

/** Why a delivery is rejected, or that it is not. Tries what senders and proxies are known to do. Pure. */
export function diagnose(
  specimen: Specimen,
  secrets: readonly CandidateSecret[],
  settings: DiagnosisSettings,
): Diagnosis {
  const { header } = specimen;
  const claimed = parseSignatureHeader(header?.trim(), DIGEST_BYTES[settings.algorithm]);
  if (!claimed.ok) return rejectedFor(formCause(claimed.reason, settings));
  const fit = searchFit(specimen, claimed, secrets, settings);
  const time = timeCause(claimed.t, fit, specimen, settings);
  const causes = [...(fit === null ? [] : fitCauses(fit, settings)), ...(time === null ? [] : [time])];
  if (secrets.length === 0) causes.push(NO_SECRET);
  else if (fit === null) causes.push(nothingFits(secrets));
  return { healthy: causes.length === 0, causes, fit: fit === null ? null : describe(fit) };
}

// ─── the search ─────────────────────────────────────────────────────────────────────────────────────────

interface Reading {
  key: Uint8Array;
  encoding: SecretEncoding;
}

interface Fit {
  secret: CandidateSecret;
  reading: Reading;
  template: { text: string; parts: readonly TemplatePart[] };
}

/** What well-known senders sign. The configured template is tried before them. */
const TEMPLATES = ['{t}.{body}', '{body}', '{t}{body}', '{t}:{body}', 'v0:{t}:{body}'];

/** The combination nearest to the settings that makes one of the signatures; null: none does. A match is never chance. */
function searchFit(
  { body }: Specimen,
  { t, signatures }: SignatureHeader,
  secrets: readonly CandidateSecret[],
  settings: DiagnosisSettings,
): Fit | null {
  const own = templateText(settings.template);
  const templates = [...new Set([own, ...TEMPLATES])].map((text) => ({ text, parts: templateParts(text)! }));
  const right = signatures.map((hex) => hex.toLowerCase());
  const tries = secrets.flatMap((secret) =>
    readingsOf(secret.text).flatMap((reading) =>
      templates.map((template) => {
        const isAsSet = [reading.encoding === settings.secretEncoding, template.text === own];
        return { secret, reading, template, differences: isAsSet.filter((is) => !is).length };
      }),
    ),
  );
  const nearestFirst = tries.sort((a, b) => a.differences - b.differences);
  for (const { differences: _, ...tried } of nearestFirst) {
    const signed = { algorithm: settings.algorithm, template: tried.template.parts };
    const mac = signatureOf(tried.reading.key, t, { body }, signed);
    if (right.includes(mac.toString('hex'))) return tried;
  }
  return null;
}

/** The keys that a secret's text may mean. */
const readingsOf = (text: string): Reading[] =>
  fittingEncodings(text).map((encoding) => ({ encoding, key: decodeSigningSecret(text, encoding).key! }));

/** The template as WEBHOOK_SIGNED_CONTENT has it. */
function templateText(parts: readonly TemplatePart[]): string {
  const textOf = (part: TemplatePart) =>
    part.kind === 'text' ? part.text : part.kind === 'timestamp' ? '{t}' : '{body}';
  return parts.map(textOf).join('');
}

function describe({ secret, reading, template }: Fit) {
  return {
    signed_content: template.text,
    secret: secret.name,
    secret_reading: wordsOf(reading.encoding),
  };
}

// ─── the causes ─────────────────────────────────────────────────────────────────────────────────────────

/** The differences between a signature that fits and the settings. */
function fitCauses({ reading, template }: Fit, settings: DiagnosisSettings): Cause[] {
  const causes: Cause[] = [];
  if (reading.encoding !== settings.secretEncoding) {
    const what = `The sender uses the secret ${wordsOf(reading.encoding)}; here it is read ${wordsOf(settings.secretEncoding)}.`;
    const name = 'WEBHOOK_SECRET_ENCODING';
    causes.push(settingCause('secret_encoding_differs', what, name, reading.encoding));
  }
  const own = templateText(settings.template);
  if (template.text === '{body}' && own !== template.text) {
    const what =
      'The sender signs the body alone, without the time: a recorded delivery could be replayed for ever.';
    causes.push(cause('timestamp_not_signed', what, `No setting takes that. ${ASK_SENDER}`));
  } else if (template.text !== own) {
    const what = `The sender signs ${template.text} and here ${own} is expected.`;
    causes.push(settingCause('signed_content_differs', what, 'WEBHOOK_SIGNED_CONTENT', template.text));
  }
  return causes;
}

function wordsOf(encoding: SecretEncoding): string {
  const { prefix, form } = partsOfEncoding(encoding);
  const words = form === 'utf8' ? 'as text' : `decoded from ${form}`;
  return prefix === '' ? words : `${words} behind "${prefix}"`;
}

const NO_SECRET = cause(
  'no_secret',
  'No signing secret is known, so nothing can be verified.',
  'Set WEBHOOK_SECRETS, or register the webhook.',
);

function nothingFits(secrets: readonly CandidateSecret[]): Cause {
  const what = `The secret is wrong: no known one fits (${secrets.map(({ name }) => name).join(', ')}).`;
  const remedy =
    'The sender uses another secret: copy it anew from the compliance service into WEBHOOK_SECRETS. If it is surely the same, a proxy on the way changes bodies.';
  return cause('wrong_secret', what, remedy);
}

/** What is wrong with the form of the header. */
function formCause(reason: SignatureRejectionReason, { header }: DiagnosisSettings): Cause {
  if (reason === 'missing_header') {
    const remedy =
      'Whoever sent it did not sign it, or a proxy on the way takes the header off: let it pass. If the sender uses another name, set WEBHOOK_SIGNATURE_HEADER.';
    return cause('header_missing', `The delivery came without the header ${header}.`, remedy);
  }
  const what = FORM_FAULTS[reason] ?? 'The header is not in its form.';
  return cause('header_malformed', what, `The form is "t=<seconds>, v1=<hex>". ${ASK_SENDER}`);
}

const FORM_FAULTS: Partial<Record<SignatureRejectionReason, string>> = {
  header_too_long: 'The header is longer than any rightful one.',
  malformed_header:
    'The header has an element that is not of the form key=value, or blanks in the wrong place.',
  no_timestamp: 'The header holds no t.',
  conflicting_timestamps: 'The header names two different times.',
  no_signature: 'The header holds no v1, and only a right v1 is believed.',
  malformed_signature:
    'A v1 is not hex, or has not the length that WEBHOOK_SIGNATURE_ALGORITHM gives: 64 digits of sha256, 96 of sha384, 128 of sha512.',
  too_many_signatures: 'The header holds more signatures than are ever in rotation.',
};

/** What is wrong with the time in the header; null: nothing. */
function timeCause(
  t: string,
  fit: Fit | null,
  { receivedSeconds }: Specimen,
  { toleranceSeconds }: DiagnosisSettings,
): Cause | null {
  if (/^[1-9]\d{12}$/.test(t))
    return cause('timestamp_in_milliseconds', `t=${t} is in milliseconds, and seconds are expected.`);
  if (!/^(0|[1-9]\d{0,10})$/.test(t))
    return cause('timestamp_unreadable', 'The t of the header is not a whole number of seconds since 1970.');
  const ageSeconds = receivedSeconds - Number(t);
  // Only a signature that fits proves the time: somebody may have typed it.
  if (fit === null || Math.abs(ageSeconds) <= toleranceSeconds) return null;
  const isBehind = ageSeconds > 0;
  const what = `A clock is off, or it was held back: it was signed ${spanText(Math.abs(ageSeconds))} ${isBehind ? 'before' : 'after'} it arrived, and ${toleranceSeconds} s are allowed.`;
  const remedy =
    'Compare this machine’s clock (date -u) with the sender’s, and correct the one that is wrong.';
  return cause(isBehind ? 'clock_behind' : 'clock_ahead', what, remedy);
}

function spanText(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 120
    ? `${minutes} min ${seconds % 60} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// ─── a stored rejection ─────────────────────────────────────────────────────────────────────────────────

/** Why a stored delivery was rejected. Pure. Of its headers only the signature's is kept; without its body only that can be judged. */
export function diagnoseRejection(
  rejection: Pick<ShownDelivery, 'received_at' | 'reason' | 'bytes' | 'header' | 'body_base64'>,
  secrets: readonly CandidateSecret[],
  settings: DiagnosisSettings,
): Diagnosis {
  const { received_at, reason, bytes, header, body_base64 } = rejection;
  const specimen = {
    header,
    body: Buffer.from(body_base64 ?? '', 'base64'),
    receivedSeconds: Math.floor(Date.parse(received_at) / 1000),
  };
  if (body_base64 !== null) return diagnose(specimen, secrets, settings);
  const form = diagnose(specimen, [], settings).causes.filter((each) => each !== NO_SECRET);
  if (form.length > 0) return rejectedFor(...form);
  if (reason === 'no_signing_secret') return rejectedFor(CAME_TOO_EARLY);
  const what = `It was rejected for "${reason}", and its body of ${bytes} bytes was not kept, so its signature cannot be tried.`;
  const remedy =
    'Compare the secret with the one that the compliance service shows. A smaller delivery can be tried.';
  return rejectedFor({ code: reason ?? 'rejected', what, remedy });
}

const CAME_TOO_EARLY: Cause = {
  code: 'no_signing_secret',
  what: 'No signing secret was known here when it came, so nothing could be verified, and nothing of it was kept.',
  remedy:
    'Register the webhook, or set WEBHOOK_SECRETS. It was answered 503, so that the sender tries again; what it does not send again, a full sync finds.',
};

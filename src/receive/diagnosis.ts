import type { SignatureSettings } from '../config.ts';
import type { BodyFault } from './diagnosis-bodies.ts';
import {
  type CandidateSecret,
  type ClaimedSignature,
  type Fit,
  type SecretEncoding,
  searchFit,
  templateText,
} from './diagnosis-search.ts';
import { type BadSignatureHeader, parseSignatureHeader } from './signature-header.ts';

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
}

export interface Diagnosis {
  /** The service would take it, as far as its signature goes. */
  healthy: boolean;
  /** Everything that stands between it and being taken; empty when healthy. */
  causes: Cause[];
  /** What the signature fits; null: nothing that was tried. */
  fit: {
    signed_content: string;
    hash: string;
    secret: string;
    secret_reading: string;
    body: string;
    signature: string;
  } | null;
}

const DIGEST_BYTES = { sha256: 32, sha384: 48, sha512: 64 } as const;
const SECONDS = /^(0|[1-9]\d{0,10})$/;
const MILLISECONDS = /^[1-9]\d{12}$/;

/**
 * Why a delivery is refused, or that it is not. Pure: nothing is sent, stored or believed. Tries what senders and
 * the machines between are known to do, and names what fits; where nothing fits, says what that leaves.
 */
export function diagnose(
  specimen: Specimen,
  secrets: readonly CandidateSecret[],
  settings: DiagnosisSettings,
): Diagnosis {
  const { headerValue } = specimen;
  if (headerValue === undefined || headerValue.trim() === '') {
    return { healthy: false, causes: [missingHeader(specimen, settings)], fit: null };
  }
  const strict = parseSignatureHeader(headerValue, DIGEST_BYTES[settings.algorithm]);
  const loose = looseElements(headerValue);
  const t = strict.ok ? strict.t : loose.t;
  const { signatures } = loose;
  const fit =
    secrets.length === 0 || signatures.length === 0
      ? null
      : searchFit({
          ...{ signatures, t: t ?? '', body: specimen.body, secrets },
          headerOf: (name) => specimen.headers.get(name),
          configured: settings,
        });

  const causes = [
    ...formCauses(strict, signatures, fit),
    ...(fit === null ? [] : fitCauses(fit, settings)),
    ...timeCauses(t, fit, specimen, settings),
  ];
  // Of a header that is broken besides, nobody can say whether its secret was right.
  if (fit === null && (strict.ok || secrets.length === 0)) {
    causes.push(secrets.length === 0 ? NO_SECRET : nothingFits(specimen, secrets, settings));
  }
  return { healthy: causes.length === 0, causes, fit: fit === null ? null : describe(fit) };
}

const ASK_SENDER = 'Only the sender can change this: show it what this says.';

const NO_SECRET: Cause = {
  code: 'no_secret',
  what: 'No signing secret is known, so nothing can be verified.',
  remedy: 'Set WEBHOOK_SECRETS, register the webhook, or give one with --secret.',
};

/** A secret is accused only where everything that it would have signed was there to be tried. */
function nothingFits(
  { headers }: Specimen,
  secrets: readonly CandidateSecret[],
  { template }: DiagnosisSettings,
): Cause {
  const missing = template.flatMap((part) =>
    part.kind === 'header' && !headers.has(part.name) ? [part.name] : [],
  );
  if (missing.length === 0) return wrongSecret(secrets);
  const names = [...new Set(missing)];
  const options = names.map((name) => `--header '${name}: VALUE'`).join(' ');
  return {
    code: 'missing_signed_header',
    what: `WEBHOOK_SIGNED_CONTENT has the value of ${names.join(' and ')} signed too, and it is not known here: no secret can be judged.`,
    remedy: `Give what the delivery came with: ${options}. If it came without, the sender or a proxy leaves it out: have it sent, or set WEBHOOK_SIGNED_CONTENT to what is really signed.`,
  };
}

function wrongSecret(secrets: readonly CandidateSecret[]): Cause {
  return {
    code: 'wrong_secret',
    what: `No known secret fits, in any reading, over any form of the body: ${secrets.map(({ name }) => name).join(', ')}.`,
    remedy:
      'The sender uses another secret: copy it anew from the compliance service into WEBHOOK_SECRETS. If it is surely the same, the body was changed on the way in a manner that cannot be undone: look at proxies between.',
  };
}

function missingHeader({ headers }: Specimen, settings: DiagnosisSettings): Cause {
  const other = [...headers].find(
    ([name, value]) => name !== settings.header && /\bv1=[0-9a-f]/i.test(value),
  );
  if (other !== undefined) {
    return {
      code: 'header_named_otherwise',
      what: `There is no ${settings.header}; the signature is in ${other[0]}.`,
      remedy: `Set WEBHOOK_SIGNATURE_HEADER=${other[0]}.`,
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

function formCauses(strict: Strict, signatures: readonly ClaimedSignature[], fit: Fit | null): Cause[] {
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
  if (reason === 'malformed_signature' && fit !== null) return [];
  return [
    {
      code: 'header_malformed',
      what: FORM_FAULTS[reason] ?? 'The header is not in its form.',
      remedy: FORM_REMEDY,
    },
  ];
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

function fitCauses(fit: Fit, settings: DiagnosisSettings): Cause[] {
  const causes: Cause[] = [];
  if (fit.secret.standing === 'retired') {
    causes.push({
      code: 'secret_not_in_use',
      what: `It is signed with a secret that is not in use here (${fit.secret.name}): retired, or not configured yet.`,
      remedy:
        'If the sender is right to use it, add it to WEBHOOK_SECRETS beside the others. If it was retired, change the sender to the new one.',
    });
  }
  const { encoding, name } = fit.secretReading;
  if (encoding !== settings.secretEncoding) {
    causes.push({
      code: 'secret_encoding_differs',
      what: `The sender uses the secret ${name}; here it is read ${WORDS[settings.secretEncoding]}.`,
      remedy:
        encoding === null
          ? 'Write the secret into WEBHOOK_SECRETS in that form.'
          : `Set WEBHOOK_SECRET_ENCODING=${encoding}.`,
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

const WORDS: Record<SecretEncoding, string> = { utf8: 'as text', hex: 'as hex', base64: 'as base64' };

const BODY_FAULTS: Record<BodyFault, string> = {
  bom_added: 'A byte order mark was put in front of the body after it was signed.',
  bom_removed: 'The byte order mark in front of the body was taken off after it was signed.',
  line_endings_changed: 'The line ends of the body were changed after it was signed.',
  final_newline_changed: 'The line end behind the body was added or taken off after it was signed.',
  body_reserialised: 'The body was parsed and printed again after it was signed.',
};

function timeCauses(
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

function describe(fit: Fit): Diagnosis['fit'] {
  return {
    signed_content: fit.template.text,
    hash: `HMAC-${fit.algorithm.toUpperCase()}`,
    secret: fit.secret.name,
    secret_reading: fit.secretReading.name,
    body: fit.body.name,
    signature: `${fit.signature.key}, ${fit.signature.encoding}`,
  };
}

/** More elements than this are nobody's header; each one costs comparisons. */
const MAX_ELEMENTS = 32;

/** What a header says when nothing is held against its form. */
function looseElements(value: string): { t: string | null; signatures: ClaimedSignature[] } {
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

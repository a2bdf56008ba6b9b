import { parseSignatureHeader } from '../receive/signature.ts';
import { fitCauses } from './diagnosis-fit.ts';
import { formCauses, looseElements, missingHeader, timeCauses } from './diagnosis-header.ts';
import { type CandidateSecret, type Fit, searchFit } from './diagnosis-search.ts';
import type { Steps } from './diagnosis-steps.ts';
import type { Cause, DiagnosisSettings, Specimen } from './diagnosis-terms.ts';

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

/**
 * Why a delivery is refused, or that it is not. Pure: nothing is sent, stored or believed. Tries what senders and
 * the machines between are known to do, and names what fits; where nothing fits, says what that leaves.
 */
export function* diagnose(
  specimen: Specimen,
  secrets: readonly CandidateSecret[],
  settings: DiagnosisSettings,
): Steps<Diagnosis> {
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
      : yield* searchFit({
          ...{ signatures, t: t ?? null, body: specimen.body, secrets },
          headerOf: (name) => specimen.headers.get(name),
          configured: settings,
        });

  const causes = [
    ...formCauses(strict, signatures, fit, settings.algorithm),
    ...(fit === null ? [] : fitCauses(fit, settings)),
    ...timeCauses(t, fit, specimen, settings),
  ];
  // Of a header that is broken besides, nobody can say whether its secret was right.
  if (fit === null && (strict.ok || secrets.length === 0)) {
    causes.push(secrets.length === 0 ? NO_SECRET : nothingFits(specimen, secrets, settings));
  }
  return { healthy: causes.length === 0, causes, fit: fit === null ? null : describe(fit) };
}

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

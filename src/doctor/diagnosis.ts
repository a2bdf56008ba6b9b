import { setImmediate as nextTurn } from 'node:timers/promises';
import { parseSignatureHeader } from '../receive/signature.ts';
import type { RejectionReport } from '../store/reports.ts';
import type { Steps } from './diagnosis-bodies.ts';
import {
  type Cause,
  cause,
  type DiagnosisSettings,
  fitCauses,
  formCause,
  looseElements,
  missingHeader,
  type Specimen,
  timeCause,
} from './diagnosis-causes.ts';
import { type CandidateSecret, DIGEST_BYTES, type Fit, searchFit } from './diagnosis-search.ts';

export interface Diagnosis {
  /** The service would accept its signature; of a stored delivery: it has had its effect. */
  healthy: boolean;
  /** Every reason why not; empty when healthy. */
  causes: Cause[];
  /** The combination that makes the signature; null: none that was tried. */
  fit: ReturnType<typeof describe> | null;
  /** Sentences with what else is known of a stored delivery. */
  known?: string[];
}

const rejectedFor = (...causes: Cause[]): Diagnosis => ({ healthy: false, causes, fit: null });

/** Why a delivery is rejected, or that it is not. Tries what senders and proxies are known to do. Pure. */
export function* diagnose(
  specimen: Specimen,
  secrets: readonly CandidateSecret[],
  settings: DiagnosisSettings,
): Steps<Diagnosis> {
  const { headerValue } = specimen;
  if (headerValue === undefined || headerValue.trim() === '') {
    return rejectedFor(missingHeader(specimen, settings));
  }
  const strict = parseSignatureHeader(headerValue, DIGEST_BYTES[settings.algorithm]);
  const loose = looseElements(headerValue);
  const t = strict.ok ? strict.t : loose.t;
  const { signatures } = loose;
  const fit =
    secrets.length === 0 || signatures.length === 0
      ? null
      : yield* searchFit({
          signatures,
          t: t ?? null,
          body: specimen.body,
          secrets,
          headerOf: (name) => specimen.headers.get(name),
          configured: settings,
        });

  const causes = [
    formCause(strict, signatures, fit, settings.algorithm),
    ...(fit === null ? [] : fitCauses(fit, settings)),
    timeCause(t, fit, specimen, settings),
  ].filter((each) => each !== null);
  // If the header itself is broken, nothing can be said about the secret.
  if (fit === null && (strict.ok || secrets.length === 0)) {
    causes.push(secrets.length === 0 ? NO_SECRET : nothingFits(specimen, secrets, settings));
  }
  return { healthy: causes.length === 0, causes, fit: fit === null ? null : describe(fit) };
}

const NO_SECRET = cause(
  'no_secret',
  'No signing secret is known, so nothing can be verified.',
  'Set WEBHOOK_SECRETS, register the webhook, or give one with --secret.',
);

/** Calls the secret wrong only if every signed header is known. */
function nothingFits(
  { headers }: Specimen,
  secrets: readonly CandidateSecret[],
  { template }: DiagnosisSettings,
): Cause {
  const signed = new Set(template.flatMap((part) => (part.kind === 'header' ? [part.name] : [])));
  const missing = [...signed].filter((name) => !headers.has(name));
  if (missing.length === 0) {
    const what = `No known secret fits, in any reading, over any form of the body: ${secrets.map(({ name }) => name).join(', ')}.`;
    const remedy =
      'The sender uses another secret: copy it anew from the compliance service into WEBHOOK_SECRETS. If it is surely the same, the body was changed on the way in a manner that cannot be undone: look at proxies between.';
    return cause('wrong_secret', what, remedy);
  }
  const what = `WEBHOOK_SIGNED_CONTENT has the value of ${missing.join(' and ')} signed too, and it is not known here: no secret can be judged.`;
  const options = missing.map((name) => `--header '${name}: VALUE'`).join(' ');
  const remedy = `Give what the delivery came with: ${options}. If it came without, the sender or a proxy leaves it out: have it sent, or set WEBHOOK_SIGNED_CONTENT to what is really signed.`;
  return cause('missing_signed_header', what, remedy);
}

function describe(fit: Fit) {
  return {
    signed_content: fit.template.text,
    hash: `HMAC-${fit.algorithm.toUpperCase()}`,
    secret: fit.secret.name,
    secret_reading: fit.secretReading.name,
    body: fit.body.name,
    signature: `${fit.signature.key}, ${fit.signature.encoding}`,
  };
}

/**
 * Why a stored delivery was rejected. Pure. Without its body only the form of its header can be judged. `headers`: its other headers
 * that somebody knows, because they are not stored.
 */
export function* diagnoseRejection(
  rejection: Pick<RejectionReport, 'at' | 'reason' | 'bytes' | 'header' | 'body_base64'>,
  secrets: readonly CandidateSecret[],
  settings: DiagnosisSettings,
  headers: ReadonlyMap<string, string>,
): Steps<Diagnosis> {
  const specimen = {
    headerValue: rejection.header ?? undefined,
    headers,
    body: Buffer.from(rejection.body_base64 ?? '', 'base64'),
    receivedSeconds: Math.floor(Date.parse(rejection.at) / 1000),
  };
  if (rejection.body_base64 !== null) return yield* diagnose(specimen, secrets, settings);
  const { causes } = yield* diagnose(specimen, [], settings);
  const form = causes.filter(({ code }) => code !== 'no_secret');
  if (form.length > 0) return rejectedFor(...form);
  if (rejection.reason === 'no_signing_secret') return rejectedFor(CAME_TOO_EARLY);
  return rejectedFor({
    code: rejection.reason,
    what: `It was rejected for "${rejection.reason}", and its body of ${rejection.bytes} bytes was not kept, so its signature cannot be tried.`,
    remedy:
      'Record one where it arrives, and give it to `compliance-mirror doctor` with --header and --body.',
  });
}

const CAME_TOO_EARLY: Cause = {
  code: 'no_signing_secret',
  what: 'No signing secret was known here when it came, so nothing could be verified, and nothing of it was kept.',
  remedy:
    'Register the webhook, or set WEBHOOK_SECRETS. It was answered 503, so that the sender tries again; what it does not send again, a full sync finds.',
};

/** How long a slice may block the event loop, and with it a delivery. */
const SLICE_MS = 5;

/** Does the work at once, for a process that has nothing else to do. */
export function allAtOnce<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** Does the work in slices. Deliveries and probes that arrive are answered after each slice. */
export async function inSlices<Result>(steps: Steps<Result>): Promise<Result> {
  for (;;) {
    const until = performance.now() + SLICE_MS;
    do {
      const step = steps.next();
      if (step.done) return step.value;
    } while (performance.now() < until);
    await nextTurn();
  }
}

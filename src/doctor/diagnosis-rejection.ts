import type { Rejection } from '../store/store.ts';
import { type Diagnosis, diagnose } from './diagnosis.ts';
import type { CandidateSecret } from './diagnosis-search.ts';
import type { Steps } from './diagnosis-steps.ts';
import type { DiagnosisSettings } from './diagnosis-terms.ts';

/** A diagnosis whose causes may also be the rejection's own reason, where there is nothing left to try. */
export type Explained = Omit<Diagnosis, 'causes'> & {
  causes: (Omit<Diagnosis['causes'][number], 'code'> & { code: string })[];
  /** What else is known of a delivery that was kept, in sentences. */
  known?: string[];
};

/**
 * Why a kept delivery was rejected. Pure. Without its body only its form can be judged. `headers`: those of its other
 * headers that somebody knows, since none is kept.
 */
export function* diagnoseRejection(
  rejection: Rejection,
  secrets: readonly CandidateSecret[],
  settings: DiagnosisSettings,
  headers: ReadonlyMap<string, string>,
): Steps<Explained> {
  const specimen = {
    headerValue: rejection.header ?? undefined,
    headers,
    body: rejection.body ?? Buffer.alloc(0),
    receivedSeconds: Math.floor(rejection.wall / 1000),
  };
  if (rejection.body !== null) return yield* diagnose(specimen, secrets, settings);
  const { causes } = yield* diagnose(specimen, [], settings);
  const form = causes.filter(({ code }) => code !== 'no_secret');
  if (form.length > 0) return { healthy: false, causes: form, fit: null };
  if (rejection.reason === 'no_signing_secret')
    return { healthy: false, causes: [CAME_TOO_EARLY], fit: null };
  return {
    healthy: false,
    causes: [
      {
        code: rejection.reason,
        what: `It was rejected for "${rejection.reason}", and its body of ${rejection.bytes} bytes was not kept, so its signature cannot be tried.`,
        remedy:
          'Record one where it arrives, and give it to `compliance-mirror doctor` with --header and --body.',
      },
    ],
    fit: null,
  };
}

const CAME_TOO_EARLY = {
  code: 'no_signing_secret',
  what: 'No signing secret was known here when it came, so nothing could be verified, and nothing of it was kept.',
  remedy:
    'Register the webhook, or set WEBHOOK_SECRETS. It was answered 503, so that the sender tries again; what it does not send again, a full sync finds.',
};

import PQueue from 'p-queue';
import { registrationPlace } from '../compliance/registration.ts';
import { openSecret } from '../compliance/secrets.ts';
import { diagnoseRejection } from '../doctor/diagnosis-rejection.ts';
import type { CandidateSecret } from '../doctor/diagnosis-search.ts';
import { inSlices } from '../doctor/diagnosis-steps.ts';
import type { DiagnosisSettings } from '../doctor/diagnosis-terms.ts';
import type { RejectionDiagnosis } from '../ops/context.ts';
import type { Config } from '../platform/config.ts';
import { encodeSecret } from '../platform/signing-secret.ts';
import type { Store, StoredRegistration } from '../store/store.ts';

/** Every signing secret in use, and those of registrations whose time is over, each by the name under which an operator knows it. */
export function secretsInUse(
  { webhook, credentialsKey }: Pick<Config, 'webhook' | 'credentialsKey'>,
  registrations: readonly StoredRegistration[],
  now: number,
): CandidateSecret[] {
  const configured = webhook.secrets().map(
    (bytes, index): CandidateSecret => ({
      text: encodeSecret(bytes, webhook.secretEncoding),
      standing: 'expected',
      name: `WEBHOOK_SECRETS number ${index + 1}`,
    }),
  );
  if (credentialsKey === null) return configured;
  const stored = registrations.flatMap(({ sealedSecret, upstreamId, expiresWall }): CandidateSecret[] => {
    if (sealedSecret === null) return [];
    const isOver = expiresWall !== null && expiresWall <= now;
    return [
      {
        text: openSecret(credentialsKey, sealedSecret, registrationPlace(upstreamId)),
        standing: isOver ? 'retired' : 'expected',
        name: `of the registration ${upstreamId}${isOver ? ', which has expired' : ''}`,
      },
    ];
  });
  return [...configured, ...stored];
}

export function diagnosisSettings({ webhook }: Pick<Config, 'webhook'>): DiagnosisSettings {
  const { template, algorithm, header, toleranceSeconds, secretEncoding } = webhook;
  return { template, algorithm, header, toleranceSeconds, secretEncoding };
}

/** Of a rejected delivery only the signature's own header is kept. */
const NO_HEADERS: ReadonlyMap<string, string> = new Map();

/** Examinations that may wait for the one under way; each is an operator who looks at a page. */
const MAX_WAITING = 8;

/**
 * What `doctor` says of a rejected delivery. It may be a second's work for a body made for it, and anyone can send one:
 * so it is done in slices, beside deliveries, and one at a time, so that many operators cost no more than one.
 * Null: it is not kept. `busy`: too many wait already.
 */
export function rejectionDiagnoses(
  config: Pick<Config, 'webhook' | 'credentialsKey'>,
  store: Pick<Store, 'readRejection' | 'listRegistrations'>,
  clock: { wall(): number },
): (id: number) => Promise<RejectionDiagnosis | 'busy' | null> {
  const queue = new PQueue({ concurrency: 1 });
  const examine = async (id: number): Promise<RejectionDiagnosis | null> => {
    const rejection = await store.readRejection(id);
    if (rejection === null) return null;
    const secrets = secretsInUse(config, await store.listRegistrations(), clock.wall());
    const { causes, fit } = await inSlices(
      diagnoseRejection(rejection, secrets, diagnosisSettings(config), NO_HEADERS),
    );
    return { causes, fit };
  };
  return async (id) => (queue.size >= MAX_WAITING ? 'busy' : await queue.add(() => examine(id)));
}

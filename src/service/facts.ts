import PQueue from 'p-queue';
import type { Credentials } from '../compliance/credentials.ts';
import { diagnoseRejection } from '../doctor/diagnosis-rejection.ts';
import { inSlices } from '../doctor/diagnosis-steps.ts';
import type { CredentialFacts, RejectionDiagnosis } from '../ops/context.ts';
import type { ComplianceSettings, Config } from '../platform/config.ts';
import type { Store } from '../store/store.ts';
import { diagnosisSettings, secretsInUse } from './candidate-secrets.ts';

/** What is known of the upstream's credentials without asking it. Null: there are none. */
export async function credentialFacts(
  settings: Pick<ComplianceSettings, 'auth'> | null,
  credentials: Pick<Credentials, 'standing'> | null,
): Promise<CredentialFacts | null> {
  if (settings === null) return null;
  const standing = await credentials?.standing?.();
  return {
    auth: settings.auth,
    expiresAt: standing?.expiresWall ?? null,
    refusal: standing?.refusal ?? null,
  };
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

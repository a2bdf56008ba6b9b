import type { Credentials } from '../compliance/credentials.ts';
import type { ComplianceSettings, Config } from '../config.ts';
import type { CredentialFacts, RefusalDiagnosis } from '../ops/context.ts';
import { diagnoseRefusal } from '../receive/diagnosis-refusal.ts';
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

/** Of a refused delivery only the signature's own header is kept. */
const NO_HEADERS: ReadonlyMap<string, string> = new Map();

/** What `doctor` says of a refused delivery. Null: it is not kept. */
export async function refusalDiagnosis(
  config: Pick<Config, 'webhook' | 'credentialsKey'>,
  store: Pick<Store, 'readRefusal' | 'listRegistrations'>,
  id: number,
): Promise<RefusalDiagnosis | null> {
  const refusal = await store.readRefusal(id);
  if (refusal === null) return null;
  const secrets = secretsInUse(config, await store.listRegistrations());
  const { causes, fit } = diagnoseRefusal(refusal, secrets, diagnosisSettings(config), NO_HEADERS);
  return { causes, fit };
}

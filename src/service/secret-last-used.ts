import type { SecretFacts } from '../ops/context.ts';
import type { StoredSecret } from './stored-secrets.ts';

/** When each signing secret last verified a delivery, since this start. */
export interface SecretUse {
  used(secret: Uint8Array): void;
  /** Those that may verify a delivery now, by their positions. */
  report(configured: readonly Uint8Array[], stored: readonly StoredSecret[]): SecretFacts[];
}

export function createSecretUse(clock: { wall(): number }): SecretUse {
  // By its bytes: a rotation moves the positions, and the old secret's use must not be taken for the new one's.
  const lastUsed = new Map<string, number>();
  const keyOf = (secret: Uint8Array) => Buffer.from(secret).toString('base64');
  // Nearly every delivery is signed with the secret of the one before.
  let latest: Uint8Array | null = null;
  let latestKey = '';
  return {
    used(secret) {
      if (secret !== latest) [latest, latestKey] = [secret, keyOf(secret)];
      lastUsed.set(latestKey, clock.wall());
    },
    report: (configured, stored) =>
      [...configured.map((key) => ({ registration: null, key })), ...stored].map(
        ({ registration, key }, index) => ({
          ...{ position: index + 1, registration },
          lastUsedAt: lastUsed.get(keyOf(key)) ?? null,
        }),
      ),
  };
}

import { registrationPlace } from '../compliance/registration.ts';
import { openSecret } from '../compliance/secrets.ts';
import type { CandidateSecret } from '../doctor/diagnosis-search.ts';
import type { DiagnosisSettings } from '../doctor/diagnosis-terms.ts';
import type { Config } from '../platform/config.ts';
import { encodeSecret } from '../platform/signing-secret.ts';
import type { StoredRegistration } from '../store/store.ts';

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

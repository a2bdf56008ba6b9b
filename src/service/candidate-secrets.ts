import { REGISTRATION_PURPOSE } from '../compliance/registration.ts';
import { openSecret } from '../compliance/secrets.ts';
import type { Config } from '../config.ts';

import type { CandidateSecret } from '../receive/diagnosis-search.ts';
import type { DiagnosisSettings } from '../receive/diagnosis-terms.ts';
import type { StoredRegistration } from '../store/store.ts';

/** Every signing secret in use, each by the name under which an operator knows it. */
export function secretsInUse(
  { webhook, credentialsKey }: Pick<Config, 'webhook' | 'credentialsKey'>,
  registrations: readonly StoredRegistration[],
): CandidateSecret[] {
  const configured = webhook.secrets().map(
    (bytes, index): CandidateSecret => ({
      text: Buffer.from(bytes).toString(webhook.secretEncoding),
      standing: 'expected',
      name: `WEBHOOK_SECRETS number ${index + 1}`,
    }),
  );
  if (credentialsKey === null) return configured;
  const stored = registrations.flatMap(({ sealedSecret, upstreamId }): CandidateSecret[] =>
    sealedSecret === null
      ? []
      : [
          {
            text: openSecret(credentialsKey, sealedSecret, REGISTRATION_PURPOSE),
            standing: 'expected',
            name: `of the registration ${upstreamId}`,
          },
        ],
  );
  return [...configured, ...stored];
}

export function diagnosisSettings({ webhook }: Pick<Config, 'webhook'>): DiagnosisSettings {
  const { template, algorithm, header, toleranceSeconds, secretEncoding } = webhook;
  return { template, algorithm, header, toleranceSeconds, secretEncoding };
}

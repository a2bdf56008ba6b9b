import { REGISTRATION_PURPOSE } from '../../compliance/registration.ts';
import { openSecret } from '../../compliance/secrets.ts';
import type { Config } from '../../config.ts';
import type { CandidateSecret } from '../../receive/diagnosis-search.ts';
import type { StoredRegistration } from '../../store/store.ts';

export interface GivenSecrets {
  secret?: string[];
  retired?: string[];
}

/**
 * Every secret to try. Those in use decide what is healthy; where none is, the ones given on the command line
 * take their place, so that a delivery can be examined on a machine that is not configured.
 */
export function candidates(
  config: Config,
  registrations: readonly StoredRegistration[],
  given: GivenSecrets,
): CandidateSecret[] {
  const inUse = [...configured(config), ...stored(config, registrations)];
  const known = new Set(inUse.map(({ text }) => text));
  const numbered = (texts: readonly string[], option: string, standing: CandidateSecret['standing']) =>
    texts
      .filter((text) => !known.has(text))
      .map((text, index): CandidateSecret => ({ text, standing, name: `${option} number ${index + 1}` }));
  return [
    ...inUse,
    ...numbered(given.secret ?? [], '--secret', inUse.length === 0 ? 'expected' : 'retired'),
    ...numbered(given.retired ?? [], '--retired', 'retired'),
  ];
}

function configured({ webhook }: Config): CandidateSecret[] {
  return webhook.secrets().map((bytes, index) => ({
    text: Buffer.from(bytes).toString(webhook.secretEncoding),
    standing: 'expected',
    name: `WEBHOOK_SECRETS number ${index + 1}`,
  }));
}

function stored({ credentialsKey }: Config, registrations: readonly StoredRegistration[]): CandidateSecret[] {
  if (credentialsKey === null) return [];
  return registrations.flatMap(({ sealedSecret, upstreamId }): CandidateSecret[] =>
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
}

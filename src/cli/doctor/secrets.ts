import type { CandidateSecret } from '../../doctor/diagnosis-search.ts';
import type { Config } from '../../platform/config.ts';
import { secretsInUse } from '../../service/diagnoses.ts';
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
  const inUse = secretsInUse(config, registrations, Date.now());
  const known = new Set(inUse.map(({ text }) => text));
  const isNoneExpected = inUse.every(({ standing }) => standing === 'retired');
  const numbered = (texts: readonly string[], option: string, standing: CandidateSecret['standing']) =>
    texts
      .filter((text) => !known.has(text))
      .map((text, index): CandidateSecret => ({ text, standing, name: `${option} number ${index + 1}` }));
  return [
    ...inUse,
    ...numbered(given.secret ?? [], '--secret', isNoneExpected ? 'expected' : 'retired'),
    ...numbered(given.retired ?? [], '--retired', 'retired'),
  ];
}

import { apiKeyCredentials, type Credentials } from '../compliance/credentials.ts';
import type { ComplianceSettings } from '../config.ts';
import { UsageError } from '../errors.ts';

/** Who we are to the upstream, by `COMPLIANCE_AUTH`. Throws UsageError for a way that this version does not know. */
export function credentialsFor(settings: ComplianceSettings): Credentials {
  if (settings.auth === 'api_key' && settings.apiKey !== null) return apiKeyCredentials(settings.apiKey);
  throw new UsageError(
    `COMPLIANCE_AUTH=${settings.auth} is not supported by this version`,
    'use COMPLIANCE_AUTH=api_key with COMPLIANCE_API_KEY',
  );
}

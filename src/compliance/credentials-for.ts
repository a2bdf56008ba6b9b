import type { Clock } from '../platform/clock.ts';
import type { ComplianceSettings } from '../platform/config.ts';
import { UsageError } from '../platform/errors.ts';
import { apiKeyCredentials, type Credentials } from './credentials.ts';
import { createTokenEndpoint } from './oauth-endpoint.ts';
import { oauthCredentials } from './oauth-renewal.ts';
import type { TokenStore } from './oauth-tokens.ts';
import { type Needs, scopesFor } from './oauth-tokens.ts';
import { serviceAccountCredentials } from './service-account.ts';

export interface CredentialsOptions {
  settings: ComplianceSettings;
  store: TokenStore;
  /** CREDENTIALS_KEY, for tokens at rest. */
  key: () => Uint8Array | null;
  clock: Clock;
  /** Who asks, for the audit: `service`, or the command. */
  actor: string;
  /** `write` for POSTs. */
  needs: Needs;
}

/** The credentials that COMPLIANCE_AUTH names. Throws UsageError where a setting for them is missing. */
export function credentialsFor(options: CredentialsOptions): Credentials {
  const { settings, needs } = options;
  if (settings.auth === 'api_key') {
    if (settings.apiKey !== null) return apiKeyCredentials(settings.apiKey);
    throw new UsageError('COMPLIANCE_API_KEY is not set', 'COMPLIANCE_AUTH=api_key needs it');
  }
  const endpoint = createTokenEndpoint(options);
  if (settings.auth === 'oauth') return oauthCredentials({ ...options, endpoint });
  return serviceAccountCredentials({ ...options, endpoint, scopes: scopesFor(settings.scopes, needs) });
}

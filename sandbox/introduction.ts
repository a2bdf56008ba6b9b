import { MADE_SECRET_PREFIX } from './oauth/options.ts';
import type { GivenOptions } from './options.ts';
import type { Sandbox } from './sandbox.ts';

/**
 * What a person needs to use the sandbox, a line each. Keys and secrets made for this run are shown, since they
 * are of use only with it; those that were set are not repeated.
 */
export function introduction(sandbox: Sandbox, given: GivenOptions): string[] {
  const { application, serviceAccounts } = sandbox.oauth;
  const keys = given.apiKeys === undefined ? [`API key: ${sandbox.apiKeys[0]}`] : [];
  // Settings can give a client in part, so that each secret tells by its beginning whether it was made.
  const shown = (secret: string) => (secret.startsWith(MADE_SECRET_PREFIX) ? `, secret ${secret}` : '');
  return [
    `Sandbox: ${sandbox.url}/v1`,
    `Page: ${sandbox.url}/`,
    ...keys,
    `OAuth: ${sandbox.url}, client ${application.id}${shown(application.secret)}, redirects to ${application.redirectUri}`,
    ...serviceAccounts.map(
      ({ id, secret, scopes }) => `Service account: ${id}${shown(secret)}, scopes ${scopes.join(' ')}`,
    ),
  ];
}

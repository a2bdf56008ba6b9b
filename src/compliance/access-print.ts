import { scryptSync } from 'node:crypto';
import type { ComplianceSettings } from '../platform/config.ts';

const PRINT_BYTES = 16;

/**
 * Tells one set of credentials and one address of the API from another, and nothing of what they are: slow to try out, and
 * of no use with another database, whose `salt` differs. A database that was put back has another, too: what its copy says of
 * access is then not believed. Of a person's grant, which changes with each renewal, only the
 * client that it was given to counts. Asked anew at each call, since a key's file may change.
 */
export function accessPrint(
  settings: Pick<
    ComplianceSettings,
    'baseUrl' | 'auth' | 'apiKey' | 'authUrl' | 'clientId' | 'clientSecret' | 'scopes'
  >,
  salt: () => string,
): () => string {
  let of = '';
  let saltedWith = '';
  let print = '';
  return () => {
    const { baseUrl, auth, apiKey, authUrl, clientId, clientSecret, scopes } = settings;
    const secret = (auth === 'api_key' ? apiKey : clientSecret)?.() ?? null;
    const text = JSON.stringify([baseUrl.href, auth, authUrl?.href, clientId, scopes, secret]);
    const now = salt();
    if (text !== of || now !== saltedWith) {
      print = scryptSync(text, now, PRINT_BYTES).toString('hex');
      of = text;
      saltedWith = now;
    }
    return print;
  };
}

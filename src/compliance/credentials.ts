import { scryptSync } from 'node:crypto';
import type { ComplianceSettings } from '../platform/config.ts';
import { UsageError } from '../platform/errors.ts';

/** Who we are to the compliance service. */
export interface Credentials {
  /** The value of the Authorization header, asked for anew before each request. */
  authorization(signal: AbortSignal): Promise<string>;
  /**
   * Called after a 401 for the Authorization header `rejected`, which others may have renewed meanwhile. True
   * when the next `authorization` is worth another try. Absent where nothing but an operator can renew what we
   * hold.
   */
  renew?(signal: AbortSignal, rejected: string): Promise<boolean>;
  /** What is known of them without asking the upstream. Absent where nothing is. */
  standing?(): Promise<CredentialStanding>;
}

export interface CredentialStanding {
  /** When what is sent now runs out, wall-clock milliseconds; null: there is nothing to send yet. */
  expiresWall: number | null;
  /** Why they are of no use until a person acts; null: nothing is known against them. */
  refusal: string | null;
  /** What they were granted, or asked for where the answer did not say; null: nobody knows. */
  scopes: readonly string[] | null;
}

/** A static key, read at every request so that a rotated file takes effect without a restart. */
export function apiKeyCredentials(apiKey: () => string): Credentials {
  return {
    async authorization() {
      const key = apiKey();
      // Checked here because fetch, refusing such a header, quotes the whole of it in its message.
      if (!/^[\x21-\x7e]+$/.test(key)) {
        throw new UsageError(
          'COMPLIANCE_API_KEY is empty or holds a character that no HTTP header can carry',
          'Look for spaces, line breaks or quotes around the key.',
        );
      }
      return `Bearer ${key}`;
    },
  };
}

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

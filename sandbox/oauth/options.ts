import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { parseScopes, SCOPES } from '../scopes.ts';
import type { ApplicationClient, ServiceAccount } from './clients.ts';

export interface OauthOptions {
  application: ApplicationClient;
  serviceAccounts: readonly ServiceAccount[];
  accessTokenSeconds: number;
}

export const MADE_SECRET_PREFIX = 'sandbox_secret_';

const ONE_HOUR_SECONDS = 3_600;
const MAX_TOKEN_SECONDS = 86_400;

/** Digits, with a fraction or none: neither `1e3` nor `0x10`. */
export const decimal = z
  .string()
  .regex(/^\d+(\.\d+)?$/, 'a number such as 2 or 0.5')
  .transform((text) => Number(text));

export const tokenSeconds = z.number().positive().max(MAX_TOKEN_SECONDS);

/** A client for people and two accounts for machines, the second with less; secrets are made anew each time. */
export function defaultOauth(): OauthOptions {
  return {
    application: {
      id: 'sandbox-client',
      secret: newSecret(),
      redirectUri: 'http://127.0.0.1:8765/callback',
    },
    serviceAccounts: [
      { id: 'sandbox-service', secret: newSecret(), scopes: ['read', 'write'] },
      { id: 'sandbox-reader', secret: newSecret(), scopes: ['read'] },
    ],
    accessTokenSeconds: ONE_HOUR_SECONDS,
  };
}

const clientId = z.string().regex(/^[\x21-\x7e]{1,200}$/, 'printable characters without spaces');
/** Without the separators of the list of accounts. */
const clientSecret = z
  .string()
  .regex(/^[^\s:,]{16,200}$/, 'at least 16 characters, no spaces, commas or colons');
const redirectUri = z
  .url('an absolute address')
  .refine(
    (text) => !text.includes('#') && !/^(javascript|data|file):/i.test(text),
    'an address without a fragment, and not javascript:, data: or file:',
  );

const ACCOUNT_FORM = 'id:secret:scopes, the scopes separated by spaces, several accounts by commas';
const serviceAccount = z.string().transform((text, context): ServiceAccount => {
  const [, id = '', secret = '', scopeText = ''] = /^([^\s:,]+):([^\s:,]{16,}):(.+)$/.exec(text) ?? [];
  const scopes = parseScopes(scopeText);
  if (id === '') context.addIssue({ code: 'custom', message: ACCOUNT_FORM });
  else if (scopes === null || scopes.length === 0) {
    context.addIssue({
      code: 'custom',
      message: `the scopes of ${id} are not of: ${Object.keys(SCOPES).join(' ')}`,
    });
  }
  return { id, secret, scopes: scopes ?? [] };
});
const serviceAccounts = z
  .string()
  .transform((text) => text.split(',').map((entry) => entry.trim()))
  .pipe(z.array(serviceAccount))
  .refine(
    (accounts) => new Set(accounts.map(({ id }) => id)).size === accounts.length,
    'an id appears twice',
  );

type Read = <T>(name: string, schema: z.ZodType<T>) => T | undefined;

/** The sandbox's OAuth settings; undefined when none is set. */
export function oauthFromEnv(read: Read): Partial<OauthOptions> | undefined {
  const application = defined({
    id: read('SANDBOX_CLIENT_ID', clientId),
    secret: read('SANDBOX_CLIENT_SECRET', clientSecret),
    redirectUri: read('SANDBOX_REDIRECT_URI', redirectUri),
  });
  const options = defined({
    application:
      Object.keys(application).length === 0 ? undefined : { ...defaultOauth().application, ...application },
    serviceAccounts: read('SANDBOX_SERVICE_ACCOUNTS', serviceAccounts),
    accessTokenSeconds: read('SANDBOX_TOKEN_SECONDS', decimal.pipe(tokenSeconds)),
  });
  return Object.keys(options).length === 0 ? undefined : options;
}

/** Without the fields that are undefined. */
export function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

function newSecret(): string {
  return `${MADE_SECRET_PREFIX}${randomBytes(24).toString('hex')}`;
}

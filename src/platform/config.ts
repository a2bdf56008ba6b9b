import querystring from 'node:querystring';
import { z } from 'zod';
import { isLoopback } from './addresses.ts';
import * as of from './config-parsers.ts';
import { type Environment, readSources, type Secret, unknownNames, watchedFile } from './config-sources.ts';
import { UsageError } from './errors.ts';
import { aboutSetting, SETTINGS, type SettingName } from './settings.ts';

export type { OpsToken, TemplatePart } from './config-parsers.ts';

/** Every setting of docs/settings.md, parsed. Units are in the names. Secrets follow their files: read them when they are needed. */
export type Config = ReturnType<typeof configOf>;
export type SignatureSettings = Config['webhook'];
export type ComplianceSettings = NonNullable<Config['compliance']>;

export interface LoadOptions {
  /** Called when a secret's file has changed and its content cannot be used. The last good value stays. */
  onSecretProblem?: (message: string) => void;
}

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
/** For one request to the API. The reads of a whole kind are many short ones, so none takes long on a service that works. */
const COMPLIANCE_TIMEOUT_MS = 10 * SECOND_MS;
/** Longer texts are cut in messages. */
const SHOWN_CHARACTERS = 60;

type Values = z.infer<typeof SETTINGS>;
type Follow = <Name extends SettingName>(name: Name) => Secret<Values[Name]>;

/** Reads every setting from `env` or the files that it names. Throws one UsageError with a line for each problem. */
export function loadConfig(env: Environment, options: LoadOptions = {}): Config {
  const { found, problems } = readSources(env);
  const texts = Object.fromEntries([...found].map(([name, { text }]) => [name, text]));
  // How signing secrets are decoded is a setting, too.
  const encoding = of.secretEncoding.schema.safeParse(texts['WEBHOOK_SECRET_ENCODING']).data ?? 'utf8';
  const signingSecrets = of.signingSecrets(encoding);
  const schema = SETTINGS.extend({ WEBHOOK_SECRETS: z.nullable(signingSecrets.schema).prefault(null) });
  const takesOf = (name: SettingName) =>
    name === 'WEBHOOK_SECRETS' ? signingSecrets.takes : aboutSetting(name).takes;

  const { data, error } = schema.safeParse(texts);
  for (const issue of error?.issues ?? []) {
    const name = issue.path[0] as SettingName;
    problems.push(`${name}: ${flawOf(issue) ?? `got ${shown(name, texts[name]!)}`}; takes ${takesOf(name)}`);
  }
  problems.push(...problemsBetween(env, texts));
  if (data === undefined || problems.length > 0) {
    throw new UsageError(problems.join('\n'), 'docs/settings.md describes every setting');
  }

  return configOf(data, encoding, (name) => {
    const path = found.get(name)?.path ?? null;
    if (path === null) return () => data[name];
    const parse = (text: string) => {
      const again = schema.shape[name].safeParse(text);
      if (again.success) return again.data as Values[typeof name];
      const flaw = flawOf(again.error.issues[0]!);
      throw new Error(`does not hold ${takesOf(name)}${flaw === null ? '' : ` (${flaw})`}`);
    };
    return watchedFile(path, data[name], parse, (why) =>
      options.onSecretProblem?.(
        `${name}_FILE: ${path} has changed: ${why}; the value read before stays in use`,
      ),
    );
  });
}

const flawOf = (issue: z.core.$ZodIssue): string | null =>
  issue.code === 'custom' ? ((issue.params?.['flaw'] as string | null) ?? null) : null;

function shown(name: SettingName, text: string): string {
  // A URL may hold a password.
  if (aboutSetting(name).isSecret || name.endsWith('_URL')) return `a text of ${text.length} characters`;
  return JSON.stringify(text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text);
}

const OF_ACCOUNTS = ['COMPLIANCE_AUTH_URL', 'COMPLIANCE_CLIENT_ID', 'COMPLIANCE_CLIENT_SECRET'] as const;
const REQUIRED_BY_AUTH: Readonly<Record<string, readonly SettingName[]>> = {
  api_key: ['COMPLIANCE_API_KEY'],
  oauth: [...OF_ACCOUNTS, 'COMPLIANCE_REDIRECT_URI', 'CREDENTIALS_KEY'],
  service_account: OF_ACCOUNTS,
};

const isSet = (env: Environment, name: SettingName) => Boolean(env[name] || env[`${name}_FILE`]);

/** What settings ask of each other; also where single ones are wrong, so that all is said at once. */
function problemsBetween(env: Environment, texts: Readonly<Record<string, string>>): string[] {
  const problems: string[] = [];
  const textOf = (name: SettingName) => texts[name] ?? aboutSetting(name).otherwise;
  if (textOf('COMPLIANCE_PAGE_PARAM') === textOf('COMPLIANCE_PER_PAGE_PARAM')) {
    problems.push(
      `COMPLIANCE_PER_PAGE_PARAM: got ${JSON.stringify(textOf('COMPLIANCE_PAGE_PARAM'))}, which is COMPLIANCE_PAGE_PARAM too; takes another name`,
    );
  }
  const omitted = textOf('COMPLIANCE_OAUTH_OMIT') ?? '';
  if (omitted.includes('pkce') && omitted.includes('state')) {
    problems.push(
      'COMPLIANCE_OAUTH_OMIT: takes only one of pkce and state; without both, anybody could sign in for you',
    );
  }
  if (env['NODE_TLS_REJECT_UNAUTHORIZED'] === '0') {
    problems.push(
      'NODE_TLS_REJECT_UNAUTHORIZED: 0 would let anybody pose as the API or the database; unset it, and name an authority of your own by NODE_EXTRA_CA_CERTS (or DATABASE_TLS_CA_FILE)',
    );
  }
  if (isSet(env, 'OPS_URL') && !isSet(env, 'OPS_TOKEN')) {
    problems.push('OPS_TOKEN: not set; OPS_URL needs a token of that service (its OPS_TOKENS)');
  }
  if (isSet(env, 'COMPLIANCE_BASE_URL')) {
    const auth = textOf('COMPLIANCE_AUTH')!;
    const missing = (REQUIRED_BY_AUTH[auth] ?? []).filter((name) => !isSet(env, name));
    problems.push(...missing.map((name) => `${name}: not set; COMPLIANCE_AUTH=${auth} needs it`));
  }
  return problems;
}

function configOf(all: Values, secretEncoding: Values['WEBHOOK_SECRET_ENCODING'], follow: Follow) {
  const databaseUrl = follow('DATABASE_URL');
  const opsTokens = follow('OPS_TOKENS');
  const signingSecrets = follow('WEBHOOK_SECRETS');
  const credentialsKey = follow('CREDENTIALS_KEY');
  return {
    host: all.HOST,
    port: all.PORT,
    ops: {
      host: all.OPS_HOST,
      port: all.OPS_PORT,
      /** Empty: one token is made at the first start. */
      get tokens(): readonly of.OpsToken[] {
        return opsTokens() ?? NO_TOKENS;
      },
      publicUrl: all.OPS_PUBLIC_URL,
    },
    get databaseUrl(): string {
      return databaseUrl();
    },
    /** For PostgreSQL only. */
    database: {
      /** The schema of the mirror's tables. With different ones, several mirrors can share a database. */
      schema: all.DATABASE_SCHEMA,
      tlsCaFile: all.DATABASE_TLS_CA_FILE,
      /** Each connection is made with the password that the address has then. */
      currentUrl: databaseUrl,
    },
    webhook: {
      /** The signing keys, in the order of the setting. Called for each delivery, because their file may change. */
      secrets: (): readonly Uint8Array[] => signingSecrets() ?? NO_SECRETS,
      secretEncoding,
      template: all.WEBHOOK_SIGNED_CONTENT,
      algorithm: all.WEBHOOK_SIGNATURE_ALGORITHM,
      /** Lower case. */
      header: all.WEBHOOK_SIGNATURE_HEADER,
      toleranceSeconds: all.WEBHOOK_TOLERANCE_SECONDS,
      maxBodyBytes: all.WEBHOOK_MAX_BODY_BYTES,
    },
    /** The proxies whose `X-Forwarded-For` is believed; null: none. */
    trustedProxies: all.TRUSTED_PROXIES,
    /** Null: events only. */
    compliance: complianceOf(all, follow),
    /** Null: no secret can be stored. */
    get credentialsKey(): Uint8Array | null {
      return credentialsKey();
    },
    idPointers: {
      policy: all.ID_POINTERS_POLICY,
      risk_assessment: all.ID_POINTERS_RISK_ASSESSMENT,
      vendor: all.ID_POINTERS_VENDOR,
      rules: {
        fields: all.FIELD_POINTERS ?? [],
        ignored: all.IGNORED_FIELDS ?? [],
        deleted: all.DELETED_MARKERS,
      },
    },
    riskIdsFile: all.RISK_IDS_FILE,
    sync: {
      settleMs: all.SYNC_SETTLE_SECONDS * SECOND_MS,
      fullSyncMs: all.SYNC_FULL_MINUTES * MINUTE_MS,
      silenceMs: all.SYNC_SILENCE_HOURS * HOUR_MS,
      deletionGuardPercent: all.DELETION_GUARD_PERCENT,
    },
    retention: { bodyDays: all.RETENTION_BODY_DAYS, historyDays: all.RETENTION_HISTORY_DAYS },
    notify: { url: all.NOTIFY_URL },
    /** For commands: the operators' listener of a service on another machine. */
    remote: all.OPS_URL === null ? null : { url: all.OPS_URL, token: follow('OPS_TOKEN') as Secret<string> },
    logLevel: all.LOG_LEVEL,
  };
}

const NO_TOKENS: readonly of.OpsToken[] = [];
const NO_SECRETS: readonly Uint8Array[] = [];

function complianceOf(all: Values, follow: Follow) {
  const baseUrl = all.COMPLIANCE_BASE_URL;
  if (baseUrl === null) return null;
  baseUrl.pathname = baseUrl.pathname.replace(/\/$/, '');
  /** A secret that its way to authenticate needs is set: that was checked. */
  const secret = (name: 'COMPLIANCE_API_KEY' | 'COMPLIANCE_CLIENT_SECRET') =>
    all[name] === null ? null : (follow(name) as Secret<string>);
  const omitted = all.COMPLIANCE_OAUTH_OMIT ?? [];
  return {
    /** Without a trailing slash; its path ends in `/v1`. */
    baseUrl,
    auth: all.COMPLIANCE_AUTH,
    apiKey: secret('COMPLIANCE_API_KEY'),
    authUrl: all.COMPLIANCE_AUTH_URL,
    clientId: all.COMPLIANCE_CLIENT_ID,
    clientSecret: secret('COMPLIANCE_CLIENT_SECRET'),
    redirectUri: all.COMPLIANCE_REDIRECT_URI,
    scopes: all.COMPLIANCE_SCOPES,
    pkce: !omitted.includes('pkce'),
    /** Whether a sign-in sends `state` and takes only an answer that brings it back. */
    state: !omitted.includes('state'),
    requestsPerMinute: all.COMPLIANCE_REQUESTS_PER_MINUTE,
    paging: {
      pageParam: all.COMPLIANCE_PAGE_PARAM,
      perPageParam: all.COMPLIANCE_PER_PAGE_PARAM,
      firstPage: all.COMPLIANCE_FIRST_PAGE,
      pageSize: all.COMPLIANCE_PAGE_SIZE,
    },
    timeoutMs: COMPLIANCE_TIMEOUT_MS,
  };
}

/** A line for each setting without effect: a name that is misspelt or unknown, or one that needs another setting. */
export function configWarnings(env: Environment): string[] {
  const warnings = unknownNames(env);
  const credentials = ['COMPLIANCE_API_KEY', 'COMPLIANCE_CLIENT_ID', 'COMPLIANCE_AUTH_URL'] as const;
  const idle = credentials.filter((name) => isSet(env, name));
  if (idle.length > 0 && !isSet(env, 'COMPLIANCE_BASE_URL')) {
    warnings.push(`${idle.join(', ')}: without effect, because COMPLIANCE_BASE_URL is not set (events only)`);
  }
  return warnings;
}

/** A line if the operators' tokens would pass other machines' networks in the clear. */
export function operatorsExposure({ ops }: Pick<Config, 'ops'>): string[] {
  const isSafe = ops.publicUrl?.protocol === 'https:' || isLoopback(ops.host);
  if (isSafe) return [];
  return [
    `OPS_HOST: ${ops.host} is reached from other machines, and operators’ tokens pass unencrypted: put a proxy with https before it, and set OPS_PUBLIC_URL to its address`,
  ];
}

/** A line if problems would pass a network in the clear. */
export function notifyExposure({ notify: { url } }: Pick<Config, 'notify'>): string[] {
  if (url === null || url.protocol === 'https:' || isLoopback(url.hostname)) return [];
  return [`NOTIFY_URL: what is sent to ${url.host} passes the network unencrypted`];
}

/** The URL. Throws a UsageError that begins with `name` if somebody on the way could read the requests. */
export function requireHttpsOrLoopback(url: string, name: string): URL {
  const parsed = of.safeUrl.schema.safeParse(url);
  if (parsed.success) return parsed.data;
  throw new UsageError(`${name}: takes ${of.safeUrl.takes}`);
}

/** A key like CREDENTIALS_KEY from the file at `path`. Throws a UsageError that begins with `name`. */
export function readCredentialsKey(path: string, name: string): Uint8Array {
  try {
    return loadConfig({ CREDENTIALS_KEY_FILE: path }).credentialsKey!;
  } catch (error) {
    throw new UsageError((error as UsageError).message.replace(/CREDENTIALS_KEY(_FILE)?/g, name));
  }
}

/** Every secret of the configuration, in all forms that might appear in a log line. Secrets from files change with their files. */
export function secretTexts(config: Config): string[] {
  const texts: string[] = config.ops.tokens.map((each) => each.token);
  const keys = [
    ...config.webhook.secrets(),
    ...(config.credentialsKey === null ? [] : [config.credentialsKey]),
  ];
  for (const key of keys) {
    const bytes = Buffer.from(key);
    texts.push(bytes.toString('utf8'), bytes.toString('hex'), bytes.toString('base64'));
  }
  // Receivers put a token into the path of their address.
  if (config.notify.url !== null) texts.push(config.notify.url.href);
  const { apiKey, clientSecret } = config.compliance ?? {};
  if (config.remote !== null) texts.push(config.remote.token());
  if (apiKey) texts.push(apiKey());
  if (clientSecret) texts.push(clientSecret());
  const password = URL.canParse(config.databaseUrl) ? new URL(config.databaseUrl).password : '';
  // Encoded as in the URL, and decoded as in a driver's message.
  if (password !== '') texts.push(password, querystring.unescape(password));
  return texts;
}

import { accessSync, constants } from 'node:fs';
import querystring from 'node:querystring';
import { DEFAULT_ID_POINTERS } from '../compliance/pointers.ts';
import type { OpsToken, TemplatePart } from './config-parsers.ts';
import * as parse from './config-parsers.ts';
import {
  createReader,
  type Environment,
  type Reader,
  type ReaderOptions,
  unknownNames,
} from './config-sources.ts';
import { UsageError } from './errors.ts';

export type { OpsToken, TemplatePart };

/** Every setting of docs/settings.md, parsed. Its units are in the names. */
export type Config = ReturnType<typeof readConfig>;
export type SignatureSettings = Config['webhook'];
export type ComplianceSettings = NonNullable<Config['compliance']>;

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** With more than a day, a delivery could be replayed long after it was sent. */
const MAX_TOLERANCE_SECONDS = 86_400;
/** A whole body is in memory. */
const MAX_BODY_BYTES_LIMIT = 64 * 1024 * 1024;
/** The memory that Node's heap leaves on a machine of 2 GiB. */
const MAX_IN_FLIGHT_BYTES_LIMIT = 1024 * 1024 * 1024;
/** Enough for a small event. */
const MIN_BODY_BYTES_LIMIT = 1024;
/** A connection for writes, one for the reads of pages, and one for leases, which must not wait for either. */
const MIN_POOL_SIZE = 3;
/** A hundred years. More is a typing error. */
const MAX_DAYS = 36_500;

/**
 * Reads every setting from `env` or the files that it names. Throws one UsageError with a line for each problem. A secret from a
 * file changes with that file, so its value must be read when it is needed, and not kept.
 */
export function loadConfig(env: Environment, options: ReaderOptions = {}): Config {
  const read = createReader(env, options);
  const config = readConfig(read);
  if (read.problems.length > 0) {
    throw new UsageError(read.problems.join('\n'), 'docs/settings.md describes every setting');
  }
  return config;
}

/** A line for each setting without effect: a name that is misspelt or unknown, or one that needs another setting. */
export function configWarnings(env: Environment): string[] {
  const asked = createReader({});
  readConfig(asked);
  const warnings = unknownNames(env, asked.names);
  const { isSet } = createReader(env);
  const idle = ['COMPLIANCE_API_KEY', 'COMPLIANCE_CLIENT_ID', 'COMPLIANCE_AUTH_URL'].filter(isSet);
  if (idle.length > 0 && !isSet('COMPLIANCE_BASE_URL')) {
    warnings.push(`${idle.join(', ')}: without effect, because COMPLIANCE_BASE_URL is not set (events only)`);
  }
  return warnings;
}

function readConfig(read: Reader) {
  const secretEncoding = read.value('WEBHOOK_SECRET_ENCODING', parse.secretEncoding, 'utf8');
  const signingSecrets = read.secret('WEBHOOK_SECRETS', parse.signingSecrets(secretEncoding));
  const opsTokens = read.secret('OPS_TOKENS', parse.opsTokens);
  const credentialsKey = read.secret('CREDENTIALS_KEY', parse.credentialsKey);
  const days = (min: number) => parse.integer(min, MAX_DAYS, 'days');
  const bytes = (max: number) => parse.integer(MIN_BODY_BYTES_LIMIT, max, 'bytes');
  const inFlight = bytes(MAX_IN_FLIGHT_BYTES_LIMIT);
  const tolerance = parse.integer(1, MAX_TOLERANCE_SECONDS, 'seconds');
  const { policy, risk_assessment, vendor } = DEFAULT_ID_POINTERS;
  const port = parse.integer(0, 65_535);
  const address = parse.webUrl((url) => url.search + url.hash === '', 'an http or https URL, no query');

  const config = {
    host: read.value('HOST', parse.hostName, '127.0.0.1'),
    port: read.value('PORT', port, 8080),
    ops: {
      host: read.value('OPS_HOST', parse.hostName, '127.0.0.1'),
      port: read.value('OPS_PORT', port, 8081),
      /** Empty: one token is made at the first start. */
      get tokens(): readonly OpsToken[] {
        return opsTokens?.() ?? [];
      },
      publicUrl: read.value('OPS_PUBLIC_URL', address, null),
    },
    databaseUrl: read.value('DATABASE_URL', parse.databaseUrl, 'file:./data/mirror.db'),
    /** For PostgreSQL only. */
    database: {
      /** The schema of the mirror's tables. With different ones, several mirrors can share a database. */
      schema: read.value('DATABASE_SCHEMA', parse.schemaName, 'public'),
      /** Connections of one process. */
      poolSize: read.value('DATABASE_POOL_SIZE', parse.integer(MIN_POOL_SIZE, 100), 8),
      statementTimeoutMs:
        read.value('DATABASE_STATEMENT_TIMEOUT_SECONDS', parse.decimal(1, 3600, 'seconds'), 30) * SECOND_MS,
      tlsCaFile: read.value('DATABASE_TLS_CA_FILE', fileAt('the path of a PEM file'), null),
    },
    webhook: {
      /** The signing keys, in the order of the setting. Called for each delivery, because their file may change. */
      secrets: signingSecrets ?? (() => NO_SECRETS),
      secretEncoding,
      template: read.value('WEBHOOK_SIGNED_CONTENT', parse.signedContent, parse.templateParts('{t}.{body}')!),
      algorithm: read.value('WEBHOOK_SIGNATURE_ALGORITHM', SIGNATURE_ALGORITHM, 'sha256'),
      /** Lower case. */
      header: read.value('WEBHOOK_SIGNATURE_HEADER', parse.headerName, 'x-webhook-signature'),
      toleranceSeconds: read.value('WEBHOOK_TOLERANCE_SECONDS', tolerance, 300),
      maxBodyBytes: read.value('WEBHOOK_MAX_BODY_BYTES', bytes(MAX_BODY_BYTES_LIMIT), 1_048_576),
      /** For all bodies that are being read, together. */
      bodiesInFlightBytes: read.value('WEBHOOK_BODIES_IN_FLIGHT_BYTES', inFlight, 67_108_864),
    },
    /** The proxies whose `X-Forwarded-For` is believed; null: none. */
    trustedProxies: read.value('TRUSTED_PROXIES', parse.networks, null),
    /** Null: events only. */
    compliance: readCompliance(read),
    /** Null: no secret can be stored. */
    get credentialsKey(): Uint8Array | null {
      return credentialsKey?.() ?? null;
    },
    idPointers: {
      policy: read.value('ID_POINTERS_POLICY', parse.idPointers, policy),
      risk_assessment: read.value('ID_POINTERS_RISK_ASSESSMENT', parse.idPointers, risk_assessment),
      vendor: read.value('ID_POINTERS_VENDOR', parse.idPointers, vendor),
    },
    riskIdsFile: read.value('RISK_IDS_FILE', fileAt('the path of a file'), null),
    sync: {
      settleMs: read.value('SYNC_SETTLE_SECONDS', parse.decimal(0, 3600, 'seconds'), 10) * SECOND_MS,
      fullSyncMs: read.value('SYNC_FULL_MINUTES', parse.decimal(0, 525_600, 'minutes'), 60) * MINUTE_MS,
      silenceMs: read.value('SYNC_SILENCE_HOURS', parse.decimal(0, 8_760, 'hours'), 24) * HOUR_MS,
    },
    process: {
      concurrency: read.value('PROCESS_CONCURRENCY', parse.integer(1, 64), 8),
      retryMaxAttempts: read.value('RETRY_MAX_ATTEMPTS', parse.integer(1, 100), 10),
    },
    retention: {
      bodyDays: read.value('RETENTION_BODY_DAYS', days(1), 90),
      historyDays: read.value('RETENTION_HISTORY_DAYS', days(0), 0),
      dedupeDays: read.value('DEDUPE_DAYS', days(1), 400),
    },
    notify: {
      url: read.value('NOTIFY_URL', HTTPS_OR_LOOPBACK, null),
      format: read.value('NOTIFY_FORMAT', parse.oneOf('json', 'slack'), 'json'),
    },
    /** For commands: the operators' listener of a service on another machine. */
    remote: readRemote(read),
    logLevel: read.value('LOG_LEVEL', LOG_LEVEL, 'info'),
  };

  const { retention, webhook, compliance } = config;
  if (retention.dedupeDays < retention.bodyDays) {
    read.problem(
      `DEDUPE_DAYS: got ${retention.dedupeDays}; takes at least RETENTION_BODY_DAYS (${retention.bodyDays}), so that event ids outlive their bodies`,
    );
  }
  if (webhook.bodiesInFlightBytes < webhook.maxBodyBytes) {
    read.problem(
      `WEBHOOK_BODIES_IN_FLIGHT_BYTES: got ${webhook.bodiesInFlightBytes}; takes at least WEBHOOK_MAX_BODY_BYTES (${webhook.maxBodyBytes}), so that the largest body that is taken finds room`,
    );
  }
  if (compliance?.auth === 'oauth' && !read.isSet('CREDENTIALS_KEY')) {
    read.problem(
      'CREDENTIALS_KEY: not set; COMPLIANCE_AUTH=oauth stores tokens and needs it to encrypt them',
    );
  }
  return config;
}

const NO_SECRETS: readonly Uint8Array[] = [];
const SIGNATURE_ALGORITHM = parse.oneOf('sha256', 'sha384', 'sha512');
const LOG_LEVEL = parse.oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent');
const HTTPS_OR_LOOPBACK = parse.webUrl(
  parse.isHttpsOrLoopback,
  'an https URL, or http to this machine (localhost, 127.0.0.1, [::1])',
);

function readCompliance(read: Reader) {
  const { takes } = HTTPS_OR_LOOPBACK;
  const isPlain = (url: URL) => parse.isHttpsOrLoopback(url) && url.search + url.hash === '';
  const isBase = (url: URL) => isPlain(url) && /\/v1\/?$/.test(url.pathname);
  const base = parse.webUrl(isBase, `${takes}, with a path that ends in /v1`);
  const onOff = parse.oneOf('on', 'off');
  const baseUrl = read.value('COMPLIANCE_BASE_URL', base, null);
  if (baseUrl !== null) baseUrl.pathname = baseUrl.pathname.replace(/\/$/, '');
  const auth = read.value('COMPLIANCE_AUTH', parse.oneOf('api_key', 'oauth', 'service_account'), 'api_key');
  const redirect = parse.text(/^[a-z][a-z0-9+.-]*:\S+$/i, 'an absolute URI');
  const scopes = parse.list(/^[\x21-\x7e]+$/, 'scopes separated by spaces');
  const settings = {
    auth,
    /** Follows its file. */
    apiKey: read.secret('COMPLIANCE_API_KEY', parse.credential),
    authUrl: read.value('COMPLIANCE_AUTH_URL', parse.webUrl(isPlain, takes), null),
    clientId: read.value('COMPLIANCE_CLIENT_ID', parse.credential, null),
    clientSecret: read.secret('COMPLIANCE_CLIENT_SECRET', parse.credential),
    redirectUri: read.value('COMPLIANCE_REDIRECT_URI', redirect, null),
    scopes: read.value('COMPLIANCE_SCOPES', scopes, ['read']),
    pkce: read.value('COMPLIANCE_OAUTH_PKCE', onOff, 'on') === 'on',
    /** Whether a sign-in sends `state` and takes only an answer that brings it back. */
    state: read.value('COMPLIANCE_OAUTH_STATE', onOff, 'on') === 'on',
    requestsPerMinute: read.value('COMPLIANCE_REQUESTS_PER_MINUTE', parse.integer(1, 100_000), 60),
    paging: {
      pageParam: read.value('COMPLIANCE_PAGE_PARAM', parse.parameterName, 'page'),
      perPageParam: read.value('COMPLIANCE_PER_PAGE_PARAM', parse.parameterName, 'perPage'),
      firstPage: read.value('COMPLIANCE_FIRST_PAGE', parse.integer(0, 1), 1),
      pageSize: read.value('COMPLIANCE_PAGE_SIZE', parse.integer(1, 10_000), 100),
    },
    timeoutMs: read.value('COMPLIANCE_TIMEOUT_SECONDS', parse.decimal(0.1, 600, 'seconds'), 10) * SECOND_MS,
  };
  if (settings.paging.pageParam === settings.paging.perPageParam) {
    read.problem(
      `COMPLIANCE_PER_PAGE_PARAM: got ${JSON.stringify(settings.paging.perPageParam)}, which is COMPLIANCE_PAGE_PARAM too; takes another name`,
    );
  }
  if (!settings.pkce && !settings.state) {
    read.problem(
      'COMPLIANCE_OAUTH_STATE: off only with COMPLIANCE_OAUTH_PKCE on; without both, anybody could sign in for you',
    );
  }
  if (!read.isSet('COMPLIANCE_BASE_URL')) return null;
  for (const name of REQUIRED_BY_AUTH[auth]) {
    if (!read.isSet(name)) read.problem(`${name}: not set; COMPLIANCE_AUTH=${auth} needs it`);
  }
  // Without a trailing slash; its path ends in `/v1`.
  return baseUrl === null ? null : { baseUrl, ...settings };
}

function readRemote(read: Reader) {
  const url = read.value('OPS_URL', HTTPS_OR_LOOPBACK, null);
  const token = read.secret('OPS_TOKEN', parse.credential);
  if (url !== null && !read.isSet('OPS_TOKEN')) {
    read.problem('OPS_TOKEN: not set; OPS_URL needs a token of that service (its OPS_TOKENS)');
  }
  return url === null || token === null ? null : { url, token };
}

const OF_ACCOUNTS = ['COMPLIANCE_AUTH_URL', 'COMPLIANCE_CLIENT_ID', 'COMPLIANCE_CLIENT_SECRET'];
const REQUIRED_BY_AUTH = {
  api_key: ['COMPLIANCE_API_KEY'],
  oauth: [...OF_ACCOUNTS, 'COMPLIANCE_REDIRECT_URI'],
  service_account: OF_ACCOUNTS,
};

/** The URL. Throws a UsageError that begins with `name` if somebody on the way could read the requests. */
export function requireHttpsOrLoopback(url: string, name: string): URL {
  const parsed = URL.parse(url);
  if (parsed !== null && parse.isHttpsOrLoopback(parsed)) return parsed;
  throw new UsageError(`${name}: takes ${HTTPS_OR_LOOPBACK.takes}`);
}

/** A key like CREDENTIALS_KEY from the file at `path`. Throws a UsageError that begins with `name`. */
export function readCredentialsKey(path: string, name: string): Uint8Array {
  const read = createReader({ [`${name}_FILE`]: path });
  const key = read.secret(name, parse.credentialsKey);
  if (key === null) throw new UsageError(read.problems.join('\n').replaceAll(`${name}_FILE`, name));
  return key();
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

function fileAt(takes: string): parse.Parser<string> {
  const readable = (path: string) => {
    try {
      accessSync(path, constants.R_OK);
      return path;
    } catch {
      return null;
    }
  };
  return { parse: readable, takes, flaw: (path) => `${path} cannot be read` };
}

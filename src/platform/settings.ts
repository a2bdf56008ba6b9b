import { z } from 'zod';
import { DEFAULT_DELETED_MARKERS, DEFAULT_ID_POINTERS } from '../compliance/pointers.ts';
import * as of from './config-parsers.ts';

/** Every setting, once: docs/settings.md, .env.example, `serve --help` and the messages about wrong ones are made of this. */

/** What people are told of a setting. */
export interface About {
  /** The first sentence stands alone in --help and .env.example, all of it in docs/settings.md. */
  says: string;
  takes: string;
  unit?: string;
  /** Never shown. */
  isSecret?: true;
}

const ABOUT = z.registry<About>();

/** Null where it is not set. */
function optional<Value>({ schema, ...type }: of.Type<Value>, says: string) {
  return z
    .nullable(schema)
    .prefault(null)
    .register(ABOUT, { ...type, says });
}

/** `otherwise`: the default, as one would write it. */
function setting<Value>({ schema, ...type }: of.Type<Value>, otherwise: string, says: string) {
  return schema.prefault(otherwise).register(ABOUT, { ...type, says });
}

/** With more than a day, a delivery could be replayed long after it was sent. */
const MAX_TOLERANCE_SECONDS = 86_400;
/** A whole body is in memory, and a small event needs the other. */
const [MIN_BODY_BYTES, MAX_BODY_BYTES] = [1024, 64 * 1024 * 1024];
/** A hundred years. More is a typing error. */
const MAX_DAYS = 36_500;

const port = of.integer(0, 65_535);

/** What people set. */
const PEOPLE = {
  HOST: setting(of.hostName, '127.0.0.1', 'Where deliveries are received. In the image `0.0.0.0`.'),
  PORT: setting(port, '8080', 'The port of that listener.'),
  OPS_HOST: setting(
    of.hostName,
    '127.0.0.1',
    'Where operators have their page and API. In the image `0.0.0.0`. Beyond this machine it needs https: a proxy before it. With `OPS_PORT` the same as the receiver’s address: one listener serves both.',
  ),
  OPS_PORT: setting(port, '8081', 'The port of that listener.'),
  OPS_TOKENS: optional(
    of.secret(of.opsTokens),
    'Who may look, and who may act. `name:role:token`, with commas between; role `read` or `operate`; tokens of 32 characters or more (`openssl rand -hex 16`). Unset: the first start makes one, in the file `ops-token` beside the database.',
  ),
  OPS_PUBLIC_URL: optional(
    of.originUrl,
    'How operators reach their page behind a proxy. The proxy must pass `Host` on. No path: give the mirror a host name of its own. With https, cookies and browsers (HSTS) use https only. Browsers that use another name with a dot in it get 421; IP addresses, `localhost` and names without a dot always work.',
  ),
  OPS_URL: optional(
    of.safeUrl,
    'For commands: a service elsewhere. The address of its operators’ listener. Commands then work there, for example through an ssh tunnel, and need no database.',
  ),
  OPS_TOKEN: optional(of.secret(of.credential), 'For commands: a token of that service.'),
  DATABASE_URL: setting(
    of.secret(of.databaseUrl),
    'file:./data/mirror.db',
    'The SQLite file, or a PostgreSQL database. The file must be on a local disk, since SQLite’s locks are not reliable on network file systems. Mount its folder, not the file alone, and make no hard link to it. `postgres://USER:PASSWORD@HOST/DATABASE` is for [several replicas](postgresql.md), and then `OPS_TOKENS` is required. Percent-encode each part of it: in a password `@` is `%40`, `#` is `%23`, `?` is `%3F`, `/` is `%2F`.',
  ),
  WEBHOOK_SECRETS: optional(
    of.secret(of.signingSecrets('utf8')),
    'What deliveries are signed with. Secrets with commas between, each of 16 bytes or more once decoded. Any of them may match, so that one can be replaced. Without these and without a registration’s, deliveries get 503.',
  ),
  WEBHOOK_TOLERANCE_SECONDS: setting(
    of.integer(1, MAX_TOLERANCE_SECONDS, 'seconds'),
    '300',
    'How far a delivery’s time may be from ours.',
  ),
  TRUSTED_PROXIES: optional(
    of.networks,
    'Whose X-Forwarded-For is believed. Addresses and networks (`10.0.0.7,192.168.0.0/16`). The rightmost address in the header that is not one of them counts. Unset: the header is never believed.',
  ),
  COMPLIANCE_BASE_URL: optional(
    of.baseUrl,
    'The compliance service’s API, ending in /v1. https, or http on this machine. Unset: events only, and nothing can be verified.',
  ),
  COMPLIANCE_AUTH: setting(
    of.oneOf('api_key', 'oauth', 'service_account'),
    'api_key',
    'How the mirror signs in there. `api_key`; `oauth` (a person consents once, with `login`); `service_account`.',
  ),
  COMPLIANCE_API_KEY: optional(of.secret(of.credential), 'The key, for COMPLIANCE_AUTH=api_key.'),
  COMPLIANCE_AUTH_URL: optional(of.plainSafeUrl, 'OAuth, service accounts: who gives tokens.'),
  COMPLIANCE_CLIENT_ID: optional(of.credential, 'OAuth, service accounts: the client’s id.'),
  COMPLIANCE_CLIENT_SECRET: optional(of.secret(of.credential), 'OAuth, service accounts: its secret.'),
  COMPLIANCE_REDIRECT_URI: optional(
    of.text(/^[a-z][a-z0-9+.-]*:\S+$/i, 'an absolute URI'),
    'OAuth: where the browser comes back to.',
  ),
  COMPLIANCE_SCOPES: setting(
    of.list(/^[\x21-\x7e]+$/, 'scopes separated by spaces'),
    'read',
    'OAuth, service accounts: what to ask for.',
  ),
  CREDENTIALS_KEY: optional(
    of.secret(of.credentialsKey),
    'Encrypts stored tokens and secrets. 32 random bytes in base64 (`openssl rand -base64 32`). `webhook register` and `COMPLIANCE_AUTH=oauth` need it.',
  ),
  COMPLIANCE_REQUESTS_PER_MINUTE: setting(
    of.integer(1, 100_000, 'requests'),
    '60',
    'The most requests to the API in a minute. Retries and restarts included. While nothing is to be read, one every 6 s (at most a sixth of them) asks whether the API still answers.',
  ),
  RISK_IDS_FILE: optional(
    of.fileAt('the path of a file'),
    'Risk assessments besides the known ones. They are read, too. One id a line; `#` begins a comment line.',
  ),
  SYNC_SETTLE_SECONDS: setting(
    of.decimal(0, 3600, 'seconds'),
    '10',
    'How long the API may lag behind a change. The read delay; fractions allowed.',
  ),
  SYNC_FULL_MINUTES: setting(
    of.decimal(0, 525_600, 'minutes'),
    '60',
    'How often everything is compared. `0`: only at the start and on demand.',
  ),
  SYNC_SILENCE_HOURS: setting(
    of.decimal(0, 8_760, 'hours'),
    '24',
    'No delivery for so long is a problem. `0`: never.',
  ),
  DELETION_GUARD_PERCENT: setting(
    of.integer(0, 100),
    '20',
    'How large a part may be deleted unasked. More than this part of a kind (and more than two records), or all of two or more, announced or not, within ten minutes waits for you. Announced ones come one by one, so the first may have gone.',
  ),
  RETENTION_BODY_DAYS: setting(
    of.integer(1, MAX_DAYS, 'days'),
    '90',
    'How long bodies of deliveries are kept. Of processed events and of quarantined deliveries; their senders’ addresses.',
  ),
  RETENTION_HISTORY_DAYS: setting(
    of.integer(0, MAX_DAYS, 'days'),
    '0',
    'How long changes, audit and events are kept. Also what the verdicts were. `0`: for ever.',
  ),
  NOTIFY_URL: optional(
    of.secret(of.notifyUrl),
    'Gets a POST when a problem opens and resolves. https, or http within your own network ([what it gets](operations.md#notifications)). An address at Slack gets what Slack’s incoming webhooks take.',
  ),
  LOG_LEVEL: setting(
    of.oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
    'info',
    'The least severe lines that are logged. `trace`, `debug`, `info`, `warn`, `error`, `fatal`, `silent`.',
  ),
};

/** Most installations need none of these. */
const ADVANCED = {
  DATABASE_SCHEMA: setting(
    of.schemaName,
    'public',
    'PostgreSQL: the schema of the tables. So that several mirrors can share a database.',
  ),
  DATABASE_TLS_CA_FILE: optional(
    of.fileAt('the path of a PEM file'),
    'PostgreSQL: whose certificates are trusted. A PEM file of the authority that signed the server’s. Turns on TLS, like `sslmode=verify-full` in the URL.',
  ),
  WEBHOOK_SECRET_ENCODING: setting(
    of.secretEncoding,
    'utf8',
    'How a signing secret becomes a key. Also a registration’s. `utf8` (its text), `hex`, or `base64` (either alphabet, with or without padding); or one of them after a prefix that is no part of the key (`whsec_base64`). A secret that does not decode completely is never used.',
  ),
  WEBHOOK_SIGNED_CONTENT: setting(
    of.signedContent,
    '{t}.{body}',
    'What is signed: text with {t} and {body}.',
  ),
  WEBHOOK_SIGNATURE_ALGORITHM: setting(
    of.oneOf('sha256', 'sha384', 'sha512'),
    'sha256',
    'The hash of the signature’s HMAC. `sha256`, `sha384` or `sha512`.',
  ),
  WEBHOOK_SIGNATURE_HEADER: setting(
    of.headerName,
    'X-Webhook-Signature',
    'The header that has the signature.',
  ),
  WEBHOOK_MAX_BODY_BYTES: setting(
    of.integer(MIN_BODY_BYTES, MAX_BODY_BYTES, 'bytes'),
    '1048576',
    'Larger deliveries get 413.',
  ),
  COMPLIANCE_PAGE_PARAM: setting(
    of.parameterName,
    'page',
    'Lists: the parameter of the page’s number. One called `offset`, `skip` or `start` gets a number of records. A full sync that does not fit says so, and names the usual ones.',
  ),
  COMPLIANCE_PER_PAGE_PARAM: setting(of.parameterName, 'perPage', 'Lists: the parameter of the page’s size.'),
  COMPLIANCE_FIRST_PAGE: setting(of.integer(0, 1), '1', 'Lists: the number of the first page. `0` or `1`.'),
  COMPLIANCE_PAGE_SIZE: setting(
    of.integer(1, 10_000, 'records'),
    '100',
    'Lists: how many records to ask for.',
  ),
  COMPLIANCE_OAUTH_OMIT: optional(
    of.anyOf('pkce', 'state'),
    'What a sign-in leaves out. `pkce` or `state`, for a service that refuses PKCE’s parameters, or does not send `state` back. Never both: anybody could sign in for you.',
  ),
  ID_POINTERS_POLICY: pointers(
    'policy',
    'Where the id of a policy is. In events and in the API’s answers, tried in this order.',
  ),
  ID_POINTERS_RISK_ASSESSMENT: pointers('risk_assessment', 'Where the id of a risk assessment is.'),
  ID_POINTERS_VENDOR: pointers('vendor', 'Where the id of a vendor is.'),
  FIELD_POINTERS: optional(
    of.fieldPointers,
    'Where name, status and version are. `KIND:COLUMN=PATH` with commas between, such as `policy:status=state.code,vendor:name=profile.name`; without `KIND:` of all kinds. Unset: `name` or `title`, `status`, `version`, each in small letters or with a capital.',
  ),
  DELETED_MARKERS: setting(
    of.deletedMarkers,
    DEFAULT_DELETED_MARKERS.join(','),
    'What marks a record as deleted. Dotted paths of fields whose value is a word for yes or a day that has been (of your own: also any other text, unless it is a word for no), or `PATH=VALUE`; without case, and without what stands between words.',
  ),
  IGNORED_FIELDS: optional(
    of.ignoredFields,
    'Fields that are no difference. Such as a link that is signed anew in each answer. `KIND:PATH` with commas between (`policy:documentUrl`); without `KIND:` of all kinds. Their last value is stored, and they get no column of their own.',
  ),
};

export const SETTINGS = z.object({ ...PEOPLE, ...ADVANCED });

function pointers(kind: keyof typeof DEFAULT_ID_POINTERS, says: string) {
  return setting(of.idPointers, DEFAULT_ID_POINTERS[kind].join(','), says);
}

export type SettingName = keyof typeof SETTINGS.shape;
export const SETTING_NAMES = Object.keys(SETTINGS.shape) as SettingName[];

/** `otherwise`: the default, as one would write it; null: there is none. `brief`: the first sentence. */
export function aboutSetting(name: SettingName) {
  const schema = SETTINGS.shape[name];
  const isAdvanced = Object.hasOwn(ADVANCED, name);
  const about = ABOUT.get(schema as z.ZodType)!;
  const end = about.says.indexOf('. ');
  const brief = end < 0 ? about.says : about.says.slice(0, end + 1);
  const otherwise: string | null = schema.def.defaultValue;
  return { ...about, brief, otherwise, isAdvanced };
}

/** The columns of a terminal that is not told otherwise leave this much behind the longest name. */
const NAME_COLUMNS = 32;

/** For `serve --help`: a line for each setting. */
export function settingsHelp(): string {
  const lines = (wanted: boolean) =>
    SETTING_NAMES.filter((name) => aboutSetting(name).isAdvanced === wanted)
      .map((name) => `  ${name.padEnd(NAME_COLUMNS)}${aboutSetting(name).brief}\n`)
      .join('');
  return `Settings (docs/settings.md says more; each also as NAME_FILE, a file's path):\n${lines(false)}\nAdvanced settings:\n${lines(true)}`;
}

import { accessSync, constants } from 'node:fs';
import { BlockList, isIP } from 'node:net';
import { z } from 'zod';
import { isKind } from '../compliance/kinds.ts';
import { COLUMNS, type Column, type FieldPath } from '../compliance/pointers.ts';
import { isHttpsOrLoopback, isWithinNetwork } from './addresses.ts';
import {
  decodeSigningSecret,
  decodeWhole,
  flawText,
  isSecretEncoding,
  MIN_SIGNING_KEY_BYTES,
  type SecretEncoding,
} from './signing-secret.ts';

/** The types of settings: each turns the text in the environment into a value. */

/** A part of the signed bytes: literal text, the timestamp as sent, or the raw body. */
export type TemplatePart = { kind: 'text'; text: string } | { kind: 'timestamp' } | { kind: 'body' };

/** A type, and for people what it takes and its unit. Of a custom issue `params.flaw` says what is wrong, without any part of a secret. */
export interface Type<Value> {
  schema: z.ZodType<Value, string>;
  takes: string;
  unit?: string;
  /** Its text is never shown. */
  isSecret?: true;
}

export const secret = <Value>(type: Type<Value>): Type<Value> => ({ ...type, isSecret: true });

/** `read` gives null for a text that cannot be used, and then `flaw` says why, if it knows more than `takes`. */
function type<Value>(
  takes: string,
  read: (text: string) => Value | null,
  flaw: (text: string) => string | null = () => null,
): Type<Value> {
  const schema = z.string().transform((text, issues): Value => {
    const value = read(text);
    if (value !== null) return value;
    issues.addIssue({ code: 'custom', params: { flaw: flaw(text) } });
    return z.NEVER;
  });
  return { schema, takes };
}

export function text(pattern: RegExp, takes: string): Type<string> {
  return { schema: z.string().regex(pattern), takes };
}

const numeric = (pattern: RegExp, min: number, max: number) =>
  z.string().regex(pattern).transform(Number).pipe(z.number().min(min).max(max));

export function integer(min: number, max: number, unit?: string): Type<number> {
  const takes = `a whole number${unit === undefined ? '' : ` of ${unit}`} from ${min} to ${max}`;
  return { schema: numeric(/^\d{1,15}$/, min, max), takes, ...(unit === undefined ? {} : { unit }) };
}

export function decimal(min: number, max: number, unit: string): Type<number> {
  const takes = `a number of ${unit} from ${min} to ${max}, fractions allowed`;
  return { schema: numeric(/^\d{1,9}(\.\d{1,9})?$/, min, max), takes, unit };
}

export function oneOf<const Word extends string>(...words: readonly Word[]): Type<Word> {
  return { schema: z.enum(words) as unknown as z.ZodType<Word, string>, takes: `one of ${words.join(', ')}` };
}

/** A file that is there, and can be read. */
export function fileAt(takes: string): Type<string> {
  const readable = (path: string) => {
    try {
      accessSync(path, constants.R_OK);
      return path;
    } catch {
      return null;
    }
  };
  return type(takes, readable, (path) => `${path} cannot be read`);
}

const wordsIn = (value: string) => value.split(/[\s,]+/).filter((word) => word !== '');

/** Words separated by commas or spaces. */
export function list(word: RegExp, takes: string): Type<readonly string[]> {
  return type(takes, (value) => {
    const items = wordsIn(value);
    return items.length > 0 && items.every((item) => word.test(item)) ? items : null;
  });
}

/** The same, of which each is one of these. */
export function anyOf<const Word extends string>(...words: readonly Word[]): Type<Word[]> {
  return type(`${words.join(' or ')}`, (value) => {
    const items = wordsIn(value);
    return items.every((item): item is Word => words.some((word) => word === item)) ? items : null;
  });
}

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

export const hostName = text(/^[A-Za-z0-9._:%-]+$/, 'a host name or an address such as 127.0.0.1 or ::1');
export const headerName = type("an HTTP header's name", (name) =>
  HEADER_NAME.test(name) ? name.toLowerCase() : null,
);
export const parameterName = text(/^[A-Za-z0-9_.[\]-]{1,64}$/, 'the name of a query parameter');
export const deletedMarkers = list(
  /^[^\s.,:=]+(\.[^\s.,:=]+)*(=[^\s,:=]+)?$/,
  'dotted paths separated by commas, each alone or as PATH=VALUE',
);

const FIELD_PATH =
  /^(?:(?<kind>[a-z_]+):)?(?:(?<column>[a-z]+)=)?(?<path>[^\s.,:="\\]+(?:\.[^\s.,:="\\]+)*)$/;

function fieldPaths<Of>(takes: string, read: (groups: Record<string, string | undefined>) => Of | null) {
  return type(takes, (value): FieldPath<Of>[] | null => {
    const paths = wordsIn(value).map((word) => {
      const groups = FIELD_PATH.exec(word)?.groups;
      if (groups === undefined) return null;
      const { kind = null, path } = groups;
      const of = read(groups);
      return of === null || (kind !== null && !isKind(kind)) ? null : { kind, path: path!, ...of };
    });
    return paths.length > 0 && paths.every((path) => path !== null) ? paths : null;
  });
}

export const ignoredFields = fieldPaths(
  'KIND:PATH separated by commas, such as policy:documentUrl; without a kind of all',
  ({ column }) => (column === undefined ? {} : null),
);
export const fieldPointers = fieldPaths(
  'KIND:COLUMN=PATH separated by commas, such as policy:status=state.code; without a kind of all',
  ({ column }) => (COLUMNS.some((one) => one === column) ? { column: column as Column } : null),
);

export const idPointers = list(
  /^[^\s.,]+(\.[^\s.,]+)*$/,
  'dotted paths separated by commas, such as policyId,policy.id',
);

/**
 * An unencoded @, /, # or ? in a password is refused: programs read such an address in different ways, and parts of the password
 * would be taken for a host, a port or a database, and shown.
 */
export const databaseUrl = type(
  'file:PATH (SQLite, without parameters) or postgres://USER:PASSWORD@HOST/DATABASE, each part percent-encoded',
  (value) => (isFilePlace(value) || (isServerUrl(value) && !isAmbiguous(value)) ? value : null),
  (value) =>
    isServerUrl(value) && isAmbiguous(value)
      ? 'has a user or a password that is not percent-encoded: write %40 for @, %23 for #, %3F for ? and %2F for /'
      : null,
);

const isServerUrl = (value: string) => /^postgres(ql)?:\/\/./s.test(value);
/** All but: at most one @, before anything else; another only within parameters. */
const isAmbiguous = (value: string) => !/^\w+:\/\/([^@/?#]*@)?[^@?#]*(\?\w+=[^#]*)?$/.test(value);

/**
 * Refuses a database in memory, which would end with the process; blanks at the ends, which SQLite's driver removes; and
 * parameters, which would become a part of the file's name, so that an empty database would be made.
 */
function isFilePlace(value: string): boolean {
  const path = value.slice('file:'.length);
  return (
    value.startsWith('file:') &&
    path !== '' &&
    path !== ':memory:' &&
    path === path.trim() &&
    !path.includes('?')
  );
}

/** Only names that need no quotes in SQL. */
export const schemaName = text(
  /^[a-z_][a-z0-9_]{0,62}$/,
  'a name of lower-case letters, digits and _, at most 63 characters',
);
/** A text that needs no encoding in an Authorization header or a JSON body. */
export const credential = text(/^[\x21-\x7e]+$/, 'printable ASCII without spaces');

export const networks = type(
  'addresses and networks separated by commas, such as 10.0.0.7,192.168.0.0/16, none of all addresses (/0)',
  (value) => {
    const list = new BlockList();
    const items = wordsIn(value);
    return items.length > 0 && items.every((item) => addNetwork(list, item)) ? list : null;
  },
);

function addNetwork(list: BlockList, item: string): boolean {
  const [address = '', prefix, ...rest] = item.split('/');
  const version = isIP(address);
  const longest = version === 6 ? 128 : 32;
  if (version === 0 || rest.length > 0) return false;
  if (prefix !== undefined && !/^\d{1,3}$/.test(prefix)) return false;
  const bits = Number(prefix ?? longest);
  // With 0 bits all clients would be trusted, and each could claim any address.
  if (bits === 0 || bits > longest) return false;
  list.addSubnet(address, bits, version === 6 ? 'ipv6' : 'ipv4');
  return true;
}

/** `flaw`: why such an address cannot be used. */
function webUrl(takes: string, flaw: (url: URL) => string | null): Type<URL> {
  const plain = (value: string) => {
    const url = URL.parse(value);
    return url !== null && /^https?:$/.test(url.protocol) && url.username + url.password === '' ? url : null;
  };
  const flawOf = (value: string) => {
    const url = plain(value);
    return url === null ? null : flaw(url);
  };
  return type(takes, (value) => (flawOf(value) === null ? plain(value) : null), flawOf);
}

const SAFE = 'an https URL, or http to this machine (localhost, 127.0.0.1, [::1])';
const unsafe = (url: URL) => (isHttpsOrLoopback(url) ? null : 'is http to another machine');
const queried = (url: URL) => (url.search + url.hash === '' ? null : 'has a query');

export const safeUrl = webUrl(SAFE, unsafe);
/** What is sent there is no secret. */
export const notifyUrl = webUrl(
  'an https URL, or http within your own network (a private address, a name without dots, ….svc, ….internal)',
  (url) => (isWithinNetwork(url.hostname) ? null : unsafe(url)),
);
export const plainSafeUrl = webUrl(`${SAFE}, no query`, (url) => unsafe(url) ?? queried(url));
/** The pages' links begin at the root. */
export const originUrl = webUrl('no path and no query: only http or https, a host and a port', (url) =>
  url.pathname === '/' ? queried(url) : 'has a path',
);
export const baseUrl = webUrl(
  `${SAFE}, with a path that ends in /v1`,
  (url) => unsafe(url) ?? queried(url) ?? (/\/v1\/?$/.test(url.pathname) ? null : 'has another path'),
);

/** Null if a brace is no part of a placeholder: a misspelt placeholder, taken as text, would make every signature fail. */
export function templateParts(template: string): readonly TemplatePart[] | null {
  const parts: TemplatePart[] = [];
  for (const piece of template.split(/(\{[^{}]*\})/)) {
    if (piece === '') continue;
    if (piece === '{t}') parts.push({ kind: 'timestamp' });
    else if (piece === '{body}') parts.push({ kind: 'body' });
    else if (/[{}]/.test(piece)) return null;
    else parts.push({ kind: 'text', text: piece });
  }
  return parts;
}

/** `WEBHOOK_SIGNED_CONTENT`. */
export const signedContent = type('text with {t} and {body} in it, and no other braces', (template) => {
  const parts = templateParts(template);
  const has = (kind: TemplatePart['kind']) => parts?.some((part) => part.kind === kind) ?? false;
  return has('timestamp') && has('body') ? parts : null;
});

export const secretEncoding: Type<SecretEncoding> = type(
  'utf8, hex or base64, or one of them after a prefix that is no part of the key, such as whsec_base64',
  (value) => (isSecretEncoding(value) ? value : null),
);

/** The keys, in the order of the text. */
export function signingSecrets(encoding: SecretEncoding): Type<readonly Uint8Array[]> {
  const decoded = (value: string) =>
    value.split(',').map((part) => {
      const { key, flaw } = decodeSigningSecret(part.trim(), encoding);
      if (flaw !== null) return { key, flaw: flawText(flaw, encoding) };
      // Several lines in a file are meant as several secrets.
      return /[\r\n]/.test(part.trim()) ? { key: null, flaw: 'has a line break in it' } : { key, flaw: null };
    });
  return type(
    `secrets separated by commas, each of at least ${MIN_SIGNING_KEY_BYTES} bytes once decoded as ${encoding} (WEBHOOK_SECRET_ENCODING)`,
    (value) => {
      const secrets = decoded(value);
      const keys = secrets.flatMap(({ key }) => key ?? []);
      return keys.length === secrets.length ? keys : null;
    },
    (value) => numbered('secret', decoded(value)),
  );
}

const numbered = (what: string, items: readonly { flaw: string | null }[]) =>
  items.flatMap(({ flaw }, index) => (flaw === null ? [] : [`${what} ${index + 1} ${flaw}`])).join('; ');

export interface OpsToken {
  name: string;
  role: 'read' | 'operate';
  token: string;
}

/** 128 bits of `openssl rand -hex 16`: no rate of guessing finds such a token, so nothing else limits guessing. */
const TOKEN_MIN_CHARACTERS = 32;
/** In the audit these stand for something else. */
const ACTORS = ['api', 'cli', 'first-start', 'register', 'service', 'setup', 'unknown', 'upstream'];
const PUBLISHED = /^(?:0123456789abcdef|1234567890)|change.?me|your.?(?:token|key)|openssl|\.\.\.|…/i;
/** What examples and tests have as a token or a key, here and elsewhere. */
const isPublished = (text: string) => new Set(text).size === 1 || PUBLISHED.test(text);

export const opsTokens = type(
  `name:role:token entries separated by commas, role read or operate, tokens of at least ${TOKEN_MIN_CHARACTERS} characters such as \`openssl rand -hex 16\` prints, no name or token twice`,
  (value): OpsToken[] | null => {
    const entries = opsEntries(value);
    return entries.every(({ flaw }) => flaw === null)
      ? entries.map(({ name, role, token }) => ({ name, role: role as OpsToken['role'], token }))
      : null;
  },
  (value) => numbered('entry', opsEntries(value)),
);

/** A flaw quotes no part of an entry, because it may be a token. */
function opsEntries(value: string) {
  const entries = value.split(',').map((text) => {
    const [name = '', role = '', ...rest] = text.trim().split(':');
    return { name, role, token: rest.join(':') };
  });
  type Entry = (typeof entries)[number];
  const isTaken = (entry: Entry, key: 'name' | 'token') =>
    entries.find((each) => each[key] === entry[key]) !== entry;
  const flawOf = (entry: Entry): string | null => {
    const { name, role, token } = entry;
    if (!/^[\w.-]{1,64}$/.test(name) || !/^(read|operate)$/.test(role))
      return 'is not of the form name:role:token';
    if (ACTORS.includes(name.toLowerCase())) return 'has a name that the audit uses for the mirror itself';
    if (isTaken(entry, 'name') || isTaken(entry, 'token'))
      return 'has the name or the token of one before it';
    return tokenFlaw(token);
  };
  return entries.map((entry) => ({ ...entry, flaw: flawOf(entry) }));
}

/** Why an operator's token cannot be used, to follow "it"; null: it can. */
export function tokenFlaw(token: string): string | null {
  if (!/^[\x21-\x7e]*$/.test(token)) return 'has a token with a space or a character beyond ASCII';
  if (token.length < TOKEN_MIN_CHARACTERS)
    return `has a token of fewer than ${TOKEN_MIN_CHARACTERS} characters`;
  return isPublished(token) ? 'has a token that stands in an example' : null;
}

/** AES-256's key. */
const CREDENTIALS_KEY_BYTES = 32;

function wholeKey(value: string): Uint8Array | null {
  const key = decodeWhole(value, 'base64');
  return key?.length === CREDENTIALS_KEY_BYTES ? key : null;
}

export const credentialsKey: Type<Uint8Array> = type(
  `${CREDENTIALS_KEY_BYTES} bytes in base64, such as \`openssl rand -base64 ${CREDENTIALS_KEY_BYTES}\` prints`,
  (value) => {
    const key = wholeKey(value);
    return key === null || isPublished(Buffer.from(key).toString('latin1')) ? null : key;
  },
  (value) => (wholeKey(value) === null ? null : 'stands in an example'),
);

import { BlockList, isIP } from 'node:net';
import { isLoopback } from './addresses.ts';
import {
  decodeSigningSecret,
  decodeWhole,
  flawText,
  isSecretEncoding,
  MIN_SIGNING_KEY_BYTES,
  type SecretEncoding,
} from './signing-secret.ts';
import { estimatedBits, TOKEN_MIN_BITS } from './token-strength.ts';

/** A part of the signed bytes: literal text, the timestamp as sent, the raw body, or a request header's value. */
export type TemplatePart =
  | { kind: 'text'; text: string }
  | { kind: 'timestamp' }
  | { kind: 'body' }
  | { kind: 'header'; name: string };

/** Turns a setting's text into its value. */
export interface Parser<Value> {
  /** Null: the text cannot be used. */
  parse(text: string): Value | null;
  /** For people: the texts that can be used. */
  takes: string;
  /** What is wrong with a text that cannot be used, without any part of a secret. Null: nothing beyond `takes`. */
  flaw?(text: string): string | null;
}

/** AES-256's key. */
const CREDENTIALS_KEY_BYTES = 32;
/** Different bytes in a key of 32. A random key has about 30. */
const MIN_DISTINCT_KEY_BYTES = 16;

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

export function text(pattern: RegExp, takes: string): Parser<string> {
  return { parse: (value) => (pattern.test(value) ? value : null), takes };
}

function numeric(pattern: RegExp, min: number, max: number, takes: string): Parser<number> {
  const parse = (value: string) =>
    pattern.test(value) && Number(value) >= min && Number(value) <= max ? Number(value) : null;
  return { parse, takes };
}

export function integer(min: number, max: number, unit = ''): Parser<number> {
  return numeric(/^\d{1,15}$/, min, max, `a whole number${unit && ` of ${unit}`} from ${min} to ${max}`);
}

export function decimal(min: number, max: number, unit: string): Parser<number> {
  const takes = `a number of ${unit} from ${min} to ${max}, fractions allowed`;
  return numeric(/^\d{1,9}(\.\d{1,9})?$/, min, max, takes);
}

export function oneOf<const Word extends string>(...words: readonly Word[]): Parser<Word> {
  return {
    parse: (value) => words.find((word) => word === value) ?? null,
    takes: `one of ${words.join(', ')}`,
  };
}

const wordsIn = (value: string) => value.split(/[\s,]+/).filter((word) => word !== '');

/** Words separated by commas or spaces. */
export function list(word: RegExp, takes: string): Parser<string[]> {
  const parse = (value: string) => {
    const items = wordsIn(value);
    return items.length > 0 && items.every((item) => word.test(item)) ? items : null;
  };
  return { parse, takes };
}

export const hostName = text(/^[A-Za-z0-9._:%-]+$/, 'a host name or an address such as 127.0.0.1 or ::1');
export const headerName: Parser<string> = {
  parse: (name) => (HEADER_NAME.test(name) ? name.toLowerCase() : null),
  takes: "an HTTP header's name",
};
export const parameterName = text(/^[A-Za-z0-9_.[\]-]{1,64}$/, 'the name of a query parameter');
export const idPointers = list(
  /^[^\s.,]+(\.[^\s.,]+)*$/,
  'dotted paths separated by commas, such as policyId,policy.id',
);
export const databaseUrl: Parser<string> = {
  parse: (value) => (isFilePlace(value) || isServerUrl(value) ? value : null),
  takes:
    'file:PATH (SQLite, without parameters) or postgres://USER:PASSWORD@HOST/DATABASE, each part percent-encoded',
};

/**
 * Refuses an @ in the path, behind # or behind a ? without a path: it shows that the password has an unencoded /, # or ?. Parts of
 * that password would be taken for a port and a database, and shown.
 */
function isServerUrl(value: string): boolean {
  return /^postgres(ql)?:\/\/./s.test(value) && !/^[^:]*:\/\/[^/?#]*(\?.*|[/#][^?]*)@/s.test(value);
}

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

export const networks: Parser<BlockList> = {
  parse(value) {
    const list = new BlockList();
    const items = wordsIn(value);
    return items.length > 0 && items.every((item) => addNetwork(list, item)) ? list : null;
  },
  takes:
    'addresses and networks separated by commas, such as 10.0.0.7,192.168.0.0/16, none of all addresses (/0)',
};

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

export function webUrl(check: (url: URL) => boolean, takes: string): Parser<URL> {
  const parse = (value: string) => {
    const url = URL.parse(value);
    const isPlain = url !== null && /^https?:$/.test(url.protocol) && url.username + url.password === '';
    return isPlain && check(url) ? url : null;
  };
  return { parse, takes };
}

export function isHttpsOrLoopback(url: URL): boolean {
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname));
}

/** Null if a brace is no part of a placeholder: a misspelt placeholder, taken as text, would make every signature fail. */
export function templateParts(template: string): readonly TemplatePart[] | null {
  const parts: TemplatePart[] = [];
  for (const piece of template.split(/(\{[^{}]*\})/)) {
    if (piece === '') continue;
    if (piece === '{t}') parts.push({ kind: 'timestamp' });
    else if (piece === '{body}') parts.push({ kind: 'body' });
    else if (piece.startsWith('{header:') && HEADER_NAME.test(piece.slice(8, -1))) {
      parts.push({ kind: 'header', name: piece.slice(8, -1).toLowerCase() });
    } else if (/[{}]/.test(piece)) return null;
    else parts.push({ kind: 'text', text: piece });
  }
  return parts;
}

/** `WEBHOOK_SIGNED_CONTENT`. */
export const signedContent: Parser<readonly TemplatePart[]> = {
  parse(template) {
    const parts = templateParts(template);
    const has = (kind: TemplatePart['kind']) => parts?.some((part) => part.kind === kind) ?? false;
    return has('timestamp') && has('body') ? parts : null;
  },
  takes: 'text with {t} and {body} in it, if necessary {header:NAME}, and no other braces',
};

export const secretEncoding: Parser<SecretEncoding> = {
  parse: (value) => (isSecretEncoding(value) ? value : null),
  takes:
    'utf8, hex or base64, or one of them after a prefix that is no part of the key, such as whsec_base64',
};

export function signingSecrets(encoding: SecretEncoding): Parser<readonly Uint8Array[]> {
  const decoded = (value: string) =>
    value.split(',').map((part) => {
      const { key, flaw } = decodeSigningSecret(part.trim(), encoding);
      if (flaw !== null) return { key, flaw: flawText(flaw, encoding) };
      // Several lines in a file are meant as several secrets.
      return /[\r\n]/.test(part.trim()) ? { key: null, flaw: 'has a line break in it' } : { key, flaw: null };
    });
  return {
    parse(value) {
      const secrets = decoded(value);
      const keys = secrets.flatMap(({ key }) => key ?? []);
      return keys.length === secrets.length ? keys : null;
    },
    flaw: (value) => numbered('secret', decoded(value)),
    takes: `secrets separated by commas, each of at least ${MIN_SIGNING_KEY_BYTES} bytes once decoded as ${encoding} (WEBHOOK_SECRET_ENCODING)`,
  };
}

const numbered = (what: string, items: readonly { flaw: string | null }[]) =>
  items.flatMap(({ flaw }, index) => (flaw === null ? [] : [`${what} ${index + 1} ${flaw}`])).join('; ');

export interface OpsToken {
  name: string;
  role: 'read' | 'operate';
  token: string;
}

export const opsTokens: Parser<OpsToken[]> = {
  parse(value) {
    const entries = opsEntries(value);
    return entries.every(({ flaw }) => flaw === null)
      ? entries.map(({ name, role, token }) => ({ name, role: role as OpsToken['role'], token }))
      : null;
  },
  flaw: (value) => numbered('entry', opsEntries(value)),
  takes: `name:role:token entries separated by commas, role read or operate, tokens of at least ${TOKEN_MIN_BITS} bits such as \`openssl rand -hex 16\` prints, no name or token twice`,
};

function opsEntries(value: string) {
  const entries = value.split(',').map((text) => {
    const [name = '', role = '', ...rest] = text.trim().split(':');
    return { text: text.trim(), name, role, token: rest.join(':'), isWhole: rest.length > 0 };
  });
  type Entry = (typeof entries)[number];
  const sameAs = (entry: Entry, key: 'name' | 'token') => {
    const first = entries.findIndex((each) => each[key] === entry[key]);
    return entries[first] === entry ? null : `has the same ${key} as entry ${first + 1}`;
  };
  /** Quotes no part of the entry, because it may be a token. */
  const flawOf = (entry: Entry): string | null => {
    const { text, name, role, token, isWhole } = entry;
    if (text === '') return 'is empty';
    if (!isWhole) return 'is not of the form name:role:token';
    if (!/^[\w.-]{1,64}$/.test(name))
      return 'has a name that is not 1 to 64 letters, digits, ".", "_" or "-"';
    if (!/^(read|operate)$/.test(role)) return 'has a role that is neither read nor operate';
    if (!/^[\x21-\x7e]*$/.test(token)) return 'has a token with a space or a character beyond ASCII';
    const bits = estimatedBits(token);
    if (bits < TOKEN_MIN_BITS) return `has a token of about ${Math.floor(bits)} bits, by its characters`;
    return sameAs(entry, 'name') ?? sameAs(entry, 'token');
  };
  return entries.map((entry) => ({ ...entry, flaw: flawOf(entry) }));
}

/** Whether it is a typed text or an example: one random key in 10^13 is printable, and one in 10^15 has so few different bytes. */
function looksTyped(key: Uint8Array): boolean {
  return key.every((byte) => byte >= 0x20 && byte < 0x7f) || new Set(key).size < MIN_DISTINCT_KEY_BYTES;
}

function wholeKey(value: string): Uint8Array | null {
  const key = decodeWhole(value, 'base64');
  return key?.length === CREDENTIALS_KEY_BYTES ? key : null;
}

export const credentialsKey: Parser<Uint8Array> = {
  parse(value) {
    const key = wholeKey(value);
    return key === null || looksTyped(key) ? null : key;
  },
  flaw: (value) =>
    wholeKey(value) === null ? null : 'is not random: somebody typed it, or it stands in an example',
  takes: `${CREDENTIALS_KEY_BYTES} bytes in base64, such as \`openssl rand -base64 ${CREDENTIALS_KEY_BYTES}\` prints`,
};

import { BlockList, isIP } from 'node:net';
import { z } from 'zod';
import {
  decodeSigningSecret,
  decodeWhole,
  flawText,
  isSecretEncoding,
  MIN_SIGNING_KEY_BYTES,
  type SecretEncoding,
} from './signing-secret.ts';
import { estimatedBits, TOKEN_MIN_BITS } from './token-strength.ts';

/** One piece of the signed bytes: literal text, the timestamp as sent, the raw body, or a request header's value. */
export type TemplatePart =
  | { kind: 'text'; text: string }
  | { kind: 'timestamp' }
  | { kind: 'body' }
  | { kind: 'header'; name: string };

export interface OpsToken {
  name: string;
  role: 'read' | 'operate';
  token: string;
}

/** What the environment holds: `process.env`, or a plain object in a test. */
/** How one setting's text becomes its value, and, for people, what it takes. */
export interface Parser<Value> {
  /** An issue whose params say `isForPeople` tells what is wrong, without the text itself. */
  schema: z.ZodType<Value, string>;
  takes: string;
}

/** AES-256's key. */
const CREDENTIALS_KEY_BYTES = 32;
/** Different ones among a key's 32 bytes; random keys have about 30. */
const MIN_DISTINCT_KEY_BYTES = 16;

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

// ─── parsers of one value ───────────────────────────────────────────────────────────────────────────────

export function text(pattern: RegExp, takes: string): Parser<string> {
  return { schema: z.string().regex(pattern), takes };
}

export function integer(min: number, max: number, unit = ''): Parser<number> {
  return {
    schema: z
      .string()
      .regex(/^\d{1,15}$/)
      .transform(Number)
      .refine((value) => value >= min && value <= max),
    takes: `a whole number${unit && ` of ${unit}`} from ${min} to ${max}`,
  };
}

export function decimal(min: number, max: number, unit: string): Parser<number> {
  return {
    schema: z
      .string()
      .regex(/^\d{1,9}(\.\d{1,9})?$/)
      .transform(Number)
      .refine((value) => value >= min && value <= max),
    takes: `a number of ${unit} from ${min} to ${max}, fractions allowed`,
  };
}

export function oneOf<const Word extends string>(...words: readonly Word[]): Parser<Word> {
  return { schema: z.enum(words) as unknown as z.ZodType<Word, string>, takes: `one of ${words.join(', ')}` };
}

/** Words separated by commas or spaces. */
export function list(word: RegExp, takes: string): Parser<string[]> {
  return {
    schema: z
      .string()
      .transform((value) => value.split(/[\s,]+/).filter((item) => item !== ''))
      .refine((items) => items.length > 0 && items.every((item) => word.test(item))),
    takes,
  };
}

export const hostName = text(/^[A-Za-z0-9._:%-]+$/, 'a host name or an address such as 127.0.0.1 or ::1');
export const headerName: Parser<string> = {
  schema: z
    .string()
    .regex(HEADER_NAME)
    .transform((name) => name.toLowerCase()),
  takes: "an HTTP header's name",
};
/** Addresses and networks: `10.0.0.7, 192.168.0.0/16, fd00::/8`. */
export const networks: Parser<BlockList> = {
  schema: z.string().transform((value, context) => {
    const list = new BlockList();
    const items = value.split(/[\s,]+/).filter((item) => item !== '');
    if (items.length > 0 && items.every((item) => addNetwork(list, item))) return list;
    context.addIssue('not a list of networks');
    return z.NEVER;
  }),
  takes: 'addresses and networks separated by commas, such as 10.0.0.7,192.168.0.0/16',
};

function addNetwork(list: BlockList, item: string): boolean {
  const [address = '', prefix, ...rest] = item.split('/');
  const version = isIP(address);
  const bits = version === 6 ? 128 : 32;
  if (version === 0 || rest.length > 0) return false;
  if (prefix !== undefined && (!/^\d{1,3}$/.test(prefix) || Number(prefix) > bits)) return false;
  // All addresses: whoever connects could name whom he likes.
  if (prefix !== undefined && Number(prefix) === 0) return false;
  list.addSubnet(address, prefix === undefined ? bits : Number(prefix), version === 6 ? 'ipv6' : 'ipv4');
  return true;
}

export const parameterName = text(/^[A-Za-z0-9_.[\]-]{1,64}$/, 'the name of a query parameter');
export const idPointers = list(
  /^[^\s.,]+(\.[^\s.,]+)*$/,
  'dotted paths separated by commas, such as policyId,policy.id',
);

export const databaseUrl = text(
  /^(file:.+|postgres(ql)?:\/\/.+)$/s,
  'file:PATH (SQLite) or postgres://USER:PASSWORD@HOST/DATABASE',
);

/** What needs no quotes: whoever reads the tables with SQL types it. */
export const schemaName = text(
  /^[a-z_][a-z0-9_]{0,62}$/,
  'a name of lower-case letters, digits and _, at most 63 characters',
);

/** Not echoed: a URL may carry a password. */
export function webUrl(check: (url: URL) => boolean, takes: string): Parser<URL> {
  return {
    schema: z
      .string()
      .refine((value) => URL.canParse(value))
      .transform((value) => new URL(value))
      .refine((url) => /^https?:$/.test(url.protocol) && url.username === '' && url.password === '')
      .refine(check),
    takes,
  };
}

export function isHttpsOrLoopback(url: URL): boolean {
  if (url.protocol === 'https:') return true;
  // 127.0.0.0/8 whole; WHATWG URLs have written every spelling of an IPv4 address as four decimals by now.
  return url.protocol === 'http:' && /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname);
}

/**
 * `WEBHOOK_SIGNED_CONTENT`. Braces stand for placeholders only: a misspelt one is refused here, because taken
 * as literal text it would refuse every delivery later, without saying why.
 */
export const signedContent: Parser<TemplatePart[]> = {
  schema: z.string().transform((template, context) => {
    const parts = parseTemplate(template);
    if (parts !== null) return parts;
    context.addIssue('not a template');
    return z.NEVER;
  }),
  takes: 'text with {t} and {body} in it, {header:NAME} besides, and no other braces',
};

function parseTemplate(template: string): TemplatePart[] | null {
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
  const has = (kind: TemplatePart['kind']) => parts.some((part) => part.kind === kind);
  return has('timestamp') && has('body') ? parts : null;
}

// ─── parsers of secrets ─────────────────────────────────────────────────────────────────────────────────

export const secretEncoding: Parser<SecretEncoding> = {
  schema: z.string().refine(isSecretEncoding),
  takes:
    'utf8, hex or base64, or one of them behind what each secret begins with and its key lacks, such as whsec_base64',
};

export function signingSecrets(encoding: SecretEncoding): Parser<readonly Uint8Array[]> {
  return {
    schema: z.string().transform((value, context) => {
      const keys: Uint8Array[] = [];
      const flaws: string[] = [];
      for (const [index, part] of value.split(',').entries()) {
        const text = part.trim();
        const { key, flaw } = decodeSigningSecret(text, encoding);
        if (flaw !== null) flaws.push(`secret ${index + 1} ${flawText(flaw, encoding)}`);
        // Of several lines a file's writer meant several secrets, and their sum would be none of them.
        else if (/[\r\n]/.test(text)) flaws.push(`secret ${index + 1} has a line break in it`);
        else keys.push(key);
      }
      if (flaws.length === 0) return keys;
      context.addIssue({ code: 'custom', message: flaws.join('; '), params: { isForPeople: true } });
      return z.NEVER;
    }),
    takes: `secrets separated by commas, each of at least ${MIN_SIGNING_KEY_BYTES} bytes once decoded as ${encoding} (WEBHOOK_SECRET_ENCODING)`,
  };
}

/** What is wrong with an entry of OPS_TOKENS; null: nothing. Shows none of it: a token may stand in any of its places. */
function flawOfEntry(entry: string): string | null {
  if (entry === '') return 'is empty';
  const [name = '', role, ...rest] = entry.split(':');
  if (role === undefined || rest.length === 0) return 'is not of the form name:role:token';
  const token = rest.join(':');
  if (!/^[\w.-]{1,64}$/.test(name)) return 'has a name that is not 1 to 64 letters, digits, ".", "_" or "-"';
  if (!/^(read|operate)$/.test(role)) return 'has a role that is neither read nor operate';
  if (!/^[\x21-\x7e]*$/.test(token)) return 'has a token with a space or a character beyond ASCII';
  if (estimatedBits(token) < TOKEN_MIN_BITS) {
    return `has a token of about ${Math.floor(estimatedBits(token))} bits, by its characters`;
  }
  return null;
}

export const opsTokens: Parser<OpsToken[]> = {
  schema: z.string().transform((value, context) => {
    const tokens: OpsToken[] = [];
    const flaws: string[] = [];
    for (const [index, text] of value.split(',').entries()) {
      const entry = text.trim();
      const [name = '', role, ...rest] = entry.split(':');
      const token = { name, role: role === 'operate' ? role : 'read', token: rest.join(':') } as const;
      const sameAs = (key: 'name' | 'token') => {
        const other = tokens.findIndex((each) => each[key] === token[key]);
        return other < 0 ? null : `has the same ${key} as entry ${other + 1}`;
      };
      const flaw = flawOfEntry(entry) ?? sameAs('name') ?? sameAs('token');
      if (flaw !== null) flaws.push(`entry ${index + 1} ${flaw}`);
      tokens.push(token);
    }
    if (flaws.length === 0) return tokens;
    context.addIssue({ code: 'custom', message: flaws.join('; '), params: { isForPeople: true } });
    return z.NEVER;
  }),
  takes: `name:role:token entries separated by commas, role read or operate, tokens of at least ${TOKEN_MIN_BITS} bits such as \`openssl rand -hex 16\` prints, no name or token twice`,
};

/**
 * Printable throughout, or of a few bytes over and over. Of random keys one in 10^13 is the first, and one in 10^15 the
 * second. That refuses every example which is meant to be read, wherever it is published.
 */
function looksTyped(key: Uint8Array): boolean {
  return key.every((byte) => byte >= 0x20 && byte < 0x7f) || new Set(key).size < MIN_DISTINCT_KEY_BYTES;
}

export const credentialsKey: Parser<Uint8Array> = {
  schema: z.string().transform((value, context) => {
    const key = decodeWhole(value, 'base64');
    const isWhole = key?.length === CREDENTIALS_KEY_BYTES;
    if (isWhole && !looksTyped(key)) return key;
    const message = isWhole ? 'is not random: somebody typed it, or it stands in an example' : null;
    context.addIssue({
      code: 'custom',
      message: message ?? 'key',
      params: { isForPeople: message !== null },
    });
    return z.NEVER;
  }),
  takes: `${CREDENTIALS_KEY_BYTES} bytes in base64, such as \`openssl rand -base64 ${CREDENTIALS_KEY_BYTES}\` prints`,
};

/** What can stand in an Authorization header, or in a JSON body, as it is. */
export const credential = text(/^[\x21-\x7e]+$/, 'printable ASCII without spaces');

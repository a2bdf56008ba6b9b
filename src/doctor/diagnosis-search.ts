import { createHmac } from 'node:crypto';
import type { TemplatePart } from '../platform/config.ts';
import { templateParts } from '../platform/config-parsers.ts';
import {
  decodeSigningSecret,
  MIN_SIGNING_KEY_BYTES,
  prefixesOf,
  type SecretEncoding,
} from '../platform/signing-secret.ts';
import { type BodyForm, bodyForms, type Steps } from './diagnosis-bodies.ts';

/** A secret to try, as text. Which bytes it means is found out. */
export interface CandidateSecret {
  text: string;
  /** False: the secret is retired or not configured. */
  isInUse: boolean;
  /** For people, such as "WEBHOOK_SECRETS, the 2nd": never the secret itself. */
  name: string;
}

type HashName = 'sha1' | 'sha256' | 'sha384' | 'sha512';

/** A signature as the header gives it. */
export interface ClaimedSignature {
  /** The element's key: `v1`, or another. */
  key: string;
  text: string;
}

export interface Fit {
  secret: CandidateSecret;
  /** `encoding` null: no setting reads the secret in this way. */
  secretReading: { name: string; encoding: SecretEncoding | null; isTooShort: boolean };
  template: { text: string; parts: readonly TemplatePart[]; isConfigured: boolean };
  algorithm: HashName;
  body: BodyForm;
  signature: { key: string; encoding: 'hex' | 'base64' };
}

interface SearchInput {
  signatures: readonly ClaimedSignature[];
  /** Null: the header has no time, so the signed content had none either. */
  t: string | null;
  body: Uint8Array;
  headerOf: (name: string) => string | undefined;
  secrets: readonly CandidateSecret[];
  configured: { template: readonly TemplatePart[]; algorithm: HashName; secretEncoding: SecretEncoding };
}

/** An explanation with more differences from the settings than this would help nobody. */
const MAX_DIFFERENCES = 3;
/** Limits the work to about a second: a large body is tried with fewer combinations. Bytes. */
const MAX_HASHED_BYTES = 300_000_000;
/** The fixed cost of one MAC, as if it were this many more bytes. */
const MAC_COST_BYTES = 1024;

export const DIGEST_BYTES: Readonly<Record<HashName, number>> = {
  sha1: 20,
  sha256: 32,
  sha384: 48,
  sha512: 64,
};
const HASHES = Object.keys(DIGEST_BYTES) as HashName[];

/** What senders sign, by public documentation and the usual mistakes in following it. */
const TEMPLATES = [
  '{t}.{body}',
  '{t},{body}',
  '{t}{body}',
  '{t}:{body}',
  '{t}|{body}',
  '{t}-{body}',
  '{t} {body}',
  '{t}\n{body}',
  't={t}.{body}',
  't={t},{body}',
  'v1:{t}:{body}',
  'v1.{t}.{body}',
  'v0:{t}:{body}',
  '{body}',
  '{body}.{t}',
  '{body}{t}',
] as const;

/** The combination nearest to the settings that makes one of the signatures; null: none does. A match is never chance. Pure. */
export function* searchFit(input: SearchInput): Steps<Fit | null> {
  const digests = input.signatures.flatMap(digestsIn);
  const hashes = HASHES.filter((hash) => digests.some(({ bytes }) => bytes.length === DIGEST_BYTES[hash]));
  const bodies = yield* bodyForms(input.body);
  const combinations = combinationsOf(input, hashes);
  let hashed = 0;

  for (let differences = 0; differences <= MAX_DIFFERENCES; differences++) {
    for (const { secret, reading, template, algorithm, differing } of combinations) {
      yield;
      for (const body of bodies) {
        if (differing + Number(body.fault !== null) !== differences) continue;
        hashed += body.bytes.length + MAC_COST_BYTES;
        if (hashed > MAX_HASHED_BYTES) return null;
        yield;
        const hmac = createHmac(algorithm, reading.bytes);
        for (const part of template.parts) hmac.update(bytesOf(part, body.bytes, input));
        const mac = hmac.digest();
        const claimed = digests.find(({ bytes }) => bytes.equals(mac));
        if (claimed === undefined) continue;
        const { name, encoding, bytes } = reading;
        return {
          secret,
          template,
          algorithm,
          body,
          signature: { key: claimed.key, encoding: claimed.encoding },
          secretReading: { name, encoding, isTooShort: bytes.length < MIN_SIGNING_KEY_BYTES },
        };
      }
    }
  }
  return null;
}

/** Everything that can be tried on a body. `differing`: how many parts differ from the settings. */
function combinationsOf(input: SearchInput, hashes: readonly HashName[]) {
  const templates = templatesFor(input);
  const { algorithm: configuredHash, secretEncoding } = input.configured;
  return input.secrets.flatMap((secret) =>
    readingsOf(secret.text, secretEncoding).flatMap((reading) =>
      templates.flatMap((template) =>
        hashes.map((algorithm) => {
          const isAsConfigured = [
            secret.isInUse,
            reading.encoding === secretEncoding,
            template.isConfigured,
            algorithm === configuredHash,
          ];
          const differing = isAsConfigured.filter((is) => !is).length;
          return { secret, reading, template, algorithm, differing };
        }),
      ),
    ),
  );
}

function bytesOf(part: TemplatePart, body: Uint8Array, input: SearchInput): Uint8Array {
  if (part.kind === 'body') return body;
  if (part.kind === 'timestamp') return Buffer.from(input.t ?? '');
  if (part.kind === 'text') return Buffer.from(part.text);
  return Buffer.from(input.headerOf(part.name) ?? '', 'latin1');
}

/** Every way to read the signature: 64 hex digits can also be the base64 of 48 bytes. */
function digestsIn({ key, text }: ClaimedSignature) {
  const found: { key: string; encoding: 'hex' | 'base64'; bytes: Buffer }[] = [];
  if (/^([0-9a-f]{2})+$/i.test(text)) found.push({ key, encoding: 'hex', bytes: Buffer.from(text, 'hex') });
  if (/^[\w+/-]+={0,2}$/.test(text)) {
    found.push({ key, encoding: 'base64', bytes: Buffer.from(text, 'base64') });
  }
  return found;
}

function templatesFor({ configured, headerOf, t }: SearchInput): Fit['template'][] {
  const own = templateText(configured.template);
  const lacks = configured.template.some(
    (part) => part.kind === 'header' && headerOf(part.name) === undefined,
  );
  const others = TEMPLATES.filter((text) => text !== own).map((text) => ({
    text,
    parts: templateParts(text)!,
    isConfigured: false,
  }));
  const all = lacks ? others : [{ text: own, parts: configured.template, isConfigured: true }, ...others];
  // Without a time, `{t}{body}` would be the same as the body alone.
  return t === null ? all.filter(({ parts }) => parts.every(({ kind }) => kind !== 'timestamp')) : all;
}

/** The template as WEBHOOK_SIGNED_CONTENT has it. */
export function templateText(parts: readonly TemplatePart[]): string {
  return parts
    .map((part) => {
      if (part.kind === 'text') return part.text;
      if (part.kind === 'timestamp') return '{t}';
      return part.kind === 'body' ? '{body}' : `{header:${part.name}}`;
    })
    .join('');
}

interface Reading {
  name: string;
  /** The value of WEBHOOK_SECRET_ENCODING; null: no value reads the secret in this way. */
  encoding: SecretEncoding | null;
  bytes: Buffer;
}

/** The bytes that a secret's text may mean, the configured reading first. */
function readingsOf(text: string, configured: SecretEncoding): Reading[] {
  const readings: Reading[] = [];
  for (const prefix of ['', ...prefixesOf(text)]) {
    const rest = text.slice(prefix.length);
    const without = prefix === '' ? [] : [`without "${prefix}"`];
    const add = (form: 'utf8' | 'hex' | 'base64', how: readonly string[]) => {
      const encoding = `${prefix}${form}` as SecretEncoding;
      readings.push({
        name: [...without, ...how].join(', '),
        // `bytes` may exist without one: a sender's decoder may be laxer than a setting.
        encoding: decodeSigningSecret(text, encoding).flaw === null ? encoding : null,
        bytes: Buffer.from(rest, form),
      });
    };
    add('utf8', prefix === '' ? ['as text'] : []);
    if (/^[\w+/-]{4,}={0,2}$/.test(rest)) add('base64', ['decoded from base64']);
    if (/^([0-9a-f]{2})+$/i.test(rest)) add('hex', ['decoded from hex']);
  }
  const trimmed = text.trim();
  if (trimmed !== text) {
    readings.push({ name: 'without the blanks around it', encoding: null, bytes: Buffer.from(trimmed) });
  }
  readings.push({ name: 'with a line end behind it', encoding: null, bytes: Buffer.from(`${trimmed}\n`) });
  const isConfigured = ({ encoding }: Reading) => Number(encoding === configured);
  return readings.sort((a, b) => isConfigured(b) - isConfigured(a));
}

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

/** A secret to try, as text: what it means as bytes is one of the questions. */
export interface CandidateSecret {
  text: string;
  /** False: known, but retired or not configured. */
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
  /** `encoding` null: no setting reads it so. */
  secretReading: { name: string; encoding: SecretEncoding | null; isTooShort: boolean };
  template: { text: string; parts: readonly TemplatePart[]; isConfigured: boolean };
  algorithm: HashName;
  body: BodyForm;
  signature: { key: string; encoding: 'hex' | 'base64' };
}

interface SearchInput {
  signatures: readonly ClaimedSignature[];
  /** Null: the header holds none, so nothing with a time in it can have been signed. */
  t: string | null;
  body: Uint8Array;
  headerOf: (name: string) => string | undefined;
  secrets: readonly CandidateSecret[];
  configured: { template: readonly TemplatePart[]; algorithm: HashName; secretEncoding: SecretEncoding };
}

/** Beyond this many differences from the settings at once, nobody could make use of the explanation. */
const MAX_DIFFERENCES = 3;
/** About a second of work in all: an event is small, and a large body is tried with fewer combinations. Bytes. */
const MAX_HASHED_BYTES = 300_000_000;
/** What a MAC costs besides its bytes, as so many more of them. */
const MAC_COST_BYTES = 1024;

export const DIGEST_BYTES: Readonly<Record<HashName, number>> = {
  sha1: 20,
  sha256: 32,
  sha384: 48,
  sha512: 64,
};
const HASHES = Object.keys(DIGEST_BYTES) as HashName[];

/** What senders sign, seen in public documentation and in mistakes made from it. */
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

/**
 * The combination nearest to the settings under which one of the signatures is right, or null. Pure. A match is
 * proof: nobody finds another one by chance.
 */
export function* searchFit(input: SearchInput): Steps<Fit | null> {
  const digests = input.signatures.flatMap(digestsIn);
  const hashes = HASHES.filter((hash) => digests.some(({ bytes }) => bytes.length === DIGEST_BYTES[hash]));
  const bodies = yield* bodyForms(input.body);
  const templates = templatesFor(input);
  let hashed = 0;

  for (let differences = 0; differences <= MAX_DIFFERENCES; differences++) {
    for (const secret of input.secrets) {
      for (const reading of readingsOf(secret.text, input.configured.secretEncoding)) {
        for (const template of templates) {
          for (const algorithm of hashes) {
            yield;
            for (const body of bodies) {
              const cost =
                Number(!secret.isInUse) +
                Number(!reading.isConfigured) +
                Number(!template.isConfigured) +
                Number(algorithm !== input.configured.algorithm) +
                Number(body.fault !== null);
              if (cost !== differences) continue;
              hashed += body.bytes.length + MAC_COST_BYTES;
              if (hashed > MAX_HASHED_BYTES) return null;
              yield;
              const hmac = createHmac(algorithm, reading.bytes);
              for (const part of template.parts) hmac.update(bytesOf(part, body.bytes, input));
              const mac = hmac.digest();
              const claimed = digests.find(({ bytes }) => bytes.equals(mac));
              if (claimed === undefined) continue;
              const { key, encoding } = claimed;
              return {
                secret,
                template,
                algorithm,
                body,
                signature: { key, encoding },
                secretReading: {
                  name: reading.name,
                  encoding: reading.encoding,
                  isTooShort: reading.bytes.length < MIN_SIGNING_KEY_BYTES,
                },
              };
            }
          }
        }
      }
    }
  }
  return null;
}

function bytesOf(part: TemplatePart, body: Uint8Array, input: SearchInput): Uint8Array {
  if (part.kind === 'body') return body;
  if (part.kind === 'timestamp') return Buffer.from(input.t ?? '');
  if (part.kind === 'text') return Buffer.from(part.text);
  return Buffer.from(input.headerOf(part.name) ?? '', 'latin1');
}

/** 64 hex digits are also the base64 of 48 bytes: every reading counts. */
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
  // With an empty time in its place `{t}{body}` would pass for what is the body alone.
  return t === null ? all.filter(({ parts }) => parts.every(({ kind }) => kind !== 'timestamp')) : all;
}

/** As WEBHOOK_SIGNED_CONTENT is written. */
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
  /** The setting's word for it; null: no setting reads it so. */
  encoding: SecretEncoding | null;
  isConfigured: boolean;
  bytes: Buffer;
}

/** What a secret's text may mean, the configured meaning first. */
function readingsOf(text: string, configured: SecretEncoding): Reading[] {
  const readings: Omit<Reading, 'isConfigured'>[] = [];
  for (const prefix of ['', ...prefixesOf(text)]) {
    const rest = text.slice(prefix.length);
    const without = prefix === '' ? [] : [`without "${prefix}"`];
    const add = (form: 'utf8' | 'hex' | 'base64', how: readonly string[]) => {
      const encoding = `${prefix}${form}` as SecretEncoding;
      readings.push({
        name: [...without, ...how].join(', '),
        // Laxer than a setting is, for what a sender's own decoder may have made of it.
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
  return readings
    .map((reading) => ({ ...reading, isConfigured: reading.encoding === configured }))
    .sort((a, b) => Number(b.isConfigured) - Number(a.isConfigured));
}

import { existsSync, readFileSync } from 'node:fs';
import { diagnose } from '../../doctor/diagnosis.ts';
import type { Explained } from '../../doctor/diagnosis-rejection.ts';
import type { CandidateSecret } from '../../doctor/diagnosis-search.ts';
import { allAtOnce } from '../../doctor/diagnosis-steps.ts';
import { ASK_SENDER } from '../../doctor/diagnosis-terms.ts';
import { type Config, loadConfig } from '../../platform/config.ts';
import { describeError, UsageError } from '../../platform/errors.ts';
import { parseEnvelope } from '../../receive/envelope.ts';
import { candidateSecrets } from '../../service/signing-secrets.ts';
import type { StoredRegistration } from '../../store/store.ts';
import type { Cli } from '../cli.ts';
import { databasePath, withStore } from '../database.ts';
import { unusableText } from './accepted.ts';

export interface RecordedOptions extends GivenSecrets {
  header?: string[];
  body?: string;
  receivedAt?: string;
}

export async function explainRecorded(cli: Cli, options: RecordedOptions): Promise<Explained> {
  const config = loadConfig(cli.env);
  if (options.body === undefined) {
    throw new UsageError('--header needs --body FILE beside it', 'a signature is over the bytes of the body');
  }
  let body: Buffer;
  try {
    body = readFileSync(options.body);
  } catch (error) {
    throw new UsageError(`--body cannot be read: ${describeError(error)}`);
  }
  const headers = headersIn(options.header ?? [], config.webhook.header);
  const specimen = {
    ...{ headers, body, headerValue: headers.get(config.webhook.header) },
    receivedSeconds: secondsOf(options.receivedAt),
  };
  const secrets = candidates(config, await registrationsOf(cli, config), options);
  const diagnosis = allAtOnce(diagnose(specimen, secrets, config.webhook));
  // Of a body that was changed on the way its change is the cause, and not what it has become.
  const cause = diagnosis.healthy ? bodyCause(body, config) : null;
  return cause === null ? diagnosis : { ...diagnosis, healthy: false, causes: [cause] };
}

/** Why the service would refuse a delivery whose signature is right, or null. */
function bodyCause(body: Uint8Array, { webhook, idPointers }: Config): Explained['causes'][number] | null {
  if (body.length > webhook.maxBodyBytes) {
    return {
      code: 'too_large',
      what: `The body has ${body.length} bytes, and ${webhook.maxBodyBytes} are allowed: it is answered 413, unread.`,
      remedy: 'Set WEBHOOK_MAX_BODY_BYTES higher, if such bodies are right.',
    };
  }
  const envelope = parseEnvelope(body, { pointers: idPointers, t: '' });
  if (envelope.ok) return null;
  return {
    code: envelope.reason,
    what: `${unusableText(envelope.reason)} It is answered 400 ${envelope.code}, and kept in quarantine.`,
    remedy: ASK_SENDER,
  };
}

/** None where there is no database yet: a recorded delivery can be examined anywhere. */
async function registrationsOf(cli: Cli, { databaseUrl }: Config): Promise<StoredRegistration[]> {
  const path = await databasePath(databaseUrl);
  if (path !== null && !existsSync(path)) return [];
  return await withStore(cli, (store) => store.listRegistrations());
}

/** `Name: value`, or a bare value, which is the signature header's. By their names in lower case. */
export function headersIn(lines: readonly string[], signatureHeader: string): Map<string, string> {
  const headers = new Map<string, string>();
  for (const line of lines) {
    const match = /^([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*(.*)$/s.exec(line.trim());
    const name = match?.[1]?.toLowerCase() ?? signatureHeader;
    const value = (match?.[2] ?? line).trim();
    const before = headers.get(name);
    headers.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return headers;
}

function secondsOf(receivedAt: string | undefined): number {
  if (receivedAt === undefined) return Math.floor(Date.now() / 1000);
  if (/^\d{1,11}$/.test(receivedAt)) return Number(receivedAt);
  const ms = /^\d{4}-\d\d-\d\dT.*(Z|[+-]\d\d:\d\d)$/.test(receivedAt) ? Date.parse(receivedAt) : Number.NaN;
  if (Number.isFinite(ms)) return Math.floor(ms / 1000);
  throw new UsageError('--received-at takes an instant such as 2026-11-02T12:00:00Z, or seconds since 1970');
}

export interface GivenSecrets {
  secret?: string[];
  retired?: string[];
}

/**
 * Every secret to try. Those in use decide what is healthy; where none is, the ones given on the command line
 * take their place, so that a delivery can be examined on a machine that is not configured.
 */
export function candidates(
  config: Config,
  registrations: readonly StoredRegistration[],
  given: GivenSecrets,
): CandidateSecret[] {
  const inUse = candidateSecrets(config, registrations, Date.now());
  const known = new Set(inUse.map(({ text }) => text));
  const isNoneExpected = inUse.every(({ standing }) => standing === 'retired');
  const numbered = (texts: readonly string[], option: string, standing: CandidateSecret['standing']) =>
    texts
      .filter((text) => !known.has(text))
      .map((text, index): CandidateSecret => ({ text, standing, name: `${option} number ${index + 1}` }));
  return [
    ...inUse,
    ...numbered(given.secret ?? [], '--secret', isNoneExpected ? 'expected' : 'retired'),
    ...numbered(given.retired ?? [], '--retired', 'retired'),
  ];
}

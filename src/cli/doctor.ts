import { existsSync } from 'node:fs';
import { Command } from 'commander';
import { bodyCause, explainEvent, explainQuarantined } from '../doctor/accepted.ts';
import { allAtOnce, type Diagnosis, diagnose, diagnoseRejection } from '../doctor/diagnosis.ts';
import type { CandidateSecret } from '../doctor/diagnosis-search.ts';
import { type Check, judge } from '../doctor/judge.ts';
import { type Config, loadConfig } from '../platform/config.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import { candidateSecrets } from '../service/signing-secrets.ts';
import { PAGE_LIMIT_MAX, type RejectionReport } from '../store/reports.ts';
import type { Store, StoredRegistration } from '../store/store.ts';
import { type Cli, writeJson } from './cli.ts';
import { configHere, databasePath, withStore } from './database.ts';
import { DifferenceFound } from './exit.ts';
import { examine } from './findings.ts';
import { helpNote, instantOf, jsonOption, readBody } from './options.ts';
import { printable } from './text.ts';

interface DoctorOptions {
  /** Headers of the delivery. With `delivery`: other headers that are signed, because they are not stored. */
  header?: string[];
  body?: string;
  secret?: string[];
  retired?: string[];
  receivedAt?: string;
  delivery?: string;
  json?: true;
}

const NOT_FROM_AFAR = 'it looks at the settings and the secrets of the service as well';

const several = (text: string, before: readonly string[] | undefined) => [...(before ?? []), text];

export function doctorCommand(cli: Cli): Command {
  return new Command('doctor')
    .description('what is wrong: with one delivery (--body or --delivery), or with the running configuration')
    .option(
      '--header <line>',
      'the signature header, its value or "Name: value"; once more for each other header that is signed',
      several,
    )
    .option('--body <file>', 'the body of one delivery, byte for byte as it arrived; - reads standard input')
    .option(
      '--secret <secret>',
      'a signing secret to try besides the configured ones; can be given several times',
      several,
    )
    .option('--retired <secret>', 'a secret that is no longer in use, to try', several)
    .option('--received-at <instant>', 'when it arrived: ISO 8601, or seconds since 1970 (default: now)')
    .option(
      '--delivery <id>',
      'one that came here: an event id, or a number as rejection:<number> or quarantine:<number>',
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      helpNote(
        'Exit codes: 0 nothing is wrong, warnings aside, 3 somebody must act, 1 it could not look, 2 bad usage or settings, or a database that “serve” does not take.',
      ),
    )
    .action((options: DoctorOptions) => doctor(cli, options));
}

async function doctor(cli: Cli, options: DoctorOptions): Promise<void> {
  const isRecorded = options.body !== undefined || options.header !== undefined;
  if (options.delivery !== undefined) {
    if (options.body !== undefined) {
      throw new UsageError(
        '--delivery names a stored delivery: leave out --body',
        '--header may give the value of another signed header',
      );
    }
    configHere(cli, 'doctor --delivery', NOT_FROM_AFAR);
    report(cli, await explainStored(cli, options.delivery, options), options);
  } else if (isRecorded) {
    report(cli, await explainRecorded(cli, options), options);
  } else {
    await checkUp(cli, options);
  }
}

function report(cli: Cli, diagnosis: Diagnosis, options: DoctorOptions): void {
  if (options.json) writeJson(cli.out, diagnosis);
  else {
    for (const { code, what, remedy } of diagnosis.causes) {
      cli.out.write(`${printable(what)}  [${code}]\n  What to do: ${printable(remedy)}\n`);
    }
    for (const sentence of diagnosis.known ?? []) cli.out.write(`${printable(sentence)}\n`);
    if (diagnosis.healthy && diagnosis.known === undefined)
      cli.out.write('The signature is right, and the service would take this delivery.\n');
    if (diagnosis.fit !== null) {
      const { signed_content, hash, secret, secret_reading, body, signature } = diagnosis.fit;
      cli.out.write(
        `What fits: ${hash} over ${JSON.stringify(signed_content)}, secret ${printable(secret)} ${printable(secret_reading)}, body ${body}, signature ${printable(signature)}.\n`,
      );
    }
  }
  if (diagnosis.healthy) return;
  throw new DifferenceFound(
    diagnosis.known === undefined ? 'the delivery would be rejected' : 'the delivery has not had its effect',
  );
}

const SIGNS = { ok: 'ok     ', warning: 'warning', wrong: 'WRONG  ', skipped: '-      ' } as const;

/** Judges the whole set-up. @throws DifferenceFound if something is wrong. */
export async function checkUp(cli: Cli, options: Pick<DoctorOptions, 'json'>): Promise<void> {
  const found = await examine(cli, configHere(cli, 'doctor', NOT_FROM_AFAR));
  const checks: Check[] = judge(found);
  const wrong = checks.filter(({ state }) => state === 'wrong');
  if (options.json) writeJson(cli.out, { healthy: wrong.length === 0, checks });
  else {
    const width = Math.max(...checks.map(({ name }) => name.length));
    for (const { name, state, detail, remedy } of checks) {
      cli.out.write(`${SIGNS[state]}  ${name.padEnd(width)}  ${printable(detail)}\n`);
      if (remedy !== null) cli.out.write(`${' '.repeat(width + 11)}What to do: ${printable(remedy)}\n`);
    }
  }
  const { problem, remedy, isSetting } = found.database;
  if (problem !== null && isSetting) throw new UsageError(problem, remedy ?? undefined);
  if (wrong.length > 0) throw new DifferenceFound(`wrong: ${wrong.map(({ name }) => name).join(', ')}`);
}

/** Explains a delivery that somebody recorded. */
async function explainRecorded(cli: Cli, options: DoctorOptions): Promise<Diagnosis> {
  const config = loadConfig(cli.env);
  if (options.body === undefined) {
    throw new UsageError('--header needs --body FILE beside it', 'a signature is over the bytes of the body');
  }
  const body = readBody(options.body);
  const headers = headersIn(options.header ?? [], config.webhook.header);
  const specimen = {
    headers,
    body,
    headerValue: headers.get(config.webhook.header),
    receivedSeconds: secondsOf(options.receivedAt),
  };
  const secrets = candidates(config, await registrationsOf(cli, config), options);
  const diagnosis = allAtOnce(diagnose(specimen, secrets, config.webhook));
  // If the body was changed on its way, that change is the cause, not what is wrong with the body now.
  const cause = diagnosis.healthy ? bodyCause(body, config) : null;
  return cause === null ? diagnosis : { ...diagnosis, healthy: false, causes: [cause] };
}

/** `rejection:7`, `quarantines/7`, `event:evt_7`. An id without a prefix is looked for in all three. */
const PREFIXED = /^(rejection|quarantine|event)s?[:/](.+)$/s;
/** Ids of rejections and of what is in quarantine. */
const NUMBER = /^\d{1,15}$/;

/** Explains a delivery that the service rejected, put into quarantine, or accepted. */
export async function explainStored(cli: Cli, given: string, options: DoctorOptions): Promise<Diagnosis> {
  const config = loadConfig(cli.env);
  const [, prefix, rest] = PREFIXED.exec(given) ?? [];
  const id = rest ?? given;
  return await withStore(cli, 'read', async (store) => {
    // An event's own id may begin like a prefix, so the whole text is tried as an id first.
    const whole = prefix === undefined ? null : await store.showEvent(given);
    const wanted = whole === null ? prefix : 'event';
    const isIn = (list: string) => wanted === undefined || wanted === list;
    const number = NUMBER.test(id) ? Number(id) : null;
    const found = {
      rejection: isIn('rejection') && number !== null ? await store.show('rejections', number) : null,
      quarantine: isIn('quarantine') && number !== null ? await store.show('quarantine', number) : null,
      event: whole ?? (isIn('event') ? await store.showEvent(id) : null),
    };
    const lists = Object.entries(found).flatMap(([list, row]) => (row === null ? [] : [list]));
    if (lists.length > 1) {
      const names = lists.map((list) => `${list}:${given}`).join(' or ');
      throw new UsageError(`several deliveries go by "${given}"`, `say ${names}`);
    }
    if (found.quarantine !== null) return explainQuarantined(found.quarantine);
    if (found.rejection !== null) return await explainRejection(store, config, found.rejection, options);
    // The body of a rejected or quarantined delivery may have the event's id.
    const rejectedAs = await newestNaming(store, 'rejected', found.event?.id ?? id);
    if (found.event !== null) return explainEvent(found.event, config.webhook, rejectedAs);
    const rejection = rejectedAs === null ? null : await store.show('rejections', rejectedAs);
    if (rejection !== null) {
      cli.err.write(`Rejected, as rejection:${rejection.id}\n`);
      return await explainRejection(store, config, rejection, options);
    }
    const quarantinedAs = await newestNaming(store, 'quarantined', id);
    const quarantined = quarantinedAs === null ? null : await store.show('quarantine', quarantinedAs);
    if (quarantined !== null) {
      cli.err.write(`Quarantined, as quarantine:${quarantined.id}\n`);
      return explainQuarantined(quarantined);
    }
    throw new MirrorError('not_found', `no delivery ${id} is kept`, {
      remedy: 'see "events list", "rejections list" and "quarantine list"',
    });
  });
}

async function explainRejection(
  store: Store,
  config: Config,
  rejection: RejectionReport,
  options: DoctorOptions,
): Promise<Diagnosis> {
  const secrets =
    rejection.body_base64 === null ? [] : candidates(config, await store.listRegistrations(), options);
  const headers = headersIn(options.header ?? [], config.webhook.header);
  if (headers.has(config.webhook.header)) {
    throw new UsageError(
      'the signature header of a stored delivery is known already',
      "with --delivery, --header takes other headers, as 'Name: value'",
    );
  }
  const diagnosis = allAtOnce(diagnoseRejection(rejection, secrets, config.webhook, headers));
  if (!diagnosis.healthy) return diagnosis;
  const known = `Its signature is right by the present settings. It was rejected at ${rejection.at}, so the service had other settings then. If the service was not restarted since, restart it.`;
  return { ...diagnosis, known: [known] };
}

/** The number of the newest such delivery whose body names this event. */
async function newestNaming(
  store: Store,
  outcome: 'rejected' | 'quarantined',
  eventId: string,
): Promise<number | null> {
  for (let after: string | undefined; ; ) {
    const { items, next } = await store.listDeliveries(
      { outcome, search: eventId },
      { limit: PAGE_LIMIT_MAX, after },
    );
    const found = items.find(({ event_id }) => event_id === eventId);
    if (found !== undefined || next === null) return found?.number ?? null;
    after = next;
  }
}

/** Empty without a database: a recorded delivery can be examined anywhere. */
async function registrationsOf(cli: Cli, { databaseUrl }: Config): Promise<StoredRegistration[]> {
  const path = await databasePath(databaseUrl);
  if (path !== null && !existsSync(path)) return [];
  return await withStore(cli, 'read', (store) => store.listRegistrations());
}

/** Headers by their names in lower case. Each line is `Name: value`, or only the value of the signature header. */
function headersIn(lines: readonly string[], signatureHeader: string): Map<string, string> {
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
  const instant = instantOf(receivedAt);
  if (instant !== null) return Math.floor(Date.parse(instant) / 1000);
  throw new UsageError('--received-at takes an instant such as 2026-11-02T12:00:00Z, or seconds since 1970');
}

/**
 * Every secret to try. A delivery is healthy only if a secret in use fits. Without any in use, those of --secret count
 * as in use, so that a delivery can be examined on a machine that is not configured.
 */
function candidates(
  config: Config,
  registrations: readonly StoredRegistration[],
  given: DoctorOptions,
): CandidateSecret[] {
  const inUse = candidateSecrets(config, registrations, Date.now());
  const known = new Set(inUse.map(({ text }) => text));
  const isNoneInUse = inUse.every((each) => !each.isInUse);
  const numbered = (texts: readonly string[] = [], option: string, isInUse: boolean) =>
    texts
      .map((text, index): CandidateSecret => ({ text, isInUse, name: `${option} number ${index + 1}` }))
      .filter(({ text }) => !known.has(text));
  return [
    ...inUse,
    ...numbered(given.secret, '--secret', isNoneInUse),
    ...numbered(given.retired, '--retired', false),
  ];
}

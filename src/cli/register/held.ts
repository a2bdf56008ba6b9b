import {
  coverageOf,
  isReceiverPath,
  placesOfTexts,
  RECEIVER_PATH,
  type RegistrationAnswer,
  secretAt,
} from '../../compliance/registration.ts';
import type { Config } from '../../platform/config.ts';
import { UsageError } from '../../platform/errors.ts';
import { flawText, type SecretEncoding } from '../../platform/signing-secret.ts';
import { type SecretStanding, standingOf } from '../../service/signing-secrets.ts';
import type { StoredRegistration } from '../../store/store.ts';
import { type Cli, writeJson, writeTable } from '../cli.ts';
import { printable } from '../text.ts';

/** What a registration's secret is judged by. */
export function secretSettings(
  { webhook, credentialsKey }: Pick<Config, 'webhook' | 'credentialsKey'>,
  clock: { wall(): number },
) {
  return { key: credentialsKey, encoding: webhook.secretEncoding, now: clock.wall() };
}
export type SecretSettings = ReturnType<typeof secretSettings>;

/** Everything that we know to be registered, and what of the twelve event types no registration for `url` brings. */
export function writeHeld(
  cli: Cli,
  held: readonly StoredRegistration[],
  options: { url?: string; json?: true | undefined; secrets: SecretSettings },
): void {
  const { url, json, secrets } = options;
  if (json)
    writeJson(
      cli.out,
      held.map((each) => shownAsJson(each, secrets)),
    );
  else {
    const heads = ['ID', 'URL', 'EVENTS', 'DESCRIPTION', 'CREATED', 'SECRET', 'EXPIRES'];
    const rows = held.map((each) => [
      ...[each.upstreamId, each.url, each.delivers.join(', '), each.description, instantOf(each.createdWall)],
      ...[standingText(standingOf(each, secrets).standing, secrets.encoding), instantOf(each.expiresWall)],
    ]);
    writeTable(cli.out, heads, rows);
  }
  for (const each of url === undefined ? new Set(held.map((one) => one.url)) : [url]) {
    const brought = held.filter((one) => one.url === each).flatMap(({ delivers }) => delivers);
    writeCoverage(cli, brought, each);
  }
}

function shownAsJson(held: StoredRegistration, secrets: SecretSettings) {
  const { upstreamId, url, delivers, description, createdWall, expiresWall } = held;
  return {
    ...{ id: upstreamId, url, events: delivers, description, created_at: instantOf(createdWall) },
    ...{ secret: standingOf(held, secrets).standing, expires_at: instantOf(expiresWall) },
  };
}

function instantOf(wall: number | null): string | null {
  return wall === null ? null : new Date(wall).toISOString();
}

function standingText(standing: SecretStanding, encoding: SecretEncoding): string {
  if (standing === 'verifies') return 'verifies';
  if (standing === 'not_stored') return 'is not stored';
  if (standing === 'expired') return 'has expired';
  return standing === 'unreadable' ? 'does not open with CREDENTIALS_KEY' : flawText(standing, encoding);
}

/** What to do about a secret that WEBHOOK_SECRET_ENCODING makes no key of; null: it makes one, or something else is wrong. */
export function unusableSecret(
  registration: StoredRegistration,
  secrets: SecretSettings,
): { what: string; remedy: string } | null {
  const { standing, fits } = standingOf(registration, secrets);
  if (standing !== 'too_short' && standing !== 'not_in_encoding') return null;
  const flaw = flawText(standing, secrets.encoding);
  return {
    what: `the signing secret of ${registration.upstreamId} is stored and cannot be used: it ${flaw} (WEBHOOK_SECRET_ENCODING=${secrets.encoding})`,
    remedy:
      fits.length === 0
        ? 'no encoding makes a key of it: have the compliance service give another, and "registrations forget" this one'
        : `set WEBHOOK_SECRET_ENCODING=${fits.join(' or ')}, as the compliance service means it, and start the service anew`,
  };
}

/** Where in the answer texts stand that are not what was asked for, nor the registration's own id: one may be the secret. */
export function placesOfUnsent(
  { upstreamId, url, description, events, delivers }: StoredRegistration,
  answer: string,
): string[] {
  const known = new Set([upstreamId, url, description, ...events, ...delivers]);
  return placesOfTexts(answer).filter((place) => !known.has(secretAt(answer, place) ?? ''));
}

function writeCoverage(cli: Cli, patterns: readonly string[], url: string): void {
  if (!isReceiverPath(url)) {
    cli.err.write(
      `Warning: ${printable(url)} does not end in ${RECEIVER_PATH}, the only path at which deliveries are taken, unless a proxy rewrites it\n`,
    );
  }
  const { missing, families } = coverageOf(patterns);
  if (missing.length > 0) {
    const none = Object.entries(families).flatMap(([family, share]) => (share === 'none' ? [family] : []));
    const whole = none.length === 0 ? '' : ` (nothing at all of: ${none.join(', ')})`;
    cli.err.write(
      `Warning: not covered at ${printable(url)}, so found by full syncs only: ${missing.join(', ')}${whole}\n`,
    );
  }
  warnOfUnmatched(cli, patterns);
}

/** Of misspelled patterns, or of types newer than this version. */
export function warnOfUnmatched(cli: Cli, patterns: readonly string[]): void {
  const { unmatched } = coverageOf(patterns);
  if (unmatched.length === 0) return;
  cli.err.write(`Warning: no known event type is selected by: ${unmatched.map(printable).join(', ')}\n`);
}

/** Of what another registration for the same address brings already: each such event then comes twice. */
export function warnOfOverlap(
  cli: Cli,
  held: readonly StoredRegistration[],
  made: { upstreamId: string; url: string },
): void {
  const at = held.filter(({ url }) => url === made.url);
  const selected = coverageOf(at.find(({ upstreamId }) => upstreamId === made.upstreamId)?.delivers ?? []);
  for (const { upstreamId, delivers } of at.filter((each) => each.upstreamId !== made.upstreamId)) {
    const twice = coverageOf(delivers).covered.filter((type) => selected.covered.includes(type));
    if (twice.length === 0) continue;
    cli.err.write(
      `Warning: ${printable(upstreamId)} delivers to ${printable(made.url)} as well; if the compliance service still has it, these come twice, which does no harm: ${twice.join(', ')}\n`,
    );
  }
}

/** Where the service registered something else than it was asked for. */
export function warnOfAnswer(
  cli: Cli,
  asked: { url: string; events: readonly string[] },
  answer: RegistrationAnswer,
): void {
  const sorted = (events: readonly string[]) => [...events].sort().map(printable).join(', ');
  if (answer.events !== null && sorted(answer.events) !== sorted(asked.events)) {
    cli.err.write(
      `Warning: asked for ${sorted(asked.events)}, and the answer names ${sorted(answer.events) || 'none'}\n`,
    );
  }
  if (answer.url !== null && answer.url !== asked.url) {
    cli.err.write(`Warning: the answer names another address: ${printable(answer.url)}\n`);
  }
}

/** Makes sure that every stored secret opens with `key`: the service would not start with one that does not. */
export function requireReadable(registrations: readonly StoredRegistration[], secrets: SecretSettings): void {
  const unreadable = registrations.filter((each) => standingOf(each, secrets).standing === 'unreadable');
  if (unreadable.length === 0) return;
  throw new UsageError(
    `the stored signing secret of ${unreadable.map(({ upstreamId }) => upstreamId).join(', ')} does not open with this CREDENTIALS_KEY; nothing was sent`,
    'set CREDENTIALS_KEY to the key it was stored with; if that is lost, "registrations forget ID" gives the secret up',
  );
}

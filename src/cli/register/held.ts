import { randomBytes } from 'node:crypto';
import { coverageOf, REGISTRATION_PURPOSE } from '../../compliance/registration.ts';
import type { RegistrationAnswer } from '../../compliance/schemas.ts';
import { openSecret, sealSecret } from '../../compliance/secrets.ts';
import { MirrorError, UsageError } from '../../errors.ts';
import type { Store, StoredRegistration } from '../../store/store.ts';
import type { Cli } from '../cli.ts';
import { printable } from '../text.ts';

/** A registration as we hold it, and what its answer said it would deliver. */
export interface HeldRegistration extends StoredRegistration {
  /** As the compliance service answered; as asked for where it did not say. */
  delivers: readonly string[];
}

export const RECEIVER_PATH = '/webhooks';

/** Not by itself a fault: a proxy may rewrite the path, and then knows better. */
export const isReceiverPath = (url: string): boolean => new URL(url).pathname.endsWith(RECEIVER_PATH);

/** What the answer named of it, beside the row, which keeps what was asked for so that asking again is recognised. */
const answerFact = (upstreamId: string) => `registration_answer:${upstreamId}`;

export async function keepAnswer(store: Store, { id, events, url }: RegistrationAnswer): Promise<void> {
  await store.writeFact(answerFact(id), JSON.stringify({ events, url }));
}

export async function heldRegistrations(
  store: Pick<Store, 'listRegistrations' | 'readFact'>,
): Promise<HeldRegistration[]> {
  const held: HeldRegistration[] = [];
  for (const registration of await store.listRegistrations()) {
    const answered = await store.readFact(answerFact(registration.upstreamId));
    const { events } = JSON.parse(answered ?? '{}') as { events?: string[] };
    held.push({ ...registration, delivers: events ?? registration.events });
  }
  return held;
}

/** Everything that we know to be registered, and what of the twelve event types no registration for `url` brings. */
export function writeHeld(cli: Cli, held: readonly HeldRegistration[], url: string | null): void {
  cli.out.write(held.length === 0 ? 'No registration is held here.\n' : 'Registrations held here:\n');
  for (const { upstreamId, url: to, delivers, description, createdWall, sealedSecret } of held) {
    const secret = sealedSecret === null ? 'its secret is not stored' : 'its secret is stored';
    cli.out.write(
      `  ${printable(upstreamId)}  ${printable(to)}  ${delivers.map(printable).join(', ')}  "${printable(description)}", ${secret}, since ${new Date(createdWall).toISOString()}\n`,
    );
  }
  for (const each of url === null ? new Set(held.map((one) => one.url)) : [url]) {
    writeCoverage(
      cli,
      held.filter((one) => one.url === each).flatMap(({ delivers }) => delivers),
      each,
    );
  }
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
      `Warning: not covered at ${printable(url)}, so found by sweeps only: ${missing.join(', ')}${whole}\n`,
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
  held: readonly HeldRegistration[],
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
  if (answer.events !== undefined && sorted(answer.events) !== sorted(asked.events)) {
    cli.err.write(
      `Warning: asked for ${sorted(asked.events)}, and the answer names ${sorted(answer.events) || 'none'}\n`,
    );
  }
  if (answer.url !== undefined && answer.url !== asked.url) {
    cli.err.write(`Warning: the answer names another address: ${printable(answer.url)}\n`);
  }
}

/**
 * Makes sure that every stored secret opens with `key`: the service would not start with one that does not. With
 * `force` those that do not are replaced by one that nobody knows, for whoever has lost the key.
 */
export async function settleUnreadable(
  cli: Cli,
  store: Store,
  key: Uint8Array,
  options: { force: boolean },
): Promise<void> {
  const unreadable = (await store.listRegistrations()).filter(
    ({ sealedSecret }) => sealedSecret !== null && !opens(key, sealedSecret),
  );
  if (unreadable.length === 0) return;
  const names = unreadable.map(({ upstreamId }) => printable(upstreamId)).join(', ');
  if (!options.force) {
    throw new UsageError(
      `the stored signing secret of ${names} does not open with this CREDENTIALS_KEY; nothing was sent`,
      'set CREDENTIALS_KEY to the key it was stored with; if that is lost, --force forgets the secret and registers anew',
    );
  }
  for (const registration of unreadable) {
    const nobodys = sealSecret(key, randomBytes(32).toString('hex'), REGISTRATION_PURPOSE);
    // Another description, so that asking again is not taken for done.
    const description = `${registration.description} (its secret was lost)`;
    await store.saveRegistration({ ...registration, description, sealedSecret: nobodys });
  }
  cli.err.write(
    `Warning: the signing secrets of ${names} are forgotten; remove those registrations in the compliance service.\n`,
  );
}

function opens(key: Uint8Array, sealed: string): boolean {
  try {
    openSecret(key, sealed, REGISTRATION_PURPOSE);
    return true;
  } catch (error) {
    if (error instanceof MirrorError) return false;
    throw error;
  }
}

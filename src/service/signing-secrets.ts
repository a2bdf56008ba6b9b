import { openSecret } from '../compliance/secrets.ts';
import type { CandidateSecret } from '../doctor/diagnosis-search.ts';
import type { SecretFacts } from '../ops/context.ts';
import type { Config } from '../platform/config.ts';
import { MirrorError } from '../platform/errors.ts';
import { type Logger, stage } from '../platform/logger.ts';
import {
  decodeSigningSecret,
  encodeSecret,
  fittingEncodings,
  flawText,
  type SecretEncoding,
  type SecretFlaw,
} from '../platform/signing-secret.ts';
import type { OperatorStore, StoredRegistration } from '../store/store.ts';

/** How soon a change of the registrations counts: commands are processes of their own. */
export const SECRETS_LOOK_MS = 500;
/** The same while one is being made: deliveries may follow its answer at once. */
export const AWAITED_LOOK_MS = 20;

/** Until when, by the wall clock, a registration that is being made may bring a secret; empty: none is. */
export const AWAITED_FACT = 'registration_awaited_until';

/** What a registration's secret is good for. `unreadable`: it does not open with CREDENTIALS_KEY, or there is no such key. */
export type SecretState = 'verifies' | 'not_stored' | 'expired' | 'unreadable' | SecretFlaw;

const isOver = ({ expiresWall }: StoredRegistration, now: number) =>
  expiresWall !== null && expiresWall <= now;

const secretOf = (key: Uint8Array, sealedSecret: string, { upstreamId }: StoredRegistration) =>
  openSecret(key, sealedSecret, { table: 'registrations', row: upstreamId });

/** `fits`: the settings of WEBHOOK_SECRET_ENCODING under which it would make a key. */
export function stateOfSecret(
  registration: StoredRegistration,
  { key, encoding, now }: { key: Uint8Array | null; encoding: SecretEncoding; now: number },
): { state: SecretState; fits: readonly SecretEncoding[] } {
  const none = (state: SecretState) => ({ state, fits: [] });
  if (registration.sealedSecret === null) return none('not_stored');
  if (isOver(registration, now)) return none('expired');
  const text = readableSecret(key, registration);
  if (text === null) return none('unreadable');
  const { flaw } = decodeSigningSecret(text, encoding);
  return { state: flaw ?? 'verifies', fits: fittingEncodings(text) };
}

/** Null: none is stored, or not under this key. */
function readableSecret(key: Uint8Array | null, registration: StoredRegistration): string | null {
  const { sealedSecret } = registration;
  if (key === null || sealedSecret === null) return null;
  try {
    return secretOf(key, sealedSecret, registration);
  } catch (error) {
    if (error instanceof MirrorError) return null;
    throw error;
  }
}

/** For `doctor`: every secret that can be read, those of expired registrations too, each by the name under which an operator knows it. */
export function candidateSecrets(
  { webhook, credentialsKey }: Pick<Config, 'webhook' | 'credentialsKey'>,
  registrations: readonly StoredRegistration[],
  now: number,
): CandidateSecret[] {
  const candidates = webhook.secrets().map(
    (bytes, index): CandidateSecret => ({
      text: encodeSecret(bytes, webhook.secretEncoding),
      isInUse: true,
      name: `WEBHOOK_SECRETS number ${index + 1}`,
    }),
  );
  for (const registration of registrations) {
    const text = readableSecret(credentialsKey, registration);
    if (text === null) continue;
    const retired = isOver(registration, now);
    candidates.push({
      text,
      isInUse: !retired,
      name: `of the registration ${registration.upstreamId}${retired ? ', which has expired' : ''}`,
    });
  }
  return candidates;
}

export type SigningSecrets = ReturnType<typeof createSigningSecrets>;

interface SecretsBase {
  config: Pick<Config, 'credentialsKey'> & { webhook: Pick<Config['webhook'], 'secrets' | 'secretEncoding'> };
  store: Pick<OperatorStore, 'listRegistrations' | 'readFact'>;
  clock: { wall(): number };
  logger: Logger;
}

/** All secrets that may verify a delivery: the configured ones, then those of registrations, which are opened in memory only. */
export function createSigningSecrets({ config, store, clock, logger }: SecretsBase) {
  const log = stage(logger, 'service');
  const encoding = config.webhook.secretEncoding;
  /** By the registration's id. `key` null: the secret makes none. */
  let opened = new Map<string, { sealed: string; key: Uint8Array | null; expiresWall: number }>();
  let reported = new Set<string>();
  let isFirst = true;
  let nextEnd = Number.POSITIVE_INFINITY;
  let awaitedUntil = 0;
  let configured: readonly Uint8Array[] = [];
  let stored: readonly { registration: string; key: Uint8Array }[] = [];
  let all: readonly Uint8Array[] = [];
  // By its bytes: a rotation moves the positions, and the old secret's use must not be taken for the new one's.
  const lastUsed = new Map<string, number>();
  const nameOf = (secret: Uint8Array) => Buffer.from(secret).toString('base64');
  // Nearly every delivery is signed with the secret of the one before.
  let latest: { secret: Uint8Array; name: string } | null = null;

  /** Leaves out what has expired by now. */
  function settle(): void {
    const now = clock.wall();
    const living = [...opened].filter(([, { expiresWall }]) => expiresWall > now);
    nextEnd = Math.min(...living.map(([, { expiresWall }]) => expiresWall));
    stored = living.flatMap(([registration, { key }]) => (key === null ? [] : [{ registration, key }]));
    configured = config.webhook.secrets();
    all = [...configured, ...stored.map(({ key }) => key)];
  }

  function keys(): readonly Uint8Array[] {
    if (configured !== config.webhook.secrets() || clock.wall() >= nextEnd) settle();
    return all;
  }

  function open(key: Uint8Array, registration: StoredRegistration, report: (problem: string) => void) {
    const { upstreamId, sealedSecret } = registration;
    const before = opened.get(upstreamId);
    if (sealedSecret === null || before?.sealed === sealedSecret) return before;
    try {
      const text = secretOf(key, sealedSecret, registration);
      const decoded = decodeSigningSecret(text, encoding);
      if (decoded.flaw !== null) report(flawText(decoded.flaw, encoding));
      return { sealed: sealedSecret, key: decoded.key };
    } catch (error) {
      if (isFirst || !(error instanceof MirrorError)) throw error;
      // Encrypted with a key that is not here yet. Its text is not remembered, so that it is tried again.
      report(error.message);
      return before;
    }
  }

  return {
    /** One that expires is left out at that instant. */
    keys,

    /** A registration is being made, and its secret is not here yet. */
    isAwaited: () => clock.wall() < awaitedUntil,

    /**
     * Looks again: `register`, `registrations` and `credentials` run in processes of their own. Rejects with MirrorError
     * `secret_unreadable` when, the first time, a stored secret cannot be opened; later, what was open stays in use.
     */
    async refresh(): Promise<void> {
      // Asked for each time: its file may have another key by now.
      const key = config.credentialsKey;
      if (key === null) return;
      // First: `register` clears this after its secret is written, so none is missed.
      const until = Number(await store.readFact(AWAITED_FACT));
      const now = clock.wall();
      const next: typeof opened = new Map();
      const problems = new Set<string>();
      for (const registration of await store.listRegistrations()) {
        const { upstreamId, expiresWall } = registration;
        if (isOver(registration, now)) continue;
        const found = open(key, registration, (problem) => {
          problems.add(`${upstreamId} ${problem}`);
          // Once, as long as it stays so.
          if (reported.has(`${upstreamId} ${problem}`)) return;
          log.warn(
            { outcome: 'unusable', target: upstreamId, reason: problem },
            'the signing secret of a registration cannot be used: doctor says what to do',
          );
        });
        if (found !== undefined)
          next.set(upstreamId, { ...found, expiresWall: expiresWall ?? Number.POSITIVE_INFINITY });
      }
      opened = next;
      reported = problems;
      isFirst = false;
      settle();
      awaitedUntil = until;
    },

    /** This one has verified a delivery. */
    used(secret: Uint8Array): void {
      if (latest?.secret !== secret) latest = { secret, name: nameOf(secret) };
      lastUsed.set(latest.name, clock.wall());
    },

    /** Each with its last use since this start. */
    facts: (): SecretFacts[] =>
      keys().map((key, index) => ({
        position: index + 1,
        registration: stored[index - configured.length]?.registration ?? null,
        lastUsedAt: lastUsed.get(nameOf(key)) ?? null,
      })),
  };
}

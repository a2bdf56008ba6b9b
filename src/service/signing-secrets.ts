import { openSecret } from '../compliance/secrets.ts';
import type { CandidateSecret } from '../doctor/diagnosis.ts';
import type { LiveFacts } from '../ops/context.ts';
import type { Config } from '../platform/config.ts';
import { MirrorError } from '../platform/errors.ts';
import { type Logger, stage } from '../platform/logger.ts';
import {
  decodeSigningSecret,
  encodeSecret,
  fittingEncodings,
  flawText,
  type SecretFlaw,
} from '../platform/signing-secret.ts';
import type { SealedText, Store, StoredRegistration } from '../store/store.ts';

/** How often registrations are read again, because commands change them in processes of their own. */
export const SECRETS_LOOK_MS = 500;
/** The same while a registration is being made: deliveries may follow its answer at once. */
export const AWAITED_LOOK_MS = 20;

/** Until when, by the wall clock, a registration that is being made may bring a secret; empty: none is being made. */
export const AWAITED_FACT = 'registration_awaited_until';

/** Whether a registration's secret verifies, or why not. `unreadable`: CREDENTIALS_KEY is not set or does not open it. */
export type SecretState = 'verifies' | 'not_stored' | 'unreadable' | SecretFlaw;

/** The plaintext of a stored secret; null: the key does not open it. */
export function openedText(text: SealedText, key: Uint8Array): string | null {
  try {
    return openSecret(key, text.sealed, text);
  } catch (error) {
    if (error instanceof MirrorError) return null;
    throw error;
  }
}

/** What decides whether a registration's secret can be used. */
export const secretSettings = ({ webhook, credentialsKey }: Pick<Config, 'webhook' | 'credentialsKey'>) => ({
  key: credentialsKey,
  encoding: webhook.secretEncoding,
});
type SecretSettings = ReturnType<typeof secretSettings>;

export function stateOfSecret(registration: StoredRegistration, settings: SecretSettings): SecretState {
  const { key, encoding } = settings;
  if (registration.sealedSecret === null) return 'not_stored';
  const text = readableSecret(key, registration);
  return text === null ? 'unreadable' : (decodeSigningSecret(text, encoding).flaw ?? 'verifies');
}

/** Why the secret cannot be used, and what to do; null: it can. */
export function faultOfSecret(
  registration: StoredRegistration,
  settings: SecretSettings,
): { what: string; remedy: string } | null {
  const state = stateOfSecret(registration, settings);
  if (state === 'verifies') return null;
  if (state === 'not_stored') {
    const remedy = 'Register with --secret-at, or set WEBHOOK_SECRETS.';
    return { what: 'the service’s answer had none', remedy };
  }
  if (state === 'unreadable') {
    const remedy =
      'Set CREDENTIALS_KEY to the key it was stored with; if that is lost, forget the registration and register anew.';
    return { what: 'CREDENTIALS_KEY does not open it', remedy };
  }
  const { key, encoding } = settings;
  const fits = fittingEncodings(readableSecret(key, registration)!);
  return {
    what: `it ${flawText(state, encoding)} (WEBHOOK_SECRET_ENCODING=${encoding})`,
    remedy:
      fits.length === 0
        ? 'No encoding makes a key of it: have the compliance service give another, and “webhook forget” this one.'
        : `Set WEBHOOK_SECRET_ENCODING=${fits.join(' or ')}, as the compliance service means it, and start the service anew.`,
  };
}

/** Null: no secret is stored, or this key does not open it. */
function readableSecret(key: Uint8Array | null, registration: StoredRegistration): string | null {
  const { sealedSecret, upstreamId } = registration;
  if (key === null || sealedSecret === null) return null;
  return openedText({ table: 'registrations', row: upstreamId, sealed: sealedSecret }, key);
}

/** For `doctor`: every readable secret, with a name that an operator understands. */
export function candidateSecrets(
  { webhook, credentialsKey }: Pick<Config, 'webhook' | 'credentialsKey'>,
  registrations: readonly StoredRegistration[],
): CandidateSecret[] {
  const configured = webhook.secrets().map((bytes, index) => ({
    text: encodeSecret(bytes, webhook.secretEncoding),
    name: `WEBHOOK_SECRETS number ${index + 1}`,
  }));
  const stored = registrations.flatMap((registration) => {
    const text = readableSecret(credentialsKey, registration);
    return text === null ? [] : [{ text, name: `of the registration ${registration.upstreamId}` }];
  });
  return [...configured, ...stored];
}

export type SigningSecrets = ReturnType<typeof createSigningSecrets>;

interface SecretsBase {
  config: Pick<Config, 'credentialsKey'> & { webhook: Pick<Config['webhook'], 'secrets' | 'secretEncoding'> };
  store: Pick<Store, 'listRegistrations' | 'readFact'>;
  clock: { wall(): number };
  logger: Logger;
}

/** All secrets that may verify a delivery: the configured ones, then those of registrations, which are decrypted only in memory. */
export function createSigningSecrets({ config, store, clock, logger }: SecretsBase) {
  const log = stage(logger, 'service');
  const encoding = config.webhook.secretEncoding;
  /** By the registration's id. `key` null: the encoding makes no key of the secret. */
  let opened = new Map<string, { sealed: string; key: Uint8Array | null }>();
  let reported = new Set<string>();
  let isFirst = true;
  let awaitedUntil = 0;
  let configured: readonly Uint8Array[] = [];
  let stored: readonly { registration: string; key: Uint8Array }[] = [];
  let all: readonly Uint8Array[] = [];
  // By the secret's bytes and not by its position, which a rotation changes.
  const lastUsed = new Map<string, number>();
  const nameOf = (secret: Uint8Array) => Buffer.from(secret).toString('base64');
  // Nearly every delivery is signed with the same secret as the one before.
  let latest: { secret: Uint8Array; name: string } | null = null;

  function settle(): void {
    stored = [...opened].flatMap(([registration, { key }]) => (key === null ? [] : [{ registration, key }]));
    configured = config.webhook.secrets();
    all = [...configured, ...stored.map(({ key }) => key)];
  }

  function keys(): readonly Uint8Array[] {
    if (configured !== config.webhook.secrets()) settle();
    return all;
  }

  function open(key: Uint8Array, registration: StoredRegistration, report: (problem: string) => void) {
    const { upstreamId, sealedSecret } = registration;
    const before = opened.get(upstreamId);
    if (sealedSecret === null || before?.sealed === sealedSecret) return before;
    try {
      const text = openSecret(key, sealedSecret, { table: 'registrations', row: upstreamId });
      const decoded = decodeSigningSecret(text, encoding);
      if (decoded.flaw !== null) report(flawText(decoded.flaw, encoding));
      return { sealed: sealedSecret, key: decoded.key };
    } catch (error) {
      if (isFirst || !(error instanceof MirrorError)) throw error;
      // It may be encrypted with a key that this process does not have yet. It is tried again at the next refresh.
      report(error.message);
      return before;
    }
  }

  return {
    keys,

    /** Whether a registration is being made whose secret is not here yet. */
    isAwaited: () => clock.wall() < awaitedUntil,

    /**
     * Reads the registrations, which commands change in processes of their own. The first call rejects with MirrorError
     * `secret_unreadable` if a stored secret cannot be opened. In later calls such a secret stays in use as it was.
     */
    async refresh(): Promise<void> {
      // Read each time, because its file may have another key by now.
      const key = config.credentialsKey;
      if (key === null) return;
      // Read before the registrations: `register` clears this after it has written the secret, so no secret is missed.
      const until = Number(await store.readFact(AWAITED_FACT));
      const next: typeof opened = new Map();
      const problems = new Set<string>();
      for (const registration of await store.listRegistrations()) {
        const { upstreamId } = registration;
        const found = open(key, registration, (problem) => {
          problems.add(`${upstreamId} ${problem}`);
          // The same problem is logged once.
          if (reported.has(`${upstreamId} ${problem}`)) return;
          log.warn(
            { outcome: 'unusable', target: upstreamId, reason: problem },
            'the signing secret of a registration cannot be used: doctor says what to do',
          );
        });
        if (found !== undefined) next.set(upstreamId, found);
      }
      opened = next;
      reported = problems;
      isFirst = false;
      settle();
      awaitedUntil = until;
    },

    /** Notes that this secret has verified a delivery. */
    used(secret: Uint8Array): void {
      if (latest?.secret !== secret) latest = { secret, name: nameOf(secret) };
      lastUsed.set(latest.name, clock.wall());
    },

    /** Every secret, with its last use since this start. */
    facts: (): LiveFacts['service']['secrets'] =>
      keys().map((key, index) => {
        const used = lastUsed.get(nameOf(key));
        return {
          position: index + 1,
          registration: stored[index - configured.length]?.registration ?? null,
          last_used_at: used === undefined ? null : new Date(used).toISOString(),
        };
      }),
  };
}

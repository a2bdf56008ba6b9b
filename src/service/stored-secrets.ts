import { registrationPlace } from '../compliance/registration.ts';
import { openSecret } from '../compliance/secrets.ts';
import { MirrorError } from '../platform/errors.ts';
import {
  decodeSigningSecret,
  fittingEncodings,
  flawText,
  type SecretEncoding,
  type SecretFlaw,
} from '../platform/signing-secret.ts';
import type { OperatorStore, StoredRegistration } from '../store/store.ts';

/** How soon a registration made or forgotten meanwhile counts: commands are processes of their own. */
export const SECRETS_LOOK_MS = 500;
/** The same while one is being made: deliveries may follow its answer at once. */
export const AWAITED_LOOK_MS = 20;

/** Until when, by the wall clock, a registration that is being made may bring a secret; empty: none is. */
export const AWAITED_FACT = 'registration_awaited_until';

/** What a registration's secret is good for. `unreadable`: it does not open with CREDENTIALS_KEY, or there is no such key. */
export type SecretStanding = 'verifies' | 'not_stored' | 'expired' | 'unreadable' | SecretFlaw;

/** `fits`: the settings of WEBHOOK_SECRET_ENCODING under which it would make a key. */
export function standingOf(
  { upstreamId, sealedSecret, expiresWall }: StoredRegistration,
  settings: { key: Uint8Array | null; encoding: SecretEncoding; now: number },
): { standing: SecretStanding; fits: readonly SecretEncoding[] } {
  const { key, encoding, now } = settings;
  const none = (standing: SecretStanding) => ({ standing, fits: [] });
  if (sealedSecret === null) return none('not_stored');
  if (expiresWall !== null && expiresWall <= now) return none('expired');
  if (key === null) return none('unreadable');
  try {
    const text = openSecret(key, sealedSecret, registrationPlace(upstreamId));
    const { flaw } = decodeSigningSecret(text, encoding);
    return { standing: flaw ?? 'verifies', fits: fittingEncodings(text) };
  } catch (error) {
    if (error instanceof MirrorError) return none('unreadable');
    throw error;
  }
}

/** A registration's secret that may verify deliveries now. */
export interface StoredSecret {
  registration: string;
  key: Uint8Array;
}

export interface StoredSecrets {
  /** What registrations brought: the same arrays until they change. */
  current(): readonly StoredSecret[];
  keys(): readonly Uint8Array[];
  /** A registration is being made, whose secret is not here yet. */
  isAwaited(): boolean;
  /**
   * Looks again: `register`, `registrations` and `credentials` run in processes of their own. Rejects with MirrorError
   * `secret_unreadable` when, the first time, a stored secret cannot be opened; later what was open stays in use.
   */
  refresh(): Promise<void>;
}

export interface StoredSecretsOptions {
  store: Pick<OperatorStore, 'listRegistrations' | 'readFact'>;
  clock: { wall(): number };
  /** Asked each time: its file may have another key by now. Null: there are no stored secrets. */
  key: () => Uint8Array | null;
  encoding: SecretEncoding;
  /** Told once of a secret that is no key, and of one that no longer opens, for as long as it stays so. */
  onProblem(registration: string, problem: string): void;
}

/** Signing secrets of registrations, opened in memory only. One whose time is over is gone at that instant. */
export function createStoredSecrets(options: StoredSecretsOptions): StoredSecrets {
  const { store, clock, encoding } = options;
  /** By the registration's id. `key` null: it makes none. */
  let opened = new Map<string, { sealed: string; key: Uint8Array | null; expiresWall: number }>();
  let told = new Set<string>();
  let isFirst = true;
  let nextEnd = Number.POSITIVE_INFINITY;
  let secrets: readonly StoredSecret[] = [];
  let keys: readonly Uint8Array[] = [];
  let awaitedUntil = 0;

  function settle(): void {
    const now = clock.wall();
    const living = [...opened].filter(([, { expiresWall }]) => expiresWall > now);
    nextEnd = Math.min(...living.map(([, { expiresWall }]) => expiresWall));
    const usable = living.flatMap(([registration, { key }]) => (key === null ? [] : [{ registration, key }]));
    const isSame = (each: StoredSecret, index: number) =>
      secrets[index]?.registration === each.registration && secrets[index].key === each.key;
    if (usable.length === secrets.length && usable.every(isSame)) return;
    secrets = usable;
    keys = usable.map(({ key }) => key);
  }

  function open(
    key: Uint8Array,
    { upstreamId, sealedSecret }: StoredRegistration,
    tell: (problem: string) => void,
  ) {
    const before = opened.get(upstreamId);
    if (sealedSecret === null || before?.sealed === sealedSecret) return before;
    try {
      const text = openSecret(key, sealedSecret, registrationPlace(upstreamId));
      const decoded = decodeSigningSecret(text, encoding);
      if (decoded.flaw !== null) tell(flawText(decoded.flaw, encoding));
      return { sealed: sealedSecret, key: decoded.key };
    } catch (error) {
      if (isFirst || !(error instanceof MirrorError)) throw error;
      // Re-encrypted, and the new key is not here yet. Its text is not remembered, so that it is tried again.
      tell(error.message);
      return before;
    }
  }

  return {
    current() {
      if (clock.wall() >= nextEnd) settle();
      return secrets;
    },
    keys() {
      if (clock.wall() >= nextEnd) settle();
      return keys;
    },
    isAwaited: () => clock.wall() < awaitedUntil,
    async refresh() {
      const key = options.key();
      if (key === null) return;
      // First: whoever makes one ends this after its secret is written, and none may fall between.
      const until = Number(await store.readFact(AWAITED_FACT));
      const now = clock.wall();
      const next: typeof opened = new Map();
      const problems = new Set<string>();
      for (const registration of await store.listRegistrations()) {
        const { upstreamId, expiresWall } = registration;
        if (expiresWall !== null && expiresWall <= now) continue;
        const found = open(key, registration, (problem) => {
          problems.add(`${upstreamId} ${problem}`);
          if (!told.has(`${upstreamId} ${problem}`)) options.onProblem(upstreamId, problem);
        });
        if (found !== undefined) {
          next.set(upstreamId, { ...found, expiresWall: expiresWall ?? Number.POSITIVE_INFINITY });
        }
      }
      opened = next;
      told = problems;
      isFirst = false;
      settle();
      awaitedUntil = until;
    },
  };
}

import { randomBytes } from 'node:crypto';
import { isLoopback } from '../src/platform/addresses.ts';
import { UsageError } from '../src/platform/errors.ts';
import type { DeliverySettings } from './deliveries.ts';
import { type Faults, NO_FAULTS } from './faults.ts';
import { builtinSeed, normaliseSeed, type SeedData } from './seed.ts';

export interface SandboxOptions extends DeliverySettings {
  host: string;
  /** 0: any free one. */
  port: number;
  /** Guards the page and `/_sandbox`. Null leaves them open, which is allowed only on loopback. */
  token: string | null;
  apiKeys: readonly string[];
  seed: SeedData;
  /** Divides the waits of the retry schedule. */
  timeScale: number;
  /** For registrations that name none; null: one is made for each. */
  webhookSecret: string | null;
  faults: Faults;
  oauth: OauthOptions;
}

export interface OauthOptions {
  /** The client that acts for a person who consents in a browser. Its redirect address is compared letter by letter (RFC 9700). */
  application: { id: string; secret: string; redirectUri: string };
  /** Each acts for itself and may do what its scopes allow. */
  serviceAccounts: readonly { id: string; secret: string; scopes: readonly string[] }[];
  accessTokenSeconds: number;
}

/** What a caller gives. The rest gets its default. */
export type GivenOptions = {
  [Name in keyof Omit<SandboxOptions, 'oauth'>]?: SandboxOptions[Name] | undefined;
} & { oauth?: Partial<OauthOptions>; redirectUri?: string | undefined };

/** At once, then after 5 s, 5 min, 30 min, 2 h, 8 h, 24 h and 48 h. */
const RETRY_DELAYS_SECONDS = [0, 5, 300, 1_800, 7_200, 28_800, 86_400, 172_800];
const DEFAULT_HOST = '127.0.0.1';
const DEFAULT_PORT = 9090;
const DELIVERY_TIMEOUT_MS = 15_000;
/** Enough for deliveries to overtake each other now and then, as a real sender's do. */
const DELIVERY_CONCURRENCY = 8;
const ONE_HOUR_SECONDS = 3_600;
const DEFAULT_REDIRECT_URI = 'http://127.0.0.1:8765/callback';

/** Where `sandbox trigger` looks for it. */
export const DEFAULT_ADDRESS = `http://${DEFAULT_HOST}:${DEFAULT_PORT}`;

/** Adds the defaults, with new keys and secrets each time. @throws UsageError for what must not be listened with. */
export function resolveOptions({ redirectUri, oauth, seed, ...given }: GivenOptions): SandboxOptions {
  const secret = () => `sandbox_secret_${randomBytes(16).toString('hex')}`;
  const set = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const options: SandboxOptions = {
    host: DEFAULT_HOST,
    port: DEFAULT_PORT,
    token: null,
    apiKeys: [`sandbox_${randomBytes(24).toString('hex')}`],
    timeScale: 1,
    retryDelaysMs: RETRY_DELAYS_SECONDS.map((seconds) => seconds * 1000),
    deliveryTimeoutMs: DELIVERY_TIMEOUT_MS,
    deliveryConcurrency: DELIVERY_CONCURRENCY,
    webhookSecret: null,
    faults: NO_FAULTS,
    ...set,
    seed: normaliseSeed(seed ?? builtinSeed(new Date())),
    // A client for people, and two accounts for machines, the second with fewer scopes.
    oauth: {
      application: {
        id: 'sandbox-client',
        secret: secret(),
        redirectUri: redirectUri ?? DEFAULT_REDIRECT_URI,
      },
      serviceAccounts: [
        { id: 'sandbox-service', secret: secret(), scopes: ['read', 'write'] },
        { id: 'sandbox-reader', secret: secret(), scopes: ['read'] },
      ],
      accessTokenSeconds: ONE_HOUR_SECONDS,
      ...oauth,
    },
  };
  if (options.token === null && !isLoopback(options.host)) {
    throw new UsageError(
      `The sandbox does not listen on ${options.host} without SANDBOX_TOKEN: anyone could change its state.`,
      'Set SANDBOX_TOKEN, or listen on 127.0.0.1.',
    );
  }
  return options;
}

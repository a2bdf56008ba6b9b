import { randomBytes, randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import type { JsonObject } from '../src/compliance/pointers.ts';
import { describeError, UsageError } from '../src/platform/errors.ts';
import { isLoopbackHost, parseScopes, SCOPES } from './access.ts';
import type { DeliverySettings } from './deliveries.ts';
import { type Faults, NO_FAULTS } from './faults.ts';
import { merged, type Patch, withAt } from './places.ts';
import { Problem } from './problems.ts';
import { seededRandom } from './random.ts';
import { builtinSeed, loadSeed, normaliseSeed, type SeedData } from './seed.ts';
import {
  changedShapes,
  DEFAULT_SHAPES,
  drawShapes,
  type Shapes,
  type ShapesPatch,
  shapesPatchSchema,
} from './shapes.ts';
import { timeScaleSchema } from './time.ts';

export interface SandboxOptions extends DeliverySettings {
  host: string;
  /** 0: any free one. */
  port: number;
  /** Guards the page and `/_sandbox`. Null leaves them open, which is allowed only on loopback. */
  token: string | null;
  apiKeys: readonly string[];
  seed: SeedData;
  /** The same number gives the same ids and the same faults. */
  seedNumber: number;
  /** Divides the waits of the retry schedule. */
  timeScale: number;
  shapes: Shapes;
  /** `secret`: for registrations that name none; null: one is made for each. */
  signing: DeliverySettings['signing'] & { secret: string | null };
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
export type GivenOptions = Patch<Omit<SandboxOptions, 'seed'>> & { seed?: SeedData | undefined };

/** At once, then after 5 s, 5 min, 30 min, 2 h, 8 h, 24 h and 48 h. */
const DEFAULT_RETRY_DELAYS_SECONDS = [0, 5, 300, 1_800, 7_200, 28_800, 86_400, 172_800];
const DEFAULT_PORT = 9090;
const DELIVERY_TIMEOUT_MS = 15_000;
/** Enough for deliveries to overtake each other now and then, as a real sender's do. */
const DELIVERY_CONCURRENCY = 8;
const MAX_SEED_NUMBER = 2 ** 32 - 1;
const MIN_SECRET_LENGTH = 16;
const ONE_HOUR_SECONDS = 3_600;
const MAX_TOKEN_SECONDS = 86_400;
/** The beginning of every secret that is made for one run. */
const MADE_SECRET_PREFIX = 'sandbox_secret_';

export const isMadeSecret = (secret: string): boolean => secret.startsWith(MADE_SECRET_PREFIX);

/** Makes new keys and secrets each time. */
function defaults(): Omit<SandboxOptions, 'seed'> {
  const secret = () => `${MADE_SECRET_PREFIX}${randomBytes(24).toString('hex')}`;
  return {
    host: '127.0.0.1',
    port: DEFAULT_PORT,
    token: null,
    apiKeys: [`sandbox_${randomBytes(24).toString('hex')}`],
    // Random, because to a mirror that sees two runs the same event ids would look like redeliveries.
    seedNumber: randomInt(MAX_SEED_NUMBER),
    timeScale: 1,
    shapes: DEFAULT_SHAPES,
    retryDelaysMs: DEFAULT_RETRY_DELAYS_SECONDS.map((seconds) => seconds * 1000),
    deliveryTimeoutMs: DELIVERY_TIMEOUT_MS,
    deliveryConcurrency: DELIVERY_CONCURRENCY,
    signing: { header: 'X-Webhook-Signature', algorithm: 'sha256', secret: null },
    faults: NO_FAULTS,
    // A client for people, and two accounts for machines, the second with fewer scopes.
    oauth: {
      application: {
        id: 'sandbox-client',
        secret: secret(),
        redirectUri: 'http://127.0.0.1:8765/callback',
      },
      serviceAccounts: [
        { id: 'sandbox-service', secret: secret(), scopes: ['read', 'write'] },
        { id: 'sandbox-reader', secret: secret(), scopes: ['read'] },
      ],
      accessTokenSeconds: ONE_HOUR_SECONDS,
    },
  };
}

/** Adds the defaults. @throws UsageError for options that contradict each other, or that must not be listened with. */
export function resolveOptions({
  seed = builtinSeed(new Date()),
  shapes = {},
  ...given
}: GivenOptions): SandboxOptions {
  const options = merged<Omit<SandboxOptions, 'seed'>>(defaults(), given);
  if (options.token === null && !isLoopbackHost(options.host)) {
    throw new UsageError(
      `The sandbox does not listen on ${options.host} without SANDBOX_TOKEN: anyone could change its state.`,
      'Set SANDBOX_TOKEN, or SANDBOX_HOST to 127.0.0.1.',
    );
  }
  try {
    return { ...options, seed: normaliseSeed(seed), shapes: changedShapes(DEFAULT_SHAPES, shapes) };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    throw new UsageError(`SANDBOX_SHAPES contradicts itself: ${error.message}`);
  }
}

const wholeNumber = z.string().regex(/^\d+$/, 'a whole number').transform(Number);
const positive = wholeNumber.pipe(z.number().positive());
/** Neither `1e3` nor `0x10`. */
const decimal = z
  .string()
  .regex(/^\d+(\.\d+)?$/, 'a number such as 2 or 0.5')
  .transform(Number);
const secret = z.string().min(MIN_SECRET_LENGTH, `at least ${MIN_SECRET_LENGTH} characters`);
const entries = z.string().transform((text) => text.split(',').map((entry) => entry.trim()));

const shapes = z.string().transform((text, context): ShapesPatch => {
  const drawn = /^draw:(\d{1,9})$/.exec(text)?.[1];
  if (drawn !== undefined) return drawShapes(seededRandom(Number(drawn)));
  const refuse = (message: string) => {
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  };
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    return refuse('draw: and a number, or a JSON object as PATCH /_sandbox/shapes takes it');
  }
  const parsed = shapesPatchSchema.safeParse(given);
  return parsed.success ? parsed.data : refuse(z.prettifyError(parsed.error));
});

const ACCOUNT_FORM = 'id:secret:scopes, the scopes separated by spaces, several accounts by commas';
const serviceAccount = z.string().transform((text, context) => {
  const [, id = '', secret = '', scopeText = ''] = /^([^\s:,]+):([^\s:,]{16,}):(.+)$/.exec(text) ?? [];
  const scopes = parseScopes(scopeText) ?? [];
  const wrongScopes = `the scopes of ${id} are not of: ${Object.keys(SCOPES).join(' ')}`;
  if (scopes.length === 0) {
    context.addIssue({ code: 'custom', message: id === '' ? ACCOUNT_FORM : wrongScopes });
  }
  return { id, secret, scopes };
});

/** Every variable with the option that it sets and its rule. Each value may also come from a file that `…_FILE` names. */
const SETTINGS: Readonly<Record<string, [option: string, rule: z.ZodType]>> = {
  SANDBOX_HOST: ['host', z.string().regex(/^[\w.:[\]-]+$/, 'a host name or an address')],
  SANDBOX_PORT: ['port', wholeNumber.pipe(z.number().max(65_535))],
  SANDBOX_TOKEN: ['token', secret],
  SANDBOX_API_KEY: [
    'apiKeys',
    entries.pipe(
      z.array(z.string().regex(/^[\x21-\x7e]+$/, 'keys of printable characters, separated by commas')),
    ),
  ],
  SANDBOX_SEED: ['seed', z.string().transform(loadSeed)],
  SANDBOX_SEED_NUMBER: ['seedNumber', wholeNumber.pipe(z.number().max(MAX_SEED_NUMBER))],
  SANDBOX_SHAPES: ['shapes', shapes],
  SANDBOX_PAGE_SIZE: ['shapes.paging.size', positive],
  SANDBOX_MAX_PAGE_SIZE: ['shapes.paging.maxSize', positive],
  SANDBOX_RATE_LIMIT: ['faults.rateLimit', positive],
  SANDBOX_TIME_SCALE: ['timeScale', decimal.pipe(timeScaleSchema)],
  SANDBOX_WEBHOOK_SECRET: ['signing.secret', secret],
  SANDBOX_CLIENT_ID: [
    'oauth.application.id',
    z.string().regex(/^[\x21-\x7e]{1,200}$/, 'printable characters without spaces'),
  ],
  SANDBOX_CLIENT_SECRET: [
    'oauth.application.secret',
    z.string().regex(/^[^\s:,]{16,200}$/, 'at least 16 characters, no spaces, commas or colons'),
  ],
  SANDBOX_REDIRECT_URI: [
    'oauth.application.redirectUri',
    z
      .url('an absolute address')
      .refine(
        (text) => !text.includes('#') && !/^(javascript|data|file):/i.test(text),
        'an address without a fragment, and not javascript:, data: or file:',
      ),
  ],
  SANDBOX_SERVICE_ACCOUNTS: [
    'oauth.serviceAccounts',
    entries
      .pipe(z.array(serviceAccount))
      .refine(
        (accounts) => new Set(accounts.map(({ id }) => id)).size === accounts.length,
        'an id appears twice',
      ),
  ],
  SANDBOX_TOKEN_SECONDS: [
    'oauth.accessTokenSeconds',
    decimal.pipe(z.number().positive().max(MAX_TOKEN_SECONDS)),
  ],
};

/** The names of all variables that are read. */
export function sandboxSettingNames(): ReadonlySet<string> {
  return new Set(Object.keys(SETTINGS).flatMap((name) => [name, `${name}_FILE`]));
}

type Environment = Readonly<Record<string, string | undefined>>;

/** The options that are set. @throws UsageError that names a wrong variable. */
export function sandboxOptionsFromEnv(env: Environment): GivenOptions {
  let options: JsonObject = {};
  for (const [name, [option, rule]] of Object.entries(SETTINGS)) {
    const value = readSetting(env, name, rule);
    if (value !== undefined) options = withAt(options, option, value);
  }
  return options;
}

/** The value of `NAME` or of the file that `NAME_FILE` names. An empty text counts as unset, but an empty file is a mistake. */
function readSetting(env: Environment, name: string, rule: z.ZodType): unknown {
  const path = env[`${name}_FILE`];
  let text = env[name];
  if (text && path) throw new UsageError(`${name} and ${name}_FILE are both set; set one of them`);
  try {
    if (path) text = readFileSync(path, 'utf8').trim();
  } catch (error) {
    throw new UsageError(`${name}_FILE cannot be read: ${describeError(error)}`);
  }
  if (path && text === '') throw new UsageError(`${name}_FILE: ${path} is empty`);
  const parsed = text ? rule.safeParse(text) : undefined;
  if (parsed === undefined || parsed.success) return parsed?.data;
  // Only the rule is shown: the value may be a secret.
  throw new UsageError(
    `${name} is not valid: ${parsed.error.issues.map((issue) => issue.message).join('; ')}`,
  );
}

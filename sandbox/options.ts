import { randomBytes, randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { describeError, UsageError } from '../src/platform/errors.ts';
import { isLoopbackHost } from './access.ts';
import { parseScopes, SCOPES } from './authentication.ts';
import { builtinSeed } from './builtin.ts';
import { type Faults, NO_FAULTS } from './faults.ts';
import { Problem } from './problems.ts';
import { seededRandom } from './random.ts';
import { loadSeed, normaliseSeed, type SeedData } from './seed.ts';
import type { SignatureAlgorithm } from './send.ts';
import {
  changedShapes,
  DEFAULT_SHAPES,
  drawShapes,
  type Shapes,
  type ShapesPatch,
  shapesPatchSchema,
} from './shapes.ts';
import { timeScaleSchema } from './time.ts';

export interface SandboxOptions {
  host: string;
  /** 0: any free one. */
  port: number;
  /** Guards the page and `/_sandbox`; null leaves them open, and is refused beyond loopback. */
  token: string | null;
  /** Empty: one is made. */
  apiKeys: readonly string[];
  seed: SeedData;
  /** The same number gives the same ids and the same faults. */
  seedNumber: number;
  /** Divides the waits of the retry schedule. */
  timeScale: number;
  shapes: Shapes;
  retryDelaysMs: readonly number[];
  deliveryTimeoutMs: number;
  deliveryConcurrency: number;
  signing: {
    header: string;
    algorithm: SignatureAlgorithm;
    /** For registrations that bring none of their own; null: one is made for each. */
    secret: string | null;
  };
  faults: Faults;
  oauth: OauthOptions;
}

export interface OauthOptions {
  /** Acts for a person who consents in a browser. Its redirect address is compared letter by letter (RFC 9700). */
  application: { id: string; secret: string; redirectUri: string };
  /** Each acts for itself, and may do what its scopes say. */
  serviceAccounts: readonly { id: string; secret: string; scopes: readonly string[] }[];
  accessTokenSeconds: number;
}

/** What a caller gives; the rest is filled in. */
export type GivenOptions = Partial<Omit<SandboxOptions, 'oauth' | 'shapes'>> & {
  oauth?: Partial<OauthOptions>;
  shapes?: ShapesPatch;
};

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** The first attempt is immediate; the last comes some three and a half days after it. */
const DEFAULT_RETRY_DELAYS_MS = [
  ...[0, 5_000, 5 * MINUTE_MS, 30 * MINUTE_MS],
  ...[2 * HOUR_MS, 8 * HOUR_MS, 24 * HOUR_MS, 48 * HOUR_MS],
];
const DEFAULT_PORT = 9090;
const DELIVERY_TIMEOUT_MS = 15_000;
/** Enough for deliveries to overtake each other now and then, as a real sender's do. */
const DELIVERY_CONCURRENCY = 8;
const DEFAULT_SIGNING = { header: 'X-Webhook-Signature', algorithm: 'sha256', secret: null } as const;
const MAX_SEED_NUMBER = 2 ** 32 - 1;
const MIN_SECRET_LENGTH = 16;
const ONE_HOUR_SECONDS = 3_600;
const MAX_TOKEN_SECONDS = 86_400;
/** Tells a secret that was made for this run from one that was set. */
const MADE_SECRET_PREFIX = 'sandbox_secret_';

export const isMadeSecret = (secret: string): boolean => secret.startsWith(MADE_SECRET_PREFIX);

export const tokenSeconds = z.number().positive().max(MAX_TOKEN_SECONDS);

/** A client for people and two accounts for machines, the second with less; secrets are made anew each time. */
function defaultOauth(): OauthOptions {
  const secret = () => `${MADE_SECRET_PREFIX}${randomBytes(24).toString('hex')}`;
  return {
    application: {
      ...{ id: 'sandbox-client', secret: secret(), redirectUri: 'http://127.0.0.1:8765/callback' },
    },
    serviceAccounts: [
      { id: 'sandbox-service', secret: secret(), scopes: ['read', 'write'] },
      { id: 'sandbox-reader', secret: secret(), scopes: ['read'] },
    ],
    accessTokenSeconds: ONE_HOUR_SECONDS,
  };
}

/** Fills in what is left out. Throws a UsageError for a combination that must not listen. */
export function resolveOptions(given: GivenOptions): SandboxOptions {
  const options: SandboxOptions = {
    host: '127.0.0.1',
    port: DEFAULT_PORT,
    token: null,
    apiKeys: [],
    // Not a constant: two runs with the same event ids would look like redeliveries to a mirror that saw both.
    seedNumber: randomInt(MAX_SEED_NUMBER),
    timeScale: 1,
    retryDelaysMs: DEFAULT_RETRY_DELAYS_MS,
    deliveryTimeoutMs: DELIVERY_TIMEOUT_MS,
    deliveryConcurrency: DELIVERY_CONCURRENCY,
    signing: DEFAULT_SIGNING,
    faults: NO_FAULTS,
    ...given,
    shapes: shapesOf(given.shapes ?? {}),
    seed: normaliseSeed(given.seed ?? builtinSeed(new Date())),
    oauth: { ...defaultOauth(), ...given.oauth },
  };
  if (options.token === null && !isLoopbackHost(options.host)) {
    throw new UsageError(
      `The sandbox does not listen on ${options.host} without SANDBOX_TOKEN: anyone could change its state.`,
      'Set SANDBOX_TOKEN, or SANDBOX_HOST to 127.0.0.1.',
    );
  }
  if (options.apiKeys.length > 0) return options;
  return { ...options, apiKeys: [`sandbox_${randomBytes(24).toString('hex')}`] };
}

function shapesOf(patch: ShapesPatch): Shapes {
  try {
    return changedShapes(DEFAULT_SHAPES, patch);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    throw new UsageError(`SANDBOX_SHAPES contradicts itself: ${error.message}`);
  }
}

const entries = z.string().transform((text) => text.split(',').map((entry) => entry.trim()));
const apiKeys = entries.pipe(
  z.array(z.string().regex(/^[\x21-\x7e]+$/, 'keys of printable characters, separated by commas')),
);
const secret = z.string().min(MIN_SECRET_LENGTH, `at least ${MIN_SECRET_LENGTH} characters`);
const wholeNumber = z.string().regex(/^\d+$/, 'a whole number').transform(Number);
const positive = wholeNumber.pipe(z.number().positive());
/** Neither `1e3` nor `0x10`. */
const decimal = z
  .string()
  .regex(/^\d+(\.\d+)?$/, 'a number such as 2 or 0.5')
  .transform(Number);

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

const clientId = z.string().regex(/^[\x21-\x7e]{1,200}$/, 'printable characters without spaces');
/** Without the separators of the list of accounts. */
const clientSecret = z
  .string()
  .regex(/^[^\s:,]{16,200}$/, 'at least 16 characters, no spaces, commas or colons');
const redirectUri = z
  .url('an absolute address')
  .refine(
    (text) => !text.includes('#') && !/^(javascript|data|file):/i.test(text),
    'an address without a fragment, and not javascript:, data: or file:',
  );

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
const serviceAccounts = entries
  .pipe(z.array(serviceAccount))
  .refine(
    (accounts) => new Set(accounts.map(({ id }) => id)).size === accounts.length,
    'an id appears twice',
  );

type Environment = Readonly<Record<string, string | undefined>>;

/** Reads `SANDBOX_*`, or a path to each from `…_FILE`. Throws a UsageError that names the variable. */
export function sandboxOptionsFromEnv(env: Environment): GivenOptions {
  const read = <T>(name: string, schema: z.ZodType<T>): T | undefined => readSetting(env, name, schema);
  const seedPath = read('SANDBOX_SEED', z.string());
  const rateLimit = read('SANDBOX_RATE_LIMIT', positive);
  const paging = group({
    size: read('SANDBOX_PAGE_SIZE', positive),
    maxSize: read('SANDBOX_MAX_PAGE_SIZE', positive),
  });
  const givenShapes = read('SANDBOX_SHAPES', shapes);
  const webhookSecret = read('SANDBOX_WEBHOOK_SECRET', secret);
  const application = group({
    id: read('SANDBOX_CLIENT_ID', clientId),
    secret: read('SANDBOX_CLIENT_SECRET', clientSecret),
    redirectUri: read('SANDBOX_REDIRECT_URI', redirectUri),
  });
  const options = group({
    host: read('SANDBOX_HOST', z.string().regex(/^[\w.:[\]-]+$/, 'a host name or an address')),
    port: read('SANDBOX_PORT', wholeNumber.pipe(z.number().max(65_535))),
    seed: seedPath && loadSeed(seedPath),
    seedNumber: read('SANDBOX_SEED_NUMBER', wholeNumber.pipe(z.number().max(MAX_SEED_NUMBER))),
    timeScale: read('SANDBOX_TIME_SCALE', decimal.pipe(timeScaleSchema)),
    shapes: paging ? { ...givenShapes, paging: { ...givenShapes?.paging, ...paging } } : givenShapes,
    faults: rateLimit && { ...NO_FAULTS, rateLimit },
    token: read('SANDBOX_TOKEN', secret),
    apiKeys: read('SANDBOX_API_KEY', apiKeys),
    signing: webhookSecret && { ...DEFAULT_SIGNING, secret: webhookSecret },
    oauth: group({
      application: application && { ...defaultOauth().application, ...application },
      serviceAccounts: read('SANDBOX_SERVICE_ACCOUNTS', serviceAccounts),
      accessTokenSeconds: read('SANDBOX_TOKEN_SECONDS', decimal.pipe(tokenSeconds)),
    }),
  });
  return (options ?? {}) as GivenOptions;
}

/** The name of every variable that is read. */
export function sandboxSettingNames(): ReadonlySet<string> {
  const asked = new Set<string>();
  const get = (_: object, name: string | symbol) => void asked.add(String(name));
  sandboxOptionsFromEnv(new Proxy({}, { get }));
  return asked;
}

/** Without the fields that are not set; undefined where none is. */
function group<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } | undefined {
  const set = Object.entries(fields).filter(([, value]) => value !== undefined);
  return set.length === 0 ? undefined : (Object.fromEntries(set) as T);
}

/** An empty variable counts as unset. */
function readSetting<T>(env: Environment, name: string, schema: z.ZodType<T>): T | undefined {
  const text = textOf(env, name);
  if (!text) return undefined;
  const parsed = schema.safeParse(text);
  if (parsed.success) return parsed.data;
  // Only the rule is shown: the value may be a secret.
  throw new UsageError(
    `${name} is not valid: ${parsed.error.issues.map((issue) => issue.message).join('; ')}`,
  );
}

function textOf(env: Environment, name: string): string | undefined {
  const path = env[`${name}_FILE`];
  if (!path) return env[name];
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    throw new UsageError(`${name}_FILE cannot be read: ${describeError(error)}`);
  }
}

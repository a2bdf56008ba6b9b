import { randomBytes, randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { describeError, UsageError } from '../src/platform/errors.ts';
import { builtinSeed } from './builtin.ts';
import { type Faults, NO_FAULTS } from './faults.ts';
import { isLoopbackHost } from './loopback.ts';
import { decimal, defaultOauth, defined, type OauthOptions, oauthFromEnv } from './oauth/options.ts';
import { Problem } from './problems.ts';
import { seededRandom } from './random.ts';
import type { SeedData } from './records.ts';
import { loadSeed, normaliseSeed } from './seed.ts';
import type { SignatureAlgorithm } from './send.ts';
import { changedShapes, DEFAULT_SHAPES, type Shapes, type ShapesPatch, shapesPatchSchema } from './shapes.ts';
import { drawShapes } from './shapes-draw.ts';
import { timeScaleSchema } from './time.ts';

export interface SandboxOptions {
  host: string;
  /** 0: any free one. */
  port: number;
  /** Guards `/_sandbox`; null leaves it open, and is refused beyond loopback. */
  token: string | null;
  /** Empty: one is made. */
  apiKeys: readonly string[];
  seed: SeedData;
  /** The same number gives the same ids and the same faults. */
  seedNumber: number;
  /** Divides the waits of the retry schedule. */
  timeScale: number;
  /** What the specification leaves open about answers and events; `/_sandbox/shapes` changes it. */
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

/** What a caller gives; the rest is filled in. */
export type GivenOptions = Partial<Omit<SandboxOptions, 'oauth' | 'shapes'>> & {
  oauth?: Partial<OauthOptions>;
  shapes?: ShapesPatch;
};

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** The first attempt is immediate; the last comes some three and a half days after it. */
const DEFAULT_RETRY_DELAYS_MS = [
  0,
  5_000,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  8 * HOUR_MS,
  24 * HOUR_MS,
  48 * HOUR_MS,
];
const DEFAULT_PORT = 9090;
const DELIVERY_TIMEOUT_MS = 15_000;
/** Enough for deliveries to overtake each other now and then, as a real sender's do. */
const DELIVERY_CONCURRENCY = 8;
const MAX_SEED_NUMBER = 2 ** 32 - 1;
const MIN_SECRET_LENGTH = 16;

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
    signing: { header: 'X-Webhook-Signature', algorithm: 'sha256', secret: null },
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

type Environment = Readonly<Record<string, string | undefined>>;

const list = z
  .string()
  .transform((text) => text.split(',').map((entry) => entry.trim()))
  .pipe(z.array(z.string().regex(/^[\x21-\x7e]+$/, 'keys of printable characters, separated by commas')));
const secretText = z.string().min(MIN_SECRET_LENGTH, `at least ${MIN_SECRET_LENGTH} characters`);
const wholeNumber = z
  .string()
  .regex(/^\d+$/, 'a whole number')
  .transform((text) => Number(text));

const shapes = z.string().transform((text, context): ShapesPatch => {
  const drawn = /^draw:(\d{1,9})$/.exec(text)?.[1];
  if (drawn !== undefined) return drawShapes(seededRandom(Number(drawn)));
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    context.addIssue({
      code: 'custom',
      message: 'draw: and a number, or a JSON object as PATCH /_sandbox/shapes takes it',
    });
    return z.NEVER;
  }
  const parsed = shapesPatchSchema.safeParse(given);
  if (parsed.success) return parsed.data;
  context.addIssue({ code: 'custom', message: z.prettifyError(parsed.error) });
  return z.NEVER;
});

/** Reads `SANDBOX_*`, or a path to each from `…_FILE`. Throws a UsageError that names the variable. */
export function sandboxOptionsFromEnv(env: Environment): GivenOptions {
  const read = <T>(name: string, schema: z.ZodType<T>): T | undefined => readSetting(env, name, schema);
  const seedPath = read('SANDBOX_SEED', z.string());
  const rateLimit = read('SANDBOX_RATE_LIMIT', wholeNumber.pipe(z.number().positive()));
  const paging = {
    size: read('SANDBOX_PAGE_SIZE', wholeNumber.pipe(z.number().positive())),
    maxSize: read('SANDBOX_MAX_PAGE_SIZE', wholeNumber.pipe(z.number().positive())),
  };
  const webhookSecret = read('SANDBOX_WEBHOOK_SECRET', secretText);
  const options = {
    host: read('SANDBOX_HOST', z.string().regex(/^[\w.:[\]-]+$/, 'a host name or an address')),
    port: read('SANDBOX_PORT', wholeNumber.pipe(z.number().max(65_535))),
    seed: seedPath === undefined ? undefined : loadSeed(seedPath),
    seedNumber: read('SANDBOX_SEED_NUMBER', wholeNumber.pipe(z.number().max(MAX_SEED_NUMBER))),
    timeScale: read('SANDBOX_TIME_SCALE', decimal.pipe(timeScaleSchema)),
    shapes: withPaging(read('SANDBOX_SHAPES', shapes), defined(paging)),
    faults: rateLimit === undefined ? undefined : { ...NO_FAULTS, rateLimit },
    token: read('SANDBOX_TOKEN', secretText),
    apiKeys: read('SANDBOX_API_KEY', list),
    signing:
      webhookSecret === undefined
        ? undefined
        : { header: 'X-Webhook-Signature', algorithm: 'sha256', secret: webhookSecret },
    oauth: oauthFromEnv(read),
  };
  return defined(options) as GivenOptions;
}

function withPaging(
  patch: ShapesPatch | undefined,
  paging: NonNullable<ShapesPatch['paging']>,
): ShapesPatch | undefined {
  if (Object.keys(paging).length === 0) return patch;
  return { ...patch, paging: { ...patch?.paging, ...paging } };
}

/** The name of every variable that is read. */
export function sandboxSettingNames(): ReadonlySet<string> {
  const asked = new Set<string>();
  const get = (_: object, name: string | symbol) => void asked.add(String(name));
  sandboxOptionsFromEnv(new Proxy({}, { get }));
  return asked;
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

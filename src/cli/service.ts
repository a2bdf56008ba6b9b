import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseJson } from '../compliance/json.ts';
import { OPS_TOKEN_FILE } from '../ops/tokens.ts';
import { type Config, loadConfig } from '../platform/config.ts';
import { describeError, MirrorError, UsageError } from '../platform/errors.ts';
import type { Cli } from './cli.ts';
import { databasePath, holderOfDatabase } from './database.ts';

/** An operators' listener, and a token for it. */
interface Listener {
  url: string;
  token: string;
}

type Query = Readonly<Record<string, string | number | undefined>>;

/** The API of a running service. Paths are below `/api/`. Every verb rejects with what the service's problem says. */
export interface Service {
  url: string;
  get<T>(path: string, query?: Query): Promise<T>;
  post<T>(path: string, body?: object, timeoutMs?: number): Promise<T>;
  /** One page of a list as CSV, with the `after` of the next one. */
  csv(path: string, query: Query): Promise<{ text: string; next: string | undefined }>;
}

/** The listener answers soon: long work is only queued. Milliseconds. */
const TIMEOUT_MS = 15_000;

/** Runs `work` with the running service: the one that OPS_URL names, else the one that holds the database. */
export async function withService<T>(
  cli: Pick<Cli, 'env'>,
  work: (service: Service) => Promise<T>,
): Promise<T> {
  const config = loadConfig(cli.env);
  const service = await runningService(config);
  if (service === null) throw await notRunning(config);
  return await work(service);
}

/** Null: no service is known to run. */
export async function runningService(config: Config): Promise<Service | null> {
  if (config.remote !== null) return serviceAt({ url: config.remote.url.href, token: config.remote.token() });
  const holder = await holderOfDatabase(config.databaseUrl);
  if (holder === null) return null;
  if (holder.opsUrl === null) {
    throw new MirrorError('starting', `process ${holder.pid} holds the database and is not listening yet`, {
      retryable: true,
      remedy: 'try again in a moment',
    });
  }
  return serviceAt({ url: holder.opsUrl, token: await tokenOf(config) });
}

/** Says what to do, by what is there. */
export async function notRunning({ databaseUrl, compliance, webhook }: Config): Promise<MirrorError> {
  const path = await databasePath(databaseUrl);
  const isSetUp = path === null || existsSync(path) || compliance !== null || webhook.secrets().length > 0;
  const what =
    path === null ? 'no service is known for this PostgreSQL database' : `no service is running on ${path}`;
  return new MirrorError('not_running', isSetUp ? what : `${what}, and nothing is set up here`, {
    remedy: isSetUp
      ? 'start it with “npm start” or “compliance-mirror serve”, then ask again; OPS_URL and OPS_TOKEN name one elsewhere'
      : 'begin with “setup”, or see it work with “demo”; OPS_URL and OPS_TOKEN name a service elsewhere',
  });
}

async function tokenOf({ ops, databaseUrl }: Config): Promise<string> {
  const configured = ops.tokens.find(({ role }) => role === 'operate') ?? ops.tokens[0];
  if (configured !== undefined) return configured.token;
  const path = join(dirname((await databasePath(databaseUrl)) ?? ''), OPS_TOKEN_FILE);
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    throw new UsageError(
      `there is no operators' token: OPS_TOKENS is not set, and ${path} cannot be read: ${describeError(error)}`,
      'set OPS_TOKENS to what the service was started with; if to nothing, restart it, and it makes that file again',
    );
  }
}

function serviceAt({ url, token }: Listener): Service {
  async function ask(
    path: string,
    query: Query,
    init: RequestInit,
    timeoutMs = TIMEOUT_MS,
  ): Promise<{ response: Response; text: string }> {
    // The URL may end in a path, as behind a proxy.
    const address = new URL(`api/${path}`, url.endsWith('/') ? url : `${url}/`);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) address.searchParams.set(name, String(value));
    }
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...init.headers };
    try {
      const signal = AbortSignal.timeout(timeoutMs);
      // A redirect would take the token to another place.
      const response = await fetch(address, { ...init, headers, signal, redirect: 'manual' });
      return { response, text: await response.text() };
    } catch (cause) {
      throw new MirrorError('service_unreachable', `the service at ${url} does not answer`, {
        retryable: true,
        remedy: "OPS_URL names it, or it holds the database; is its operators' listener reachable from here?",
        cause,
      });
    }
  }
  async function answerOf<T>(asked: ReturnType<typeof ask>): Promise<T> {
    const { response, text } = await asked;
    if (!response.ok) throw refusalOf(response.status, text);
    try {
      const value = parseJson(text);
      if (typeof value === 'object' && value !== null) return value as T;
    } catch {
      // Not JSON: see below.
    }
    throw new MirrorError('refused', 'what answers there is no operators’ listener', {
      remedy: 'is OPS_URL the address of the page, and nothing before it that asks to sign in?',
    });
  }
  return {
    url,
    get: (path, query = {}) => answerOf(ask(path, query, {})),
    post: (path, body = {}, timeoutMs = TIMEOUT_MS) =>
      answerOf(ask(path, {}, { method: 'POST', body: JSON.stringify(body) }, timeoutMs)),
    async csv(path, query) {
      const { response, text } = await ask(path, query, { headers: { accept: 'text/csv' } });
      if (!response.ok) throw refusalOf(response.status, text);
      const link = /^<([^>]*)>;\s*rel="?next/.exec(response.headers.get('link') ?? '')?.[1];
      const next = link === undefined ? null : new URL(link, url).searchParams.get('after');
      return { text, next: next ?? undefined };
    },
  };
}

/** The answer; null where there is no such thing. */
export async function found<T>(asked: Promise<T>): Promise<T | null> {
  return await asked.catch((error: unknown) => {
    if (error instanceof MirrorError && error.code === 'not_found') return null;
    throw error;
  });
}

function refusalOf(status: number, text: string): MirrorError {
  const { code, title, detail } = problemIn(text);
  if (status === 401) {
    return new MirrorError('unauthorized', "the service does not accept our operators' token", {
      remedy:
        'give one that the service was started with: as OPS_TOKEN beside OPS_URL, otherwise in OPS_TOKENS',
    });
  }
  const said = detail === undefined ? title : `${title} ${detail}`;
  if (['invalid_parameter', 'usage', 'not_kept'].includes(code)) return new UsageError(said);
  // What may be absent is asked for by `found`; so something else answers there: the receiver, or a proxy.
  if (status === 404 || code === 'refused') {
    const remedy = 'is OPS_URL the address of the operators’ listener?';
    return new MirrorError(code, `the service answered ${status}: ${said}`, { remedy });
  }
  return new MirrorError(code, said, { retryable: status === 503 });
}

/** The problem in an answer. The answer of a proxy may be none: then its text. */
function problemIn(text: string): { code: string; title: string; detail?: string } {
  try {
    const { code, title, detail } = JSON.parse(text) as Record<string, unknown>;
    if (typeof code === 'string' && typeof title === 'string') {
      return { code, title, ...(typeof detail === 'string' ? { detail } : {}) };
    }
  } catch {
    // Not JSON: see below.
  }
  return { code: 'refused', title: text.slice(0, 200) };
}

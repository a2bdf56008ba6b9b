import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { type ClientResponse, hc } from 'hono/client';
import type { z } from 'zod';
import { parseJson } from '../../compliance/json.ts';
import type { Kind } from '../../compliance/kinds.ts';
import { MirrorError, UsageError } from '../../platform/errors.ts';
import type { Api } from './app.ts';
import { idInPath } from './ids.ts';
import type { problemDetails } from './schemas.ts';

/** The API, typed by its own declaration. */
export type ApiClient = ReturnType<typeof hc<Api>>['api'];

/** The listener answers soon: long work is only queued. */
const TIMEOUT_MS = 15_000;

/** For a request that may take any time: it has no timeout. */
export const PATIENTLY = { init: { signal: new AbortController().signal } };

/** The API of an operators' listener. `url` may end in a path, as behind a proxy. */
export function remoteApi({ url, token }: { url: string; token: string }): ApiClient {
  // `hc` passes a URL, and a body that is a text.
  const send: typeof fetch = async (address, init) => {
    const signal = init?.signal ?? AbortSignal.timeout(TIMEOUT_MS);
    try {
      return await ask(new URL(String(address)), token, { ...init, signal });
    } catch (cause) {
      throw new MirrorError('service_unreachable', `the service at ${url} does not answer`, {
        retryable: true,
        remedy: "OPS_URL names it, or it holds the database; is its operators' listener reachable from here?",
        cause,
      });
    }
  };
  return hc<Api>(url, { fetch: send }).api;
}

/** `fetch` was refused: it follows redirects, or fails without a reason, and waits only five minutes for an answer. */
async function ask(url: URL, token: string, init: RequestInit): Promise<Response> {
  return await new Promise((resolve, reject) => {
    const headers = { ...Object.fromEntries(new Headers(init.headers)), authorization: `Bearer ${token}` };
    const options = { method: init.method ?? 'GET', headers, signal: init.signal ?? undefined };
    const request = (url.protocol === 'https:' ? httpsRequest : httpRequest)(url, options, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.once('error', reject);
      response.once('end', () => {
        const status = response.statusCode ?? 0;
        // A Response takes no other status, and an operators' listener sends no other.
        const isUsual = status >= 200 && status <= 599;
        const body = isBodiless(status) ? null : Buffer.concat(chunks);
        resolve(new Response(body, { status: isUsual ? status : 502 }));
      });
    });
    request.once('error', reject);
    request.end(init.body ?? undefined);
  });
}

const isBodiless = (status: number) => [204, 205, 304].includes(status);

/** Ids as a path carries them. */
export const at = (id: string | number) => ({ param: { id: idInPath(String(id)) } });
export const atRecord = (kind: Kind, id: string) => ({ param: { kind, id: idInPath(id) } });

type Answer<R> =
  R extends ClientResponse<infer Value, infer Status, string>
    ? Status extends 200 | 202
      ? Value
      : never
    : never;

/** The answer's content. Rejects with what its problem says. */
export async function answered<R extends ClientResponse<unknown>>(asked: Promise<R>): Promise<Answer<R>> {
  return await contentOf(await asked);
}

async function contentOf<R extends ClientResponse<unknown>>(response: R): Promise<Answer<R>> {
  const text = await response.text();
  if (response.ok) return jsonIn(text) as Answer<R>;
  throw refusalOf(response.status, problemIn(text));
}

/** Every answer of the API is an object. */
function jsonIn(text: string): object {
  try {
    const value = parseJson(text);
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // Not JSON: see below.
  }
  throw new MirrorError('refused', 'what answers there is no operators’ listener', {
    remedy: 'is OPS_URL the address of the page, and nothing before it that asks to sign in?',
  });
}

/** As `answered`; null for 404. */
export async function found<R extends ClientResponse<unknown>>(asked: Promise<R>): Promise<Answer<R> | null> {
  const response = await asked;
  return response.status === 404 ? null : await contentOf(response);
}

/** As `found`, for a change. `whyNot`: the thing's state does not allow the change. */
export async function changed<R extends ClientResponse<unknown>>(
  asked: Promise<R>,
): Promise<{ done: Answer<R> } | { whyNot: string; code: string } | null> {
  const response = await asked;
  if (response.status === 404) return null;
  if (response.status !== 409) return { done: await contentOf(response) };
  const { code, detail, title } = problemIn(await response.text());
  return { code, whyNot: detail ?? title };
}

const NO_PROBLEM = 'refused';

type Problem = Pick<z.output<typeof problemDetails>, 'code' | 'title' | 'detail'>;

/** The problem in an answer. The answer of a proxy may be none: then its text. */
function problemIn(text: string): Problem {
  try {
    const { code, title, detail } = JSON.parse(text) as Partial<Problem>;
    if (typeof code === 'string' && typeof title === 'string') {
      return { code, title, ...(typeof detail === 'string' ? { detail } : {}) };
    }
  } catch {
    // Not JSON: see below.
  }
  return { code: NO_PROBLEM, title: text.slice(0, 200) };
}

function refusalOf(status: number, { code, title, detail }: Problem): MirrorError {
  if (status === 401) {
    return new MirrorError('unauthorized', "the service does not accept our operators' token", {
      remedy:
        'give one that the service was started with: as OPS_TOKEN beside OPS_URL, otherwise in OPS_TOKENS',
    });
  }
  if (code === 'invalid_parameter') return new UsageError(`${title} ${detail ?? ''}`);
  if (code === 'usage') return new UsageError(detail ?? title);
  const said = detail === undefined ? title : `${title} ${detail}`;
  // What may be absent was asked by `found` or `changed`; so it is the receiver, say.
  return code === NO_PROBLEM || status === 404
    ? new MirrorError(code, `the service answered ${status}: ${said}`, {
        remedy: 'is OPS_URL the address of the operators’ listener?',
      })
    : new MirrorError(code, said, { retryable: status === 503 });
}

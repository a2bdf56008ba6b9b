import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { MirrorError } from '../platform/errors.ts';

/** The operators' listener, as a script would use it. */
export interface OpsClient {
  readonly url: string;
  get(path: string): Promise<unknown>;
  /** Null when the answer is that there is no such thing. */
  getIfFound(path: string): Promise<unknown>;
  /** Rejects unless answered 2xx. */
  post(path: string, body: unknown): Promise<unknown>;
  /** The same for what takes as long as it takes: it waits for an answer for ever. */
  postPatiently(path: string, body: unknown): Promise<unknown>;
  /** Null when the answer is that there is no such thing, or that its state does not allow it. */
  postIfFound(path: string, body?: unknown): Promise<unknown>;
  /** What it answers, or why its state does not allow it. Null when the answer is that there is no such thing. */
  postOrWhyNot(path: string): Promise<{ done: unknown } | { whyNot: string } | null>;
}

/** What the listener does in answer to one request is short: it queues, or it writes a row. */
const TIMEOUT_MS = 15_000;

export function createOpsClient(options: { url: string; token: string }): OpsClient {
  const url = options.url.replace(/^(.*[^/])?\/*$/s, '$1');

  async function send(method: 'GET' | 'POST', path: string, body?: unknown): Promise<Response> {
    try {
      return await fetch(`${url}${path}`, {
        method,
        redirect: 'error',
        signal: AbortSignal.timeout(TIMEOUT_MS),
        headers: {
          authorization: `Bearer ${options.token}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
    } catch (error) {
      throw new MirrorError('service_unreachable', `the service at ${url} does not answer`, {
        retryable: true,
        remedy:
          "it holds the database, so changes go through it; is its operators' listener reachable from here?",
        cause: error,
      });
    }
  }

  return {
    url,
    get: async (path) => await jsonOf(await send('GET', path)),
    async getIfFound(path) {
      const response = await send('GET', path);
      if (response.status !== 404) return await jsonOf(response);
      await response.body?.cancel();
      return null;
    },
    post: async (path, body) => await jsonOf(await send('POST', path, body)),
    async postPatiently(path, body) {
      return await jsonOf(await sendPatiently(`${url}${path}`, options.token, JSON.stringify(body)));
    },
    async postOrWhyNot(path) {
      const response = await send('POST', path, {});
      if (response.status === 409) return { whyNot: detailOf(await response.text()) };
      if (response.status !== 404) return { done: await jsonOf(response) };
      await response.body?.cancel();
      return null;
    },
    async postIfFound(path, body = {}) {
      const response = await send('POST', path, body);
      if (response.status === 404 || response.status === 409) {
        await response.body?.cancel();
        return null;
      }
      return await jsonOf(response);
    },
  };
}

/** Not by fetch, which gives up on an answer's head after five minutes. */
async function sendPatiently(url: string, token: string, body: string): Promise<Response> {
  return await new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const request = url.startsWith('https:') ? httpsRequest : httpRequest;
    const sent = request(url, { method: 'POST', headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.once('error', reject);
      response.once('end', () =>
        resolve(new Response(Buffer.concat(chunks), { status: response.statusCode ?? 500 })),
      );
    });
    sent.once('error', (cause) =>
      reject(new MirrorError('service_unreachable', 'the service ended before it had answered', { cause })),
    );
    sent.end(body);
  });
}

async function jsonOf(response: Response): Promise<unknown> {
  const text = await response.text();
  if (response.ok) return text === '' ? null : JSON.parse(text);
  if (response.status === 401) {
    throw new MirrorError('unauthorized', "the service does not accept our operators' token", {
      remedy:
        'give one that the service was started with: as OPS_TOKEN beside OPS_URL, otherwise in OPS_TOKENS',
    });
  }
  throw new MirrorError('refused', `the service answered ${response.status}: ${problemText(text)}`);
}

function detailOf(text: string): string {
  try {
    return String((JSON.parse(text) as { detail?: unknown }).detail ?? problemText(text));
  } catch {
    return problemText(text);
  }
}

function problemText(text: string): string {
  try {
    const problem = JSON.parse(text) as { title?: unknown; detail?: unknown };
    return [problem.title, problem.detail].filter((part) => typeof part === 'string').join(' ');
  } catch {
    return text.slice(0, 200);
  }
}

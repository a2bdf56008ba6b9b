import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ConsentAnswer, type ConsentAttempt, readConsent } from '../compliance/oauth.ts';
import { isLoopback } from '../platform/addresses.ts';
import { UsageError } from '../platform/errors.ts';

export type Page = { title: string; text: string };

/** One browser sends a few short requests. */
const MAX_CONNECTIONS = 16;
const REQUEST_TIMEOUT_MS = 10_000;
/** How long the last page may take to reach the browser. */
const CLOSE_MS = 1_000;

const HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

/** Whether a browser on this machine can bring the answer back to us by itself. */
export function isLoopbackRedirect(redirectUri: string): boolean {
  const url = URL.parse(redirectUri);
  return url?.protocol === 'http:' && isLoopback(url.hostname);
}

export const WITHOUT_STATE = 'for a service that does not send state back, set COMPLIANCE_OAUTH_OMIT=state';

/** Listens where the browser will be sent. @throws UsageError if the address is not free. */
export async function listenForConsent(redirectUri: string, attempt: ConsentAttempt) {
  const url = new URL(redirectUri);
  const { promise: answer, resolve } = Promise.withResolvers<ConsentAnswer>();
  let waiting: ServerResponse | null = null;

  const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    // Anybody on this machine can send a request, even one without a valid address (`GET //`).
    const asked = URL.parse(request.url ?? '/', 'http://localhost');
    if (request.method !== 'GET' || asked?.pathname !== url.pathname) {
      return show(response, 404, { title: 'Not here', text: 'There is nothing at this address.' });
    }
    const read = readConsent(asked.searchParams, attempt);
    if (read.outcome === 'foreign' || waiting !== null) {
      const text = `This is no answer to the sign-in that is waiting. Start from the address it printed; ${WITHOUT_STATE}.`;
      return show(response, 400, { title: 'Not this sign-in', text });
    }
    waiting = response;
    resolve(read);
  });
  server.maxConnections = MAX_CONNECTIONS;
  await startListening(server, url);
  if (url.port === '0') url.port = String((server.address() as AddressInfo).port);

  return {
    /** As configured, because the service compares it letter by letter; only port 0 is replaced by the port that was found. */
    redirectUri: new URL(redirectUri).port === '0' ? url.href : redirectUri,
    /** The first answer to this attempt. Foreign answers are rejected and change nothing. */
    answer,
    /** Shows the outcome in the browser that brought the answer, and stops listening. */
    async finish(page: Page): Promise<void> {
      if (waiting !== null) show(waiting, 200, page);
      const cut = setTimeout(() => server.closeAllConnections(), CLOSE_MS);
      server.close();
      await once(server, 'close');
      clearTimeout(cut);
    },
  };
}

function show(response: ServerResponse, status: number, { title, text }: Page): void {
  const body = `<!doctype html><html lang="en"><meta charset="utf-8"><title>${title}</title><h1>${title}</h1><p>${text}</p></html>`;
  response.writeHead(status, { ...HEADERS, connection: 'close' }).end(body);
}

async function startListening(server: Server, url: URL): Promise<void> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  try {
    await once(server.listen(Number(url.port || 80), host), 'listening');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new UsageError(
      `COMPLIANCE_REDIRECT_URI: cannot listen on ${url.host} (${code ?? message})`,
      'free that port, or sign in with --paste, which listens nowhere',
    );
  }
}

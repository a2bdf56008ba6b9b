import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { Command, Option } from 'commander';
import {
  type ConsentAnswer,
  type ConsentAttempt,
  createTokenEndpoint,
  GRANT,
  GrantRefused,
  readConsent,
  scopesFor,
  sealTokens,
  startConsent,
  type Tokens,
} from '../compliance/oauth.ts';
import { isLoopback } from '../platform/addresses.ts';
import { type Clock, momentOf, systemClock } from '../platform/clock.ts';
import type { ComplianceSettings, Config } from '../platform/config.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import type { Store } from '../store/store.ts';
import { type Cli, writeText } from './cli.ts';
import { complianceSettings, requireKey } from './client.ts';
import { configHere, withStore } from './database.ts';
import { parseDuration } from './options.ts';

interface LoginOptions {
  write?: boolean;
  paste?: boolean | undefined;
  wait: number;
}

/** The actor in the audit. */
const ACTOR = 'login';
/** Long enough to find a password and a second factor; a code lives for ten minutes at most (RFC 6749). */
export const DEFAULT_WAIT_MS = 10 * 60_000;

export function loginCommand(cli: Cli): Command {
  return new Command('login')
    .description('sign in to the compliance service, where COMPLIANCE_AUTH=oauth')
    .option('--write', 'also ask for the scope "write", which register and creates need')
    .option('--paste', 'listen nowhere: paste the address that the browser ends at')
    .addOption(
      new Option('--wait <time>', 'how long to wait for the consent')
        .default(DEFAULT_WAIT_MS, '10m')
        .argParser(parseDuration),
    )
    .action((options: LoginOptions) => login(cli, options));
}

/** `setup` calls it as well. */
export async function login(cli: Cli, options: LoginOptions): Promise<void> {
  const config = configHere(cli, 'login', 'the tokens go into the database and nowhere else');
  const settings = settingsFor(config);
  const key = requireKey(config, 'the tokens');
  await withStore(cli, 'make', async (store) => {
    const clock = systemClock();
    const isListening = !options.paste && isLoopbackRedirect(settings.redirectUri);
    if (!options.paste && !isListening) {
      cli.err.write('COMPLIANCE_REDIRECT_URI is not on this machine, so the answer must be pasted.\n');
    }
    const attempt = signIn(cli, options, settings, store, clock);
    const tokens = await (isListening ? attempt.overListener() : attempt.overPaste());
    const entry = { actor: ACTOR, action: 'token_grant', outcome: 'ok', target: GRANT };
    await store.saveTokens(GRANT, { sealed: sealTokens(key(), tokens) }, null, entry, momentOf(clock));
    report(cli, tokens, options.write === true);
  });
}

type OauthSettings = ComplianceSettings & { redirectUri: string };

function settingsFor(config: Config): OauthSettings {
  const settings = complianceSettings(config);
  if (settings.auth !== 'oauth') {
    throw new UsageError(
      `COMPLIANCE_AUTH is ${settings.auth}, which needs no sign-in`,
      'set COMPLIANCE_AUTH=oauth to act for a person',
    );
  }
  return { ...settings, redirectUri: settings.redirectUri! };
}

/** In the audit: the answer to another sign-in, or one without a state. */
const FOREIGN = 'foreign_state';

/** One attempt to get tokens, and the two ways in which its answer may come. */
function signIn(cli: Cli, options: LoginOptions, settings: OauthSettings, store: Store, clock: Clock) {
  const endpoint = createTokenEndpoint({ settings, clock });
  const attempt = startConsent(settings);
  const scopes = scopesFor(settings.scopes, options.write ? 'write' : 'read');
  const audit = (outcome: string) =>
    store.audit({ actor: ACTOR, action: 'token_grant', outcome, target: GRANT }, momentOf(clock));
  const addressFor = (redirectUri: string) =>
    endpoint.authorizationUrl({ redirectUri, scopes, ...attempt }).href;

  return {
    async overListener(): Promise<Tokens> {
      const listener = await listenForConsent(settings.redirectUri, attempt);
      let page: Page = { title: 'Not signed in', text: 'The terminal says why. You can close this page.' };
      try {
        const address = addressFor(listener.redirectUri);
        cli.out.write(`Open this address in your browser to sign in:\n\n${address}\n\n`);
        const tokens = await tokensFor(await withinTime(listener.answer), listener.redirectUri);
        page = { title: 'Signed in', text: 'compliance-mirror has what it needs. You can close this page.' };
        return tokens;
      } finally {
        await listener.finish(page);
      }
    },

    async overPaste(): Promise<Tokens> {
      const { redirectUri } = settings;
      const address = addressFor(redirectUri);
      cli.out.write(`Open this address in any browser and consent:\n\n${address}\n\n`);
      cli.out.write('The page it ends at may fail to load. Paste its whole address here: ');
      const lines = createInterface({ input: process.stdin });
      const answer = Promise.race([once(lines, 'line'), once(lines, 'close')]);
      const [line] = (await withinTime(answer).finally(() => lines.close())) as [string?];
      cli.out.write('\n');
      if (line === undefined)
        throw new MirrorError('no_answer', 'standard input ended before anything was pasted');
      const pasted = URL.parse(line.trim());
      if (pasted === null) {
        throw new UsageError('what was pasted is not an address', 'it begins with COMPLIANCE_REDIRECT_URI');
      }
      return await tokensFor(readConsent(pasted.searchParams, attempt), redirectUri);
    },
  };

  async function tokensFor(answer: ConsentAnswer, redirectUri: string): Promise<Tokens> {
    if (answer.outcome === 'foreign') {
      await audit(FOREIGN);
      throw new MirrorError('foreign_answer', 'that is not the answer to this sign-in', {
        remedy: `open the address just printed, and paste the address that the browser ends at; ${WITHOUT_STATE}`,
      });
    }
    if (answer.outcome === 'refused') {
      await audit(answer.reason);
      throw new MirrorError('consent_refused', `the compliance service did not consent: ${answer.reason}`, {
        remedy: 'sign in again and allow it; COMPLIANCE_SCOPES is what is asked for',
      });
    }
    const { verifier } = attempt;
    try {
      const never = new AbortController().signal;
      return await endpoint.exchangeCode({ code: answer.code, redirectUri, verifier, scopes }, never);
    } catch (error) {
      if (error instanceof GrantRefused) await audit(error.reason);
      throw error;
    }
  }

  async function withinTime<T>(answer: Promise<T>): Promise<T> {
    const done = new AbortController();
    const late = clock.sleep(options.wait, done.signal).then((): never => {
      throw new MirrorError('no_answer', 'nobody consented in time', {
        remedy: 'run it again, or allow more with --wait',
      });
    });
    // After the answer nobody waits for this any more, so its rejection must not count as unhandled.
    late.catch(() => {});
    try {
      return await Promise.race([answer, late]);
    } finally {
      done.abort();
    }
  }
}

function report(cli: Cli, tokens: Tokens, toWrite: boolean): void {
  const scopes = tokens.grantedScopes ?? tokens.askedScopes;
  const until = new Date(tokens.expiresWall).toISOString();
  writeText(cli.out, `Signed in. Scopes: ${scopes.join(', ') || 'none named'}.`);
  if (toWrite && tokens.grantedScopes !== null && !tokens.grantedScopes.includes('write')) {
    writeText(
      cli.out,
      '“write” was asked for and not granted: allow it to this client or person in the compliance service first.',
    );
  }
  writeText(
    cli.out,
    tokens.refreshToken === null
      ? `There is no refresh token: sign in again before ${until}.`
      : 'The tokens are stored, encrypted, and renewed by themselves.',
  );
}

// ─── the way back from a browser on this machine ────────────────────────────────────────────────────────

type Page = { title: string; text: string };

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
function isLoopbackRedirect(redirectUri: string): boolean {
  const url = URL.parse(redirectUri);
  return url?.protocol === 'http:' && isLoopback(url.hostname);
}

const WITHOUT_STATE = 'for a service that does not send state back, set COMPLIANCE_OAUTH_OMIT=state';

/** Listens where the browser will be sent. @throws UsageError if the address is not free. */
async function listenForConsent(redirectUri: string, attempt: ConsentAttempt) {
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

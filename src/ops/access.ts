import type { Socket } from 'node:net';
import type { Context, MiddlewareHandler } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import type { AddressedRequest } from '../platform/addresses.ts';
import type { OpsToken } from '../platform/config.ts';
import { problem } from '../platform/problem.ts';
import type { AuditLog } from './audit.ts';
import type { OpsContext } from './context.ts';
import { createAttempts, createRefusedNotes } from './guess-limit.ts';
import { createSessions, SESSION_LIFETIME_MS } from './sessions.ts';
import { createTokens, type KnownToken } from './tokens.ts';

export interface Identity {
  /** The token's, as the audit shows it. */
  name: string;
  role: OpsToken['role'];
  /** What forms must carry; null for a bearer, which no browser sends by itself. */
  csrf: string | null;
}

/** Bindings are node-server's, and absent where the app is called without a socket. */
export interface OpsEnv {
  Bindings: { incoming?: AddressedRequest };
  Variables: { identity: Identity };
}

export type OpsHandlerContext = Context<OpsEnv>;

/** Name of the form field that repeats the session's secret; as a header for scripts, `X-CSRF-Token`. */
export const CSRF_FIELD = 'csrf';

/** `waitSeconds` 0: the token is wrong. More: and too many were before it. */
type Presented = { token: KnownToken; waitSeconds: null } | { token: null; waitSeconds: number };

/** Where a token is presented: in the form, or with a request. */
const DOORS = ['sign_in', 'bearer'] as const;
type Door = (typeof DOORS)[number];
/** `limited`: wrong, and too many before it. */
const OUTCOMES = ['accepted', 'refused', 'limited'] as const;
type Outcome = (typeof OUTCOMES)[number];

/** How long the answer to a wrong token is delayed after too many, and how many may be delayed at once. */
const SLOWED_MS = 1_000;
const MAX_SLOWED = 100;

/** Of a path that may not be changed, in the audit. Ours have an id at most. */
const SHOWN_OF_PATH = 300;

export type Access = ReturnType<typeof createAccess>;

export function createAccess(context: OpsContext, audit: AuditLog) {
  const { clock, addresses } = context;
  const attempts = createAttempts(clock);
  const tokens = createTokens(context.tokens);
  const sessions = createSessions({ store: context.sessionStore, clock, tokens: tokens.known });
  const cookie = cookieOptions(context.publicUrl);
  const cookieName = cookie.secure ? '__Host-compliance-mirror' : 'compliance-mirror';

  const noteRefused = createRefusedNotes(audit, context);
  const count = (door: Door, outcome: Outcome) => context.metrics.tokensPresented.inc({ door, outcome });
  // An alert on their growth sees a counter's first value as no growth: so each begins at 0.
  for (const door of DOORS) {
    for (const outcome of OUTCOMES) context.metrics.tokensPresented.inc({ door, outcome }, 0);
  }
  const remoteAddress = (c: OpsHandlerContext) => addresses.of(c.env?.incoming ?? {}) ?? 'unknown';
  /** An operator's connection is kept when strangers open too many. */
  const proven = (c: OpsHandlerContext) => context.prove(c.env?.incoming ?? {});

  let slowedNow = 0;
  /** Delays the answer to a wrong token, for as many at once as cost little. */
  const slowed = async () => {
    if (slowedNow >= MAX_SLOWED) return;
    slowedNow += 1;
    await context.clock.sleep(SLOWED_MS, context.signal);
    slowedNow -= 1;
  };

  /** One presented token, from the form or a request: compared, and if it is wrong, limited and audited at a bounded rate. */
  const present = async (c: OpsHandlerContext, presented: string, action: Door): Promise<Presented> => {
    const address = remoteAddress(c);
    const token = tokens.match(presented);
    // Never made to wait: behind a proxy everybody has one address, and anyone there could shut all others out.
    if (token !== null) {
      count(action, 'accepted');
      return { token, waitSeconds: null };
    }
    const waitMs = attempts.waitMs(address);
    count(action, waitMs > 0 ? 'limited' : 'refused');
    await noteRefused(action, address);
    if (waitMs > 0) await slowed();
    else attempts.failed(address);
    return { token: null, waitSeconds: Math.ceil(waitMs / 1000) };
  };

  const fromThisSite = (c: OpsHandlerContext): boolean => {
    const origin = c.req.header('origin');
    if (origin === undefined) return c.req.header('sec-fetch-site') === 'same-origin';
    if (context.publicUrl !== null) return origin === context.publicUrl.origin;
    // Hosts, not origins: a proxy in front of us may speak TLS where we do not.
    const host = c.req.header('host') ?? new URL(c.req.url).host;
    return URL.canParse(origin) && new URL(origin).host === host;
  };

  const sessionIdentity = async (c: OpsHandlerContext): Promise<Identity | null> => {
    const id = getCookie(c, cookieName);
    return id === undefined ? null : await sessions.find(id);
  };

  const bearerOf = (authorization: string) => /^Bearer +([^\s]+)$/i.exec(authorization)?.[1] ?? '';

  /** For everything that is not open: who asks, and whether a browser's change came from a page of this site. */
  const identify: MiddlewareHandler<OpsEnv> = async function identify(c, next) {
    const authorization = c.req.header('authorization');
    if (authorization !== undefined) {
      const { token, waitSeconds } = await present(c, bearerOf(authorization), 'bearer');
      if (token === null) return waitSeconds > 0 ? tooManyAttempts(waitSeconds) : unauthorized();
      c.set('identity', { name: token.name, role: token.role, csrf: null });
      proven(c);
      return next();
    }
    const session = await sessionIdentity(c);
    if (session === null) return wantsPage(c) ? c.redirect(signInPath(c), 303) : unauthorized();
    if (changes(c)) {
      if (!fromThisSite(c)) return foreignOrigin();
      if ((await csrfToken(c)) !== session.csrf) return staleForm();
    }
    c.set('identity', session);
    proven(c);
    return next();
  };

  /** Lets only the role `operate` use another method than GET. */
  const operateToChange: MiddlewareHandler<OpsEnv> = async function operateToChange(c, next) {
    const { name, role } = c.get('identity');
    if (!changes(c) || role === 'operate') return next();
    const target = c.req.path.slice(0, SHOWN_OF_PATH);
    await noteRefused('change', remoteAddress(c), { actor: name, outcome: 'forbidden', target });
    return problem(403, 'forbidden', 'This token may only read.', 'Use a token of the role operate.');
  };

  return {
    fromThisSite,
    identify,
    operateToChange,

    async signIn(c: OpsHandlerContext, presented: string): Promise<Presented> {
      const outcome = await present(c, presented, 'sign_in');
      if (outcome.token === null) return outcome;
      const before = getCookie(c, cookieName);
      if (before !== undefined) await sessions.close(before);
      const id = await sessions.open(outcome.token.key);
      setCookie(c, cookieName, id, { ...cookie, maxAge: SESSION_LIFETIME_MS / 1000 });
      await audit.note(outcome.token.name, 'sign_in', 'ok', remoteAddress(c));
      return outcome;
    },

    async signOut(c: OpsHandlerContext): Promise<void> {
      const id = getCookie(c, cookieName);
      if (id !== undefined) await sessions.close(id);
      deleteCookie(c, cookieName, cookie);
      await audit.note(c.get('identity').name, 'sign_out', 'ok', remoteAddress(c));
    },

    /** Whether what an open page was asked with is still good. Counts as use of the session. */
    async stillSignedIn(c: OpsHandlerContext): Promise<boolean> {
      const authorization = c.req.header('authorization');
      if (authorization === undefined) return (await sessionIdentity(c)) !== null;
      return tokens.match(bearerOf(authorization)) !== null;
    },
  };
}

/** Of every cookie that is set here. */
export function cookieOptions(publicUrl: URL | null) {
  const secure = publicUrl?.protocol === 'https:';
  return { path: '/', httpOnly: true, sameSite: 'Strict', secure } as const;
}

/** The same bytes for every cause: a stranger learns nothing from them. */
function unauthorized(): Response {
  return problem(
    401,
    'unauthorized',
    'A token is needed.',
    'Send Authorization: Bearer TOKEN, or sign in at /sign-in.',
    { 'www-authenticate': 'Bearer realm="compliance-mirror"' },
  );
}

function tooManyAttempts(waitSeconds: number): Response {
  return problem(429, 'too_many_attempts', 'Too many attempts.', `Try again in ${waitSeconds} s.`, {
    'retry-after': String(waitSeconds),
  });
}

export function foreignOrigin(): Response {
  return problem(
    403,
    'foreign_origin',
    'This request did not come from a page of this site.',
    // Strangers get it too, at the sign-in: no setting is named.
    'Behind a proxy, this service must be told the address that operators use.',
  );
}

function staleForm(): Response {
  return problem(403, 'stale_form', 'This form is out of date.', 'Go back, reload the page and try again.');
}

function changes(c: OpsHandlerContext): boolean {
  return c.req.method !== 'GET' && c.req.method !== 'HEAD';
}

/** Aborts when whoever asked has gone. The listener goes on for a client that has ended its side, so that counts as gone too. */
export function askerGone(c: OpsHandlerContext): Disposable & { signal: AbortSignal } {
  const ended = new AbortController();
  const end = () => ended.abort();
  const socket = c.env?.incoming?.socket as Partial<Pick<Socket, 'once' | 'off'>> | undefined;
  socket?.once?.('end', end);
  return {
    signal: AbortSignal.any([ended.signal, c.req.raw.signal]),
    [Symbol.dispose]() {
      socket?.off?.('end', end);
    },
  };
}

/** A person's browser opening a page, as opposed to a script or an event stream. */
function wantsPage(c: OpsHandlerContext): boolean {
  return !changes(c) && acceptsPage(c);
}

export function acceptsPage(c: OpsHandlerContext): boolean {
  return (c.req.header('accept') ?? '').includes('text/html');
}

/** The sign-in that leads back to the page asked for. */
function signInPath(c: OpsHandlerContext): string {
  const { pathname, search } = new URL(c.req.url);
  const asked = `${pathname}${search}`;
  return asked === '/' ? '/sign-in' : `/sign-in?${new URLSearchParams({ next: asked })}`;
}

/** A path of this site: anything that leads to another site becomes the status page. */
export function pathHere(next: string | null): string {
  const here = 'http://here.invalid';
  if (next === null || !next.startsWith('/') || !URL.canParse(next, here)) return '/';
  const url = new URL(next, here);
  // Parsed again as a browser would: `/\\evil` and `//evil` name another host.
  return url.origin === here && !url.pathname.startsWith('//') ? `${url.pathname}${url.search}` : '/';
}

async function csrfToken(c: OpsHandlerContext): Promise<string | null> {
  return c.req.header('x-csrf-token') ?? (await formFields(c)).get(CSRF_FIELD);
}

/** What a form posted; nothing when it was not a form, so that no odd body becomes an error of ours. */
export async function formFields(c: OpsHandlerContext): Promise<URLSearchParams> {
  const type = c.req.header('content-type') ?? '';
  const isForm = type.startsWith('application/x-www-form-urlencoded');
  return new URLSearchParams(isForm ? await c.req.text() : '');
}

import type { Context, MiddlewareHandler } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import type { AddressedRequest } from '../platform/addresses.ts';
import type { OpsToken } from '../platform/config.ts';
import { problem } from '../platform/problem.ts';
import type { AuditLog } from './audit.ts';
import type { OpsContext } from './context.ts';
import { createRefusedNotes } from './refused-notes.ts';
import { createSessions, SESSION_LIFETIME_MS } from './sessions.ts';
import { createTokens, type KnownToken } from './tokens.ts';

export interface Identity {
  /** The token's name, as the audit shows it. */
  name: string;
  role: OpsToken['role'];
  /** It was a browser's session, which can be ended; false: a bearer token. */
  isSession: boolean;
}

/** node-server sets the bindings; an app that is called without a socket has none. */
export interface OpsEnv {
  Bindings: { incoming?: AddressedRequest };
  Variables: { identity: Identity };
}

export type OpsHandlerContext = Context<OpsEnv>;

/** Where a token is presented: in the sign-in form, or with a request. */
type Door = 'sign_in' | 'bearer';

/** Characters of a forbidden path in the audit. */
const PATH_SHOWN_CHARACTERS = 300;

export type Access = ReturnType<typeof createAccess>;

export function createAccess(context: OpsContext, audit: AuditLog) {
  const { clock, addresses } = context;
  const tokens = createTokens(context.tokens);
  const sessions = createSessions({ store: context.sessionStore, clock, tokens: tokens.known });
  const cookie = cookieOptions(context.publicUrl);
  const cookieName = cookie.secure ? '__Host-compliance-mirror' : 'compliance-mirror';

  const noteRefused = createRefusedNotes(audit, context);
  // Each counter begins at 0, because an alert on growth would not notice the first value.
  for (const door of ['sign_in', 'bearer']) {
    for (const outcome of ['accepted', 'refused']) context.metrics.tokensPresented.inc({ door, outcome }, 0);
  }
  const remoteAddress = (c: OpsHandlerContext) => addresses.of(c.env?.incoming ?? {}) ?? 'unknown';

  /** Compares a presented token. A wrong one (null) is counted, and audited at a bounded rate. */
  const present = async (c: OpsHandlerContext, presented: string, door: Door): Promise<KnownToken | null> => {
    const token = tokens.match(presented);
    context.metrics.tokensPresented.inc({ door, outcome: token === null ? 'refused' : 'accepted' });
    if (token === null) await noteRefused(door, remoteAddress(c));
    return token;
  };

  /** Hono's `csrf` looks at forms alone, and this at every change: no field of a form has to prove where it is from. */
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

  /** Finds out who sent a request. A change that a browser sends must also come from a page of this site. */
  const identify: MiddlewareHandler<OpsEnv> = async function identify(c, next) {
    const authorization = c.req.header('authorization');
    if (authorization !== undefined) {
      const token = await present(c, bearerOf(authorization), 'bearer');
      if (token === null) return unauthorized();
      c.set('identity', { name: token.name, role: token.role, isSession: false });
      return next();
    }
    const session = await sessionIdentity(c);
    const isChange = changes(c);
    if (session === null) {
      return acceptsPage(c) && !isChange ? c.redirect(signInPath(c.req.url), 303) : unauthorized();
    }
    if (isChange && !fromThisSite(c)) return foreignOrigin();
    c.set('identity', session);
    return next();
  };

  /** Lets only the role `operate` use another method than GET. */
  const operateToChange: MiddlewareHandler<OpsEnv> = async function operateToChange(c, next) {
    const { name, role } = c.get('identity');
    if (!changes(c) || role === 'operate') return next();
    const target = c.req.path.slice(0, PATH_SHOWN_CHARACTERS);
    await noteRefused('change', remoteAddress(c), { actor: name, outcome: 'forbidden', target });
    return problem(403, 'forbidden', 'This token may only read.', 'Use a token of the role operate.');
  };

  return {
    fromThisSite,
    identify,
    operateToChange,

    /** False: there is no such token. */
    async signIn(c: OpsHandlerContext, presented: string): Promise<boolean> {
      const token = await present(c, presented, 'sign_in');
      if (token === null) return false;
      const before = getCookie(c, cookieName);
      if (before !== undefined) await sessions.close(before);
      const id = await sessions.open(token);
      setCookie(c, cookieName, id, { ...cookie, maxAge: SESSION_LIFETIME_MS / 1000 });
      await audit.note(token.name, 'sign_in', 'ok', remoteAddress(c));
      return true;
    },

    async signOut(c: OpsHandlerContext): Promise<void> {
      const id = getCookie(c, cookieName);
      if (id !== undefined) await sessions.close(id);
      deleteCookie(c, cookieName, cookie);
      await audit.note(c.get('identity').name, 'sign_out', 'ok', remoteAddress(c));
    },
  };
}

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

export function foreignOrigin(): Response {
  return problem(
    403,
    'foreign_origin',
    'This request did not come from a page of this site.',
    // Strangers see it too, at the sign-in, so it names no setting.
    'Behind a proxy, this service must be told the address that operators use.',
  );
}

function changes(c: OpsHandlerContext): boolean {
  return c.req.method !== 'GET' && c.req.method !== 'HEAD';
}

/** A browser that opens a page, not a script. */
export function acceptsPage(c: OpsHandlerContext): boolean {
  return (c.req.header('accept') ?? '').includes('text/html');
}

/** The sign-in that leads back to the page at `url`. */
export function signInPath(url: string): string {
  const parsed = URL.parse(url);
  const asked = parsed === null ? '/' : `${parsed.pathname}${parsed.search}`;
  return asked === '/' ? '/sign-in' : `/sign-in?${new URLSearchParams({ next: asked })}`;
}

/** `next` if it leads to a path of this site, otherwise the status page. */
export function pathHere(next: string | null): string {
  const here = 'http://here.invalid';
  const url = next === null ? null : URL.parse(next, here);
  // Parsed again as a browser would: `/\\evil` and `//evil` name another host.
  return url?.origin === here && !url.pathname.startsWith('//') ? `${url.pathname}${url.search}` : '/';
}

/** The page of this site from which a form was sent. */
export function cameFrom(c: OpsHandlerContext): string {
  const { pathname = '/', search = '' } = URL.parse(c.req.header('referer') ?? '') ?? {};
  return pathHere(`${pathname}${search}`);
}

/** The fields of a posted form. Any other body has none that we know, and is no error of ours. */
export async function formFields(c: OpsHandlerContext): Promise<URLSearchParams> {
  return new URLSearchParams(await c.req.text());
}

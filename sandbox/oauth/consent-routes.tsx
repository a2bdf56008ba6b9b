import { Hono } from 'hono';
import { requireOwnOrigin } from '../page/access.ts';
import { pageHeaders } from '../page/headers.ts';
import { judgeAuthorization, PendingConsents, redirectTo } from './authorization.ts';
import type { Clients } from './clients.ts';
import { ConsentPage, RejectionPage } from './consent-page.tsx';
import type { Grants } from './grants.ts';

/** `/oauth/authorize`: the page on which a person allows or denies, and where its form goes. */
export function consentRoutes(clients: Clients, grants: Grants): Hono {
  const pending = new PendingConsents();
  const routes = new Hono();
  // Browsers apply form-action to the redirect that answers a form, too.
  const { redirectUri } = clients.application;
  routes.use('/authorize', pageHeaders([sourceOf(redirectUri)]));

  routes.get('/authorize', (c) => {
    const verdict = judgeAuthorization(new URL(c.req.url).searchParams, clients);
    if (verdict.outcome === 'refuse') return c.html(<RejectionPage reason={verdict.reason} />, 400);
    if (verdict.outcome === 'redirect') return c.redirect(verdict.to, 302);
    const { request } = verdict;
    return c.html(<ConsentPage request={request} ticket={pending.add(request)} />);
  });

  routes.post('/authorize', requireOwnOrigin(), async (c) => {
    const { ticket, answer } = await c.req.parseBody();
    const request = typeof ticket === 'string' ? pending.take(ticket) : null;
    if (request === null) {
      return c.html(
        <RejectionPage reason="This page was answered before, or is too old. Start again." />,
        400,
      );
    }
    if (answer !== 'allow') return c.redirect(redirectTo(request, { error: 'access_denied' }), 302);
    const { clientId, scopes, challenge } = request;
    const code = grants.issueCode({
      clientId,
      redirectUri: request.redirectUri,
      scopes: new Set(scopes),
      challenge,
    });
    return c.redirect(redirectTo(request, { code }), 302);
  });
  return routes;
}

/** As a source in a Content-Security-Policy: the origin, or the scheme of an address that has none. */
function sourceOf(uri: string): string {
  const url = new URL(uri);
  return url.origin === 'null' ? url.protocol : url.origin;
}

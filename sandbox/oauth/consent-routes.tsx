import { Hono } from 'hono';
import { requireOwnOrigin } from '../page/access.ts';
import { pageHeaders } from '../page/headers.ts';
import { Layout } from '../page/layout.tsx';
import { SCOPES } from '../scopes.ts';
import { type ConsentRequest, judgeAuthorization, PendingConsents, redirectTo } from './authorization.ts';
import type { Clients } from './clients.ts';
import type { Grants } from './grants.ts';

function ConsentPage({ request, ticket }: { request: ConsentRequest; ticket: string }) {
  const { clientId, redirectUri, scopes } = request;
  return (
    <Layout title="Allow access?">
      <main class="door">
        <p class="eyebrow">Compliance sandbox · OAuth consent</p>
        <h1>
          <q>{clientId}</q> asks for access
        </h1>
        <p>It would act for you in this sandbox, and could:</p>
        <ul class="scopes">
          {scopes.map((scope) => (
            <li>
              {SCOPES[scope]} <code>{scope}</code>
            </li>
          ))}
        </ul>
        <form method="post" action="/oauth/authorize" class="row" data-plain>
          <input type="hidden" name="ticket" value={ticket} />
          <button type="submit" name="answer" value="allow" class="button first">
            Allow
          </button>
          <button type="submit" name="answer" value="deny" class="button">
            Deny
          </button>
        </form>
        <p class="note">
          Either way you go back to <code>{redirectUri}</code>. Nothing here is real: the sandbox has no users
          and holds invented records.
        </p>
      </main>
    </Layout>
  );
}

function RejectionPage({ reason }: { reason: string }) {
  return (
    <Layout title="Not possible">
      <main class="door">
        <p class="eyebrow">Compliance sandbox · OAuth consent</p>
        <h1>This request cannot be granted</h1>
        <p>{reason}</p>
        <p class="note">
          The client and its redirect address are the sandbox’s settings <code>SANDBOX_CLIENT_ID</code> and{' '}
          <code>SANDBOX_REDIRECT_URI</code>; they must be the same letter by letter.
        </p>
      </main>
    </Layout>
  );
}

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

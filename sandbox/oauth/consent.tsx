import { Hono } from 'hono';
import { csrf } from 'hono/csrf';
import type { PropsWithChildren } from 'hono/jsx';
import { parseScopes, SCOPES } from '../access.ts';
import type { OauthOptions } from '../options.ts';
import { Layout, pageHeaders } from '../page/layout.tsx';
import type { Grants } from './grants.ts';

/** What a person is asked to consent to, after the request has been checked. */
interface ConsentRequest {
  clientId: string;
  redirectUri: string;
  scopes: readonly string[];
  /** Sent back unchanged; null: the request had none. */
  state: string | null;
  challenge: string | null;
}

/** SHA-256 in base64url. */
const CHALLENGE = /^[A-Za-z0-9_-]{43}$/;

/** `/oauth/authorize`: the page on which a person allows or denies. Its form goes to the same address, with the same query. */
export function consentRoutes({ application }: OauthOptions, grants: Grants): Hono {
  // Browsers apply form-action also to the redirect that answers a form.
  const { origin, protocol } = new URL(application.redirectUri);
  const headers = pageHeaders(origin === 'null' ? protocol : origin);
  return new Hono().on(['GET', 'POST'], '/authorize', headers, csrf(), async (c) => {
    const { refusal, error, request } = judgeAuthorization(new URL(c.req.url).searchParams, application);
    // Shown to the person, because without a known client and address no redirect is safe.
    if (refusal !== undefined) return c.html(<RejectionPage reason={refusal} />, 400);
    if (error !== undefined) return c.redirect(redirectTo(request, { error }), 302);
    if (c.req.method === 'GET') return c.html(<ConsentPage request={request} />);
    const { answer } = await c.req.parseBody();
    const { clientId, redirectUri, scopes, challenge } = request;
    const outcome =
      answer === 'allow'
        ? { code: grants.issueCode({ clientId, redirectUri, scopes: new Set(scopes), challenge }) }
        : { error: 'access_denied' };
    return c.redirect(redirectTo(request, outcome), 302);
  });
}

/** Judges the parameters of `GET /oauth/authorize`. The person sees a `refusal`; the client gets an `error` at its redirect address. */
function judgeAuthorization(
  parameters: URLSearchParams,
  { id, redirectUri }: OauthOptions['application'],
): { refusal?: string; error?: string; request: ConsentRequest } {
  const only = (name: string) => {
    const values = parameters.getAll(name);
    return values.length === 1 ? values[0]! : null;
  };
  const scopes = parseScopes(parameters.get('scope') ?? '') ?? [];
  const challenge = parameters.get('code_challenge');
  const method = parameters.get('code_challenge_method');
  const request = { clientId: id, redirectUri, scopes, state: only('state'), challenge };
  if (only('client_id') !== id) {
    return { refusal: 'No client is registered under this client_id.', request };
  }
  if (only('redirect_uri') !== redirectUri) {
    return { refusal: 'This redirect_uri is not the one registered for the client.', request };
  }
  if (parameters.size > new Set(parameters.keys()).size) return { error: 'invalid_request', request };
  const type = parameters.get('response_type') ?? '';
  if (type === '') return { error: 'invalid_request', request };
  if (type !== 'code') return { error: 'unsupported_response_type', request };
  if (scopes.length === 0) return { error: 'invalid_scope', request };
  // Without a method RFC 7636 means `plain`, which proves nothing if somebody has seen the request.
  const isProof = challenge === null ? method === null : method === 'S256' && CHALLENGE.test(challenge);
  return isProof ? { request } : { error: 'invalid_request', request };
}

/** The redirect address with `answer`, and with the state if there was one, added to its query. */
function redirectTo(
  { redirectUri, state }: Pick<ConsentRequest, 'redirectUri' | 'state'>,
  answer: Readonly<Record<string, string>>,
): string {
  const url = new URL(redirectUri);
  for (const [name, value] of Object.entries(answer)) url.searchParams.append(name, value);
  if (state !== null) url.searchParams.append('state', state);
  return url.href;
}

function Door({ title, children }: PropsWithChildren<{ title: string }>) {
  return (
    <Layout title={title}>
      <main class="door">
        <p class="note">Compliance sandbox · OAuth consent</p>
        {children}
      </main>
    </Layout>
  );
}

function ConsentPage({ request: { clientId, redirectUri, scopes } }: { request: ConsentRequest }) {
  return (
    <Door title="Allow access?">
      <h1>
        <q>{clientId}</q> asks for access
      </h1>
      <p>It would act for you in this sandbox, and could:</p>
      <ul>
        {scopes.map((scope) => (
          <li>
            {SCOPES[scope]} <code>{scope}</code>
          </li>
        ))}
      </ul>
      <form method="post" class="row">
        <button type="submit" name="answer" value="allow" class="first">
          Allow
        </button>
        <button type="submit" name="answer" value="deny">
          Deny
        </button>
      </form>
      <p class="note">
        Either way you go back to <code>{redirectUri}</code>. Nothing here is real.
      </p>
    </Door>
  );
}

function RejectionPage({ reason }: { reason: string }) {
  return (
    <Door title="Not possible">
      <h1>This request cannot be granted</h1>
      <p>{reason}</p>
      <p class="note">The redirect address, set by --redirect-uri, must be the same letter by letter.</p>
    </Door>
  );
}

import { Layout } from '../page/layout.tsx';
import { SCOPES } from '../scopes.ts';
import type { ConsentRequest } from './authorization.ts';

export function ConsentPage({ request, ticket }: { request: ConsentRequest; ticket: string }) {
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

export function RejectionPage({ reason }: { reason: string }) {
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

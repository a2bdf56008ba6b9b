import { type Access, foreignOrigin, formFields, type OpsHandlerContext, pathHere } from '../access.ts';
import { Layout } from './layout.tsx';

export function createSignIn(access: Access) {
  const signInPage = (next: string, failure: string | null) =>
    `<!doctype html>${<SignInPage next={next} failure={failure} />}`;

  return {
    signInForm: (c: OpsHandlerContext) => c.html(signInPage(pathHere(c.req.query('next') ?? null), null)),

    async signIn(c: OpsHandlerContext): Promise<Response> {
      if (!access.fromThisSite(c)) return foreignOrigin();
      const fields = await formFields(c);
      const next = pathHere(fields.get('next'));
      const isKnown = await access.signIn(c, (fields.get('token') ?? '').trim());
      return isKnown ? c.redirect(next, 303) : c.html(signInPage(next, 'This token is not known.'), 401);
    },

    async signOut(c: OpsHandlerContext): Promise<Response> {
      await access.signOut(c);
      return c.redirect('/sign-in', 303);
    },
  };
}

function SignInPage({ next, failure }: { next: string; failure: string | null }) {
  return (
    <Layout title="Sign in">
      <main class="door">
        <h1>compliance mirror</h1>
        <form method="post" action="/sign-in" data-sign-in>
          {next === '/' ? null : <input type="hidden" name="next" value={next} />}
          <label for="token">Token</label>
          <input
            id="token"
            name="token"
            type="password"
            autocomplete="current-password"
            required
            autofocus
            {...(failure === null ? {} : { 'aria-describedby': 'failure', 'aria-invalid': 'true' })}
          />
          {failure === null ? null : (
            <p class="note warn" id="failure" role="alert">
              {failure}
            </p>
          )}
          <button class="button" type="submit">
            Sign in
          </button>
        </form>
        <p class="note">
          Tokens are in <code>OPS_TOKENS</code>; without it, one was made at the first start, in the file{' '}
          <code>ops-token</code> beside the database.
        </p>
      </main>
    </Layout>
  );
}

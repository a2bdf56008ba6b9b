import { Layout } from './layout.tsx';

export function SignInPage({ next, failure }: { next: string; failure: string | null }) {
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
          Tokens stand in <code>OPS_TOKENS</code>; without it, one was made at the first start, in the file{' '}
          <code>ops-token</code> beside the database.
        </p>
      </main>
    </Layout>
  );
}

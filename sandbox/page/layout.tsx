import { raw } from 'hono/html';
import type { PropsWithChildren } from 'hono/jsx';
import { script, styleSheet } from './assets.ts';

/** Also keeps browsers from asking for /favicon.ico. */
const ICON =
  'data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22 viewBox=%220 0 16 16%22%3E%3Cpath d=%22M0 12L12 0h4L0 16z%22 fill=%22%232f5fd0%22/%3E%3C/svg%3E';

export function Layout({ title, children }: PropsWithChildren<{ title: string }>) {
  return (
    <>
      {raw('<!doctype html>')}
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <meta name="robots" content="noindex" />
          <title>{title} · compliance sandbox</title>
          <link rel="icon" href={ICON} />
          <link rel="stylesheet" href={styleSheet.path} />
          <script src={script.path} defer></script>
        </head>
        <body>{children}</body>
      </html>
    </>
  );
}

export function SignInPage({ next, failed }: { next: string; failed: boolean }) {
  return (
    <Layout title="Sign in">
      <main class="door">
        <p class="eyebrow">Compliance sandbox</p>
        <h1>Sign in</h1>
        {failed && (
          <p class="bad" role="alert">
            That is not the sandbox’s token.
          </p>
        )}
        <form method="post" action="/sign-in" class="sign-in" data-plain>
          <input type="hidden" name="next" value={next} />
          <label>
            Token (the setting <code>SANDBOX_TOKEN</code>)
            <input type="password" name="token" autocomplete="current-password" required autofocus />
          </label>
          <div class="row">
            <button type="submit" class="first">
              Sign in
            </button>
          </div>
        </form>
      </main>
    </Layout>
  );
}

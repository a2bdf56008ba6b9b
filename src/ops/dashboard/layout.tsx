import type { PropsWithChildren } from 'hono/jsx';
import { script, styleSheet } from './assets.ts';

/** A drop of ink: also keeps browsers from asking for /favicon.ico, which would be refused. */
const ICON =
  'data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22 viewBox=%220 0 16 16%22%3E%3Cpath d=%22M3 2h4v12H3zM9 2h4v12H9z%22 fill=%22%23888%22/%3E%3C/svg%3E';

export function Layout({ title, children }: PropsWithChildren<{ title: string }>) {
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="robots" content="noindex" />
        <title>{title} · compliance mirror</title>
        <link rel="icon" href={ICON} />
        <link rel="stylesheet" href={styleSheet.path} />
        <script src={script.path} defer></script>
      </head>
      <body>{children}</body>
    </html>
  );
}

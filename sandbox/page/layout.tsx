import { hash } from 'node:crypto';
import type { MiddlewareHandler } from 'hono';
import { raw } from 'hono/html';
import type { PropsWithChildren } from 'hono/jsx';
import { secureHeaders } from 'hono/secure-headers';

/** Like the mirror's style, but separate: the sandbox shares only the API's words with it. The striped edge tells the two apart. */
export const STYLE = `
:root {
  color-scheme: light dark;
  --paper: light-dark(#f6f7f9, #11151b); --card: light-dark(#fff, #191f27); --ink: light-dark(#17202b, #e7ebf0);
  --soft: light-dark(#556070, #9ba6b4); --line: light-dark(#e1e5ea, #2b333e);
  --accent: light-dark(#2757c4, #8cafff); --on-accent: light-dark(#fff, #11151b)
}
*, *::before { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: .9375rem/1.5 system-ui, sans-serif }
body::before {
  content: ""; display: block; height: .4rem;
  background: repeating-linear-gradient(-45deg, var(--accent) 0 .7rem, var(--card) .7rem 1.4rem)
}
h1, h2, p, ul { margin: 0; padding: 0 }
ul { list-style-position: inside } h1 { font-size: 1.375rem } h2 { margin-bottom: .6rem; font-size: 1rem }
a { color: inherit }
code, small { font: .75rem/1.4 ui-monospace, monospace; overflow-wrap: anywhere }
.wrap { max-width: 80rem; margin: 0 auto; padding: 1.5rem; display: grid; gap: 1rem }
.door { max-width: 34rem; min-height: 88vh; margin: 0 auto; padding: 1.5rem; display: grid; align-content: center; gap: 1rem }
.note, td small { color: var(--soft); font-size: .8125rem } td small { display: block }
.notice { padding: .7rem 1rem; border-left: 3px solid var(--accent); background: var(--card) }
.columns { display: grid; gap: 1rem; align-items: start; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)) }
.card { min-width: 0; padding: 1rem; background: var(--card); border: 1px solid var(--line); border-radius: .75rem }
.scroll { max-height: 26rem; overflow: auto }
table { width: 100%; border-collapse: collapse } td { padding: .4rem .9rem .4rem 0; border-top: 1px solid var(--line); vertical-align: top }
.row { display: flex; flex-wrap: wrap; align-items: center; gap: .4rem } .row + .row { margin-top: .4rem }
button { padding: .3rem .7rem; border: 1px solid var(--line); border-radius: .5rem; background: var(--card); color: var(--ink); font: inherit; cursor: pointer }
button.first { background: var(--accent); color: var(--on-accent) }
`;

/**
 * The page's only script, in plain JavaScript because nothing compiles it: it shows the page's newest content. Without it, a
 * person must reload the page. The forms need no script.
 */
const SCRIPT = `
setInterval(async () => {
  const main = document.querySelector('main[data-live]');
  // Somebody is about to press a button, or looks at another tab.
  if (!main || document.hidden || main.querySelector('button:active')) return;
  try {
    const text = await (await fetch(location.pathname)).text();
    const fresh = new DOMParser().parseFromString(text, 'text/html').querySelector('main');
    for (const part of main.querySelectorAll('[data-part]')) {
      const next = fresh.querySelector('[data-part="' + part.dataset.part + '"]');
      if (next && next.innerHTML !== part.innerHTML) part.innerHTML = next.innerHTML;
    }
  } catch {}
}, 1000);
`;

const sourceOf = (text: string) => `'sha256-${hash('sha256', text, 'base64')}'`;

/**
 * Allows nothing from other origins and nothing inline but what is here, so that a hostile name does nothing even if escaping fails.
 * `formTarget`: another origin that the answer to a form may redirect to.
 */
export function pageHeaders(formTarget?: string): MiddlewareHandler {
  const secure = secureHeaders({
    contentSecurityPolicy: {
      defaultSrc: ["'none'"],
      scriptSrc: [sourceOf(SCRIPT)],
      styleSrc: [sourceOf(STYLE)],
      connectSrc: ["'self'"],
      imgSrc: ['data:'],
      formAction: ["'self'", ...(formTarget === undefined ? [] : [formTarget])],
      frameAncestors: ["'none'"],
      baseUri: ["'none'"],
    },
    xFrameOptions: 'DENY',
    // Not `no-referrer`: with that, browsers send `Origin: null` with a form.
    referrerPolicy: 'same-origin',
    // It is for https, and the sandbox speaks http.
    strictTransportSecurity: false,
  });
  return async function pageHeaders(context, next) {
    context.header('cache-control', 'no-store');
    await secure(context, next);
  };
}

export function Layout({ title, children }: PropsWithChildren<{ title: string }>) {
  return (
    <>
      {raw('<!doctype html>')}
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <title>{title} · compliance sandbox</title>
          {/* Keeps browsers from asking for /favicon.ico. */}
          <link rel="icon" href="data:," />
          <style>{raw(STYLE)}</style>
          <script type="module">{raw(SCRIPT)}</script>
        </head>
        <body>{children}</body>
      </html>
    </>
  );
}

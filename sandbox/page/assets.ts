import { hash } from 'node:crypto';
import { Hono } from 'hono';

/** Like the mirror's style, but separate: the sandbox shares only the API's words with it. The striped edge tells the two apart. */
export const STYLE = `
:root {
  color-scheme: light dark;
  --paper: #f6f7f9; --card: #fff; --ink: #17202b; --soft: #556070; --line: #e1e5ea; --wash: #eef1f4;
  --accent: #2757c4; --on-accent: #fff; --bad: #b3261e;
  --sans: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", sans-serif;
  --mono: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #11151b; --card: #191f27; --ink: #e7ebf0; --soft: #9ba6b4; --line: #2b333e; --wash: #222a34;
    --accent: #8cafff; --on-accent: #10161f; --bad: #f38d84;
  }
}
*, *::before, *::after { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 400 .9375rem/1.5 var(--sans); font-variant-numeric: tabular-nums }
body::before {
  content: ""; display: block; height: .4rem;
  background: repeating-linear-gradient(-45deg, var(--accent) 0 .7rem, var(--card) .7rem 1.4rem)
}
h1, h2, p, ul, table { margin: 0; padding: 0 }
ul { list-style: none }
a { color: inherit; text-underline-offset: .2em }
code, small { font: .75rem/1.4 var(--mono); overflow-wrap: anywhere }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: .25rem }
.wrap { max-width: 80rem; margin: 0 auto; padding: 1.5rem clamp(1rem, 3vw, 2rem) 3rem; display: grid; gap: 1rem }
h1 { font-size: 1.375rem; line-height: 1.2; font-weight: 650; letter-spacing: -.015em }
h2 { margin-bottom: .6rem; font-size: 1rem; font-weight: 650 }
.note { color: var(--soft); font-size: .8125rem }
.notice { padding: .7rem 1rem; border-left: 3px solid var(--bad); background: var(--card) }
.columns { display: grid; gap: 1rem; align-items: start; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)) }
.card { min-width: 0; padding: 1rem; background: var(--card); border: 1px solid var(--line); border-radius: .75rem }
.scroll { max-height: 26rem; overflow: auto }
table { width: 100%; border-collapse: collapse }
th { padding: 0 .9rem .4rem 0; text-align: left; font-weight: 500; font-size: .75rem; color: var(--soft) }
td { padding: .4rem .9rem .4rem 0; border-top: 1px solid var(--line); vertical-align: top }
td small { display: block; color: var(--soft) }
.row { display: flex; flex-wrap: wrap; align-items: center; gap: .4rem } .row + .row { margin-top: .4rem }
button {
  appearance: none; padding: .3rem .7rem; border: 1px solid var(--line); border-radius: .5rem; background: var(--card);
  color: var(--ink); font: 550 .8125rem/1.4 var(--sans); cursor: pointer
}
button:hover { border-color: var(--soft) }
button.first { background: var(--accent); border-color: var(--accent); color: var(--on-accent) }
.door {
  max-width: 34rem; min-height: 88vh; margin: 0 auto; padding: 2rem clamp(1.1rem, 4vw, 2rem);
  display: grid; align-content: center; gap: 1rem
}
.scopes li { padding: .6rem 0; border-top: 1px solid var(--line) } .scopes code { color: var(--soft); margin-left: .4rem }
`;

/**
 * The page's only script, in plain JavaScript because nothing compiles it: it shows the page's newest content. Without it, a
 * person must reload the page. The forms need no script.
 */
const SCRIPT = `
'use strict';
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

/** The path has a hash of the content, so that a browser can cache it for ever. */
function asset(extension: string, type: string, text: string) {
  return { path: `/assets/page.${hash('sha256', text).slice(0, 12)}.${extension}`, type, text };
}

export const styleSheet = asset('css', 'text/css; charset=utf-8', STYLE);
export const script = asset('js', 'text/javascript; charset=utf-8', SCRIPT);

export function assetRoutes(): Hono {
  const routes = new Hono();
  for (const { path, type, text } of [styleSheet, script]) {
    const headers = { 'content-type': type, 'cache-control': 'public, max-age=31536000, immutable' };
    routes.get(path, (c) => c.body(text, 200, headers));
  }
  return routes;
}

import { hash } from 'node:crypto';
import { Hono } from 'hono';

/** Like the mirror's style, but separate: the sandbox shares only the API's words with it. The striped edge tells the two apart. */
export const STYLE = `
:root {
  color-scheme: light dark;
  --paper: #f6f7f9; --card: #fff; --ink: #17202b; --soft: #556070; --line: #e1e5ea; --wash: #eef1f4; --field: #868f9c;
  --accent: #2757c4; --on-accent: #fff; --good: #13744a; --wait: #875a00; --bad: #b3261e;
  --sans: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", sans-serif;
  --mono: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #11151b; --card: #191f27; --ink: #e7ebf0; --soft: #9ba6b4; --line: #2b333e; --wash: #222a34; --field: #768292;
    --accent: #8cafff; --on-accent: #10161f; --good: #5cc796; --wait: #e2b457; --bad: #f38d84;
  }
}
*, *::before, *::after { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 400 .9375rem/1.5 var(--sans); font-variant-numeric: tabular-nums }
body::before { content: ""; display: block; height: .4rem; background: repeating-linear-gradient(-45deg, var(--accent) 0 .7rem, var(--card) .7rem 1.4rem) }
h1, h2, p, ul, table { margin: 0; padding: 0 }
ul { list-style: none }
a { color: inherit; text-underline-offset: .2em }
code { font: .8125rem/1.5 var(--mono); overflow-wrap: anywhere }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: .25rem }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap }
.wrap { max-width: 80rem; margin: 0 auto; padding: 0 clamp(1rem, 3vw, 2rem) 3rem }
.top { display: flex; flex-wrap: wrap; align-items: baseline; gap: .35rem 1.25rem; padding: 1.5rem 0 1.25rem }
.top h1 { font-size: 1.375rem; font-weight: 650; letter-spacing: -.015em }
.top p { color: var(--soft); flex: 1 1 24rem }
.live { display: inline-flex; align-items: center; gap: .45rem; color: var(--soft); font-size: .8125rem }
.live::before { content: ""; width: .5rem; height: .5rem; border-radius: 50%; background: var(--line) }
.live[data-state="live"]::before { background: var(--good) } .live[data-state="lost"]::before { background: var(--bad) }
.columns { display: grid; gap: 1rem; align-items: start }
@media (min-width: 70rem) { .columns { grid-template-columns: minmax(0, 1fr) 21rem } }
.stack { display: grid; gap: 1rem; min-width: 0 }
.card { min-width: 0; padding: 1rem; background: var(--card); border: 1px solid var(--line); border-radius: .75rem }
.card > header { display: flex; flex-wrap: wrap; align-items: center; gap: .5rem 1rem; margin-bottom: .75rem }
.card h2 { font-size: 1rem; font-weight: 650 }
.card > header .end { margin-left: auto }
.note { color: var(--soft); font-size: .8125rem } .card .note + * { margin-top: .6rem }
.notice { margin-bottom: 1.25rem; padding: .7rem 1rem; border-left: 3px solid var(--bad); background: var(--card); white-space: pre-wrap }
.tabs { display: flex; flex-wrap: wrap; gap: .35rem }
.tabs a { padding: .3rem .75rem; border-radius: 2rem; text-decoration: none; color: var(--soft) }
.tabs a:hover { background: var(--wash) } .tabs a[aria-current] { background: var(--wash); color: var(--ink); font-weight: 550 }
.tabs a span { opacity: .75 }
.scroll { overflow-x: auto }
table { width: 100%; border-collapse: collapse }
th { padding: .3rem .9rem .4rem 0; text-align: left; font-weight: 500; font-size: .75rem; color: var(--soft); white-space: nowrap }
td { padding: .5rem .9rem .5rem 0; border-top: 1px solid var(--line); vertical-align: top }
td:last-child, th:last-child { padding-right: 0 }
td small { display: block; color: var(--soft); font: .75rem/1.4 var(--mono); overflow-wrap: anywhere }
td.tight { white-space: nowrap }
.badge { display: inline-block; padding: .05rem .5rem; border-radius: 1rem; background: var(--wash); font-size: .8125rem; white-space: nowrap }
.good { color: var(--good) } .wait { color: var(--wait) } .bad { color: var(--bad) }
.state { display: inline-flex; align-items: center; gap: .4rem; padding: .05rem .55rem .05rem .45rem; border-radius: 1rem; background: color-mix(in srgb, currentColor 11%, var(--card)); font-size: .8125rem; font-weight: 550; white-space: nowrap }
.state::before { content: ""; width: .45rem; height: .45rem; flex: none; border-radius: 50%; background: currentColor }
.row { display: flex; flex-wrap: wrap; align-items: center; gap: .35rem }
.row form { display: contents }
button { appearance: none; padding: .25rem .65rem; border: 1px solid var(--line); border-radius: .5rem; background: var(--card); color: var(--ink); font: 550 .8125rem/1.4 var(--sans); cursor: pointer }
button:hover { border-color: var(--field) }
button.first { background: var(--accent); border-color: var(--accent); color: var(--on-accent) }
button.danger { color: var(--bad) }
input, select, textarea { width: 100%; padding: .3rem .5rem; border: 1px solid var(--field); border-radius: .5rem; background: var(--card); color: var(--ink); font: .875rem/1.4 var(--sans) }
textarea { min-height: 4rem; font: .8125rem/1.5 var(--mono) }
input[type="checkbox"] { width: auto; accent-color: var(--accent) }
input[type="search"] { width: 12rem }
label { display: grid; gap: .15rem; font-size: .8125rem; color: var(--soft) }
label.check { display: inline-flex; align-items: center; gap: .4rem }
details > summary { cursor: pointer; font-size: .8125rem; font-weight: 500; list-style-position: inside }
details.inline > summary { display: inline-block; padding: .25rem .65rem; border: 1px solid var(--line); border-radius: .5rem; font-weight: 550; line-height: 1.4; list-style: none }
details.inline > summary::-webkit-details-marker { display: none }
.card > details { margin-bottom: .75rem }
details.inline[open] { flex-basis: 100% }
.form { display: grid; gap: .6rem; margin-top: .6rem; padding: .8rem; border-radius: .5rem; background: var(--wash) }
.fields { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .5rem .75rem }
fieldset { min-width: 0; margin: 0; padding: 0; border: 0 } legend { font-size: .8125rem; font-weight: 600; margin-bottom: .3rem }
.form-end { margin-top: .8rem; align-items: end } .form-end label { flex: 1 }
.card > form > fieldset + fieldset { margin-top: .9rem }
.pager { display: flex; gap: 1rem; margin-top: .7rem; font-size: .8125rem; color: var(--soft) }
.list > li { padding: .55rem 0; border-top: 1px solid var(--line) } .list > li:first-child { border-top: 0; padding-top: 0 }
.list p { overflow-wrap: anywhere }
.empty { padding: 1rem 0; color: var(--soft) }
.door { max-width: 34rem; min-height: 88vh; margin: 0 auto; padding: 2rem clamp(1.1rem, 4vw, 2rem); display: grid; align-content: center; gap: 1rem }
.door h1 { font-size: 1.75rem; line-height: 1.2; letter-spacing: -.02em; font-weight: 650; overflow-wrap: anywhere }
.door button { padding: .6rem 1.4rem; font-size: .9375rem } .door .row { gap: .75rem }
.eyebrow { color: var(--soft); font-size: .8125rem }
.scopes li { padding: .6rem 0; border-top: 1px solid var(--line) } .scopes code { color: var(--soft); margin-left: .4rem }
@media (max-width: 44rem) {
  .card thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  .card :is(table, tbody, tr, td) { display: block }
  .card tr { padding: .6rem 0; border-top: 1px solid var(--line) }
  .card td { padding: .15rem 0; border: 0; white-space: normal }
}
`;

/**
 * The page's only script, in plain JavaScript because nothing compiles it. It sends the forms without leaving the page
 * and replaces parts of the page with newer ones. Without it the forms work too, but a person must reload the page.
 */
const SCRIPT = `
'use strict';
(() => {
  const main = document.querySelector('main[data-stream]');
  const light = document.querySelector('[data-live]');
  if (!main) return;

  const show = (state, text) => {
    light.dataset.state = state;
    light.textContent = text;
  };

  // Somebody is writing in it, so it is updated only when that is sent or closed.
  const inUse = (part) => {
    const active = document.activeElement;
    const typing = part.contains(active) && active.matches('input, textarea, select');
    return typing || part.querySelector('details[open] form') !== null;
  };

  const update = (html, sent) => {
    const template = document.createElement('template');
    template.innerHTML = html;
    for (const fresh of template.content.querySelectorAll('[data-part]')) {
      const old = main.querySelector('[data-part="' + fresh.dataset.part + '"]');
      if (!old || old.outerHTML === fresh.outerHTML) continue;
      if (!(sent && old.contains(sent)) && inUse(old)) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement.id : '';
      old.replaceWith(fresh);
      if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    }
  };

  document.addEventListener('submit', async (event) => {
    const form = event.target;
    // The attribute, because form.action is the field of that name, if there is one.
    if (form.getAttribute('method') !== 'post') return;
    event.preventDefault();
    const body = new URLSearchParams(new FormData(form, event.submitter));
    try {
      // Not relative to the page's address, which may hold the token: fetch rejects such addresses.
      const answer = await fetch(new URL(form.getAttribute('action'), location.origin), { method: 'POST', body });
      // What was rejected stays as it was written.
      update(await answer.text(), answer.ok ? form : null);
    } catch {
      show('lost', 'not sent: the sandbox does not answer');
    }
  });

  const source = new EventSource(main.dataset.stream);
  source.addEventListener('parts', (event) => {
    show('live', 'live');
    update(event.data, null);
  });
  source.addEventListener('error', () => show('lost', 'connection lost, trying again'));
  addEventListener('pagehide', () => source.close());
})();
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

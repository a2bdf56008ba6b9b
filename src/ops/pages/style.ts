/** For `media`, the rows of tables inside `within` become cards, with a grid of so many columns for their cells. */
const asCards = (media: string, within: string, columns: number) => `@media ${media} {
  .scroll${within.trim()} { overflow: visible }
  ${within}:is(table, tbody, thead, tr, th, td) { display: block }
  ${within}thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  ${within}tbody tr { display: grid; grid-template-columns: repeat(${columns}, minmax(0, 1fr)); gap: var(--s2) var(--s3); padding: var(--s3) 0; border-top: 1px solid var(--line) }
  ${within}tbody tr:first-child { border-top: 0 }
  ${within}:is(tbody th, tbody td, td.n, .n + :not(.n)) { padding: 0; border: 0; text-align: left }
  ${within}tbody th { grid-column: 1 / -1; white-space: normal; font-weight: 600 }
  ${within}:is(td.wide, td.half) { grid-column: span 2 } ${within}td.full { grid-column: 1 / -1 } ${within}td.gone { display: none }
  ${within}:is(td time, td .state) { white-space: normal }
  ${within}td[data-label]::before { content: attr(data-label); display: block; font-size: .75rem; color: var(--soft) }
}`;

/**
 * The one style sheet, served from a path that holds its hash. System fonts, no external resources. One accent for what can be
 * pressed. Other colours mean a state, which words say too. Distances are --s1 to --s6.
 */
export const STYLE = `
:root {
  color-scheme: light dark;
  --paper: #f6f7f9; --card: #fff; --ink: #17202b; --soft: #556070; --line: #e1e5ea; --wash: #eef1f4; --field: #868f9c;
  --accent: #2757c4; --on-accent: #fff;
  --good: #13744a; --busy: #2757c4; --warn: #875a00; --bad: #b3261e; --open: #6541b5; --plain: #556070;
  --s1: .25rem; --s2: .5rem; --s3: .75rem; --s4: 1rem; --s5: 1.5rem; --s6: 2.5rem;
  --sans: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", sans-serif;
  --mono: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #11151b; --card: #191f27; --ink: #e7ebf0; --soft: #9ba6b4; --line: #2b333e; --wash: #222a34; --field: #768292;
    --accent: #8cafff; --on-accent: #10161f;
    --good: #5cc796; --busy: #8cafff; --warn: #e2b457; --bad: #f38d84; --open: #b7a1f0; --plain: #9ba6b4;
  }
}
*, *::before, *::after { box-sizing: border-box }
html { -webkit-text-size-adjust: 100% }
body { margin: 0; background: var(--paper); color: var(--ink); font: 400 .9375rem/1.5 var(--sans); overflow-wrap: break-word;
  font-variant-numeric: tabular-nums; -webkit-font-smoothing: antialiased }
.wrap { max-width: 80rem; margin: 0 auto; padding: 0 clamp(1rem, 3vw, 2rem) }
h1, h2, h3, p, ul, ol, dl, dd, table, figure { margin: 0; padding: 0 }
ul, ol { list-style: none }
a { color: inherit; text-decoration-color: color-mix(in srgb, currentColor 40%, transparent); text-underline-offset: .2em }
a:hover { text-decoration-color: currentColor }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: .25rem }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap }
.skip:focus { position: fixed; top: var(--s3); left: var(--s3); width: auto; height: auto; clip-path: none; padding: var(--s2) var(--s4); background: var(--card); z-index: 1 }
code { font: .8125rem/1.5 var(--mono); overflow-wrap: anywhere; unicode-bidi: isolate }
.quiet { color: var(--soft) } .warn { color: var(--bad) }
.note { margin-top: var(--s2); color: var(--soft); font-size: .875rem } .note.warn { color: var(--bad) }
.error { overflow-wrap: anywhere; color: var(--soft); font-size: .8125rem }

/* ─── around every page ─── */
.top { display: flex; flex-wrap: wrap; align-items: center; gap: var(--s1) var(--s4); padding: var(--s3) 0 var(--s1); font-size: .8125rem; color: var(--soft) }
.top .name { margin-right: auto; color: var(--ink); font-size: .9375rem; font-weight: 650; letter-spacing: -.01em; text-decoration: none }
.pages { border-bottom: 1px solid var(--line) }
.pages ul { display: flex; gap: 0 var(--s1); margin: 0 calc(-1 * var(--s3)) -1px }
.pages a { display: block; padding: var(--s2) var(--s3); white-space: nowrap; border-bottom: 2px solid transparent; color: var(--soft); text-decoration: none }
.pages a:hover { color: var(--ink) }
.pages a[aria-current] { border-color: var(--accent); color: var(--ink); font-weight: 550 }
/* Its hidden words must not widen the page. */
.count { display: inline-block; position: relative; margin-left: .35rem; padding: 0 .4rem; border-radius: 1rem; background: color-mix(in srgb, var(--bad) 11%, var(--card)); color: var(--bad); font-size: .75rem; font-weight: 600 }
.tabs ul { display: flex; flex-wrap: wrap; gap: var(--s1) }
.tabs a { display: block; padding: var(--s1) var(--s3); border-radius: 2rem; color: var(--soft); text-decoration: none }
.tabs a:hover { background: var(--wash); color: var(--ink) }
.tabs a[aria-current] { background: var(--wash); color: var(--ink); font-weight: 550 }
main { padding-top: var(--s5) } main:focus { outline: none }
/* A page that may be out of date shows no colours of states. */
body:has(.live[data-state="lost"]) main { filter: grayscale(1) }
.live { display: inline-flex; align-items: center; gap: var(--s2) }
.live::before { content: ""; width: .5rem; height: .5rem; border-radius: 50%; background: var(--line) }
.live[data-state="live"]::before { background: var(--good) } .live[data-state="lost"]::before { background: var(--warn) }
.foot { display: flex; flex-wrap: wrap; gap: var(--s1) var(--s5); padding: var(--s5) 0 var(--s6); font-size: .8125rem; color: var(--soft) }

/* ─── pieces ─── */
.plain { appearance: none; border: 0; background: none; padding: var(--s2) 0; font: inherit; color: inherit; text-decoration: underline; text-underline-offset: .2em; cursor: pointer }
.button { appearance: none; display: inline-flex; align-items: center; justify-content: center; min-height: 2.5rem; padding: var(--s2) var(--s4); text-decoration: none; border: 1px solid var(--line); border-radius: .5rem; background: var(--card); color: var(--ink); font: 550 .875rem/1.2 var(--sans); cursor: pointer }
.button:hover { border-color: var(--field) }
.button.first { background: var(--accent); border-color: var(--accent); color: var(--on-accent) } .button.first:hover { filter: brightness(1.08) }
.actions { display: flex; flex-wrap: wrap; align-items: center; gap: var(--s2) }
main > .actions, form > .actions { margin-top: var(--s4) }
.state { --tone: var(--plain); display: inline-flex; align-items: center; gap: .4rem; padding: .05rem .55rem .05rem .45rem; border-radius: 1rem; background: color-mix(in srgb, var(--tone) 11%, var(--card)); color: var(--tone); font-size: .8125rem; font-weight: 550; white-space: nowrap }
.state::before { content: ""; width: .45rem; height: .45rem; flex: none; border-radius: 50%; background: currentColor }
.state.in_sync, .state.known_only, .state.complete, .state.processed, .state.accepted { --tone: var(--good) } .state.catching_up, .state.pending { --tone: var(--busy) }
.state.stale, .state.unreachable, .state.incomplete, .state.quarantined { --tone: var(--warn) } .state.action_required, .state.failed, .state.rejected { --tone: var(--bad) } .state.unverified { --tone: var(--open) }
.pairs { display: grid; grid-template-columns: fit-content(60%) minmax(0, 1fr); gap: var(--s1) var(--s4); font-size: .875rem }
.pairs dt { color: var(--soft); overflow-wrap: anywhere } .pairs dd { text-align: right; overflow-wrap: anywhere }
.facts { display: grid; grid-template-columns: minmax(8rem, max-content) minmax(0, 1fr); gap: var(--s1) var(--s5) }
.facts dt { color: var(--soft) } .facts dd { overflow-wrap: anywhere }
.facts + .note { max-width: 72ch; margin-top: var(--s4) } .facts + .actions { margin-top: var(--s4) }
.filters { display: flex; flex-wrap: wrap; align-items: end; gap: var(--s3); padding: var(--s4); border: 1px solid var(--line); border-radius: .75rem; background: var(--card) }
.filters label { display: grid; gap: var(--s1); flex: 1 1 9rem; min-width: 0; font-size: .8125rem; color: var(--soft) }
.filters label:has([type="search"]) { flex-basis: 100% } .filters label:has([type="datetime-local"]) { flex-basis: min(26rem, 100%) }
.filters select, .filters input:not([type="checkbox"]):not([type="hidden"]) { width: 100%; min-width: 0; min-height: 2.5rem; padding: var(--s1) var(--s3); border: 1px solid var(--field); border-radius: .5rem; background: var(--card); color: var(--ink); font: .9375rem/1.3 var(--sans) }
.filters + * { margin-top: var(--s4) }
input[type="checkbox"] { accent-color: var(--accent); width: 1rem; height: 1rem; flex: none; transform: translateY(.1rem) }
.empty { margin-top: var(--s4); padding: var(--s6) var(--s4); border: 1px dashed var(--line); border-radius: .75rem; color: var(--soft); text-align: center; text-wrap: balance }
.notice { margin: 0 0 var(--s4); padding: var(--s3) var(--s4); border-left: 3px solid var(--good); border-radius: 0 .5rem .5rem 0; background: var(--card) }
.pager { display: flex; flex-wrap: wrap; justify-content: space-between; gap: var(--s2) var(--s5); margin-top: var(--s4) }
.pager a { padding: var(--s1) 0 } .pager a[rel="next"] { margin-left: auto }
.pre { margin-top: var(--s3); padding: var(--s4); border: 1px solid var(--line); border-radius: .75rem; background: var(--card); max-height: 36rem; overflow: auto }
pre { margin: 0; font: .8125rem/1.6 var(--mono); white-space: pre-wrap; overflow-wrap: anywhere }
progress { appearance: none; display: block; width: 100%; height: .375rem; margin-top: var(--s2); border: 0; border-radius: .25rem; overflow: hidden; background: var(--wash) }
progress::-webkit-progress-bar { background: inherit } progress::-webkit-progress-value { background: var(--accent) } progress::-moz-progress-bar { background: var(--accent) }
/* How far it has come is not known: an empty bar would say that nothing is done. */
progress:indeterminate { background: repeating-linear-gradient(135deg, var(--accent) 0 .4rem, var(--wash) .4rem .8rem) } progress:indeterminate::-moz-progress-bar { background: none }
.running { display: grid; gap: var(--s3); margin: var(--s3) 0 }
.running p { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 var(--s4) }

/* ─── tables: a card of their own, but for those inside one ─── */
.scroll { overflow-x: auto; margin-top: var(--s4); padding: var(--s1) var(--s4); border: 1px solid var(--line); border-radius: .75rem; background: var(--card) }
.scroll + .note, .empty + .note { margin-top: var(--s3) }
.tile .scroll { margin-top: var(--s2); padding: 0; border: 0; border-radius: 0; background: none }
td.gone { padding: 0 }
table { width: 100%; border-collapse: collapse; font-size: .875rem }
th { padding: var(--s2) var(--s4) var(--s2) 0; text-align: left; font-weight: 500; font-size: .8125rem; color: var(--soft); white-space: nowrap; vertical-align: bottom }
td, tbody th { overflow-wrap: anywhere; padding: var(--s2) var(--s4) var(--s2) 0; border-top: 1px solid var(--line); vertical-align: baseline }
tbody th { font-size: .875rem; color: var(--ink) }
th.n, td.n { text-align: right } .n + :not(.n) { padding-left: var(--s4) } th:last-child, td:last-child { padding-right: 0 }
td time, td.n, .whole { white-space: nowrap } .long { white-space: normal } td.wide { min-width: 6rem }

/* ─── the status page ─── */
.verdict { display: flex; flex-wrap: wrap; align-items: end; justify-content: space-between; gap: var(--s3) var(--s5); padding-bottom: var(--s5) }
.verdict > div:first-child { flex: 1 1 32rem; display: grid; gap: var(--s1) }
.eyebrow { display: flex; flex-wrap: wrap; align-items: center; gap: var(--s1) var(--s3); color: var(--soft); font-size: .875rem }
.verdict h1 { max-width: 44ch; margin-top: var(--s1); font: 650 clamp(1.375rem, 3vw, 1.875rem)/1.25 var(--sans); letter-spacing: -.02em; text-wrap: balance }
.remedy { max-width: 72ch; color: var(--soft); font-size: 1rem; text-wrap: pretty }
.grid { display: grid; grid-template-columns: repeat(12, minmax(0, 1fr)); gap: var(--s4) }
.grid > :empty { display: none }
.tile { grid-column: span 12; padding: var(--s4); border: 1px solid var(--line); border-radius: .75rem; background: var(--card); min-width: 0 }
@media (min-width: 48rem) { .third { grid-column: span 4 } }
@media (min-width: 48rem) and (max-width: 64rem) {
  .third .pairs { grid-template-columns: minmax(0, 1fr); gap: 0 } .third .pairs dd { margin-bottom: var(--s1); text-align: left }
}
.head { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: var(--s1) var(--s3) }
.tile h2 { font-size: .9375rem; font-weight: 650 } .tile h2 a { text-decoration-color: transparent } .tile h2 a:hover { text-decoration-color: currentColor }
.tile h3 { margin-top: var(--s3); font-size: .8125rem; font-weight: 500; color: var(--soft) }
.big { margin: var(--s1) 0 var(--s2); font: 600 1.75rem/1.2 var(--sans); letter-spacing: -.02em; overflow-wrap: anywhere }
.big small { font: 400 .875rem/1.4 var(--sans); letter-spacing: 0; color: var(--soft) }
.big + .note { margin-top: calc(-1 * var(--s1)) } .head + :is(.note, .pairs) { margin-top: var(--s2) }
.tile .note + .pairs { margin-top: var(--s2) }
.problem { padding-top: var(--s3) } .problem + .problem { margin-top: var(--s4); border-top: 1px solid var(--line) }
.tile .problem h3 { margin: 0; color: var(--ink); font-size: .9375rem } .problem .note { max-width: 72ch; margin-top: 0 }
.problem ul { margin-top: var(--s2) } .problem li { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 var(--s5); padding: .3rem 0; border-top: 1px solid var(--line) }

/* ─── every page but the status page ─── */
.title { padding-bottom: var(--s4) }
.title h1 { font: 650 clamp(1.375rem, 2.6vw, 1.75rem)/1.2 var(--sans); letter-spacing: -.02em; overflow-wrap: anywhere; text-wrap: balance }
.title h1 code { font-size: .85em }
.lead { max-width: 72ch; margin-top: var(--s1); color: var(--soft); text-wrap: pretty }
main > h2, .group > h2 { margin-top: var(--s5); font-size: 1.125rem; font-weight: 650; letter-spacing: -.01em }
.group.action_required { margin-top: var(--s5) }
.tabs { margin-bottom: var(--s3) } .head .tabs { margin: 0 }
.approval { display: grid; gap: var(--s3); justify-items: start; margin-top: var(--s4); padding: var(--s4); border: 1px solid var(--line); border-left: 3px solid var(--bad); border-radius: .75rem; background: var(--card) }
.approval label { display: flex; gap: var(--s2); align-items: baseline }
.change { margin-top: var(--s4) } .change h3 { font-size: .9375rem; font-weight: 600 } .change h3 small { font-weight: 400; color: var(--soft); font-size: .875rem }
.change .scroll { margin-top: var(--s2) }
.causes { display: grid; gap: var(--s4); margin-top: var(--s3) } .causes li { padding-left: var(--s4); border-left: 3px solid var(--warn) }

${asCards('(min-width: 40.01rem) and (max-width: 60rem)', '.dense ', 8)}
${asCards('(max-width: 40rem)', '', 4)}
@media (max-width: 40rem) {
  .pages ul { margin: 0 -.35rem -1px; gap: 0; justify-content: space-between } .pages a { padding: var(--s2) .35rem; font-size: .8125rem }
  .count { margin-left: .2rem; padding: 0 .3rem }
  .facts { grid-template-columns: minmax(0, 1fr); gap: 0 } .facts dd { margin-bottom: var(--s2) }
  .filters .button { flex: 1 1 100% } .live:not([data-live]) { display: none }
}

.door { max-width: 26rem; min-height: 82vh; margin: 0 auto; padding: 2rem clamp(1rem, 4vw, 2rem); display: grid; align-content: center; gap: var(--s5) }
.door h1 { font: 650 1.75rem/1.2 var(--sans); letter-spacing: -.02em }
.door form { display: grid; gap: var(--s2) }
.door label { font-weight: 550 }
.door input:not([type="hidden"]) { width: 100%; min-height: 2.75rem; padding: var(--s2) var(--s3); border: 1px solid var(--field); border-radius: .5rem; background: var(--card); color: var(--ink); font: 1rem/1.4 var(--mono) }
.door .button { margin-top: var(--s2); background: var(--accent); border-color: var(--accent); color: var(--on-accent) }
.door .note { margin: 0 }
@media (prefers-reduced-motion: no-preference) { .button { transition: border-color .15s } }
`;

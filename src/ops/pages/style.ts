/** The one style sheet, served from a path that holds its hash. System fonts, no external resources. */
export const STYLE = `
:root {
  color-scheme: light dark;
  --paper: #fbfaf8; --card: #ffffff; --ink: #1d1c1a; --soft: #66625c; --line: #e6e2dc; --wash: #f3f0eb;
  --in-sync: #1c7a4d; --catching-up: #2861b3; --stale: #96610a; --blocked: #b3372b; --unverified: #6a4fa3;
  --field: #8f8a83; --accent: var(--soft);
  --r0: #b3372b; --r1: #96610a; --r2: #6a4fa3; --r3: #2861b3; --r4: #8a857e;
  --sans: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", sans-serif;
  --serif: ui-serif, "Iowan Old Style", "Palatino Linotype", Palatino, "Source Serif 4", Georgia, "Liberation Serif", serif;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #151514; --card: #1d1c1b; --ink: #ece9e4; --soft: #a39e96; --line: #33312e; --wash: #262522;
    --in-sync: #5fc496; --catching-up: #7fb0f5; --stale: #e0ad53; --blocked: #f08a7d; --unverified: #b9a2ee; --field: #807b74;
    --r0: #f08a7d; --r1: #e0ad53; --r2: #b9a2ee; --r3: #7fb0f5; --r4: #8b867f;
  }
}
.in_sync { --accent: var(--in-sync) } .catching_up { --accent: var(--catching-up) } .stale { --accent: var(--stale) }
.unreachable { --accent: var(--stale) } .action_required { --accent: var(--blocked) } .unverified { --accent: var(--unverified) }
*, *::before, *::after { box-sizing: border-box }
html { -webkit-text-size-adjust: 100% }
body { margin: 0; background: var(--paper); color: var(--ink); font: 400 1rem/1.55 var(--sans);
  font-variant-numeric: tabular-nums; -webkit-font-smoothing: antialiased }
.wrap { max-width: 66rem; margin: 0 auto; padding: 0 clamp(1.1rem, 4vw, 2.5rem) }
h1, h2, h3, p, ul, dl, dd, table, figure { margin: 0; padding: 0 }
ul { list-style: none }
a { color: inherit; text-underline-offset: .2em }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 3px; border-radius: .3rem }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap }
.skip:focus { position: fixed; top: .75rem; left: .75rem; width: auto; height: auto; clip-path: none; padding: .5rem 1rem; background: var(--card); z-index: 1 }

.top { display: flex; flex-wrap: wrap; align-items: center; gap: .4rem 1.25rem; padding: 1.5rem 0; font-size: .875rem; color: var(--soft) }
.top .name { margin-right: auto; color: var(--ink); font-weight: 600; letter-spacing: -.005em; text-decoration: none }
.wide-wrap { max-width: 84rem }
.pages ul, .tabs ul { display: flex; flex-wrap: wrap; gap: .15rem .35rem }
.pages { border-bottom: 1px solid var(--line); padding-bottom: .75rem; font-size: .9375rem }
.pages ul { margin: 0 -.7rem }
.pages a, .tabs a { display: block; padding: .4rem .7rem; border-radius: .5rem; color: var(--soft); text-decoration: none }
.pages a:hover, .tabs a:hover { color: var(--ink); background: var(--wash) }
.pages a[aria-current], .tabs a[aria-current] { color: var(--ink); background: var(--wash); font-weight: 500 }
main:focus { outline: none }
.live { display: inline-flex; align-items: center; gap: .45rem }
.live::before { content: ""; width: .45rem; height: .45rem; border-radius: 50%; background: var(--line) }
.live[data-state="live"]::before { background: var(--in-sync) }
.live[data-state="lost"]::before { background: var(--stale) }
.plain { appearance: none; border: 0; background: none; padding: .35rem 0; font: inherit; color: inherit; text-decoration: underline; text-underline-offset: .2em; cursor: pointer }

.verdict { padding: clamp(2rem, 7vw, 4.5rem) 0 clamp(2.25rem, 6vw, 4rem) }
.eyebrow { display: flex; flex-wrap: wrap; align-items: center; gap: .2rem .6rem; color: var(--soft); font-size: .9375rem }
.eyebrow strong { display: inline-flex; align-items: center; gap: .6rem; color: var(--accent); font-weight: 600 }
.eyebrow strong::before { content: ""; width: .7rem; height: .7rem; border-radius: 50%; background: var(--accent) }
.verdict h1 { max-width: 26ch; margin-top: .9rem; font: 400 clamp(2rem, 5.4vw, 3.5rem)/1.12 var(--serif); letter-spacing: -.018em; text-wrap: balance }
.remedy { max-width: 60ch; margin-top: 1.25rem; color: var(--soft); font-size: 1.0625rem; text-wrap: pretty }
.actions { display: flex; flex-wrap: wrap; align-items: center; gap: .75rem; margin-top: 1.75rem }
.button { appearance: none; display: inline-flex; align-items: center; justify-content: center; min-height: 2.75rem; padding: .5rem 1.15rem; text-decoration: none; border: 1px solid var(--line); border-radius: .55rem; background: var(--card); color: var(--ink); font: 500 .9375rem/1.2 var(--sans); cursor: pointer }
.button:hover { border-color: var(--soft) }
.button.first { background: var(--accent); border-color: var(--accent); color: var(--paper) }
.button.first:hover { filter: brightness(1.08) }
.approval { flex-basis: 100%; display: grid; gap: .9rem; justify-items: start; padding: 1.1rem 1.25rem; border-left: 3px solid var(--accent); background: var(--card); border-radius: 0 .55rem .55rem 0 }
.approval label { display: flex; gap: .65rem; align-items: baseline }
input[type="checkbox"] { accent-color: var(--accent); width: 1rem; height: 1rem; flex: none; transform: translateY(.1rem) }

.grid { display: grid; grid-template-columns: repeat(12, minmax(0, 1fr)); gap: 1px; background: var(--line); border: 1px solid var(--line); border-radius: .9rem; overflow: hidden }
.tile { grid-column: span 12; padding: clamp(1.25rem, 3vw, 1.9rem); background: var(--card) }
@media (min-width: 48rem) { .third { grid-column: span 4 } .half { grid-column: span 6 } .two-thirds { grid-column: span 8 } }
.tile h2 { font-size: .875rem; font-weight: 600; color: var(--soft); letter-spacing: .005em }
.big { margin-top: .55rem; font: 400 2.5rem/1.1 var(--serif); letter-spacing: -.02em; overflow-wrap: anywhere }
.big small { font: 400 .9375rem/1.4 var(--sans); letter-spacing: 0; color: var(--soft) }
.note { margin-top: .5rem; color: var(--soft); font-size: .9375rem }
.note.warn, .warn { color: var(--blocked) }
.pairs { display: grid; grid-template-columns: minmax(0, 1fr) fit-content(60%); gap: .3rem 1rem; margin-top: 1rem; font-size: .9375rem }
.pairs dt { color: var(--soft); overflow-wrap: anywhere } .pairs dd { text-align: right }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 15rem), 1fr)); gap: 1.25rem 1.75rem; margin-top: 1.25rem }
.chart svg { display: block; width: 100%; height: 4.5rem; margin-top: .35rem }
.chart figcaption { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 .75rem; font-size: .8125rem; color: var(--soft) }
.chart figcaption span:first-child { color: var(--ink) }
svg .ok { fill: var(--ink); fill-opacity: .74 } svg .again { fill: var(--ink); fill-opacity: .34 } svg .peak { fill: var(--ink); fill-opacity: .22 }
svg .bad, svg .r0 { fill: var(--r0) } svg .r1 { fill: var(--r1) } svg .r2 { fill: var(--r2) } svg .r3 { fill: var(--r3) } svg .r4 { fill: var(--r4) }
svg .base { fill: var(--line) } svg .hit { fill: transparent } .bar:hover .hit { fill: var(--wash) }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; margin-top: .9rem; font-size: .8125rem; color: var(--soft) }
.legend li { display: inline-flex; align-items: center; gap: .4rem } .legend strong { font-weight: 500; color: var(--ink) }
.swatch { width: .7rem; height: .7rem; flex: none }
.note.small { font-size: .8125rem }
.tile h3 { margin-top: 1.25rem; font-size: .8125rem; font-weight: 500; color: var(--soft) } .tile h3 + .pairs { margin-top: .4rem } .tile .gaps h3 { margin-top: 0; font-size: 1rem; font-weight: 600; color: var(--ink) }
.axis { display: flex; justify-content: space-between; margin-top: .3rem; font-size: .8125rem; color: var(--soft) }

/* ─── every page but the status page ─── */
.title { padding: clamp(1.75rem, 5vw, 3rem) 0 1.5rem }
.title h1 { font: 400 clamp(1.75rem, 4vw, 2.5rem)/1.15 var(--serif); letter-spacing: -.018em; overflow-wrap: anywhere; text-wrap: balance }
.title h1 code { font-size: .72em }
.lead { max-width: 68ch; margin-top: .5rem; color: var(--soft); text-wrap: pretty }
main > h2, .group > h2, .dry-run > h2 { margin-top: 2.5rem; font: 400 1.375rem/1.25 var(--serif); letter-spacing: -.01em }
.group > h2 small, .dry-run h2 small { font: 400 .875rem var(--sans); color: var(--soft) } .group h2 small.warn { color: var(--blocked) }
.dry-run h3 { margin-top: 1.25rem; font-size: .9375rem; font-weight: 600 } .dry-run h3::first-letter { text-transform: uppercase }
.group + .group { margin-top: 1rem }
.tabs { margin: 0 -.7rem 1.25rem; font-size: .9375rem }
.attention { margin: 1.5rem 0; padding: 1.1rem 1.25rem; border: 1px solid var(--line); border-left: 3px solid var(--stale); border-radius: .75rem; background: var(--card) }
.attention h2 { margin: 0 0 .6rem; font: 600 1rem/1.3 var(--sans) }
.attention ul { display: grid; gap: .45rem; margin: 0; padding: 0; list-style: none }
.attention li { display: flex; flex-wrap: wrap; justify-content: space-between; gap: .2rem 1.5rem }
.filters { display: flex; flex-wrap: wrap; align-items: end; gap: .8rem 1rem; padding: 1.1rem 1.25rem; border: 1px solid var(--line); border-radius: .75rem; background: var(--card) }
.filters label:not(.tick) { display: grid; gap: .25rem; flex: 1 1 9rem; min-width: 0; font-size: .8125rem; color: var(--soft) }
.filters select, .filters input:not([type]) { width: 100%; min-height: 2.75rem; padding: .4rem .7rem; border: 1px solid var(--field); border-radius: .5rem; background: var(--paper); color: var(--ink); font: .9375rem/1.3 var(--sans) }
.filters fieldset { display: flex; flex-wrap: wrap; gap: .3rem 1.25rem; flex: 1 1 16rem; margin: 0; padding: 0; border: 0; min-width: 0 }
.filters legend { padding: 0 0 .35rem; font-size: .8125rem; color: var(--soft) }
.filters + * { margin-top: 1.5rem }
.tick { display: flex; gap: .5rem; align-items: baseline; font-size: .9375rem }
.empty { margin-top: 1.5rem; padding: 2rem 1.25rem; border: 1px dashed var(--line); border-radius: .75rem; color: var(--soft); text-align: center; text-wrap: balance }
.told { margin: 0 0 1.25rem; padding: .85rem 1.1rem; border-left: 3px solid var(--in-sync); border-radius: 0 .55rem .55rem 0; background: var(--card) }
.told.action_required { border-color: var(--blocked) }
.empty + .note, form + .note, .scroll + .note { margin-top: .8rem }
.pager { display: flex; flex-wrap: wrap; justify-content: space-between; gap: .5rem 1.5rem; margin-top: 1.5rem; font-size: .9375rem }
.pager a { padding: .35rem 0 } .pager a[rel="next"] { margin-left: auto }
.facts { display: grid; grid-template-columns: minmax(8rem, max-content) minmax(0, 1fr); gap: .45rem 1.75rem; font-size: .9375rem }
.facts dt { color: var(--soft) } .facts dd { overflow-wrap: anywhere }
.group .facts { margin-top: .9rem } .facts + .note { margin-top: 1.1rem; max-width: 72ch }
.pre { margin-top: .9rem; padding: 1rem 1.25rem; border: 1px solid var(--line); border-radius: .75rem; background: var(--card); max-height: 36rem; overflow: auto }
pre { margin: 0; font: .8125rem/1.6 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; white-space: pre-wrap; overflow-wrap: anywhere }
details { margin-top: 1rem } summary { cursor: pointer; color: var(--soft); font-size: .9375rem; padding: .35rem 0 }
.state { display: inline-block; white-space: nowrap } .state.failed { color: var(--blocked); font-weight: 500 } .state.pending { color: var(--catching-up) }
.state.ignored, .state.discarded { color: var(--soft) }
.change { margin-top: 1.75rem } .change h3 { font-size: 1rem; font-weight: 600 } .change h3 small { font-weight: 400; color: var(--soft); font-size: .875rem }
.causes { display: grid; gap: 1rem; margin-top: .9rem } .causes li { padding-left: 1.1rem; border-left: 3px solid var(--stale) }
main > .actions { margin-top: 1.5rem } .bulk { align-items: center } .bulk .note { margin: 0 }
.ids a { text-decoration: none } .ids a:hover { text-decoration: underline }
.pending.ids { gap: .4rem 1rem; margin: 1rem 0 } .group.action_required { --accent: var(--blocked); margin-top: 2rem } .group.action_required .approval { margin-top: 1.25rem }
.scroll { overflow-x: auto; margin-top: .9rem }
td.gone { padding: 0 }
table { width: 100%; border-collapse: collapse; font-size: .9375rem }
th { padding: .35rem 1rem .5rem 0; text-align: left; font-weight: 500; font-size: .8125rem; color: var(--soft); white-space: nowrap; vertical-align: bottom }
td { padding: .6rem 1rem .6rem 0; border-top: 1px solid var(--line); vertical-align: baseline }
th.n, td.n { text-align: right } .n + :not(.n) { padding-left: 1.25rem } th:last-child, td:last-child { padding-right: 0 }
tbody th { padding: .6rem 1rem .6rem 0; border-top: 1px solid var(--line); font-size: .9375rem; color: var(--ink); vertical-align: baseline }
.dot { display: inline-flex; align-items: baseline; gap: .5rem; white-space: nowrap; color: var(--accent) }
.dot::before { content: ""; width: .5rem; height: .5rem; border-radius: 50%; background: var(--accent); transform: translateY(-.05rem) }
.reach { font-weight: 400; font-size: .8125rem; color: var(--soft); white-space: normal } td time { white-space: nowrap }
.quiet { color: var(--soft) }
.error { overflow-wrap: anywhere; color: var(--soft); font-size: .875rem }
progress { appearance: none; display: block; width: 100%; height: .5rem; margin-top: .45rem; border: 0; border-radius: .25rem; overflow: hidden; background: var(--wash) }
progress::-webkit-progress-bar { background: var(--wash) } progress::-webkit-progress-value { background: var(--catching-up) }
progress::-moz-progress-bar { background: var(--catching-up) }
progress.budget::-webkit-progress-value { background: var(--soft) } progress.budget::-moz-progress-bar { background: var(--soft) }
.running { display: grid; gap: 1.1rem; margin: 1rem 0 1.4rem }
.running p { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; font-size: .9375rem }
.gaps > li { padding: 1.1rem 0; border-top: 1px solid var(--line) }
.gaps > li:first-child { border-top: 0; padding-top: .8rem } .gaps > li:last-child { padding-bottom: 0 }
.gaps h3 { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 .6rem; font-size: 1rem; font-weight: 600 }
.gaps h3 small { font-weight: 400; color: var(--soft); font-size: .875rem }
.gaps p { max-width: 72ch; margin-top: .2rem; color: var(--soft) }
.ids { display: flex; flex-wrap: wrap; gap: .4rem; margin-top: .6rem }
code { font: .8125rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; overflow-wrap: anywhere }
.ids code { padding: .05rem .45rem; border-radius: .3rem; background: var(--wash) }
.foot { display: flex; flex-wrap: wrap; gap: .3rem 1.5rem; padding: 2rem 0 3rem; font-size: .875rem; color: var(--soft) }

@media (max-width: 40rem) {
  .big small { display: block; margin-top: .15rem }
  .scroll { overflow: visible }
  table, tbody, thead, tr, th, td { display: block }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  tbody tr { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: .5rem .75rem; padding: 1rem 0; border-top: 1px solid var(--line) }
  tbody tr:first-child { border-top: 0; padding-top: .5rem } tbody tr:last-child { padding-bottom: 0 }
  tbody th, tbody td, td.n, .n + :not(.n) { padding: 0; border: 0; text-align: left }
  tbody th { grid-column: 1 / -1; white-space: normal; font-weight: 600 }
  td.wide, td.half { grid-column: span 2 } td.full { grid-column: 1 / -1 } td.gone { display: none }
  .facts { grid-template-columns: minmax(0, 1fr); gap: .1rem } .facts dd { margin-bottom: .6rem }
  .filters .button { flex: 1 1 100% } .live:not([data-live]) { display: none }
  td[data-label]::before { content: attr(data-label); display: block; font-size: .75rem; color: var(--soft) }
}

.door { max-width: 26rem; min-height: 82vh; margin: 0 auto; padding: 2rem clamp(1.1rem, 4vw, 2.5rem); display: grid; align-content: center; gap: 1.6rem }
.door h1 { font: 400 2.25rem/1.15 var(--serif); letter-spacing: -.018em }
.door form { display: grid; gap: .55rem }
.door label { font-size: .9375rem; font-weight: 500 }
.door input:not([type="hidden"]) { width: 100%; min-height: 2.9rem; padding: .5rem .85rem; border: 1px solid var(--soft); border-radius: .55rem; background: var(--card); color: var(--ink); font: 1rem/1.4 ui-monospace, Menlo, Consolas, "Liberation Mono", monospace }
.door .button { margin-top: .6rem; background: var(--ink); border-color: var(--ink); color: var(--paper) }
.door .note { margin: 0 }
@media (prefers-reduced-motion: no-preference) { .button { transition: border-color .15s } }
`;

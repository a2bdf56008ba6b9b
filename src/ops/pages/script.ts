/**
 * The one script, served from a path that holds its hash; plain JavaScript, because nothing compiles it. It posts
 * the token of a sign-in link, which is behind the `#` and so never reaches a log; adds a box that ticks all others;
 * links bars of the chart to the deliveries of their time; and replaces the parts of a page that changed. Every page
 * also works without it.
 */
export const SCRIPT = `
'use strict';
(() => {
  const door = document.querySelector('form[data-sign-in]');
  if (door) {
    const enter = () => {
      const token = new URLSearchParams(location.hash.slice(1)).get('token');
      if (!token) return;
      history.replaceState(null, '', location.pathname + location.search);
      door.elements.token.value = token;
      door.submit();
    };
    enter();
    // A link that is pasted while this page is shown loads nothing.
    addEventListener('hashchange', enter);
    return;
  }

  for (const place of document.querySelectorAll('[data-tick-all]')) {
    const boxes = () => [...place.closest('form').querySelectorAll('tbody input[type="checkbox"]')];
    const all = document.createElement('input');
    all.type = 'checkbox';
    all.setAttribute('aria-label', 'Tick all');
    all.addEventListener('change', () => {
      for (const box of boxes()) box.checked = all.checked;
    });
    place.closest('form').addEventListener('change', () => {
      const ticked = boxes().filter((box) => box.checked).length;
      all.checked = ticked > 0 && ticked === boxes().length;
      all.indeterminate = ticked > 0 && ticked < boxes().length;
    });
    place.prepend(all, ' ');
  }

  // Browsers allow the clipboard only over TLS and on localhost.
  for (const button of navigator.clipboard ? document.querySelectorAll('[data-copy]') : []) {
    const words = button.textContent;
    button.hidden = false;
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(button.parentElement.querySelector('pre').textContent);
      button.textContent = 'Copied';
      setTimeout(() => (button.textContent = words), 2000);
    });
  }

  addEventListener('keydown', (event) => {
    const field = document.querySelector('[aria-keyshortcuts="' + CSS.escape(event.key) + '"]');
    if (!field || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest('input:not([type="checkbox"]), select, textarea')) return;
    event.preventDefault();
    field.focus();
    field.select();
  });

  const main = document.querySelector('main[data-stream]');
  const light = document.querySelector('[data-live]');
  if (!main) return;

  const show = (state, text) => {
    if (light.dataset.state === state) return;
    light.dataset.state = state;
    light.textContent = text;
  };

  // Screen readers read this out when it changes. They would not read a replaced part, or would read its ages each minute.
  const said = document.createElement('p');
  said.className = 'hidden';
  said.setAttribute('role', 'status');
  main.append(said);

  // The keyboard focus stays where it is when a part is replaced.
  const stopsIn = (part) => [...part.querySelectorAll('a[href], button, input, select, summary, [tabindex]')];
  const nameOf = (stop) => stop.id || stop.getAttribute('href') || stop.getAttribute('aria-label') || stop.textContent;

  const update = (html) => {
    const template = document.createElement('template');
    template.innerHTML = html;
    for (const fresh of template.content.querySelectorAll('[data-part]')) {
      const old = document.querySelector('[data-part="' + fresh.dataset.part + '"]');
      if (!old || old.outerHTML === fresh.outerHTML || old.contains(brushed?.svg ?? null)) continue;
      const place = stopsIn(old).indexOf(document.activeElement);
      const name = place < 0 ? null : nameOf(document.activeElement);
      old.replaceWith(fresh);
      if (place < 0) continue;
      const stops = stopsIn(fresh);
      (stops.find((stop) => nameOf(stop) === name) ?? stops[place])?.focus({ preventScroll: true });
    }
    const sentence = main.querySelector('.verdict h1');
    if (sentence) document.title = sentence.textContent + ' · compliance mirror';
    const words = main.querySelector('.verdict h1, .new-rows')?.textContent ?? '';
    if (said.textContent !== words) said.textContent = words;
  };

  // Dragging over bars of the chart, or a click on one, leads to the deliveries of that time.
  let brushed = null;
  const barAt = ({ svg, box }, x) => {
    const { bars } = svg.dataset;
    return Math.min(bars - 1, Math.max(0, Math.floor(((x - box.left) / box.width) * bars)));
  };
  const markBrushed = () => {
    const { svg, first, last } = brushed;
    const mark = svg.querySelector('.brush');
    const unit = svg.viewBox.baseVal.width / svg.dataset.bars;
    mark.setAttribute('x', Math.min(first, last) * unit);
    mark.setAttribute('width', (Math.abs(last - first) + 1) * unit);
  };
  main.addEventListener('pointerdown', (event) => {
    const svg = event.target.closest('svg[data-brush]');
    if (!svg || event.button !== 0) return;
    brushed = { svg, box: svg.getBoundingClientRect() };
    brushed.first = brushed.last = barAt(brushed, event.clientX);
    markBrushed();
  });
  addEventListener('pointermove', (event) => {
    if (!brushed) return;
    brushed.last = barAt(brushed, event.clientX);
    markBrushed();
  });
  addEventListener('pointercancel', () => (brushed = null));
  addEventListener('pointerup', () => {
    if (!brushed) return;
    const { svg, first, last } = brushed;
    brushed = null;
    const { brush, from, step } = svg.dataset;
    const instant = (bar) => new Date(Number(from) + bar * step).toISOString();
    const since = instant(Math.min(first, last));
    const until = instant(Math.max(first, last) + 1);
    location.assign(brush + '?' + new URLSearchParams({ since, until }));
  });

  let source;
  const listen = () => {
    source?.close();
    source = new EventSource(main.dataset.stream);
    source.addEventListener('open', () => show('live', 'live'));
    source.addEventListener('status', (event) => {
      show('live', 'live');
      update(event.data);
    });
    source.addEventListener('error', () => {
      show('lost', 'connection lost at ' + new Date().toISOString().slice(11, 19) + ' UTC, trying again');
      // Closed for good, as when the session has ended: a reload leads to the sign-in.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 5000);
    });
  };
  // A browser opens six connections to one server. If streams took all of them, the next page would not load. Only the
  // status page keeps its stream in the background, because its title is the verdict.
  const isKept = main.querySelector('.verdict') !== null;
  if (!document.hidden || isKept) listen();
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) {
      if (source?.readyState !== EventSource.OPEN) listen();
    } else if (!isKept) source?.close();
  });
  // Another range of the chart, without a reload.
  main.addEventListener('click', (event) => {
    const link = event.target.closest('a[data-range]');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    history.replaceState(null, '', link.href);
    main.dataset.stream = link.dataset.range;
    listen();
  });
  addEventListener('pagehide', () => source?.close());
})();
`;

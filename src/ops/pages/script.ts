/**
 * The one script, served from a path that holds its hash; plain JavaScript, because it runs as it stands. It posts
 * the token of a sign-in link, which stands behind the `#` and so never reaches a log; says instants in the reader's
 * zone; gives lists a box that ticks all others; and puts a page's newer parts in the place of the older ones.
 * Without it every page works by hand, in UTC.
 */
export const SCRIPT = `
'use strict';
(() => {
  const door = document.querySelector('form[data-sign-in]');
  if (door) {
    const token = new URLSearchParams(location.hash.slice(1)).get('token');
    if (token) {
      history.replaceState(null, '', location.pathname + location.search);
      door.elements.token.value = token;
      door.submit();
    }
    return;
  }

  const two = (number) => String(number).padStart(2, '0');
  const dayOf = (date) => date.getFullYear() + '-' + two(date.getMonth() + 1) + '-' + two(date.getDate());
  const localise = (root) => {
    const today = dayOf(new Date());
    for (const time of root.querySelectorAll('time[data-at]')) {
      const date = new Date(time.dateTime);
      const clock = two(date.getHours()) + ':' + two(date.getMinutes());
      const day = dayOf(date);
      time.textContent = day === today ? clock : day + ', ' + clock;
    }
    for (const time of root.querySelectorAll('time[data-clock]')) {
      const date = new Date(time.dateTime);
      time.textContent = two(date.getHours()) + ':' + two(date.getMinutes()) + ':' + two(date.getSeconds());
    }
  };
  localise(document);
  const zone = document.querySelector('[data-zone]');
  if (zone) {
    const name = Intl.DateTimeFormat().resolvedOptions().timeZone || 'your zone';
    zone.textContent = 'Times are those of ' + name + '; pointed at, in UTC.';
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

  const main = document.querySelector('main[data-stream]');
  const light = document.querySelector('[data-live]');
  if (!main || !light) return;

  const show = (state, text) => {
    if (light.dataset.state === state) return;
    light.dataset.state = state;
    light.textContent = text;
  };

  // Whoever is under way by keyboard stays where they are when a part is replaced.
  const stopsIn = (part) => [...part.querySelectorAll('a[href], button, input, select, summary, [tabindex]')];
  const nameOf = (stop) => stop.id || stop.getAttribute('href') || stop.getAttribute('aria-label') || stop.textContent;

  const update = (html) => {
    const template = document.createElement('template');
    template.innerHTML = html;
    localise(template.content);
    for (const fresh of template.content.querySelectorAll('[data-part]')) {
      const old = main.querySelector('[data-part="' + fresh.dataset.part + '"]');
      if (!old || old.outerHTML === fresh.outerHTML) continue;
      const place = stopsIn(old).indexOf(document.activeElement);
      const name = place < 0 ? null : nameOf(document.activeElement);
      old.replaceWith(fresh);
      if (place < 0) continue;
      const stops = stopsIn(fresh);
      (stops.find((stop) => nameOf(stop) === name) ?? stops[place])?.focus({ preventScroll: true });
    }
    const sentence = main.querySelector('.verdict h1');
    if (sentence) document.title = sentence.textContent + ' · compliance mirror';
  };

  const source = new EventSource(main.dataset.stream);
  source.addEventListener('open', () => show('live', 'live'));
  source.addEventListener('status', (event) => {
    show('live', 'live');
    update(event.data);
  });
  source.addEventListener('error', () => {
    show('lost', 'connection lost, trying again');
    // Refused for good, as after a restart or when the session has ended: a reload leads to the sign-in.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 5000);
  });
  addEventListener('pagehide', () => source.close());
})();
`;

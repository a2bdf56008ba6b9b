/**
 * The one script, served from a path that holds its hash; plain JavaScript, because nothing compiles it. It posts
 * the token of a sign-in link, which is behind the `#` and so never reaches a log; and replaces
 * the parts of a page that changed. Every page also works without it.
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

  const main = document.querySelector('main[data-again]');
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

  const update = (page) => {
    for (const fresh of page.querySelectorAll('[data-part]')) {
      const old = document.querySelector('[data-part="' + fresh.dataset.part + '"]');
      if (!old || old.outerHTML === fresh.outerHTML) continue;
      const place = stopsIn(old).indexOf(document.activeElement);
      const name = place < 0 ? null : nameOf(document.activeElement);
      old.replaceWith(fresh);
      if (place < 0) continue;
      const stops = stopsIn(fresh);
      (stops.find((stop) => nameOf(stop) === name) ?? stops[place])?.focus({ preventScroll: true });
    }
    document.title = page.title;
    const words = main.querySelector('.verdict h1')?.textContent ?? '';
    if (said.textContent !== words) said.textContent = words;
  };

  const look = async () => {
    try {
      const answer = await fetch(main.dataset.again);
      // The session has ended: a reload leads to the sign-in.
      if (answer.status === 401) return location.reload();
      if (!answer.ok) throw new Error(answer.statusText);
      update(new DOMParser().parseFromString(await answer.text(), 'text/html'));
      show('live', 'live');
    } catch {
      show('lost', 'connection lost at ' + new Date().toISOString().slice(11, 19) + ' UTC, trying again');
    }
  };
  // Only the overview goes on in the background, because its title is the verdict.
  const isKept = main.querySelector('.verdict') !== null;
  const goOn = async () => {
    if (!document.hidden || isKept) await look();
    setTimeout(goOn, 1000);
  };
  goOn();
})();
`;

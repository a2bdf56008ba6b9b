/**
 * The one script, served from a path that holds its hash; plain JavaScript, because it runs as it stands. Two
 * jobs: it posts the token of a sign-in link, which stands behind the `#` and so never reaches a log, and it
 * puts the status page's newer parts in the place of the older ones. Without it both pages work by hand.
 */
export const SCRIPT = `
'use strict';
(() => {
  const door = document.querySelector('form[data-sign-in]');
  if (door) {
    const token = new URLSearchParams(location.hash.slice(1)).get('token');
    if (token) {
      history.replaceState(null, '', location.pathname);
      door.elements.token.value = token;
      door.submit();
    }
    return;
  }

  const main = document.querySelector('main[data-stream]');
  const light = document.querySelector('[data-live]');
  if (!main || !light) return;

  const show = (state, text) => {
    if (light.dataset.state === state) return;
    light.dataset.state = state;
    light.textContent = text;
  };

  const update = (html) => {
    const template = document.createElement('template');
    template.innerHTML = html;
    for (const fresh of template.content.querySelectorAll('[data-part]')) {
      const old = main.querySelector('[data-part="' + fresh.dataset.part + '"]');
      // A box that somebody has ticked stays until it is sent or unticked.
      if (!old || old.querySelector('input:checked') || old.outerHTML === fresh.outerHTML) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement.id : '';
      old.replaceWith(fresh);
      if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    }
    const sentence = main.querySelector('h1');
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

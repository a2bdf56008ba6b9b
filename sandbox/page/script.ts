/**
 * The page's one script, served from a path that holds its hash; plain JavaScript, since nothing compiles it.
 * It sends the forms without leaving the page and puts newer parts in the place of older ones. Without it the
 * forms work all the same, and the page is reloaded by hand.
 */
export const SCRIPT = `
'use strict';
(() => {
  const main = document.querySelector('main[data-stream]');
  const light = document.querySelector('[data-live]');
  if (!main || !light) return;

  const show = (state, text) => {
    light.dataset.state = state;
    light.textContent = text;
  };

  // Somebody is writing in it: it is brought up to date once that is sent or closed.
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
    // The attribute, since form.action is the field of that name where there is one.
    if (form.getAttribute('method') !== 'post' || 'plain' in form.dataset) return;
    event.preventDefault();
    const body = new URLSearchParams(new FormData(form, event.submitter));
    try {
      // Not relative to the page's address, which may have the token in it: fetch takes none that has.
      const answer = await fetch(new URL(form.getAttribute('action'), location.origin), { method: 'POST', body });
      // What was refused stays as it was written.
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

import type { PropsWithChildren } from 'hono/jsx';
import { CSRF_FIELD } from '../access.ts';
import { age } from '../words.ts';

/** An instant in UTC: the time alone when it is of today, with the day otherwise. In full on hover. */
export function Instant({ at, now }: { at: string; now: number }) {
  const iso = new Date(at).toISOString();
  const sameDay = iso.slice(0, 10) === new Date(now).toISOString().slice(0, 10);
  const time = `${iso.slice(11, 16)} UTC`;
  return (
    <time datetime={iso} title={iso}>
      {sameDay ? time : `${iso.slice(0, 10)}, ${time}`}
    </time>
  );
}

/** "12 minutes ago", with the instant on hover. */
export function Ago({ at, now }: { at: string; now: number }) {
  const iso = new Date(at).toISOString();
  return (
    <time datetime={iso} title={iso}>
      {age(now - Date.parse(at))} ago
    </time>
  );
}

/** Part of the page that the script replaces as a whole. The names are unique. */
export function Tile({
  part,
  title,
  width = '',
  children,
}: PropsWithChildren<{ part: string; title: string; width?: 'third' | 'half' | 'two-thirds' | '' }>) {
  return (
    <section class={`tile ${width}`} data-part={part} aria-labelledby={`${part}-title`}>
      <h2 id={`${part}-title`}>{title}</h2>
      {children}
    </section>
  );
}

/** A change is always a form that posts, so that it works without scripts. `csrf` null: not signed in by a browser. */
export function ActionForm({
  action,
  csrf,
  className,
  children,
}: PropsWithChildren<{ action: string; csrf: string | null; className?: string }>) {
  return (
    <form method="post" action={action} {...(className === undefined ? {} : { class: className })}>
      <input type="hidden" name={CSRF_FIELD} value={csrf ?? ''} />
      {children}
    </form>
  );
}

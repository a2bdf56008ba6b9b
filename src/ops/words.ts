import type { Kind } from '../compliance/kinds.ts';

const KIND_NOUNS: Readonly<Record<Kind, readonly [one: string, many: string]>> = {
  policy: ['policy', 'policies'],
  risk_assessment: ['risk assessment', 'risk assessments'],
  vendor: ['vendor', 'vendors'],
};

export const kindNoun = (kind: Kind, howMany: number): string => KIND_NOUNS[kind][howMany === 1 ? 0 : 1];

export const kindPlural = (kind: Kind): string => KIND_NOUNS[kind][1];

let thousands: Intl.NumberFormat | null = null;

export function figure(value: number): string {
  // Made on first use: at each start of a command it would cost as much as loading a dozen modules.
  thousands ??= new Intl.NumberFormat('en-US');
  return thousands.format(value);
}

export function count(value: number, noun: string, nouns = `${noun}s`): string {
  return `${figure(value)} ${value === 1 ? noun : nouns}`;
}

/**
 * A length of time in one unit: "3 minutes". Nothing finer than a minute, so that a page that shows it does not change
 * every second.
 */
export function age(ms: number): string {
  const minutes = Math.floor(Math.max(0, ms) / 60_000);
  if (minutes < 1) return 'less than a minute';
  if (minutes < 120) return count(minutes, 'minute');
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return count(hours, 'hour');
  return count(Math.floor(hours / 24), 'day');
}

/** How long something takes, as short as it can be said: `340 ms`, `3.4 s`, `12 s`, `4 min`, `3 h 20 min`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 120_000) return `${Math.round(ms / 1000)} s`;
  const minutes = Math.round(ms / 60_000);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Bytes as people read them, in binary units. */
export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size >= 10 || unit === 0 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

/** A stable code such as `bad_signature` or `approval:17+start`, as words: a cell of a table breaks between these only. */
export function codeWords(code: string): string {
  return code.replaceAll('_', ' ').replaceAll(':', ': ').replaceAll('+', ', ');
}

export function sentenceCase(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

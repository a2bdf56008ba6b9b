const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d(?::?\d\d)?)$/;

const MINUTE_MS = 60_000;
const ZERO = 0x30;

/**
 * Milliseconds since 1970 of an ISO 8601 instant in its extended form, or null. A date, a time and a zone are
 * all required, and are checked against the calendar: Date.parse accepts 30 February, and local times.
 * Fractions of a second are cut to milliseconds. A leap second (`:60`) is taken at the end of a UTC day only,
 * and counts as the second after it, as POSIX time has none. `24:00` is refused.
 */
export function parseInstant(text: string): number | null {
  if (!INSTANT.test(text)) return null;
  // Everything up to the minutes stands at a fixed place; taking the matched groups cost three times as much.
  const year = twoDigits(text, 0) * 100 + twoDigits(text, 2);
  const month = twoDigits(text, 5);
  const day = twoDigits(text, 8);
  const hour = twoDigits(text, 11);
  const minute = twoDigits(text, 14);
  const hasSeconds = text[16] === ':';
  const second = hasSeconds ? twoDigits(text, 17) : 0;
  const offset = offsetMinutesOf(text);
  if (month < 1 || month > 12 || day < 1 || day > daysIn(year, month)) return null;
  if (hour > 23 || minute > 59 || second > 60 || offset === null) return null;

  // Not Date.UTC: it takes the years 0 to 99 for 1900 to 1999.
  const midnight = new Date(0).setUTCFullYear(year, month - 1, day);
  const minuteMs = midnight + (hour * 60 + minute - offset) * MINUTE_MS;
  const isLastMinuteOfDay = (((minuteMs / MINUTE_MS) % 1440) + 1440) % 1440 === 1439;
  if (second === 60 && !isLastMinuteOfDay) return null;
  return minuteMs + second * 1000 + (hasSeconds ? millisecondsOf(text) : 0);
}

function twoDigits(text: string, at: number): number {
  return (text.charCodeAt(at) - ZERO) * 10 + text.charCodeAt(at + 1) - ZERO;
}

/** Of the fraction behind the seconds, cut. */
function millisecondsOf(text: string): number {
  let ms = 0;
  let weight = text[19] === '.' || text[19] === ',' ? 100 : 0;
  for (let at = 20; weight >= 1 && isDigit(text.charCodeAt(at)); at++) {
    ms += (text.charCodeAt(at) - ZERO) * weight;
    weight /= 10;
  }
  return ms;
}

/** East of UTC is positive; null: no such zone. */
function offsetMinutesOf(text: string): number | null {
  if (text.endsWith('Z')) return 0;
  const at = Math.max(text.lastIndexOf('+'), text.lastIndexOf('-'));
  const hours = twoDigits(text, at + 1);
  const minutes = text.length > at + 3 ? twoDigits(text, text.length - 2) : 0;
  if (hours > 23 || minutes > 59) return null;
  return (hours * 60 + minutes) * (text[at] === '-' ? -1 : 1);
}

function isDigit(code: number): boolean {
  return code >= ZERO && code < ZERO + 10;
}

function daysIn(year: number, month: number): number {
  if (month !== 2) return [4, 6, 9, 11].includes(month) ? 30 : 31;
  return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28;
}

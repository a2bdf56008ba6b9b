const INSTANT =
  /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?:Z|([+-])(\d\d)(?::?(\d\d))?)$/;

const MINUTE_MS = 60_000;

/**
 * Milliseconds since 1970 of an ISO 8601 instant in its extended form, or null. A date, a time and a zone are
 * all required, and are checked against the calendar: Date.parse accepts 30 February, and local times.
 * Fractions of a second are cut to milliseconds. A leap second (`:60`) is taken at the end of a UTC day only,
 * and counts as the second after it, as POSIX time has none. `24:00` is refused.
 */
export function parseInstant(text: string): number | null {
  const match = INSTANT.exec(text);
  if (match === null) return null;
  const [, year, month, day, hour, minute, second = '0', fraction = '', sign, offsetHours, offsetMinutes] =
    match;
  const number = [year, month, day, hour, minute, second].map(Number) as SixNumbers;
  if (number[1] < 1 || number[1] > 12 || number[2] < 1 || number[2] > daysIn(number[0], number[1]))
    return null;
  if (number[3] > 23 || number[4] > 59 || number[5] > 60) return null;
  if (Number(offsetHours ?? 0) > 23 || Number(offsetMinutes ?? 0) > 59) return null;

  // Not Date.UTC: it takes the years 0 to 99 for 1900 to 1999.
  const midnight = new Date(0).setUTCFullYear(number[0], number[1] - 1, number[2]);
  const offset = (Number(offsetHours ?? 0) * 60 + Number(offsetMinutes ?? 0)) * (sign === '-' ? -1 : 1);
  const minuteMs = midnight + (number[3] * 60 + number[4] - offset) * MINUTE_MS;
  const isLastMinuteOfDay = (((minuteMs / MINUTE_MS) % 1440) + 1440) % 1440 === 1439;
  if (number[5] === 60 && !isLastMinuteOfDay) return null;
  return minuteMs + number[5] * 1000 + Number(fraction.slice(0, 3).padEnd(3, '0'));
}

type SixNumbers = [number, number, number, number, number, number];

function daysIn(year: number, month: number): number {
  if (month !== 2) return [4, 6, 9, 11].includes(month) ? 30 : 31;
  return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28;
}

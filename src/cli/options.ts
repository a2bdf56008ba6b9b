import { type Command, InvalidArgumentError, Option } from 'commander';

/** The library's own default, for a terminal that does not say how wide it is. Columns. */
const HELP_WIDTH = 80;

/** Paragraphs below a command's options, as wide as these. */
export function helpNote(...paragraphs: string[]) {
  return ({ command, error }: { command: Command; error: boolean }): string => {
    const { getOutHelpWidth, getErrHelpWidth } = command.configureOutput();
    const width = (error ? getErrHelpWidth : getOutHelpWidth)?.() ?? HELP_WIDTH;
    return `\n${command.createHelp().boxWrap(paragraphs.join('\n'), width)}`;
  };
}

export function jsonOption(): Option {
  return new Option('--json', 'print JSON');
}

const timeOption = (flag: string, text: string) =>
  new Option(`--${flag} <instant>`, text).argParser(parseTime);
export const sinceOption = () =>
  timeOption('since', 'from then on: an instant, a date, or a time ago such as 2h');
export const untilOption = () => timeOption('until', 'before this time');
export const atOption = () => timeOption('at', 'as of this time');

export function integerBetween(least: number, most: number): (text: string) => number {
  return (text) => {
    const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (number >= least && number <= most) return number;
    throw new InvalidArgumentError(`It takes a whole number from ${least} to ${most}.`);
  };
}

/** 0: any free port. */
export const parsePort = integerBetween(0, 65_535);

/** `text`, an instant with its zone or a date (its first moment in UTC), as ISO 8601 UTC; null: it is neither. */
function instantOf(text: string): string | null {
  const isDate = /^\d{4}-\d\d-\d\d$/.test(text);
  const isInstant = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/i.test(text);
  const ms = isDate || isInstant ? Date.parse(text) : Number.NaN;
  // Date.parse takes 30 February for 1 March.
  const isReal =
    !Number.isNaN(ms) &&
    new Date(`${text.slice(0, 10)}T00:00:00Z`).getUTCDate() === Number(text.slice(8, 10));
  return isReal ? new Date(ms).toISOString() : null;
}

/** An instant, a date, or a time ago such as 2h. */
function parseTime(text: string): string {
  if (/^[\d.]+[a-z]+$/.test(text)) return new Date(Date.now() - parseDuration(text)).toISOString();
  const instant = instantOf(text);
  if (instant !== null) return instant;
  throw new InvalidArgumentError(
    'It takes an instant such as 2026-11-01T12:00:00Z, a date, or a time ago such as 2h.',
  );
}

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `20s`, `1.5m`, `500ms`, `7d`; without a unit, seconds. Returns milliseconds. */
export function parseDuration(text: string): number {
  const match = /^(\d{1,6}(?:\.\d{1,3})?)(ms|s|m|h|d)?$/.exec(text);
  const milliseconds = match ? Number(match[1]) * (UNITS_MS[match[2] ?? 's'] ?? 0) : 0;
  if (milliseconds > 0) return milliseconds;
  throw new InvalidArgumentError('It takes a time such as 20s, 2m, 1h or 7d.');
}

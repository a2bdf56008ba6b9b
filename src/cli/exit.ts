import { CommanderError } from 'commander';
import { describeError, MirrorError, UsageError } from '../platform/errors.ts';
import { printable, printableLines } from './text.ts';

/** Fixed: scripts depend on them. */
export const EXIT = { done: 0, failed: 1, usage: 2, difference: 3 } as const;

/** The command did its work, and what it looked at is not as it should be. */
export class DifferenceFound extends MirrorError {
  constructor(message: string, remedy?: string) {
    super('difference', message, { remedy });
  }
}

export function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
  if (error instanceof UsageError) return EXIT.usage;
  if (isWrongKey(error)) return EXIT.usage;
  if (error instanceof DifferenceFound) return EXIT.difference;
  return EXIT.failed;
}

/** Whether the error, or its cause, is that CREDENTIALS_KEY does not open a stored secret. */
const isWrongKey = (error: unknown): boolean =>
  error instanceof MirrorError && (error.code === 'secret_unreadable' || isWrongKey(error.cause));

/** The text for a failed command: the error, with a line for each problem, then the remedy, and with debug logs the stack. */
export function explain(error: unknown, { debug = false } = {}): string {
  // Commander has written its own message already.
  if (error instanceof CommanderError) return '';
  // A list of wrong settings, or of differences, may be longer than one log line; it is not cut.
  const isList = error instanceof UsageError || error instanceof DifferenceFound;
  const message = printableLines(isList ? error.message : describeError(error));
  const remedy =
    error instanceof MirrorError && error.remedy !== undefined ? ` (${printable(error.remedy)})` : '';
  const stack = debug && error instanceof Error ? `\n${printableLines(error.stack ?? '')}` : '';
  return `compliance-mirror: ${message}${remedy}${stack}\n`;
}

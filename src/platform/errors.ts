/**
 * The service's own errors. Every one says what failed (`code`, stable), whether the same call may succeed
 * later (`retryable`), and what an operator can do about it (`remedy`). `message` never holds a secret.
 */
export class MirrorError extends Error {
  readonly code: string;
  readonly retryable: boolean;
  readonly remedy: string | undefined;

  constructor(
    code: string,
    message: string,
    options: { retryable?: boolean; remedy?: string; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
    this.code = code;
    this.retryable = options.retryable ?? false;
    this.remedy = options.remedy;
  }
}

/** A setting is missing or wrong, or a command was called wrongly. The process exits with code 2. */
export class UsageError extends MirrorError {
  constructor(message: string, remedy?: string) {
    super('usage', message, remedy === undefined ? {} : { remedy });
  }
}

/** The database lacks the schema of this version, and was opened to be read only: what writes to it makes or migrates it. */
export class NotMigrated extends UsageError {}

/**
 * The database cannot commit now (full, locked, unreachable). Nothing was acknowledged; callers answer 503.
 * `fatal` means that its answers can no longer be trusted (I/O error, corruption): the process must end,
 * because a retried fsync may report a success that never reached the disk.
 */
export class StoreUnavailable extends MirrorError {
  readonly fatal: boolean;

  constructor(message: string, options: { fatal?: boolean; cause?: unknown; remedy?: string } = {}) {
    super('store_unavailable', message, { ...options, retryable: !options.fatal });
    this.fatal = options.fatal ?? false;
  }
}

/** One line for a log or a column: the error's message, or its name where it has none; at most 500 characters. */
export function describeError(error: unknown): string {
  const text = error instanceof Error ? error.message || error.name : String(error);
  return text.length > 500 ? `${text.slice(0, 499)}…` : text;
}

/** At most this many ids are named in a text. */
const NAMED_IDS = 20;

export function listed(ids: readonly string[]): string {
  const named = ids.slice(0, NAMED_IDS).join(', ');
  return ids.length > NAMED_IDS ? `${named} and ${ids.length - NAMED_IDS} more` : named;
}

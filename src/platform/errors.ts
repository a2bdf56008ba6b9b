/**
 * The service's own errors. Each says what failed (`code`, stable), whether the same call may succeed later (`retryable`), and what
 * an operator can do (`remedy`). `message` never holds a secret.
 */
export class MirrorError extends Error {
  readonly code: string;
  readonly retryable: boolean;
  readonly remedy: string | undefined;

  constructor(
    code: string,
    message: string,
    options: { retryable?: boolean; remedy?: string | undefined; cause?: unknown } = {},
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
    super('usage', message, { remedy });
  }
}

/** The database has no schema, or an older one, and was opened only to be read. A command that writes would migrate it. */
export class NotMigrated extends UsageError {}

/**
 * The database cannot commit now (full, locked, unreachable). Nothing was acknowledged, and callers answer 503. `fatal`: its
 * answers cannot be trusted any more (I/O error, corruption). Then the process must end, because a retried fsync may report a
 * success that never reached the disk.
 */
export class StoreUnavailable extends MirrorError {
  readonly fatal: boolean;

  constructor(message: string, options: { fatal?: boolean; cause?: unknown; remedy?: string } = {}) {
    super('store_unavailable', message, { ...options, retryable: !options.fatal });
    this.fatal = options.fatal ?? false;
  }
}

/** The error's message, or its name if it has none. At most 500 characters. */
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

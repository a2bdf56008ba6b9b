import { MirrorError, NotMigrated, StoreUnavailable, UsageError } from '../../platform/errors.ts';
import type { GapChange } from '../store.ts';
import type { ThreadVerb } from './thread-turns.ts';

/** What passes between the event loop and the threads that hold the file. */

export type Asked =
  /** First of all, and once. */
  | { what: 'open'; path: string; isReader: boolean }
  | Call
  /** Once all that was called has been answered. */
  | { what: 'close' };

export interface Call {
  what: 'call';
  id: number;
  verb: ThreadVerb;
  args: readonly unknown[];
}

export type Answer =
  | { what: 'migrating' }
  | { what: 'backed up'; to: string }
  /** With the gaps that were opened as it was. */
  | { what: 'opened'; gaps: GapChange[] }
  | { what: 'not opened'; error: CrossingError }
  | Done;

/** What came of a call, and what it has done to gaps; absent: nothing. */
export type Done = { what: 'done'; id: number; gaps?: GapChange[] } & (
  | { value: unknown }
  | { error: CrossingError }
);

/**
 * What of a value can cross: callers may hand over more than a verb asks for, as an object with methods of its own. Data goes
 * as it is, and everything else is left out.
 */
export function dataOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(dataOf);
  if (typeof value !== 'object' || value === null) return typeof value === 'function' ? undefined : value;
  if (value instanceof Uint8Array || value instanceof Set || value instanceof Map) return value;
  const prototype = Object.getPrototypeOf(value) as unknown;
  if (prototype !== Object.prototype && prototype !== null) return undefined;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, dataOf(each)]));
}

/** An error as a message: a class would arrive as a plain Error, without what we added to it. */
export interface CrossingError {
  kind: 'StoreUnavailable' | 'NotMigrated' | 'UsageError' | 'MirrorError' | 'Error';
  name: string;
  message: string;
  stack: string | undefined;
  code: unknown;
  remedy: string | undefined;
  retryable: boolean;
  fatal: boolean;
  cause: CrossingError | null;
}

export function crossing(error: unknown): CrossingError {
  const { name, message, stack, cause } = error instanceof Error ? error : new Error(String(error));
  return {
    ...{ kind: kindOf(error), name, message, stack },
    code: (error as { code?: unknown } | null)?.code,
    remedy: error instanceof MirrorError ? error.remedy : undefined,
    retryable: error instanceof MirrorError && error.retryable,
    fatal: error instanceof StoreUnavailable && error.fatal,
    cause: cause === undefined ? null : crossing(cause),
  };
}

function kindOf(error: unknown): CrossingError['kind'] {
  if (error instanceof StoreUnavailable) return 'StoreUnavailable';
  if (error instanceof NotMigrated) return 'NotMigrated';
  if (error instanceof UsageError) return 'UsageError';
  return error instanceof MirrorError ? 'MirrorError' : 'Error';
}

/** The error as it was thrown on the other side: its class, its words, and what callers decide by. */
export function crossed(it: CrossingError): Error {
  const error = rebuilt(it);
  if (it.stack !== undefined) error.stack = it.stack;
  return error;
}

function rebuilt(it: CrossingError): Error {
  const { message, remedy, fatal, retryable } = it;
  const details = {
    ...(remedy === undefined ? {} : { remedy }),
    ...(it.cause === null ? {} : { cause: crossed(it.cause) }),
  };
  switch (it.kind) {
    case 'StoreUnavailable':
      return new StoreUnavailable(message, { ...details, fatal });
    case 'NotMigrated':
      return new NotMigrated(message, remedy);
    case 'UsageError':
      return new UsageError(message, remedy);
    case 'MirrorError':
      return new MirrorError(String(it.code), message, { ...details, retryable });
    case 'Error':
      return Object.assign(new Error(message, details), {
        name: it.name,
        ...(it.code === undefined ? {} : { code: it.code }),
      });
  }
}

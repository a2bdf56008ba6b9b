import pino from 'pino';
import { describeError } from './errors.ts';

export type Logger = pino.Logger;

export interface LoggerOptions {
  level: string;
  /** Default: pino's own. */
  destination?: pino.DestinationStream;
  /** Texts that must never appear in a line. Called at most once a second. */
  secrets?: () => readonly string[];
}

/**
 * The fields that may be logged. An allow-list, because a list of fields to hide would miss every field that is added later, and
 * pino's own redaction misses deeper levels and the properties of errors.
 */
const ALLOWED_FIELDS: ReadonlySet<string> = new Set(
  [
    'stage kind record_id event_id type seq outcome reason cause cause_id error err stack attempts count bytes',
    'duration_ms delay_ms version url host path setting target',
    'sync_run_id pages seen inserted updated deleted unchanged',
    'differences new deleted_upstream different repaired',
  ].flatMap((line) => line.split(' ')),
);

/** A longer value is cut, because a payload does not belong in a log line. */
const MAX_VALUE_CHARACTERS = 1000;
/** A shorter secret is not redacted, because it would be found in half of all lines. */
const MIN_SCRUBBED_CHARACTERS = 8;
/** How long a list of secrets is used before it is asked for again. */
const SECRETS_FRESH_MS = 1000;
const BEARER = /\b(bearer\s+)[A-Za-z0-9._~+/=-]+/gi;
const REDACTED = '[redacted]';

/** JSON lines with ISO 8601 instants. Only allowed fields get in, and the finished line is searched for secrets. */
export function createLogger(options: LoggerOptions): Logger {
  const withStacks = options.level === 'debug' || options.level === 'trace';
  const filter = (fields: Record<string, unknown>) => allowed(fields, withStacks);
  const scrub = createScrubber(options.secrets ?? (() => []));
  const logger: Logger = pino(
    {
      level: options.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }), log: filter },
      hooks: { streamWrite: scrub },
    },
    options.destination,
  );
  // pino does not pass its formatter for bindings on to children.
  const { child } = logger;
  const filteredChild = function (this: unknown, bindings: pino.Bindings, ...rest: unknown[]): unknown {
    return Reflect.apply(child, this, [filter(bindings), ...rest]);
  };
  logger.child = filteredChild as unknown as Logger['child'];
  return logger;
}

/** The logger of one stage. */
export function stage(logger: Logger, name: string): Logger {
  return logger.child({ stage: name });
}

function allowed(fields: Record<string, unknown>, withStacks: boolean): Record<string, unknown> {
  const kept: Record<string, unknown> = {};
  for (const name in fields) {
    const value = fields[name];
    if (!ALLOWED_FIELDS.has(name) || value === undefined) continue;
    if (value instanceof Error) {
      kept['error'] = describeError(value);
      if (withStacks && value.stack !== undefined) kept['stack'] = value.stack;
    } else if (typeof value === 'string') {
      kept[name] = value.length > MAX_VALUE_CHARACTERS ? `${value.slice(0, MAX_VALUE_CHARACTERS)}…` : value;
      // An object's own fields would not be on the list.
    } else if (typeof value !== 'object' || value === null) kept[name] = value;
  }
  return kept;
}

/** Redacts secrets in the finished line, so that one search covers messages, errors and values. */
function createScrubber(secrets: () => readonly string[]): (line: string) => string {
  let needles: string[] = [];
  let readAt = Number.NEGATIVE_INFINITY;
  return (line) => {
    const now = performance.now();
    if (now - readAt >= SECRETS_FRESH_MS) {
      readAt = now;
      needles = needlesOf(secrets());
    }
    let clean = line;
    for (const needle of needles) {
      if (clean.includes(needle)) clean = clean.replaceAll(needle, REDACTED);
    }
    return clean.replace(BEARER, `$1${REDACTED}`);
  };
}

/** Each secret as it is written in a JSON string and in a URL. The longest come first, because one may contain another. */
function needlesOf(secrets: readonly string[]): string[] {
  const spellings = secrets.flatMap((secret) => [
    JSON.stringify(secret).slice(1, -1),
    encodeURIComponent(secret.toWellFormed()),
  ]);
  return [...new Set(spellings)]
    .filter((spelling) => spelling.length >= MIN_SCRUBBED_CHARACTERS)
    .sort((a, b) => b.length - a.length);
}

// ─── standard output ────────────────────────────────────────────────────────────────────────────────────

/** Lines that may wait for a reader of standard output: about ten thousand. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024;
/** How long a stop waits for a reader of the last lines. Together with the service's own time it stays within 10 s. */
const LAST_LINES_MS = 1_000;

/** Standard output as a log, which never waits for its reader: lines without room are lost and counted. Call it once. */
export function standardOutput() {
  // Node opens a pipe so that no write waits in the system: nothing, not even `process.exit`, would end a thread that does.
  let isOver = false;
  let lost = 0;
  const options = { fd: 1, sync: false, maxLength: MAX_WAITING_BYTES, retryEAGAIN: () => !isOver };
  // Its own last flush would try for ever where nobody reads. So it must be over when that comes.
  process.once('exit', () => output.destroy());
  const output = pino.destination(options);
  output.on('drop', () => {
    lost += 1;
  });
  // A full disk may have room again: the rest waits for the next line. Without a reader pino writes no more.
  output.on('error', (error: NodeJS.ErrnoException) => {
    isOver ||= error.code === 'EPIPE';
  });
  return {
    destination: {
      write(line: string): void {
        if (!isOver) output.write(line);
      },
    },
    /** Lines lost since the start. */
    lost: () => lost,
    /** Resolves once the last lines are written, or nobody has read them for a second. Lines after that are left out. */
    async finish(): Promise<void> {
      if (isOver) return;
      const { promise: written, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, LAST_LINES_MS);
      output.once('close', resolve);
      output.once('error', () => resolve());
      output.end();
      await written;
      clearTimeout(timer);
      isOver = true;
      output.destroy();
    },
  };
}

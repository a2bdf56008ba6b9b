import { fstatSync, write, writeSync } from 'node:fs';
import type { Logger } from './logger.ts';

/** Lines that may wait for a reader of standard output: about ten thousand. */
export const MAX_WAITING_BYTES = 4 * 1024 * 1024;
/** Handed over in one piece: the size of a pipe's buffer. */
const PIECE_BYTES = 64 * 1024;
/** The wait before another try to write to a terminal that another process has made non-blocking. */
const BUSY_MS = 100;
/** How long a stop waits for a reader of the last lines. Together with the service's own time it stays within 10 s. */
export const LAST_LINES_MS = 1_000;

/** Where finished log lines go. */
export interface LogOutput {
  /** Never waits, never throws. A line without room is lost and counted. */
  write(line: string): void;
  /** Lines lost since the start. */
  lost(): number;
  /** From now on this logger says how many lines were lost, each time that lines are read again. */
  reportLost(logger: Logger): void;
  /** Resolves once nothing waits any more, or after `ms` milliseconds. */
  flush(ms: number): Promise<void>;
}

/** Hands a piece to the system. Calls `done` once, asynchronously, when the system has taken it or has failed. */
export type LogSink = (piece: Buffer, done: (error?: Error | null) => void) => void;

/** Writes lines to `sink`, one piece at a time, with bounded memory. */
export function createLogOutput(sink: LogSink): LogOutput & { takeWaiting(): string } {
  let waiting: { line: string; bytes: number }[] = [];
  let bytes = 0;
  let isWriting = false;
  let isScheduled = false;
  let lost = 0;
  let reported = 0;
  let reporter: Logger | null = null;
  const idle: (() => void)[] = [];

  function schedule(): void {
    if (isScheduled || isWriting) return;
    isScheduled = true;
    // The lines of one turn of the event loop are written together, because each system call costs time.
    setImmediate(() => {
      isScheduled = false;
      next();
    });
  }

  function next(): void {
    if (isWriting) return;
    if (waiting.length === 0) {
      for (const resolve of idle.splice(0)) resolve();
      return;
    }
    let count = 0;
    let size = 0;
    while (count < waiting.length && (count === 0 || size + waiting[count]!.bytes <= PIECE_BYTES)) {
      size += waiting[count]!.bytes;
      count += 1;
    }
    const lines = waiting.splice(0, count);
    isWriting = true;
    sink(Buffer.from(lines.map(({ line }) => line).join('')), (error) => {
      isWriting = false;
      bytes -= size;
      // Later pieces are tried all the same: a full disk may have room again.
      if (error) lost += count;
      else if (lost > reported) {
        const since = lost - reported;
        reported = lost;
        reporter?.warn({ outcome: 'lost', count: since }, 'log lines lost: standard output took no more');
      }
      next();
    });
  }

  return {
    write(line) {
      const size = Buffer.byteLength(line);
      if (bytes + size > MAX_WAITING_BYTES) {
        lost += 1;
        return;
      }
      waiting.push({ line, bytes: size });
      bytes += size;
      schedule();
    },
    lost: () => lost,
    reportLost(logger) {
      reporter = logger;
    },
    flush(ms) {
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, ms);
        idle.push(() => {
          clearTimeout(timer);
          resolve();
        });
        schedule();
      });
    },
    /** The lines that still wait at the end of the process, when nothing asynchronous runs any more. */
    takeWaiting() {
      const text = waiting.map(({ line }) => line).join('');
      waiting = [];
      return text;
    },
  };
}

/**
 * Standard output as a log. To a file, Node's threads write. The reader of a pipe or a socket may stop for ever, and nothing, not
 * even `process.exit`, ends a thread that waits for it in a system call. So there Node's own stream writes, which waits without
 * a thread. Call it once.
 */
export function standardOutput(): LogOutput {
  const fd = 1;
  const { isPipe, sink } = sinkOf(fd);
  const output = createLogOutput(sink);
  process.once('exit', () => {
    const text = output.takeWaiting();
    if (text === '') return;
    try {
      // A pipe takes as much as fits, and this does not wait for the rest.
      if (isPipe) process.stdout.write(text);
      else writeSync(fd, text);
    } catch {
      // No reader is left.
    }
  });
  return output;
}

function sinkOf(fd: number): { isPipe: boolean; sink: LogSink } {
  const stat = fstatSync(fd);
  if (stat.isFIFO() || stat.isSocket()) {
    // The error also reaches `done`. Without a listener it would end the process.
    process.stdout.on('error', () => undefined);
    return { isPipe: true, sink: (piece, done) => void process.stdout.write(piece, done) };
  }
  const sink: LogSink = (piece, done) =>
    write(fd, piece, (error, written) => {
      if (error?.code === 'EAGAIN') setTimeout(sink, BUSY_MS, piece, done);
      else if (error !== null || written === piece.length) done(error);
      else sink(piece.subarray(written), done);
    });
  return { isPipe: false, sink };
}

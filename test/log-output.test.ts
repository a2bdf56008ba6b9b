import { expect, it, vi } from 'vitest';
import { createLogOutput, type LogSink, MAX_WAITING_BYTES } from '../src/platform/log-output.ts';
import { createLogger } from '../src/platform/logger.ts';

/** A reader that takes a piece when it is told to. */
function stuckReader() {
  const pieces: string[] = [];
  let take: (error?: Error) => void = () => undefined;
  const sink: LogSink = (piece, done) => {
    take = (error) => {
      if (error === undefined) pieces.push(piece.toString());
      done(error);
    };
  };
  const output = createLogOutput(sink);
  return { output, pieces, take: (error?: Error) => take(error), text: () => pieces.join('') };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

it('lines that nobody reads are kept up to a bound, and then lost and counted', async () => {
  const { output, pieces } = stuckReader();
  const line = `${'x'.repeat(999)}\n`;
  for (let n = 0; n < 10_000; n += 1) {
    output.write(line);
    if (n % 1000 === 0) await turn();
  }
  expect(pieces).toEqual([]);
  expect(output.lost()).toBe(10_000 - Math.floor(MAX_WAITING_BYTES / 1000));
  expect(output.takeWaiting().length).toBeLessThanOrEqual(MAX_WAITING_BYTES);
});

it('what was kept comes out in order once it is read, and a line says how many were lost', async () => {
  const { output, take, text } = stuckReader();
  const logger = createLogger({ level: 'info', destination: output });
  output.reportLost(logger);
  for (let n = 0; n < 70_000; n += 1) logger.info({ seq: n }, 'delivery');
  await turn();
  const lost = output.lost();
  expect(lost).toBeGreaterThan(1000);
  const flushed = output.flush(60_000);
  let isFlushed = false;
  void flushed.then(() => {
    isFlushed = true;
  });
  while (!isFlushed) {
    take();
    await turn();
  }
  const lines = text()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { seq?: number; count?: number; msg: string });
  const told = lines.filter(({ msg }) => msg.startsWith('log lines lost'));
  expect(told.map(({ count }) => count)).toEqual([lost]);
  const seqs = lines.flatMap(({ seq }) => seq ?? []);
  expect(seqs).toEqual(Array.from({ length: 70_000 - lost }, (_, n) => n));
});

it('a piece that could not be written is lost and counted, and the next is tried', async () => {
  const { output, take, text } = stuckReader();
  output.write('one\n');
  await turn();
  take(new Error('ENOSPC'));
  expect(output.lost()).toBe(1);
  output.write('two\n');
  await turn();
  take();
  expect(text()).toBe('two\n');
});

it('a flush waits for a reader no longer than it is told to', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    const { output } = stuckReader();
    output.write('one\n');
    const flushed = output.flush(1_000);
    await vi.advanceTimersByTimeAsync(1_000);
    await flushed;
    expect(output.takeWaiting()).toBe('');
  } finally {
    vi.useRealTimers();
  }
});

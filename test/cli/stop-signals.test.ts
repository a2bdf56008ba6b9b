import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { stopSignals } from '../../src/cli/stop-signals.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
  vi.spyOn(process, 'exit').mockImplementation((() => undefined) as never);
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

it.each(['SIGINT', 'SIGTERM'] as const)('%s that npm passes on as well is one wish to stop', (name) => {
  const stop = stopSignals({ attached: false });
  process.emit(name);
  vi.advanceTimersByTime(999);
  process.emit(name);
  stop.release();
  expect(stop.signal.aborted).toBe(true);
  expect(process.exit).not.toHaveBeenCalled();
});

it('a second wish ends the process at once', () => {
  const stop = stopSignals({ attached: false });
  process.emit('SIGTERM');
  vi.advanceTimersByTime(1_000);
  process.emit('SIGINT');
  stop.release();
  expect(process.exit).toHaveBeenCalledWith(130);
});

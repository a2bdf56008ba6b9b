import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { stopSignals } from '../../src/cli/stop-signals.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
/** Of what other files of this worker have loaded: they would take these signals for real ones. */
let others: NodeJS.SignalsListener[][] = [];

beforeEach(() => {
  others = SIGNALS.map((name) => process.listeners(name) as NodeJS.SignalsListener[]);
  for (const name of SIGNALS) process.removeAllListeners(name);
  vi.useFakeTimers({ toFake: ['performance'] });
  vi.spyOn(process, 'exit').mockImplementation((() => undefined) as never);
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  for (const [nth, name] of SIGNALS.entries()) for (const other of others[nth]!) process.on(name, other);
});

it.each(SIGNALS)('%s that npm passes on as well is one wish to stop', (name) => {
  const stop = stopSignals();
  process.emit(name);
  vi.advanceTimersByTime(999);
  process.emit(name);
  stop[Symbol.dispose]();
  expect(stop.signal.aborted).toBe(true);
  expect(process.exit).not.toHaveBeenCalled();
});

it('a second wish ends the process at once', () => {
  const stop = stopSignals();
  process.emit('SIGTERM');
  vi.advanceTimersByTime(1_000);
  process.emit('SIGINT');
  stop[Symbol.dispose]();
  expect(process.exit).toHaveBeenCalledWith(130);
});

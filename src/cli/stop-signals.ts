/** npm repeats a signal that the terminal has already sent to the whole group. Two within this time count as one. Milliseconds. */
const SAME_WISH_MS = 1_000;

/** SIGHUP comes when the terminal is closed, also under `nohup`, whose protection Node removes. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * An AbortSignal that aborts when this process is asked to end: by one of these signals, or, if `attached`, the end of
 * standard input, which comes however the process that started this one ends; or, if `read`, when nobody reads its output any more.
 * Another one of them, a second or more after the first, ends the process at once. Disposing stops listening.
 */
export function stopSignals({ attached = false, read = false } = {}): Disposable & { signal: AbortSignal } {
  const controller = new AbortController();
  let askedAt: number | null = null;
  const stop = () => {
    askedAt ??= performance.now();
    if (performance.now() - askedAt >= SAME_WISH_MS) process.exit(130);
    controller.abort();
  };
  const end = () => controller.abort();
  for (const name of SIGNALS) process.on(name, stop);
  if (attached) {
    process.stdin.on('end', end);
    process.stdin.on('error', end);
    process.stdin.resume();
  }
  if (read) process.stdout.on('error', end);
  return {
    signal: controller.signal,
    [Symbol.dispose]() {
      process.stdout.off('error', end);
      for (const name of SIGNALS) process.off(name, stop);
      process.stdin.off('end', end);
      process.stdin.off('error', end);
      if (attached) process.stdin.pause();
    },
  };
}

export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/**
 * An AbortSignal that aborts when this process is asked to end: SIGINT, SIGTERM, or, if `attached`, the end of
 * standard input, by which a process that started this one takes it along however it ends itself.
 * A second SIGINT or SIGTERM ends the process at once. `release` stops listening.
 */
export function stopSignals(options: { attached: boolean }): { signal: AbortSignal; release(): void } {
  const controller = new AbortController();
  let asked = false;
  const stop = () => {
    if (asked) process.exit(130);
    asked = true;
    controller.abort();
  };
  const end = () => controller.abort();
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  if (options.attached) {
    process.stdin.on('end', end);
    process.stdin.on('error', end);
    process.stdin.resume();
  }
  return {
    signal: controller.signal,
    release() {
      process.off('SIGINT', stop);
      process.off('SIGTERM', stop);
      process.stdin.off('end', end);
      process.stdin.off('error', end);
      if (options.attached) process.stdin.pause();
    },
  };
}

export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

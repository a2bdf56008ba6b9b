import type { Cli } from '../cli.ts';
import type { Stage } from './stage.ts';

export function introduce(cli: Cli, stage: Stage): void {
  cli.out.write(
    [
      `Sandbox, standing in for the compliance service: ${stage.sandboxUrl}/v1`,
      ...stage.registered.trimEnd().split('\n'),
      `Status page, sign in: ${stage.signInLink}`,
      '',
    ].join('\n'),
  );
}

/** Resolves early when `signal` aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
  });
}

import type { Cli } from '../cli.ts';
import type { Stage } from './stage.ts';

export function introduce(cli: Cli, stage: Stage): void {
  cli.out.write(
    [
      `Sandbox, standing in for the compliance service: ${stage.sandboxUrl}/v1`,
      `Its answers and events have the form that ${stage.shapesNumber} draws; the same again: npm run demo -- --shapes ${stage.shapesNumber}`,
      `setup has found out ${stage.found.length === 0 ? 'that the defaults fit' : `what differs from the defaults: ${stage.found.join(', ')}`}`,
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

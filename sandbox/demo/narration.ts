import type { Stage } from './stage.ts';

/** Where the demo says what it does. Whoever gives it makes it fit for a terminal: what records hold is anyone's text. */
export interface Screen {
  /** One line each. */
  write(...lines: string[]): void;
  table(heads: readonly string[], rows: readonly (readonly Cell[])[]): void;
}

export type Cell = string | number | null;

export function introduce(screen: Screen, stage: Stage): void {
  screen.write(
    `Sandbox, standing in for the compliance service: ${stage.sandboxUrl}/v1`,
    `Its answers and events have the form that ${stage.shapesNumber} draws; the same again: npm run demo -- --shapes ${stage.shapesNumber}`,
    `setup has found out ${stage.found.length === 0 ? 'that the defaults fit' : `what differs from the defaults: ${stage.found.join(', ')}`}`,
    `Status page, sign in: ${stage.signInLink}`,
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

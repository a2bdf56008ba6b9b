import { setTimeout as sleep } from 'node:timers/promises';
import type { Stage } from './stage.ts';

/** Where the demo says what it does. Whoever gives it makes it fit for a terminal: what records hold is anyone's text. */
export interface Screen {
  /** One line each. */
  write(...lines: string[]): void;
  table(heads: readonly string[], rows: readonly (readonly Cell[])[]): void;
}

export type Cell = string | number | null;

export function introduce(screen: Screen, stage: Stage): void {
  const { sandboxUrl, shapesNumber, found } = stage;
  screen.write(
    `Sandbox, in the place of the compliance service: ${sandboxUrl}/`,
    `Status page of the mirror, sign in: ${stage.signInLink}`,
    `One more event: npm run cli -- trigger policy.updated --sandbox ${sandboxUrl} (or: compliance-mirror trigger …)`,
    `The sandbox answers in a form that it draws anew at each start; the same once more: --shapes ${shapesNumber}`,
    `setup has found out ${found.length === 0 ? 'that the defaults fit' : `what differs from the defaults: ${found.join(', ')}`}`,
  );
}

/** Resolves early when `signal` aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}

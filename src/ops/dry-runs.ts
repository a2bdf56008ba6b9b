import type { Kind } from '../compliance/kinds.ts';
import { describeError } from '../platform/errors.ts';
import type { Compared, Operations } from './api/changes.ts';
import type { OpsContext } from './context.ts';

/** A dry run started on the page. Instants are wall-clock milliseconds. */
export type DryRun =
  | { state: 'running'; kinds: readonly Kind[] }
  | { state: 'done'; endedAt: number; compared: readonly Compared[] }
  | { state: 'failed'; endedAt: number; error: string };

export type DryRuns = ReturnType<typeof createDryRuns>;

/** A dry run may take longer than a browser waits, because of the request budget. So it runs by itself, and the page shows its result. */
export function createDryRuns(operations: Operations, { clock, signal, logger }: OpsContext) {
  let last: DryRun | null = null;

  async function compare(kinds: readonly Kind[]): Promise<DryRun> {
    try {
      const compared = await operations.dryRun(kinds, signal);
      return { state: 'done', endedAt: clock.wall(), compared };
    } catch (error) {
      logger.warn({ outcome: 'failed', error }, 'dry run');
      return { state: 'failed', endedAt: clock.wall(), error: describeError(error) };
    }
  }

  return {
    /** The last one; null: none was started. */
    current: () => last,
    /** Does nothing while one is running. */
    start(kinds: readonly Kind[]): void {
      if (last?.state === 'running') return;
      last = { state: 'running', kinds };
      // `compare` never rejects.
      void compare(kinds).then((outcome) => {
        last = outcome;
      });
    },
  };
}

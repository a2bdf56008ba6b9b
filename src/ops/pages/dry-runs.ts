import { KINDS, type Kind } from '../../compliance/kinds.ts';
import { describeError } from '../../platform/errors.ts';
import type { OpsContext } from '../context.ts';
import type { Compared, Operations } from '../operations.ts';

/** The last comparison that somebody asked for on a page. Instants are wall-clock milliseconds. */
export type DryRun =
  | { state: 'none' }
  | { state: 'running'; kinds: readonly Kind[]; startedAt: number }
  | { state: 'done'; endedAt: number; compared: readonly Compared[] }
  | { state: 'failed'; endedAt: number; error: string };

export interface DryRuns {
  current(): DryRun;
  /** Begins one, unless one is running. It ends with the service, or when it is done. */
  start(kinds: readonly Kind[]): void;
}

/** A comparison takes as long as the budget makes it, which no browser waits for: it is kept, and the page shows it. */
export function createDryRuns(
  operations: Pick<Operations, 'dryRun'>,
  { clock, signal, logger }: Pick<OpsContext, 'clock' | 'signal' | 'logger'>,
): DryRuns {
  let last: DryRun = { state: 'none' };

  async function compare(kinds: readonly Kind[]): Promise<DryRun> {
    try {
      const done = await operations.dryRun([...kinds], signal);
      const endedAt = clock.wall();
      if (done.status === 'done') return { state: 'done', endedAt, compared: done.value };
      const error = done.status === 'conflict' ? done.detail : 'There is nothing to compare.';
      return { state: 'failed', endedAt, error };
    } catch (error) {
      logger.warn({ outcome: 'failed', error: describeError(error) }, 'dry run');
      return { state: 'failed', endedAt: clock.wall(), error: describeError(error) };
    }
  }

  return {
    current: () => last,
    start(asked) {
      if (last.state === 'running') return;
      const kinds = asked.length === 0 ? KINDS : asked;
      last = { state: 'running', kinds, startedAt: clock.wall() };
      // It never rejects: a failure is an outcome, which the page shows.
      void compare(kinds).then((outcome) => {
        last = outcome;
      });
    },
  };
}

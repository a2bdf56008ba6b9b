import type { Clock } from '../platform/clock.ts';
import { type Logger, stage } from '../platform/logger.ts';
import type { FieldLook, FieldStore } from '../store/store.ts';

/** A new field is in the views about so long after it was mirrored. */
const LOOK_EVERY_MS = 1_000;
/** Some milliseconds of whatever reads: fewer at a time cost more in all. */
const LOOK_ROWS = 500;
/** A look that found nothing new is kept this seldom: so much is looked at again after a start. */
const KEEP_AFTER = 10_000;

/**
 * Gives the views `…_flat` a column for each field that records show, until `signal` aborts. It looks at what was written since
 * it looked last, so that no delivery pays for it. What a long look saw is learned at its end: a column's type is then that of all.
 */
export async function keepFields(
  options: { store: FieldStore; clock: Clock; logger: Logger; onError: (error: unknown) => void },
  signal: AbortSignal,
): Promise<void> {
  const { store, clock, onError } = options;
  const log = stage(options.logger, 'fields');
  let look: FieldLook | null = null;
  let kept = 0;

  async function lookOn(): Promise<void> {
    do look = await store.seeFields(look, LOOK_ROWS);
    while (!look.isOver && !signal.aborted);
    if (look.seen.length === 0 && look.through - kept < KEEP_AFTER) return;
    const learned = Map.groupBy(await store.learnFields(look), ({ kind }) => kind);
    look = { ...look, seen: [] };
    kept = look.through;
    for (const [kind, fields] of learned) {
      log.info({ outcome: 'learned', kind, count: fields.length }, 'fields');
      if (fields.some(({ column }) => column === null)) {
        log.warn({ outcome: 'full', kind }, 'no more columns are made: the rest is in data');
      }
    }
  }

  while (!signal.aborted) {
    await lookOn().catch(onError);
    await clock.sleep(LOOK_EVERY_MS, signal);
  }
}

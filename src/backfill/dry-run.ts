import type { Kind } from '../compliance/kinds.ts';
import { type IdPointers, isAddressable, recordIdIn } from '../compliance/pointers.ts';
import type { BackfillStore } from '../store/store.ts';
import { createDrift, type DriftReport } from './drift.ts';
import type { Lane, Upstream } from './upstream.ts';

/** Ids of assessments taken from the database at a time. */
const BATCH = 100;

/** No service lists more: a paging parameter that it ignores would otherwise be walked for ever. */
const PAGES_MAX = 200_000;

export interface DryRunOptions {
  store: Pick<BackfillStore, 'compareReads' | 'liveIds'>;
  upstream: Upstream;
  pointers: IdPointers;
  firstPage: number;
  signal: AbortSignal;
}

/**
 * Compares a whole kind with the upstream and writes nothing at all, not even that it looked. A record that the
 * single reading misses counts as extra, although a sweep would look again before it believed that.
 */
export function createDryRun(
  options: DryRunOptions,
): (kind: Kind, lane: Lane, stop?: AbortSignal) => Promise<DriftReport> {
  const { store, upstream, signal } = options;

  return async (kind, lane, stop) => {
    const goOn = () => {
      signal.throwIfAborted();
      stop?.throwIfAborted();
    };
    const drift = createDrift();
    const seen = new Set<string>();

    async function compare(objects: { id: string; data: Record<string, unknown> }[]): Promise<void> {
      for (const { id, what, fields } of await store.compareReads(kind, objects)) {
        if (what !== 'same' && !seen.has(id)) drift.found({ id, what, fields: [...fields], repaired: false });
        seen.add(id);
      }
    }

    async function readList(listed: 'policy' | 'vendor'): Promise<void> {
      let before = '';
      for (let page = 0; page < PAGES_MAX; page += 1) {
        goOn();
        const { answer } = await upstream.page(listed, options.firstPage + page, lane);
        const objects = answer.objects.flatMap((data) => {
          const id = recordIdIn(data, listed, options.pointers);
          return id === null ? [] : [{ id, data }];
        });
        const ids = JSON.stringify(objects.map((object) => object.id));
        if (objects.length === 0 || ids === before) return;
        before = ids;
        await compare(objects);
      }
    }

    if (kind !== 'risk_assessment') await readList(kind);
    for (let after = ''; ; ) {
      const ids = await store.liveIds(kind, after, BATCH);
      if (ids.length === 0) break;
      after = ids.at(-1) ?? after;
      for (const id of ids) {
        goOn();
        if (kind === 'risk_assessment' && isAddressable(id)) {
          const { answer } = await upstream.record(kind, id, lane);
          if (answer.outcome === 'found') await compare([{ id, data: answer.object }]);
        }
        if (!seen.has(id)) drift.found({ id, what: 'extra', fields: [], repaired: false });
      }
    }
    return drift.report();
  };
}

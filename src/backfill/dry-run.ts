import type { ComplianceClient } from '../compliance/client.ts';
import { UpstreamError } from '../compliance/errors.ts';
import type { FetchedKind, Kind, ListedKind } from '../compliance/kinds.ts';
import { isAddressable } from '../compliance/pointers.ts';
import { MirrorError } from '../platform/errors.ts';
import type { BackfillStore, ReadObject } from '../store/store.ts';
import { type Context, READ_TRIES, retried } from './context.ts';
import { createDifferences, type DifferencesReport } from './differences.ts';
import { contradiction, createPages } from './pages.ts';
import { createUpstream } from './upstream.ts';

/** Ids taken from the database at a time. */
const BATCH = 100;

/** A dry run must leave no trace in the database. The next full sync opens the gaps. */
const SILENT = { openGap: async () => undefined, resolveGap: async () => false, audit: async () => 0 };

/** What a comparison found. */
export interface DryRunReport extends DifferencesReport {
  /** Why the list may not be whole: then no record that it does not show counts as extra. Null: it is whole. */
  incomplete: string | null;
}

/**
 * Compares a whole kind with the upstream and writes nothing, not even that it looked or failed. It reads once: a record that
 * this reading misses counts as extra, where a full sync would read again. Rejects with UpstreamError when the API cannot be
 * read, and with the signal's reason.
 */
export function createDryRun(
  options: Pick<Context, 'clock' | 'pointers' | 'paging' | 'random'> & {
    store: Pick<BackfillStore, 'compareReads' | 'knownIds' | 'currentNumber' | 'touchedSince'>;
    client: ComplianceClient;
    /** Ids of assessments to look for besides those known. */
    riskIds: () => Promise<readonly string[]>;
  },
) {
  const { store } = options;

  return async (kind: Kind, signal: AbortSignal): Promise<DryRunReport> => {
    const lane = 'person';
    // Of its own: the upstream that repairs use saves what it learns about outages and credentials.
    const silent = { ...SILENT, currentNumber: store.currentNumber };
    const upstream = createUpstream({ ...options, store: silent, signal });
    const pages = createPages({ ...options, upstream, signal });
    const differences = createDifferences();
    const from = await store.currentNumber();
    const seen = new Set<string>();
    const asked = new Set<string>();
    /** Records of which the list leaves out fields: each is compared by its own address. */
    const lacking = new Set<string>();
    let incomplete: string | null = null;

    async function compare(objects: readonly ReadObject[], isOfList: boolean): Promise<void> {
      for (const { id, what, fields, lacks } of await store.compareReads(kind, objects, { isOfList })) {
        if (lacks) lacking.add(id);
        else if (what !== 'same' && (!seen.has(id) || lacking.has(id)))
          differences.found({ id, what, fields: [...fields], repaired: false });
        seen.add(id);
      }
    }

    async function readList(listed: ListedKind): Promise<void> {
      let total: number | null = null;
      try {
        for await (const { objects, meta } of pages({ kind: listed, lane, skip: 0 })) {
          total = meta.total ?? total;
          await compare(objects, true);
        }
      } catch (error) {
        if (signal.aborted || error instanceof UpstreamError || !(error instanceof MirrorError)) throw error;
        if (error.code === 'store_unavailable') throw error;
        incomplete = error.message;
        return;
      }
      incomplete = contradiction(total, seen.size);
    }

    async function readRecord(fetched: FetchedKind, id: string): Promise<void> {
      if (asked.has(id) || !isAddressable(id)) return;
      asked.add(id);
      const ask = () => upstream.record(fetched, id, lane);
      const { answer } = await retried(ask, { ...options, signal }, READ_TRIES);
      if (answer.outcome === 'found') await compare([{ id, data: answer.object }], false);
    }

    if (kind === 'risk_assessment') {
      for (const id of await options.riskIds()) await readRecord(kind, id);
    } else await readList(kind);
    if (kind === 'vendor') for (const id of lacking) await readRecord(kind, id);
    const absent: string[] = [];
    // Tombstones and ids without a row too: if the API shows their records, those are missing here.
    for (let after = ''; ; ) {
      const known = await store.knownIds(kind, after, BATCH);
      if (known.length === 0) break;
      after = known.at(-1)!.id;
      for (const { id, alive } of known) {
        signal.throwIfAborted();
        if (kind === 'risk_assessment') await readRecord(kind, id);
        if (alive && !seen.has(id) && incomplete === null) absent.push(id);
      }
    }
    // A record that an event named meanwhile may have been made after its page was read, or deleted before it was asked for.
    const touched = await store.touchedSince(kind, from);
    for (const id of absent) {
      if (!touched.has(id)) differences.found({ id, what: 'extra', fields: [], repaired: false });
    }
    return { ...differences.report(), incomplete };
  };
}

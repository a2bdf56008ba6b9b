import { describeError } from '../errors.ts';
import type { GapReport, StoreSummary, SweepReport } from '../store/reports.ts';
import { PAGE_LIMIT_MAX } from '../store/reports.ts';
import type { HeldDeletions, LiveFacts, OpsContext } from './context.ts';
import { judge, type Verdict } from './verdict.ts';

/** Everything the status page, `/api/status` and `/metrics` show, read together. */
export interface Snapshot {
  /** Wall-clock milliseconds. */
  at: number;
  live: LiveFacts;
  /** Null when the database could not be read. */
  summary: StoreSummary | null;
  /** Open ones, newest first; at most `PAGE_LIMIT_MAX`. */
  gaps: GapReport[];
  held: HeldDeletions[];
  /** Newest first. */
  sweeps: SweepReport[];
  verdict: Verdict;
}

/** However many pages are open and however often they ask, the database is read once in this time. */
const SNAPSHOT_MS = 1_000;
const SWEEPS_SHOWN = 8;

export interface Snapshots {
  /** At most `SNAPSHOT_MS` old. Never rejects: a database that cannot be read is a verdict. */
  current(): Promise<Snapshot>;
  /** Read after this call: for whoever has just changed something. */
  fresh(): Promise<Snapshot>;
}

export function createSnapshots(context: OpsContext): Snapshots {
  const { store, clock, logger } = context;
  let last: { at: number; snapshot: Promise<Snapshot> } | null = null;

  const readStore = async () => {
    try {
      const [summary, gaps, held, sweeps] = await Promise.all([
        store.summary(),
        store.listGaps({ open: true }, { limit: PAGE_LIMIT_MAX }),
        context.heldDeletions(),
        store.listSweeps({ limit: SWEEPS_SHOWN }),
      ]);
      return { summary, gaps, held, sweeps };
    } catch (error) {
      logger.error({ outcome: 'failed', error: describeError(error) }, 'status could not be read');
      return { summary: null, gaps: [], held: [], sweeps: [] };
    }
  };

  const read = async (): Promise<Snapshot> => {
    const stored = await readStore();
    const live = context.facts();
    const at = clock.wall();
    return { at, live, ...stored, verdict: judge({ ...stored, live, now: at }) };
  };

  const fresh = () => {
    last = { at: clock.steady(), snapshot: read() };
    return last.snapshot;
  };

  return {
    fresh,
    current: () => (last !== null && clock.steady() - last.at < SNAPSHOT_MS ? last.snapshot : fresh()),
  };
}

import type { GapReport, StoreSummary, SyncRunReport } from '../store/reports.ts';
import type { PendingCount } from './api/schemas.ts';
import { cached, inTime } from './cached.ts';
import type { ApiContext, CredentialFacts, LiveFacts } from './context.ts';
import { judge } from './judge.ts';
import { reasonsOf, seriesOf, seriesStart } from './traffic.ts';
import type { Verdict } from './verdict.ts';

/** Everything the status page, `/api/status` and `/metrics` show, read together. */
export interface Snapshot {
  /** Wall-clock milliseconds. */
  at: number;
  live: LiveFacts;
  /** Null when the database could not be read. */
  summary: StoreSummary | null;
  /** The newest open gaps, at most `GAPS_READ`; the summary counts all of them. */
  gaps: GapReport[];
  /** Deletions that wait for a person, by the sync run that found them. */
  pending: PendingCount[];
  /** Newest first. */
  syncRuns: SyncRunReport[];
  /** Why deliveries were rejected in the last hour, the most frequent reason first. All processes count, also before a restart. */
  rejected: [reason: string, times: number][];
  verdict: Verdict;
  /** Null: events only, or the stored credentials could not be read. */
  credentials: CredentialFacts | null;
}

/** However many pages are open and however often they ask, the database is read once in this time. */
const SNAPSHOT_MS = 1_000;
const SYNC_RUNS_SHOWN = 8;
/** Enough to name a dozen records of each reason. */
const GAPS_READ = 200;

type Stored = Pick<Snapshot, 'summary' | 'gaps' | 'pending' | 'syncRuns' | 'rejected'>;
const UNREAD: Stored = { summary: null, gaps: [], pending: [], syncRuns: [], rejected: [] };

export type Snapshots = ReturnType<typeof createSnapshots>;

/**
 * `current` gives a snapshot at most `SNAPSHOT_MS` old. It does not reject: a database that cannot be read is a verdict.
 * `forget` makes the next snapshot a new one, so that people see what they just changed.
 */
export function createSnapshots(
  context: ApiContext,
  /** For commands: `current` rejects when the database cannot be read. */
  { rejects = false } = {},
) {
  const { store, clock, logger } = context;

  const readStore = async () => {
    const now = clock.wall();
    const [summary, gaps, pending, syncRuns, traffic] = await Promise.all([
      store.summary(),
      store.list('gaps', { open: true, limit: GAPS_READ }),
      store.pendingDeletions(now),
      store.list('sync_runs', { limit: SYNC_RUNS_SHOWN }),
      context.traffic(seriesStart('hour', now)),
    ]);
    return { summary, gaps, pending, syncRuns, rejected: reasonsOf(seriesOf(traffic, 'hour', now).total) };
  };

  const readOr = async <T>(otherwise: T, what: string, read: () => Promise<T>): Promise<T> => {
    if (rejects) return await read();
    try {
      return await inTime(clock, read());
    } catch (error) {
      logger.error({ outcome: 'failed', error }, `${what} could not be read`);
      return otherwise;
    }
  };

  return cached(clock, SNAPSHOT_MS, async (): Promise<Snapshot> => {
    const stored = await readOr<Stored>(UNREAD, 'status', readStore);
    const credentials = await readOr(null, 'credentials', context.credentials);
    const live = context.facts();
    const at = clock.wall();
    return { at, live, ...stored, credentials, verdict: judge({ ...stored, live, now: at }) };
  });
}

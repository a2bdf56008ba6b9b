import type { KindStatus, StoreSummary, SyncRunReport } from '../store/reports.ts';
import type { PendingCount } from './api/schemas.ts';
import { cached, inTime } from './cached.ts';
import type { LiveFacts, OpsContext } from './context.ts';
import { databaseProblem, explained, type Problem, worstFirst } from './problems.ts';
import { seriesOf, seriesStart, type TrafficSeries } from './traffic.ts';
import { type ServiceVerdict, serviceVerdict } from './verdict.ts';

/** Everything the status page, `/api/status`, `/metrics` and notifications say, read together. */
export interface Snapshot {
  /** Wall-clock milliseconds. */
  at: number;
  live: LiveFacts;
  /** Null when the database could not be read. */
  summary: StoreSummary | null;
  /** The rows of `sync_status`. Empty when the database could not be read. */
  kinds: KindStatus[];
  /** The open ones, the worst first; of very many not each, but some of each reason. */
  problems: Problem[];
  /** Deletions that wait for a person, by kind. */
  pending: PendingCount[];
  /** Newest first. */
  syncRuns: SyncRunReport[];
  /** Deliveries of the last hour. All processes count, also before a restart. */
  traffic: TrafficSeries;
  verdict: ServiceVerdict;
}

/** However many pages are open and however often they ask, the database is read once in this time. */
const SNAPSHOT_MS = 1_000;
const SYNC_RUNS_SHOWN = 8;
/** Rows of reasons that the worst ones leave no room for. */
const OTHERS_READ = 20;

export type Snapshots = ReturnType<typeof createSnapshots>;

/**
 * `current` gives a snapshot at most `SNAPSHOT_MS` old. It does not reject: a database that cannot be read is a problem.
 * `forget` makes the next snapshot a new one, so that people see what they just changed.
 */
export function createSnapshots(context: OpsContext) {
  const { store, clock, logger } = context;

  const readStore = async () => {
    const now = clock.wall();
    const [summary, pending, syncRuns, traffic] = await Promise.all([
      store.summary(),
      store.pendingDeletions(now),
      store.list('sync_runs', { limit: SYNC_RUNS_SHOWN }),
      context.traffic(seriesStart(now)),
    ]);
    const shown = summary.problems.map(({ reason }) => reason);
    const others = summary.open_problems_by
      .map(({ reason }) => reason)
      .filter((each) => !shown.includes(each));
    const rest =
      others.length === 0
        ? []
        : await store.list('problems', { open: true, reasons: others, limit: OTHERS_READ });
    const problems = [...summary.problems, ...rest].map(explained);
    return { summary, problems, pending, syncRuns, traffic: seriesOf(traffic, now) };
  };

  const readOrNothing = async () => {
    try {
      return await inTime(clock, readStore());
    } catch (error) {
      logger.error({ outcome: 'failed', error }, 'status could not be read');
      return { summary: null, problems: [], pending: [], syncRuns: [], traffic: seriesOf([], clock.wall()) };
    }
  };

  let unreadSince: number | null = null;
  return cached(clock, SNAPSHOT_MS, async (): Promise<Snapshot> => {
    const { problems: rows, ...stored } = await readOrNothing();
    const live = context.facts();
    const at = clock.wall();
    unreadSince = stored.summary === null ? (unreadSince ?? at) : null;
    const database = databaseProblem(live, unreadSince, at);
    const problems = worstFirst(database === null ? rows : [database, ...rows]);
    const read = stored.summary?.kinds ?? [];
    // Rows of a database that takes no writes are as old as its last one.
    const kinds = database === null ? read : read.map((kind) => ({ ...kind, verdict: database.verdict }));
    return {
      at,
      live,
      ...stored,
      kinds,
      problems,
      verdict: serviceVerdict(kinds, problems, stored.summary?.events),
    };
  });
}

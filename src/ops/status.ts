import { createHash } from 'node:crypto';
import { canonicalJson } from '../compliance/json.ts';
import { KINDS, type Kind } from '../compliance/kinds.ts';
import { VERDICTS } from '../mirror/problems.ts';
import { PAGE_LIMIT_MAX, type StoreSummary } from '../store/reports.ts';
import type { Status, StatusThen } from './api/schemas.ts';
import { cached, inTime } from './cached.ts';
import type { OpsContext, OpsStore } from './context.ts';
import { databaseProblem, explained, worstFirst } from './problems.ts';
import { serviceVerdict } from './verdict.ts';

/** What the overview, `/api/status` and notifications say, and what `/metrics` says besides: read together. */
export interface Snapshot {
  status: Status;
  /** Null when the database could not be read. */
  summary: StoreSummary | null;
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
    const [summary, { items: syncRuns }] = await Promise.all([
      store.summary(),
      store.list('sync_runs', { limit: SYNC_RUNS_SHOWN }),
    ]);
    const shown = summary.problems.map(({ reason }) => reason);
    const reasons = summary.open_problems_by
      .map(({ reason }) => reason)
      .filter((each) => !shown.includes(each));
    const more = { open: true, reasons, limit: OTHERS_READ };
    const others = reasons.length === 0 ? [] : (await store.list('problems', more)).items;
    return { summary, rows: [...summary.problems, ...others].map(explained), syncRuns };
  };

  const readOrNothing = async () => {
    try {
      return await inTime(clock, readStore());
    } catch (error) {
      logger.error({ outcome: 'failed', error }, 'status could not be read');
      return { summary: null, rows: [], syncRuns: [] };
    }
  };

  let unreadSince: number | null = null;
  return cached(clock, SNAPSHOT_MS, async (): Promise<Snapshot> => {
    const { summary, rows, syncRuns } = await readOrNothing();
    const live = context.facts();
    const at = clock.wall();
    unreadSince = summary === null ? (unreadSince ?? at) : null;
    const database = databaseProblem(live, unreadSince, at);
    const problems = worstFirst(database === null ? rows : [database, ...rows]);
    const read = summary?.kinds ?? [];
    // Rows of a database that takes no writes are as old as its last one.
    const kinds = database === null ? read : read.map((kind) => ({ ...kind, verdict: database.verdict }));
    const status: Status = {
      at: new Date(at).toISOString(),
      ...serviceVerdict(kinds, problems, summary?.events),
      kinds,
      problems,
      open_problems: Math.max(problems.length, summary?.open_problems ?? 0),
      service: live.service,
      events: summary && { ...summary.events, oldest_pending_at: summary.oldest_pending_at },
      deliveries: {
        last_at: summary?.last_delivery_at ?? null,
        quarantined: summary?.quarantined ?? null,
      },
      learned_pointers: summary?.learned_pointers ?? [],
      sync_runs: { running: live.running, last: syncRuns },
      upstream: live.upstream,
      database: summary && { bytes: summary.database_bytes + summary.wal_bytes },
    };
    return { status, summary };
  });
}

/** What `/api/status?at=` answers. Null: no verdict is kept from then. `at`: ISO 8601 UTC. */
export async function statusThen(store: OpsStore, at: string): Promise<StatusThen | null> {
  const then = await store.statusThen(at);
  if (then === null) return null;
  const { records, digest } = await recordsThen(store, at);
  const { kinds, problems, open_problems } = then;
  return {
    at,
    verdict: VERDICTS.find((verdict) => kinds.some((kind) => kind.verdict === verdict))!,
    kinds: kinds.map((kind) => ({ ...kind, records: records[kind.kind] })),
    problems: problems.map(explained),
    open_problems,
    digest,
  };
}

/**
 * How many records were alive then, and the digest of what they were: SHA-256 over a line `[kind,id,data]` of canonical JSON for each, by
 * kind and id. Two mirrors of one service have the same digest if they held the same. Page by page, so that nothing else waits for it.
 */
async function recordsThen(
  store: OpsStore,
  at: string,
): Promise<{ records: Record<Kind, number>; digest: string }> {
  const hash = createHash('sha256');
  const records: Record<Kind, number> = { policy: 0, risk_assessment: 0, vendor: 0 };
  for (const kind of KINDS) {
    for (let after: string | undefined; ; ) {
      const { items, next } = await store.list('records', { kind, at, limit: PAGE_LIMIT_MAX, after });
      for (const { id, data } of items) hash.update(`${canonicalJson([kind, id, data])}\n`);
      records[kind] += items.length;
      if (next === null) break;
      after = next;
    }
  }
  return { records, digest: hash.digest('hex') };
}

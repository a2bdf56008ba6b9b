import { KINDS, type Kind } from '../../compliance/kinds.ts';
import { DEFAULT_ID_POINTERS } from '../../compliance/pointers.ts';
import type { Database, Sql, Unit } from '../database.ts';
import { kindState } from '../schema.ts';
import { sql } from '../statement.ts';
import type { Now, ProblemKey, ServiceFacts } from '../values.ts';
import { ALIVE_MS } from './due.ts';
import {
  endAll,
  endProblem,
  isOpen,
  LAST_RUN_BEFORE_ACCESS,
  LAST_RUN_BEFORE_OUTAGE,
  lastWhole,
  openProblem,
  weighAnew,
  weighPending,
} from './problems.ts';
import { reading } from './reading.ts';
import { excluded, iso, readFact, singleValue, upsert, writerOf, writtenFact } from './sql.ts';

/** An outage of the API is so long that the service behind it may have given up deliveries too. */
const OUTAGE_MS = 30_000;

/** A full sync is overdue after twice the interval and the length of one. */
const FULL_SYNC_LATENESS_FACTOR = 2;
const FULL_SYNC_LENGTH_MS = 600_000;

const UNREACHABLE: ProblemKey = { reason: 'unreachable', kind: null, recordId: null };

/** The heartbeat, and what it finds: what the mirror notes about itself. */
export function createHeartbeatVerbs(database: Database) {
  const { sql: statements } = database;
  return {
    /** Notes that credentials (`access`: their fingerprint) can read the kind: by a read, or by the absence of an invented id. */
    noteAccess(kind: Kind, access: string, how: 'read' | 'absence', now: Now): Promise<void> {
      const name = how === 'read' ? 'readWith' : 'probedWith';
      const column = kindState[name];
      const noted = upsert(kindState, ['kind'], { kind, [name]: access, readAt: iso(now.wall) });
      return writerOf(database)(sql`${noted} WHERE ${column} IS DISTINCT FROM ${excluded(column)}`);
    },

    /**
     * Writes the fact `heartbeat` (ISO 8601), since time without heartbeats is downtime. As the worker also the facts about how it reads, and
     * the problems that begin or end with time alone; null: another process is the worker. If it reads with other credentials or from
     * another address than was noted before (`otherAccess`), the sync runs so far do not count.
     */
    beat: (now: Now, worker: ServiceFacts | null): Promise<{ otherAccess: boolean }> =>
      database.transact(
        async (unit, [heartbeat, before]) => {
          const nowIso = iso(now.wall);
          noteStandstill(unit, heartbeat, now);
          unit.send(writtenFact('heartbeat', nowIso));
          if (worker === null || before === null) return { otherAccess: false };
          const { access } = worker;
          const otherAccess = before.access !== null && before.access !== access;
          if (otherAccess) unit.send(writtenFact(LAST_RUN_BEFORE_ACCESS, before.lastRun));
          const eventsOnly = String(Number(worker.eventsOnly));
          const reading = {
            access,
            settle_ms: String(worker.settleMs),
            events_only: eventsOnly,
            id_pointers: JSON.stringify(worker.pointers ?? DEFAULT_ID_POINTERS),
          };
          for (const [name, value] of Object.entries(reading)) unit.send(writtenFact(name, value));
          // Only what is news waits for an answer: everybody waits for the counter meanwhile.
          if ((before.eventsOnly ?? '0') !== eventsOnly)
            for (const kind of KINDS) await weighAnew(unit, kind);
          await noteReachability(unit, worker, before, now);
          await noteOverdue(unit, worker, before, now);
          if (before.hasPending) weighPending(unit, nowIso);
          noteVerdicts(unit, nowIso);
          return { otherAccess };
        },
        (first: Sql) =>
          Promise.all([readFact(first, 'heartbeat'), worker === null ? null : readBefore(first)]),
      ),

    /** When the last delivery came, and the addresses of the newest `among` events. */
    lastDelivery: reading(async (among: number): Promise<{ wall: number | null; addresses: string[] }> => {
      // Only the newest events are looked at: duplicates of older ones are rare.
      const newest = sql`(SELECT last_delivered_at, address FROM events ORDER BY seq DESC LIMIT ${among}) AS newest`;
      const [row] = await statements.query<{ last: string | null }>(
        sql`SELECT max(last_delivered_at) AS last FROM ${newest}`,
      );
      const senders = await statements.query<{ address: string }>(
        sql`SELECT DISTINCT address FROM ${newest} WHERE address IS NOT NULL`,
      );
      const last = row?.last ?? null;
      return {
        wall: last === null ? null : Date.parse(last),
        addresses: senders.map(({ address }) => address),
      };
    }),
  };
}

interface KindBefore {
  kind: Kind;
  /** When the last whole sync run ended; of a kind that was never read whole, when the first one that failed began. */
  last: string | null;
  isOverdue: boolean | 0 | 1;
}

/** What a heartbeat finds. */
interface Before {
  access: string | null;
  eventsOnly: string | null;
  unreachableSince: string | null;
  lastRun: string;
  hasPending: boolean;
  kinds: KindBefore[];
}

async function readBefore(to: Sql): Promise<Before> {
  const ofKind = (kind: Kind) =>
    sql`SELECT ${kind} AS kind, coalesce((SELECT finished_at FROM ${lastWhole(kind)} AS s), (SELECT started_at FROM sync_runs
        WHERE kind = ${kind} AND outcome IN ('failed', 'incomplete') ORDER BY id LIMIT 1)) AS last,
      EXISTS (SELECT 1 FROM problems WHERE ${isOpen(overdue(kind))}) AS "isOverdue"`;
  const [access, eventsOnly, unreachableSince, lastRun, pending, kinds] = await Promise.all([
    readFact(to, 'access'),
    readFact(to, 'events_only'),
    singleValue<string>(to, sql`SELECT opened_at FROM problems WHERE ${isOpen(UNREACHABLE)}`),
    singleValue<number>(to, sql`SELECT max(id) FROM sync_runs`),
    to.query(sql`SELECT 1 FROM problems WHERE reason = 'pending_deletions' AND resolved_at IS NULL LIMIT 1`),
    to.query<KindBefore>(sql.join(KINDS.map(ofKind), ' UNION ALL ')),
  ]);
  const hasPending = pending.length > 0;
  return { access, eventsOnly, unreachableSince, lastRun: String(lastRun ?? 0), hasPending, kinds };
}

const overdue = (kind: Kind): ProblemKey => ({ reason: 'full_sync_overdue', kind, recordId: null });

/** Opens and resolves the problem `unreachable`. After an outage every kind is read in full again. */
async function noteReachability(
  unit: Unit,
  { unreachable, eventsOnly }: ServiceFacts,
  { unreachableSince: since, lastRun, ...before }: Before,
  now: Now,
): Promise<void> {
  const nowIso = iso(now.wall);
  // Nothing asks the API any more.
  if (eventsOnly && before.eventsOnly !== '1')
    await endAll(unit, ['unreachable', 'credentials_rejected'], nowIso);
  if (eventsOnly || unreachable === null) return;
  if (unreachable !== false) {
    if (since === null) await openProblem(unit, UNREACHABLE, unreachable.error, now);
    return;
  }
  if (since === null) return;
  await endProblem(unit, UNREACHABLE, nowIso);
  if (now.wall - Date.parse(since) >= OUTAGE_MS) unit.send(writtenFact(LAST_RUN_BEFORE_OUTAGE, lastRun));
}

async function noteOverdue(
  unit: Unit,
  { fullSyncMs, eventsOnly }: ServiceFacts,
  { kinds }: Before,
  now: Now,
): Promise<void> {
  const longestMs = FULL_SYNC_LATENESS_FACTOR * fullSyncMs + FULL_SYNC_LENGTH_MS;
  for (const { kind, last, isOverdue } of kinds) {
    const isTimed = !eventsOnly && fullSyncMs > 0 && last !== null;
    const isLate = isTimed && now.wall - Date.parse(last) > longestMs;
    if (isLate && !isOverdue)
      await openProblem(unit, overdue(kind), `the last that was complete ended at ${last}`, now);
    if (!isLate && isOverdue) await endProblem(unit, overdue(kind), iso(now.wall));
  }
}

/** Notes what the view says now. The view is evaluated once, and nothing waits for it: everybody waits for the counter meanwhile. */
function noteVerdicts(unit: Unit, nowIso: string): void {
  const at = unit.dialect.instant(nowIso);
  unit.send(
    sql`INSERT INTO kind_state (kind, verdict, complete, since) SELECT kind, verdict, complete, ${at} FROM sync_status WHERE true
      ON CONFLICT (kind) DO UPDATE SET verdict = excluded.verdict, complete = excluded.complete,
        since = CASE WHEN kind_state.verdict = excluded.verdict AND kind_state.complete = excluded.complete
          THEN kind_state.since ELSE excluded.since END`,
  );
  followVerdicts(unit);
}

/** Without heartbeats the view says `stale` after a while, and nobody was there to note that. */
function noteStandstill(unit: Unit, heartbeat: string | null, now: Now): void {
  const staleFrom = heartbeat === null ? Number.POSITIVE_INFINITY : Date.parse(heartbeat) + ALIVE_MS;
  if (staleFrom >= now.wall) return;
  const since = unit.dialect.instant(iso(staleFrom));
  unit.send(
    sql`UPDATE kind_state SET verdict = 'stale', complete = false, since = CASE WHEN since > ${since} THEN since ELSE ${since} END
      WHERE verdict <> 'stale'`,
  );
  followVerdicts(unit);
}

/** Ends each open row of `sync_history` that says something else than `kind_state`, and begins another. */
function followVerdicts(unit: Unit): void {
  unit.send(
    sql`UPDATE sync_history AS h SET until = k.since FROM kind_state AS k WHERE h.until IS NULL AND k.kind = h.kind
      AND (k.verdict <> h.verdict OR k.complete <> h.complete OR k.since <> h.since)`,
  );
  unit.send(
    sql`INSERT INTO sync_history (kind, verdict, complete, since) SELECT kind, verdict, complete, since FROM kind_state AS k
      WHERE verdict IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sync_history AS h WHERE h.kind = k.kind AND h.until IS NULL) ORDER BY kind`,
  );
}

import type { Kind } from '../../compliance/kinds.ts';
import type { BackfillStore, SweepProgress } from '../store.ts';
import type { Connection, Transact } from './connection.ts';
import type { Gaps } from './gaps.ts';
import { iso } from './records.ts';

type SweepVerbs = Pick<
  BackfillStore,
  | 'startSweep'
  | 'progressSweep'
  | 'finishSweep'
  | 'interruptSweeps'
  | 'openGap'
  | 'healGap'
  | 'resolveGap'
  | 'kindsWantingSweep'
  | 'noteAccess'
  | 'beat'
  | 'lastBeat'
  | 'lastDelivery'
>;

/** Fewer deliveries than this say nothing of what is usual. */
const FEWEST_FOR_USUAL = 10;

/** Sweeps, gaps and the heartbeat: the mirror's own diary. */
export function createSweepVerbs(db: Connection, transact: Transact, gaps: Gaps): SweepVerbs {
  const insert = db.prepare(
    'INSERT INTO sweeps (kind, reason, started_at, number, began_at) VALUES (?, ?, ?, ?, ?) RETURNING id',
  );
  const progress = db.prepare(
    'UPDATE sweeps SET pages = ?, seen = ?, inserted = ?, updated = ?, deleted = ?, unchanged = ? WHERE id = ?',
  );
  const finish = db.prepare(
    'UPDATE sweeps SET finished_at = ?, outcome = ?, error = ?, drift = ? WHERE id = ? RETURNING kind, number, began_at AS beganAt',
  );
  const interrupt = db.prepare(
    "UPDATE sweeps SET finished_at = ?, outcome = 'interrupted' WHERE finished_at IS NULL",
  );
  const interruptKind = db.prepare(
    "UPDATE sweeps SET finished_at = ?, outcome = 'interrupted' WHERE kind = ? AND finished_at IS NULL",
  );
  // Those that a stop broke off in good order as well as those that a crash left open: how far the last of a kind had come.
  const lastInterrupted = db.prepare(
    `SELECT kind, pages FROM sweeps
     WHERE id IN (SELECT max(id) FROM sweeps GROUP BY kind) AND outcome = 'interrupted' ORDER BY id`,
  );
  const writeFact = db.prepare(
    'INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
  );
  const readBeat = db.prepare("SELECT value FROM facts WHERE name = 'heartbeat'").pluck();
  // A late duplicate of an old event is the exception: the newest rows tell.
  const readDelivery = db.prepare(
    `SELECT max(last_delivered_at) AS last, count(*) AS deliveries,
       max((julianday(received_at) - julianday(before)) * 86400000) AS pause
     FROM (SELECT last_delivered_at, received_at, lag(received_at) OVER (ORDER BY seq) AS before
       FROM (SELECT seq, last_delivered_at, received_at FROM events ORDER BY seq DESC LIMIT ?))`,
  );
  const verdicts = db.prepare('SELECT kind, verdict FROM sync_status');
  const keepSince = db.prepare(
    `INSERT INTO kind_state (kind, in_step_since) VALUES (?, ?)
     ON CONFLICT (kind) DO UPDATE SET in_step_since = CASE WHEN excluded.in_step_since IS NULL THEN NULL
       ELSE coalesce(in_step_since, excluded.in_step_since) END`,
  );

  const noteAccess = (column: 'read_with' | 'probed_with') =>
    db.prepare(
      `INSERT INTO kind_state (kind, ${column}, read_at) VALUES (?, ?, ?)
       ON CONFLICT (kind) DO UPDATE SET read_at = excluded.read_at, ${column} = excluded.${column}
       WHERE ${column} IS NOT excluded.${column}`,
    );
  const noteOf = { read: noteAccess('read_with'), absence: noteAccess('probed_with') };

  const restartSince = db.prepare(
    'UPDATE kind_state SET in_step_since = ? WHERE kind = ? AND in_step_since IS NOT NULL',
  );

  const save = (id: number, p: SweepProgress) =>
    progress.run(p.pages, p.seen, p.inserted, p.updated, p.deleted, p.unchanged, id);

  return {
    async startSweep(kind, reason, now) {
      return transact((numbers) => {
        const number = numbers.current();
        interruptKind.run(iso(now.wall), kind);
        const { id } = insert.get(kind, reason, iso(now.wall), number, Math.floor(now.steady)) as {
          id: number;
        };
        return { id, number };
      });
    },

    async progressSweep(id, state) {
      transact(() => save(id, state));
    },

    async finishSweep(id, result, now) {
      transact(() => {
        save(id, result.progress);
        const nowIso = iso(now.wall);
        const sweep = finish.get(
          nowIso,
          result.outcome,
          result.error,
          result.drift === undefined ? null : JSON.stringify(result.drift),
          id,
        ) as {
          kind: Kind;
          number: number;
          beganAt: number;
        };
        if (result.hasDrift) restartSince.run(nowIso, sweep.kind);
        if (result.outcome === 'complete') gaps.healAfterSweep(sweep, nowIso);
      });
    },

    async interruptSweeps(now) {
      return transact(() => {
        interrupt.run(iso(now.wall));
        return lastInterrupted.all() as { kind: Kind; pages: number }[];
      });
    },

    async openGap(gap, error, now) {
      transact((numbers) => gaps.open(gap, error, iso(now.wall), numbers));
    },

    async healGap(gap, now) {
      transact(() => gaps.heal(gap, iso(now.wall)));
    },

    async resolveGap(id, now) {
      return transact(() => gaps.resolve(id, iso(now.wall)));
    },

    async kindsWantingSweep(now) {
      return gaps.kindsWantingSweep(now);
    },

    async noteAccess(kind, access, how, now) {
      transact(() => noteOf[how].run(kind, access, iso(now.wall)));
    },

    async beat(now, service) {
      transact(() => {
        const nowIso = iso(now.wall);
        writeFact.run('heartbeat', nowIso);
        writeFact.run('events_only', service.eventsOnly ? '1' : '0');
        writeFact.run('settle_ms', String(service.settleMs));
        writeFact.run('sweep_ms', String(service.sweepMs));
        writeFact.run('blocked', service.blocked ? '1' : '0');
        writeFact.run('unreachable', service.unreachable ? '1' : '0');
        writeFact.run('access', service.access);
        for (const { kind, verdict } of verdicts.all() as { kind: string; verdict: string }[]) {
          keepSince.run(kind, verdict === 'in_step' ? nowIso : null);
        }
      });
    },

    async lastDelivery(among) {
      const row = readDelivery.get(among) as {
        last: string | null;
        deliveries: number;
        pause: number | null;
      };
      return {
        wall: row.last === null ? null : Date.parse(row.last),
        longestPauseMs:
          row.deliveries < FEWEST_FOR_USUAL || row.pause === null ? null : Math.round(row.pause),
      };
    },

    async lastBeat() {
      const at = readBeat.get() as string | undefined;
      return at === undefined ? null : Date.parse(at);
    },
  };
}

import type { Comparison } from '../convergence/compare.ts';
import { randomOf } from '../convergence/random.ts';
import { eventually } from '../convergence/service.ts';
import { approveDeletions } from '../support/approve-deletions.ts';
import { startIndependentUpstream } from '../support/independent-upstream.ts';
import { fill, type Resource } from '../support/independent-upstream-records.ts';
import {
  createSender,
  type EventType,
  eventAbout,
  type Sender,
} from '../support/independent-upstream-sender.ts';
import { createFollower, type Followed } from './follower.ts';
import { createSite, type Replica, type Site } from './site.ts';

export interface ReplicasOptions {
  seed: number;
  counts: Readonly<Record<Resource, number>>;
  mutations: number;
  /** Over which the mutations are spread. */
  durationMs: number;
  /** Replicas that are killed and started again on the way … */
  kills: number;
  /** … restarts of the database, every other one as a failing machine does it … */
  restarts: number;
  /** … and times that the worker stands still until another has taken over, and goes on. */
  standstills?: number;
  clocksApartMs?: number;
  resolvingMs: number;
  tell: (line: string) => void;
}

export interface ReplicasResult extends Comparison {
  /** Deliveries by what they were answered; `null` is a connection that ended without an answer. */
  answers: Map<number | null, number>;
  acknowledged: number;
  /** Acknowledged, and not in the database. Must be empty. */
  lost: string[];
  /** Events that wrote more than one change. Must be empty. */
  appliedTwice: string[];
  /** Events that are neither done nor ignored. Must be empty. */
  unfinished: string[];
  /** Sync runs of one kind that ran at the same time, by different replicas. Must be empty. */
  overlapping: string[];
  followed: Followed;
  /** How long each killed or standing worker's place was empty. */
  replacedAfterMs: number[];
  /** What the last one to look took to find everything equal and verified; null: it never was. */
  resolvedAfterMs: number | null;
}

const REPLICAS = 3;
const RETRY_WAITS_MS = [100, 200, 500, 1_000, 1_000, 2_000, 2_000, 4_000, 4_000];
/** So many of the deliveries go to all replicas at once. */
const TO_ALL = 0.3;
const DROPPED = 0.1;

/** Longer than a lease. */
const STANDSTILL_MS = 16_000;

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Everything at once over one real PostgreSQL; resolves with what is wrong when the time is up. */
export async function runReplicas(options: ReplicasOptions): Promise<ReplicasResult> {
  const random = randomOf(options.seed);
  const upstream = await startIndependentUpstream();
  fill(upstream.records, options.counts);
  const site = await createSite({
    upstream,
    replicas: REPLICAS,
    ...(options.clocksApartMs === undefined ? {} : { clocksApartMs: options.clocksApartMs }),
    settings: {
      SYNC_SETTLE_SECONDS: '1',
      COMPLIANCE_REQUESTS_PER_MINUTE: '6000',
      LOG_LEVEL: 'fatal',
    },
  });
  const senders = site.replicas.map((replica) => createSender(replica.webhookUrl, 8));
  const follower = createFollower(site.replicas, random);
  const acknowledged = new Set<string>();
  const answers = new Map<number | null, number>();
  const named = new Set<string>();
  const underWay = new Set<Promise<void>>();
  const replacedAfterMs: number[] = [];
  let turn = 0;

  /** As a load balancer does: each attempt goes to the next one. */
  async function deliver(event: ReturnType<typeof eventAbout>, to: readonly Sender[]): Promise<void> {
    const attempt = async (sender: Sender) => {
      const status = await sender.attempt(event);
      answers.set(status, (answers.get(status) ?? 0) + 1);
      if (status === 202 || status === 200) acknowledged.add(event.id);
      return status === 202 || status === 200;
    };
    let taken = (await Promise.all(to.map(attempt))).some(Boolean);
    for (const waitMs of RETRY_WAITS_MS) {
      if (taken) return;
      await pause(waitMs);
      turn += 1;
      taken = await attempt(senders[turn % senders.length]!);
    }
  }

  function announce(
    type: EventType,
    resource: Resource,
    record: { id: string; [field: string]: unknown },
  ): void {
    if (random() < DROPPED && resource !== 'assessments') return;
    if (resource === 'assessments') named.add(record.id);
    turn += 1;
    const to = random() < TO_ALL ? senders : [senders[turn % senders.length]!];
    const work = deliver(eventAbout(type, resource, record), to);
    underWay.add(work);
    void work.finally(() => underWay.delete(work));
  }

  try {
    // Together, so that they meet at the migrations.
    await Promise.all(site.replicas.map((replica) => replica.start()));
    const following = follower.run();

    const disturbing = (async () => {
      const kinds = disturbancesOf(options);
      for (const [n, kind] of kinds.entries()) {
        await pause(options.durationMs / (kinds.length + 1));
        if (kind === 'restart') await restart(site, n, options.tell);
        else if (kind === 'stand still') replacedAfterMs.push(...(await standStill(site, options.tell)));
        else replacedAfterMs.push(...(await killOne(site, n % 2 === 0, random, options.tell)));
      }
    })();
    let done = 0;
    for (; done < options.mutations; done += 1) {
      const resource = (['policies', 'vendors', 'assessments'] as const)[Math.floor(random() * 3)]!;
      const records = upstream.records.all(resource);
      const draw = random();
      if (draw < 0.1 || records.length === 0) {
        const born = { id: `new-${done}`, name: `Born ${done}`, status: 'draft', rev: done };
        const record = resource === 'policies' ? { ...born, version: '1.0' } : born;
        upstream.records.put(resource, record);
        announce(BIRTHS[resource], resource, record);
      } else if (draw < 0.16 && ENDS[resource] !== null) {
        const record = records[Math.floor(random() * records.length)]!;
        upstream.records.remove(resource, record.id);
        announce(ENDS[resource]!, resource, record);
      } else {
        const record = {
          ...records[Math.floor(random() * records.length)]!,
          name: `Changed ${done}`,
          rev: done,
        };
        upstream.records.put(resource, record);
        announce(CHANGES[resource], resource, record);
      }
      await pause(options.durationMs / options.mutations);
    }
    await disturbing;
    while (underWay.size > 0) await Promise.all(underWay);
    options.tell(`${done} mutations, the last delivery is made; asking for a full sync`);
    const quietSince = performance.now();
    // Of any of them: whoever does them hears of it.
    await eventually('a full sync to be asked for', () =>
      site.replicas[2]!.post('/api/syncs').then(
        () => true,
        () => false,
      ),
    );

    let comparison = await site.compare(upstream.records, named);
    let resolvedAfterMs: number | null = null;
    while (performance.now() - quietSince < options.resolvingMs && resolvedAfterMs === null) {
      // A replica that finds the database back a little later answers 503 until then.
      await approveDeletions(site.replicas[0]!).catch(() => undefined);
      await pause(250);
      comparison = await site.compare(upstream.records, named);
      const [waiting] = await site.query("SELECT 1 FROM events WHERE state = 'pending' LIMIT 1");
      if (comparison.differences.length === 0 && waiting === undefined) {
        resolvedAfterMs = performance.now() - quietSince;
      }
    }
    const changes = await site.query<{ seq: string }>('SELECT seq FROM changes ORDER BY seq');
    const followed = await follower.end(changes.map(({ seq }) => Number(seq)));
    await following;
    const stored = await site.query<{ id: string; state: string }>('SELECT id, state FROM events');
    const ids = new Set(stored.map(({ id }) => id));
    const twice = await site.query<{ cause: string }>(
      "SELECT cause_id FROM changes WHERE cause = 'event' GROUP BY cause_id HAVING count(*) > 1",
    );
    const overlapping = await site.query<{ pair: string }>(
      `SELECT a.kind || ' ' || a.id || '/' || b.id AS pair FROM sync_runs a JOIN sync_runs b ON a.kind = b.kind AND a.id < b.id
       AND b.started_at < coalesce(a.finished_at, 'infinity')`,
    );
    for (const replica of site.replicas) await replica.stop();
    return {
      ...comparison,
      answers,
      acknowledged: acknowledged.size,
      followed,
      replacedAfterMs,
      resolvedAfterMs,
      lost: [...acknowledged].filter((id) => !ids.has(id)),
      appliedTwice: twice.map(({ cause }) => cause),
      unfinished: stored
        .filter(({ state }) => state !== 'processed' && state !== 'ignored')
        .map(({ id }) => id),
      overlapping: overlapping.map(({ pair }) => pair),
    };
  } finally {
    for (const sender of senders) sender.close();
    follower.stop();
    await site.end();
    await upstream.close();
  }
}

type Disturbance = 'kill' | 'restart' | 'stand still';

/** All of them, evenly mixed. */
function disturbancesOf({ kills, restarts, standstills = 0 }: ReplicasOptions): Disturbance[] {
  const spread = (kind: Disturbance, count: number) =>
    Array.from({ length: count }, (_, nth) => ({ kind, at: (nth + 0.5) / count }));
  return [...spread('kill', kills), ...spread('restart', restarts), ...spread('stand still', standstills)]
    .sort((one, other) => one.at - other.at)
    .map(({ kind }) => kind);
}

const leaseOf = async (site: Site) => {
  const [lease] = await site
    .query<{ owner: string; fence: string }>("SELECT owner, fence FROM leases WHERE name = 'worker'")
    .catch(() => []);
  return lease;
};

async function workerOf(site: Site): Promise<{ worker: Replica; fence: string } | null> {
  const lease = await leaseOf(site);
  const worker = site.replicas.find((each) => lease?.owner.includes(`-${each.pid()}-`));
  return lease === undefined || worker === undefined ? null : { worker, fence: lease.fence };
}

/** How long it takes until another has the lease. */
async function replacedAfter(site: Site, fence: string): Promise<number> {
  const since = performance.now();
  await eventually('another worker', async () => {
    const lease = await leaseOf(site);
    return lease !== undefined && lease.owner !== '' && lease.fence !== fence;
  });
  return Math.round(performance.now() - since);
}

async function killOne(
  site: Site,
  isWorker: boolean,
  random: () => number,
  tell: (line: string) => void,
): Promise<number[]> {
  const held = isWorker ? await workerOf(site) : null;
  const victim = held?.worker ?? site.replicas[Math.floor(random() * site.replicas.length)]!;
  await victim.kill();
  const replaced = held === null ? [] : [await replacedAfter(site, held.fence)];
  tell(`killed ${victim.name}${held === null ? '' : `, the worker, replaced after ${replaced[0]} ms`}`);
  await pause(200 + random() * 1_500);
  await victim.start();
  return replaced;
}

async function standStill(site: Site, tell: (line: string) => void): Promise<number[]> {
  const held = await workerOf(site);
  if (held === null) return [];
  const still = held.worker.standStill(STANDSTILL_MS);
  const replaced = await replacedAfter(site, held.fence);
  tell(`the worker ${held.worker.name} stands still, replaced after ${replaced} ms`);
  await still;
  return [replaced];
}

async function restart({ server }: Site, n: number, tell: (line: string) => void): Promise<void> {
  const how = n % 2 === 0 ? 'crash' : 'orderly';
  await server.halt(how);
  tell(`the database is down (${how})`);
  await pause(1_000);
  await server.start();
}

const CHANGES: Readonly<Record<Resource, EventType>> = {
  policies: 'policy.updated',
  assessments: 'risk.assessed',
  vendors: 'vendor.updated',
};
const BIRTHS: Readonly<Record<Resource, EventType>> = {
  policies: 'policy.created',
  assessments: 'risk.identified',
  vendors: 'vendor.added',
};
const ENDS: Readonly<Record<Resource, EventType | null>> = {
  policies: 'policy.deleted',
  assessments: null,
  vendors: 'vendor.removed',
};

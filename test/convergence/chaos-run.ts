import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { approveDeletions } from '../support/approve-deletions.ts';
import { type Fault, startIndependentUpstream } from '../support/independent-upstream.ts';
import {
  fill,
  type Records,
  type Resource,
  type UpstreamRecord,
} from '../support/independent-upstream-records.ts';
import { createSender, type EventType, eventAbout } from '../support/independent-upstream-sender.ts';
import { type Comparison, compare } from './compare.ts';
import { randomOf } from './random.ts';
import { createService } from './service.ts';

export interface ChaosOptions {
  seed: number;
  counts: Readonly<Record<Resource, number>>;
  mutations: number;
  /** Over which the mutations are spread. */
  durationMs: number;
  kills: number;
  /** How long a delayed delivery waits at most. */
  longestDelayMs: number;
  /** After the last delivery and mutation. */
  resolvingMs: number;
  /** Look before the time is up, and end with the first equality. */
  endsEarly: boolean;
  tell: (line: string) => void;
}

export interface ChaosResult extends Comparison {
  mutations: number;
  deliveries: { events: number; dropped: number; duplicated: number; delayed: number; givenUp: number };
  requests: { all: number; failed: number };
  kills: number;
  /** From the last delivery to the first look that found everything equal and verified; null: it never was. */
  resolvedAfterMs: number | null;
}

const DROPPED = 0.2;
const DUPLICATED = 0.2;
const DELAYED = 0.3;
const FAILING = 0.12;

const RETRY_WAITS_MS = [200, 500, 1_000, 1_000, 2_000, 2_000, 4_000];

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Everything at once, against the real service; resolves with what differs when the time is up. */
export async function runChaos(options: ChaosOptions): Promise<ChaosResult> {
  const random = randomOf(options.seed);
  const upstream = await startIndependentUpstream();
  fill(upstream.records, options.counts);
  const firstRisks = upstream.records.ids('assessments');
  const named = new Set(firstRisks);
  const failed = { count: 0 };
  const faultsOf = randomOf(options.seed + 1);
  // Of its own, like the faults': when a kill comes among the mutations is the machine's affair, and must not change them.
  const killsOf = randomOf(options.seed + 2);
  const service = await createService(upstream, {
    SYNC_SETTLE_SECONDS: '1',
    COMPLIANCE_REQUESTS_PER_MINUTE: '6000',
    LOG_LEVEL: 'error',
  });
  const riskIds = join(service.database, '..', 'risk-ids');
  writeFileSync(riskIds, firstRisks.join('\n'));
  service.settings['RISK_IDS_FILE'] = riskIds;
  const sender = createSender(service.webhookUrl);
  const result = { events: 0, dropped: 0, duplicated: 0, delayed: 0, givenUp: 0 };
  const underWay = new Set<Promise<void>>();

  async function send(event: ReturnType<typeof eventAbout>, about: () => void): Promise<void> {
    if (await sender.deliver(event, RETRY_WAITS_MS)) about();
    else result.givenUp += 1;
  }

  /** Lost, doubled, late, or as it should be. */
  function announce(type: EventType, resource: Resource, record: UpstreamRecord): void {
    const event = eventAbout(type, resource, record);
    const about = () => {
      if (resource === 'assessments') named.add(record.id);
    };
    result.events += 1;
    if (random() < DROPPED) {
      result.dropped += 1;
      return;
    }
    const isDelayed = random() < DELAYED;
    const isDoubled = random() < DUPLICATED;
    if (isDelayed) result.delayed += 1;
    if (isDoubled) result.duplicated += 1;
    for (let copy = 0; copy < (isDoubled ? 2 : 1); copy += 1) {
      const delay = isDelayed || copy > 0 ? random() * options.longestDelayMs : 0;
      const work = pause(delay).then(() => send(event, about));
      underWay.add(work);
      void work.finally(() => underWay.delete(work));
    }
  }

  try {
    await service.start();
    upstream.faultOf = () => {
      const fault = faultsOf() < FAILING ? someFault(faultsOf) : null;
      if (fault !== null) failed.count += 1;
      return fault;
    };

    const killing = (async () => {
      for (let kill = 1; kill <= options.kills; kill += 1) {
        await pause(options.durationMs / (options.kills + 1));
        await service.kill();
        options.tell(`killed ${kill} of ${options.kills}`);
        await pause(200 + killsOf() * 1_000);
        await service.start();
      }
    })();
    const mutator = createMutator(upstream.records, random, announce);
    for (let done = 0; done < options.mutations; done += 1) {
      mutator();
      await pause(options.durationMs / options.mutations);
    }
    await killing;
    while (underWay.size > 0) await Promise.all(underWay);
    options.tell(`${options.mutations} mutations, the last delivery is made; asking for a full sync`);
    const quietSince = performance.now();
    await service.post('/api/syncs');

    let comparison = compare(service.database, upstream.records, named);
    let resolvedAfterMs: number | null = null;
    while (performance.now() - quietSince < options.resolvingMs) {
      // Others may wait since they were read.
      const approved = await approveDeletions(service).catch(() => 0);
      if (approved > 0) options.tell(`approved ${approved} pending deletions`);
      await pause(250);
      comparison = compare(service.database, upstream.records, named);
      if (comparison.differences.length > 0) resolvedAfterMs = null;
      else resolvedAfterMs ??= performance.now() - quietSince;
      if (options.endsEarly && resolvedAfterMs !== null) break;
    }
    return {
      ...comparison,
      mutations: options.mutations,
      deliveries: result,
      requests: { all: upstream.seen.length, failed: failed.count },
      kills: options.kills,
      resolvedAfterMs,
    };
  } finally {
    sender.close();
    await service.end();
    await upstream.close();
  }
}

function someFault(random: () => number): Fault {
  const draw = random();
  if (draw < 0.35) return { fault: 'status', status: 500 };
  if (draw < 0.5) return { fault: 'status', status: 503 };
  if (draw < 0.6) return { fault: 'status', status: 503, retryAfterSeconds: 1 };
  if (draw < 0.75) return { fault: 'hang', ms: 1_000 };
  return { fault: 'cut' };
}

const CHANGES: Readonly<Record<Resource, readonly EventType[]>> = {
  policies: ['policy.updated', 'policy.approved'],
  assessments: ['risk.assessed', 'risk.mitigated', 'risk.escalated'],
  vendors: ['vendor.updated', 'vendor.assessed'],
};
const BIRTHS: Readonly<Record<Resource, EventType>> = {
  policies: 'policy.created',
  assessments: 'risk.identified',
  vendors: 'vendor.added',
};
/** The specification has no event for an assessment that goes. */
const ENDS: Readonly<Record<Resource, EventType | null>> = {
  policies: 'policy.deleted',
  assessments: null,
  vendors: 'vendor.removed',
};

/** Returns a function that changes one thing, and announces it. */
function createMutator(
  records: Records,
  random: () => number,
  announce: (type: EventType, resource: Resource, record: UpstreamRecord) => void,
): () => void {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
  const buried: Record<Resource, UpstreamRecord[]> = { policies: [], assessments: [], vendors: [] };
  let count = 0;

  return () => {
    count += 1;
    const resource = pick(['policies', 'policies', 'vendors', 'vendors', 'assessments'] as const);
    const draw = random();
    const content = {
      name: `Changed ${count}`,
      status: pick(['draft', 'open', 'active', 'closed']),
      rev: count,
    };
    const version = resource === 'policies' ? { version: `${count}.0` } : {};
    if (draw < 0.15) {
      const record = { id: `new-${count}`, ...content, ...version };
      records.put(resource, record);
      return announce(BIRTHS[resource], resource, record);
    }
    if (draw < 0.25 && buried[resource].length > 0) {
      const record = { ...buried[resource].pop()!, ...content, ...version };
      records.put(resource, record);
      return announce(BIRTHS[resource], resource, record);
    }
    const record = pick(records.all(resource));
    // Few assessments: nothing announces their end, and many at once would rightly be held.
    if (draw > (resource === 'assessments' ? 0.95 : 0.85)) {
      records.remove(resource, record.id);
      buried[resource].push(record);
      const end = ENDS[resource];
      return end === null ? undefined : announce(end, resource, record);
    }
    const { tags: _, ...rest } = record;
    const changed = { ...(random() < 0.3 ? rest : record), ...content, ...version };
    records.put(resource, changed);
    return announce(pick(CHANGES[resource]), resource, changed);
  };
}

import type { Backfill } from '../backfill/backfill.ts';
import { unreachableSince } from '../backfill/upstream.ts';
import type { Budget } from '../compliance/budget.ts';
import type { LiveFacts, UpstreamFacts } from '../ops/context.ts';
import type { Traffic } from '../ops/traffic.ts';
import type { Clock } from '../platform/clock.ts';
import type { Config } from '../platform/config.ts';
import { version } from '../platform/package.ts';
import type { Pause } from './pause.ts';
import type { SecretUse } from './secret-use.ts';
import type { StoredSecrets } from './stored-secrets.ts';

/** What of the running service its database does not hold. */
export interface RunningFacts {
  config: Config;
  startedAt: number;
  state: LiveFacts['state'];
  pause: Pause | null;
  unwritableSince: number | null;
  skewMs: number | null;
  secrets: StoredSecrets;
  secretUse: SecretUse;
  /** Null: events only. */
  backfill: Backfill | null;
  budget: Budget;
  clock: Clock;
  traffic: Traffic;
}

export function liveFacts(running: RunningFacts): LiveFacts {
  const { config, startedAt, state, pause, unwritableSince, secrets, secretUse, backfill, traffic } = running;
  return {
    ...{ version: version(), startedAt, state, eventsOnly: config.compliance === null, ...config.sync },
    ...{ paused: pause !== null, pausedSince: pause?.since ?? null, unwritableSince },
    signingSecrets: config.webhook.secrets().length + secrets.current().length,
    secrets: secretUse.report(config.webhook.secrets(), secrets.current()),
    runningSyncRuns: (backfill?.runningSyncRuns() ?? []).map((fullSync) => ({
      ...fullSync,
      startedAt: fullSync.startedWall,
    })),
    upstream: upstreamFacts(running),
    deliveries: traffic.recent(),
    idPointers: config.idPointers,
  };
}

function upstreamFacts({ config, backfill, budget, skewMs, clock }: RunningFacts): UpstreamFacts {
  const health = backfill?.health();
  const { left, limit, lost } = budget.left();
  const steadyToWall = clock.wall() - clock.steady();
  return {
    configured: config.compliance !== null,
    origin: config.compliance?.baseUrl.origin ?? null,
    ok: health?.ok ?? null,
    lastOkAt: health?.lastOkWall ?? null,
    lastErrorAt: health?.lastErrorWall ?? null,
    lastError: health?.lastError ?? null,
    consecutiveFailures: health?.consecutiveFailures ?? 0,
    unreachableSince: unreachableSince(health, clock.wall()),
    budgetLeft: left,
    budgetPerMinute: limit,
    budgetLost: lost.map((each) => ({ ...each, until: Math.round(each.until + steadyToWall) })),
    skewMs,
  };
}

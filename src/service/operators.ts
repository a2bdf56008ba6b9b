import { dirname, join, resolve } from 'node:path';
import PQueue from 'p-queue';
import { unreachableSince } from '../backfill/upstream.ts';
import type { Kind } from '../compliance/kinds.ts';
import { diagnoseRejection, inSlices } from '../doctor/diagnosis.ts';
import { createOps } from '../ops/app.ts';
import type {
  CredentialFacts,
  LiveFacts,
  OpsActions,
  OpsContext,
  RejectionDiagnosis,
} from '../ops/context.ts';
import { sessionsInMemory } from '../ops/sessions.ts';
import { createSnapshots } from '../ops/snapshot.ts';
import { loadOrCreateOpsToken, OPS_TOKEN_FILE, signInLink } from '../ops/tokens.ts';
import { tenth } from '../ops/words.ts';
import type { Config } from '../platform/config.ts';
import { UsageError } from '../platform/errors.ts';
import { version } from '../platform/package.ts';
import { prove } from '../receive/connections.ts';
import { isPostgres, sqlitePath } from '../store/open.ts';
import type { Store } from '../store/store.ts';
import type { DeliveryWatch } from './missed-deliveries.ts';
import type { Base } from './opening.ts';
import type { Repairs } from './repairs.ts';
import type { Replicas } from './replicas.ts';
import { candidateSecrets, type SigningSecrets } from './signing-secrets.ts';
import { beginPause, endPause, type ServiceState } from './state.ts';
import type { Telemetry } from './telemetry.ts';

interface OperatorsOptions extends Base {
  state: ServiceState;
  repairs: Repairs;
  replicas: Replicas;
  secrets: Pick<SigningSecrets, 'keys' | 'facts'>;
  telemetry: Pick<Telemetry, 'traffic' | 'answerTimes'>;
  watch: Pick<DeliveryWatch, 'unkeptSince' | 'isRejecting' | 'untimelySince'>;
  /** The address at which operators reach their listener. */
  operatorsUrl: string;
  receiverUrl: string;
  /** Aborts when the service drains. */
  signal: AbortSignal;
}

export type Operators = ReturnType<typeof createOperators>;

/** Makes the app of the operators' listener. The app imports no stage, so what operators may see and do is passed to it. */
export function createOperators(options: OperatorsOptions) {
  const { config, addresses, store, clock, metrics, logger, lines, telemetry, replicas } = options;
  const made = config.ops.tokens.length > 0 ? null : madeToken(config, options.operatorsUrl);
  const context: OpsContext = {
    addresses,
    prove,
    store: operatorsStore(options),
    actions: operatorsActions(options),
    sessionStore: replicas.isAlone ? sessionsInMemory() : store,
    facts: () => liveFacts(options),
    credentials: () => credentialFacts(options),
    traffic: telemetry.traffic.since,
    answerTimes: telemetry.answerTimes,
    diagnose: rejectionDiagnoses(config, store, clock),
    tokens: made === null ? () => config.ops.tokens : () => made.tokens,
    host: config.ops.host,
    publicUrl: config.ops.publicUrl,
    receiver: { url: `${options.receiverUrl}/webhooks`, signatureHeader: config.webhook.header },
    clock,
    metrics,
    logger,
    lines,
    signal: options.signal,
  };
  const snapshots = createSnapshots(context);
  return {
    app: createOps(context, snapshots),
    verdict: async () => (await snapshots.current()).verdict,
    /** The token that was made because OPS_TOKENS is not set; null: it is set. The link holds the token and must never be logged. */
    signIn: made?.signIn ?? null,
  };
}

/** Facts about the running service that its database does not hold. */
function liveFacts(running: OperatorsOptions): LiveFacts {
  const { config, state, repairs, secrets, telemetry, watch, clock } = running;
  const own = state.facts();
  return {
    version: version(),
    ...own,
    eventsOnly: config.compliance === null,
    ...config.sync,
    unwritableSince: own.unwritableSince ?? watch.unkeptSince(),
    rejectsSignatures: watch.isRejecting(),
    untimelySince: watch.untimelySince(),
    lacksCredentials: repairs.health().lacksCredentials,
    secrets: secrets.facts(),
    runningSyncRuns: (repairs.backfill?.runningSyncRuns() ?? []).map((run) => ({
      id: run.id,
      kind: run.kind,
      pages: run.pages,
      seen: run.seen,
      estimated_total: run.estimatedTotal,
      records_per_second: tenth(run.recordsPerSecond),
      seconds_left: run.leftMs === null ? null : tenth(run.leftMs / 1000),
      started_at: new Date(run.startedWall).toISOString(),
    })),
    upstream: upstreamFacts(running),
    unreachableSince: unreachableSince(repairs.health(), clock.steady()),
    deliveries: telemetry.traffic.recent(),
    idPointers: config.idPointers,
  };
}

function upstreamFacts({ config, repairs, clock }: OperatorsOptions): LiveFacts['upstream'] {
  const health = repairs.health();
  const { left, limit, lost, pausedForMs } = repairs.budget.left();
  const steadyToWall = clock.wall() - clock.steady();
  const iso = (wall: number) => new Date(wall).toISOString();
  const isoOrNull = (wall: number | null) => (wall === null ? null : iso(wall));
  return {
    configured: config.compliance !== null,
    origin: config.compliance?.baseUrl.origin ?? null,
    ok: health.ok,
    last_ok_at: isoOrNull(health.lastOkWall),
    last_error_at: isoOrNull(health.lastErrorWall),
    last_error: health.lastError,
    consecutive_failures: health.consecutiveFailures,
    waits_until: pausedForMs === 0 ? null : iso(clock.wall() + pausedForMs),
    budget_left: left,
    budget_per_minute: limit,
    budget_waits_for: lost.map(({ replica, places, until }) => ({
      replica,
      requests: places,
      until: iso(until + steadyToWall),
    })),
    skew_ms: repairs.skewMs(),
  };
}

/** What is known of our credentials without asking the API; null: there are none. */
async function credentialFacts({ config, repairs }: OperatorsOptions): Promise<CredentialFacts | null> {
  if (config.compliance === null) return null;
  const standing = await repairs.credentials?.standing?.();
  return {
    auth: config.compliance.auth,
    expiresAt: standing?.expiresWall ?? null,
    refusal: standing?.refusal ?? null,
  };
}

/** @throws UsageError without OPS_TOKENS on PostgreSQL: only beside a SQLite file can a token be made and kept. */
export function requireTokens(config: Config): void {
  if (config.ops.tokens.length > 0 || !isPostgres(config.databaseUrl)) return;
  throw new UsageError(
    "OPS_TOKENS: not set; with a PostgreSQL database every replica needs the same operators' tokens",
    'set it to name:role:token, for example olga:operate:$(openssl rand -hex 16)',
  );
}

function madeToken(config: Config, url: string) {
  const folder = dirname(resolve(sqlitePath(config.databaseUrl)));
  const made = loadOrCreateOpsToken(folder);
  return {
    tokens: [made],
    signIn: { link: signInLink(url, made.token), tokenFile: join(folder, OPS_TOKEN_FILE) },
  };
}

/** The store for operators. It wakes the backfill after a change that makes work. */
function operatorsStore({ store, rules, repairs }: OperatorsOptions): OpsContext['store'] {
  return {
    ...store,
    async retryEvent(id, at) {
      const tried = await store.retryEvent(id, rules, at);
      if (tried.outcome === 'processed') repairs.backfill?.wake();
      return tried;
    },
    async releaseQuarantined(id, at) {
      const done = await store.releaseQuarantined(id, at, rules.timing);
      if (done) repairs.backfill?.wake();
      return done;
    },
  };
}

function operatorsActions({ store, clock, repairs, state, replicas }: OperatorsOptions): OpsActions {
  const { backfill, leader } = repairs;
  const requestFullSync = async (kinds: readonly Kind[], reason: string) => {
    if (leader !== null) await leader.askForFullSync(kinds, reason);
    else backfill?.requestFullSync(kinds, reason);
  };
  return {
    requestFullSync,
    async refetch(kind, ids, actor) {
      // A policy has no address of its own: reading one is reading the list.
      if (kind === 'policy') await requestFullSync([kind], `operator:${actor}+refetch`);
      else await backfill?.refetch(kind, ids);
    },
    async dryRun(kind, signal) {
      if (backfill === null) throw new UsageError('there are no API credentials to compare with');
      return await backfill.dryRun(kind, signal);
    },
    async pause() {
      state.setPause(await beginPause(store, clock.wall()));
      replicas.notify('work');
    },
    async resume() {
      await endPause(store);
      state.setPause(null);
      replicas.notify('work');
    },
  };
}

/** Of a rejected delivery only the signature header is stored. */
const NO_HEADERS: ReadonlyMap<string, string> = new Map();
/** How many examinations may wait for the one under way. Each is an operator who looks at a page. */
const MAX_WAITING = 8;

/**
 * What `doctor` says of a rejected delivery; null: it is not stored. A stranger can send a body that takes a second to examine. So
 * examinations run one at a time, in slices between deliveries. `busy`: too many of them wait already.
 */
export function rejectionDiagnoses(
  config: Pick<Config, 'webhook' | 'credentialsKey'>,
  store: Pick<Store, 'show' | 'listRegistrations'>,
  clock: { wall(): number },
): (id: number) => Promise<RejectionDiagnosis | 'busy' | null> {
  const queue = new PQueue({ concurrency: 1 });
  const examine = async (id: number): Promise<RejectionDiagnosis | null> => {
    const rejection = await store.show('rejections', id);
    if (rejection === null) return null;
    const secrets = candidateSecrets(config, await store.listRegistrations(), clock.wall());
    const { causes, fit } = await inSlices(diagnoseRejection(rejection, secrets, config.webhook, NO_HEADERS));
    return { causes, fit };
  };
  return async (id) => (queue.size >= MAX_WAITING ? 'busy' : await queue.add(() => examine(id)));
}

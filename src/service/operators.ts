import { dirname, join, resolve } from 'node:path';
import { NOTHING_KNOWN } from '../backfill/health.ts';
import type { Kind } from '../compliance/kinds.ts';
import { type Address, send } from '../notify/message.ts';
import { createOps } from '../ops/app.ts';
import type { LiveFacts, OpsActions, OpsContext, RetriedDelivery } from '../ops/context.ts';
import { explained } from '../ops/problems.ts';
import { sessionsInMemory } from '../ops/sessions.ts';
import { createSnapshots } from '../ops/status.ts';
import { loadOrCreateOpsToken, OPS_TOKEN_FILE, signInLink } from '../ops/tokens.ts';
import { momentOf } from '../platform/clock.ts';
import type { Config } from '../platform/config.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import { version } from '../platform/package.ts';
import { parseEnvelope } from '../receive/envelope.ts';
import { isPostgres, sqlitePath } from '../store/open.ts';
import type { KindStatus } from '../store/reports.ts';
import type { Now, ProvisionalRules, Store } from '../store/store.ts';
import { createConfiguration, diagnosisOf } from './configuration.ts';
import type { DeliveryWatch } from './missed-deliveries.ts';
import type { Base } from './opening.ts';
import type { Repairs } from './repairs.ts';
import type { SigningSecrets } from './signing-secrets.ts';
import { PAUSED, type ServiceState } from './state.ts';
import type { WorkerLease } from './worker-lease.ts';

interface OperatorsOptions extends Base {
  state: ServiceState;
  repairs: Repairs;
  lease: WorkerLease;
  secrets: Pick<SigningSecrets, 'keys' | 'facts'>;
  watch: Pick<DeliveryWatch, 'unkeptSince'>;
  /** The address at which operators reach their listener. */
  operatorsUrl: string;
  /** The receiver's address as this machine reaches it. */
  receiverUrl: string;
  /** Aborts when the service drains. */
  signal: AbortSignal;
}

export type Operators = ReturnType<typeof createOperators>;

/** Makes the app of the operators' listener. The app imports no stage, so what operators may see and do is passed to it. */
export function createOperators(options: OperatorsOptions) {
  const { config, addresses, store, clock, metrics, logger, lines, lease } = options;
  const made = config.ops.tokens.length > 0 ? null : madeToken(config, options.operatorsUrl);
  const context: OpsContext = {
    addresses,
    store: operatorsStore(options),
    actions: operatorsActions(options),
    sessionStore: lease.isAlone ? sessionsInMemory() : store,
    facts: () => liveFacts(options),
    configuration: createConfiguration({ ...options, facts: () => liveFacts(options) }),
    diagnose: (rejected) => diagnosisOf(options, rejected),
    tokens: made === null ? () => config.ops.tokens : () => made.tokens,
    host: config.ops.host,
    publicUrl: config.ops.publicUrl,
    clock,
    metrics,
    logger,
    lines,
    signal: options.signal,
  };
  const snapshots = createSnapshots(context);
  return {
    app: createOps(context, snapshots),
    /** What NOTIFY_URL is told. */
    notices: {
      to: notifyAddress(options),
      async look() {
        const { problems, kinds } = (await snapshots.current()).status;
        return { problems, verdicts: verdictsOf(kinds) };
      },
      async show(id: number) {
        const row = await store.show('problems', id);
        return row && explained(row);
      },
    },
    /** The token that was made because OPS_TOKENS is not set; null: it is set. The link holds the token and must never be logged. */
    signIn: made?.signIn ?? null,
  };
}

const verdictsOf = (kinds: readonly KindStatus[]) =>
  Object.fromEntries(kinds.map(({ kind, verdict }) => [kind, verdict]));

/** Null: NOTIFY_URL is not set. */
function notifyAddress({
  config,
  operatorsUrl,
}: Pick<OperatorsOptions, 'config' | 'operatorsUrl'>): Address | null {
  const { url } = config.notify;
  return url && { url, version: version(), operators: operatorsUrl };
}

/** Facts about the running service that its database does not hold. */
function liveFacts(running: OperatorsOptions): LiveFacts {
  const { config, state, repairs, secrets, watch } = running;
  const { startedAt, phase, unwritableSince, databaseError } = state.facts();
  const { running: syncRuns } = repairs.known() ?? { running: [] };
  return {
    service: {
      version: version(),
      state: phase,
      started_at: new Date(startedAt).toISOString(),
      events_only: config.compliance === null,
      full_sync_seconds: config.sync.fullSyncMs / 1_000,
      notifies: config.notify.url !== null,
      secrets: secrets.facts(),
    },
    unwritableSince: unwritableSince ?? watch.unkeptSince(),
    databaseError,
    running: syncRuns.map((run) => ({
      id: run.id,
      kind: run.kind,
      pages: run.pages,
      seen: run.seen,
      estimated_total: run.estimatedTotal,
      started_at: new Date(run.startedWall).toISOString(),
    })),
    upstream: upstreamFacts(running),
  };
}

function upstreamFacts({ config, repairs, clock }: OperatorsOptions): LiveFacts['upstream'] {
  const known = repairs.known();
  const { health, skewMs } = known ?? { health: NOTHING_KNOWN, skewMs: null };
  const { left, limit, pausedForMs } = known?.budget ?? { left: 1, limit: 1, pausedForMs: 0 };
  const iso = (wall: number | null) => (wall === null ? null : new Date(wall).toISOString());
  return {
    configured: config.compliance !== null,
    origin: config.compliance?.baseUrl.origin ?? null,
    ok: health.ok,
    last_ok_at: iso(health.lastOkWall),
    last_error: health.lastError,
    consecutive_failures: health.consecutiveFailures,
    waits_until: pausedForMs === 0 ? null : iso(clock.wall() + pausedForMs),
    budget_left: left,
    budget_per_minute: limit,
    skew_ms: skewMs,
  };
}

/** @throws UsageError without OPS_TOKENS on PostgreSQL: only beside a SQLite file can a token be made and kept. */
export function requireTokens(config: Config): void {
  if (config.ops.tokens.length > 0 || !isPostgres(config.databaseUrl)) return;
  throw new UsageError(
    "OPS_TOKENS: not set; with a PostgreSQL database every process needs the same operators' tokens",
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
    async retryDelivery(id, at) {
      const tried = await retryDelivery(store, rules, id, at);
      if (tried.outcome === 'processed' || tried.outcome === 'accepted') repairs.backfill?.wake();
      return tried;
    },
    async dismissDelivery(id, at) {
      const done = await store.dismissDelivery(id, at, rules.timing);
      if (done) repairs.backfill?.wake();
      return done;
    },
  };
}

const NOTHING = { kind: null, recordId: null };

/** Processes a failed event again; takes a quarantined delivery as if it came now, if it is an event by the present settings. */
export async function retryDelivery(
  store: Pick<Store, 'show' | 'retryEvent' | 'acceptQuarantined'>,
  rules: ProvisionalRules,
  id: string,
  at: Now,
): Promise<RetriedDelivery> {
  const delivery = await store.show('deliveries', id);
  if (delivery === null || delivery.outcome === 'rejected') return { outcome: 'unknown' };
  const { outcome, state, body_base64, t, address } = delivery;
  if (outcome === 'accepted') return await store.retryEvent(id, rules, at);
  if (state !== null) return { outcome: 'other_state', state };
  if (body_base64 === null) return { outcome: 'trimmed' };
  const { pointers } = rules;
  const parsed = parseEnvelope(Buffer.from(body_base64, 'base64'), { pointers, t: t ?? '', address });
  if (!parsed.ok) return { outcome: 'failed', error: parsed.reason.replaceAll('_', ' ') };
  const taken = await store.acceptQuarantined(id, parsed.events, at, rules);
  if (taken === null) return { outcome: 'other_state', state: 'dismissed' };
  const [{ kind, recordId } = NOTHING, ...more] = parsed.events;
  if (more.length > 0) return { outcome: 'accepted', ...NOTHING };
  return { outcome: 'accepted', kind, recordId };
}

function operatorsActions(options: OperatorsOptions): OpsActions {
  const { store, clock, repairs, state, lease, signal } = options;
  const { backfill } = repairs;
  const requestFullSync = async (kinds: readonly Kind[], reason: string) =>
    await backfill?.requestFullSync(kinds, reason);
  return {
    requestFullSync,
    async refetch(kind, ids, actor) {
      // A policy has no address of its own: reading one is reading the list.
      if (kind === 'policy') await requestFullSync([kind], `operator:${actor}+refetch`);
      else await backfill?.refetch(kind, ids);
    },
    async find(about) {
      if (backfill === null) throw new MirrorError('events_only', 'there are no API credentials');
      return await backfill.find(about);
    },
    async pause() {
      const { openSince } = await store.standing(PAUSED);
      if (openSince === null) await store.openProblem(PAUSED, null, momentOf(clock));
      state.setPause(openSince ?? clock.wall());
      lease.notify('work');
    },
    async resume() {
      await store.endProblem(PAUSED, momentOf(clock));
      state.setPause(null);
      lease.notify('work');
    },
    async testNotification() {
      const to = notifyAddress(options);
      const { kinds } = await store.summary();
      return to && (await send(to, { what: 'test', problem: null, verdicts: verdictsOf(kinds) }, signal));
    },
  };
}

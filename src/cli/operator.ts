import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Kind } from '../compliance/kinds.ts';
import { APPROVAL_MS, digestOf, pendingBySyncRun } from '../ops/deletions.ts';
import { type RetriedAll, resolveGap, retryAllWithoutRecord, whyNot } from '../ops/operations.ts';
import { OPS_TOKEN_FILE } from '../ops/token-file.ts';
import type { Clock } from '../platform/clock.ts';
import { type Config, loadConfig } from '../platform/config.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import { beginPause, endPause, readPause } from '../service/pause.ts';
import { REPLICA_LIFE_MS } from '../service/replicas.ts';
import { PAGE_LIMIT_MAX } from '../store/reports.ts';
import type { Now, ProvisionalRules, Store } from '../store/store.ts';
import type { Cli } from './cli.ts';
import { databasePath, holderOfDatabase, withLockedStore, withStore } from './database.ts';
import { clockOf } from './local-clock.ts';
import { createOpsClient, type OpsClient } from './ops-client.ts';

/** What an operator may do from the shell, whether a service holds the database or not. */
export interface Operator {
  /** The service that does it, or null: it is done on the database directly. */
  service: OpsClient | null;
  /** A service runs on the database, and does what it is asked for. */
  isServed: boolean;
  /** False: no service runs, and it is what runs full syncs. */
  requestSyncRuns(kinds: readonly Kind[]): Promise<boolean>;
  /** Null: it was processed. Else why not, in a sentence. */
  retryEvent(id: string): Promise<string | null>;
  /** All failed events that name no record. */
  retryWithoutRecord(): Promise<RetriedAll>;
  discardEvent(id: string): Promise<boolean>;
  releaseQuarantined(id: number): Promise<boolean>;
  /** `done`, or why not, in a sentence; null: there is no such gap. */
  resolveGap(id: number): Promise<'done' | { whyNot: string } | null>;
  /** What waits for approval of what that full sync found; null: nothing does. */
  pendingDeletions(syncRunId: number): Promise<DeletionsToApprove | null>;
  /** Approves exactly these. Rejects when others wait by now. */
  approveDeletions(pending: DeletionsToApprove): Promise<string[]>;
  refetch(kind: Kind, ids: string[]): Promise<void>;
  /** Everything known of the kind: by a full sync of the service's, or noted as due for its next start. */
  refetchAll(kind: Kind): Promise<void>;
  setPaused(paused: boolean): Promise<void>;
  /** Paused, nothing that is asked for begins. */
  isPaused(): Promise<boolean>;
}

export interface DeletionsToApprove {
  syncRunId: number;
  ids: string[];
  /** Names exactly these ids. */
  digest: string;
}

/** In the audit, beside the names of tokens. */
const ACTOR = 'cli';

/**
 * Runs `work` with the hands that fit: with OPS_URL, through that listener, wherever it is; through the operators'
 * listener while a service holds the file, so that there is one writer and the service knows at once; otherwise on the
 * database itself, whose replicas, where it is PostgreSQL, are told of it there.
 */
export async function withOperator<T>(cli: Cli, work: (operator: Operator) => Promise<T>): Promise<T> {
  const config = loadConfig(cli.env);
  const service = await runningService(config);
  if (service !== null) return await work(remoteOperator(service));
  // A database that is not there would be made by opening it for writing; looking first says so instead.
  await withStore(cli, async () => {});
  return await withLockedStore(cli, async (store) => {
    const clock = await clockOf(store);
    return await work(localOperator(store, rulesOf(config), clock, (await livingReplicas(store, clock)) > 0));
  });
}

/** How many services share the database; 0 for a file, which one service holds. */
export async function livingReplicas(store: Store, clock: Clock): Promise<number> {
  if (store.engine === 'sqlite') return 0;
  return await store.countReplicas(REPLICA_LIFE_MS, { wall: clock.wall(), steady: clock.steady() });
}

/** The service that OPS_URL names, or else the one that holds the database; null: none does. */
export async function runningService(config: Config): Promise<OpsClient | null> {
  if (config.remote !== null) {
    const { url, token } = config.remote;
    return createOpsClient({ url: url.href, token: token() });
  }
  const holder = await holderOfDatabase(config.databaseUrl);
  if (holder === null) return null;
  if (holder.opsUrl === null) {
    throw new MirrorError('starting', `process ${holder.pid} holds the database and is not listening yet`, {
      retryable: true,
      remedy: 'try again in a moment',
    });
  }
  return createOpsClient({ url: holder.opsUrl, token: await operateToken(config) });
}

async function operateToken(config: Config): Promise<string> {
  const configured = config.ops.tokens.find((token) => token.role === 'operate');
  if (configured !== undefined) return configured.token;
  if (config.ops.tokens.length > 0) {
    throw new UsageError('OPS_TOKENS holds no token with the role "operate"', 'changes need one');
  }
  const path = join(dirname((await databasePath(config.databaseUrl)) ?? ''), OPS_TOKEN_FILE);
  if (!existsSync(path)) {
    throw new UsageError(
      `there is no operators' token: OPS_TOKENS is not set, and ${path} does not exist`,
      'set OPS_TOKENS to what the service was started with',
    );
  }
  return readFileSync(path, 'utf8').trim();
}

function remoteOperator(service: OpsClient): Operator {
  const wasDone = async (path: string) => (await service.postIfFound(path)) !== null;
  return {
    service,
    isServed: true,
    async requestSyncRuns(kinds) {
      await service.post('/api/sync-runs', { kinds });
      return true;
    },
    async retryEvent(id) {
      const answer = await service.postOrWhyNot(`/api/events/${encodeURIComponent(id)}/retry`);
      if (answer === null) return whyNot({ outcome: 'unknown' });
      return 'whyNot' in answer ? answer.whyNot : null;
    },
    retryWithoutRecord: async () =>
      (await service.postPatiently('/api/events/retry', { failed_for: 'no_record_id' })) as RetriedAll,
    discardEvent: (id) => wasDone(`/api/events/${encodeURIComponent(id)}/discard`),
    releaseQuarantined: (id) => wasDone(`/api/quarantine/${id}/release`),
    async resolveGap(id) {
      const answer = await service.postOrWhyNot(`/api/gaps/${id}/resolve`);
      return answer === null || 'whyNot' in answer ? answer : 'done';
    },
    pendingDeletions: (syncRunId) => pendingAfar(service, syncRunId),
    async approveDeletions({ digest }) {
      const answer = await service.post('/api/deletions/approve', { digest });
      return (answer as { ids: string[] }).ids;
    },
    async refetch(kind, ids) {
      for (const id of ids) {
        await service.post(`/api/records/${kind}/${encodeURIComponent(id)}/refetch`, {});
      }
    },
    async refetchAll(kind) {
      await service.post('/api/sync-runs', { kinds: [kind] });
    },
    async setPaused(paused) {
      await service.post(paused ? '/api/pause' : '/api/resume', {});
    },
    async isPaused() {
      const status = (await service.get('/api/status')) as { service: { paused: boolean } };
      return status.service.paused;
    },
  };
}

function rulesOf(config: Config): ProvisionalRules {
  return {
    pointers: config.idPointers,
    eventsOnly: config.compliance === null,
    toleranceMs: config.webhook.toleranceSeconds * 1000,
    timing: { settleMs: config.sync.settleMs },
  };
}

function localOperator(store: Store, rules: ProvisionalRules, clock: Clock, isServed: boolean): Operator {
  const { timing } = rules;
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });
  const audit = (action: string, outcome: string, target: string | null) =>
    store.audit({ actor: ACTOR, action, outcome, target }, now());
  async function audited(action: string, target: string, act: () => Promise<boolean>): Promise<boolean> {
    const done = await act();
    await audit(action, done ? 'ok' : 'not_possible', target);
    for (const notice of ['events', 'work'] as const) await store.notify(notice);
    return done;
  }
  return {
    service: null,
    isServed,
    async requestSyncRuns(kinds) {
      if (!isServed) return false;
      await store.requestSyncRuns(kinds, `operator:${ACTOR}`, now());
      await audit('sync', 'ok', kinds.join(','));
      await store.notify('work');
      return true;
    },
    async retryEvent(id) {
      const tried = await store.retryEvent(id, rules, now());
      await audited('event_retry', id, async () => tried.outcome === 'processed');
      return tried.outcome === 'processed' ? null : whyNot(tried);
    },
    async retryWithoutRecord() {
      const retryEvent = (id: string, at: Now) => store.retryEvent(id, rules, at);
      const all = await retryAllWithoutRecord({ ...store, retryEvent }, now);
      await audited('events_retry', 'no_record_id', async () => all.failed === 0);
      return all;
    },
    discardEvent: (id) => audited('event_discard', id, () => store.discardEvent(id, now())),
    releaseQuarantined: (id) =>
      audited('quarantine_release', String(id), () => store.releaseQuarantined(id, now(), timing)),
    async resolveGap(id) {
      const done = await resolveGap(store, id, rules.eventsOnly, now());
      await audited('gap_resolve', String(id), async () => done.status === 'done');
      if (done.status === 'missing') return null;
      return done.status === 'done' ? 'done' : { whyNot: done.detail };
    },
    async pendingDeletions(syncRunId) {
      const [pending] = await pendingBySyncRun(store, clock.wall(), syncRunId);
      return pending === undefined || pending.digest === null ? null : { ...pending, digest: pending.digest };
    },
    async approveDeletions({ syncRunId, digest }) {
      const [pending] = await pendingBySyncRun(store, clock.wall(), syncRunId);
      if (pending?.digest !== digest) throw deletionsChanged(syncRunId);
      const until = clock.wall() + APPROVAL_MS;
      const { kind, ids } = await store.approveDeletions(syncRunId, until, pending.ids);
      // An approval deletes nothing by itself; a service that starts later runs full syncs anyway.
      if (isServed) await store.requestSyncRuns([kind], `approval:${syncRunId}`, now());
      await store.notify('work');
      await audit(
        'approve_deletions',
        ids.length > 0 ? `ok:${ids.length}` : 'not_possible',
        String(syncRunId),
      );
      return ids;
    },
    async refetch(kind, ids) {
      await store.makeDue(kind, ids, now());
      for (const id of ids) await audit('refetch', 'ok', `${kind}/${id}`);
      await store.notify('work');
    },
    async refetchAll(kind) {
      let after: string | undefined;
      do {
        const records = await store.listRecords(kind, {}, { limit: PAGE_LIMIT_MAX, after });
        const ids = records.map(({ id }) => id);
        await store.makeDue(kind, ids, now());
        after = ids.length < PAGE_LIMIT_MAX ? undefined : ids.at(-1);
      } while (after !== undefined);
      await audit('refetch', 'ok', kind);
      await store.notify('work');
    },
    async setPaused(paused) {
      if (paused) await beginPause(store, clock.wall());
      else await endPause(store);
      await audit(paused ? 'pause' : 'resume', 'ok', null);
      await store.notify('work');
    },
    isPaused: async () => (await readPause(store)) !== null,
  };
}

export const deletionsChanged = (syncRunId: number): MirrorError =>
  new MirrorError('deletions_changed', 'the pending deletions have changed since they were shown', {
    remedy: `look at them again: deletions approve ${syncRunId}`,
  });

/** The digest is of the first page that is read: what changes after it is rejected with it. */
async function pendingAfar(service: OpsClient, syncRunId: number): Promise<DeletionsToApprove | null> {
  let digest: string | null = null;
  const ids: string[] = [];
  for (let after: string | null = null; ; ) {
    const query: Record<string, string> = { sync_run: String(syncRunId), limit: String(PAGE_LIMIT_MAX) };
    if (after !== null) query['after'] = after;
    const page = (await service.get(`/api/deletions?${new URLSearchParams(query)}`)) as DeletionsAnswer;
    digest ??= page.sync_runs[0]?.digest ?? null;
    if (digest === null) return null;
    const now = Date.now();
    const waiting = page.items.filter((item) => !(Date.parse(item.approved_until ?? '') > now));
    ids.push(...waiting.map((item) => item.id));
    if (page.next === null) {
      // Asked page by page, and judged by two clocks: what is approved is what was shown, or nothing.
      if (digestOf(page.sync_runs[0]!.kind, ids) !== digest) throw deletionsChanged(syncRunId);
      return { syncRunId, ids, digest };
    }
    after = page.next;
  }
}

interface DeletionsAnswer {
  sync_runs: { kind: Kind; digest: string | null }[];
  items: { id: string; approved_until: string | null }[];
  next: string | null;
}

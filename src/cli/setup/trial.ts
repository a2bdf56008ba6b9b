import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { existsSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { RECEIVER_PATH } from '../../compliance/registration.ts';
import type { Config } from '../../platform/config.ts';
import type { Service } from '../../service/service.ts';
import type { KindStatus, StoreSummary } from '../../store/reports.ts';
import { databasePath, holderOfDatabase, withStore } from '../database.ts';
import { commandOf, type Talk } from './talk.ts';

/** The mirror that runs during setup: our own service, or one that already holds the database. */
export interface Trial {
  /** Null: another process serves the database, and takes new settings when it is started again. */
  service(): Service | null;
  /** Full syncs up to this number ran before this setup; null: that does not matter. */
  syncsBefore: number | null;
  /** Headers of the newest delivery as "Name: value"; none if another process serves. */
  lastHeaders(): string[];
  /** Restarts it with the draft's present settings. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** Node's diagnostics channel that announces every request before it is read. */
const REQUESTS = 'http.server.request.start';

/** Starts the mirror with the draft's settings. Its budget is smaller by the requests that setup has sent. */
export async function startTrial(talk: Talk): Promise<Trial> {
  const { draft, say, sent, signal, clock } = talk;
  const { databaseUrl } = draft.config();
  if ((await holderOfDatabase(databaseUrl)) !== null) {
    say('\nA service runs on this database already, and is made use of.');
    const nothing = async () => undefined;
    return { service: () => null, syncsBefore: null, lastHeaders: () => [], restart: nothing, stop: nothing };
  }
  // Imported only here: short commands must not load a web server.
  const { createLogger } = await import('../../platform/logger.ts');
  const { startService } = await import('../../service/service.ts');
  // On PostgreSQL replicas share the work, so a full sync of any replica counts.
  const path = await databasePath(databaseUrl);
  const syncsBefore = path === null ? null : existsSync(path) ? await newestSync(talk) : 0;
  // A stored rejection has only the configured signature header. The signature may be in another header.
  let headers: string[] = [];
  const note = (message: unknown) => {
    const { request } = message as { request: IncomingMessage };
    if (request.method !== 'POST' || request.url?.split('?')[0] !== RECEIVER_PATH) return;
    headers = Object.entries(request.headersDistinct).flatMap(([name, values]) =>
      (values ?? []).map((value) => `${name}: ${value}`),
    );
  };
  const start = () =>
    startService({
      config: withSmallerBudget(draft.config(), sent),
      // Setup itself prints what matters.
      logger: createLogger({ level: 'silent', destination: { write: () => undefined } }),
      signal,
      clock,
    });
  let service = await start();
  subscribe(REQUESTS, note);
  const address = `${service.receiverUrl}${RECEIVER_PATH}`;
  say(`\nThe mirror runs for the time of this setup; deliveries are taken at ${address}.`);
  return {
    service: () => service,
    syncsBefore,
    lastHeaders: () => headers,
    async restart() {
      await service.stop();
      service = await start();
    },
    async stop() {
      unsubscribe(REQUESTS, note);
      await service.stop();
    },
  };
}

function withSmallerBudget(config: Config, sent: number): Config {
  if (config.compliance === null) return config;
  const requestsPerMinute = Math.max(1, config.compliance.requestsPerMinute - sent);
  // Not a copy: the getters, which read the secrets' files again, would be lost.
  return Object.create(config, {
    compliance: { value: { ...config.compliance, requestsPerMinute }, enumerable: true },
  }) as Config;
}

async function newestSync(talk: Talk): Promise<number> {
  const [newest] = await withStore(commandOf(talk), 'read', (store) => store.list('sync_runs', { limit: 1 }));
  return newest?.id ?? 0;
}

export interface KindsSeen {
  summary: StoreSummary;
  /** Kinds that a full sync of this setup has read and that are in sync, or have only new changes outstanding. */
  verified: KindStatus[];
}

/** How many of the newest sync runs are searched for a complete one of each kind. */
const NEWEST_SYNCS = 100;

/** `since` (ISO 8601): later changes may be outstanding, for services in which something always changes; null: nothing may be. */
export async function kindsSeen(
  talk: Talk,
  { syncsBefore }: Trial,
  since: string | null,
): Promise<KindsSeen> {
  return await withStore(commandOf(talk), 'read', async (store) => {
    const summary = await store.summary();
    const syncs = await store.list('sync_runs', { limit: NEWEST_SYNCS });
    const isRead = (kind: string) =>
      syncsBefore === null ||
      syncs.some((sync) => sync.id > syncsBefore && sync.kind === kind && sync.outcome === 'complete');
    const isInSync = (each: KindStatus) =>
      each.verdict === 'in_sync' || (since !== null && isKeepingUp(each, since));
    return { summary, verified: summary.kinds.filter((each) => isRead(each.kind) && isInSync(each)) };
  });
}

/** Whether everything that was outstanding at `since` has been read, and only new changes of known records are outstanding. Pure. */
export function isKeepingUp(
  {
    verdict,
    readable_since,
    open_gaps,
    records,
    verified,
    unverified,
    oldest_unverified_at: oldest,
  }: KindStatus,
  since: string,
): boolean {
  if (verdict !== 'catching_up' || readable_since === null || open_gaps > 0) return false;
  // An assessment that only an event has named has no row yet, and must be read once.
  const haveAllRows = unverified <= records - verified;
  return unverified === 0 || (haveAllRows && oldest !== null && oldest > since);
}

/** Between two calls of `look`. Milliseconds. */
const LOOK_EVERY_MS = 250;

/** Calls `look` until it resolves with something, time is up, or the person presses Enter. */
export async function waitUntil<T>(
  { asker, signal }: Talk,
  trial: Trial,
  waitMs: number,
  look: () => Promise<T | null>,
): Promise<T | 'late' | 'skipped'> {
  const failed = trial.service()?.failed ?? new Promise<never>(() => undefined);
  const until = performance.now() + waitMs;
  const ended = new AbortController();
  let isSkipped = false;
  const skip = asker.enter(ended.signal).then(() => {
    isSkipped = true;
  });
  try {
    for (;;) {
      signal.throwIfAborted();
      const seen = await look();
      if (seen !== null) return seen;
      if (isSkipped) return 'skipped';
      if (performance.now() >= until) return 'late';
      await Promise.race([sleep(LOOK_EVERY_MS), skip, failed]);
    }
  } finally {
    ended.abort();
  }
}

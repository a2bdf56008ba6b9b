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
  /** Full syncs up to this number are older than this setup; null: the age does not matter. */
  syncsBefore: number | null;
  /** The newest delivery's, each as "Name: value"; none where another process serves. */
  lastHeaders(): string[];
  /** Restarts it with the draft's present settings. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** A channel of Node's own, which tells of every request before it is read. */
const REQUESTS = 'http.server.request.start';

/**
 * Starts it with the draft's settings. Its budget is smaller by the requests that setup has sent, so that both together stay within
 * COMPLIANCE_REQUESTS_PER_MINUTE.
 */
export async function startTrial(talk: Talk): Promise<Trial> {
  const { draft, say, sent, signal, clock } = talk;
  const { databaseUrl } = draft.config();
  if ((await holderOfDatabase(databaseUrl)) !== null) {
    say('\nA service runs on this database already, and is made use of.');
    const nothing = async () => undefined;
    return { service: () => null, syncsBefore: null, lastHeaders: () => [], restart: nothing, stop: nothing };
  }
  // Here and not above: the short commands should not load a web server each time.
  const { createLogger } = await import('../../platform/logger.ts');
  const { startService } = await import('../../service/service.ts');
  // On a server's database replicas share the work, so any replica's full sync counts.
  const path = await databasePath(databaseUrl);
  const syncsBefore = path === null ? null : existsSync(path) ? await newestSync(talk) : 0;
  // A rejection keeps only the signature header, which may have another name than the one that is set.
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
      ...(clock === undefined ? {} : { clock }),
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
  // Not a copy, which would lose the getters that follow the secrets' files.
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
  /** Kinds in sync, by a full sync of this setup where that is known, or with nothing outstanding but what is new. */
  verified: KindStatus[];
}

/** Syncs that may be newer than the last complete one of a kind; each ends within seconds or is the newest. */
const NEWEST_SYNCS = 100;

/**
 * `since`: ISO 8601; of a service in which something always changes, only what changed after it may be outstanding; null:
 * nothing may.
 */
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

/** Everything that was outstanding at `since` has been read, and nothing but new changes of what was read is. Pure. */
export function isKeepingUp(
  status: Pick<
    KindStatus,
    | ('verdict' | 'readable_since' | 'open_gaps')
    | ('records' | 'verified' | 'unverified' | 'oldest_unverified_at')
  >,
  since: string,
): boolean {
  const { records, verified, unverified, oldest_unverified_at: oldest } = status;
  if (status.verdict !== 'catching_up' || status.readable_since === null || status.open_gaps > 0)
    return false;
  // An assessment that only an event has named has no row yet, and must be read once.
  const haveAllRows = unverified <= records - verified;
  return unverified === 0 || (haveAllRows && oldest !== null && oldest > since);
}

/** How often what is waited for is looked at. Milliseconds. */
const LOOK_EVERY_MS = 250;

/** Looks until `look` has something, time is over, or the person goes on without. */
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

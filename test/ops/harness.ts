import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import type { Kind } from '../../src/compliance/kinds.ts';
import { createOps } from '../../src/ops/app.ts';
import type { LiveFacts, OpsActions, OpsContext } from '../../src/ops/context.ts';
import { sessionsInMemory } from '../../src/ops/sessions.ts';
import { createAddresses } from '../../src/platform/addresses.ts';
import { type Clock, systemClock } from '../../src/platform/clock.ts';
import type { OpsToken } from '../../src/platform/config.ts';
import { createLogLimit } from '../../src/platform/log-limit.ts';
import { createMetrics } from '../../src/platform/metrics.ts';
import { retryDelivery } from '../../src/service/operators.ts';
import { openStore } from '../../src/store/open.ts';
import type { IncomingEvent, Now, Store } from '../../src/store/store.ts';

const POINTERS = { policy: ['policyId', 'id'], risk_assessment: ['id'], vendor: ['id'] };

export const OPERATE = 'operate-token-of-the-tests-of-thirt';
export const READ = 'read-token-of-the-tests-too-of-thirt';
const TOKENS: readonly OpsToken[] = [
  { name: 'olga', role: 'operate', token: OPERATE },
  { name: 'rita', role: 'read', token: READ },
];
export const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

export const NOTHING_SYNCED = { pages: 0, seen: 0, inserted: 0, updated: 0, deleted: 0, unchanged: 0 };

function liveFacts(over: Partial<LiveFacts> = {}): LiveFacts {
  return {
    service: {
      version: '0.1.0',
      state: 'running',
      started_at: new Date(Date.now() - 3_600_000).toISOString(),
      events_only: false,
      full_sync_seconds: 3_600,
      notifies: false,
      secrets: [{ position: 1, registration: null, last_used_at: null }],
    },
    unwritableSince: null,
    databaseError: null,
    running: [],
    upstream: {
      configured: true,
      origin: 'https://compliance.example',
      ok: true,
      last_ok_at: new Date().toISOString(),
      last_error: null,
      consecutive_failures: 0,
      budget_left: 48,
      budget_per_minute: 60,
      waits_until: null,
      skew_ms: 120,
    },
    ...over,
  };
}

export interface Harness {
  app: ReturnType<typeof createOps>;
  context: OpsContext;
  store: Store;
  /** Its file. */
  database: string;
  /** Whatever the service was asked to do, in order. */
  asked: string[];
  live: LiveFacts;
  /** The place that the API proves if it is asked for what looks like an id. */
  proven: { path: string | null };
  /** Puts deletions on hold, as a full sync that proved too many does. Returns the full sync's id. */
  hold(kind: Kind, ids: readonly string[]): Promise<number>;
  mirror(kind: Kind, id: string, data: Record<string, unknown>): Promise<void>;
  now(): Now;
  abort: AbortController;
  close(): Promise<void>;
}

/** The operators' listener over a real SQLite file; the rest of the service is only what `live` says. */
export async function opsHarness(
  over: { clock?: Clock; publicUrl?: URL | null; tokens?: OpsContext['tokens'] } = {},
): Promise<Harness> {
  const dir = mkdtempSync(join(tmpdir(), 'ops-'));
  const database = join(dir, 'mirror.db');
  const store = await openStore(`file:${database}`);
  const clock = over.clock ?? systemClock();
  const abort = new AbortController();
  const asked: string[] = [];
  const live = liveFacts();
  const proven = { path: null as string | null };
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });
  const actions: OpsActions = {
    async requestFullSync(kinds, reason) {
      asked.push(`sync ${kinds.join(',')} ${reason}`);
    },
    async refetch(kind, ids) {
      asked.push(`refetch ${kind} ${ids.join(',')}`);
    },
    async find({ kind, recordId }) {
      asked.push(`find ${kind} ${recordId}`);
      if (proven.path === null) return { pointer: null, retried: 0, says: 'No place was proven.' };
      const pointer = { kind, path: proven.path, leads: false, eventId: 'evt', recordId: 'ra_1' };
      return { pointer, retried: 2, says: `${proven.path} holds the id.` };
    },
    async pause() {
      await store.openProblem({ reason: 'paused', kind: null, recordId: null }, null, now());
      asked.push('pause');
    },
    async resume() {
      await store.endProblem({ reason: 'paused', kind: null, recordId: null }, now());
      asked.push('resume');
    },
    async testNotification() {
      asked.push('notify-test');
      return null;
    },
  };
  const mirror = async (kind: Kind, id: string, data: Record<string, unknown>) => {
    const { wall, steady } = now();
    await store.applyReads(
      kind,
      [{ id, json: JSON.stringify({ id, ...data }) }],
      { number: await store.currentNumber(), beganAt: steady, endedAt: steady, endedWall: wall },
      {
        cause: { cause: 'sync', causeId: '1' },
        syncRunId: null,
        timing: { settleMs: 10_000 },
        pointers: POINTERS,
      },
    );
  };
  await store.beat(now(), {
    eventsOnly: false,
    settleMs: 10_000,
    fullSyncMs: 3_600_000,
    unreachable: false,
    access: 'key',
  });
  /** Records whose deletion waits for a person. Returns the problem. */
  const hold = async (kind: Kind, ids: readonly string[]) => {
    for (const id of ids) await mirror(kind, id, { name: id });
    const fullSync = await store.startSyncRun(kind, 'test', now());
    await store.concludeDeletions(
      kind,
      { absent: ids, number: fullSync.number, beganAt: now().steady },
      {
        cause: { cause: 'sync', causeId: String(fullSync.id) },
        unannounced: null,
        guardPercent: 20,
        timing: { settleMs: 0 },
      },
      now(),
    );
    return (
      await store.list('problems', { open: true, reasons: ['pending_deletions'], limit: 9 })
    ).items.find((problem) => problem.kind === kind)!.id;
  };
  const rules = {
    pointers: POINTERS,
    eventsOnly: false,
    toleranceMs: 300_000,
    guardPercent: 20,
    timing: { settleMs: 10_000 },
  };
  const context: OpsContext = {
    addresses: createAddresses(null),
    sessionStore: sessionsInMemory(),
    store: {
      ...store,
      retryDelivery: (id, at) => retryDelivery(store, rules, id, at),
      dismissDelivery: (id, at) => store.dismissDelivery(id, at, rules.timing),
    },
    actions,
    facts: () => ({ ...live }),
    diagnose: async () => ({ causes: [], fit: null }),
    configuration: async () => ({
      version: '1',
      started_at: '2026-11-02T12:00:00Z',
      folder: '/',
      salt: null,
      settings: [],
      findings: [],
    }),
    tokens: over.tokens ?? (() => TOKENS),
    host: '127.0.0.1',
    publicUrl: over.publicUrl ?? null,
    clock,
    metrics: createMetrics(),
    logger: pino({ level: 'silent' }),
    lines: createLogLimit(clock),
    signal: abort.signal,
  };
  return {
    app: createOps(context),
    context,
    store,
    database,
    asked,
    live,
    proven,
    hold,
    mirror,
    now,
    abort,
    async close() {
      abort.abort();
      await store.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export function incoming(over: Partial<IncomingEvent> = {}): IncomingEvent {
  const id = over.id ?? 'evt_1';
  const created = '2026-11-01T12:00:00Z';
  return {
    id,
    type: 'policy.updated',
    created,
    createdMs: Date.parse(created),
    kind: 'policy',
    recordId: 'pol_1',
    known: true,
    body: JSON.stringify({
      id,
      type: 'policy.updated',
      created,
      data: { policyId: 'pol_1', name: 'Access' },
    }),
    t: '1793534400',
    ...over,
  };
}

/** Signs in through the form and returns the cookie. */
export async function signIn(
  app: Harness['app'],
  token: string,
  origin = 'http://localhost',
): Promise<{ cookie: string; response: Response }> {
  const response = await app.request(`${origin}/sign-in`, {
    method: 'POST',
    headers: { origin, 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ token }),
  });
  const cookie = (response.headers.get('set-cookie') ?? '').split(';')[0]!;
  return { cookie, response };
}

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import type { Kind } from '../../src/compliance/kinds.ts';
import { createOps } from '../../src/ops/app.ts';
import type { LiveFacts, OpsActions, OpsContext } from '../../src/ops/context.ts';
import { sessionsInMemory } from '../../src/ops/sessions.ts';
import { noDeliveries } from '../../src/ops/traffic.ts';
import { createAddresses } from '../../src/platform/addresses.ts';
import { type Clock, systemClock } from '../../src/platform/clock.ts';
import type { OpsToken } from '../../src/platform/config.ts';
import { createLogLimit } from '../../src/platform/log-limit.ts';
import { createMetrics } from '../../src/platform/metrics.ts';
import { openStore } from '../../src/store/open.ts';
import type { IncomingEvent, Now, Store } from '../../src/store/store.ts';

const POINTERS = { policy: ['policyId', 'id'], risk_assessment: ['id'], vendor: ['id'] };

export const OPERATE = 'operate-token-of-the-tests';
export const READ = 'read-token-of-the-tests-too';
const TOKENS: readonly OpsToken[] = [
  { name: 'olga', role: 'operate', token: OPERATE },
  { name: 'rita', role: 'read', token: READ },
];
export const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

export const NOTHING_SYNCED = { pages: 0, seen: 0, inserted: 0, updated: 0, deleted: 0, unchanged: 0 };

export function liveFacts(over: Partial<LiveFacts> = {}): LiveFacts {
  return {
    version: '0.1.0',
    startedAt: Date.now() - 3_600_000,
    state: 'running',
    pausedSince: null,
    unwritableSince: null,
    databaseError: null,
    eventsOnly: false,
    rejectsSignatures: false,
    untimelySince: null,
    lacksCredentials: false,
    secrets: [{ position: 1, registration: null, lastUsedAt: null }],
    settleMs: 10_000,
    fullSyncMs: 3_600_000,
    silenceMs: 86_400_000,
    runningSyncRuns: [],
    upstream: {
      configured: true,
      origin: 'https://compliance.example',
      ok: true,
      last_ok_at: new Date().toISOString(),
      last_error_at: null,
      last_error: null,
      consecutive_failures: 0,
      budget_left: 48,
      budget_per_minute: 60,
      budget_waits_for: [],
      waits_until: null,
      skew_ms: 120,
    },
    unreachableSince: null,
    idPointers: POINTERS,
    deliveries: {
      last_minute: noDeliveries(),
      last_hour: noDeliveries(),
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
  const actions: OpsActions = {
    async requestFullSync(kinds, reason) {
      asked.push(`sync ${kinds.join(',')} ${reason}`);
    },
    async refetch(kind, ids) {
      asked.push(`refetch ${kind} ${ids.join(',')}`);
    },
    async dryRun(kind) {
      asked.push(`dry run ${kind}`);
      return { missing: 0, extra: 0, different: 0, repaired: 0, fields: {}, examples: [], incomplete: null };
    },
    async pause() {
      live.pausedSince = clock.wall();
      asked.push('pause');
    },
    async resume() {
      live.pausedSince = null;
      asked.push('resume');
    },
  };
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });
  const mirror = async (kind: Kind, id: string, data: Record<string, unknown>) => {
    const { wall, steady } = now();
    await store.applyReads(
      kind,
      [{ id, data: { id, ...data } }],
      { number: await store.currentNumber(), beganAt: steady, endedAt: steady, endedWall: wall },
      { cause: 'sync:1', syncRunId: null, timing: { settleMs: 10_000 }, pointers: POINTERS },
    );
  };
  const hold = async (kind: Kind, ids: readonly string[]) => {
    for (const id of ids) await mirror(kind, id, { name: id });
    const fullSync = await store.startSyncRun(kind, 'test', now());
    await store.concludeDeletions(
      kind,
      { absent: ids, number: fullSync.number },
      { cause: `sync:${fullSync.id}`, syncRunId: fullSync.id, unannounced: null },
      now(),
    );
    return fullSync.id;
  };
  const rules = { pointers: POINTERS, eventsOnly: false, toleranceMs: 300_000, timing: { settleMs: 10_000 } };
  const context: OpsContext = {
    addresses: createAddresses(null),
    prove: () => undefined,
    sessionStore: sessionsInMemory(),
    store: {
      ...store,
      retryEvent: (id, at) => store.retryEvent(id, rules, at),
      releaseQuarantined: (id, at) => store.releaseQuarantined(id, at, rules.timing),
    },
    actions,
    facts: () => ({ ...live }),
    credentials: async () => ({ auth: 'api_key', expiresAt: null, refusal: null }),
    traffic: (since) => store.listTraffic(since),
    answerTimes: { of: () => null },
    diagnose: async () => ({ causes: [], fit: null }),
    tokens: over.tokens ?? (() => TOKENS),
    host: '127.0.0.1',
    publicUrl: over.publicUrl ?? null,
    receiver: { url: 'http://127.0.0.1:8080/webhooks', signatureHeader: 'x-webhook-signature' },
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

/** Signs in through the form and returns the cookie and the CSRF token of its forms. */
export async function signIn(
  app: Harness['app'],
  token: string,
  origin = 'http://localhost',
): Promise<{ cookie: string; csrf: string; response: Response }> {
  const response = await app.request(`${origin}/sign-in`, {
    method: 'POST',
    headers: { origin, 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ token }),
  });
  const cookie = (response.headers.get('set-cookie') ?? '').split(';')[0]!;
  const page = await app.request(`${origin}/`, { headers: { cookie } });
  const csrf = /name="csrf" value="([^"]+)"/.exec(await page.text())?.[1] ?? '';
  return { cookie, csrf, response };
}

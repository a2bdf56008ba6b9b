import { randomUUID } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import pino from 'pino';
import { loadConfig } from '../../src/platform/config.ts';
import { type Service, startService } from '../../src/service/service.ts';
import {
  API_KEY,
  type IndependentUpstream,
  startIndependentUpstream,
} from '../support/independent-upstream.ts';
import { fill, type Resource, type UpstreamRecord } from '../support/independent-upstream-records.ts';
import {
  createSender,
  type EventType,
  eventAbout,
  type OutgoingEvent,
  SIGNING_SECRET,
  signature,
} from '../support/independent-upstream-sender.ts';
import { asOfLastHeartbeat } from '../support/simulated-now.ts';
import { type Comparison, compare } from './compare.ts';
import { LeapingClock } from './leaping-clock.ts';

const OPS_TOKEN = 'convergence-operator-0123456789-of-thirt';

export interface ProblemSeen {
  id: number;
  reason: string;
  kind: string | null;
  record_id: string | null;
  resolved_at: string | null;
  needs: 'you' | 'time';
  times: number;
  error: string | null;
  digest: string;
}

/** The whole service in this process, over real HTTP and a real file, with time that can leap. */
export interface Stage {
  upstream: IndependentUpstream;
  clock: LeapingClock;
  database: string;
  start(): Promise<void>;
  stop(): Promise<void>;
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body?: object): Promise<T>;
  /** The status of one delivery, signed by the stage's clock unless a header is given. */
  deliver(event: OutgoingEvent, header?: string): Promise<number | null>;
  /** Delivers an event that is made now, by the stage's clock: the machine's may soon be so far behind that it counts as an old one. */
  tell(type: EventType, resource: Resource, record: UpstreamRecord): Promise<number | null>;
  /** An event of an update to a vendor, as it is upstream. */
  touchVendor(id: string): OutgoingEvent;
  /** Of each kind, as of the last heartbeat. `/api/status` asks the database's own time, for which the leaps are soon too far ahead. */
  verdicts(): Record<string, string>;
  /** Every problem there ever was, newest first. */
  problems(): Promise<ProblemSeen[]>;
  /** Lets time leap until `look` finds something; rejects after a while of real time. */
  leapUntil<T>(
    what: string,
    look: () => Promise<T | null | false> | T | null | false,
    stepMs?: number,
  ): Promise<T>;
  compare(): Comparison;
  /** Time's wall clock in seconds, for a signature. */
  seconds(): number;
  end(): Promise<void>;
}

/** Ends a test that hangs, and no other: what is waited for takes a second or two on a machine that is not busy. */
const PATIENCE_MS = 60_000;
/** Then whoever a leap has woken has asked for what it wants. */
const BETWEEN_LOOKS_MS = 5;

/** What is asked of this address in this process, and not yet answered. */
function requestsTo(address: string): { underWay(): number; forget(): void } {
  const { origin } = new URL(address);
  const asked = new Set<object>();
  const began = (message: unknown) => {
    const { request } = message as { request: { origin: string } };
    if (request.origin === origin) asked.add(request);
  };
  const ended = (message: unknown) => void asked.delete((message as { request: object }).request);
  const listeners = [
    ['undici:request:create', began],
    ['undici:request:trailers', ended],
    ['undici:request:error', ended],
  ] as const;
  for (const [name, listener] of listeners) subscribe(name, listener);
  return {
    underWay: () => asked.size,
    forget() {
      for (const [name, listener] of listeners) unsubscribe(name, listener);
    },
  };
}

/** Of one file, which is opened and whose view is planned once: they are asked for between any two leaps. */
function lookAtVerdicts(database: string): { verdicts(): Record<string, string>; close(): void } {
  const db = new Database(database, { readonly: true });
  const asOfNow = asOfLastHeartbeat(db);
  const verdicts = db.prepare('SELECT kind, verdict FROM sync_status').raw();
  return {
    verdicts() {
      asOfNow();
      return Object.fromEntries(verdicts.all() as [string, string][]);
    },
    close: () => void db.close(),
  };
}

export async function createStage(settings: Readonly<Record<string, string>> = {}): Promise<Stage> {
  const upstream = await startIndependentUpstream();
  fill(upstream.records, { policies: 30, assessments: 0, vendors: 12 });
  const requests = requestsTo(settings['COMPLIANCE_BASE_URL'] ?? upstream.baseUrl);
  const clock = new LeapingClock();
  const directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-convergence-'));
  const url = settings['DATABASE_URL'] ?? `file:${join(directory, 'mirror.db')}`;
  const database = url.slice('file:'.length);
  const config = loadConfig({
    PORT: '0',
    OPS_PORT: '0',
    OPS_TOKENS: `tester:operate:${OPS_TOKEN}`,
    DATABASE_URL: url,
    WEBHOOK_SECRETS: SIGNING_SECRET,
    COMPLIANCE_BASE_URL: upstream.baseUrl,
    COMPLIANCE_API_KEY: API_KEY,
    COMPLIANCE_REQUESTS_PER_MINUTE: '6000',
    SYNC_SETTLE_SECONDS: '1',
    ...settings,
  });
  let service: Service | null = null;
  let looking: ReturnType<typeof lookAtVerdicts> | null = null;

  async function ask<T>(path: string, body?: object): Promise<T> {
    const response = await fetch(`${service?.opsUrl}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${OPS_TOKEN}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${text}`);
    return (text.startsWith('{') ? JSON.parse(text) : text) as T;
  }

  const eventNow = (type: EventType, resource: Resource, record: UpstreamRecord) =>
    eventAbout(type, resource, record, randomUUID(), clock.wall());

  async function stop(): Promise<void> {
    const stopping = service;
    service = null;
    // Another file may take its place.
    looking?.close();
    looking = null;
    await stopping?.stop();
  }

  const stage: Stage = {
    upstream,
    clock,
    database,
    stop,
    async start() {
      service = await startService({ config, clock, logger: pino({ level: 'silent' }) });
    },
    get: (path) => ask(path),
    post: (path, body = {}) => ask(path, body),
    async deliver(event, header) {
      const sender = createSender(`${service?.receiverUrl}/webhooks`, 1);
      const status = await sender.attempt(event, header ?? signature(event.body, { t: stage.seconds() }));
      sender.close();
      return status;
    },
    tell: (...about) => stage.deliver(eventNow(...about)),
    touchVendor(id) {
      const record = { ...upstream.records.find('vendors', id)!, name: `Renamed at ${clock.steady()}` };
      upstream.records.put('vendors', record);
      return eventNow('vendor.updated', 'vendors', record);
    },
    verdicts() {
      looking ??= lookAtVerdicts(database);
      return looking.verdicts();
    },
    problems: async () =>
      (await stage.get<{ items: ProblemSeen[] }>('/api/problems?state=all&limit=500')).items,
    async leapUntil(what, look, stepMs = 1_000) {
      const until = performance.now() + PATIENCE_MS;
      while (performance.now() < until) {
        const found = await look();
        if (found !== null && found !== false) return found;
        clock.leap(stepMs);
        // No request takes longer by the clock than the fault that holds it, on however busy a machine.
        do await new Promise((resolve) => setTimeout(resolve, BETWEEN_LOOKS_MS));
        while (requests.underWay() > upstream.held && performance.now() < until);
      }
      throw new Error(`${PATIENCE_MS / 1000} s of leaps by ${stepMs} ms brought no ${what}`);
    },
    compare: () => compare(database, upstream.records, new Set(upstream.records.ids('assessments'))),
    seconds: () => Math.floor(clock.wall() / 1000),
    async end() {
      await stop();
      requests.forget();
      await upstream.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
  return stage;
}

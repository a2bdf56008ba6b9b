import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { openStore } from '../../src/store/open.ts';
import type { IncomingEvent } from '../../src/store/store.ts';
import { OPEN_LOOP_HEADS, offer, openLoopCells } from './open-loop.ts';
import { type Mirror, startMirror, startProcess } from './processes.ts';

/** How deliveries fare while the service has much else to do: a backlog, or a full sync. They come first. */

export interface BusyOptions {
  main?: string;
  /** Events that wait, or vendors that are listed. */
  size: number;
  /** Of each answer of the API. */
  latencyMs: number;
  say: (line: string) => void;
}

const PER_SECOND = 2_000;
/** What runs for the first time is compiled first; deliveries, before what they are to be measured beside. */
const WARM_UP_SECONDS = 2;
const LONGEST_SECONDS = 600;
const POLL_MS = 250;
/** As many as a group of deliveries may have. */
const GROUP = 512;
export const PAGE_SIZE = 1_000;
export const VENDORS_API = fileURLToPath(new URL('./vendors-api.ts', import.meta.url));

/** Every tenth event is the first about its record. */
const EVENTS_A_RECORD = 10;

/** A service is stopped with so many events waiting, started again, and offered deliveries until it has worked them off. */
export async function measureBacklog({ size, say, main }: BusyOptions): Promise<void> {
  await inFolder(async (database) => {
    await fill(database, size);
    const look = looking(database, "SELECT count(*) FROM events WHERE state = 'pending'");
    const mirror = await startMirror(database, {}, main === undefined ? {} : { main });
    const seconds = await report(mirror, say, `${size} events wait`, look, (pending) => pending < GROUP);
    say(
      `  worked off in ${seconds.toFixed(0)} s, what came meanwhile included: ${Math.round(size / seconds)}/s of them`,
    );
  });
}

/** A full sync of so many vendors that are new, in pages of a thousand, with deliveries beside it. */
export async function measureFullSync({ size, say, main }: BusyOptions): Promise<void> {
  const api = startProcess(VENDORS_API, [String(size)], {});
  const url = (await api.line('Vendors: ')).replace('Vendors: ', '');
  try {
    await inFolder(async (database) => {
      const mirror = await startReading(database, url, main);
      const look = looking(database, 'SELECT count(*) FROM vendors');
      const seconds = await report(mirror, say, `${size} vendors are listed`, look, (held) => held >= size);
      say(`  held after ${seconds.toFixed(0)} s: ${Math.round(size / seconds)}/s`);
      const problems = looking(database, "SELECT count(*) FROM problems WHERE reason = 'downtime'");
      say(`  problems for a standstill of our own: ${problems()}`);
    });
  } finally {
    api.kill('SIGTERM');
    await api.exited;
  }
}

/** A service that reads the vendors of the API at `url`, as fast as it can. */
export function startReading(database: string, url: string, main: string | undefined): Promise<Mirror> {
  const settings = {
    COMPLIANCE_BASE_URL: url,
    COMPLIANCE_API_KEY: 'bench-api-key-0123456789',
    COMPLIANCE_PAGE_SIZE: String(PAGE_SIZE),
    COMPLIANCE_REQUESTS_PER_MINUTE: '100000',
  };
  return startMirror(database, settings, main === undefined ? {} : { main });
}

async function inFolder(work: (database: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'compliance-mirror-busy-'));
  try {
    await work(join(folder, 'mirror.db'));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Rejects unless it ends; how long it took, in seconds. */
async function report(
  mirror: Mirror,
  say: (line: string) => void,
  what: string,
  look: () => number,
  isOver: (count: number) => boolean,
): Promise<number> {
  let isDone = false;
  const timer = setInterval(() => {
    isDone = isOver(look());
  }, POLL_MS);
  try {
    say(`\n${what}; ${PER_SECOND} deliveries a second offered meanwhile:`);
    say(`  ${OPEN_LOOP_HEADS.map((head) => head.padStart(17)).join('')}`);
    await offer(mirror, { run: 'warm', perSecond: PER_SECOND, seconds: WARM_UP_SECONDS });
    const found = await offer(mirror, {
      run: 'main',
      perSecond: PER_SECOND,
      seconds: LONGEST_SECONDS,
      isOver: () => isDone,
    });
    say(
      `  ${openLoopCells(found)
        .map((cell) => cell.padStart(17))
        .join('')}`,
    );
    return WARM_UP_SECONDS + found.seconds;
  } finally {
    clearInterval(timer);
    mirror.kill('SIGKILL');
    await mirror.exited;
  }
}

function looking(database: string, sql: string): () => number {
  let db: Database.Database | null = null;
  return () => {
    db ??= new Database(database, { readonly: true });
    return db.prepare(sql).pluck().get() as number;
  };
}

/** By the store itself, in its largest groups: over HTTP it would take minutes. */
async function fill(database: string, count: number): Promise<void> {
  const store = await openStore(`file:${database}`);
  const wall = Date.now();
  const created = new Date(wall).toISOString();
  for (let from = 0; from < count; from += GROUP) {
    const events = Array.from({ length: Math.min(GROUP, count - from) }, (_, at): IncomingEvent => {
      const n = from + at;
      const recordId = `pol_${n % Math.ceil(count / EVENTS_A_RECORD)}`;
      const data = { policyId: recordId, name: `Policy ${n}`, status: 'draft', summary: 'x'.repeat(300) };
      const body = JSON.stringify({ id: `evt_${n}`, type: 'policy.updated', created, data });
      return {
        id: `evt_${n}`,
        type: 'policy.updated',
        created,
        createdMs: wall,
        t: '1',
        kind: 'policy',
        recordId,
        known: true,
        body,
      };
    });
    await store.accept({ events, unusable: [] }, { wall, steady: from }, { settleMs: 10_000 });
  }
  await store.close();
}

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import Database from 'better-sqlite3';
import pg from 'pg';
import { startPostgres } from '../postgres/server.ts';
import { type Connection, openConnection } from './client.ts';
import { deliveries } from './deliveries.ts';
import { NAIVE, portIn, type ServerProcess, startMirror, startProcess } from './processes.ts';
import { percentile } from './statistics.ts';

const PER_SECOND = 50;
const SECONDS = 12;
/** Not counted: what runs for the first time is compiled first. */
const WARM_UP = 100;
const RECORDS = 20;
const POLL_MS = 1;
const PATIENCE_MS = 15_000;

/** Reads which version a row shows; null: there is no row, or no table yet. */
type Look = (id: string) => Promise<string | null>;

/** From the sending of a delivery until a reader of the table sees its row: ours, and a naive receiver's, on both engines. */
export async function measureVisible({
  say,
  main,
}: {
  say: (line: string) => void;
  main?: string;
}): Promise<void> {
  say(`\nFrom sending until the row shows it, ${PER_SECOND} deliveries a second:`);
  const folder = mkdtempSync(join(tmpdir(), 'compliance-mirror-visible-'));
  const server = await startPostgres([]);
  const build = main === undefined ? {} : { main };
  try {
    for (const engine of ['SQLite', 'PostgreSQL'] as const) {
      for (const subject of ['naive', 'ours'] as const) {
        const url =
          engine === 'SQLite' ? `file:${join(folder, `${subject}.db`)}` : await server.createDatabase();
        const receiver = await start(subject, url, build);
        const reader = await readerOf(url);
        try {
          const times = await measure(receiver.port, reader.look);
          const at = (share: number) => percentile(times, share).toFixed(1);
          say(
            `  ${engine.padEnd(11)}${subject.padEnd(6)} p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms`,
          );
        } finally {
          await reader.close();
          receiver.process.kill('SIGTERM');
          await receiver.process.exited;
        }
      }
    }
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function start(
  subject: 'naive' | 'ours',
  url: string,
  build: { main?: string },
): Promise<{ process: ServerProcess; port: number }> {
  if (subject === 'ours') {
    const mirror = await startMirror('', { DATABASE_URL: url }, build);
    return { process: mirror, port: mirror.port };
  }
  const naive = startProcess(NAIVE, [], { DATABASE_URL: url, POOL_SIZE: '8' });
  return { process: naive, port: portIn(await naive.line('Baseline: ')) };
}

async function readerOf(url: string): Promise<{ look: Look; close(): Promise<void> }> {
  if (url.startsWith('file:')) {
    const db = new Database(url.slice('file:'.length), { readonly: true });
    const version = db.prepare('SELECT version FROM policies WHERE id = ?').pluck();
    return {
      look: async (id) => (version.get(id) as string | undefined) ?? null,
      close: async () => void db.close(),
    };
  }
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const text = 'SELECT version FROM policies WHERE id = $1';
  return {
    async look(id) {
      const { rows } = await client.query<{ version: string }>({ name: 'look', text, values: [id] });
      return rows[0]?.version ?? null;
    },
    close: () => client.end(),
  };
}

/** One delivery at a time, since at this rate each is shown before the next comes. Milliseconds, ascending. */
async function measure(port: number, look: Look): Promise<number[]> {
  let free = Promise.withResolvers<Connection>();
  const connection = openConnection({
    port,
    onFree: (each) => free.resolve(each),
    onAnswer: () => undefined,
  });
  const times: number[] = [];
  let dueAt = performance.now();
  let n = 0;
  for (const delivery of deliveries('visible', WARM_UP + PER_SECOND * SECONDS, RECORDS)) {
    const { data } = JSON.parse(delivery.body) as { data: { policyId: string; version: string } };
    dueAt += 1_000 / PER_SECOND;
    await setTimeout(Math.max(0, dueAt - performance.now()));
    const to = await free.promise;
    free = Promise.withResolvers();
    const sentAt = performance.now();
    to.send(delivery, sentAt);
    while ((await look(data.policyId)) !== data.version) {
      if (performance.now() - sentAt > PATIENCE_MS) throw new Error('a row was not shown');
      await setTimeout(POLL_MS);
    }
    n += 1;
    if (n > WARM_UP) times.push(performance.now() - sentAt);
  }
  connection.end();
  await connection.ended;
  return times.toSorted((a, b) => a - b);
}

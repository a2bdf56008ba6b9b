import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { deliveries, type SignedDelivery } from '../bench/deliveries.ts';
import { askOperators, type Mirror, startMirror } from '../bench/processes.ts';

const HINDERED = fileURLToPath(new URL('../support/hindered-database.ts', import.meta.url));

/** The built service, with its database standing still while a test wants it to. */
let folder: string;
let database: string;
let mirror: Mirror;
let isRunning = false;
let signed: Iterator<SignedDelivery>;
const hindrance = (name: string) => join(folder, 'hindrances', name);
const hinder = (name: string) => writeFileSync(hindrance(name), '');
const free = (name: string) => rmSync(hindrance(name), { force: true });

async function begin(): Promise<void> {
  if (isRunning) return;
  folder = mkdtempSync(join(tmpdir(), 'mirror-threads-'));
  database = join(folder, 'mirror.db');
  mkdirSync(join(folder, 'hindrances'));
  const settings = { HINDRANCES: join(folder, 'hindrances') };
  mirror = await startMirror(database, settings, { nodeArgs: ['--import', HINDERED] });
  signed = deliveries('threads', 100, 10);
  isRunning = true;
}

async function end(): Promise<void> {
  if (!isRunning) return;
  isRunning = false;
  mirror.kill('SIGKILL');
  await mirror.exited;
  rmSync(folder, { recursive: true, force: true });
}

async function deliver(): Promise<number> {
  const { body, signature } = signed.next().value as SignedDelivery;
  const url = `http://127.0.0.1:${mirror.port}/webhooks`;
  const answer = await fetch(url, { method: 'POST', body, headers: { 'x-webhook-signature': signature } });
  await answer.arrayBuffer();
  return answer.status;
}

const probe = async (url: string) => (await fetch(url)).status;
const live = () => probe(`http://127.0.0.1:${mirror.port}/livez`);

/** Answers that have come. */
function watched(answers: readonly Promise<number>[]): number[] {
  const come: number[] = [];
  for (const answer of answers) void answer.then((status) => come.push(status));
  return come;
}

beforeEach(begin);
afterAll(end);

describe('a database that stands still', () => {
  it('while a commit waits for the disk, probes and reports are answered, and deliveries only once it is made', async () => {
    expect(await deliver()).toBe(202);
    expect(await probe(`${mirror.opsUrl}/readyz`)).toBe(200);
    hinder('commit');
    const come = watched([deliver(), deliver(), deliver()]);
    // Many more turns of the event loop than an answer takes.
    for (let n = 0; n < 20; n += 1)
      expect([await live(), await probe(`${mirror.opsUrl}/livez`)]).toEqual([200, 200]);
    expect(await (await askOperators(mirror, '/api/deliveries')).json()).toMatchObject({ items: [{}] });
    expect(come).toEqual([]);
    free('commit');
    await expect.poll(() => come).toEqual([202, 202, 202]);
    const db = new Database(database, { readonly: true });
    expect(db.prepare('SELECT count(*) FROM events').pluck().get()).toBe(4);
    db.close();
  });

  it('while a report takes long, deliveries and probes are answered', async () => {
    hinder('report');
    const report = askOperators(mirror, '/api/deliveries').then((answer) => answer.status);
    const come = watched([report]);
    for (let n = 0; n < 20; n += 1) expect([await deliver(), await live()]).toEqual([202, 200]);
    expect(await probe(`${mirror.opsUrl}/readyz`)).toBe(200);
    expect(come).toEqual([]);
    free('report');
    expect(await report).toBe(200);
  });
});

describe('a thread that breaks', () => {
  afterEach(end);

  it.each<[thread: string, at: string, ask: () => Promise<unknown>]>([
    ['database', 'commit-fault', deliver],
    ['reports', 'report-fault', () => askOperators(mirror, '/api/deliveries')],
  ])('ends the service, which says why: %s', async (thread, at, ask) => {
    expect(await deliver()).toBe(202);
    hinder(at);
    await ask().catch(() => undefined);
    const said = await mirror.line('compliance-mirror: ');
    expect(said).toContain(`the thread "${thread}" has ended: a fault of its own`);
    expect(await mirror.exited).toBe(1);
  });
});

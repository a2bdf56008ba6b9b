import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import type { Problem } from '../../src/notify/decide.ts';
import { notify } from '../../src/notify/notify.ts';
import { HeldClock } from '../compliance/held-clock.ts';
import { eventually } from '../convergence/service.ts';
import { problem } from './problem.ts';

const PAUSED = problem(1);
const SILENT = problem(2, { reason: 'silence' });
const DATABASE = problem(0, { reason: 'database', kind: null });

/** In place of a status: it hangs. */
const NONE = 0;

let server: Server;
let taken: { path: string; body: { what: string; problem: Problem; verdicts: object; url: string } }[];
let answer: number;
let clock: HeldClock;
let facts: Map<string, string>;
/** The rows of the table, open and resolved. */
let rows: Map<number, Problem>;
let attempts: (string | null)[];
let stop: AbortController;
let run: Promise<void>;
/** The service stops, and does not only lose its lease. */
let stopping: AbortController;
let isDown: boolean;

function begin(): void {
  stop = new AbortController();
  stopping = new AbortController();
  const { port } = server.address() as AddressInfo;
  run = notify(
    {
      to: {
        url: new URL(`http://127.0.0.1:${port}/hook/token-in-the-path`),
        version: '0.1.0',
        operators: 'http://127.0.0.1:8081',
      },
      clock,
      random: () => 0.5,
      look: async () => ({
        problems: isDown ? [DATABASE] : [...rows.values()].filter(({ resolved_at }) => resolved_at === null),
        verdicts: { vendor: 'in_sync' },
      }),
      show: async (id) => requireDatabase(rows).get(id) ?? null,
      facts: {
        readFact: async (name) => requireDatabase(facts).get(name) ?? null,
        writeFact: async (name, value) => void requireDatabase(facts).set(name, value),
      },
      onAttempt: ({ error }) => attempts.push(error),
      onError: (error) => {
        if (!isDown) throw error;
      },
    },
    stop.signal,
    stopping.signal,
  );
}

function requireDatabase<T>(of: T): T {
  if (isDown) throw new Error('it is down');
  return of;
}

const open = (one: Problem) => rows.set(one.id, one);
const resolve = ({ id }: Problem) =>
  rows.set(id, { ...rows.get(id)!, resolved_at: '2026-11-20T13:00:00.000Z' });
const told = () => taken.map(({ body }) => `${body.what} ${body.problem.id}`);

/** Moves time until so many attempts were made. */
async function until(count: number): Promise<void> {
  await eventually(`${count} attempts`, async () => {
    await clock.advance(1000);
    return attempts.length >= count;
  });
}
/** Long enough for whatever is still to be told. */
const later = () => clock.advance(600_000);

async function restart(): Promise<void> {
  stop.abort();
  stopping.abort();
  await run;
  begin();
}

beforeEach(async () => {
  taken = [];
  attempts = [];
  facts = new Map();
  rows = new Map();
  answer = 204;
  isDown = false;
  clock = new HeldClock();
  server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    request.on('end', () => {
      taken.push({ path: request.url ?? '', body: JSON.parse(text) });
      if (answer === NONE) return;
      if (answer === 302) response.setHeader('location', '/elsewhere');
      response.writeHead(answer).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  begin();
});
afterEach(async () => {
  stop.abort();
  stopping.abort();
  await run;
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

it('posts each problem that opens, also beside one that stands, and the end of each', async () => {
  open(PAUSED);
  await until(1);
  open(SILENT);
  await until(2);
  resolve(PAUSED);
  await until(3);
  resolve(SILENT);
  await until(4);
  await later();
  expect(told()).toEqual(['opened 1', 'opened 2', 'resolved 1', 'resolved 2']);
  expect(taken[0]).toMatchObject({
    path: '/hook/token-in-the-path',
    body: { problem: PAUSED, verdicts: { vendor: 'in_sync' }, url: 'http://127.0.0.1:8081/#problem-1' },
  });
  expect(taken[2]!.body.problem.resolved_at).not.toBeNull();
});

it('says nothing twice over a restart, and then the end of what was told before it', async () => {
  open(PAUSED);
  await until(1);
  await restart();
  await later();
  expect(told()).toEqual(['opened 1']);
  resolve(PAUSED);
  await restart();
  await until(2);
  expect(told()).toEqual(['opened 1', 'resolved 1']);
});

it('says nothing twice where the service stopped before it had saved what was received', async () => {
  const { fetch } = globalThis;
  const received = vi.spyOn(globalThis, 'fetch').mockImplementationOnce(async (...args) => {
    const response = await fetch(...args);
    stop.abort();
    return response;
  });
  onTestFinished(() => received.mockRestore());
  open(PAUSED);
  await eventually('it has stopped', async () => {
    await clock.advance(1000);
    return stop.signal.aborted;
  });
  await run;
  begin();
  await later();
  expect(told()).toEqual(['opened 1']);
});

it('says that the database is down, and no end of others until it is up; the next process says that it is', async () => {
  open(PAUSED);
  await until(1);
  isDown = true;
  await until(2);
  await later();
  expect(told()).toEqual(['opened 1', 'opened 0']);
  // The lease is lost, and what was told is not saved yet.
  stop.abort();
  const before = { run, stopping };
  await clock.advance(10_000);
  isDown = false;
  await eventually('it is saved', async () => {
    await clock.advance(1000);
    return facts.get('notified')?.includes('"0"') === true;
  });
  await before.run;
  begin();
  await until(3);
  expect(taken.at(-1)?.body).toMatchObject({
    what: 'resolved',
    problem: { reason: 'database', resolved_at: expect.stringMatching(/Z$/) },
  });
  await later();
  expect(told()).toEqual(['opened 1', 'opened 0', 'resolved 0']);
});

it('a problem that is over before it could be told is not told', async () => {
  answer = 500;
  open(PAUSED);
  await until(2);
  resolve(PAUSED);
  await later();
  answer = 200;
  open(SILENT);
  await until(attempts.length + 1);
  await later();
  expect(told().at(-1)).toBe('opened 2');
  expect(attempts.filter((error) => error === null)).toHaveLength(1);
});

it.each([500, 404, 302])('tries again after an answer of %i, and goes nowhere it is sent', async (status) => {
  answer = status;
  open(PAUSED);
  await until(3);
  expect(attempts.every((error) => error !== null)).toBe(true);
  answer = 200;
  await until(4);
  expect(attempts.at(-1)).toBeNull();
  expect(new Set(taken.map((one) => one.path))).toEqual(new Set(['/hook/token-in-the-path']));
  await later();
  expect(taken).toHaveLength(4);
});

it('gives up a receiver that takes it and does not answer, and tries again', async () => {
  const over = new AbortController();
  const timeout = vi.spyOn(AbortSignal, 'timeout').mockReturnValueOnce(over.signal);
  onTestFinished(() => timeout.mockRestore());
  answer = NONE;
  open(PAUSED);
  await eventually('it has the message', async () => {
    await clock.advance(1000);
    return taken.length === 1;
  });
  await later();
  expect(attempts).toEqual([]);
  expect(timeout).toHaveBeenCalledExactlyOnceWith(10_000);
  over.abort(new DOMException('it took too long', 'TimeoutError'));
  answer = 204;
  await until(2);
  expect(attempts).toEqual([expect.stringContaining('too long'), null]);
  expect(taken).toHaveLength(2);
});

it('names no address in an error', async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  open(PAUSED);
  await until(1);
  expect(attempts[0]).toContain('ECONNREFUSED');
  expect(attempts[0]).not.toContain('token-in-the-path');
});

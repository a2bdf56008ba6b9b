import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import type { Verdict } from '../../src/notify/decide.ts';
import { notify } from '../../src/notify/notify.ts';
import { HeldClock } from '../compliance/held-clock.ts';
import { eventually } from '../convergence/service.ts';

const IN_SYNC: Verdict = {
  verdict: 'in_sync',
  reason: 'in_sync',
  sentence: 'In sync.',
  remedy: null,
  since: null,
};
const PAUSED: Verdict = {
  verdict: 'action_required',
  reason: 'paused',
  sentence: 'Paused.',
  remedy: 'Resume.',
  since: null,
};

const UNREADABLE: Verdict = { ...PAUSED, reason: 'database_unreadable', sentence: 'It cannot be read.' };

/** In place of a status: it hangs. */
const NONE = 0;

let server: Server;
let taken: { path: string; body: Record<string, unknown> }[];
let answer: number;
let clock: HeldClock;
let facts: Map<string, string>;
let now: Verdict;
let attempts: { topic: string; ok: boolean; error: string | null }[];
let stop: AbortController;
let run: Promise<void>;
/** The service stops, and does not only lose its lease. */
let stopping: AbortController;
/** The database is down. */
let isDown: boolean;

function begin(format: 'json' | 'slack' = 'json'): void {
  stop = new AbortController();
  stopping = new AbortController();
  const { port } = server.address() as AddressInfo;
  run = notify(
    {
      url: new URL(`http://127.0.0.1:${port}/hook/token-in-the-path`),
      format,
      clock,
      random: () => 0.5,
      verdict: async () => now,
      facts: {
        readFact: async (name) => requireDatabase().get(name) ?? null,
        writeFact: async (name, value) => void requireDatabase().set(name, value),
      },
      about: { version: '0.1.0', operators: 'http://127.0.0.1:8081' },
      onAttempt: (attempt) => attempts.push(attempt),
      onError: (error) => {
        if (!isDown) throw error;
      },
    },
    stop.signal,
    stopping.signal,
  );
}

function requireDatabase(): Map<string, string> {
  if (isDown) throw new Error('it is down');
  return facts;
}

/** Moves time until so many attempts were made. */
async function until(count: number): Promise<void> {
  await eventually(`${count} attempts`, async () => {
    await clock.advance(1000);
    return attempts.length >= count;
  });
}

beforeEach(async () => {
  taken = [];
  attempts = [];
  facts = new Map();
  answer = 204;
  now = IN_SYNC;
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

it('posts what the status page says, with what was said before it', async () => {
  await until(1);
  now = PAUSED;
  await until(2);
  expect(taken[1]).toEqual({
    path: '/hook/token-in-the-path',
    body: {
      service: 'compliance-mirror',
      version: '0.1.0',
      operators: 'http://127.0.0.1:8081',
      verdict: 'action_required',
      reason: 'paused',
      sentence: 'Paused.',
      remedy: 'Resume.',
      since: null,
      previous: 'in_sync',
      at: expect.stringMatching(/^\d{4}-.*Z$/),
    },
  });
});

it('posts to Slack a text in which nothing of the service reads as a link or a mention', async () => {
  stop.abort();
  await run;
  now = { ...PAUSED, sentence: 'Paused by <!channel> & <http://x|y>.' };
  begin('slack');
  await until(1);
  expect(taken[0]?.body).toEqual({
    text: [
      '*compliance-mirror: action required*',
      'Paused by &lt;!channel&gt; &amp; &lt;http://x|y&gt;.',
      'What to do: Resume.',
      '<http://127.0.0.1:8081|Status page>',
    ].join('\n'),
  });
  now = IN_SYNC;
  await until(2);
  expect(taken[1]?.body).toEqual({
    text: '*compliance-mirror: in sync*\nIn sync.\n<http://127.0.0.1:8081|Status page>',
  });
});

it('says nothing twice, not after a restart either', async () => {
  await until(1);
  await clock.advance(600_000);
  stop.abort();
  await run;
  begin();
  await clock.advance(600_000);
  expect(taken).toHaveLength(1);
  now = PAUSED;
  await until(2);
});

it('what one could not save before it lost its lease is saved, and the next one tells that it is over', async () => {
  await until(1);
  isDown = true;
  now = UNREADABLE;
  await until(2);
  stop.abort();
  const before = { run, stopping };
  await clock.advance(10_000);
  isDown = false;
  now = IN_SYNC;
  begin();
  await until(3);
  await before.run;
  expect(taken.at(-1)?.body).toMatchObject({ verdict: 'in_sync', previous: 'action_required' });
  await clock.advance(600_000);
  expect(taken).toHaveLength(3);
});

it('says nothing twice where the service stopped before it had saved what was received', async () => {
  const { fetch } = globalThis;
  const received = vi.spyOn(globalThis, 'fetch').mockImplementationOnce(async (...args) => {
    const response = await fetch(...args);
    stop.abort();
    return response;
  });
  onTestFinished(() => received.mockRestore());
  await eventually('it has stopped', async () => {
    await clock.advance(1000);
    return stop.signal.aborted;
  });
  await run;
  begin();
  await clock.advance(600_000);
  expect(taken).toHaveLength(1);
});

it('what could not be saved is forgotten when another one has told something since, and at a stop', async () => {
  await until(1);
  isDown = true;
  now = UNREADABLE;
  await until(2);
  stop.abort();
  await clock.advance(10_000);
  facts.set('notified', 'action_required:paused');
  isDown = false;
  await clock.advance(10_000);
  await run;
  expect(facts.get('notified')).toBe('action_required:paused');
  begin();
  await until(3);
  isDown = true;
  now = PAUSED;
  await until(4);
  stop.abort();
  stopping.abort();
  await run;
});

it.each([500, 404, 302])('tries again after an answer of %i, and goes nowhere it is sent', async (status) => {
  answer = status;
  await until(3);
  expect(attempts.every((attempt) => !attempt.ok)).toBe(true);
  answer = 200;
  await until(4);
  expect(attempts.at(-1)?.ok).toBe(true);
  expect(new Set(taken.map((one) => one.path))).toEqual(new Set(['/hook/token-in-the-path']));
  await clock.advance(600_000);
  expect(taken).toHaveLength(4);
});

it('gives up a receiver that takes it and does not answer, and tries again', async () => {
  const over = new AbortController();
  const timeout = vi.spyOn(AbortSignal, 'timeout').mockReturnValueOnce(over.signal);
  onTestFinished(() => timeout.mockRestore());
  answer = NONE;
  await eventually('it has the message', async () => {
    await clock.advance(1000);
    return taken.length === 1;
  });
  await clock.advance(600_000);
  expect(attempts).toEqual([]);
  expect(timeout).toHaveBeenCalledExactlyOnceWith(10_000);
  over.abort(new DOMException('it took too long', 'TimeoutError'));
  answer = 204;
  await until(2);
  expect(attempts).toMatchObject([{ ok: false, error: expect.stringContaining('too long') }, { ok: true }]);
  expect(taken).toHaveLength(2);
});

it('drops what it could not say when there is other news', async () => {
  answer = 500;
  await until(3);
  now = PAUSED;
  answer = 200;
  await until(4);
  expect(taken.at(-1)?.body).toMatchObject({ reason: 'paused', previous: null });
  await clock.advance(600_000);
  expect(taken).toHaveLength(4);
});

it('names no address in an error', async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await until(1);
  expect(attempts[0]).toMatchObject({ ok: false, error: expect.stringContaining('ECONNREFUSED') });
  expect(attempts[0]?.error).not.toContain('token-in-the-path');
});

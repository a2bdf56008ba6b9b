import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { header, nowSeconds } from '../receive/sign.ts';
import { event } from './wire.ts';

/**
 * The others, in a process of their own: a sender that holds the secret, a probe, and an operator with a token. On a busy machine
 * they and the service wait for a processor too; how long is Linux' to tell, and is no fault of the service's.
 */
export interface BystandersStart {
  port: number;
  opsPort: number;
  token: string;
  /** The service's process. */
  pid: number;
}

export interface Bystander {
  name: string;
  served: number;
  /** What the failures were. */
  failures: string[];
  /** The slowest answer, the machine's part in it taken off. */
  worstMs: number;
}

interface Question {
  name: string;
  port: number;
  from: string;
  path: string;
  expected: number;
  token?: string;
}

const EVERY_MS = 50;
/** Twice what a sender waits, since a busy machine makes all of them wait. */
const PATIENCE_MS = 30_000;

let asked: ReturnType<typeof ask>[] = [];

/** `start`, then `mark`, from when on answers count, and `report`. */
process.on('message', async (message: BystandersStart | 'mark' | 'report') => {
  if (message === 'report') process.send!(await Promise.all(asked.map(({ report }) => report())));
  else {
    if (message === 'mark') for (const { mark } of asked) mark();
    else asked = questions(message).map((question) => ask(question, message.pid));
    process.send!('done');
  }
});

function questions({ port, opsPort, token }: BystandersStart): Question[] {
  return [
    { name: 'sender', port, from: '127.0.0.9', path: '/webhooks', expected: 202 },
    { name: 'probe', port, from: '127.0.0.10', path: '/livez', expected: 200 },
    { name: 'operator', port: opsPort, from: '127.0.0.11', path: '/api/status', expected: 200, token },
  ];
}

function ask(question: Question, pid: number) {
  let nth = 0;
  let first = 0;
  let answers: { ms: number; failure: string | null }[] = [];
  const pending = new Set<Promise<void>>();
  setInterval(() => {
    const mine = nth++;
    const asking = answerTo(question, mine, pid).then((answer) => {
      pending.delete(asking);
      if (mine >= first) answers.push(answer);
    });
    pending.add(asking);
  }, EVERY_MS);
  return {
    mark() {
      answers = [];
      first = nth;
    },
    async report(): Promise<Bystander> {
      await Promise.all(pending);
      const failures = answers.flatMap(({ failure }) => failure ?? []);
      const worstMs = Math.max(0, ...answers.map(({ ms }) => ms));
      return { name: question.name, served: answers.length - failures.length, failures, worstMs };
    },
  };
}

/** Every second question over a connection of its own, since a sender opens new ones too; the others share one. */
function answerTo(
  { port, from, path, expected, token }: Question,
  nth: number,
  pid: number,
): Promise<{ ms: number; failure: string | null }> {
  const at = performance.now();
  const pids = [pid, process.pid];
  const before = pids.map(queuedMs);
  const isDelivery = path === '/webhooks';
  const body = isDelivery ? event(`real_${process.pid}_${nth}`) : '';
  const headers = {
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(isDelivery ? { 'x-webhook-signature': header(nowSeconds(), body) } : {}),
    'content-length': Buffer.byteLength(body),
  };
  return new Promise((resolve) => {
    const done = (failure: string | null) => {
      clearTimeout(timer);
      // Not their sum: both may have stood there at the same time.
      const queued = Math.max(...pids.map((each, index) => queuedMs(each) - before[index]!));
      resolve({ ms: performance.now() - at - queued, failure });
    };
    const method = isDelivery ? 'POST' : 'GET';
    const options = { host: '127.0.0.1', port, path, localAddress: from, method, headers };
    const outgoing = request({ ...options, ...(nth % 2 === 0 ? { agent: false } : {}) }, (response) => {
      const failure = response.statusCode === expected ? null : `${response.statusCode}`;
      response.resume().on('end', () => done(failure));
    });
    const timer = setTimeout(
      () => outgoing.destroy(new Error(`no answer in ${PATIENCE_MS} ms`)),
      PATIENCE_MS,
    );
    outgoing.on('error', (error: NodeJS.ErrnoException) => done(error.code ?? error.message));
    outgoing.end(body);
  });
}

/** For how long the main thread of a process has stood ready to run, and did not. */
function queuedMs(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6;
  } catch {
    // It has ended, which is for others to notice.
    return 0;
  }
}

import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { header, nowSeconds } from '../receive/sign.ts';

/**
 * The others, in a process of their own: a sender that holds the secret, probes of both listeners, and an owner with his
 * token. On a busy machine they and the service wait for a processor too; how long is Linux' to tell, and is no fault of
 * the service's.
 */
export interface BystandersStart {
  port: number;
  opsPort: number;
  key: string;
  token: string;
  /** The service's process. */
  pid: number;
}

export interface Bystander {
  name: string;
  served: number;
  failed: number;
  /** The answer that was latest, the machine's part in it taken off. */
  worst: Wait;
  /** What the failures were. */
  failures: string[];
}

export interface Wait {
  /** From the question to the answer's end. */
  ms: number;
  /** For so long the service, or who asked, stood in the queue for a processor: the longer of both. */
  machineMs: number;
}

const EVERY_MS = 50;
/** Twice what a sender waits, since a busy machine makes all of them wait; how long it was is judged besides. */
const PATIENCE_MS = 30_000;
const FAILURES_KEPT = 3;

process.on('message', onMessage);

interface Others {
  report(): Promise<Bystander[]>;
  mark(): void;
}

let others: Others | undefined;

async function onMessage(message: BystandersStart & { ask: 'start' | 'mark' | 'report' }) {
  if (message.ask === 'start') others = start(message);
  if (message.ask === 'mark') others!.mark();
  process.send!(message.ask === 'report' ? await others!.report() : 'done');
}

interface Question {
  name: string;
  port: number;
  from: string;
  /** Made anew each time. */
  make: (nth: number) => { path: string; body?: string; headers?: Record<string, string> };
  expected: number;
}

function start({ port, opsPort, key, token, pid }: BystandersStart): Others {
  const bytes = Buffer.from(key, 'hex');
  const post = (nth: number) => {
    const data = { vendorId: `vendor-${nth % 50}`, name: `Vendor as of ${nth}` };
    const event = { id: `real_${process.pid}_${nth}`, type: 'vendor.updated', created: new Date(), data };
    const body = JSON.stringify(event);
    const signature = header(nowSeconds(), body, bytes);
    return { path: '/webhooks', body, headers: { 'x-webhook-signature': signature } };
  };
  const owner = { authorization: `Bearer ${token}` };
  const questions: Question[] = [
    { name: 'sender', port, from: '127.0.0.9', make: post, expected: 202 },
    { name: 'receiver', port, from: '127.0.0.10', make: () => ({ path: '/livez' }), expected: 200 },
    {
      name: 'operators',
      port: opsPort,
      from: '127.0.0.11',
      make: () => ({ path: '/readyz' }),
      expected: 200,
    },
    {
      name: 'owner',
      port: opsPort,
      from: '127.0.0.12',
      make: () => ({ path: '/api/status', headers: owner }),
      expected: 200,
    },
  ];
  const asked = questions.map((question) => ({ question, run: ask(question, pid) }));
  return {
    mark() {
      for (const { run } of asked) run.mark();
    },
    async report() {
      await Promise.all(asked.map(({ run }) => run.settled()));
      return asked.map(({ question, run }) => ({
        name: question.name,
        served: run.samples.length - run.failed(),
        failed: run.failed(),
        failures: run.failures.slice(0, FAILURES_KEPT),
        worst: worstOf(run.samples),
      }));
    },
  };
}

/** Every second question over a connection of its own, since a sender opens new ones too; the others share one. */
function ask(question: Question, pid: number) {
  const run = {
    samples: [] as Wait[],
    failures: [] as string[],
    failed: () => run.failures.length,
    mark() {
      run.samples.length = 0;
      run.failures.length = 0;
      from = nth;
    },
    async settled(): Promise<void> {
      await Promise.all(pending);
    },
  };
  let nth = 0;
  let from = 0;
  const pending = new Set<Promise<void>>();
  setInterval(() => {
    const mine = nth++;
    const asking = answerTo(question, mine, pid).then(({ sample, failure }) => {
      pending.delete(asking);
      // Asked before the mark: of another time.
      if (mine < from) return;
      run.samples.push(sample);
      if (failure !== null) run.failures.push(failure);
    });
    pending.add(asking);
  }, EVERY_MS);
  return run;
}

function answerTo(
  { port, from, make, expected }: Question,
  nth: number,
  pid: number,
): Promise<{ sample: Wait; failure: string | null }> {
  const at = performance.now();
  const before = [pid, process.pid].map(queuedMs);
  const { path, body, headers } = make(nth);
  return new Promise((resolve) => {
    const done = (failure: string | null) => {
      clearTimeout(timer);
      const ms = performance.now() - at;
      // Not their sum: both may have stood there at the same time.
      const queued = [pid, process.pid].map((each, nth) => queuedMs(each) - before[nth]!);
      const machineMs = Math.min(ms, Math.max(0, ...queued));
      resolve({ sample: { ms, machineMs }, failure });
    };
    const outgoing = request(
      {
        host: '127.0.0.1',
        port,
        path,
        localAddress: from,
        method: body === undefined ? 'GET' : 'POST',
        headers: { ...headers, ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }) },
        ...(nth % 2 === 0 ? { agent: false } : {}),
      },
      (response) => {
        response.resume().on('end', () => {
          done(response.statusCode === expected ? null : `${response.statusCode}`);
        });
      },
    );
    const timer = setTimeout(
      () => outgoing.destroy(new Error(`no answer in ${PATIENCE_MS} ms`)),
      PATIENCE_MS,
    );
    outgoing.on('error', (error: NodeJS.ErrnoException) => done(error.code ?? error.message));
    outgoing.end(body);
  });
}

function worstOf(samples: readonly Wait[]): Wait {
  let worst: Wait = { ms: 0, machineMs: 0 };
  for (const each of samples) {
    if (each.ms - each.machineMs > worst.ms - worst.machineMs) worst = each;
  }
  return worst;
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

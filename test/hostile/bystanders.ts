import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { header, nowSeconds } from '../receive/sign.ts';

/**
 * The others, in a process of their own: a sender that holds the secret, probes of both listeners, and an owner with his
 * token. Beside them a bare server of Node's, asked as often: what that one was late is the machine's fault.
 * `node bystanders.ts bare` is that server.
 */
export interface BystandersStart {
  port: number;
  opsPort: number;
  key: string;
  token: string;
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
  /** By how much the bare server was late in the meantime. */
  machineMs: number;
}

interface Sample {
  at: number;
  ms: number;
}

const EVERY_MS = 50;
/** Longer than this no sender waits. */
const PATIENCE_MS = 15_000;
const FAILURES_KEPT = 3;

if (process.argv[2] === 'bare') bare();
else process.on('message', onMessage);

function bare(): void {
  const server = createServer((incoming, response) => {
    incoming.resume().on('end', () => response.writeHead(204).end());
  });
  server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port));
  process.on('disconnect', () => process.exit());
}

interface Others {
  report(): Promise<Bystander[]>;
  mark(): void;
}

let others: Others | undefined;

async function onMessage(message: BystandersStart & { ask: 'start' | 'mark' | 'report'; barePort: number }) {
  if (message.ask === 'start') others = start(message, message.barePort);
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

function start({ port, opsPort, key, token }: BystandersStart, barePort: number): Others {
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
  const machine = ask({
    name: 'bare',
    port: barePort,
    from: '127.0.0.13',
    make: () => ({ path: '/' }),
    expected: 204,
  });
  const asked = questions.map((question) => ({ question, run: ask(question) }));
  return {
    mark() {
      for (const run of [machine, ...asked.map((each) => each.run)]) run.mark();
    },
    async report() {
      await Promise.all([machine, ...asked.map((each) => each.run)].map((run) => run.settled()));
      return asked.map(({ question, run }) => ({
        name: question.name,
        served: run.samples.length - run.failed(),
        failed: run.failed(),
        failures: run.failures.slice(0, FAILURES_KEPT),
        worst: worstOf(run.samples, machine.samples),
      }));
    },
  };
}

/** Every second question over a connection of its own, since a sender opens new ones too; the others share one. */
function ask(question: Question) {
  const run = {
    samples: [] as Sample[],
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
    const asking = answerTo(question, mine).then(({ sample, failure }) => {
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
): Promise<{ sample: Sample; failure: string | null }> {
  const at = performance.now();
  const { path, body, headers } = make(nth);
  return new Promise((resolve) => {
    const done = (failure: string | null) => {
      clearTimeout(timer);
      resolve({ sample: { at, ms: performance.now() - at }, failure });
    };
    const outgoing = request(
      {
        ...{ host: '127.0.0.1', port, path, localAddress: from, method: body === undefined ? 'GET' : 'POST' },
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

function worstOf(samples: readonly Sample[], machine: readonly Sample[]): Wait {
  let worst: Wait = { ms: 0, machineMs: 0 };
  for (const { at, ms } of samples) {
    if (ms <= worst.ms - worst.machineMs) continue;
    const meanwhile = machine.filter((each) => each.at < at + ms && each.at + each.ms > at);
    const machineMs = Math.min(ms, Math.max(0, ...meanwhile.map((each) => each.ms)));
    if (ms - machineMs > worst.ms - worst.machineMs) worst = { ms, machineMs };
  }
  return worst;
}

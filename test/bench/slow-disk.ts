import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { deliveries, type SignedDelivery } from './deliveries.ts';
import { type Mirror, startMirror } from './processes.ts';
import { percentile } from './statistics.ts';

const HINDERED = fileURLToPath(new URL('../support/hindered-database.ts', import.meta.url));

const FLUSHES_MS = [0, 20, 100];
const PER_SECOND = [40, 200, 1_000];
const SECONDS = 10;
/** Offered before, and not counted: what runs for the first time is compiled first. */
const WARM_UP_SECONDS = 2;
/** The offered load is made in steps of this. */
const STEP_MS = 5;
const PROBE_EVERY_MS = 50;
/** What has no answer by then is not taken: a sender gives up earlier. */
const PATIENCE_MS = 15_000;
const RECORDS = 1_000;
/** From one address: the service takes 300, and probes are to have room. */
const CONNECTIONS = 270;

interface Figures {
  offered: number;
  taken: number;
  p50Ms: number;
  p99Ms: number;
  slowestLivezMs: number;
  slowestReadyzMs: number;
}

/**
 * How deliveries and probes fare where each flush to the disk takes long. Deliveries come at their times, whether or not those
 * before were answered, as from a sender that does not wait.
 */
export async function measureSlowDisk({
  say,
  main,
}: {
  say: (line: string) => void;
  main?: string;
}): Promise<void> {
  say(`\nA disk that is slow to flush, ${SECONDS} s each; probes every ${PROBE_EVERY_MS} ms:`);
  const heads = ['ms a flush', 'offered/s', 'taken', 'p50 ms', 'p99 ms', 'slowest /livez', 'slowest /readyz'];
  const row = (cells: readonly (string | number)[]) =>
    say(`  ${cells.map((cell) => `${cell}`.padStart(17)).join('')}`);
  row(heads);
  for (const flushMs of FLUSHES_MS) {
    for (const perSecond of PER_SECOND) {
      const found = await measure(flushMs, perSecond, main);
      row([
        ...[flushMs, perSecond, `${found.taken} of ${found.offered}`],
        ...[found.p50Ms, found.p99Ms, found.slowestLivezMs, found.slowestReadyzMs].map((ms) => ms.toFixed(0)),
      ]);
    }
  }
}

async function measure(flushMs: number, perSecond: number, main: string | undefined): Promise<Figures> {
  const directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-slow-disk-'));
  const mirror = await startMirror(
    join(directory, 'mirror.db'),
    { SLOW_FLUSH_MS: String(flushMs) },
    { ...(main === undefined ? {} : { main }), nodeArgs: ['--import', HINDERED] },
  );
  try {
    await offer(mirror, 'warm', perSecond, WARM_UP_SECONDS);
    return await offer(mirror, 'main', perSecond, SECONDS);
  } finally {
    // It may have much left to work off, at a flush each time.
    mirror.kill('SIGKILL');
    await mirror.exited;
    rmSync(directory, { recursive: true, force: true });
  }
}

async function offer(mirror: Mirror, run: string, perSecond: number, seconds: number): Promise<Figures> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const probes = new Agent({ keepAlive: true });
  const signed = [...deliveries(run, perSecond * seconds, RECORDS)];
  const receiver = `http://127.0.0.1:${mirror.port}`;
  const livez = probing(`${receiver}/livez`, probes);
  const readyz = probing(`${mirror.opsUrl}/readyz`, probes);
  const times: number[] = [];
  const answers: Promise<void>[] = [];
  const began = performance.now();
  for (let sent = 0; sent < signed.length; ) {
    const due = Math.min(signed.length, Math.ceil(((performance.now() - began) / 1_000) * perSecond));
    for (; sent < due; sent += 1) {
      const delivery = signed[sent]!;
      answers.push(
        ask(`${receiver}/webhooks`, agent, delivery).then(({ status, ms }) => {
          if (status === 202) times.push(ms);
        }),
      );
    }
    await new Promise((resolve) => setTimeout(resolve, STEP_MS));
  }
  const slowest = { livez: await livez.stop(), readyz: await readyz.stop() };
  await Promise.all(answers);
  agent.destroy();
  probes.destroy();
  times.sort((a, b) => a - b);
  return {
    ...{ offered: signed.length, taken: times.length },
    ...{ p50Ms: percentile(times, 0.5), p99Ms: percentile(times, 0.99) },
    ...{ slowestLivezMs: slowest.livez, slowestReadyzMs: slowest.readyz },
  };
}

/** One probe after the other: the slowest of them, those that are still out at the end waited for. */
function probing(url: string, agent: Agent): { stop(): Promise<number> } {
  const asked: Promise<{ ms: number }>[] = [];
  const timer = setInterval(() => asked.push(ask(url, agent)), PROBE_EVERY_MS);
  return {
    async stop() {
      clearInterval(timer);
      return Math.max(...(await Promise.all(asked)).map(({ ms }) => ms));
    },
  };
}

function ask(
  url: string,
  agent: Agent,
  delivery?: SignedDelivery,
): Promise<{ status: number | null; ms: number }> {
  const began = performance.now();
  return new Promise((resolve) => {
    const done = (status: number | null) => resolve({ status, ms: performance.now() - began });
    const asking = request(
      url,
      {
        ...{ agent, timeout: PATIENCE_MS, method: delivery === undefined ? 'GET' : 'POST' },
        headers:
          delivery === undefined
            ? {}
            : { 'content-type': 'application/json', 'x-webhook-signature': delivery.signature },
      },
      (answer) => {
        answer.resume();
        answer.once('end', () => done(answer.statusCode ?? null));
      },
    );
    asking.once('timeout', () => asking.destroy());
    asking.once('error', () => done(null));
    asking.end(delivery?.body);
  });
}

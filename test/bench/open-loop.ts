import { Agent, request } from 'node:http';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { type Answer, type Connection, openConnection } from './client.ts';
import { deliveries, type SignedDelivery } from './deliveries.ts';
import type { Mirror } from './processes.ts';
import { percentile } from './statistics.ts';

/** The offered load is made in steps of this, where it need not come one by one. */
const STEP_MS = 5;
const PROBE_EVERY_MS = 50;
/** What has no answer by then is not taken: a sender gives up earlier. */
const PATIENCE_MS = 15_000;
const RECORDS = 1_000;
/** From one address: the service takes 300, and probes are to have room. */
const CONNECTIONS = 270;

/** Whom it is offered to: the port of deliveries, and where its readiness is asked for. */
export type Offered = Pick<Mirror, 'port' | 'opsUrl'>;

export interface Offer {
  run: string;
  perSecond: number;
  seconds: number;
  /** Each at its own time, for the processor time of a whole core. */
  oneByOne?: boolean;
  isOver?: () => boolean;
}

export interface OpenLoopFigures {
  offered: number;
  taken: number;
  p50Ms: number;
  p99Ms: number;
  slowestLivezMs: number;
  slowestReadyzMs: number;
  /** Answers but 202 in time, by status; null: the connection ended without one. */
  others: ReadonlyMap<number | null, number>;
  /** For how long deliveries were offered. */
  seconds: number;
}

export const OPEN_LOOP_HEADS = ['taken', 'p50 ms', 'p99 ms', 'slowest /livez', 'slowest /readyz'];

export function openLoopCells(found: OpenLoopFigures): string[] {
  const times = [found.p50Ms, found.p99Ms, found.slowestLivezMs, found.slowestReadyzMs];
  const others = [...found.others].map(([status, count]) => ` (${count} × ${status ?? 'closed'})`).join('');
  return [`${found.taken} of ${found.offered}${others}`, ...times.map((ms) => ms.toFixed(0))];
}

/**
 * Deliveries at their times, whether or not those before were answered, as from a sender that does not wait; and a probe of
 * each kind beside them. It ends after so many seconds, or as soon as `isOver` says so.
 */
export async function offer(
  mirror: Offered,
  { run, perSecond, seconds, oneByOne = false, isOver = () => false }: Offer,
): Promise<OpenLoopFigures> {
  const probes = new Agent({ keepAlive: true });
  const livez = probing(`http://127.0.0.1:${mirror.port}/livez`, probes);
  const readyz = probing(`${mirror.opsUrl}/readyz`, probes);
  const times: number[] = [];
  const free: Connection[] = [];
  const waiting: { delivery: SignedDelivery; dueAt: number }[] = [];
  let answers = 0;
  const others = new Map<number | null, number>();
  const connections = new Set<Connection>();
  // One that the service has closed while it was idle is opened anew, as any client does.
  const open = () => {
    const connection = openConnection({ port: mirror.port, onFree, onAnswer });
    connections.add(connection);
    void connection.ended.then(() => {
      connections.delete(connection);
      const at = free.indexOf(connection);
      if (at !== -1) free.splice(at, 1);
      if (!isEnding) open();
    });
  };
  const onFree = (connection: Connection) => {
    const next = waiting.shift();
    if (next === undefined) free.push(connection);
    else connection.send(next.delivery, next.dueAt);
  };
  const onAnswer = ({ status, milliseconds }: Answer) => {
    answers += 1;
    if (status === 202 && milliseconds <= PATIENCE_MS) times.push(milliseconds);
    else others.set(status, (others.get(status) ?? 0) + 1);
  };
  let isEnding = false;
  for (let n = 0; n < CONNECTIONS; n += 1) open();
  const signed = coming(run, perSecond, seconds);
  const count = perSecond * seconds;
  const began = performance.now();
  let sent = 0;
  while (sent < count && !isOver()) {
    const now = performance.now();
    const due = Math.min(count, Math.ceil(((now - began) / 1_000) * perSecond));
    for (; sent < due; sent += 1) {
      const next = { delivery: signed.next().value!, dueAt: now };
      const connection = free.shift();
      if (connection === undefined) waiting.push(next);
      else connection.send(next.delivery, next.dueAt);
    }
    await (oneByOne ? setImmediate() : setTimeout(STEP_MS));
  }
  const lasted = (performance.now() - began) / 1_000;
  const slowest = { livez: await livez.stop(), readyz: await readyz.stop() };
  const until = performance.now() + PATIENCE_MS;
  while (answers < sent && performance.now() < until) await setTimeout(STEP_MS);
  isEnding = true;
  for (const connection of connections) connection.end();
  // Else they would stand beside those of the next run: the service takes only so many from one address.
  await Promise.all([...connections].map(({ ended }) => ended));
  probes.destroy();
  times.sort((a, b) => a - b);
  return {
    offered: sent,
    taken: times.length,
    p50Ms: percentile(times, 0.5),
    p99Ms: percentile(times, 0.99),
    slowestLivezMs: slowest.livez,
    slowestReadyzMs: slowest.readyz,
    others,
    seconds: lasted,
  };
}

/** Signed as they are sent, a second's worth at a time: the service takes none that is older than minutes. */
function* coming(run: string, perSecond: number, seconds: number): Generator<SignedDelivery, undefined> {
  for (let second = 0; second < seconds; second += 1) {
    yield* deliveries(`${run}_${second}`, perSecond, RECORDS);
  }
}

/** One probe after the other: the slowest of them, those that are still out at the end waited for. */
function probing(url: string, agent: Agent): { stop(): Promise<number> } {
  const asked: Promise<number>[] = [];
  const timer = setInterval(() => asked.push(probe(url, agent)), PROBE_EVERY_MS);
  return {
    async stop() {
      clearInterval(timer);
      return Math.max(...(await Promise.all(asked)));
    },
  };
}

/** How long its answer took, in milliseconds; also one that did not come. */
function probe(url: string, agent: Agent): Promise<number> {
  const began = performance.now();
  return new Promise((resolve) => {
    const done = () => resolve(performance.now() - began);
    const asking = request(url, { agent, timeout: PATIENCE_MS }, (answer) => {
      answer.resume();
      answer.once('end', done);
    });
    asking.once('timeout', () => asking.destroy());
    asking.once('error', done);
    asking.end();
  });
}

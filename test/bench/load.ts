import { sendLoad } from './client.ts';
import { deliveries, type SignedDelivery } from './deliveries.ts';
import { percentile } from './statistics.ts';

/** The load generator: a process of its own, so that its work is neither in the server's figures nor in its event loop. */
export interface LoadOrder {
  port: number;
  run: string;
  connections: number;
  count: number;
  records: number;
}

export interface LoadReport {
  seconds: number;
  p50Ms: number;
  p99Ms: number;
  /** Answers by status. */
  statuses: Record<string, number>;
}

let prepared: { order: LoadOrder; signed: SignedDelivery[] } | null = null;

process.on('message', (message: LoadOrder | 'go') => {
  if (message !== 'go') {
    // Signed before the clock starts.
    prepared = { order: message, signed: [...deliveries(message.run, message.count, message.records)] };
    process.send?.('ready');
  } else if (prepared !== null) {
    const { order, signed } = prepared;
    prepared = null;
    fire(order, signed).then((report) => process.send?.(report), fail);
  }
});

async function fire(order: LoadOrder, signed: readonly SignedDelivery[]): Promise<LoadReport> {
  const latencies: number[] = [];
  const statuses: Record<string, number> = {};
  const startedAt = performance.now();
  await sendLoad({
    port: order.port,
    connections: order.connections,
    deliveries: signed.values(),
    onAnswer: ({ status, milliseconds }) => {
      latencies.push(milliseconds);
      statuses[String(status)] = (statuses[String(status)] ?? 0) + 1;
    },
  });
  const seconds = (performance.now() - startedAt) / 1000;
  latencies.sort((a, b) => a - b);
  return { seconds, p50Ms: percentile(latencies, 0.5), p99Ms: percentile(latencies, 0.99), statuses };
}

function fail(error: unknown): void {
  process.stderr.write(`${String(error)}\n`);
  process.exit(1);
}

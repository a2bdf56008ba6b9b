import { join } from 'node:path';
import { parseEnvelope } from '../../src/receive/envelope.ts';
import { openStore } from '../../src/store/open.ts';
import type { IncomingEvent } from '../../src/store/store.ts';
import { deliveries } from '../bench/deliveries.ts';
import { startMirror } from '../bench/processes.ts';
import { emptyLedger, type Findings, inspect, workedOff } from './harness.ts';

const RECORDS = 1_000;
/** The defaults of ID_POINTERS_*. */
const POINTERS = {
  policy: ['policyId', 'policy.id', 'id'],
  risk_assessment: ['riskAssessmentId', 'assessmentId', 'riskId', 'risk.id', 'id'],
  vendor: ['vendorId', 'vendor.id', 'id'],
};
const GROUP = 1_000;

export interface BacklogReport {
  seconds: number;
  /** Of the serving process, from its start until the backlog was empty. */
  maxRssBytes: number;
  /** While it worked, at even distances. */
  samples: number[];
  findings: Findings;
  exitCode: number | null;
}

/** A file with `events` pending, as an outage of the processor would leave it; then a service started on it, with `nodeArgs`. */
export async function workOffBacklog(
  directory: string,
  events: number,
  nodeArgs: readonly string[] = [],
): Promise<BacklogReport> {
  const database = join(directory, `backlog-${events}.db`);
  await fill(database, events);
  const mirror = await startMirror(database, {}, { nodeArgs });
  const startedAt = performance.now();
  const samples: number[] = [];
  await workedOff(database, async () => {
    samples.push((await mirror.usage()).rssBytes);
  });
  const seconds = (performance.now() - startedAt) / 1000;
  const { maxRssBytes } = await mirror.usage();
  mirror.kill('SIGTERM');
  const exitCode = await mirror.exited;
  return { seconds, maxRssBytes, samples, findings: inspect(database, emptyLedger()), exitCode };
}

/** Through the store's own port, past HTTP and signatures: what is shown here begins after the acknowledgement. */
async function fill(database: string, count: number): Promise<void> {
  const store = await openStore(`file:${database}`);
  try {
    let events: IncomingEvent[] = [];
    const flush = async () => {
      const now = Date.now();
      await store.accept({ events, unusable: [] }, { wall: now, steady: now }, { settleMs: 10_000 });
      events = [];
    };
    for (const { body } of deliveries('backlog', count, RECORDS)) {
      const parsed = parseEnvelope(Buffer.from(body), { pointers: POINTERS, t: '1' });
      if (!parsed.ok) throw new Error(parsed.reason);
      events.push(...parsed.events);
      if (events.length === GROUP) await flush();
    }
    await flush();
  } finally {
    await store.close();
  }
}

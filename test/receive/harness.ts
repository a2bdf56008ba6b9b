import { connect } from 'node:net';
import type { Inbox } from '../../src/inbox/group-commit.ts';
import { createAddresses } from '../../src/platform/addresses.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import { createLogLimit } from '../../src/platform/log-limit.ts';
import { createLogger } from '../../src/platform/logger.ts';
import { createMetrics } from '../../src/platform/metrics.ts';
import { createReceiver, type ReceiverOptions } from '../../src/receive/routes.ts';
import { type Listener, listen } from '../../src/receive/server.ts';
import type { AcceptOutcome, IncomingEvent, Rejection, UnusableDelivery } from '../../src/store/store.ts';
import { SECRET } from './sign.ts';

export type LogLine = Record<string, unknown> & { outcome?: string; reason?: string };

/** The receiver on a real port, with an inbox that keeps what it is handed. */
export interface Harness {
  url: string;
  port: number;
  accepted: IncomingEvent[];
  quarantined: UnusableDelivery[];
  rejected: Rejection[];
  lines: LogLine[];
  metrics: ReturnType<typeof createMetrics>;
  inbox: Inbox;
  /** What `accept` answers, or throws. */
  answer: () => AcceptOutcome | Error;
  fail(error?: Error): void;
  post(body: string | Uint8Array<ArrayBuffer>, headers?: Record<string, string>): Promise<Response>;
  close(): Promise<void>;
}

export async function startReceiver(
  overrides: Partial<Omit<ReceiverOptions, 'settings'>> & {
    settings?: Partial<ReceiverOptions['settings']>;
  } = {},
): Promise<Harness> {
  const secrets = [Buffer.from(SECRET)];
  const metrics = createMetrics();
  let listener: Listener;
  const harness: Harness = {
    url: '',
    port: 0,
    accepted: [],
    quarantined: [],
    rejected: [],
    lines: [],
    metrics,
    answer: () => ({ status: 'accepted', seq: harness.accepted.length }),
    fail(error = new StoreUnavailable('the disk is full')) {
      harness.answer = () => error;
    },
    inbox: {
      async accept(events) {
        return events.map((event) => {
          harness.accepted.push(event);
          const answer = harness.answer();
          if (answer instanceof Error) throw answer;
          return answer;
        });
      },
      async quarantine(delivery) {
        const answer = harness.answer();
        if (answer instanceof Error) throw answer;
        harness.quarantined.push(delivery);
      },
      reject: (rejection) => harness.rejected.push(rejection),
    },
    post: (body, headers = {}) => fetch(`${harness.url}/webhooks`, { method: 'POST', body, headers }),
    close: () => listener.close(0),
  };
  const { settings, addresses = createAddresses(null), ...rest } = overrides;
  const app = createReceiver({
    inbox: harness.inbox,
    settings: {
      secrets: () => secrets,
      secretEncoding: 'utf8',
      template: [{ kind: 'timestamp' }, { kind: 'text', text: '.' }, { kind: 'body' }],
      algorithm: 'sha256',
      header: 'x-webhook-signature',
      toleranceSeconds: 300,
      maxBodyBytes: 4096,
      ...settings,
    },
    pointers: {
      policy: ['policyId', 'id'],
      risk_assessment: ['riskAssessmentId', 'id'],
      vendor: ['vendorId', 'id'],
    },
    isSecretAwaited: () => false,
    addresses,
    clock: { wall: () => Date.now() },
    lines: createLogLimit(systemClock()),
    logger: createLogger({
      level: 'info',
      destination: { write: (line) => void harness.lines.push(JSON.parse(line) as LogLine) },
    }),
    metrics,
    ...rest,
  });
  listener = await listen({ fetch: app.fetch as never, host: '127.0.0.1', port: 0, addresses });
  harness.port = listener.port;
  harness.url = `http://127.0.0.1:${listener.port}`;
  return harness;
}

/** Writes pieces to a fresh connection and resolves with all that came back, once the other side has closed it. */
export function exchange(port: number, ...pieces: (string | Uint8Array)[]): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
    });
    // A reset after the answer is an answer all the same.
    socket.on('error', () => {});
    socket.on('close', () => resolve(received));
    for (const piece of pieces) socket.write(piece);
  });
}

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

export type Metrics = ReturnType<typeof createMetrics>;

const PREFIX = 'compliance_mirror_';

/** A group commit takes well under a millisecond on a good disk. A sender waits for 15 s. */
const REQUEST_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15];
/** From arrival to a row: milliseconds when idle, hours after an outage. */
const LAG_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 20, 60, 300, 900, 3600, 21_600, 86_400];
const FULL_SYNC_SECONDS = [0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400];

/**
 * Every metric, declared once. Labels are words from fixed lists (outcomes, reasons, kinds, route templates, status codes,
 * positions of secrets) and never ids, so that their number stays bounded.
 */
export function createMetrics(options: { logLinesLost?: (() => number) | undefined } = {}) {
  const registry = new Registry();
  const registers = [registry];
  const counter = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Counter({ name: `${PREFIX}${name}`, help, labelNames, registers });
  const gauge = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Gauge({ name: `${PREFIX}${name}`, help, labelNames, registers });
  const histogram = <Label extends string>(
    name: string,
    help: string,
    buckets: number[],
    ...labelNames: Label[]
  ) => new Histogram({ name: `${PREFIX}${name}`, help, buckets, labelNames, registers });

  // Event-loop delay, memory, handles and garbage collection of the process.
  collectDefaultMetrics({ register: registry, prefix: PREFIX });
  // These gauges have a counter's name. The gauges by type, of which they are the sums, stay.
  for (const what of ['handles', 'requests', 'resources'])
    registry.removeSingleMetric(`${PREFIX}nodejs_active_${what}_total`);

  // The log's output counts them, because it exists before the metrics.
  let lostBefore = 0;
  const logLinesDropped = new Counter({
    name: `${PREFIX}log_lines_dropped_total`,
    help: 'Log lines lost because standard output took no more.',
    registers,
    collect() {
      const lost = options.logLinesLost?.() ?? 0;
      logLinesDropped.inc(lost - lostBefore);
      lostBefore = lost;
    },
  });

  return {
    registry,
    deliveries: counter(
      'deliveries_total',
      'Deliveries received, by what became of them.',
      'outcome',
      'reason',
    ),
    acknowledgementSeconds: histogram(
      'acknowledgement_seconds',
      'From a delivery’s headers to its answer.',
      REQUEST_SECONDS,
    ),
    commitSeconds: histogram(
      'commit_seconds',
      'From a group of deliveries being handed to the database to its commit: one flush to the disk, and what went before it.',
      REQUEST_SECONDS,
    ),
    provisionalLagSeconds: histogram(
      'provisional_lag_seconds',
      'From an event’s arrival to its provisional row.',
      LAG_SECONDS,
    ),
    verificationLagSeconds: histogram(
      'verification_lag_seconds',
      'From a record becoming unverified to its verification.',
      LAG_SECONDS,
    ),
    eventsProcessed: counter('events_processed_total', 'Events processed, by outcome.', 'outcome'),
    events: gauge('events', 'Events that are pending, or failed and wait for you.', 'state'),
    backlogOldestSeconds: gauge('backlog_oldest_seconds', 'Age of the oldest pending event.'),
    records: gauge(
      'records',
      'Records held, by kind and state (live, deleted), and ids that are unverified.',
      'kind',
      'state',
    ),
    oldestUnverifiedSeconds: gauge(
      'oldest_unverified_seconds',
      'For how long the longest unverified record has been so.',
      'kind',
    ),
    verdict: gauge('verdict', '1 for the verdict that holds of each kind.', 'kind', 'verdict'),
    lastDelivery: gauge('last_delivery_timestamp_seconds', 'When a delivery last came in, new or not.'),
    problemsOpen: gauge('problems_open', 'Problems open now.', 'reason'),
    problemsOpened: counter('problems_opened_total', 'Problems opened.', 'reason'),
    syncRuns: counter('sync_runs_total', 'Sync runs ended, by outcome.', 'kind', 'outcome'),
    fullSyncSeconds: histogram(
      'sync_run_duration_seconds',
      'How long full syncs took.',
      FULL_SYNC_SECONDS,
      'kind',
    ),
    lastFullSync: gauge(
      'last_full_sync_timestamp_seconds',
      'When a complete full sync of the kind last ended.',
      'kind',
    ),
    syncRunDifferences: counter(
      'sync_run_differences_total',
      'Records that a full sync found different from the mirror.',
      'kind',
      'difference',
    ),
    upstreamRequests: counter('upstream_requests_total', 'Requests to the REST API.', 'route', 'status'),
    upstreamRequestSeconds: histogram(
      'upstream_request_seconds',
      'How long requests to the REST API took.',
      REQUEST_SECONDS,
    ),
    upstreamFailures: gauge('upstream_consecutive_failures', 'Requests to the REST API failed in a row.'),
    upstreamBudget: gauge('upstream_budget', 'Requests that a minute allows.'),
    upstreamBudgetLeft: gauge('upstream_budget_left', 'Requests that the current minute still allows.'),
    clockSkewSeconds: gauge('clock_skew_seconds', 'The upstream’s clock minus ours.'),
    notifications: counter('notifications_total', 'Attempts to tell NOTIFY_URL of a problem.', 'outcome'),
    tokensPresented: counter(
      'tokens_presented_total',
      'Operators’ tokens presented, by door (the form, or a request’s bearer) and by what became of them.',
      'door',
      'outcome',
    ),
    databaseBytes: gauge('database_bytes', 'Size of the database, by file.', 'file'),
  };
}

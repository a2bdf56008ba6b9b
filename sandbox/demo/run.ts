import { KINDS } from '../../src/compliance/kinds.ts';
import { MirrorError } from '../../src/platform/errors.ts';
import { unverifiedRows } from './compare.ts';
import {
  type Comparer,
  type Comparison,
  createComparer,
  isEqual,
  LOOK_EVERY_MS,
  pause,
  type Story,
  until,
  untilFirstSync,
} from './differences.ts';
import {
  describeDifferences,
  differenceRows,
  isInTransit,
  type Printer,
  TABLE_HEADS,
  tally,
} from './report.ts';
import type { Services } from './services.ts';

export const STORIES: readonly Story[] = [
  { name: 'lost-vendor-removal', title: 'lost delete of a vendor', kind: 'vendor', differs: true },
  { name: 'lost-policy-delete', title: 'lost delete of a policy', kind: 'policy', differs: true },
  { name: 'overtaken-update', title: 'overtaken update', kind: 'policy', differs: true },
  { name: 'lost-identification', title: 'assessment whose first event was lost', kind: null, differs: true },
  { name: 'unannounced-assessment', title: 'assessment never announced', kind: null, differs: false },
  { name: 'duplicate-delivery', title: 'delivery sent three times', kind: 'vendor', differs: false },
];

const LIVELY_PER_SECOND = 4;

/** The faults while the scenario runs. */
const FAULTS = {
  drop: 0.1,
  duplicate: 0.1,
  delay: { probability: 0.25, minMs: 100, maxMs: 1500 },
  reorder: 0.1,
  staleMs: 400,
  errorRate: 0.02,
} as const;

/** The faults before the last comparison. */
const NO_FAULTS = { drop: 0, duplicate: 0, delay: { probability: 0 }, reorder: 0, staleMs: 0, errorRate: 0 };

/** When the first and the last story begin, as a share of the run's length. */
const FIRST_AT = 0.1;
const LAST_AT = 0.8;

interface Scheduled {
  /** Milliseconds after the start. */
  atMs: number;
  story: Story;
}

/** When each story begins in a run of `runMs`. */
export function schedule(runMs: number): Scheduled[] {
  const step = (LAST_AT - FIRST_AT) / (STORIES.length - 1);
  return STORIES.map((story, index) => ({ atMs: Math.round(runMs * (FIRST_AT + step * index)), story }));
}

interface RunSettings {
  runMs: number;
  tamper: boolean;
  signal: AbortSignal;
}

/** The longest delay and the longest wait for an overtaking delivery are below 4 s. */
const QUIESCE_TIMEOUT_MS = 30_000;
/** It takes two list scans or two 404 answers a second apart, and the reads between them; several times that on a busy machine. */
const SETTLE_TIMEOUT_MS = 90_000;
/** How often `settle` looks at pending deletions and full syncs. */
const STATUS_EVERY_MS = 500;

/** One run of a given length. Resolves with lines that say what differs at its end; none: mirror and upstream are equal. */
export async function runOnce(screen: Printer, services: Services, settings: RunSettings): Promise<string[]> {
  const say = narrator(screen);
  introduce(screen, services);
  const comparer = createComparer(services);
  const first = await untilFirstSync(comparer, settings.signal);
  say(`in sync after the first full sync: ${countText(first)}`);

  say(`${LIVELY_PER_SECOND} changes a second; deliveries are dropped, duplicated, delayed and reordered`);
  const stories = schedule(settings.runMs).values();
  await play(services, comparer, { ...settings, stories }, say);

  say('quiescing: no more changes, deliveries under way are let through');
  await services.sandbox.setFaults(NO_FAULTS);
  if (!(await services.sandbox.quiesce(QUIESCE_TIMEOUT_MS))) {
    throw new MirrorError('demo', 'the sandbox still has deliveries under way');
  }
  const before = await comparer.compareNow();
  const differing = before.differences.length;
  const differ = differing === 1 ? '1 record differs' : `${differing} records differ`;
  say(`quiet; ${differ} before the last repair, full syncs are asked for`);
  const syncRunsBefore = new Set((await services.ops.syncRuns()).map((fullSync) => fullSync.id));
  await services.ops.requestFullSync();
  let comparison = await settle(services, comparer, { syncRunsBefore, signal: settings.signal }, say);

  await writeHistory(screen, services, comparer);
  if (settings.tamper) {
    const edited = await services.tables.tamper();
    if (edited === null) throw new MirrorError('demo', 'there is no row to tamper with');
    say(`tampered: ${edited.field} of ${edited.kind} ${edited.id} edited by SQL`);
    comparison = await comparer.compareNow();
  }
  return conclude(screen, comparison);
}

/** Runs the lively scenario with its faults, plays each story at its time, and compares in between. */
async function play(
  services: Services,
  comparer: Comparer,
  { runMs, stories, signal }: { runMs: number; stories: Iterator<Scheduled, undefined>; signal: AbortSignal },
  say: Say,
  onComparison: (comparison: Comparison) => Promise<void> = async () => {},
): Promise<void> {
  await services.sandbox.setFaults(FAULTS);
  await services.sandbox.startLively(LIVELY_PER_SECOND);
  const startedMs = Date.now();
  let next = stories.next().value;
  // A slow machine takes longer than `runMs`, because no story may be left out: it would count as never seen to differ.
  while ((Date.now() < startedMs + runMs || next !== undefined) && !signal.aborted) {
    if (next !== undefined && Date.now() >= startedMs + next.atMs) {
      say(`${next.story.title}: ${(await comparer.play(next.story)) ?? 'no record is left for it'}`);
      next = stories.next().value;
    } else await onComparison(await comparer.compareNow());
    await pause(LOOK_EVERY_MS, signal);
  }
}

/**
 * Waits until nothing differs, waits or is unverified, and each kind had one more full sync, because a full sync might break
 * something. Approves pending deletions, as an operator would.
 */
async function settle(
  services: Services,
  comparer: Comparer,
  request: { syncRunsBefore: ReadonlySet<number>; signal: AbortSignal },
  say: Say,
): Promise<Comparison> {
  let nextStatusMs = 0;
  let synced = false;
  const comparison = await until(comparer, request.signal, SETTLE_TIMEOUT_MS, async (current) => {
    if (Date.now() >= nextStatusMs) {
      nextStatusMs = Date.now() + STATUS_EVERY_MS;
      for (const { kind, count } of await services.ops.approveDeletions()) {
        say(`${count} deletions (${kind}) waited for approval; approved, as an operator`);
      }
      const ended = (await services.ops.syncRuns()).filter((fullSync) => fullSync.finished_at !== null);
      synced = KINDS.every((kind) =>
        ended.some((fullSync) => fullSync.kind === kind && !request.syncRunsBefore.has(fullSync.id)),
      );
    }
    return synced && isSettled(current);
  });
  say(isSettled(comparison) ? 'settled' : `not settled after ${SETTLE_TIMEOUT_MS / 1000} s`);
  return comparison;
}

function isSettled(comparison: Comparison): boolean {
  return (
    isEqual(comparison) && comparison.pendingEvents === 0 && unverifiedRows(comparison.mirror).length === 0
  );
}

/** Writes what differed during the run, and what ended each difference. */
async function writeHistory(screen: Printer, services: Services, comparer: Comparer): Promise<void> {
  const observations = comparer.log.all;
  const { rows, left } = differenceRows(observations, await services.sandbox.deliveries());
  screen.write('', 'Before repair these differed:', '');
  screen.table(TABLE_HEADS, rows);
  if (left.length > 0) screen.write(`and ${left.length} more, ended ${tally(left)}`);
  const inTransit = observations.filter(isInTransit);
  if (inTransit.length > 0) {
    screen.write(`Besides, ${inTransit.length} differed only until their own event arrived.`);
  }
  const { events, redeliveries } = await services.tables.countEvents();
  screen.write(`Events: ${events} accepted once, ${redeliveries} redeliveries recognised.`, '');

  const unseen = STORIES.filter(
    (story) => story.differs && !observations.some((observation) => observation.story === story.title),
  );
  if (unseen.length > 0) {
    const names = unseen.map((story) => story.title).join(', ');
    throw new MirrorError('demo', `staged, and never seen to differ: ${names}`);
  }
}

function conclude(screen: Printer, comparison: Comparison): string[] {
  const lines = describeDifferences(comparison.differences);
  const unverified = unverifiedRows(comparison.mirror);
  for (const { kind, id } of unverified) lines.push(`${kind} ${id}: not verified`);
  if (comparison.pendingEvents > 0) lines.push(`${comparison.pendingEvents} events are still pending`);
  const silent = comparison.unknowable.size;
  const were =
    silent === 1
      ? '1 risk assessment was never announced'
      : `${silent} risk assessments were never announced`;
  const compared = lines.length === 0 ? 'Equal, record by record and field by field:' : 'Compared';
  screen.write(
    `${compared} ${countText(comparison)}.`,
    `${were}, and the API lists none: no mirror can know of them.`,
  );
  return lines;
}

function countText(comparison: Comparison): string {
  return KINDS.map((kind) => {
    const rows = [...comparison.mirror[kind].values()];
    const deleted = rows.filter((row) => row.deleted_at !== null).length;
    const tombstones = deleted > 0 ? ` and ${deleted} deleted` : '';
    return `${rows.length - deleted} ${NAMES[kind]}${tombstones}`;
  }).join(', ');
}

const NAMES = { policy: 'policies', risk_assessment: 'risk assessments', vendor: 'vendors' } as const;

type Say = (line: string) => void;

/** Writes lines with the seconds since it was made. */
function narrator(screen: Printer): Say {
  const startedMs = Date.now();
  return (line) => {
    const seconds = ((Date.now() - startedMs) / 1000).toFixed(1).padStart(5);
    screen.write(`${seconds} s  ${line}`);
  };
}

const STORY_EVERY_MS = 8_000;
const REPORT_EVERY_MS = 10_000;

function* endlessly(): Generator<Scheduled, undefined> {
  for (let played = 0; ; played += 1) {
    yield { atMs: (played + 1) * STORY_EVERY_MS, story: STORIES[played % STORIES.length]! };
  }
}

/** Runs the lively scenario and plays the stories again and again, until `signal` aborts. */
export async function keepRunning(screen: Printer, services: Services, signal: AbortSignal): Promise<void> {
  const say: Say = (line) => screen.write(`${new Date().toISOString().slice(11, 19)}  ${line}`);
  introduce(screen, services);
  screen.write('Ctrl-C ends it.', '');
  const comparer = createComparer(services);
  await untilFirstSync(comparer, signal);
  let nextReportMs = Date.now() + REPORT_EVERY_MS;
  const stories = endlessly();
  await play(
    services,
    comparer,
    { runMs: Number.POSITIVE_INFINITY, stories, signal },
    say,
    async (comparison) => {
      if (Date.now() < nextReportMs) return;
      nextReportMs = Date.now() + REPORT_EVERY_MS;
      const { events, redeliveries } = await services.tables.countEvents();
      const records = Object.values(comparison.mirror).reduce((sum, rows) => sum + rows.size, 0);
      const resolved = comparer.log.takeEnded();
      const ended = resolved.length > 0 ? `; resolved since the last line: ${tally(resolved)}` : '';
      say(
        `records: ${records}, events: ${events}, redeliveries: ${redeliveries}; records that differ now: ${comparison.differences.length}${ended}`,
      );
    },
  );
  screen.write('', 'Stopping both services.');
}

function introduce(screen: Printer, services: Services): void {
  const { sandboxUrl, shapesNumber, found } = services;
  screen.write(
    `Sandbox, in the place of the compliance service: ${sandboxUrl}/`,
    `Status page of the mirror, sign in: ${services.signInLink}`,
    `One more event: npm run cli -- trigger policy.updated --sandbox ${sandboxUrl} (or: compliance-mirror trigger …)`,
    `The sandbox answers in a form that it draws anew at each start; the same once more: --shapes ${shapesNumber}`,
    `setup has found ${found.length === 0 ? 'nothing that differs from the defaults' : `what differs from the defaults: ${found.join(', ')}`}`,
  );
}

import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { KINDS } from '../../src/compliance/kinds.ts';
import { MirrorError } from '../../src/platform/errors.ts';
import { type Sandbox, startSandbox } from '../sandbox.ts';
import {
  compare,
  type Difference,
  describeDifferences,
  type MirrorRecords,
  unknowableAssessments,
  upstreamRecords,
} from './compare.ts';
import { type Mirror, startMirror } from './mirror.ts';
import { type Printer, repairRows, TABLE_HEADS, tally } from './repairs.ts';
import { openMirrorTables } from './tables.ts';

interface DemoSettings {
  /** The shell's environment. Only what every program needs is passed on. */
  env: NodeJS.ProcessEnv;
  /** 0: any free one. */
  sandboxPort: number;
  /** How long the waves go on; infinite: until `signal` aborts. */
  runMs: number;
  tamper: boolean;
  signal: AbortSignal;
}

const PER_SECOND = 4;
const TROUBLE_MS = 30_000;
/** Time for what the trouble left behind, several times over, and to see that nothing follows. */
const QUIET_MS = 30_000;
/** Between two comparisons. */
const LOOK_EVERY_MS = 200;
/** The first full syncs take a second or two, but many times that on a busy machine. */
const FIRST_FULL_SYNC_TIMEOUT_MS = 60_000;
/** The longest delay and the longest wait for an overtaking delivery are below 4 s. */
const QUIESCE_TIMEOUT_MS = 30_000;
/** Two list scans or two 404 answers, the reads between them and one more full sync; many times that on a busy machine. */
const SETTLE_TIMEOUT_MS = 90_000;
/** The sandbox's retries come this many times sooner than a real sender's. */
const RETRY_SPEED = 10;

/**
 * Runs the sandbox and the mirror on loopback, with keys made for this run and files in a new directory, and always stops them.
 * The directory is removed, unless `keep` is called: the run failed, or found a difference that it did not make. Resolves with lines that say what differs at the end; none:
 * mirror and upstream are equal.
 */
export async function runDemo(
  screen: Printer,
  settings: DemoSettings,
  keep: (directory: string) => void,
): Promise<string[]> {
  const directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-demo-'));
  let isWell = false;
  try {
    await using closers = new AsyncDisposableStack();
    const webhookSecret = randomBytes(24).toString('base64url');
    const port = settings.sandboxPort;
    const sandbox = await startSandbox({ port, webhookSecret, timeScale: RETRY_SPEED });
    closers.defer(() => sandbox.close());
    const apiKey = sandbox.options.apiKeys[0]!;
    const mirror = await startMirror(directory, settings.env, { url: sandbox.url, apiKey, webhookSecret });
    closers.defer(() => mirror.stop());
    const events = ['policy.*', 'risk.*', 'vendor.*'];
    sandbox.parts.registrations.add({ url: mirror.receiverUrl, events, description: 'the demo’s mirror' });
    const tables = openMirrorTables(mirror.database);
    closers.defer(() => tables.close());
    const parts = { screen, settings, sandbox, mirror, tables };
    const differing = await Promise.race([play(parts), mirror.failed]);
    isWell = differing.length === 0 || settings.tamper;
    return differing;
  } finally {
    if (isWell) rmSync(directory, { recursive: true, force: true });
    else keep(directory);
  }
}

type Comparison = {
  mirror: MirrorRecords;
  differences: Difference[];
  unknowable: Set<string>;
  isGreen: boolean;
};

interface RunParts {
  screen: Printer;
  settings: DemoSettings;
  sandbox: Sandbox;
  mirror: Mirror;
  tables: ReturnType<typeof openMirrorTables>;
}

/** Resolves with lines that say what differs at the end. */
async function play({ screen, settings, sandbox, mirror, tables }: RunParts): Promise<string[]> {
  const { signal, runMs } = settings;
  const { scenarios, upstream: service } = sandbox.parts;
  const startedMs = Date.now();

  const say = (line: string) => {
    const seconds = ((Date.now() - startedMs) / 1000).toFixed(1).padStart(6);
    screen.write(`${seconds} s  ${line}`);
  };

  const compareNow = (): Comparison => {
    const { records, isGreen } = tables.read();
    const upstream = upstreamRecords((kind) => service.state.list(kind));
    const unknowable = unknowableAssessments(upstream, service.unannounced());
    return { mirror: records, differences: compare(records, upstream, unknowable), unknowable, isGreen };
  };

  /** Compares until `isDone`, time is up, or `ended` aborts. Resolves with the last comparison. */
  async function until(
    timeoutMs: number,
    isDone: (comparison: Comparison) => boolean,
    ended?: AbortSignal,
  ): Promise<Comparison> {
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      const comparison = compareNow();
      if (isDone(comparison) || Date.now() >= deadline || ended?.aborted) return comparison;
      await sleep(LOOK_EVERY_MS, undefined, { signal: ended }).catch(() => undefined);
    }
  }

  /** Ends the changes, and waits for the deliveries that are under way. */
  const stop = async () =>
    (await scenarios.run({ name: 'stop', waitMs: QUIESCE_TIMEOUT_MS })) as { quiet: boolean };

  /** Trouble and quiet in turns, until time is up or somebody ends it. */
  async function waves(): Promise<void> {
    const endMs = Date.now() + runMs;
    while (Date.now() < endMs && !signal.aborted) {
      const began = new Date();
      const troubleMs = Math.min(TROUBLE_MS, endMs - began.getTime());
      say(
        `trouble: ${PER_SECOND} changes a second; deliveries are dropped, duplicated, delayed and reordered`,
      );
      await scenarios.run({ name: 'bad day', seconds: troubleMs / 1000, perSecond: PER_SECOND });
      await until(troubleMs, () => false, signal);
      if (Date.now() >= endMs || signal.aborted) return;

      const quietMs = Date.now();
      say('quiet: no more changes, and the mirror finds what it missed');
      // A delivery that is still under way would turn the page yellow once more.
      let isQuiet = false;
      const green = until(QUIET_MS, (current) => isQuiet && isSettled(current), signal);
      await stop();
      isQuiet = true;
      if (isSettled(await green)) {
        const seconds = ((Date.now() - quietMs) / 1000).toFixed(1);
        const repairs = tally(tables.repairs(began.toISOString()));
        say(`green after ${seconds} s; rows that the API repaired or completed: ${repairs}`);
      }
      await until(quietMs + QUIET_MS - Date.now(), () => false, signal);
    }
  }

  /** Writes what differed during the run, and what repaired it. */
  function writeHistory(since: string): void {
    const { rows, left, completed } = repairRows(tables.repairs(since), service.deliveries.list());
    screen.write('', 'These differed, and what repaired them:', '');
    screen.table(TABLE_HEADS, rows);
    if (left > 0) screen.write(`and ${left} more before them`);
    screen.write(`Besides, the API completed ${completed} rows, since events do not show every field.`);
    const { events, redeliveries } = tables.countEvents();
    screen.write(`Events: ${events} accepted once, ${redeliveries} redeliveries recognised.`, '');
  }

  screen.write(
    `Status page of the mirror, sign in: ${mirror.signInLink}`,
    `Page of the sandbox, in the place of the compliance service: ${sandbox.url}/`,
    `One more event: compliance-mirror sandbox trigger policy.updated --sandbox ${sandbox.url}`,
    runMs === Number.POSITIVE_INFINITY ? 'Ctrl-C ends it, and compares both.' : '',
  );
  const first = await until(FIRST_FULL_SYNC_TIMEOUT_MS, isSettled, signal);
  const isEmpty = KINDS.every((kind) => first.mirror[kind].size === 0);
  if (!signal.aborted && (isEmpty || !isSettled(first))) {
    throw new MirrorError('demo', 'the first full sync did not bring the mirror into sync');
  }
  say(`in sync after the first full sync: ${countText(first)}`);
  // What the mirror lacked before that is no difference.
  const since = new Date().toISOString();
  await waves();

  say('the end: no more changes; deliveries under way are let through, and one more full sync');
  const quietAt = new Date().toISOString();
  const { quiet } = await stop();
  if (!quiet) throw new MirrorError('demo', 'the sandbox still has deliveries under way');
  const isOver = (current: Comparison) => isSettled(current) && tables.hasFullSyncs(quietAt);
  let last = await until(SETTLE_TIMEOUT_MS, isOver);
  say(isSettled(last) ? 'settled' : `not settled after ${SETTLE_TIMEOUT_MS / 1000} s`);
  writeHistory(since);
  if (settings.tamper) {
    const edited = tables.tamper();
    if (edited === null) throw new MirrorError('demo', 'there is no row to tamper with');
    say(`tampered: ${edited.field} of ${edited.kind} ${edited.id} edited by SQL`);
    last = compareNow();
  }

  const lines = describeDifferences(last.differences);
  if (!last.isGreen && lines.length === 0) lines.push('the mirror does not say that it is in sync');
  const compared = lines.length === 0 ? 'Equal, record by record and field by field:' : 'Compared';
  const silent = last.unknowable.size;
  screen.write(`${compared} ${countText(last)}.`);
  if (silent > 0) {
    screen.write(
      `Risk assessments of which no event arrived: ${silent}. The API lists none, so no mirror can know of them.`,
    );
  }
  return lines;
}

/** A record that is not verified keeps its kind from green. */
const isSettled = ({ differences, isGreen }: Comparison): boolean => differences.length === 0 && isGreen;

function countText({ mirror }: Comparison): string {
  return KINDS.map((kind) => {
    const rows = [...mirror[kind].values()];
    const deleted = rows.filter((row) => row.deleted_at !== null).length;
    const tombstones = deleted > 0 ? ` and ${deleted} deleted` : '';
    return `${rows.length - deleted} ${NAMES[kind]}${tombstones}`;
  }).join(', ');
}

const NAMES = { policy: 'policies', risk_assessment: 'risk assessments', vendor: 'vendors' } as const;

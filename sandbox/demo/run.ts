import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { KINDS } from '../../src/compliance/kinds.ts';
import { MirrorError } from '../../src/platform/errors.ts';
import { type Sandbox, startSandbox } from '../sandbox.ts';
import { compare, describeDifferences, unknowableAssessments, upstreamRecords } from './compare.ts';
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
    const run = new Run({ screen, settings, sandbox, mirror, tables });
    const differing = await Promise.race([run.play(), mirror.failed]);
    isWell = differing.length === 0 || settings.tamper;
    return differing;
  } finally {
    if (isWell) rmSync(directory, { recursive: true, force: true });
    else keep(directory);
  }
}

type Comparison = ReturnType<Run['compareNow']>;

interface RunParts {
  screen: Printer;
  settings: DemoSettings;
  sandbox: Sandbox;
  mirror: Mirror;
  tables: ReturnType<typeof openMirrorTables>;
}

class Run {
  readonly #parts: RunParts;
  readonly #startedMs = Date.now();

  constructor(parts: RunParts) {
    this.#parts = parts;
  }

  async play(): Promise<string[]> {
    const { screen, sandbox, mirror, settings } = this.#parts;
    const { signal } = settings;
    screen.write(
      `Status page of the mirror, sign in: ${mirror.signInLink}`,
      `Page of the sandbox, in the place of the compliance service: ${sandbox.url}/`,
      `One more event: compliance-mirror sandbox trigger policy.updated --sandbox ${sandbox.url}`,
      settings.runMs === Number.POSITIVE_INFINITY ? 'Ctrl-C ends it, and compares both.' : '',
    );
    const first = await this.#until(FIRST_FULL_SYNC_TIMEOUT_MS, signal, isSettled);
    const isEmpty = KINDS.every((kind) => first.mirror[kind].size === 0);
    if (!signal.aborted && (isEmpty || !isSettled(first))) {
      throw new MirrorError('demo', 'the first full sync did not bring the mirror into sync');
    }
    this.#say(`in sync after the first full sync: ${countText(first)}`);
    // What the mirror lacked before that is no difference.
    const since = new Date().toISOString();
    await this.#waves();

    this.#say('the end: no more changes; deliveries under way are let through, and one more full sync');
    const quietAt = new Date().toISOString();
    const { quiet } = await this.#stop();
    if (!quiet) throw new MirrorError('demo', 'the sandbox still has deliveries under way');
    const never = new AbortController().signal;
    let comparison = await this.#until(
      SETTLE_TIMEOUT_MS,
      never,
      (current) => isSettled(current) && this.#parts.tables.hasFullSyncs(quietAt),
    );
    this.#say(isSettled(comparison) ? 'settled' : `not settled after ${SETTLE_TIMEOUT_MS / 1000} s`);
    this.#writeHistory(since);
    if (settings.tamper) {
      const edited = this.#parts.tables.tamper();
      if (edited === null) throw new MirrorError('demo', 'there is no row to tamper with');
      this.#say(`tampered: ${edited.field} of ${edited.kind} ${edited.id} edited by SQL`);
      comparison = this.compareNow();
    }
    return this.#conclude(comparison);
  }

  /** Trouble and quiet in turns, until time is up or somebody ends it. */
  async #waves(): Promise<void> {
    const { runMs, signal } = this.#parts.settings;
    const endMs = Date.now() + runMs;
    while (Date.now() < endMs && !signal.aborted) {
      const began = new Date();
      const troubleMs = Math.min(TROUBLE_MS, endMs - began.getTime());
      this.#say(
        `trouble: ${PER_SECOND} changes a second; deliveries are dropped, duplicated, delayed and reordered`,
      );
      const { scenarios } = this.#parts.sandbox.parts;
      await scenarios.run({ name: 'bad day', seconds: troubleMs / 1000, perSecond: PER_SECOND });
      await this.#until(troubleMs, signal, () => false);
      if (Date.now() >= endMs || signal.aborted) return;

      const quietMs = Date.now();
      this.#say('quiet: no more changes, and the mirror finds what it missed');
      // A delivery that is still under way would turn the page yellow once more.
      let isQuiet = false;
      const green = this.#until(QUIET_MS, signal, (current) => isQuiet && isSettled(current));
      await this.#stop();
      isQuiet = true;
      if (isSettled(await green)) {
        const seconds = ((Date.now() - quietMs) / 1000).toFixed(1);
        const repairs = this.#parts.tables.repairs(began.toISOString());
        this.#say(`green after ${seconds} s; rows that the API repaired or completed: ${tally(repairs)}`);
      }
      await this.#until(quietMs + QUIET_MS - Date.now(), signal, () => false);
    }
  }

  /** Ends the changes, and waits for the deliveries that are under way. */
  async #stop() {
    return (await this.#parts.sandbox.parts.scenarios.run({ name: 'stop', waitMs: QUIESCE_TIMEOUT_MS })) as {
      quiet: boolean;
    };
  }

  compareNow() {
    const { records, isGreen } = this.#parts.tables.read();
    const { upstream: service } = this.#parts.sandbox.parts;
    const upstream = upstreamRecords((kind) => service.state.list(kind));
    const unknowable = unknowableAssessments(upstream, service.unannounced());
    const differences = compare(records, upstream, unknowable);
    return { mirror: records, differences, unknowable, isGreen };
  }

  /** Compares until `isDone`, time is up, or `signal` aborts. Resolves with the last comparison. */
  async #until(
    timeoutMs: number,
    signal: AbortSignal,
    isDone: (comparison: Comparison) => boolean,
  ): Promise<Comparison> {
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      const comparison = this.compareNow();
      if (isDone(comparison) || Date.now() >= deadline || signal.aborted) return comparison;
      await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Writes what differed during the run, and what repaired it. */
  #writeHistory(since: string): void {
    const { screen, tables, sandbox } = this.#parts;
    const deliveries = sandbox.parts.upstream.deliveries.list();
    const { rows, left, completed } = repairRows(tables.repairs(since), deliveries);
    screen.write('', 'These differed, and what repaired them:', '');
    screen.table(TABLE_HEADS, rows);
    if (left > 0) screen.write(`and ${left} more before them`);
    screen.write(`Besides, the API completed ${completed} rows, since events do not show every field.`);
    const { events, redeliveries } = tables.countEvents();
    screen.write(`Events: ${events} accepted once, ${redeliveries} redeliveries recognised.`, '');
  }

  #conclude(comparison: Comparison): string[] {
    const lines = describeDifferences(comparison.differences);
    if (!comparison.isGreen && lines.length === 0) lines.push('the mirror does not say that it is in sync');
    const compared = lines.length === 0 ? 'Equal, record by record and field by field:' : 'Compared';
    const silent = comparison.unknowable.size;
    this.#parts.screen.write(`${compared} ${countText(comparison)}.`);
    if (silent > 0) {
      this.#parts.screen.write(
        `Risk assessments of which no event arrived: ${silent}. The API lists none, so no mirror can know of them.`,
      );
    }
    return lines;
  }

  #say(line: string): void {
    const seconds = ((Date.now() - this.#startedMs) / 1000).toFixed(1).padStart(6);
    this.#parts.screen.write(`${seconds} s  ${line}`);
  }
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

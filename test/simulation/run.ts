import { createHash, randomUUID } from 'node:crypto';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import { openSqlite } from '../../src/store/sqlite/sqlite.ts';
import type { ReadMoment } from '../../src/store/store.ts';
import { evidenceInFile } from './evidence.ts';
import { assessmentNamedIn, createInvariants } from './invariants.ts';
import { type Mirror, startMirror } from './mirror.ts';
import { createModel } from './model.ts';
import { initialIds, type Operation, type Plan } from './plan.ts';
import { createChance } from './random.ts';
import { createSender, isEventOfItsKind, type Sent, speaksOfItsRecord } from './sender.ts';
import {
  createVerdict,
  endlessScan,
  namedTo,
  performOnUpstream,
  standingInQuiet,
  surelyGone,
} from './story.ts';
import { createWorld } from './time.ts';
import { createUpstreamClient, type Weather } from './upstream.ts';

/** A file system in memory where there is one: a run commits some hundred times, and it is not the disk that is tested. */
export const FOLDER = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

/** Records existed this long before the mirror first looked. */
export const LONG_AGO = -1_000_000;

/** With everything working again, equality is due within this. An hour of clock step must not be outwaited. */
export const RESOLVING_MS = 20 * 60_000;

/** A start that a full disk has stopped is tried again within this. */
const RESTART_MS = 6_000;

/** After equality: nothing may disturb it. In SETTLEs. */
export const AFTERWARDS_IN_SETTLES = 4;

/** What the mirror asks for where no assessment is known. */
const MADE_UP = /^compliance-mirror-/;

/** Commits that touch no record: nothing to check after them. */
const BOOKKEEPING: ReadonlySet<string> = new Set([
  ...[
    'beat',
    'startSyncRun',
    'progressSyncRun',
    'finishSyncRun',
    'interruptSyncRuns',
    'openGap',
    'resolveGap',
    'audit',
  ],
]);

export interface Outcome {
  seed: number;
  /** Null: every invariant held. */
  failure: string | null;
  trace: string[];
  /** SHA-256 over the whole trace. */
  traceHash: string;
  virtualMs: number;
  commits: number;
}

let template: Buffer | null = null;

/** The bytes of an empty, migrated database: migrating anew for each run would cost more than the run. */
async function emptyDatabase(folder: string): Promise<Buffer> {
  if (template === null) {
    const path = join(folder, `simulation-${randomUUID()}.db`);
    await openSqlite({ path }).close();
    const db = new Database(path);
    template = db.serialize();
    db.close();
    rmSync(path);
  }
  return template;
}

/** Plays a plan to its end, through its quiet, or to its first failure. Never rejects for what the mirror does. */
export async function run(plan: Plan, folder = FOLDER): Promise<Outcome> {
  const { settings } = plan;
  const world = createWorld();
  const chance = createChance(plan.seed ^ 0x5bd1e995);
  const model = createModel({ order: settings.order, references: new Map(settings.references) });
  const weather: Weather = { active: new Set(), rough: true };
  const path = join(folder, `simulation-${randomUUID()}.db`);
  writeFileSync(path, await emptyDatabase(folder));

  const lines: string[] = [];
  const hash = createHash('sha256');
  const trace = (line: string) => {
    const stamped = `${world.now()} ${line}`;
    hash.update(stamped);
    hash.update('\n');
    lines.push(stamped);
  };
  const verdict = createVerdict(trace);
  const { fail, demand } = verdict;

  const sentByBody = new Map<string, Sent>();
  const evidence = evidenceInFile(path);
  const invariants = createInvariants({
    ...{ evidence, model },
    eventOf: (body) => {
      const sent = sentByBody.get(body);
      return sent !== undefined && speaksOfItsRecord(sent) ? sent : null;
    },
    unreadOf: (body) => {
      const sent = sentByBody.get(body);
      return sent !== undefined && isEventOfItsKind(sent) ? sent : null;
    },
    now: world.now,
  });
  let commits = 0;
  let slowUntil = -1;
  let slownessMs = 0;
  let fullUntil = -1;
  const syncedSince = new Map<Kind, number>();

  function start(): Mirror {
    trace('start');
    return startMirror({
      ...{ path, world, chance, settings, trace },
      client: (life) =>
        createUpstreamClient({
          ...{ world, model, chance, settings, weather, trace, ...life },
          onPage: (kind, page) => demand(endlessScan(model, settings, kind, page)),
          onAnswer: (kind, id, says) => {
            // Where ids are sought, what may be none is asked for as well. On a full disk nothing can be written down.
            const isNoted = id !== null && settings.elsewhere.share === 0 && !MADE_UP.test(id);
            const isLost = says === 'garbled' && world.now() <= fullUntil;
            invariants.answered(kind, isNoted && !isLost ? id : null, says);
          },
        }),
      onCommit: (verb, args) => {
        commits += 1;
        if (verb === 'accept') {
          const { events } = args[0] as { events: { id: string; body: string }[] };
          events.forEach(invariants.accepted);
          for (const { body } of events) {
            // An assessment's own id and another record's reference stand in the same field.
            invariants.named(assessmentNamedIn((JSON.parse(body) as { data: JsonObject }).data));
          }
        }
        invariants.named(namedTo(verb, args));
        if (!BOOKKEEPING.has(verb)) {
          const read = verb === 'applyReads' ? (args[2] as ReadMoment) : null;
          demand(invariants.check(read?.number ?? null));
        }
        demand(invariants.checkUnread());
        demand(invariants.checkAnswers());
      },
      onFullSync: (kind, outcome, startedAt) => {
        if (outcome !== 'complete') return;
        syncedSince.set(kind, startedAt);
        demand(invariants.checkWhole(kind, startedAt - settings.settleMs));
      },
      onBug: fail,
      slownessMs: () => (world.now() < slowUntil ? slownessMs : 0),
      diskIsFull: () => world.now() < fullUntil,
    });
  }

  invariants.named(settings.riskIds);
  for (const kind of KINDS)
    for (const id of initialIds(settings, kind)) model.change(kind, id, LONG_AGO, true);
  let mirror: Mirror | null = start();
  const sender = createSender({
    ...{ world, settings },
    async deliver(sent, signedWall) {
      sentByBody.set(sent.body, sent);
      const to = mirror;
      const answer = to === null ? 'none' : await to.deliver(sent, signedWall);
      if (answer === 'none' && to !== null && to === mirror && world.now() > fullUntil + RESTART_MS) {
        fail(`${sent.id} was turned away, and nothing kept the mirror from storing it`);
      }
      trace(`delivery ${sent.id} about ${sent.kind} ${sent.recordId} version ${sent.rev}: ${answer}`);
      if (answer === 'acknowledged') invariants.acknowledged(sent.id);
      return answer;
    },
  });

  function died(downMs: number, stepMs: number): void {
    trace('crash');
    invariants.forgetAnswers();
    mirror = null;
    world.at(world.now() + downMs, null, () => {
      if (stepMs !== 0) world.stepTo(world.wallOffset() + stepMs);
      demand(invariants.checkStored());
      mirror ??= start();
    });
  }

  function perform(operation: Operation): void {
    trace(JSON.stringify(operation));
    switch (operation.do) {
      case 'write':
      case 'delete':
      case 'fault':
        performOnUpstream(operation, { world, model, weather, invariants, sender, trace });
        return;
      case 'crash': {
        if (mirror === null) return;
        const { commits: left, when, downMs, stepMs } = operation;
        if (left > 0) {
          mirror.crashAfter(left, when, () => died(downMs, stepMs));
          return;
        }
        mirror.crash();
        died(downMs, stepMs);
        return;
      }
      case 'step':
        world.stepTo(operation.offsetMs);
        return;
      case 'slow':
        slowUntil = world.now() + operation.forMs;
        slownessMs = operation.delayMs;
        return;
      case 'disk_full':
        fullUntil = world.now() + operation.forMs;
        return;
      case 'sync':
        mirror?.requestFullSync(operation.kinds);
        return;
      case 'refetch':
        mirror?.refetch(operation.kind, operation.id);
        return;
    }
  }

  const stop = () => verdict.failure() !== null;
  let until = 0;
  for (const operation of plan.operations) {
    until = Math.max(until, operation.at);
    world.at(operation.at, null, () => perform(operation));
  }
  await world.runUntil(until, stop);
  while (
    verdict.failure() === null &&
    (sender.outstanding() > 0 || weather.active.size > 0 || mirror === null)
  ) {
    until += settings.settleMs;
    await world.runUntil(until, stop);
  }

  // ─── quiet ────────────────────────────────────────────────────────────────────────────────────────────
  trace('quiet');
  weather.rough = false;
  slowUntil = -1;
  fullUntil = -1;
  world.stepTo(0);
  mirror?.disarm();
  const quietSince = world.now();
  let asked = false;
  let standing: string[] = [];
  while (verdict.failure() === null) {
    until += 2 * settings.settleMs;
    await world.runUntil(until, stop);
    if (verdict.failure() !== null) break;
    if (!asked) {
      asked = true;
      mirror?.requestFullSync(KINDS);
      continue;
    }
    for (const syncRunId of surelyGone(invariants, model)) await mirror?.approve(syncRunId);
    for (const id of invariants.hopeless()) {
      invariants.settledByPerson(id);
      await mirror?.discard(id);
    }
    const quarantined = invariants.quarantined();
    if (quarantined.length > 0) invariants.releasedByPerson();
    for (const id of quarantined) await mirror?.release(id);
    standing = standingInQuiet(invariants, { syncedSince, quietSince });
    if (standing.length === 0) break;
    if (world.now() - quietSince > RESOLVING_MS) fail(`I6: ${standing.join('; ')}`);
  }
  if (verdict.failure() === null) {
    const afterwards = async () => {
      until += AFTERWARDS_IN_SETTLES * settings.settleMs;
      await world.runUntil(until, stop);
      return invariants.differences();
    };
    let after = await afterwards();
    // A search beside an id that nobody knows may end only now: what it names is read once more.
    if (after.length > 0 && after.every((one) => one.endsWith(' is unverified'))) after = await afterwards();
    if (after.length > 0) fail(`I6, afterwards: ${after.join('; ')}`);
    demand(invariants.checkStored());
    demand(invariants.checkEffects());
  }
  mirror?.crash();
  evidence.close();
  world.end();
  for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true });
  return {
    seed: plan.seed,
    failure: verdict.failure(),
    trace: lines,
    traceHash: hash.digest('hex'),
    virtualMs: world.now(),
    commits,
  };
}

import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import type { TestDatabase } from '../postgres/database.ts';
import { createCrowd } from './interleaving.ts';
import { assessmentNamedIn, createInvariants } from './invariants.ts';
import { createModel } from './model.ts';
import { initialIds } from './plan.ts';
import { type Process, startProcess } from './process.ts';
import { createChance } from './random.ts';
import type { Site } from './replica.ts';
import type { ReplicasPlan } from './replicas-plan.ts';
import { AFTERWARDS_IN_SETTLES, LONG_AGO, RESOLVING_MS } from './run.ts';
import { type Answer, createSender, isEventOfItsKind, type Sent, speaksOfItsRecord } from './sender.ts';
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
import { createWitness, type Note } from './witness.ts';
import { createWork } from './work.ts';

/**
 * Several replicas of the real stages over one real PostgreSQL.
 *
 * Virtual: all clocks, the database's as the replicas learn of it among them, and with them leases, claims, backoffs
 * and timers; the upstream, the network, deliveries, notices between replicas, deaths and standstills. Real: every
 * verb, on each replica's own connections, and so what waits for what, which transaction sees which, and in which
 * order they commit. That order is the server's and the machine's, so the same seed has the same history but not the
 * same trace (I7). Left to other tests: steps of the database's clock, its restarts, and LISTEN.
 */

/** A sender waits this long for its answer. */
const SENDER_PATIENCE_MS = 15_000;
/** Share of deliveries that reach several replicas at once. */
const TO_SEVERAL = 0.4;
const NOTICE_LOST = 0.1;
const LONGEST_NOTICE_MS = 50;
/** How often a follower asks for what is new in `changes`. */
const FOLLOW_EVERY_MS = 100;

export interface ReplicasOutcome {
  seed: number;
  /** Null: every invariant held. */
  failure: string | null;
  trace: string[];
  virtualMs: number;
  transactions: number;
  /** Transactions that wanted the counter while another replica's had it, or waited for it. */
  met: number;
  deaths: number;
}

/** Plays a plan over an empty database with a witness. Never rejects for what the replicas do. */
export async function runReplicas(plan: ReplicasPlan, database: TestDatabase): Promise<ReplicasOutcome> {
  await database.empty();
  await database.query('TRUNCATE witness.notes');
  const { settings } = plan;
  const work = createWork();
  const world = createWorld(work);
  const chance = createChance(plan.seed ^ 0x5bd1e995);
  const model = createModel({ order: settings.order, references: new Map(settings.references) });
  const weather: Weather = { active: new Set(), rough: true };
  const witness = createWitness(database);
  const lines: string[] = [];
  const trace = (line: string) => lines.push(`${Math.round(world.now())} ${line}`);
  const verdict = createVerdict(trace);
  const { fail, demand } = verdict;
  const count = { transactions: 0, deaths: 0 };
  const crowd = createCrowd();

  const sentByBody = new Map<string, Sent>();
  const acknowledged = new Set<string>();
  const invariants = createInvariants({
    ...{ evidence: witness, model },
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

  // ─── what the database has noted ──────────────────────────────────────────────────────────────────────

  const processes: (Process | null)[] = Array.from({ length: plan.replicas }, () => null);
  const owners = new Map<string, string>();
  const alive = new Map<string, boolean>();
  const traced = new Map<string, string>();
  const afterwards: (() => void)[] = [];
  let isJudging = false;
  let judgeAgain = false;

  function judgeOne(notes: readonly Note[]): void {
    let read: number | null = null;
    for (const note of notes) {
      if (note.body !== null) {
        invariants.accepted({ id: '', body: note.body });
        invariants.named(namedInBody(note.body));
        continue;
      }
      const { kind, id, who, cause, data } = note;
      const key = `${kind} ${id}`;
      witness.learn(note);
      read = note.read_number ?? read;
      if (kind === 'risk_assessment') invariants.named([id]);
      else if (data !== null) invariants.named(assessmentNamedIn(JSON.parse(data) as JsonObject));
      const isAlive = note.deleted_at === null;
      const isConcluded = !isAlive && alive.get(key) === true && !cause?.startsWith('event:');
      if (isConcluded && note.lease_owner !== owners.get(who)) {
        fail(`I5: ${who} deletes ${key}, and ${note.lease_owner} holds the lease`);
      }
      alive.set(key, isAlive);
      const shown = `${isAlive ? '' : 'deleted '}${note.unverified_since === null ? 'verified ' : ''}${data}`;
      if (traced.get(key) !== shown) trace(`${who} commits ${key} ${shown}`);
      traced.set(key, shown);
    }
    demand(invariants.check(read));
  }

  async function judgeOnce(): Promise<void> {
    const [twice] = await witness.claimedTwice();
    if (twice !== undefined) fail(`I2: two batches hold events of ${twice} at once`);
    const known = invariants.unread();
    if (known.size > 0) await witness.look('inSync');
    const notes = await witness.take();
    for (const some of Map.groupBy(notes, (note) => note.transaction).values()) {
      count.transactions += 1;
      judgeOne(some);
    }
    for (const then of afterwards.splice(0)) then();
    demand(invariants.checkUnread(known));
  }

  async function judge(): Promise<void> {
    judgeAgain = true;
    if (isJudging) return;
    isJudging = true;
    while (judgeAgain) {
      judgeAgain = false;
      await judgeOnce();
    }
    isJudging = false;
  }

  const followed = new Set<number>();
  let followedTo = 0;
  async function follow(): Promise<void> {
    const rows = await database.query(
      `SELECT seq FROM changes WHERE seq > ${followedTo} ORDER BY seq LIMIT 10`,
    );
    for (const { seq } of rows) {
      followedTo = seq as number;
      followed.add(followedTo);
    }
  }
  const real = (doing: Promise<unknown>) =>
    void work.track(world.now(), doing).catch((error) => fail(String(error)));
  function keepFollowing(): void {
    real(follow());
    world.at(world.now() + FOLLOW_EVERY_MS, null, keepFollowing);
  }

  // ─── the replicas ─────────────────────────────────────────────────────────────────────────────────────

  let slowUntil = -1;
  let slownessMs = 0;
  let fullUntil = -1;
  const syncedSince = new Map<Kind, number>();
  const finished = new Map<number, string>();

  const site: Site = {
    ...{ world, chance, settings, trace },
    client: (life) =>
      createUpstreamClient({
        ...{ world, model, chance, settings, weather, trace, ...life },
        onPage: (kind, page) => demand(endlessScan(model, settings, kind, page)),
      }),
    onOutcome({ event }) {
      const before = finished.get(event.seq);
      if (before !== undefined) fail(`I2: ${event.id} was processed by ${before} and by ${event.owner}`);
      finished.set(event.seq, event.owner);
    },
    onFullSync(kind, outcome, startedAt) {
      if (outcome !== 'complete') return;
      syncedSince.set(kind, startedAt);
      afterwards.push(() =>
        demand(invariants.checkWhole(kind, startedAt - settings.settleMs - FOLLOW_EVERY_MS)),
      );
      real(judge());
    },
    onBug: fail,
    databaseIsFull: () => world.now() < fullUntil,
    notify(_from, notice) {
      for (const place of processes.keys()) {
        if (chance.happens('notice', NOTICE_LOST)) continue;
        const at = world.now() + chance.between('notice', 1, LONGEST_NOTICE_MS);
        world.at(at, null, () => processes[place]?.stages.hear(notice));
      }
    },
  };

  function onVerb(verb: string, args: readonly unknown[]): void {
    invariants.named(namedTo(verb, args));
    for (const process of processes) {
      const id = process?.stages.id();
      if (process && id) owners.set(process.name, id);
    }
    real(judge());
  }

  let lives = 0;
  function start(place: number): void {
    lives += 1;
    const name = `replica ${place + 1}, life ${lives}`;
    trace(`${name} starts`);
    processes[place] = startProcess({
      ...{ site, work, crowd, name, url: database.url, onVerb },
      slownessMs: () => (world.now() < slowUntil ? slownessMs : 0),
    });
  }

  function died(place: number, downMs: number): void {
    trace(`replica ${place + 1} dies`);
    count.deaths += 1;
    processes[place] = null;
    world.at(world.now() + downMs, null, () => {
      // What is acknowledged while the database is asked may be newer than its answer.
      const before = new Set(acknowledged);
      real(witness.look().then(() => demand(invariants.checkStored(before))));
      if (processes[place] === null) start(place);
    });
  }

  const living = () => processes.filter((process) => process !== null);
  const someone = (name: string): Process | null => {
    const all = living();
    return all.length === 0 ? null : chance.pick(name, all);
  };

  async function deliver(sent: Sent, signedWall: number): Promise<Answer> {
    sentByBody.set(sent.body, sent);
    const one = someone('balancer');
    const to = chance.happens('several', TO_SEVERAL) ? living() : one === null ? [] : [one];
    const patience = Promise.withResolvers<'none'>();
    world.at(world.now() + SENDER_PATIENCE_MS, null, () => patience.resolve('none'));
    const answers = await Promise.all(
      to.map((process) => Promise.race([process.deliver(sent, signedWall), patience.promise])),
    );
    const answer =
      answers.find((each) => each === 'acknowledged') ?? answers.find((each) => each === 'refused') ?? 'none';
    trace(
      `delivery ${sent.id} about ${sent.kind} ${sent.recordId} version ${sent.rev}: ${answers.join(', ')}`,
    );
    if (answer === 'acknowledged') {
      acknowledged.add(sent.id);
      invariants.acknowledged(sent.id);
    }
    return answer;
  }
  const sender = createSender({ world, settings, deliver });

  function perform(operation: ReplicasPlan['operations'][number]): void {
    trace(JSON.stringify(operation));
    switch (operation.do) {
      case 'write':
      case 'delete':
      case 'fault':
        performOnUpstream(operation, { world, model, weather, invariants, sender, trace });
        return;
      case 'crash': {
        const victim = someone('victim');
        if (victim === null) return;
        const place = processes.indexOf(victim);
        const { commits, when, downMs } = operation;
        if (commits > 0) {
          victim.killAt(commits, when, () => died(place, downMs));
          return;
        }
        victim.kill();
        died(place, downMs);
        return;
      }
      case 'stall': {
        const { verb, forMs } = operation;
        if (verb === null) someone('stalled')?.standStill(forMs);
        else {
          for (const each of living()) {
            each.standStillAt(verb, forMs, () => {
              trace(`${each.name} stands still before ${verb}`);
              for (const other of living()) other.spare();
            });
          }
        }
        return;
      }
      case 'step':
        throw new Error('the database of several replicas has a clock without steps');
      case 'slow':
        slowUntil = world.now() + operation.forMs;
        slownessMs = operation.delayMs;
        return;
      case 'disk_full':
        fullUntil = world.now() + operation.forMs;
        return;
      case 'sync':
        someone('asked')?.stages.requestFullSync(operation.kinds);
        return;
      case 'refetch':
        someone('asked')?.stages.refetch(operation.kind, operation.id);
        return;
    }
  }

  // ─── the story ────────────────────────────────────────────────────────────────────────────────────────

  const stop = () => verdict.failure() !== null;

  async function play(): Promise<void> {
    invariants.named(settings.riskIds);
    for (const kind of KINDS)
      for (const id of initialIds(settings, kind)) model.change(kind, id, LONG_AGO, true);
    for (const place of processes.keys()) start(place);
    keepFollowing();
    let until = 0;
    for (const operation of plan.operations) {
      until = Math.max(until, operation.at);
      world.at(operation.at, null, () => perform(operation));
    }
    await world.runUntil(until, stop);
    const isUneasy = () =>
      sender.outstanding() > 0 ||
      weather.active.size > 0 ||
      processes.some((one) => one === null || one.isStill() || !one.stages.isRunning());
    while (verdict.failure() === null && isUneasy()) {
      until += settings.settleMs;
      await world.runUntil(until, stop);
    }
    await quieten(until);
  }

  async function quieten(from: number): Promise<void> {
    trace('quiet');
    weather.rough = false;
    slowUntil = -1;
    fullUntil = -1;
    for (const process of living()) process.disarm();
    const quietSince = world.now();
    const askedFor = (error: unknown) => fail(String(error));
    let until = from;
    let asked = false;
    while (verdict.failure() === null) {
      until += 2 * settings.settleMs;
      await world.runUntil(until, stop);
      if (verdict.failure() !== null) return;
      if (!asked) {
        asked = true;
        someone('asked')?.stages.requestFullSync(KINDS);
        continue;
      }
      await witness.look();
      for (const syncRunId of surelyGone(invariants, model)) {
        someone('asked')?.stages.approve(syncRunId).catch(askedFor);
      }
      // None of it is awaited: a verb's way takes the world's time, which goes on with the next round.
      for (const id of invariants.hopeless()) {
        invariants.settledByPerson(id);
        someone('asked')?.stages.discard(id).catch(askedFor);
      }
      const quarantined = invariants.quarantined();
      if (quarantined.length > 0) invariants.releasedByPerson();
      for (const id of quarantined) someone('asked')?.stages.release(id).catch(askedFor);
      const standing = standingInQuiet(invariants, { syncedSince, quietSince });
      if (standing.length === 0) break;
      if (world.now() - quietSince > RESOLVING_MS) fail(`I6: ${standing.join('; ')}`);
    }
    if (verdict.failure() !== null) return;
    await world.runUntil(until + AFTERWARDS_IN_SETTLES * settings.settleMs, stop);
    await atTheEnd();
  }

  async function atTheEnd(): Promise<void> {
    for (const process of living()) process.kill();
    await world.runUntil(world.now(), stop);
    await judgeOnce();
    await witness.look();
    const after = invariants.differences();
    if (after.length > 0) fail(`I6, afterwards: ${after.join('; ')}`);
    demand(invariants.checkStored());
    demand(invariants.checkEffects());
    const miscounted = await witness.miscounted();
    if (miscounted.length > 0) fail(`I2: events were counted wrongly: ${miscounted.join('; ')}`);
    const unnoticed = await witness.unnoticed();
    if (unnoticed.length > 0) fail(`the witness has missed ${unnoticed.join(', ')}`);
    for (let before = -1; before < followed.size; ) {
      before = followed.size;
      await follow();
    }
    const skipped = (await database.query('SELECT seq FROM changes')).filter(
      ({ seq }) => !followed.has(seq as number),
    );
    if (skipped.length > 0)
      fail(`a follower of changes has skipped ${skipped.map(({ seq }) => seq).join(', ')}`);
  }

  try {
    await play();
  } finally {
    for (const process of living()) process.kill();
    while (work.ended() !== null) await work.ended();
    world.end();
  }
  return {
    seed: plan.seed,
    failure: verdict.failure(),
    trace: lines,
    virtualMs: world.now(),
    ...count,
    met: crowd.met(),
  };
}

function namedInBody(body: string): string[] {
  try {
    return assessmentNamedIn((JSON.parse(body) as { data: JsonObject }).data);
  } catch {
    return [];
  }
}

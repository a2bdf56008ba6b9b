import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import type { ReadObject, Unknown } from '../../src/store/store.ts';
import type { Evidence } from './evidence.ts';
import { assessmentNamedIn, createInvariants, type Invariants } from './invariants.ts';
import type { Life } from './life.ts';
import { createModel } from './model.ts';
import { initialIds, type Operation, type Plan } from './plan.ts';
import { createChance } from './random.ts';
import { type Answer, bodyOf, createSender, type Sent } from './sender.ts';
import type { Site, Stages } from './stages.ts';
import { createWorld, type Work } from './time.ts';
import { createUpstreamClient, type Weather } from './upstream.ts';

/**
 * What every history has, whether one mirror lives through it or several replicas: an upstream that changes and fails, a
 * sender, deaths and new lives, a quiet end, and a verdict.
 */

/** Records existed this long before the mirror first looked. */
const LONG_AGO = -1_000_000;

/** With everything working again, equality is due within this. An hour of clock step must not be outwaited. */
const RESOLVING_MS = 20 * 60_000;
/** After equality: nothing may disturb it. In SETTLEs. */
const AFTERWARDS_IN_SETTLES = 4;

/** A start that a full disk has stopped is tried again within this. */
const RESTART_MS = 6_000;
/** A sender waits this long for its answer. */
const SENDER_PATIENCE_MS = 15_000;
/** Share of deliveries that reach all who live at once. */
const TO_SEVERAL = 0.4;

/** A list that grows and shifts while it is read may have some pages more than it has records for. */
const PAGES_TOO_MANY = 10;

/** What the mirror asks for where no assessment is known. */
const MADE_UP = /^compliance-mirror-/;

export interface Outcome {
  /** Null: every invariant held. */
  failure: string | null;
  trace: string[];
}

/** What one mirror and several replicas do each in their own way. */
export interface Staging<Alive extends Life> {
  start(name: string): Alive;
  /** Does `check` when all that is committed now is in the evidence. Default: it always is, and `check` is done at once. */
  onceSeen?(check: () => void): void;
  /** Makes one of the living, or whoever does something next, stand still. */
  stall?(stall: Extract<Operation, { do: 'stall' }>): void;
  /** Nobody lives any more. */
  judgeAtTheEnd?(): Promise<void>;
}

export interface Story<Alive extends Life> {
  site: Site;
  invariants: Invariants;
  /** The first failure counts. */
  fail(what: string): void;
  demand(violation: string | null): void;
  /** Lets this go on while the world's time stands still. */
  meanwhile(doing: Promise<unknown>): void;
  /** By place; null: nobody lives there now. */
  lives: readonly (Alive | null)[];
  living(): Alive[];
  /** Drawn under this name; null: nobody lives. */
  someone(name: string): Alive | null;
  /** Plays the plan to its end, through its quiet, or to its first failure. Never rejects for what the mirrors do. */
  play(staging: Staging<Alive>): Promise<Outcome>;
}

/** `clockErrorMs`: when a full sync began may be told wrongly by so much. */
export function createStory<Alive extends Life>(
  plan: Plan,
  { evidence, work, clockErrorMs = 0 }: { evidence: Evidence; work?: Work; clockErrorMs?: number },
): Story<Alive> {
  const { settings } = plan;
  const isAlone = plan.replicas === 1;
  const world = createWorld(work);
  const chance = createChance(plan.seed ^ 0x5bd1e995);
  const model = createModel({ order: settings.order, references: new Map(settings.references) });
  const weather: Weather = { active: new Set(), laggingSince: new Map(), rough: true };
  const lives: (Alive | null)[] = Array.from({ length: plan.replicas }, () => null);
  const lines: string[] = [];
  const trace = (line: string, who = '') => {
    lines.push(`${Math.round(world.now())} ${who}${who && ' '}${line}`);
  };

  let failure: string | null = null;
  const fail = (what: string) => {
    if (failure !== null) return;
    failure = what;
    trace(`FAILURE ${what}`);
  };
  const demand = (violation: string | null) => {
    if (violation !== null) fail(violation);
  };
  const hasFailed = () => failure !== null;
  const meanwhile = (doing: Promise<unknown>) =>
    void (work?.track(world.now(), doing) ?? doing).catch((error) => fail(String(error)));

  const sentByBody = new Map<string, Sent>();
  const acknowledged = new Set<string>();
  const sentAs = (body: string) => sentByBody.get(body);
  const invariants = createInvariants({
    ...{ evidence, model, sentAs, now: world.now },
    staleMs: settings.settleMs + 2 * settings.longestLatencyMs,
  });
  const syncedSince = new Map<Kind, number>();
  const finished = new Set<number>();
  const trouble = { slowUntil: -1, slownessMs: 0, fullUntil: -1 };
  let staging: Staging<Alive>;
  let until = 0;
  let started = 0;

  const site: Site = {
    world,
    chance,
    settings,
    trace,
    client: (life) =>
      createUpstreamClient({
        world,
        model,
        chance,
        settings,
        weather,
        trace,
        ...life,
        onPage: (kind, page) => {
          const pages = Math.ceil(model.ids(kind).length / settings.pageSize);
          if (page <= pages + PAGES_TOO_MANY) return;
          fail(
            `I6: a scan asks for page ${page} of ${kind}, which never had more than ${pages}, and may never end`,
          );
        },
        onAnswer: (kind, id, says) => {
          // Where ids are sought, what may be none is asked for as well. On a full disk nothing can be written down.
          const isNoted = id !== null && settings.elsewhere.share === 0 && !MADE_UP.test(id);
          const isLost = says === 'garbled' && world.now() <= trouble.fullUntil;
          invariants.answered(kind, isNoted && !isLost ? id : null, says);
        },
      }),
    onOutcome({ event }) {
      if (finished.has(event.seq)) fail(`I2: ${event.id} was processed twice`);
      finished.add(event.seq);
    },
    onFullSync(kind, outcome, startedAt) {
      if (outcome !== 'complete') return;
      syncedSince.set(kind, startedAt);
      onceSeen(() =>
        demand(invariants.checkWhole(kind, startedAt - settings.settleMs - settings.cacheMs - clockErrorMs)),
      );
    },
    onBug: fail,
    isDiskFull: () => world.now() < trouble.fullUntil,
    slownessMs: () => (world.now() < trouble.slowUntil ? trouble.slownessMs : 0),
  };

  const onceSeen = (check: () => void) =>
    staging.onceSeen === undefined ? check() : staging.onceSeen(check);

  // ─── lives ────────────────────────────────────────────────────────────────────────────────────────────

  const living = () => lives.filter((life) => life !== null) as Alive[];
  const someone = (name: string): Alive | null => {
    const all = living();
    return all.length === 0 ? null : chance.pick(name, all);
  };

  function start(place: number): void {
    started += 1;
    const name = isAlone ? '' : `replica ${place + 1}, life ${started}`;
    trace('start', name);
    lives[place] = staging.start(name);
  }

  function died(place: number, { downMs, stepMs }: { downMs: number; stepMs: number }): void {
    trace('crash', lives[place]?.name);
    invariants.forgetAnswers();
    lives[place] = null;
    world.at(world.now() + downMs, null, () => {
      if (stepMs !== 0) world.stepTo(world.wallOffset() + stepMs);
      // What is acknowledged while the database is asked may be newer than its answer.
      const before = new Set(acknowledged);
      const check = () => demand(invariants.checkStored(before));
      if (evidence.look === undefined) check();
      else meanwhile(evidence.look().then(check));
      if (lives[place] === null) start(place);
    });
  }

  // ─── what happens ─────────────────────────────────────────────────────────────────────────────────────

  async function deliver(sent: readonly Sent[], signedWall: number): Promise<Answer> {
    // What has the id and the content of another is no other event.
    for (const one of sent) if (!sentByBody.has(one.body)) sentByBody.set(one.body, one);
    const body = bodyOf(sent);
    const one = someone('balancer');
    const to = chance.happens('several', TO_SEVERAL) ? living() : one === null ? [] : [one];
    const patience = Promise.withResolvers<'none'>();
    const forget = world.at(world.now() + SENDER_PATIENCE_MS, null, () => patience.resolve('none'));
    const answers = await Promise.all(
      to.map((life) => Promise.race([life.deliver(body, signedWall), patience.promise])),
    );
    forget();
    const answer =
      answers.find((each) => each === 'acknowledged') ?? answers.find((each) => each === 'refused') ?? 'none';
    // One that is alone, and lives still, has nobody to wait for.
    if (isAlone && answer === 'none' && one !== null && lives.includes(one)) {
      if (world.now() > trouble.fullUntil + RESTART_MS)
        fail(`${sent[0]!.id} was turned away, and nothing kept the mirror from storing it`);
    }
    for (const { id, kind, recordId, rev } of sent) {
      trace(`delivery ${id} about ${kind} ${recordId} version ${rev}: ${answers.join(', ') || 'none'}`);
      if (answer === 'acknowledged') acknowledged.add(id);
    }
    return answer;
  }
  const sender = createSender({ world, settings, deliver });

  /** Asks one of the living for something, as a person does. */
  function ask(what: (stages: Stages) => Promise<void> | void): Promise<void> | void {
    const asked = someone('asked');
    const done = asked === null ? undefined : what(asked.stages);
    if (isAlone) return done;
    // Not waited for: a verb's way to a shared database takes the world's time, which goes on with the next round.
    done?.catch((error) => fail(String(error)));
  }

  function perform(operation: Operation): void {
    trace(JSON.stringify(operation));
    switch (operation.do) {
      case 'write':
      case 'delete': {
        const { kind, id, message } = operation;
        const last = model.history(kind, id).at(-1) ?? null;
        if (operation.do === 'delete' && !model.alive(kind, id)) return;
        const version = model.change(kind, id, world.now(), operation.do === 'write');
        if (message !== null) sender.announce(kind, id, version, last?.content ?? null, message);
        return;
      }
      case 'fault': {
        const { fault, forMs } = operation;
        weather.active.add(fault);
        if (fault.fault === 'lagging') {
          weather.laggingSince.set(fault.kind, { at: world.now(), of: fault.of });
          invariants.lagging(fault.kind);
        }
        if (fault.fault === 'forgetful') invariants.forgetting(fault.kind, true, world.now());
        world.at(world.now() + forMs, null, () => {
          weather.active.delete(fault);
          if (fault.fault === 'lagging') weather.laggingSince.delete(fault.kind);
          // Not while it goes on by another of the kind.
          const isOver = (kind: Kind) =>
            [...weather.active].every((other) => other.fault !== 'forgetful' || other.kind !== kind);
          if (fault.fault === 'forgetful' && isOver(fault.kind))
            invariants.forgetting(fault.kind, false, world.now());
          trace(`end of ${fault.fault}`);
        });
        return;
      }
      case 'crash': {
        const victim = someone('victim');
        if (victim === null) return;
        const { commits, when } = operation;
        const then = () => died(lives.indexOf(victim), operation);
        if (commits > 0) {
          victim.killAt(commits, when, then);
          return;
        }
        victim.kill();
        then();
        return;
      }
      case 'stall':
        staging.stall?.(operation);
        return;
      case 'step':
        world.stepTo(operation.offsetMs);
        return;
      case 'slow':
        trouble.slowUntil = world.now() + operation.forMs;
        trouble.slownessMs = operation.delayMs;
        return;
      case 'disk_full':
        trouble.fullUntil = world.now() + operation.forMs;
        return;
      case 'sync':
        ask((stages) => stages.requestFullSync(operation.kinds));
        // Whoever looks takes the other action too.
        for (const { kind, recordId } of unknowns())
          if (operation.kinds.includes(kind)) find({ kind, recordId });
        return;
      case 'refetch':
        ask((stages) => stages.refetch(operation.kind, operation.id));
        return;
    }
  }

  // ─── the course of it ─────────────────────────────────────────────────────────────────────────────────

  async function goOn(settles: number): Promise<void> {
    until += settles * settings.settleMs;
    await world.runUntil(until, hasFailed);
  }

  async function playOperations(): Promise<void> {
    invariants.named(settings.riskIds);
    for (const kind of KINDS)
      for (const id of initialIds(settings, kind)) model.change(kind, id, LONG_AGO, true);
    for (const place of lives.keys()) start(place);
    for (const operation of plan.operations) {
      until = Math.max(until, operation.at);
      world.at(operation.at, null, () => perform(operation));
    }
    await goOn(0);
    const isUneasy = () =>
      sender.outstanding() > 0 ||
      weather.active.size > 0 ||
      lives.some((life) => life === null || life.isStill());
    while (!hasFailed() && isUneasy()) await goOn(1);
  }

  /** Ends once the mirror is in sync. */
  async function quieten(): Promise<void> {
    trace('quiet');
    weather.rough = false;
    trouble.slowUntil = -1;
    trouble.fullUntil = -1;
    world.stepTo(0);
    for (const life of living()) life.disarm();
    const quietSince = world.now();
    await goOn(2);
    if (hasFailed()) return;
    await ask((stages) => stages.requestFullSync(KINDS));
    for (;;) {
      await goOn(2);
      if (hasFailed()) return;
      await evidence.look?.();
      await doWhatPersonsMust();
      const standing = standingSince(quietSince);
      if (standing.length === 0) return;
      if (world.now() - quietSince > RESOLVING_MS) fail(`I6: ${standing.join('; ')}`);
    }
  }

  const unknowns = () =>
    invariants.quiet().problems.flatMap((problem) => {
      const { reason, kind } = problem;
      return reason === 'unknown_record' && kind !== null ? [{ ...problem, kind }] : [];
    });

  /** Not waited for: the API takes the world's time to answer. */
  function find(about: Unknown, then: (isFound: boolean) => void = () => {}): void {
    someone('asked')
      ?.stages.find(about)
      .then(then, (error) => fail(String(error)));
  }

  /** Problems whose records the API was asked for in the quiet, as they were then. */
  const sought = new Map<string, 'asking' | 'asked'>();
  /** Has the API asked for what cannot be found, each once. Returns whether it was asked for all. */
  function findUnknown(): boolean {
    const open = unknowns().map(({ id, digest, kind, recordId }) => ({
      key: `${id} ${digest}`,
      kind,
      recordId,
    }));
    for (const { key, kind, recordId } of open) {
      if (sought.has(key)) continue;
      sought.set(key, 'asking');
      // Once a place is proven, what is left is asked for again.
      find({ kind, recordId }, (isFound) =>
        isFound ? void sought.delete(key) : void sought.set(key, 'asked'),
      );
    }
    return open.every(({ key }) => sought.get(key) === 'asked');
  }

  async function doWhatPersonsMust(): Promise<void> {
    const isAsked = findUnknown();
    // Deletions that nobody can doubt: who knows the upstream approves them.
    const isSure = (of: { kind: Kind; ids: string[] }) => of.ids.every((id) => !model.alive(of.kind, id));
    for (const pending of invariants.quiet().deletions.filter(isSure)) {
      await ask((stages) => stages.approve(pending));
    }
    // What the API has not shown by now, only a person can settle.
    for (const id of isAsked ? invariants.hopeless() : []) {
      invariants.settledByPerson(id);
      await ask((stages) => stages.discard(id));
    }
    const quarantined = invariants.quarantined();
    if (quarantined.length > 0) invariants.releasedByPerson();
    for (const id of quarantined) await ask((stages) => stages.release(id));
    // A person knows that there is no such record.
    for (const problem of isAsked ? unknowns() : []) {
      const { needs, kind, recordId } = problem;
      if (needs !== 'you' || recordId === null || model.alive(kind, recordId)) continue;
      if (kind === 'risk_assessment') invariants.resolvedByPerson(recordId);
      await ask((stages) => stages.resolve(problem));
    }
  }

  /** What keeps the mirror from being in sync in the quiet; nothing, in the end. */
  function standingSince(quietSince: number): string[] {
    const state = invariants.quiet();
    const isNotSynced = (kind: Kind) => (syncedSince.get(kind) ?? -1) < quietSince;
    return [
      ...invariants.differences(),
      ...KINDS.filter(isNotSynced).map((kind) => `no full sync of ${kind}`),
      ...(state.pending > 0 ? [`${state.pending} events pending`] : []),
      ...(state.unread > 0 ? [`${state.unread} events unread`] : []),
      ...(state.unverified > 0 ? [`${state.unverified} unverified`] : []),
      ...(state.deletions.length > 0 ? ['deletions pending'] : []),
      ...state.problems.map(({ reason, kind, recordId }) => `problem ${reason} ${kind} ${recordId} (I11)`),
    ];
  }

  async function judgeAtTheEnd(): Promise<void> {
    const afterwards = async () => {
      await goOn(AFTERWARDS_IN_SETTLES);
      await evidence.look?.();
      return invariants.differences();
    };
    const after = await afterwards();
    if (after.length > 0) fail(`I6, afterwards: ${after.join('; ')}`);
    for (const life of living()) life.kill();
    await world.runUntil(world.now(), hasFailed);
    await staging.judgeAtTheEnd?.();
    demand(invariants.checkStored(acknowledged));
    demand(invariants.checkEffects());
  }

  return {
    site,
    invariants,
    fail,
    demand,
    meanwhile,
    lives,
    living,
    someone,
    async play(as) {
      staging = as;
      try {
        await playOperations();
        if (!hasFailed()) await quieten();
        if (!hasFailed()) await judgeAtTheEnd();
      } finally {
        for (const life of living()) life.kill();
        for (let ended = work?.ended(); ended; ended = work?.ended()) await ended;
        world.end();
      }
      return { failure, trace: lines };
    },
  };
}

/** Assessments that the mirror has heard of by what one verb was given. */
export function namedTo(verb: string, args: readonly unknown[]): string[] {
  if (verb === 'makeDue' && args[0] === 'risk_assessment') return args[1] as string[];
  if (verb !== 'applyReads') return [];
  const objects = args[1] as ReadObject[];
  return args[0] === 'risk_assessment'
    ? objects.map(({ id }) => id)
    : objects.flatMap(({ json }) => assessmentNamedIn(JSON.parse(json) as JsonObject));
}

/** The same by a delivery. An assessment's own id and another record's reference stand in the same field. */
export function namedInBody(body: string): string[] {
  try {
    return assessmentNamedIn((JSON.parse(body) as { data: JsonObject }).data);
  } catch {
    return [];
  }
}

import { StoreUnavailable } from '../../src/platform/errors.ts';
import { createDatabase } from '../../src/store/postgres/connection.ts';
import { storeOver } from '../../src/store/postgres/postgres.ts';
import type { Notice } from '../../src/store/replicas.ts';
import type { Store } from '../../src/store/store.ts';
import { type Crowd, giveTurns, interleaved, Killed } from './interleaving.ts';
import { READING } from './mirror.ts';
import { type Site, type Stages, startStages } from './replica.ts';
import type { Answer, Sent } from './sender.ts';
import type { Work } from './work.ts';

/** Connections of one process: few enough that they are waited for, too. */
const POOL_SIZE = 4;

/** Verbs of the replicas' port that commit nothing, besides those of the mirror's. */
const ONLY_READING = new Set([...READING, 'sharedTime', 'countReplicas', 'findSession']);

/** Turns of the real event loop that a statement waits, at most: usually and now and then. */
const FEW_TURNS = 3;
const MANY_TURNS = 40;

export interface ProcessOptions {
  site: Site;
  work: Work;
  crowd: Crowd;
  name: string;
  url: string;
  /** The server's answer has reached the process. */
  onVerb: (verb: string, args: readonly unknown[]) => void;
  /** How long a batch of events waits for its commit, now. */
  slownessMs: () => number;
}

/** A replica as a process: it can be killed in the middle of a transaction, and stand still between two. */
export interface Process {
  name: string;
  stages: Stages;
  /** Resolves with `none` when the process dies first. */
  deliver(sent: Sent, signedWall: number): Promise<Answer>;
  kill(): void;
  /** Dies around the so-manieth verb from now that writes: within its transaction, or before its answer is heard. */
  killAt(verbs: number, when: 'before' | 'after', then: () => void): void;
  disarm(): void;
  standStill(forMs: number): void;
  /** As it is about to ask the database for this, next time. `then` is told. */
  standStillAt(verb: string, forMs: number, then: () => void): void;
  /** Another has stood still in its place. */
  spare(): void;
  isStill(): boolean;
}

/** Most conclusions conclude nothing; and what refetches have proven, whoever comes next concludes at once. */
function matters(verb: string, args: readonly unknown[]): boolean {
  if (verb !== 'concludeDeletions') return true;
  const proof = args[1] as { absent: readonly string[] } | null;
  return proof !== null && proof.absent.length > 0;
}

export function startProcess(options: ProcessOptions): Process {
  const { site, work, name } = options;
  const { world, chance, settings } = site;
  const life = {};
  const clock = world.clock(life);
  const never = new Promise<never>(() => undefined);
  const inFlight = new Set<() => void>();
  let failed = false;
  let stillUntil = 0;
  let fuse: { verbs: number; when: 'before' | 'after'; then: () => void } | null = null;
  let stop: { verb: string; forMs: number; then: () => void } | null = null;
  /** Statements that are left to it, once its fuse has burned down. */
  let statementsLeft = Number.POSITIVE_INFINITY;

  const database = createDatabase(options.url, { applicationName: name, poolSize: POOL_SIZE });
  const real = storeOver(interleaved(database, step, { crowd: options.crowd, place: life }));
  real.watchGaps(({ gap, what, error }) =>
    site.trace(`${name} gap ${gap.reason} ${gap.kind} ${gap.recordId} ${what}: ${error}`),
  );

  async function step(): Promise<void> {
    if (failed) throw new Killed();
    statementsLeft -= 1;
    if (statementsLeft < 0) {
      burn();
      throw new Killed();
    }
    const most = chance.happens(`dawdles ${name}`, 0.05) ? MANY_TURNS : FEW_TURNS;
    await giveTurns(chance.between(`turns ${name}`, 0, most));
    if (failed) throw new Killed();
  }

  function kill(): void {
    if (failed) return;
    failed = true;
    world.forget(life);
    // Ends as its transactions do, each at its next statement. What was sent already may still be committed.
    void work.track(world.now(), database.close()).catch(() => undefined);
    for (const cut of inFlight) cut();
  }

  function burn(): void {
    const then = fuse?.then;
    fuse = null;
    kill();
    then?.();
  }

  function standStill(forMs: number): void {
    stillUntil = world.now() + forMs;
    world.freeze(life, stillUntil);
  }

  /** A little time on the way, or none. */
  async function underway(direction: string): Promise<void> {
    if (chance.happens(`${direction} ${name}`, 0.25)) {
      await clock.sleep(chance.between(`${direction} way ${name}`, 1, 5));
    }
    while (world.now() < stillUntil) await clock.sleep(1);
  }

  /** For how long the time of the others may go on while one waits for the database. */
  function patienceMs(): number {
    const draw = chance.draw(`patience ${name}`);
    if (draw < 0.2) return 0;
    return Math.ceil(draw < 0.7 ? 20 * draw : draw * settings.settleMs);
  }

  async function reach(verb: string, call: () => Promise<unknown>, args: readonly unknown[]) {
    if (failed) return await never;
    const writes = !ONLY_READING.has(verb);
    const slownessMs = verb === 'applyEvents' ? options.slownessMs() : 0;
    if (slownessMs > 0) await clock.sleep(slownessMs);
    if (stop?.verb === verb && matters(verb, args)) {
      standStill(stop.forMs);
      stop.then();
    }
    await underway('to');
    if (failed) return await never;
    if (writes && site.databaseIsFull()) throw new StoreUnavailable('the disk is full');
    let isLast = false;
    if (writes && fuse !== null) {
      fuse.verbs -= 1;
      isLast = fuse.verbs <= 0;
      if (isLast && fuse.when === 'before') statementsLeft = chance.between(`statements ${name}`, 0, 4);
    }
    try {
      return await work.track(world.now() + patienceMs(), call());
    } catch (error) {
      if (failed) return await never;
      throw error;
    } finally {
      if (!failed) {
        if (writes) options.onVerb(verb, args);
        if (isLast) burn();
        await (failed ? never : underway('from'));
      }
      if (failed) await never;
    }
  }

  /** The store as this life reaches it: after its death no verb happens, and none answers. */
  const store = Object.fromEntries(
    Object.entries(real).map(([verb, does]) => {
      if (typeof does !== 'function') return [verb, does];
      const call = does as (...args: unknown[]) => Promise<unknown>;
      return [verb, (...args: unknown[]) => reach(verb, () => call(...args), args)];
    }),
  ) as unknown as Store;
  // Notices travel in the world's time; test/replicas has those of the server.
  store.notify = async (notice: Notice) => {
    if (!failed) site.notify(life, notice);
  };
  store.listen = async () => ({ stop: async () => undefined });

  const stages = startStages(site, name, life, store);
  return {
    ...{ name, stages },
    async deliver(sent, signedWall) {
      if (failed) return 'none';
      const { promise: cut, resolve } = Promise.withResolvers<'none'>();
      const onDeath = () => resolve('none');
      inFlight.add(onDeath);
      const outcome = await Promise.race([stages.deliver(sent, signedWall), cut]);
      inFlight.delete(onDeath);
      return outcome;
    },
    kill,
    killAt(verbs, when, then) {
      fuse = { verbs, when, then };
    },
    disarm() {
      fuse = null;
      stop = null;
      statementsLeft = Number.POSITIVE_INFINITY;
    },
    standStill,
    standStillAt(verb, forMs, then) {
      stop = { verb, forMs, then };
    },
    spare() {
      stop = null;
    },
    isStill: () => world.now() < stillUntil,
  };
}

import { createDatabase } from '../../src/store/postgres/connection.ts';
import { storeOver } from '../../src/store/postgres/postgres.ts';
import type { Notice } from '../../src/store/store.ts';
import { type Crowd, giveTurns, interleaved, Killed } from './interleaving.ts';
import { createMortal, DiskFull, type Life, READING } from './life.ts';
import { type Site, startStages } from './stages.ts';
import type { Work } from './time.ts';

/** Connections of one process: few enough that they are waited for, too. */
const POOL_SIZE = 4;

/** Turns of the real event loop that a statement waits, at most: usually and now and then. */
const FEW_TURNS = 3;
const MANY_TURNS = 40;

export interface ReplicaOptions {
  site: Site;
  name: string;
  url: string;
  work: Work;
  crowd: Crowd;
  /** The server's answer has reached the process. */
  onVerb: (verb: string, args: readonly unknown[]) => void;
  /** Tells the other replicas, if the notice is not lost. */
  notify: (notice: Notice) => void;
}

/** A replica as a process: it can be killed in the middle of a transaction, and stand still between two. */
export interface Replica extends Life {
  /** Another one tells it. */
  hear(notice: Notice): void;
  standStill(forMs: number): void;
  /** As it is about to ask the database for this, next time. `then` is told. */
  standStillAt(verb: string, forMs: number, then: () => void): void;
  /** Another has stood still in its place. */
  spare(): void;
}

/** Most conclusions conclude nothing; and what refetches have proven, whoever comes next concludes at once. */
function matters(verb: string, args: readonly unknown[]): boolean {
  if (verb !== 'concludeDeletions') return true;
  const proof = args[1] as { absent: readonly string[] } | null;
  return proof !== null && proof.absent.length > 0;
}

export function startReplica(options: ReplicaOptions): Replica {
  const { site, work, name } = options;
  const { world, chance, settings } = site;
  let heard: (notice: Notice) => void = () => undefined;
  let stillUntil = 0;
  let stop: { verb: string; forMs: number; then: () => void } | null = null;
  /** Statements that are left to it, once its fuse has burned down. */
  let statementsLeft = Number.POSITIVE_INFINITY;

  const life = createMortal(site, name, () => {
    // Ends as its transactions do, each at its next statement. What was sent already may still be committed.
    void work.track(world.now(), database.close()).catch(() => undefined);
  });
  const { owner, isDead, never } = life;
  const clock = world.clock(owner);
  // The database notes who has committed by the name of the connection.
  const url = new URL(options.url);
  url.searchParams.set('application_name', name);
  const database = createDatabase(url.href, { poolSize: POOL_SIZE });
  const real = storeOver(interleaved(database, step, { crowd: options.crowd, place: owner }));

  async function step(): Promise<void> {
    if (isDead()) throw new Killed();
    statementsLeft -= 1;
    if (statementsLeft < 0) {
      life.burn();
      throw new Killed();
    }
    const most = chance.happens(`dawdles ${name}`, 0.05) ? MANY_TURNS : FEW_TURNS;
    await giveTurns(chance.between(`turns ${name}`, 0, most));
    if (isDead()) throw new Killed();
  }

  function standStill(forMs: number): void {
    stillUntil = world.now() + forMs;
    world.freeze(owner, stillUntil);
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
    if (isDead()) return await never;
    const writes = !READING.has(verb);
    const slownessMs = verb === 'processPending' ? site.slownessMs() : 0;
    if (slownessMs > 0) await clock.sleep(slownessMs);
    if (stop?.verb === verb && matters(verb, args)) {
      standStill(stop.forMs);
      stop.then();
    }
    await underway('to');
    if (isDead()) return await never;
    if (writes && site.isDiskFull()) throw new DiskFull();
    const isLastBefore = writes && life.isLast('before');
    const isLast = isLastBefore || (writes && life.isLast('after'));
    if (isLastBefore) statementsLeft = chance.between(`statements ${name}`, 0, 4);
    try {
      return await work.track(world.now() + patienceMs(), call());
    } catch (error) {
      if (isDead()) return await never;
      throw error;
    } finally {
      if (!isDead()) {
        if (writes) options.onVerb(verb, args);
        if (isLast) life.burn();
        await (isDead() ? never : underway('from'));
      }
      if (isDead()) await never;
    }
  }

  const store = life.reaching(real, reach);
  // Notices travel in the world's time; test/replicas has those of the server.
  store.notify = async (notice: Notice) => {
    if (!isDead()) options.notify(notice);
  };
  store.listen = async (hear) => {
    heard = hear;
    return { stop: async () => undefined };
  };

  const stages = startStages(site, life, store);
  return {
    ...life,
    stages,
    standStill,
    deliver: life.deliverTo(stages),
    hear: (notice) => heard(notice),
    disarm() {
      life.disarm();
      stop = null;
      statementsLeft = Number.POSITIVE_INFINITY;
    },
    standStillAt(verb, forMs, then) {
      stop = { verb, forMs, then };
    },
    spare() {
      stop = null;
    },
    isStill: () => world.now() < stillUntil || !stages.isRunning(),
  };
}

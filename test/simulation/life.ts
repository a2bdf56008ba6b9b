import { StoreUnavailable } from '../../src/platform/errors.ts';
import type { Store } from '../../src/store/store.ts';
import type { Answer } from './sender.ts';
import type { Site, Stages } from './stages.ts';

/** A process with the real stages in it, from its start to its death. */
export interface Life {
  /** Tells it from others in the trace and in draws; empty where there are no others. */
  name: string;
  stages: Stages;
  /** Resolves with `none` when the process dies first. */
  deliver(body: string, signedWall: number): Promise<Answer>;
  kill(): void;
  /** Dies around the so-manieth verb from now that commits: before that is done, or before anyone hears of it. */
  killAt(commits: number, when: When, then: () => void): void;
  disarm(): void;
  /** Alive, and not at work yet or for a while. */
  isStill(): boolean;
}

type When = 'before' | 'after';

/** How a process dies, whatever its database is. */
export interface Mortal extends Pick<Life, 'name' | 'kill' | 'killAt' | 'disarm'> {
  /** Whose the world's tasks are that end with it. */
  owner: object;
  isDead(): boolean;
  /** What the dead are answered. */
  never: Promise<never>;
  /** Counts one commit. True when it is to die around this one. */
  isLast(when: When): boolean;
  /** Dies as `killAt` would have it. */
  burn(): void;
  deliverTo(stages: Stages): Life['deliver'];
  /** The store as this life reaches it. `reach` makes the call of one verb, or does not. */
  reaching(
    real: Store,
    reach: (verb: string, call: () => Promise<unknown>, args: readonly unknown[]) => Promise<unknown>,
  ): Store;
}

/** `onDeath` lets go of the database. */
export function createMortal(site: Site, name: string, onDeath: () => void): Mortal {
  const owner = {};
  const inFlight = new Set<() => void>();
  let dead = false;
  let fuse: { commits: number; when: When; then: () => void } | null = null;

  function kill(): void {
    if (dead) return;
    dead = true;
    site.world.forget(owner);
    onDeath();
    for (const cut of inFlight) cut();
  }

  return {
    name,
    owner,
    kill,
    isDead: () => dead,
    never: new Promise<never>(() => undefined),
    killAt(commits, when, then) {
      fuse = { commits, when, then };
    },
    disarm() {
      fuse = null;
    },
    isLast(when) {
      if (fuse?.when !== when) return false;
      fuse.commits -= 1;
      return fuse.commits <= 0;
    },
    burn() {
      const then = fuse?.then;
      fuse = null;
      kill();
      then?.();
    },
    deliverTo: (stages) => async (body, signedWall) => {
      if (dead) return 'none';
      const { promise: cut, resolve } = Promise.withResolvers<'none'>();
      const onCut = () => resolve('none');
      inFlight.add(onCut);
      const answer = await Promise.race([stages.deliver(body, signedWall), cut]);
      inFlight.delete(onCut);
      return answer;
    },
    reaching(real, reach) {
      real.watchProblems(({ problem, what, error }) =>
        site.trace(`problem ${problem.reason} ${problem.kind} ${problem.recordId} ${what}: ${error}`, name),
      );
      const reached = <Of extends object>(of: Of): Of => {
        const verbs = Object.entries(of).map(([verb, does]) => {
          if (typeof does !== 'function' || verb === 'underLease') return [verb, does];
          const call = does as (...args: unknown[]) => Promise<unknown>;
          return [verb, (...args: unknown[]) => reach(verb, () => call(...args), args)];
        });
        return Object.fromEntries(verbs) as Of;
      };
      return { ...reached(real), underLease: (lease) => reached(real.underLease(lease)) };
    },
  };
}

/** What comes of a commit while the plan says so. Some stages tell of it only later. */
export class DiskFull extends StoreUnavailable {
  constructor() {
    super('the disk is full');
  }
}

/** Verbs that commit nothing: no death is aimed at them. */
export const READING: ReadonlySet<string> = new Set<keyof Store>([
  ...(['currentNumber', 'nextWork', 'unseenBy', 'touchedSince', 'countKnown'] as const),
  ...(['hasAnnouncedDeletion', 'someLiveRecord', 'untriedRecords'] as const),
  ...(['pendingOf', 'lastDelivery', 'readFact'] as const),
  ...(['unknownEvents', 'shownIds', 'unreadableRecords'] as const),
  'sharedTime',
]);

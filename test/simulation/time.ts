import type { Clock } from '../../src/platform/clock.ts';

/** The wall clock as the simulated world begins. The exact instant says nothing. */
const EPOCH_MS = 1_800_000_000_000;

/** Bound before any run puts its own in place. */
const nextTurn = globalThis.setImmediate;

interface Task {
  at: number;
  order: number;
  owner: object | null;
  work: () => void;
}

/**
 * The world's time. It stands still while anything can go on without it, and then jumps to the next task. Whether
 * anything can is known for certain: a turn of the real event loop begins only when no microtask is left, and what
 * the code puts into `setImmediate` is kept here and run before time moves.
 */
export interface World {
  /** Milliseconds since the world began, as nobody in it can measure them. */
  now(): number;
  /** Runs `work` at an instant. `owner` names whose death cancels it. Returns a function that cancels it. */
  at(instant: number, owner: object | null, work: () => void): () => void;
  /** A clock of one process: its steady time starts from the wall clock of its start, and no step moves it. */
  clock(owner: object): Clock;
  /** Nothing that belongs to `owner` happens any more. */
  forget(owner: object): void;
  /** Nothing that belongs to `owner` happens before that instant: then all of it does that was due. */
  freeze(owner: object, until: number): void;
  /** Who owns what is put into setImmediate from now on. */
  setOwner(owner: object): void;
  /** Wall time of our machine is off by this much from the world's. */
  stepTo(offsetMs: number): void;
  wallOffset(): number;
  trueWall(): number;
  /** Runs until the instant, or until `stop` says so. */
  runUntil(instant: number, stop: () => boolean): Promise<void>;
  /** Gives setImmediate back. */
  end(): void;
}

/** `work`: what really takes time meanwhile; absent: nothing does. */
export function createWorld(work: Pick<Work, 'limit' | 'ended'> | null = null): World {
  let now = 0;
  let order = 0;
  let offset = 0;
  let tasks: Task[] = [];
  let immediates: { owner: object | null; work: () => void }[] = [];
  let current: object | null = null;
  const frozen = new Map<object, number>();

  const kept = globalThis.setImmediate;
  globalThis.setImmediate = ((work: (...args: unknown[]) => void, ...args: unknown[]) => {
    immediates.push({ owner: current, work: () => work(...args) });
    return undefined;
  }) as unknown as typeof setImmediate;

  function at(instant: number, owner: object | null, work: () => void): () => void {
    order += 1;
    const thaws = owner === null ? 0 : (frozen.get(owner) ?? 0);
    const task = { at: Math.max(now, instant, thaws), order, owner, work };
    tasks.push(task);
    return () => {
      const index = tasks.indexOf(task);
      if (index >= 0) tasks.splice(index, 1);
    };
  }

  /** The earliest, and of those the first that was asked for. */
  function takeNext(until: number): Task | null {
    let best = -1;
    for (let i = 0; i < tasks.length; i += 1) {
      const task = tasks[i]!;
      const leader = best < 0 ? null : tasks[best]!;
      if (leader === null || task.at < leader.at || (task.at === leader.at && task.order < leader.order))
        best = i;
    }
    if (best < 0 || tasks[best]!.at > until) return null;
    return tasks.splice(best, 1)[0]!;
  }

  function freeze(owner: object, until: number): void {
    frozen.set(owner, until);
    const own = tasks.filter((task) => task.owner === owner && task.at < until);
    for (const task of own.sort((a, b) => a.at - b.at || a.order - b.order)) {
      order += 1;
      Object.assign(task, { at: until, order });
    }
  }

  const trueWall = () => EPOCH_MS + now;
  const wall = () => trueWall() + offset;

  return {
    now: () => now,
    at,
    clock(owner) {
      const origin = wall() - now;
      return {
        wall,
        steady: () => origin + now,
        sleep: (ms, signal) =>
          new Promise((resolve) => {
            if (signal?.aborted) return resolve();
            const wake = () => {
              cancel();
              signal?.removeEventListener('abort', wake);
              resolve();
            };
            const cancel = at(now + Math.max(1, Math.ceil(ms)), owner, wake);
            signal?.addEventListener('abort', wake, { once: true });
          }),
      };
    },
    forget(owner) {
      tasks = tasks.filter((task) => task.owner !== owner);
      immediates = immediates.filter((immediate) => immediate.owner !== owner);
    },
    freeze,
    setOwner(owner) {
      current = owner;
    },
    stepTo(offsetMs) {
      offset = offsetMs;
    },
    wallOffset: () => offset,
    trueWall,
    async runUntil(instant, stop) {
      for (;;) {
        await new Promise<void>((resolve) => nextTurn(resolve));
        if (stop()) return;
        const immediate = immediates.shift();
        if (immediate !== undefined) {
          immediate.work();
          continue;
        }
        const task = takeNext(Math.min(instant, work?.limit() ?? instant));
        if (task === null) {
          const ended = work?.ended() ?? null;
          if (ended === null) break;
          await ended;
          continue;
        }
        now = task.at;
        task.work();
      }
      now = Math.max(now, instant);
    },
    end() {
      globalThis.setImmediate = kept;
    },
  };
}

/**
 * What really takes time, such as a database's transactions, while the world's time is only told. Time may go on a
 * little meanwhile, so that others begin something too, and waits beyond.
 */
export interface Work {
  /** `real` has begun; the world's time does not pass `until` before it has ended. */
  track<T>(until: number, real: Promise<T>): Promise<T>;
  /** The instant that must not be passed now. */
  limit(): number;
  /** When some of it has ended; null: none is under way. */
  ended(): Promise<void> | null;
}

export function createWork(): Work {
  const underWay = new Set<{ until: number }>();
  let oneEnded = Promise.withResolvers<void>();

  return {
    async track(until, real) {
      const entry = { until };
      underWay.add(entry);
      try {
        return await real;
      } finally {
        underWay.delete(entry);
        oneEnded.resolve();
        oneEnded = Promise.withResolvers<void>();
      }
    },
    limit: () => Math.min(Number.POSITIVE_INFINITY, ...[...underWay].map(({ until }) => until)),
    ended: () => (underWay.size === 0 ? null : oneEnded.promise),
  };
}

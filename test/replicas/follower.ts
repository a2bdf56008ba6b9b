import type { Replica } from './site.ts';

/** What somebody who follows the feed has seen, held against what there is at the end. */
export interface Followed {
  seen: number;
  /** There, and never shown. Must be empty. */
  skipped: number[];
  /** Shown twice, or out of order. Must be empty. */
  outOfOrder: number[];
}

const PAGE = 50;
const BETWEEN_LOOKS_MS = 20;
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Follows /api/changes as a team's own system does, asking whichever replica comes next and any that is down again later. */
export function createFollower(replicas: readonly Replica[], random: () => number) {
  const seen: number[] = [];
  const outOfOrder: number[] = [];
  let after = 0;
  let isOver = false;

  async function look(): Promise<number> {
    const replica = replicas[Math.floor(random() * replicas.length)]!;
    const { items } = await replica.get<{ items: { seq: number }[] }>(
      `/api/changes?after=${after}&limit=${PAGE}`,
    );
    for (const { seq } of items) {
      if (seq <= after) outOfOrder.push(seq);
      seen.push(seq);
      after = seq;
    }
    return items.length;
  }

  return {
    async run(): Promise<void> {
      while (!isOver) {
        const got = await look().catch(() => 0);
        if (got === 0) await pause(BETWEEN_LOOKS_MS);
      }
    },
    stop() {
      isOver = true;
    },
    /** Follows to the end of `all`. */
    async end(all: readonly number[]): Promise<Followed> {
      const last = all.at(-1) ?? 0;
      while (after < last) await pause(BETWEEN_LOOKS_MS);
      isOver = true;
      const shown = new Set(seen);
      return { seen: seen.length, skipped: all.filter((seq) => !shown.has(seq)), outOfOrder };
    },
  };
}

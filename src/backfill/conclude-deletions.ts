import type { Kind } from '../compliance/kinds.ts';
import type { Clock } from '../platform/clock.ts';
import type { BackfillStore, Conclusion } from '../store/store.ts';
import { type GapKeeper, listed } from './gaps.ts';

export interface ConclusionRequest {
  proof: { absent: readonly string[]; number: number } | null;
  cause: string;
  syncRunId: number | null;
  onlyAnnounced: boolean;
}

/** Turns proven absences into tombstones, or into a gap that asks an operator. */
export type Conclude = (kind: Kind, request: ConclusionRequest) => Promise<Conclusion>;

export function createConclude(options: {
  store: Pick<BackfillStore, 'concludeDeletions'>;
  gaps: GapKeeper;
  clock: Clock;
  onConcluded: (kind: Kind, conclusion: Conclusion, cause: string) => void;
}): Conclude {
  const { store, gaps, clock } = options;
  return async (kind, request) => {
    const { proof, ...context } = request;
    const now = { wall: clock.wall(), steady: clock.steady() };
    const conclusion = await store.concludeDeletions(kind, proof, context, now);
    options.onConcluded(kind, conclusion, request.cause);
    const gap = { reason: 'deletion_pending', kind, recordId: null } as const;
    if (conclusion.pending.length > 0) {
      await gaps.open(
        gap,
        `${conclusion.pending.length} at once, without a delete event: ${listed(conclusion.pending)}`,
      );
    } else if (conclusion.waiting === 0) {
      // Not once they are approved: until the next proof has come, nothing is deleted yet.
      await gaps.resolve(gap);
    }
    return conclusion;
  };
}

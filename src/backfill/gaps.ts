import type { Kind } from '../compliance/kinds.ts';
import type { Clock } from '../platform/clock.ts';
import type { BackfillStore, Conclusion, OperatorStore } from '../store/store.ts';
import type { Context, GapKeeper } from './context.ts';

export function createGapKeeper(options: {
  store: Pick<BackfillStore, 'openGap' | 'resolveGap'> & Pick<OperatorStore, 'audit'>;
  clock: Clock;
}): GapKeeper {
  const { store, clock } = options;
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });
  return {
    open: (gap, error) => store.openGap(gap, error, now()),
    resolve: (gap) => store.resolveGap(gap, now()),
    async credentials(kind, outcome) {
      await store.audit({ actor: 'upstream', action: 'credentials', outcome, target: kind }, now());
    },
  };
}

/** At most this many ids are named in a gap's text. */
const NAMED_IDS = 20;

export function listed(ids: readonly string[]): string {
  const named = ids.slice(0, NAMED_IDS).join(', ');
  return ids.length > NAMED_IDS ? `${named} and ${ids.length - NAMED_IDS} more` : named;
}

export interface ConclusionRequest {
  proof: { absent: readonly string[]; number: number } | null;
  cause: string;
  syncRunId: number | null;
  onlyAnnounced: boolean;
}

export type Conclude = ReturnType<typeof createConclude>;

/** Turns proven absences into tombstones, or into a gap that asks an operator. */
export function createConclude(
  options: Pick<Context, 'store' | 'gaps' | 'clock'> & {
    onConcluded: (kind: Kind, conclusion: Conclusion, cause: string) => void;
  },
) {
  const { store, gaps, clock } = options;
  return async (kind: Kind, request: ConclusionRequest): Promise<Conclusion> => {
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

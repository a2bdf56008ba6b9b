import type { Kind } from '../compliance/kinds.ts';
import type { Clock } from '../platform/clock.ts';
import type { BackfillStore, GapKey, OperatorStore } from '../store/store.ts';

/** Opens and resolves gaps. */
export interface GapKeeper {
  open(gap: GapKey, error: string | null): Promise<void>;
  resolve(gap: GapKey): Promise<void>;
  /** What the upstream said of our credentials, for the audit trail. */
  credentials(kind: Kind, outcome: string): Promise<void>;
}

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

const nothing = async () => undefined;

/** Of a reading that must not be seen in the database: whatever it meets is the next real reading's to write down. */
export const SILENT_GAPS: GapKeeper = {
  open: nothing,
  resolve: nothing,
  credentials: nothing,
};

/** At most this many ids are named in a gap's text. */
const NAMED_IDS = 20;

export function listed(ids: readonly string[]): string {
  const named = ids.slice(0, NAMED_IDS).join(', ');
  return ids.length > NAMED_IDS ? `${named} and ${ids.length - NAMED_IDS} more` : named;
}

import type { UpstreamError, UpstreamErrorKind } from '../compliance/errors.ts';
import type { Kind } from '../compliance/kinds.ts';
import { momentOf } from '../platform/clock.ts';
import { describeError } from '../platform/errors.ts';
import type { ReadMoment, Verbs } from '../store/store.ts';
import type { Context } from './context.ts';

export interface AccessWatch {
  /** A second 401 in a row, which concerns all kinds. `others`: those that could be read until now. */
  onUnauthorized?: (others: readonly Kind[]) => void;
  /** Credentials that were rejected more than once for a kind are accepted again. */
  onAcceptedAgain?: () => void;
}

export type Witness = Pick<ReadMoment, 'beganAt' | 'endedAt'>;

/** Only a few reads overlap, so one of the last few witnesses had ended before any given read began. */
const WITNESSES_KEPT = 8;

/** What the answers about each kind say about our credentials. */
export function createAccess({
  store,
  clock,
  onUnauthorized,
  onAcceptedAgain,
}: AccessWatch & Pick<Context, 'clock'> & { store: Pick<Verbs, 'openProblem' | 'endProblem' | 'audit'> }) {
  const now = () => momentOf(clock);
  /**
   * By the last answer. Unset: an earlier process may have opened a problem. A set: records that were answered 403 since the last good
   * answer; reads of others show whether this is about the credentials.
   */
  const standing = new Map<Kind, 'accepted' | 'rejected' | Set<string>>();
  /** How often our credentials were rejected for a kind since they were accepted. One rejection may be chance. */
  const rejections = new Map<Kind, number>();
  const witnesses = new Map<Kind, Witness[]>();
  const problemOf = (kind: Kind) => ({ reason: 'credentials_rejected', kind, recordId: null }) as const;

  /** `outcome`: what the API said, or that no request could be sent. */
  async function audit(kind: Kind, outcome: UpstreamErrorKind | 'accepted'): Promise<void> {
    const actor = outcome === 'no_credentials' ? 'service' : 'upstream';
    await store.audit({ actor, action: 'credentials', outcome, target: kind }, now());
  }

  async function noteRejected(kind: Kind, error: UpstreamError): Promise<void> {
    const before = standing.get(kind);
    standing.set(kind, 'rejected');
    const times = (rejections.get(kind) ?? 0) + 1;
    rejections.set(kind, times);
    if (times === 2 && error.kind !== 'forbidden')
      onUnauthorized?.([...standing].flatMap(([other, its]) => (its === 'accepted' ? [other] : [])));
    await store.openProblem(problemOf(kind), describeError(error), now());
    if (before !== 'rejected' && !(before instanceof Set)) await audit(kind, error.kind);
  }

  return {
    noteRejected,

    async noteAccepted(kind: Kind): Promise<void> {
      const before = standing.get(kind);
      if (before === 'accepted') return;
      standing.set(kind, 'accepted');
      if (before instanceof Set) return;
      try {
        await store.endProblem(problemOf(kind), now());
        if (before !== 'rejected') return;
        await audit(kind, 'accepted');
        if (rejections.get(kind)! > 1) onAcceptedAgain?.();
        rejections.delete(kind);
      } catch (error) {
        // The database could not commit: the next read tries again.
        if (before === undefined) standing.delete(kind);
        else standing.set(kind, before);
        throw error;
      }
    },

    /** A record was answered 403, for the first time with `news`. False: the credentials are not accepted for its kind anyway. */
    async noteRefusedRecord(kind: Kind, id: string, news: UpstreamError | null): Promise<boolean> {
      const before = standing.get(kind) ?? 'rejected';
      if (before === 'rejected') return false;
      standing.set(kind, (before === 'accepted' ? new Set<string>() : before).add(id));
      if (news !== null) await audit(kind, news.kind);
      return true;
    },

    /** Notes rejected credentials if `records` of the kind were answered 403 without a good answer among them. */
    async noteForbidden(kind: Kind, error: UpstreamError, records: number): Promise<void> {
      const refused = standing.get(kind);
      if (refused instanceof Set && refused.size >= records) await noteRejected(kind, error);
    },

    isRejected: (kind: Kind): boolean => standing.get(kind) === 'rejected',

    /** Notes that a read showed a live record of the mirror, so our credentials still see records. */
    noteWitness(kind: Kind, { beganAt, endedAt }: Witness): void {
      witnesses.set(kind, [{ beganAt, endedAt }, ...(witnesses.get(kind) ?? [])].slice(0, WITNESSES_KEPT));
    },
    /** When the latest witness that had ended by `before` began; null: there is none. */
    witnessedAt(kind: Kind, before: number): number | null {
      const ended = (witnesses.get(kind) ?? []).filter((witness) => witness.endedAt <= before);
      return ended.length === 0 ? null : Math.max(...ended.map((witness) => witness.beganAt));
    },
  };
}

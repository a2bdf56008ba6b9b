import type { Candidate } from '../compliance/candidates.ts';
import { UpstreamError } from '../compliance/errors.ts';
import { parseJson } from '../compliance/json.ts';
import { DELETE_TYPES, type FetchedKind } from '../compliance/kinds.ts';
import type { JsonObject } from '../compliance/pointers.ts';
import type { UnreadEvent } from '../store/store.ts';
import type { Context } from './context.ts';
import type { Upstream } from './upstream.ts';

/** Of the request budget, as a share of a minute's: events that nobody can read must not keep repairs waiting. */
const SHARE_OF_BUDGET = 1 / 4;
export const MINUTE_MS = 60_000;

/** Which values of an event's data are ids of records, proven by what the API answers, within a share of the budget. */
export interface CandidateProof {
  /** Requests that may be sent now. */
  left(): number;
  /** Until one more may be, milliseconds; at least 1. */
  restMs(): number;
  /** Whether the API shows a record of that id. Rejects with UpstreamError. */
  ask(kind: FetchedKind, id: string): Promise<boolean>;
  /** Those of the candidates that are records of the kind, as far as the API has not shown them already by `isShown`. */
  provenOf(
    event: UnreadEvent,
    candidates: readonly Candidate[],
    isShown: (kind: FetchedKind, id: string) => Promise<boolean>,
  ): Promise<Candidate[]>;
}

export function createCandidateProof(
  options: Pick<Context, 'store' | 'clock'> & {
    upstream: Pick<Upstream, 'shows'>;
    requestsPerMinute: number;
  },
): CandidateProof {
  const { store, upstream, clock } = options;
  const perMinute = Math.max(1, Math.floor(options.requestsPerMinute * SHARE_OF_BUDGET));
  /** When each of the last minute's requests was sent. */
  let asked: number[] = [];

  return {
    left() {
      asked = asked.filter((at) => clock.steady() - at < MINUTE_MS);
      return perMinute - asked.length;
    },
    restMs: () => Math.max(1, (asked[0] ?? clock.steady()) + MINUTE_MS - clock.steady()),
    async ask(kind, id) {
      asked.push(clock.steady());
      return await upstream.shows(kind, id, 'scan');
    },
    async provenOf({ kind, type }, candidates, isShown) {
      const shown = new Set(
        await store.shownIds(
          kind,
          candidates.map(({ id }) => id),
        ),
      );
      const proven: Candidate[] = [];
      for (const candidate of candidates) {
        // Policies have no address of their own: only their list shows them. What a delete event speaks of is gone by now,
        // and whatever else it names that still answers is not it.
        const isAskable = kind !== 'policy' && !DELETE_TYPES.has(type);
        if (shown.has(candidate.id) || (isAskable && (await isShown(kind, candidate.id))))
          proven.push(candidate);
      }
      return proven;
    },
  };
}

export const isMalformed = (error: unknown): error is UpstreamError =>
  error instanceof UpstreamError && error.kind === 'malformed';

/** Empty where the body is none of ours: such an event failed for another reason, and is read by nobody. */
export function payloadOf(event: UnreadEvent): JsonObject {
  try {
    return (parseJson(event.body) as { data: JsonObject }).data;
  } catch {
    return {};
  }
}

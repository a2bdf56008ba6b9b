import type { AcceptOutcome, ClaimedEvent, InboxStore, IncomingEvent, ProvisionalOutcome } from '../store.ts';

/**
 * What crosses for every delivery, laid out so that it costs little: bodies as they are and all else as one JSON text, which
 * takes less than half as long as copying value by value, and nothing twice.
 */

type HotVerbs = Pick<InboxStore, 'accept' | 'claimEvents' | 'applyEvents' | 'releaseEvents'>;
type Args<Name extends keyof HotVerbs> = Parameters<HotVerbs[Name]>;

type Rest<List extends unknown[]> = List extends [unknown, ...infer Others] ? Others : never;

/** Without the payload, which the thread can read in the body: copied, it would cost more than to parse it again. */
const EVENT_COLUMNS: readonly (keyof IncomingEvent)[] = [
  ...(['id', 'type', 'created', 'createdMs', 'kind', 'recordId', 'known', 't', 'address'] as const),
];

/** Not what it says: whoever works on it gives it back, and the thread has it. */
const CLAIM_COLUMNS: readonly (keyof ClaimedEvent)[] = [
  ...(['seq', 'id', 'kind', 'recordId', 'receivedWall', 'attempts', 'owner'] as const),
];

/** Columns in their order, each of as many values as there are rows. */
type Columns = string;

/** Events that the other side has: it was given them with the claim. */
interface Claims {
  seqs: number[];
  owners: string[];
}

interface Outcomes {
  seqs: number[];
  outcomes: ProvisionalOutcome['outcome'][];
  errors: (string | null)[];
  /** What has been told anew, and so differs from what was claimed: by its place in the list. */
  named: { at: number; kind: ClaimedEvent['kind']; recordId: string | null }[];
}

/** In place of the number that an accepted event has. */
const DUPLICATE = -1;
const CONFLICTING = -2;

export interface CrossingVerbs {
  accept(
    batch: { bodies: string[]; columns: Columns; unusable: Args<'accept'>[0]['unusable'] },
    ...rest: Rest<Args<'accept'>>
  ): Promise<number[]>;
  claimEvents(...args: Args<'claimEvents'>): Promise<Columns>;
  applyEvents(claims: Claims, ...rest: Rest<Args<'applyEvents'>>): Promise<Outcomes>;
  releaseEvents(claims: Claims): Promise<void>;
}

/** On the event loop: the verbs as the port has them. */
export function hotVerbs(call: CrossingVerbs): HotVerbs {
  return {
    async accept({ events, unusable }, ...rest) {
      const bodies = events.map(({ body }) => body);
      const columns = toColumns(events, EVENT_COLUMNS);
      const outcomes = await call.accept({ bodies, columns, unusable }, ...rest);
      return outcomes.map(toOutcome);
    },
    async claimEvents(...args) {
      return fromColumns<ClaimedEvent>(await call.claimEvents(...args), CLAIM_COLUMNS);
    },
    async applyEvents(events, ...rest) {
      const { seqs, outcomes, errors, named } = await call.applyEvents(toClaims(events), ...rest);
      const bySeq = new Map(events.map((event) => [event.seq, event]));
      const results = seqs.map(
        (seq, at): ProvisionalOutcome => ({
          ...{ event: bySeq.get(seq)!, outcome: outcomes[at]!, error: errors[at]! },
        }),
      );
      for (const { at, kind, recordId } of named) {
        const result = results[at]!;
        result.event = { ...result.event, kind, recordId };
      }
      return results;
    },
    async releaseEvents(events) {
      await call.releaseEvents(toClaims(events));
    },
  };
}

/** In the thread: the same over the store. */
export function crossingVerbs(store: HotVerbs): CrossingVerbs {
  const claimed = new Map<number, ClaimedEvent>();
  // One that is not here was worked on, or is claimed anew by another: the store leaves such out, too.
  const held = ({ seqs, owners }: Claims) =>
    seqs.flatMap((seq, at) => {
      const event = claimed.get(seq);
      return event?.owner === owners[at] ? [event!] : [];
    });
  const forget = (events: readonly ClaimedEvent[]) => {
    for (const { seq } of events) claimed.delete(seq);
  };
  return {
    async accept({ bodies, columns, unusable }, ...rest) {
      const events = fromColumns<IncomingEvent>(columns, EVENT_COLUMNS);
      for (const [at, event] of events.entries()) event.body = bodies[at]!;
      return (await store.accept({ events, unusable }, ...rest)).map(toNumber);
    },
    async claimEvents(...args) {
      const events = await store.claimEvents(...args);
      for (const event of events) claimed.set(event.seq, event);
      return toColumns(events, CLAIM_COLUMNS);
    },
    async applyEvents(claims, ...rest) {
      const results = await store.applyEvents(held(claims), ...rest);
      const events = results.map(({ event }) => event);
      const named = events.flatMap(({ seq, kind, recordId }, at) =>
        claimed.get(seq)?.recordId === recordId ? [] : [{ at, kind, recordId }],
      );
      forget(events);
      return {
        seqs: events.map(({ seq }) => seq),
        outcomes: results.map(({ outcome }) => outcome),
        errors: results.map(({ error }) => error),
        named,
      };
    },
    async releaseEvents(claims) {
      const events = held(claims);
      forget(events);
      await store.releaseEvents(events);
    },
  };
}

function toClaims(events: readonly ClaimedEvent[]): Claims {
  return { seqs: events.map(({ seq }) => seq), owners: events.map(({ owner }) => owner) };
}

function toNumber(outcome: AcceptOutcome): number {
  if (outcome.status === 'accepted') return outcome.seq;
  return outcome.conflicting ? CONFLICTING : DUPLICATE;
}

function toOutcome(number: number): AcceptOutcome {
  if (number > 0) return { status: 'accepted', seq: number };
  return { status: 'duplicate', conflicting: number === CONFLICTING };
}

function toColumns<Row>(rows: readonly Row[], keys: readonly (keyof Row)[]): Columns {
  return JSON.stringify(keys.map((key) => rows.map((row) => row[key])));
}

function fromColumns<Row>(text: Columns, keys: readonly (keyof Row)[]): Row[] {
  const columns = JSON.parse(text) as unknown[][];
  return (columns[0] ?? []).map((_, at) => {
    const row: Partial<Record<keyof Row, unknown>> = {};
    for (let column = 0; column < keys.length; column += 1) row[keys[column]!] = columns[column]![at];
    return row as Row;
  });
}

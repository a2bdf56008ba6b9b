import type { Kind } from '../../src/compliance/kinds.ts';
import type { Difference } from './compare.ts';
import type { Change } from './tables.ts';

/** How many ended differences are remembered, so that an endless run does not fill the memory. */
const MAX_REMEMBERED = 2_000;

/** A record that differed, from the first comparison that showed it to the first that no longer did. */
export interface Observation {
  kind: Kind;
  id: string;
  fields: Set<string>;
  firstSeenMs: number;
  resolvedMs: number | null;
  /**
   * The cause in the mirror's `changes` that ended the difference. Null while it lasts, and also if the mirror changed nothing
   * because upstream itself went back to what the mirror shows.
   */
  resolvedBy: string | null;
}

interface Compared {
  /** Milliseconds since 1970. */
  atMs: number;
  differences: readonly Difference[];
  /** What the mirror has changed since the previous comparison. */
  changes: readonly Change[];
}

/**
 * Follows differences over many comparisons. Each must read the mirror before the upstream: then a change that ends a difference
 * is written after that reading, so a later comparison sees it.
 */
export class DifferenceLog {
  #ended: Observation[] = [];
  readonly #open = new Map<string, Observation>();

  note({ atMs, differences, changes }: Compared): void {
    const causes = new Map(changes.map(({ kind, recordId, cause }) => [`${kind}/${recordId}`, cause]));
    const differing = new Set<string>();
    for (const { kind, id, fields } of differences) {
      const key = `${kind}/${id}`;
      differing.add(key);
      const begun = { kind, id, fields: new Set<string>(), firstSeenMs: atMs };
      const open = this.#open.get(key) ?? { ...begun, resolvedMs: null, resolvedBy: null };
      this.#open.set(key, open);
      for (const { field } of fields) open.fields.add(field);
    }
    for (const [key, open] of this.#open) {
      if (differing.has(key)) continue;
      open.resolvedMs = atMs;
      open.resolvedBy = causes.get(key) ?? null;
      this.#ended.push(open);
      this.#open.delete(key);
    }
    if (this.#ended.length > MAX_REMEMBERED) this.#ended = this.#ended.slice(-MAX_REMEMBERED);
  }

  /** In the order in which they began, those that began before `sinceMs` left out. */
  since(sinceMs: number): Observation[] {
    return [...this.#ended, ...this.#open.values()]
      .filter(({ firstSeenMs }) => firstSeenMs >= sinceMs)
      .sort((a, b) => a.firstSeenMs - b.firstSeenMs);
  }
}

/** What is used of the sandbox's list of deliveries. */
interface DeliveryLogEntry {
  kind: Kind;
  recordId: string;
  created: string;
  faults: readonly string[];
}

/** Where the demo writes. It must escape the texts for a terminal, because records may hold any text. */
export interface Printer {
  /** One line each. */
  write(...lines: string[]): void;
  table(heads: readonly string[], rows: readonly (readonly Cell[])[]): void;
}

export type Cell = string | number | null;

export const TABLE_HEADS = ['RECORD', 'KIND', 'WHY', 'SECONDS', 'RESOLVED BY', 'DIFFERED IN'] as const;

/** How many differences are shown. The rest is counted. Rows. */
const MAX_ROWS = 40;
/** The difference is seen a moment after its delivery was made. */
const SIGHT_LAG_MS = 2_000;

/** What resolved the difference, by its cause in `changes`; null: nothing yet. */
export function resolverOf(observation: Observation): 'event' | 'refetch' | 'sync' | 'upstream' | null {
  if (observation.resolvedMs === null) return null;
  if (observation.resolvedBy === null) return 'upstream';
  const by = observation.resolvedBy;
  return by === 'refetch' || by === 'sync' ? by : 'event';
}

/**
 * What the faults of deliveries made, in order of time; at most `MAX_ROWS`, the newest. `inTransit`: how many ended with
 * their own event, which was only under way. `unshown`: how many differed only because events do not show every field.
 */
export function differenceRows(
  observations: readonly Observation[],
  deliveries: readonly DeliveryLogEntry[],
) {
  const repaired = observations.filter((observation) => resolverOf(observation) !== 'event');
  const rows = repaired.flatMap((observation) => {
    const why = whyOf(observation, deliveries);
    return why === '' ? [] : [rowOf(observation, why)];
  });
  return {
    rows: rows.slice(-MAX_ROWS),
    left: Math.max(0, rows.length - MAX_ROWS),
    inTransit: observations.length - repaired.length,
    unshown: repaired.length - rows.length,
  };
}

function rowOf(observation: Observation, why: string): Cell[] {
  const { kind, id, fields, firstSeenMs, resolvedMs, resolvedBy } = observation;
  const seconds = resolvedMs === null ? null : Math.round((resolvedMs - firstSeenMs) / 100) / 10;
  const by = resolvedMs === null ? 'not yet' : (resolvedBy ?? 'upstream came back to it');
  return [id, kind, why, seconds, by, [...fields].join(', ')];
}

const FAULT_WORDS: Readonly<Record<string, string>> = {
  drop: 'delivery dropped',
  reorder: 'delivery overtaken',
  delay: 'delivery delayed',
};

/** Why the record differed, by the faults of its deliveries at that time; empty: they had none. */
function whyOf(observation: Observation, deliveries: readonly DeliveryLogEntry[]): string {
  const from = observation.firstSeenMs - SIGHT_LAG_MS;
  const until = observation.resolvedMs ?? Number.POSITIVE_INFINITY;
  const faults = new Set(
    deliveries
      .filter((delivery) => delivery.kind === observation.kind && delivery.recordId === observation.id)
      .filter((delivery) => Date.parse(delivery.created) >= from && Date.parse(delivery.created) <= until)
      .flatMap((delivery) => delivery.faults),
  );
  return Object.entries(FAULT_WORDS)
    .flatMap(([fault, word]) => (faults.has(fault) ? [word] : []))
    .join(', ');
}

/** `12 by refetch, 3 by sync`. */
export function tally(observations: readonly Observation[]): string {
  const by = Object.entries(Object.groupBy(observations, (one) => resolverOf(one) ?? 'nothing yet'));
  return by.map(([resolver, those]) => `${those.length} by ${resolver}`).join(', ');
}

/** One line each, for differences that nothing resolved. */
export function describeDifferences(differences: readonly Difference[]): string[] {
  return differences.map(({ kind, id, fields }) => {
    const parts = fields.map(
      ({ field, mirror, upstream }) => `${field} (mirror: ${shown(mirror)}, upstream: ${shown(upstream)})`,
    );
    return `${kind} ${id}: ${parts.join(', ')}`;
  });
}

function shown(value: unknown): string {
  return value === undefined ? 'absent' : JSON.stringify(value);
}

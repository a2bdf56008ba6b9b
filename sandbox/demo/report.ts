import type { DeliveryLogEntry } from './clients.ts';
import type { Difference } from './compare.ts';
import type { Observation } from './differences.ts';

/** Where the demo writes. It must escape the texts for a terminal, because records may hold any text. */
export interface Printer {
  /** One line each. */
  write(...lines: string[]): void;
  table(heads: readonly string[], rows: readonly (readonly Cell[])[]): void;
}

export type Cell = string | number | null;

export const TABLE_HEADS = ['RECORD', 'KIND', 'WHY', 'SECONDS', 'RESOLVED BY', 'DIFFERED IN'] as const;

/** How many differences are shown besides those of stories. The rest is counted. Rows. */
const MAX_ROWS = 40;
/** The difference is seen a moment after its delivery was made. */
const SIGHT_LAG_MS = 2_000;

/** Whether the difference ended with its own event, which was only under way. */
export function isInTransit(observation: Observation): boolean {
  return observation.story === null && resolverOf(observation) === 'event';
}

/** What resolved the difference, by its cause in `changes`; null: nothing yet. */
export function resolverOf(observation: Observation): 'event' | 'refetch' | 'sync' | 'upstream' | null {
  if (observation.resolvedMs === null) return null;
  if (observation.resolvedBy === null) return 'upstream';
  const word = /^[a-z]+/.exec(observation.resolvedBy)?.[0];
  return word === 'refetch' || word === 'sync' ? word : 'event';
}

/** Staged stories first, then the others in order of time; at most `MAX_ROWS` of those. */
export function differenceRows(
  observations: readonly Observation[],
  deliveries: readonly DeliveryLogEntry[],
): { rows: Cell[][]; left: Observation[] } {
  const staged = observations.filter((observation) => observation.story !== null);
  const others = observations.filter(
    (observation) => observation.story === null && !isInTransit(observation),
  );
  const shown = [...staged, ...others.slice(0, MAX_ROWS)];
  return { rows: shown.map((observation) => rowOf(observation, deliveries)), left: others.slice(MAX_ROWS) };
}

function rowOf(observation: Observation, deliveries: readonly DeliveryLogEntry[]): Cell[] {
  const { kind, id, fields, firstSeenMs, resolvedMs } = observation;
  return [
    id,
    kind,
    observation.story ?? whyOf(observation, deliveries),
    resolvedMs === null ? null : Math.round((resolvedMs - firstSeenMs) / 100) / 10,
    resolvedText(observation),
    [...fields].join(', '),
  ];
}

function resolvedText(observation: Observation): string {
  const resolver = resolverOf(observation);
  if (resolver === null) return 'not yet';
  return resolver === 'upstream' ? 'upstream came back to it' : (observation.resolvedBy ?? '');
}

const FAULT_WORDS: Readonly<Record<string, string>> = {
  drop: 'delivery dropped',
  reorder: 'delivery overtaken',
  delay: 'delivery delayed',
};

/** Why the record differed, by the faults of its deliveries at that time. */
function whyOf(observation: Observation, deliveries: readonly DeliveryLogEntry[]): string {
  const from = observation.firstSeenMs - SIGHT_LAG_MS;
  const until = observation.resolvedMs ?? Number.POSITIVE_INFINITY;
  const faults = new Set(
    deliveries
      .filter((delivery) => delivery.kind === observation.kind && delivery.recordId === observation.id)
      .filter((delivery) => Date.parse(delivery.created) >= from && Date.parse(delivery.created) <= until)
      .flatMap((delivery) => delivery.faults),
  );
  const words = Object.entries(FAULT_WORDS).flatMap(([fault, word]) => (faults.has(fault) ? [word] : []));
  return words.length > 0 ? words.join(', ') : 'only the API shows it';
}

/** `12 by refetch, 3 by sync`. */
export function tally(observations: readonly Observation[]): string {
  const counts = new Map<string, number>();
  for (const observation of observations) {
    const resolver = resolverOf(observation) ?? 'nothing yet';
    counts.set(resolver, (counts.get(resolver) ?? 0) + 1);
  }
  return [...counts].map(([resolver, count]) => `${count} by ${resolver}`).join(', ');
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

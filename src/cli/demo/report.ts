import type { Cell } from '../table.ts';
import type { Difference } from './compare.ts';
import type { DeliveryLogEntry } from './upstream.ts';
import type { Observation } from './watch.ts';

export const TABLE_HEADS = ['RECORD', 'DIFFERED IN', 'WHY', 'SECONDS', 'HEALED BY'] as const;

/** Beside the staged ones and those open at the end; the rest is counted. Rows. */
const MAX_ROWS = 40;
/** A delivery is stamped when it is made, the difference is seen a moment later. */
const SIGHT_LAG_MS = 2_000;

/** A difference that ends by its own event's arrival was no loss, only on its way. */
export function isInTransit(observation: Observation): boolean {
  return observation.story === null && healerOf(observation) === 'event';
}

export type Healer = 'event' | 'refetch' | 'sweep' | 'upstream' | null;

/** The kind of cause, by the form in which `changes` writes it. Null: not healed. */
export function healerOf(observation: Observation): Healer {
  if (observation.healedMs === null) return null;
  if (observation.healedBy === null) return 'upstream';
  const word = /^[a-z]+/.exec(observation.healedBy)?.[0];
  return word === 'refetch' || word === 'sweep' ? word : 'event';
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
  const { kind, id, fields, firstSeenMs, healedMs } = observation;
  return [
    `${kind} ${id}`,
    [...fields].join(', '),
    observation.story ?? whyOf(observation, deliveries),
    healedMs === null ? null : Math.round((healedMs - firstSeenMs) / 100) / 10,
    healedText(observation),
  ];
}

function healedText(observation: Observation): string {
  const healer = healerOf(observation);
  if (healer === null) return 'not yet';
  return healer === 'upstream' ? 'upstream came back to it' : (observation.healedBy ?? '');
}

const FAULT_WORDS: Readonly<Record<string, string>> = {
  drop: 'delivery dropped',
  reorder: 'delivery overtaken',
  delay: 'delivery delayed',
};

/** What befell the record's deliveries meanwhile. */
function whyOf(observation: Observation, deliveries: readonly DeliveryLogEntry[]): string {
  const from = observation.firstSeenMs - SIGHT_LAG_MS;
  const until = observation.healedMs ?? Number.POSITIVE_INFINITY;
  const faults = new Set(
    deliveries
      .filter((delivery) => delivery.kind === observation.kind && delivery.recordId === observation.id)
      .filter((delivery) => Date.parse(delivery.created) >= from && Date.parse(delivery.created) <= until)
      .flatMap((delivery) => delivery.faults),
  );
  const words = Object.entries(FAULT_WORDS).flatMap(([fault, word]) => (faults.has(fault) ? [word] : []));
  return words.length > 0 ? words.join(', ') : 'only the API shows it';
}

/** `12 by refetch, 3 by sweep`. */
export function tally(observations: readonly Observation[]): string {
  const counts = new Map<string, number>();
  for (const observation of observations) {
    const healer = healerOf(observation) ?? 'nothing yet';
    counts.set(healer, (counts.get(healer) ?? 0) + 1);
  }
  return [...counts].map(([healer, count]) => `${count} by ${healer}`).join(', ');
}

/** One line each, for differences that nothing healed. */
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

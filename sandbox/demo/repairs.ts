import type { Kind } from '../../src/compliance/kinds.ts';

/** A row of the mirror's `changes` that the API caused: by a read of the record, or by a full sync. */
export interface Repair {
  kind: Kind;
  recordId: string;
  cause: string;
  /** ISO 8601, UTC. */
  at: string;
  fields: readonly string[];
}

/** What is used of the sandbox's list of deliveries. */
interface DeliveryLogEntry {
  kind: Kind;
  recordId: string;
  /** ISO 8601, UTC. */
  created: string;
  faults: readonly string[];
}

/** Where the demo writes. It must escape the texts for a terminal, because records may hold any text. */
export interface Printer {
  /** One line each. */
  write(...lines: string[]): void;
  table(heads: readonly string[], rows: readonly (readonly Cell[])[]): void;
}

type Cell = string | number | null;

export const TABLE_HEADS = ['RECORD', 'KIND', 'WHY', 'SECONDS', 'REPAIRED BY', 'DIFFERED IN'] as const;

/** How many are shown. The rest is counted. Rows. */
const MAX_ROWS = 40;

const FAULT_WORDS: Readonly<Record<string, string>> = {
  drop: 'delivery dropped',
  reorder: 'delivery overtaken',
  delay: 'delivery delayed',
};

/**
 * What the faults of deliveries made, in order of time; at most `MAX_ROWS`, the newest. `completed`: how many rows the API changed
 * without a fault, because events do not show every field.
 */
export function repairRows(repairs: readonly Repair[], deliveries: readonly DeliveryLogEntry[]) {
  const before = new Map<string, string>();
  const rows = repairs.flatMap(({ kind, recordId, cause, at, fields }): Cell[][] => {
    const key = `${kind}/${recordId}`;
    const since = before.get(key) ?? '';
    before.set(key, at);
    const faulty = deliveries.filter(
      (one) => one.kind === kind && one.recordId === recordId && one.created > since && one.created <= at,
    );
    const faults = new Set(faulty.flatMap((one) => one.faults));
    const why = Object.keys(FAULT_WORDS).flatMap((fault) => (faults.has(fault) ? FAULT_WORDS[fault]! : []));
    if (why.length === 0) return [];
    const first = Math.min(...faulty.map(({ created }) => Date.parse(created)));
    const seconds = Math.round((Date.parse(at) - first) / 100) / 10;
    return [[recordId, kind, why.join(', '), seconds, cause, fields.join(', ')]];
  });
  return {
    rows: rows.slice(-MAX_ROWS),
    left: Math.max(0, rows.length - MAX_ROWS),
    completed: repairs.length - rows.length,
  };
}

/** `12 by refetch, 3 by sync`. */
export function tally(repairs: readonly Repair[]): string {
  const by = Object.entries(Object.groupBy(repairs, ({ cause }) => cause));
  return by.map(([cause, those]) => `${those?.length} by ${cause}`).join(', ') || 'none';
}

import type { Applied, Conclusion } from '../store/store.ts';

/** What a full sync found different although no event had announced it. */
export interface DifferencesReport {
  /** Upstream, not here. */
  new: number;
  /** Here, not upstream. */
  deleted_upstream: number;
  /** Here and upstream, unlike each other. */
  different: number;
  /** How many of these the full sync repaired itself. */
  repaired: number;
  /** In how many records each column, or field in `data`, differed. */
  fields: Record<string, number>;
  /** The first `EXAMPLES_MAX`. */
  examples: DifferencesExample[];
}

export interface DifferencesExample {
  id: string;
  what: 'new' | 'deleted_upstream' | 'different';
  /** At most `FIELDS_MAX`. */
  fields: string[];
  repaired: boolean;
}

/** More would fill a page with one row. The feed of changes names every record. */
const EXAMPLES_MAX = 20;
/** The upstream decides how many field names there are, and how long they are. Every status page has those of the last full syncs. */
const FIELDS_MAX = 100;
const NAME_MAX_CHARACTERS = 100;

const shortName = (name: string): string =>
  name.length <= NAME_MAX_CHARACTERS ? name : `${name.slice(0, NAME_MAX_CHARACTERS)}…`;

export type Differences = ReturnType<typeof createDifferences>;

/** Counts differences. A change that an event had announced is none: the mirror knew that the record was unverified. */
export function createDifferences() {
  const report: DifferencesReport = {
    new: 0,
    deleted_upstream: 0,
    different: 0,
    repaired: 0,
    fields: {},
    examples: [],
  };
  const fields = new Map<string, number>();
  /** A full sync may read a record several times. */
  const counted = new Set<string>();

  function found(example: DifferencesExample): void {
    if (counted.has(example.id)) return;
    counted.add(example.id);
    report[example.what] += 1;
    if (example.repaired) report.repaired += 1;
    for (const name of example.fields) {
      if (fields.has(name) || fields.size < FIELDS_MAX) fields.set(name, (fields.get(name) ?? 0) + 1);
    }
    if (report.examples.length < EXAMPLES_MAX)
      report.examples.push({ ...example, fields: example.fields.slice(0, FIELDS_MAX) });
  }

  return {
    found,
    read(applied: readonly Applied[]): void {
      for (const { id, outcome, announced, differences } of applied) {
        // A refused read may be older than the row.
        if (announced || outcome === 'unchanged' || outcome === 'refused') continue;
        const what = outcome === 'inserted' || outcome === 'revived' ? 'new' : 'different';
        // Of a new record every field differs.
        found({
          id,
          what,
          fields: what === 'new' ? [] : differences.map(shortName),
          repaired: outcome !== 'deferred',
        });
      }
    },
    concluded({ deleted, pending }: Conclusion): void {
      for (const { id, cause } of deleted) {
        if (cause === 'absence') found({ id, what: 'deleted_upstream', fields: [], repaired: true });
      }
      for (const id of pending) found({ id, what: 'deleted_upstream', fields: [], repaired: false });
    },
    // Object.fromEntries defines own properties: a field called __proto__ stays a name.
    report: (): DifferencesReport => ({ ...report, fields: Object.fromEntries(fields) }),
  };
}

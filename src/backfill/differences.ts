import type { Applied, Conclusion } from '../store/store.ts';

/** What a full sync found to differ from the mirror although nothing had announced it, and whether it is mended. */
export interface DifferencesReport {
  /** Upstream, not here. */
  missing: number;
  /** Here, not upstream. */
  extra: number;
  /** Here and upstream, unlike each other. */
  different: number;
  /** How many of all these the full sync repaired itself. */
  repaired: number;
  /** By name of column or of field in `data`: in how many records it differed. */
  fields: Record<string, number>;
  /** The first of them. */
  examples: DifferencesExample[];
}

export interface DifferencesExample {
  id: string;
  what: 'missing' | 'extra' | 'different';
  fields: string[];
  repaired: boolean;
}

/** More would make a page of one row; the feed of changes names every record. */
const EXAMPLES_MAX = 20;
/** Names of fields come from the upstream: as many as a person would read. */
const FIELDS_MAX = 100;

export interface Differences {
  read(applied: readonly Applied[]): void;
  concluded(conclusion: Conclusion): void;
  found(example: DifferencesExample): void;
  report(): DifferencesReport;
}

/** Adds up what differed. What an event had announced is no difference: the record was marked unverified already. */
export function createDifferences(): Differences {
  const report: DifferencesReport = {
    missing: 0,
    extra: 0,
    different: 0,
    repaired: 0,
    fields: {},
    examples: [],
  };
  const fields = new Map<string, number>();

  function found(example: DifferencesExample): void {
    report[example.what] += 1;
    if (example.repaired) report.repaired += 1;
    for (const name of example.fields) {
      if (fields.has(name) || fields.size < FIELDS_MAX) fields.set(name, (fields.get(name) ?? 0) + 1);
    }
    if (report.examples.length < EXAMPLES_MAX) report.examples.push(example);
  }

  return {
    found,
    read(applied) {
      for (const { id, outcome, announced, differences } of applied) {
        // A refused read is older than the row, which then is right, or the record is read once more.
        if (announced || outcome === 'unchanged' || outcome === 'refused') continue;
        const what = outcome === 'inserted' || outcome === 'revived' ? 'missing' : 'different';
        // For a missing record, the names of its fields add nothing.
        found({
          id,
          what,
          fields: what === 'missing' ? [] : [...differences],
          repaired: outcome !== 'deferred',
        });
      }
    },
    concluded({ deleted, pending }) {
      for (const { id, cause } of deleted) {
        if (cause === 'absence') found({ id, what: 'extra', fields: [], repaired: true });
      }
      for (const id of pending) found({ id, what: 'extra', fields: [], repaired: false });
    },
    // Object.fromEntries defines own properties: a field called __proto__ stays a name.
    report: () => ({ ...report, fields: Object.fromEntries(fields) }),
  };
}

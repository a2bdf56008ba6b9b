import type { JsonObject } from '../../compliance/pointers.ts';
import { figure } from '../words.ts';

/** The differences report of a full sync, read with distrust: it is JSON from a column. */
export interface DifferencesFacts {
  missing: number;
  extra: number;
  different: number;
  repaired: number;
  fields: [field: string, times: number][];
  examples: { id: string; what: string; fields: string[]; repaired: boolean }[];
  /** Of a comparison: why its list cannot have been the whole one. */
  incomplete: string | null;
}

/** Null: the full sync has not ended, or ended without one. */
export function differencesOf(differences: JsonObject | null): DifferencesFacts | null {
  if (differences === null) return null;
  const number = (value: unknown) => (typeof value === 'number' ? value : 0);
  const fields =
    typeof differences['fields'] === 'object' && differences['fields'] !== null ? differences['fields'] : {};
  const examples = Array.isArray(differences['examples']) ? differences['examples'] : [];
  return {
    missing: number(differences['missing']),
    extra: number(differences['extra']),
    different: number(differences['different']),
    repaired: number(differences['repaired']),
    incomplete: typeof differences['incomplete'] === 'string' ? differences['incomplete'] : null,
    fields: Object.entries(fields)
      .map(([field, times]): [string, number] => [field, number(times)])
      .sort((a, b) => b[1] - a[1]),
    examples: examples.flatMap((example: unknown) => {
      if (typeof example !== 'object' || example === null || !('id' in example)) return [];
      const { id, what, fields: differing, repaired } = example as Record<string, unknown>;
      return [
        {
          id: String(id),
          what: String(what),
          fields: Array.isArray(differing) ? differing.map(String) : [],
          repaired: repaired === true,
        },
      ];
    }),
  };
}

/** `2 missing, 1 different`; `nothing` only where all was read, and nothing differed. */
export function differencesWords({
  differences,
  outcome,
}: {
  differences: JsonObject | null;
  outcome: string | null;
}): string {
  const facts = differencesOf(differences);
  if (facts === null) return 'not known';
  const parts = [
    facts.missing > 0 ? `${figure(facts.missing)} missing` : null,
    facts.extra > 0 ? `${figure(facts.extra)} gone` : null,
    facts.different > 0 ? `${figure(facts.different)} different` : null,
  ].filter((part) => part !== null);
  if (parts.length > 0) return parts.join(', ');
  return outcome === 'complete' ? 'nothing' : 'none seen';
}

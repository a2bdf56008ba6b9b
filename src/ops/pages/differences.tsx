import type { Kind } from '../../compliance/kinds.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import { count, figure } from '../words.ts';
import { RecordLink, Table } from './pieces.tsx';

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
function differencesOf(differences: JsonObject | null): DifferencesFacts | null {
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

const WHAT: Readonly<Record<string, string>> = {
  missing: 'missing here',
  extra: 'gone upstream',
  different: 'different',
};

/** What differed although nothing had announced it. `dry`: nothing was repaired, because nothing was to be. */
export function DifferencesDetails({
  kind,
  differences,
  dry = false,
}: {
  kind: Kind;
  differences: object | null;
  dry?: boolean;
}) {
  const facts = differencesOf(differences as JsonObject | null);
  if (facts === null) return <p class="note">It is known when the full sync has ended.</p>;
  const { missing, extra, different, repaired, fields, examples, incomplete } = facts;
  const caveat =
    incomplete === null ? null : (
      <p class="note">
        <span class="warn">Not the whole list was read, so nothing absent from it counts:</span> {incomplete}
      </p>
    );
  const differing = missing + extra + different;
  if (differing === 0) {
    return (
      <>
        {caveat}
        <p class="note">Nothing differed in what was read.</p>
      </>
    );
  }
  return (
    <>
      {caveat}
      <p class="note">
        {figure(missing)} missing here, {figure(extra)} gone upstream, {figure(different)} different.
        {dry ? '' : ` ${figure(repaired)} of them repaired.`}
        {fields.length === 0
          ? ''
          : ` By field: ${fields.map(([field, times]) => `${field} in ${count(times, 'record')}`).join(', ')}.`}
      </p>
      {examples.length === 0 ? null : (
        <Table
          label="Examples of differences"
          head={['Record', 'What', 'Fields', ...(dry ? [] : ['Repaired'])]}
        >
          {examples.map((example) => (
            <tr>
              <th scope="row">
                <RecordLink kind={kind} id={example.id} />
              </th>
              <td class="wide" data-label="What">
                {WHAT[example.what] ?? example.what}
              </td>
              <td class="wide" data-label="Fields">
                {example.fields.length === 0 ? (
                  <span class="quiet">the whole record</span>
                ) : (
                  example.fields.join(', ')
                )}
              </td>
              {dry ? null : <td data-label="Repaired">{example.repaired ? 'yes' : 'no'}</td>}
            </tr>
          ))}
        </Table>
      )}
      {differing > examples.length && examples.length > 0 ? (
        <p class="note">
          The first {examples.length} of {figure(differing)}.
        </p>
      ) : null}
    </>
  );
}

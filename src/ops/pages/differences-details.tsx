import type { Kind } from '../../compliance/kinds.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import { count, figure } from '../words.ts';
import { differencesOf } from './differences.ts';
import { RecordLink, Table } from './pieces.tsx';

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

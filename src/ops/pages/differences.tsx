import type { Kind } from '../../compliance/kinds.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import type { Differences } from '../context.ts';
import { count, figure } from '../words.ts';
import { RecordLink, Table } from './pieces.tsx';

/** Of a full sync, or of a comparison, whose list may not have been the whole one. */
type Found = Differences & { incomplete?: string | null };

/** `2 missing, 1 different`; `nothing` only where all was read, and nothing differed. */
export function differencesWords({
  differences,
  outcome,
}: {
  differences: JsonObject | null;
  outcome: string | null;
}): string {
  if (differences === null) return 'not known';
  const { missing, extra, different } = differences as unknown as Differences;
  const parts = [
    missing > 0 ? `${figure(missing)} missing` : null,
    extra > 0 ? `${figure(extra)} gone` : null,
    different > 0 ? `${figure(different)} different` : null,
  ].filter((part) => part !== null);
  if (parts.length > 0) return parts.join(', ');
  return outcome === 'complete' ? 'nothing' : 'none seen';
}

const WHAT = {
  missing: 'missing here',
  extra: 'gone upstream',
  different: 'different',
} as const;

const WHOLE_RECORD = <span class="quiet">the whole record</span>;

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
  if (differences === null) return <p class="note">It is known when the full sync has ended.</p>;
  const { missing, extra, different, repaired, examples, incomplete = null } = differences as Found;
  const fields = Object.entries((differences as Found).fields).sort((a, b) => b[1] - a[1]);
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
          rows={examples}
          columns={[
            ['Record', (example) => <RecordLink kind={kind} id={example.id} />],
            ['What', ({ what }) => WHAT[what], 'wide'],
            ['Fields', (example) => example.fields.join(', ') || WHOLE_RECORD, 'wide'],
            ...(dry
              ? []
              : [
                  [
                    'Repaired',
                    (example: Differences['examples'][number]) => (example.repaired ? 'yes' : 'no'),
                  ] as const,
                ]),
          ]}
        />
      )}
      {differing > examples.length && examples.length > 0 ? (
        <p class="note">
          The first {examples.length} of {figure(differing)}.
        </p>
      ) : null}
    </>
  );
}

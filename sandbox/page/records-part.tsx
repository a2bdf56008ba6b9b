import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import type { SandboxParts } from '../controls.ts';
import { isAllowed, MACHINES } from '../machines.ts';
import { NAMES, recordId } from '../records.ts';
import type { RecordState } from '../state.ts';
import { PostForm, queryOf, type View } from './forms.tsx';
import { Card } from './layout.tsx';

const ROWS_PER_PAGE = 10;

export function RecordsPart({ parts, view: asked }: { parts: SandboxParts; view: View }) {
  const { state } = parts.upstream;
  const found = state.list(asked.kind).filter((record) => matches(asked.kind, record, asked.q));
  const pages = Math.max(1, Math.ceil(found.length / ROWS_PER_PAGE));
  const view = { ...asked, page: Math.min(asked.page, pages) };
  const rows = found.toReversed().slice((view.page - 1) * ROWS_PER_PAGE, view.page * ROWS_PER_PAGE);
  return (
    <Card part="records" title="Records" isTitleHidden aside={<Search state={state} view={view} />}>
      <details class="inline">
        <summary>New {NAMES[view.kind].name}…</summary>
        <ChangeForm view={{ kind: view.kind }} op="create" name="" words="Create" />
      </details>
      {rows.length === 0 ? (
        <p class="empty">{view.q === '' ? 'There are none yet.' : `Nothing matches “${view.q}”.`}</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th>Record</th>
              <th>Status</th>
              <th>What can happen to it</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((record) => (
              <Row record={record} view={view} />
            ))}
          </tbody>
        </table>
      )}
      <Pager view={view} pages={pages} found={found.length} />
    </Card>
  );
}

function Search({ state, view }: { state: RecordState; view: View }) {
  return (
    <>
      <nav class="tabs" aria-label="Kinds of record">
        {KINDS.map((kind) => (
          <a href={`/${queryOf({ kind })}`} aria-current={kind === view.kind ? 'page' : undefined}>
            {NAMES[kind].title} <span>{state.count(kind)}</span>
          </a>
        ))}
      </nav>
      <form method="get" action="/" class="end">
        <input type="hidden" name="kind" value={view.kind} />
        <input type="search" name="q" value={view.q} placeholder="Name, id or status" aria-label="Search" />
      </form>
    </>
  );
}

function matches(kind: Kind, record: JsonObject, search: string): boolean {
  const text = `${recordId(kind, record)} ${String(record.name ?? '')} ${String(record.status ?? '')}`;
  return text.toLowerCase().includes(search.trim().toLowerCase());
}

const textOf = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' ? `${value}` : '';

function Row({ record, view }: { record: JsonObject; view: View }) {
  const { kind } = view;
  const id = recordId(kind, record);
  const name = textOf(record.name) || '(no name)';
  // Only operations that the status allows.
  const operations = Object.entries(MACHINES[kind]).filter(
    ([, operation]) => operation.effect !== 'create' && isAllowed(operation, record.status),
  );
  return (
    <tr>
      <td>
        {name}
        {kind === 'policy' ? ` · ${textOf(record.version)}` : ''}
        <small>{id}</small>
      </td>
      <td class="tight">
        <span class="badge">{(textOf(record.status) || '(none)').replaceAll('_', ' ')}</span>
      </td>
      <td>
        <div class="row">
          {operations.map(([op, { effect, event }]) =>
            op === 'update' ? (
              <details class="inline">
                <summary aria-label={`update ${name}`}>update…</summary>
                <ChangeForm view={view} op={op} id={id} name={name} words="Update" />
              </details>
            ) : (
              <PostForm view={view} action="mutate">
                <Target kind={kind} op={op} id={id} />
                <button
                  type="submit"
                  id={`${op} ${id}`}
                  class={effect === 'delete' ? 'danger' : ''}
                  title={event ?? 'The specification has no event for this: nothing is sent.'}
                  aria-label={`${op} ${name}`}
                >
                  {op}
                </button>
              </PostForm>
            ),
          )}
        </div>
      </td>
    </tr>
  );
}

function ChangeForm(props: {
  view: Pick<View, 'kind'> & Partial<View>;
  op: string;
  id?: string;
  name: string;
  words: string;
}) {
  const { view, op, id, name, words } = props;
  return (
    <PostForm view={view} action="mutate" class="form">
      <Target kind={view.kind} op={op} id={id} />
      <label>
        Name
        <input name="name" value={name} required maxlength={500} />
      </label>
      <label>
        Further fields, as JSON (may stay empty)
        <textarea name="fields" spellcheck={false} placeholder='{"owner": "Legal"}'></textarea>
      </label>
      <div class="row">
        <button type="submit" class="first">
          {words}
        </button>
        <label class="check">
          <input type="checkbox" name="silent" /> silently: no event is sent
        </label>
      </div>
    </PostForm>
  );
}

function Target({ kind, op, id }: { kind: Kind; op: string; id: string | undefined }) {
  return (
    <>
      <input type="hidden" name="kind" value={kind} />
      <input type="hidden" name="op" value={op} />
      {id !== undefined && <input type="hidden" name="id" value={id} />}
    </>
  );
}

function Pager({ view, pages, found }: { view: View; pages: number; found: number }) {
  if (pages <= 1) return null;
  return (
    <nav class="pager" aria-label="Pages">
      <span>
        Page {view.page} of {pages}, {found} records, newest first
      </span>
      {view.page > 1 && <a href={`/${queryOf({ ...view, page: view.page - 1 })}`}>Newer</a>}
      {view.page < pages && <a href={`/${queryOf({ ...view, page: view.page + 1 })}`}>Older</a>}
    </nav>
  );
}

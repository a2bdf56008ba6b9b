import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import type { PageModel, RecordRow, View } from './model.ts';

const TITLES: Record<Kind, string> = {
  policy: 'Policies',
  risk_assessment: 'Risk assessments',
  vendor: 'Vendors',
};
const NAMES: Record<Kind, string> = { policy: 'policy', risk_assessment: 'assessment', vendor: 'vendor' };

export function queryOf(view: Partial<View>): string {
  const parameters = new URLSearchParams();
  if (view.kind !== undefined) parameters.set('kind', view.kind);
  if (view.q) parameters.set('q', view.q);
  if (view.page !== undefined && view.page > 1) parameters.set('page', String(view.page));
  return `?${parameters}`;
}

export function RecordsPart({ model }: { model: PageModel }) {
  const { view, counts, rows, pages, found } = model;
  return (
    <section class="card records" data-part="records" aria-labelledby="records-title">
      <header>
        <h2 id="records-title" class="hidden">
          Records
        </h2>
        <nav class="tabs" aria-label="Kinds of record">
          {KINDS.map((kind) => (
            <a href={`/${queryOf({ kind })}`} aria-current={kind === view.kind ? 'page' : undefined}>
              {TITLES[kind]} <span>{counts[kind]}</span>
            </a>
          ))}
        </nav>
        <form method="get" action="/" class="end">
          <input type="hidden" name="kind" value={view.kind} />
          <input type="search" name="q" value={view.q} placeholder="Name, id or status" aria-label="Search" />
        </form>
      </header>
      <CreateForm view={view} />
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
            {rows.map((row) => (
              <Row row={row} view={view} />
            ))}
          </tbody>
        </table>
      )}
      <Pager view={view} pages={pages} found={found} />
    </section>
  );
}

function Row({ row, view }: { row: RecordRow; view: View }) {
  const { id, name, status, version, operations } = row;
  return (
    <tr>
      <td>
        {name}
        {version === null ? '' : ` · ${version}`}
        <small>{id}</small>
      </td>
      <td class="tight">
        <span class="badge">{status.replaceAll('_', ' ')}</span>
      </td>
      <td>
        <div class="row">
          {operations.map((operation) =>
            operation.name === 'update' ? (
              <UpdateForm row={row} view={view} />
            ) : (
              <form method="post" action={`/act${queryOf(view)}`}>
                <Target kind={view.kind} op={operation.name} id={id} />
                <button
                  type="submit"
                  id={`${operation.name} ${id}`}
                  class={operation.effect === 'delete' ? 'danger' : ''}
                  title={operation.event ?? 'The specification has no event for this: nobody is told.'}
                  aria-label={`${operation.name} ${name}`}
                >
                  {operation.name}
                </button>
              </form>
            ),
          )}
        </div>
      </td>
    </tr>
  );
}

function UpdateForm({ row, view }: { row: RecordRow; view: View }) {
  return (
    <details class="inline">
      <summary aria-label={`update ${row.name}`}>update…</summary>
      <ChangeForm view={view} op="update" id={row.id} name={row.name} words="Update" />
    </details>
  );
}

function CreateForm({ view: { kind } }: { view: View }) {
  return (
    <details class="inline">
      <summary>New {NAMES[kind]}…</summary>
      <ChangeForm view={{ kind }} op="create" name="" words="Create" />
    </details>
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
    <form method="post" action={`/act${queryOf(view)}`} class="form">
      <Target kind={view.kind} op={op} {...(id === undefined ? {} : { id })} />
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
          <input type="checkbox" name="silent" /> tell nobody: no event is sent
        </label>
      </div>
    </form>
  );
}

function Target({ kind, op, id }: { kind: Kind; op: string; id?: string }) {
  return (
    <>
      <input type="hidden" name="action" value="mutate" />
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

import type { PageModel } from './model.ts';
import { queryOf } from './records-part.tsx';
import { SHAPE_GROUPS, type ShapeField, shownShape } from './shapes-form.ts';

/** What the specification leaves open about the form of answers and events. */
export function ShapesPart({ model }: { model: PageModel }) {
  const action = `/act${queryOf(model.view)}`;
  return (
    <section class="card" data-part="shapes" aria-labelledby="shapes-title">
      <header>
        <h2 id="shapes-title">Shapes</h2>
      </header>
      <p class="note">
        What the specification leaves open: where ids stand, how lists come in pages, what a registration
        answers.
      </p>
      <details>
        <summary>Change them…</summary>
        <form method="post" action={action} class="form">
          {SHAPE_GROUPS.map(({ title, fields }) => (
            <fieldset>
              <legend>{title}</legend>
              <div class="fields">
                {fields.map((field) => (
                  <Field field={field} shown={shownShape(model.shapes, field)} />
                ))}
              </div>
            </fieldset>
          ))}
          <p class="row form-end">
            <button type="submit" name="action" value="shapes" class="first">
              Set shapes
            </button>
          </p>
        </form>
      </details>
      <form method="post" action={action} class="row">
        <button type="submit" name="action" value="draw-shapes">
          draw at random
        </button>
        <button type="submit" name="action" value="first-shapes">
          as at the start
        </button>
      </form>
    </section>
  );
}

function Field({ field, shown }: { field: ShapeField; shown: string | boolean }) {
  const { name, label, type, choices } = field;
  if (type === 'flag') {
    return (
      <label class="check">
        <input type="checkbox" name={name} checked={shown === true} />
        {label}
      </label>
    );
  }
  if (typeof type === 'object') {
    return (
      <label>
        {label}
        <select name={name}>
          {type.map((word) => (
            <option value={word} selected={word === shown}>
              {word}
            </option>
          ))}
        </select>
      </label>
    );
  }
  const listId = choices === undefined ? undefined : `choices-${name}`;
  return (
    <label>
      {label}
      <input
        name={name}
        value={String(shown)}
        list={listId}
        inputmode={type === 'number' ? 'numeric' : undefined}
        spellcheck={false}
      />
      {listId !== undefined && (
        <datalist id={listId}>
          {choices!
            .filter((choice) => choice !== '')
            .map((choice) => (
              <option value={choice} />
            ))}
        </datalist>
      )}
    </label>
  );
}

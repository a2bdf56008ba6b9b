import type { SandboxParts } from '../controls.ts';
import { STORY_NAMES } from '../scenarios.ts';
import { FAULT_FIELDS, Field, PostForm, TIME_FIELDS, type View } from './forms.tsx';
import { Card } from './layout.tsx';

interface PartProps {
  parts: SandboxParts;
  view: View;
}

export function RegistrationsPart({ parts }: Pick<PartProps, 'parts'>) {
  const registrations = parts.registrations.list();
  return (
    <Card part="registrations" title="Webhooks">
      {registrations.length === 0 ? (
        <p class="note">
          None. Register one with <code>POST /v1/webhooks</code>, or with the mirror’s <code>register</code>.
        </p>
      ) : (
        <ul class="list">
          {registrations.map(({ url, events, description, disabled }) => (
            <li>
              <p>
                <code>{url}</code>
              </p>
              <p class="note">
                {events.join(', ')}
                {description === '' ? '' : ` · ${description}`}
              </p>
              {disabled && <p class="bad">Disabled: it answered 410.</p>}
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

export function ScenariosPart({ parts, view }: PartProps) {
  const isLively = parts.scenarios.status.lively !== null;
  const names = [isLively ? 'stop' : 'lively', ...STORY_NAMES];
  return (
    <Card
      part="scenarios"
      title="Scenarios"
      aside={isLively && <span class="state good end">lively is running</span>}
    >
      <PostForm view={view} action="scenario" class="row">
        {names.map((name) => (
          <button
            type="submit"
            name="name"
            value={name}
            id={`scenario-${name}`}
            class={name === 'lively' ? 'first' : ''}
          >
            {name.replaceAll('-', ' ')}
          </button>
        ))}
      </PostForm>
    </Card>
  );
}

export function FaultsPart({ parts: { settings, timers }, view }: PartProps) {
  return (
    <Card part="faults" title="Faults">
      <PostForm view={view} action="faults">
        {Object.entries(FAULT_FIELDS).map(([title, fields]) => (
          <fieldset>
            <legend>{title}</legend>
            <div class="fields">
              {fields.map((field) => (
                <Field field={field} values={settings.faults} />
              ))}
            </div>
          </fieldset>
        ))}
        <p class="row form-end">
          <button type="submit" class="first">
            Set faults
          </button>
        </p>
      </PostForm>
      <PostForm view={view} action="time" class="row form-end">
        {TIME_FIELDS.map((field) => (
          <Field field={field} values={{ scale: timers.scale }} />
        ))}
        <button type="submit">Set</button>
      </PostForm>
    </Card>
  );
}

/** What the specification leaves open about the form of answers and events. */
export function ShapesPart({ parts, view }: PartProps) {
  return (
    <Card part="shapes" title="Shapes">
      <p class="note">
        What the specification leaves open: where ids stand, how lists come in pages, what a registration
        answers.
      </p>
      <details>
        <summary>Change them…</summary>
        <PostForm view={view} action="shapes" class="form">
          <label>
            As JSON
            <textarea name="shapes" rows={16} spellcheck={false}>
              {JSON.stringify(parts.settings.shapes, null, 2)}
            </textarea>
          </label>
          <p class="row form-end">
            <button type="submit" class="first">
              Set shapes
            </button>
          </p>
        </PostForm>
      </details>
      <PostForm view={view} class="row">
        <button type="submit" name="action" value="shapes/draw">
          draw at random
        </button>
        <button type="submit" name="action" value="first-shapes">
          as at the start
        </button>
      </PostForm>
    </Card>
  );
}

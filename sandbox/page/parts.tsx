import type { SandboxParts } from '../controls.ts';
import type { DeliveryView, Outcome } from '../deliveries.ts';
import { STORY_NAMES } from '../scenarios.ts';
import type { Attempt } from '../send.ts';
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
        <button type="submit" name="action" value="shapes/reset">
          as at the start
        </button>
      </PostForm>
    </Card>
  );
}

/** How an outcome reads, and whether it is fine, undecided or lost. */
const OUTCOMES: Record<Outcome, { text: string; tone: 'good' | 'wait' | 'bad' }> = {
  queued: { text: 'on its way', tone: 'wait' },
  waiting: { text: 'held back', tone: 'wait' },
  retrying: { text: 'will be sent again', tone: 'wait' },
  delivered: { text: 'delivered', tone: 'good' },
  dropped: { text: 'dropped', tone: 'bad' },
  abandoned: { text: 'given up', tone: 'bad' },
  cancelled: { text: 'cancelled', tone: 'bad' },
};

const DELIVERIES_SHOWN = 15;

export function DeliveriesPart({ parts }: { parts: SandboxParts }) {
  const { deliveries: sent } = parts.upstream;
  const { open } = sent;
  const deliveries = sent.list().slice(-DELIVERIES_SHOWN).toReversed();
  const registrations = parts.registrations.list();
  const addresses = new Map(registrations.map(({ id, url }) => [id, url]));
  const hasSeveral = registrations.length > 1;
  return (
    <Card
      part="deliveries"
      title="Deliveries going out"
      aside={
        <p class="note end">
          {open.underWay} on their way · {open.waiting} held back · {open.retrying} to be sent again
        </p>
      }
    >
      {deliveries.length === 0 ? (
        <p class="empty">
          {registrations.length === 0
            ? 'Nobody has registered a webhook yet, so nothing is sent.'
            : 'Nothing was sent yet. Change a record, and its event goes out.'}
        </p>
      ) : (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>Event</th>
                <th>Record</th>
                {hasSeveral && <th>To</th>}
                <th>Outcome</th>
                <th>Attempts</th>
              </tr>
            </thead>
            <tbody>
              {deliveries.map((delivery) => (
                <Row
                  delivery={delivery}
                  to={hasSeveral ? (addresses.get(delivery.registrationId) ?? '') : null}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

function Row({ delivery, to }: { delivery: DeliveryView; to: string | null }) {
  const { type, created, eventId, recordId, outcome, faults, attempts } = delivery;
  const { text, tone } = OUTCOMES[outcome];
  return (
    <tr>
      <td class="tight">
        {type}
        <small>
          {created.slice(11, 23)} · {eventId}
        </small>
      </td>
      <td>
        <code>{recordId}</code>
      </td>
      {to !== null && (
        <td>
          <code>{to}</code>
        </td>
      )}
      <td>
        <span class={`state ${tone}`}>{text}</span>
        {faults.length > 0 && <small>{faults.join(', ')}</small>}
      </td>
      <td>
        <code title={attempts.map(timeText).join(', ')}>{attempts.map(attemptText).join(' · ') || '–'}</code>
      </td>
    </tr>
  );
}

function attemptText({ status, error }: Attempt): string {
  return String(status ?? error?.split(':')[0] ?? 'no answer');
}

function timeText({ at, durationMs }: Attempt): string {
  return `${at.slice(11, 23)}, ${durationMs} ms`;
}

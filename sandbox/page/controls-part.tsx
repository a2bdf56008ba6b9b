import { STORY_NAMES } from '../stories.ts';
import type { PageModel } from './model.ts';
import { queryOf } from './records-part.tsx';

interface Props {
  model: PageModel;
}

export function RegistrationsPart({ model }: Props) {
  return (
    <section class="card" data-part="registrations" aria-labelledby="registrations-title">
      <header>
        <h2 id="registrations-title">Webhooks</h2>
      </header>
      {model.registrations.length === 0 ? (
        <p class="note">
          None. Register one with <code>POST /v1/webhooks</code>, or with the mirror’s <code>register</code>.
        </p>
      ) : (
        <ul class="list">
          {model.registrations.map(({ url, events, description, disabled }) => (
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
    </section>
  );
}

export function ScenariosPart({ model }: Props) {
  const names = [model.lively ? 'stop' : 'lively', ...STORY_NAMES];
  return (
    <section class="card" data-part="scenarios" aria-labelledby="scenarios-title">
      <header>
        <h2 id="scenarios-title">Scenarios</h2>
        {model.lively && <span class="state good end">lively is running</span>}
      </header>
      <form method="post" action={`/act${queryOf(model.view)}`} class="row">
        <input type="hidden" name="action" value="scenario" />
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
      </form>
    </section>
  );
}

export function FaultsPart({ model }: Props) {
  const { faults, timeScale } = model;
  const percent = (part: number) => String(Math.round(part * 10_000) / 100);
  const seconds = (ms: number) => String(ms / 1000);
  return (
    <section class="card" data-part="faults" aria-labelledby="faults-title">
      <header>
        <h2 id="faults-title">Faults</h2>
      </header>
      <form method="post" action={`/act${queryOf(model.view)}`}>
        <input type="hidden" name="action" value="faults" />
        <h3>Deliveries</h3>
        <div class="fields">
          <NumberField label="Dropped, %" name="drop" value={percent(faults.drop)} max={100} />
          <NumberField label="Sent twice, %" name="duplicate" value={percent(faults.duplicate)} max={100} />
          <NumberField label="Overtaken, %" name="reorder" value={percent(faults.reorder)} max={100} />
          <NumberField label="Delayed, %" name="delay" value={percent(faults.delay.probability)} max={100} />
          <NumberField label="by at least, s" name="delayMin" value={seconds(faults.delay.minMs)} max={600} />
          <NumberField label="by at most, s" name="delayMax" value={seconds(faults.delay.maxMs)} max={600} />
        </div>
        <h3>API</h3>
        <div class="fields">
          <NumberField label="Stale by up to, s" name="stale" value={seconds(faults.staleMs)} max={60} />
          <NumberField label="5xx, %" name="errorRate" value={percent(faults.errorRate)} max={100} />
          <NumberField label="No answer, %" name="hang" value={percent(faults.hang)} max={100} />
          <NumberField
            label="Pages cut short, %"
            name="truncatedPages"
            value={percent(faults.truncatedPages)}
            max={100}
          />
          <NumberField
            label="Requests a minute"
            name="rateLimit"
            value={faults.rateLimit === null ? '' : String(faults.rateLimit)}
          />
          <label>
            Risk and vendor events
            <select name="payloads">
              {(['full', 'thin'] as const).map((payloads) => (
                <option value={payloads} selected={faults.payloads === payloads}>
                  {payloads}
                </option>
              ))}
            </select>
          </label>
        </div>
        <p class="row form-end">
          <button type="submit" class="first">
            Set faults
          </button>
        </p>
      </form>
      <form method="post" action={`/act${queryOf(model.view)}`} class="row form-end">
        <input type="hidden" name="action" value="time" />
        <label>
          Retries come sooner by the factor
          <input name="scale" type="number" min="0.001" step="any" value={String(timeScale)} required />
        </label>
        <button type="submit">Set</button>
      </form>
    </section>
  );
}

function NumberField(props: { label: string; name: string; value: string; max?: number }) {
  const { label, name, value, max } = props;
  return (
    <label>
      {label}
      <input name={name} type="number" min="0" max={max} step="any" value={value} />
    </label>
  );
}

export function AccessPart({ model }: Props) {
  const { application, serviceAccounts, grants, accessTokenSeconds, view } = model;
  return (
    <section class="card" data-part="access" aria-labelledby="access-title">
      <header>
        <h2 id="access-title">OAuth</h2>
      </header>
      <dl class="pairs">
        <dt>Client</dt>
        <dd>
          <code>{application.id}</code>
        </dd>
        <dt>Redirects to</dt>
        <dd>
          <code>{application.redirectUri}</code>
        </dd>
        {serviceAccounts.map(({ id, scopes }) => (
          <>
            <dt>Service account</dt>
            <dd>
              <code>{id}</code> <span class="note">{scopes.join(' ')}</span>
            </dd>
          </>
        ))}
      </dl>
      <form method="post" action={`/act${queryOf(view)}`} class="row form-end">
        <input type="hidden" name="action" value="token-seconds" />
        <label>
          New access tokens live, s
          <input
            name="seconds"
            type="number"
            min="0.1"
            step="any"
            value={String(accessTokenSeconds)}
            required
          />
        </label>
        <button type="submit">Set</button>
      </form>
      <ul class="list">
        {grants.map(({ id, clientId, scopes, refreshes, revoked, accessTokens }) => (
          <li>
            <p>
              <code>{clientId}</code> {revoked && <span class="bad">revoked</span>}
            </p>
            <p class="note">
              {scopes.join(' ')} · {accessTokens} live
              {refreshes === null ? '' : ` · renewed ${refreshes} times`}
            </p>
            {!revoked && (
              <form method="post" action={`/act${queryOf(view)}`} class="row">
                <input type="hidden" name="grant" value={id} />
                <button type="submit" name="action" value="expire">
                  expire tokens
                </button>
                <button type="submit" name="action" value="revoke" class="danger">
                  revoke
                </button>
              </form>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

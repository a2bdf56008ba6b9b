import { type Context, Hono } from 'hono';
import { csrf } from 'hono/csrf';
import type { PropsWithChildren } from 'hono/jsx';
import { EVENT_TYPES, KINDS, type Kind, kindOfType } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import { trigger } from '../changes.ts';
import type { SandboxParts } from '../controls.ts';
import { toProblem, unfit } from '../problems.ts';
import { NAMES, recordId } from '../records.ts';
import { SCENARIO_NAMES, scenarioSchema } from '../scenarios.ts';
import { Layout, pageHeaders } from './layout.tsx';

/** Rows of each kind. The rest is counted. */
const ROWS = 50;

/** The page at the root. Its buttons post to the same address. */
export function pageRoutes(parts: SandboxParts): Hono {
  const routes = new Hono();
  routes.use('/', pageHeaders(), csrf());
  routes.get('/', (c) => c.html(<SandboxPage parts={parts} notice={null} />));
  routes.post('/', async (c) => {
    try {
      await act(parts, c);
    } catch (error) {
      const problem = toProblem(error);
      if (problem.status >= 500) throw error;
      return c.html(<SandboxPage parts={parts} notice={problem.message} />, problem.status);
    }
    return c.redirect('/', 303);
  });
  return routes;
}

async function act({ upstream, scenarios }: SandboxParts, c: Context): Promise<void> {
  const form = await c.req.parseBody();
  const type = EVENT_TYPES.find((each) => each === form['event']);
  const scenario = scenarioSchema.safeParse({ name: form['scenario'] });
  if (type !== undefined) trigger(upstream, { type });
  else if (scenario.success) await scenarios.run(scenario.data);
  else throw unfit('It takes an event or a scenario.');
}

function SandboxPage({ parts, notice }: { parts: SandboxParts; notice: string | null }) {
  return (
    <Layout title="What it holds">
      <main class="wrap" data-live>
        <header>
          <h1>Compliance sandbox</h1>
          <p class="note">
            A stand-in for the compliance service, in memory. Its API is below <code>/v1</code>, described at{' '}
            <a href="/openapi.json">openapi.json</a>. All times are UTC.
          </p>
        </header>
        {notice !== null && (
          <p class="notice" role="alert">
            {notice}
          </p>
        )}
        <div class="columns">
          <Card part="scenarios" title="Scenarios">
            <Scenarios running={parts.scenarios.running} />
          </Card>
          <Card part="events" title="Send an event">
            <Events addresses={addressesOf(parts)} />
          </Card>
        </div>
        <div class="columns">
          {KINDS.map((kind) => (
            <Card part={kind} title={`${NAMES[kind].title} · ${parts.upstream.state.count(kind)}`}>
              <Records kind={kind} records={parts.upstream.state.list(kind)} />
            </Card>
          ))}
        </div>
      </main>
    </Layout>
  );
}

/** `part`: by this name the script replaces its content. */
function Card({ part, title, children }: PropsWithChildren<{ part: string; title: string }>) {
  return (
    <section class="card" data-part={part}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

function Scenarios({ running }: { running: { name: string; until: string } | null }) {
  return (
    <form method="post" action="/">
      <p class="row">
        {SCENARIO_NAMES.map((name) => (
          <button type="submit" name="scenario" value={name} class={name === running?.name ? 'first' : ''}>
            {name}
          </button>
        ))}
        {running !== null && (
          <button type="submit" name="scenario" value="stop">
            stop
          </button>
        )}
      </p>
      <p class="note row">
        {running === null
          ? 'Half a minute of changes: as usual, with lost and late deliveries, or with nothing coming out at all.'
          : `${running.name}, until ${running.until.slice(11, 19)}`}
      </p>
    </form>
  );
}

/** Those that are sent to. */
const addressesOf = ({ registrations }: SandboxParts) =>
  registrations.list().flatMap(({ url, disabled }) => (disabled ? [] : url));

function Events({ addresses }: { addresses: readonly string[] }) {
  return (
    <form method="post" action="/">
      {KINDS.map((kind) => (
        <p class="row">
          {EVENT_TYPES.filter((type) => kindOfType(type) === kind).map((type) => (
            <button type="submit" name="event" value={type}>
              {type}
            </button>
          ))}
        </p>
      ))}
      <p class="note row">
        Each changes a record of its kind, chosen at random, and announces it
        {addresses.length === 0
          ? ': to nobody, since no webhook is registered.'
          : ` to ${addresses.join(', ')}.`}
      </p>
    </form>
  );
}

const textOf = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' ? `${value}` : '';

/** The last changed first. Records of the seed have no such time. */
const changedAt = (record: JsonObject) => textOf(record['updatedAt']);

function Records({ kind, records }: { kind: Kind; records: readonly JsonObject[] }) {
  const newest = records.toSorted((a, b) => changedAt(b).localeCompare(changedAt(a)));
  return (
    <div class="scroll">
      <table>
        <tbody>
          {newest.slice(0, ROWS).map((record) => (
            <tr>
              <td>
                {textOf(record.name) || '(no name)'} {kind === 'policy' && textOf(record.version)}
                <small>{recordId(kind, record)}</small>
              </td>
              <td>
                {textOf(record.status).replaceAll('_', ' ')}
                <small>{changedAt(record).slice(11, 19)}</small>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {records.length === 0 && <p class="note">None.</p>}
      {records.length > ROWS && <p class="note">and {records.length - ROWS} more</p>}
    </div>
  );
}

import { Hono } from 'hono';
import { csrf } from 'hono/csrf';
import { z } from 'zod';
import { EVENT_TYPES, KINDS } from '../src/compliance/kinds.ts';
import { trigger } from './changes.ts';
import { type Faults, faultsSchema, type Settings } from './faults.ts';
import { parseOrRefuse, readJson } from './problems.ts';
import type { Registrations } from './registrations.ts';
import { type Scenarios, scenarioSchema } from './scenarios.ts';
import { type ScaledTimers, timeScaleSchema } from './time.ts';
import type { Upstream } from './upstream.ts';

/** What the controls act on, and what the page shows. */
export interface SandboxParts {
  upstream: Upstream;
  registrations: Registrations;
  settings: Settings;
  scenarios: Scenarios;
  timers: ScaledTimers;
}

const record = { id: z.string().optional(), fields: z.record(z.string(), z.unknown()).optional() };

/** One operation on one record, or what an event of this type announces. `silent`: without an event. */
const mutationSchema = z.union(
  [
    z.strictObject({ type: z.enum(EVENT_TYPES), ...record }),
    z.strictObject({ kind: z.enum(KINDS), op: z.string(), ...record, silent: z.boolean().default(false) }),
  ],
  'type, or kind and op (and silent); id, fields',
);

const deliveriesQuerySchema = z.strictObject({
  outcome: z.string().optional(),
  eventId: z.string().optional(),
  recordId: z.string().optional(),
});

/** The routes below `/_sandbox`, for tests and demonstrations. They are not part of the specification. */
export function controlRoutes(parts: SandboxParts): Hono {
  const { upstream, settings, scenarios, timers } = parts;
  // Without a token, any web page in a browser of this machine could send these requests.
  return new Hono()
    .use(csrf())
    .get('/state', (c) => c.json(stateOf(parts)))
    .post('/mutate', async (c) => c.json(mutate(parts, parseOrRefuse(mutationSchema, await readJson(c)))))
    .post('/scenario', async (c) =>
      c.json(await scenarios.run(parseOrRefuse(scenarioSchema, await readJson(c)))),
    )
    .get('/faults', (c) => c.json(settings.faults))
    .post('/faults', async (c) => {
      const patch = parseOrRefuse(faultsSchema.partial(), await readJson(c));
      settings.faults = { ...settings.faults, ...patch } as Faults;
      return c.json(settings.faults);
    })
    .get('/time', (c) => c.json({ scale: timers.scale }))
    .post('/time', async (c) => {
      timers.scale = parseOrRefuse(z.strictObject({ scale: timeScaleSchema }), await readJson(c)).scale;
      return c.json({ scale: timers.scale });
    })
    .get('/deliveries', (c) => {
      const wanted = Object.entries(parseOrRefuse(deliveriesQuerySchema, c.req.query()));
      const data = upstream.deliveries
        .list()
        .filter((each) => wanted.every(([field, value]) => each[field as 'outcome'] === value));
      return c.json({ data, meta: { total: data.length } });
    });
}

function mutate({ upstream, registrations }: SandboxParts, asked: z.infer<typeof mutationSchema>) {
  if ('type' in asked) {
    const events = trigger(upstream, asked).map(({ event, kind, recordId: id }) => ({
      id: event.id,
      type: event.type,
      kind,
      record_id: id,
    }));
    return { events, registrations: registrations.list().length };
  }
  const { silent, ...mutation } = asked;
  const change = upstream.apply(mutation);
  const announced = silent ? null : upstream.announce(change);
  return { kind: change.kind, id: change.id, record: change.record, event: announced?.event ?? null };
}

function stateOf({ upstream, registrations, settings, scenarios, timers }: SandboxParts) {
  const { state, deliveries } = upstream;
  return {
    policies: state.list('policy'),
    riskAssessments: state.list('risk_assessment'),
    vendors: state.list('vendor'),
    unannouncedRiskAssessments: upstream.unannounced(),
    registrations: registrations.list(),
    deliveries: deliveries.open,
    faults: settings.faults,
    scenario: scenarios.running,
    timeScale: timers.scale,
  };
}

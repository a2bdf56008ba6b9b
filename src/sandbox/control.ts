import { Hono } from 'hono';
import { z } from 'zod';
import { KINDS } from '../compliance/kinds.ts';
import { requireToken } from './authentication.ts';
import { type FaultSwitch, faultsPatchSchema } from './faults.ts';
import { Problem, parseOrRefuse, readBody } from './problems.ts';
import { recordId } from './records.ts';
import type { Registrations } from './registrations.ts';
import { type Scenarios, scenarioSchema } from './scenarios.ts';
import type { ScaledTimers } from './time.ts';
import type { Upstream } from './upstream.ts';

interface ControlParts {
  upstream: Upstream;
  registrations: Registrations;
  faults: FaultSwitch;
  scenarios: Scenarios;
  timers: ScaledTimers;
  seedNumber: number;
  token: string | null;
}

/** At this scale the longest wait of the schedule, two days, is under two milliseconds. */
export const MAX_TIME_SCALE = 100_000_000;

const DEFAULT_QUIESCE_TIMEOUT_MS = 30_000;
const MAX_QUIESCE_TIMEOUT_MS = 600_000;

const mutateSchema = z.strictObject({
  kind: z.enum(KINDS),
  op: z.string(),
  id: z.string().optional(),
  fields: z.record(z.string(), z.unknown()).optional(),
  /** The change happens and nobody is told. */
  silent: z.boolean().default(false),
});
const timeSchema = z.strictObject({ scale: z.number().positive().max(MAX_TIME_SCALE) });
const quiesceSchema = z.strictObject({
  timeoutMs: z.int().min(0).max(MAX_QUIESCE_TIMEOUT_MS).default(DEFAULT_QUIESCE_TIMEOUT_MS),
});
const deliveriesQuerySchema = z.strictObject({
  outcome: z.string().optional(),
  eventId: z.string().optional(),
  registrationId: z.string().optional(),
  recordId: z.string().optional(),
  limit: z.coerce.number().int().positive().optional(),
});

/** Below `/_sandbox`: what a test or a demonstration does to the stand-in. Not part of the specification. */
export function controlRoutes(parts: ControlParts): Hono {
  const { upstream, registrations, faults, scenarios, timers } = parts;
  const { state, deliveries } = upstream;
  const routes = new Hono();
  routes.use(requireToken(parts.token));
  routes.use(async function refuseOtherSites(context, next) {
    // On loopback without a token any web page in a local browser could send these requests.
    const origin = context.req.header('origin');
    if (origin !== undefined && origin !== new URL(context.req.url).origin) {
      throw new Problem(403, 'foreign_origin', 'These endpoints take no requests from other sites.');
    }
    await next();
  });

  routes.get('/state', (c) =>
    c.json({
      policies: state.list('policy'),
      riskAssessments: state.list('risk_assessment'),
      vendors: state.list('vendor'),
      // Those of which no event was ever delivered: unless another record names one, nobody can know it.
      unannouncedRiskAssessments: state
        .list('risk_assessment')
        .map((record) => recordId('risk_assessment', record))
        .filter((id) => !deliveries.announced.has(`risk_assessment/${id}`)),
      registrations: registrations.list(),
      deliveries: deliveries.open,
      faults: faults.current,
      scenario: scenarios.status,
      timeScale: timers.scale,
      seedNumber: parts.seedNumber,
    }),
  );

  routes.post('/mutate', async (c) => {
    const { silent, ...mutation } = await readBody(c, mutateSchema);
    const change = upstream.apply(mutation);
    const announced = silent ? null : upstream.announce(change);
    return c.json({
      kind: change.kind,
      id: change.id,
      record: change.record,
      event: announced?.event ?? null,
    });
  });

  routes.get('/faults', (c) => c.json(faults.current));
  routes.on(['POST', 'PATCH'], '/faults', async (c) =>
    c.json(faults.change(await readBody(c, faultsPatchSchema))),
  );

  routes.get('/deliveries', (c) => {
    const { limit, ...wanted } = parseOrRefuse(deliveriesQuerySchema, c.req.query());
    const matching = deliveries.log
      .list()
      .filter((delivery) =>
        Object.entries(wanted).every(([field, value]) => delivery[field as keyof typeof wanted] === value),
      );
    const data = limit === undefined ? matching : matching.slice(-limit);
    return c.json({ data, meta: { total: matching.length } });
  });

  routes.post('/scenario', async (c) => c.json(await scenarios.run(await readBody(c, scenarioSchema))));

  routes.post('/time', async (c) => {
    timers.scale = (await readBody(c, timeSchema)).scale;
    return c.json({ scale: timers.scale });
  });

  routes.post('/quiesce', async (c) => {
    const { timeoutMs } = await readBody(c, quiesceSchema, '{}');
    await scenarios.stop();
    const quiet = await deliveries.whenQuiet(timeoutMs);
    return c.json({ quiet, ...deliveries.open });
  });
  return routes;
}

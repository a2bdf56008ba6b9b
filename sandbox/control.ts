import { type Context, Hono } from 'hono';
import { z } from 'zod';
import { EVENT_TYPES, KINDS, type Kind } from '../src/compliance/kinds.ts';
import { type Access, requireOwnOrigin } from './access.ts';
import { changedFaults, faultsPatchSchema } from './faults.ts';
import { tokenSeconds } from './options.ts';
import { noSuchGrant } from './page/actions.ts';
import type { PageParts } from './page/model.ts';
import { parseOrRefuse, readBody } from './problems.ts';
import { type Random, seededRandom } from './random.ts';
import { recordId } from './records.ts';
import { scenarioSchema } from './scenarios.ts';
import { changedShapes, type ShapesPatch, shapesPatchSchema } from './shapes.ts';
import { drawShapes } from './shapes-draw.ts';
import { keptId, shownId, withShownIds } from './shaping.ts';
import { timeScaleSchema } from './time.ts';
import { trigger } from './trigger.ts';

interface ControlParts extends PageParts {
  random: Random;
  access: Access;
}

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
const triggerSchema = z.strictObject({
  type: z.enum(EVENT_TYPES),
  id: z.string().optional(),
  fields: z.record(z.string(), z.unknown()).optional(),
});
const timeSchema = z.strictObject({ scale: timeScaleSchema });
const quiesceSchema = z.strictObject({
  timeoutMs: z.int().min(0).max(MAX_QUIESCE_TIMEOUT_MS).default(DEFAULT_QUIESCE_TIMEOUT_MS),
});
/** The same number, the same shapes. */
const drawSchema = z.strictObject({ seed: z.int().min(0) });
const oauthSchema = z.strictObject({ accessTokenSeconds: tokenSeconds });
const grantSchema = z.strictObject({ grant: z.string().optional() });
const deliveriesQuerySchema = z.strictObject({
  outcome: z.string().optional(),
  eventId: z.string().optional(),
  registrationId: z.string().optional(),
  recordId: z.string().optional(),
  limit: z
    .string()
    .regex(/^[1-9]\d{0,8}$/, 'a whole number from 1 on')
    .transform(Number)
    .optional(),
});

/** Below `/_sandbox`: what a test or a demonstration does to the stand-in. Not part of the specification. */
export function controlRoutes(parts: ControlParts): Hono {
  const { upstream, registrations, settings, atStart, scenarios, timers } = parts;
  const { state, deliveries } = upstream;
  const routes = new Hono();
  routes.use(parts.access.required);
  // On loopback without a token any web page in a local browser could send these requests.
  routes.use(requireOwnOrigin);

  const held = (kind: Kind) => state.list(kind).map((record) => withShownIds(kind, record, settings.shapes));

  routes.get('/state', (c) =>
    c.json({
      // In fields of the sandbox's own, whatever the shapes are; only ids are as readers see them.
      policies: held('policy'),
      riskAssessments: held('risk_assessment'),
      vendors: held('vendor'),
      // Those of which no event was ever delivered: unless another record names one, nobody can know it.
      unannouncedRiskAssessments: state
        .list('risk_assessment')
        .map((record) => recordId('risk_assessment', record))
        .filter((id) => !deliveries.announced.has(`risk_assessment/${id}`))
        .map((id) => String(shownId('risk_assessment', id, settings.shapes))),
      registrations: registrations.list(),
      deliveries: deliveries.open,
      faults: settings.faults,
      shapes: settings.shapes,
      scenario: scenarios.status,
      timeScale: timers.scale,
      seedNumber: parts.seedNumber,
    }),
  );

  routes.post('/mutate', async (c) => {
    const { silent, ...mutation } = await readBody(c, mutateSchema);
    const { kind, id } = mutation;
    const kept = { ...mutation, id: id === undefined ? id : keptId(kind, id, settings.shapes) };
    const { change, announced } = upstream.perform(kept, { silent });
    return c.json({
      kind,
      id: String(shownId(kind, change.id, settings.shapes)),
      record: change.record === null ? null : withShownIds(kind, change.record, settings.shapes),
      event: announced?.event ?? null,
    });
  });

  /** By the type of the event that tells of the change. */
  routes.post('/trigger', async (c) => {
    const about = trigger(upstream, parts.random, await readBody(c, triggerSchema));
    return c.json({
      events: about.map(({ event, kind, recordId: id }) => ({
        ...{ id: event.id, type: event.type, kind },
        record_id: String(shownId(kind, id, settings.shapes)),
      })),
      registrations: registrations.list().length,
    });
  });

  routes.get('/faults', (c) => c.json(settings.faults));
  routes.on(['POST', 'PATCH'], '/faults', async (c) => {
    const patch = await readBody(c, faultsPatchSchema);
    settings.faults = changedFaults(settings.faults, patch);
    return c.json(settings.faults);
  });

  routes.get('/shapes', (c) => c.json(settings.shapes));
  routes.on(['POST', 'PATCH'], '/shapes', async (c) => {
    const patch = await readBody(c, shapesPatchSchema);
    settings.shapes = changedShapes(settings.shapes, patch);
    return c.json(settings.shapes);
  });
  const replaceShapes = (patch: ShapesPatch) => {
    settings.shapes = changedShapes(atStart.shapes, patch);
    return settings.shapes;
  };
  /** What is left out is as at the start: `{}` undoes every change. */
  routes.put('/shapes', async (c) => c.json(replaceShapes(await readBody(c, shapesPatchSchema))));
  routes.post('/shapes/draw', async (c) => {
    const { seed } = await readBody(c, drawSchema);
    return c.json(replaceShapes(drawShapes(seededRandom(seed))));
  });

  routes.get('/deliveries', (c) => {
    const { limit, ...wanted } = parseOrRefuse(deliveriesQuerySchema, c.req.query());
    const matching = deliveries.log
      .list()
      .filter((delivery) =>
        Object.entries(wanted).every(([field, value]) => delivery[field as keyof typeof wanted] === value),
      );
    const data = (limit === undefined ? matching : matching.slice(-limit)).map((delivery) => ({
      ...delivery,
      recordId: String(shownId(delivery.kind, delivery.recordId, settings.shapes)),
    }));
    return c.json({ data, meta: { total: matching.length } });
  });

  routes.post('/scenario', async (c) => c.json(await scenarios.run(await readBody(c, scenarioSchema))));

  routes.get('/time', (c) => c.json({ scale: timers.scale }));
  routes.post('/time', async (c) => {
    timers.scale = (await readBody(c, timeSchema)).scale;
    return c.json({ scale: timers.scale });
  });

  routes.get('/oauth', (c) => c.json(oauthView(parts)));
  routes.on(['POST', 'PATCH'], '/oauth', async (c) => {
    parts.grants.accessTokenSeconds = (await readBody(c, oauthSchema)).accessTokenSeconds;
    return c.json(oauthView(parts));
  });
  routes.post('/oauth/expire', async (c) => {
    if (!parts.grants.expire(await grantIn(c))) throw noSuchGrant();
    return c.json(oauthView(parts));
  });
  routes.post('/oauth/revoke', async (c) => {
    if (!parts.grants.revoke(await grantIn(c))) throw noSuchGrant();
    return c.json(oauthView(parts));
  });
  /** Undefined: all of them. */
  async function grantIn(c: Context): Promise<string | undefined> {
    return (await readBody(c, grantSchema, '{}')).grant;
  }

  routes.post('/quiesce', async (c) => {
    const { timeoutMs } = await readBody(c, quiesceSchema, '{}');
    await scenarios.stop();
    const quiet = await deliveries.whenQuiet(timeoutMs);
    return c.json({ quiet, ...deliveries.open });
  });
  return routes;
}

/** Who may ask for tokens and what was granted, without any secret. */
function oauthView({ oauth, grants }: Pick<ControlParts, 'oauth' | 'grants'>) {
  const { id, redirectUri } = oauth.application;
  return {
    client: { id, redirectUri },
    serviceAccounts: oauth.serviceAccounts.map((account) => ({ id: account.id, scopes: account.scopes })),
    accessTokenSeconds: grants.accessTokenSeconds,
    grants: grants.list(),
  };
}

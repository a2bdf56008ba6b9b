import { type Context, Hono } from 'hono';
import { z } from 'zod';
import { KINDS } from '../compliance/kinds.ts';
import { type FaultSwitch, faultsPatchSchema } from './faults.ts';
import type { Clients } from './oauth/clients.ts';
import type { Grants } from './oauth/grants.ts';
import { tokenSeconds } from './oauth/options.ts';
import { type Access, requireOwnOrigin } from './page/access.ts';
import { noSuchGrant } from './page/actions.ts';
import { parseOrRefuse, readBody } from './problems.ts';
import { recordId } from './records.ts';
import type { Registrations } from './registrations.ts';
import { type Scenarios, scenarioSchema } from './scenarios.ts';
import { type ScaledTimers, timeScaleSchema } from './time.ts';
import type { Upstream } from './upstream.ts';

interface ControlParts {
  upstream: Upstream;
  registrations: Registrations;
  faults: FaultSwitch;
  scenarios: Scenarios;
  timers: ScaledTimers;
  clients: Clients;
  grants: Grants;
  seedNumber: number;
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
const timeSchema = z.strictObject({ scale: timeScaleSchema });
const quiesceSchema = z.strictObject({
  timeoutMs: z.int().min(0).max(MAX_QUIESCE_TIMEOUT_MS).default(DEFAULT_QUIESCE_TIMEOUT_MS),
});
const oauthSchema = z.strictObject({ accessTokenSeconds: tokenSeconds });
const grantSchema = z.strictObject({ grant: z.string().optional() });
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
  routes.use(parts.access.required());
  // On loopback without a token any web page in a local browser could send these requests.
  routes.use(requireOwnOrigin());

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
    const { change, announced } = upstream.perform(mutation, { silent });
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
    for (const id of await grantsIn(c)) parts.grants.expireAccessTokens(id);
    return c.json(oauthView(parts));
  });
  routes.post('/oauth/revoke', async (c) => {
    for (const id of await grantsIn(c)) parts.grants.revoke(id);
    return c.json(oauthView(parts));
  });
  /** The grant that is named, or all of them. */
  async function grantsIn(c: Context): Promise<string[]> {
    const { grant } = await readBody(c, grantSchema, '{}');
    const known = parts.grants.list().map(({ id }) => id);
    if (grant === undefined) return known;
    if (!known.includes(grant)) throw noSuchGrant();
    return [grant];
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
function oauthView({ clients, grants }: Pick<ControlParts, 'clients' | 'grants'>) {
  const { id, redirectUri } = clients.application;
  return {
    client: { id, redirectUri },
    serviceAccounts: clients.serviceAccounts.map((account) => ({ id: account.id, scopes: account.scopes })),
    accessTokenSeconds: grants.accessTokenSeconds,
    grants: grants.list(),
  };
}

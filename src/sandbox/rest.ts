import { Hono } from 'hono';
import { z } from 'zod';
import type { Kind } from '../compliance/kinds.ts';
import type { JsonObject } from '../compliance/pointers.ts';
import type { Meta } from '../compliance/schemas.ts';
import { type Authenticator, type AuthVariables, authenticate } from './authentication.ts';
import type { FaultSwitch } from './faults.ts';
import { Problem, parseOrRefuse, readBody } from './problems.ts';
import type { Random } from './random.ts';
import { type Registrations, registrationBodySchema } from './registrations.ts';
import { restFaults } from './rest-faults.ts';
import type { Upstream } from './upstream.ts';

interface PageSizes {
  defaultPerPage: number;
  /** A request for more gets this many; `meta.perPage` says so. */
  maxPerPage: number;
}

interface RestParts {
  upstream: Upstream;
  registrations: Registrations;
  faults: FaultSwitch;
  random: Random;
  authenticators: readonly Authenticator[];
  pageSizes: PageSizes;
  stopping: AbortSignal;
}

/** Far more than a title needs; the specification gives no limits. */
const MAX_NAME_LENGTH = 500;

const name = z.string().min(1).max(MAX_NAME_LENGTH);
const createPolicySchema = z.looseObject({
  name,
  version: z
    .string()
    .regex(/^\d+(\.\d+)*$/, 'a dotted number such as 1.0')
    .optional(),
  status: z.literal('draft').optional(),
});
const createAssessmentSchema = z.looseObject({
  name,
  status: z.literal('identified').optional(),
});

const pageNumber = z.coerce.number().int().min(1);
const pageQuerySchema = z.object({ page: pageNumber.default(1), perPage: pageNumber.optional() });

/** The seven operations of the specification, below `/v1`. */
export function restRoutes(parts: RestParts): Hono<AuthVariables> {
  const { upstream, registrations, faults, random, pageSizes } = parts;
  const routes = new Hono<AuthVariables>();
  routes.use(authenticate(parts.authenticators));
  routes.use(restFaults(faults, random, parts.stopping));

  /** The moment whose state this request sees. */
  const asOfMs = () => upstream.state.now() - random.between(0, faults.current.staleMs);

  const list = (kind: Kind, query: Record<string, string>) => {
    const { page, perPage } = parseOrRefuse(pageQuerySchema, query);
    const size = Math.min(perPage ?? pageSizes.defaultPerPage, pageSizes.maxPerPage);
    const answer = pageOf(upstream.state.list(kind, asOfMs()), page, size);
    const isTruncated = random.chance(faults.current.truncatedPages) && answer.data.length > 0;
    return isTruncated
      ? { ...answer, data: answer.data.slice(0, random.integer(0, answer.data.length - 1)) }
      : answer;
  };

  const read = (kind: Kind, id: string) => {
    const record = upstream.state.get(kind, id, asOfMs());
    if (record === null) throw new Problem(404, 'not_found', `There is no ${kind} with this id.`);
    return { data: record };
  };

  const create = (kind: Kind, fields: JsonObject) => {
    const change = upstream.apply({ kind, op: 'create', fields });
    upstream.announce(change);
    return change;
  };

  routes.get('/policies', (c) => c.json(list('policy', c.req.query())));
  routes.post('/policies', async (c) => {
    const { record, id } = create('policy', await readBody(c, createPolicySchema));
    return c.json({ data: record }, 201, { location: locationOf('policies', id) });
  });
  routes.get('/risk-assessments/:id', (c) => c.json(read('risk_assessment', c.req.param('id'))));
  routes.post('/risk-assessments', async (c) => {
    const { record, id } = create('risk_assessment', await readBody(c, createAssessmentSchema));
    return c.json({ data: record }, 201, { location: locationOf('risk-assessments', id) });
  });
  routes.get('/vendors', (c) => c.json(list('vendor', c.req.query())));
  routes.get('/vendors/:id', (c) => c.json(read('vendor', c.req.param('id'))));
  routes.post('/webhooks', async (c) => {
    const { disabled: _, ...answer } = registrations.add(await readBody(c, registrationBodySchema));
    return c.json({ data: answer }, 201, { location: locationOf('webhooks', answer.id) });
  });

  const allow = (path: string, methods: string) =>
    routes.all(path, () => {
      throw new Problem(405, 'method_not_allowed', `Allowed here: ${methods}.`, { allow: methods });
    });
  allow('/policies', 'GET, POST');
  allow('/risk-assessments/:id', 'GET');
  allow('/risk-assessments', 'POST');
  allow('/vendors', 'GET');
  allow('/vendors/:id', 'GET');
  allow('/webhooks', 'POST');
  return routes;
}

/** Page 1 is the first; one past the end is empty. */
export function pageOf(
  records: readonly JsonObject[],
  page: number,
  perPage: number,
): { data: JsonObject[]; meta: Meta } {
  const start = (page - 1) * perPage;
  return { data: records.slice(start, start + perPage), meta: { page, perPage, total: records.length } };
}

function locationOf(collection: string, id: string): string {
  return `/v1/${collection}/${encodeURIComponent(id)}`;
}

import { createRoute, OpenAPIHono, z } from '@hono/zod-openapi';
import type { Context, MiddlewareHandler } from 'hono';
import type { Kind } from '../src/compliance/kinds.ts';
import type { JsonObject } from '../src/compliance/pointers.ts';
import { restFaults } from './faults.ts';
import { pageOf } from './paging.ts';
import { Problem, unfit } from './problems.ts';
import type { Random } from './random.ts';
import { type Registrations, registrationBodySchema } from './registrations.ts';
import {
  policyAnswerSchema,
  policyCreateSchema,
  policyListSchema,
  problemSchema,
  registrationEnvelopeSchema,
  riskAssessmentAnswerSchema,
  riskAssessmentCreateSchema,
  vendorAnswerSchema,
  vendorListSchema,
} from './schemas.ts';
import { registrationAnswer } from './shapes.ts';
import { listAnswer, recordAnswer, shapedRecord, shownId } from './shaping.ts';
import type { Settings, Upstream } from './upstream.ts';

interface RestParts {
  upstream: Upstream;
  registrations: Registrations;
  settings: Settings;
  random: Random;
  authenticate: MiddlewareHandler;
  stopping: AbortSignal;
}

/** Read by `pageOf`, which knows by which names and from which number on pages are asked for. */
const pageNumber = z.string().optional().openapi({ type: 'integer', minimum: 1 });
/** Section 4, notes: how pages are asked for is not shown; the names are those of `meta`. */
const pageQuery = z.object({ page: pageNumber, perPage: pageNumber });
const id = z.string().min(1).meta({ description: 'The record’s identifier.' });

const problem = (description: string) => ({
  description,
  content: { 'application/problem+json': { schema: problemSchema } },
});
const refusals = {
  401: problem('The credentials are missing or not valid.'),
  403: problem('The credentials lack the scope that this takes.'),
  429: problem('Too many requests: see Retry-After.'),
  500: problem('A failure, switched on or real.'),
};
const notFound = { 404: problem('There is no such record.') };
const badQuery = { 422: problem('The query does not fit.') };
const badBody = {
  400: problem('The body is not JSON.'),
  413: problem('The body is too large.'),
  415: problem('The body is not application/json.'),
  422: problem('The body does not fit.'),
};

/** One of the seven: what a request is validated with is what the OpenAPI document says of it. */
interface Operation {
  path: string;
  operationId: string;
  summary: string;
  /** A POST with it, else a GET. */
  body?: z.ZodType;
  answer: [description: string, schema: z.ZodType];
  /** What is created has an address of its own. */
  location?: true;
}

function routeOf({ path, operationId, summary, body, answer: [description, schema], location }: Operation) {
  const scope = body === undefined ? 'read' : 'write';
  const content = { 'application/json': { schema } };
  const security = [{ bearer: [] }, { oauth: [scope] }, { serviceAccount: [scope] }];
  const common = { path, operationId, summary, security };
  if (body !== undefined) {
    const headers = location ? { headers: z.object({ location: z.string() }) } : {};
    return createRoute({
      ...{ method: 'post', ...common },
      request: { body: { required: true, content: { 'application/json': { schema: body } } } },
      responses: { 201: { description, content, ...headers }, ...refusals, ...badBody },
    });
  }
  const isList = !path.includes('{id}');
  return createRoute({
    ...{ method: 'get', ...common },
    request: isList ? { query: pageQuery } : { params: z.object({ id }) },
    responses: { 200: { description, content }, ...refusals, ...(isList ? badQuery : notFound) },
  });
}

/** The seven operations of the specification, below `/v1`. */
export function restRoutes(parts: RestParts): OpenAPIHono {
  const { upstream, registrations, settings, random } = parts;
  const routes = new OpenAPIHono({
    defaultHook: (result) => {
      if (!result.success) throw unfit(z.prettifyError(result.error));
    },
  });
  routes.use(parts.authenticate);
  routes.use(restFaults(settings, random, parts.stopping));

  /** The moment whose state this request sees. */
  const asOfMs = () => upstream.state.now() - random.between(0, settings.faults.staleMs);

  const list = (kind: Kind, query: Readonly<Record<string, string>>) => {
    const { rows, meta } = pageOf(upstream.state.list(kind, asOfMs()), query, settings.shapes.paging);
    const isTruncated = random.chance(settings.faults.truncatedPages) && rows.length > 0;
    const shown = isTruncated ? rows.slice(0, random.integer(0, rows.length - 1)) : rows;
    return listAnswer(
      kind,
      shown.map((record) => shapedRecord(kind, record, 'rows', settings.shapes)),
      meta,
      settings.shapes,
    );
  };

  const read = (kind: Kind, id: string) => {
    const record = upstream.state.get(kind, upstream.idShownAs(kind, id), asOfMs());
    if (record === null) throw new Problem(404, 'not_found', `There is no ${kind} with this id.`);
    return recordAnswer(kind, shapedRecord(kind, record, 'read', settings.shapes), settings.shapes);
  };

  const create = (kind: Kind, fields: JsonObject) => {
    const change = upstream.apply({ kind, op: 'create', fields });
    upstream.announce(change);
    // A new record is whole.
    const record = shapedRecord(kind, change.record!, 'rows', settings.shapes);
    return {
      id: shownId(kind, change.id, settings.shapes),
      answer: recordAnswer(kind, record, settings.shapes),
    };
  };

  // Typed loosely: the switches are there to answer in other shapes than the declared ones.
  const serve = (operation: Operation, answer: (c: Context) => Response) =>
    routes.openapi(routeOf(operation), answer as never);
  const sent = (c: Context) => c.req.valid('json' as never);

  serve(
    {
      ...{ path: '/policies', operationId: 'listPolicies', summary: 'List policies' },
      answer: ['A page of policies.', policyListSchema],
    },
    (c) => c.json(list('policy', c.req.query())),
  );
  serve(
    {
      ...{ path: '/policies', operationId: 'createPolicy', summary: 'Create a policy; emits policy.created' },
      body: policyCreateSchema,
      answer: ['The new policy.', policyAnswerSchema],
    },
    (c) => c.json(create('policy', sent(c)).answer, 201),
  );
  serve(
    {
      path: '/risk-assessments/{id}',
      ...{ operationId: 'getRiskAssessment', summary: 'Fetch a risk assessment' },
      answer: ['The assessment.', riskAssessmentAnswerSchema],
    },
    (c) => c.json(read('risk_assessment', c.req.param('id')!)),
  );
  serve(
    {
      path: '/risk-assessments',
      operationId: 'createRiskAssessment',
      summary: 'Create a risk assessment; emits risk.identified',
      body: riskAssessmentCreateSchema,
      answer: ['The new assessment.', riskAssessmentAnswerSchema],
      location: true,
    },
    (c) => {
      const { answer, id } = create('risk_assessment', sent(c));
      return c.json(answer, 201, { location: `/v1/risk-assessments/${encodeURIComponent(id)}` });
    },
  );
  serve(
    {
      ...{ path: '/vendors', operationId: 'listVendors', summary: 'List vendors' },
      answer: ['A page of vendors.', vendorListSchema],
    },
    (c) => c.json(list('vendor', c.req.query())),
  );
  serve(
    {
      ...{ path: '/vendors/{id}', operationId: 'getVendor', summary: 'Fetch a vendor' },
      answer: ['The vendor.', vendorAnswerSchema],
    },
    (c) => c.json(read('vendor', c.req.param('id')!)),
  );
  serve(
    {
      path: '/webhooks',
      ...{ operationId: 'registerWebhook', summary: 'Register an address for deliveries' },
      body: registrationBodySchema,
      answer: ['The registration, with its signing secret.', registrationEnvelopeSchema],
    },
    (c) => {
      const { disabled: _, ...registration } = registrations.add(sent(c));
      const number = registrations.list().length;
      return c.json(registrationAnswer({ ...registration, number }, settings.shapes.registration), 201);
    },
  );

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

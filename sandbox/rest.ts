import { createRoute, OpenAPIHono, z } from '@hono/zod-openapi';
import type { Context, MiddlewareHandler } from 'hono';
import type { Meta } from '../src/compliance/envelope.ts';
import type { Kind } from '../src/compliance/kinds.ts';
import { restFaults, type Settings } from './faults.ts';
import { MACHINES } from './machines.ts';
import { Problem, unfit } from './problems.ts';
import { between } from './random.ts';
import { NAMES } from './records.ts';
import { type Registrations, registrationBodySchema } from './registrations.ts';
import {
  ANSWER_SCHEMAS,
  CREATE_SCHEMAS,
  LIST_SCHEMAS,
  problemSchema,
  registrationAnswerSchema,
} from './schemas.ts';
import type { Upstream } from './upstream.ts';

interface RestParts {
  upstream: Upstream;
  registrations: Registrations;
  settings: Settings;
  authenticate: MiddlewareHandler;
  stopping: AbortSignal;
}

const DEFAULT_PAGE_SIZE = 20;
/** A request for more rows gets this many. */
const MAX_PAGE_SIZE = 100;

/** Takes only digits: `1e3`, ` 5` and `0x10` are mistakes of the sender. */
const countingNumber = z
  .string()
  .regex(/^0*[1-9]\d{0,8}$/, 'a whole number from 1 on')
  .transform(Number)
  .openapi({ type: 'integer', minimum: 1 });
/** Section 4, notes: the specification does not show the parameters, so they have the names in `meta`. */
const pageQuery = z.object({
  page: countingNumber.default(1),
  perPage: countingNumber.default(DEFAULT_PAGE_SIZE),
});
const id = z.string().min(1).meta({ description: 'The record’s identifier.' });

const problem = (description: string) => ({
  description,
  content: { 'application/problem+json': { schema: problemSchema } },
});
const refusals = {
  401: problem('The credentials are missing or not valid.'),
  403: problem('The credentials lack the scope that this takes.'),
  429: problem('Too many requests: see Retry-After.'),
  '5XX': problem('A failure, switched on or real.'),
};
const notFound = { 404: problem('There is no such record.') };
const badQuery = { 422: problem('The query does not fit.') };
const badBody = {
  400: problem('The body is not JSON.'),
  413: problem('The body is too large.'),
  415: problem('The body is not application/json.'),
  422: problem('The body does not fit.'),
};

/** One of the seven operations. Requests are validated with what the OpenAPI document says. */
interface Operation {
  path: string;
  operationId: string;
  summary: string;
  /** With a body it is a POST, otherwise a GET. */
  body?: z.ZodType;
  answer: [description: string, schema: z.ZodType];
  /** The answer has a Location header. */
  location?: boolean;
  run(c: Context): Response;
}

function routeOf({ path, operationId, summary, body, answer: [description, schema], location }: Operation) {
  const scope = body === undefined ? 'read' : 'write';
  const content = { 'application/json': { schema } };
  const security = [{ bearer: [] }, { oauth: [scope] }, { serviceAccount: [scope] }];
  const common = { path, operationId, summary, security };
  if (body !== undefined) {
    const headers = location ? { headers: z.object({ location: z.string() }) } : {};
    return createRoute({
      method: 'post',
      ...common,
      request: { body: { required: true, content: { 'application/json': { schema: body } } } },
      responses: { 201: { description, content, ...headers }, ...refusals, ...badBody },
    });
  }
  const isList = !path.includes('{id}');
  return createRoute({
    method: 'get',
    ...common,
    request: isList ? { query: pageQuery } : { params: z.object({ id }) },
    responses: { 200: { description, content }, ...refusals, ...(isList ? badQuery : notFound) },
  });
}

/** The seven operations of the specification, below `/v1`. */
export function restRoutes(parts: RestParts): OpenAPIHono {
  const { upstream, registrations, settings } = parts;

  /** The moment whose state this request sees. */
  const asOfMs = () => upstream.state.now() - between(0, settings.faults.staleMs);
  const sent = (c: Context) => c.req.valid('json' as never);

  const lists = (kind: 'policy' | 'vendor'): Operation => ({
    path: NAMES[kind].path,
    operationId: `list${NAMES[kind].title}`,
    summary: `List ${NAMES[kind].section}`,
    answer: [`A page of ${NAMES[kind].section}.`, LIST_SCHEMAS[kind]],
    run(c) {
      const records = upstream.state.list(kind, asOfMs());
      return c.json(pageOf(records, c.req.valid('query' as never)));
    },
  });

  const reads = (kind: Kind): Operation => ({
    path: `${NAMES[kind].path}/{id}`,
    operationId: `get${NAMES[kind].type}`,
    summary: `Fetch a ${NAMES[kind].name}`,
    answer: [`The ${NAMES[kind].name}.`, ANSWER_SCHEMAS[kind]],
    run(c) {
      const record = upstream.state.get(kind, c.req.param('id')!, asOfMs());
      if (record === null) throw new Problem(404, 'not_found', `There is no ${kind} with this id.`);
      return c.json(answerWith(record));
    },
  });

  const creates = (kind: 'policy' | 'risk_assessment'): Operation => ({
    path: NAMES[kind].path,
    operationId: `create${NAMES[kind].type}`,
    body: CREATE_SCHEMAS[kind],
    // A policy has no address of its own.
    location: kind === 'risk_assessment',
    summary: `Create a ${NAMES[kind].name}; emits ${MACHINES[kind].create.event}`,
    answer: [`The new ${NAMES[kind].name}.`, ANSWER_SCHEMAS[kind]],
    run(c) {
      const change = upstream.apply({ kind, op: 'create', fields: sent(c) });
      upstream.announce(change);
      const location = `/v1${NAMES[kind].path}/${encodeURIComponent(change.id)}`;
      return c.json(answerWith(change.record), 201, kind === 'risk_assessment' ? { location } : undefined);
    },
  });

  const registers: Operation = {
    path: '/webhooks',
    operationId: 'registerWebhook',
    summary: 'Register an address for deliveries',
    body: registrationBodySchema,
    answer: ['The registration, with its signing secret.', registrationAnswerSchema],
    run(c) {
      const { disabled: _, ...registration } = registrations.add(sent(c));
      return c.json({ data: registration }, 201);
    },
  };

  const routes = new OpenAPIHono({
    defaultHook: (result) => {
      if (!result.success) throw unfit(z.prettifyError(result.error));
    },
  });
  routes.use(parts.authenticate);
  routes.use(restFaults(settings, parts.stopping));
  const operations = [
    lists('policy'),
    creates('policy'),
    reads('risk_assessment'),
    creates('risk_assessment'),
    lists('vendor'),
    reads('vendor'),
    registers,
  ];
  // One type cannot say which of the answers belongs to which of the routes.
  for (const operation of operations) routes.openapi(routeOf(operation), operation.run as never);
  return routes;
}

const answerWith = (record: unknown) => ({ data: record, meta: { page: 1, perPage: 1, total: 1 } });

function pageOf<Row>(
  records: readonly Row[],
  asked: { page: number; perPage: number },
): { data: Row[]; meta: Meta } {
  const perPage = Math.min(asked.perPage, MAX_PAGE_SIZE);
  const start = (asked.page - 1) * perPage;
  return {
    data: records.slice(start, start + perPage),
    meta: { page: asked.page, perPage, total: records.length },
  };
}

import { createRoute, OpenAPIHono, z } from '@hono/zod-openapi';
import type { Context, MiddlewareHandler } from 'hono';
import type { Kind } from '../src/compliance/kinds.ts';
import { restFaults } from './faults.ts';
import { MACHINES } from './machines.ts';
import { Problem, unfit } from './problems.ts';
import type { Random } from './random.ts';
import { NAMES } from './records.ts';
import { type Registrations, registrationBodySchema } from './registrations.ts';
import {
  ANSWER_SCHEMAS,
  CREATE_SCHEMAS,
  LIST_SCHEMAS,
  problemSchema,
  registrationAnswerSchema,
} from './schemas.ts';
import { listAnswer, pageOf, recordAnswer, registrationAnswer, shapedRecord, shownId } from './shaping.ts';
import type { Settings, Upstream } from './upstream.ts';

interface RestParts {
  upstream: Upstream;
  registrations: Registrations;
  settings: Settings;
  random: Random;
  authenticate: MiddlewareHandler;
  stopping: AbortSignal;
}

/** Checked by `pageOf`, which knows the present names and the first number. */
const pageNumber = z.string().optional().openapi({ type: 'integer', minimum: 1 });
/** Section 4, notes: the specification does not show the parameters, so they have the names in `meta`. */
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
  const { upstream, registrations, settings, random } = parts;

  /** The moment whose state this request sees. */
  const asOfMs = () => upstream.state.now() - random.between(0, settings.faults.staleMs);
  const sent = (c: Context) => c.req.valid('json' as never);

  const lists = (kind: 'policy' | 'vendor'): Operation => ({
    path: NAMES[kind].path,
    operationId: `list${NAMES[kind].title}`,
    summary: `List ${NAMES[kind].section}`,
    answer: [`A page of ${NAMES[kind].section}.`, LIST_SCHEMAS[kind]],
    run(c) {
      const records = upstream.state.list(kind, asOfMs());
      const { rows, meta } = pageOf(records, c.req.query(), settings.shapes.paging);
      const isTruncated = random.chance(settings.faults.truncatedPages) && rows.length > 0;
      const shown = isTruncated ? rows.slice(0, random.integer(0, rows.length - 1)) : rows;
      const shaped = shown.map((record) => shapedRecord(kind, record, 'rows', settings.shapes));
      return c.json(listAnswer(kind, shaped, meta, settings.shapes));
    },
  });

  const reads = (kind: Kind): Operation => ({
    path: `${NAMES[kind].path}/{id}`,
    operationId: `get${NAMES[kind].type}`,
    summary: `Fetch a ${NAMES[kind].name}`,
    answer: [`The ${NAMES[kind].name}.`, ANSWER_SCHEMAS[kind]],
    run(c) {
      const record = upstream.state.get(kind, upstream.idShownAs(kind, c.req.param('id')!), asOfMs());
      if (record === null) throw new Problem(404, 'not_found', `There is no ${kind} with this id.`);
      const shaped = shapedRecord(kind, record, 'read', settings.shapes);
      return c.json(recordAnswer(kind, shaped, settings.shapes));
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
      // It always has its id, even if the answers of GET by id have none.
      const record = shapedRecord(kind, change.record!, 'rows', settings.shapes);
      const id = encodeURIComponent(shownId(kind, change.id, settings.shapes));
      const headers = kind === 'risk_assessment' ? { location: `/v1${NAMES[kind].path}/${id}` } : undefined;
      return c.json(recordAnswer(kind, record, settings.shapes), 201, headers);
    },
  });

  const registers: Operation = {
    path: '/webhooks',
    operationId: 'registerWebhook',
    summary: 'Register an address for deliveries',
    body: registrationBodySchema,
    answer: ['The registration, with its signing secret.', registrationAnswerSchema],
    run(c) {
      const registration = registrations.add(sent(c));
      const number = registrations.list().length;
      return c.json(registrationAnswer(registration, number, settings.shapes.registration), 201);
    },
  };

  const routes = new OpenAPIHono({
    defaultHook: (result) => {
      if (!result.success) throw unfit(z.prettifyError(result.error));
    },
  });
  routes.use(parts.authenticate);
  routes.use(restFaults(settings, random, parts.stopping));
  const operations = [
    lists('policy'),
    creates('policy'),
    reads('risk_assessment'),
    creates('risk_assessment'),
    lists('vendor'),
    reads('vendor'),
    registers,
  ];
  // The type of the answer is not checked, because shapes change it.
  for (const operation of operations) routes.openapi(routeOf(operation), operation.run as never);
  return routes;
}

import { z } from 'zod';
import { DESCRIBED_ROUTES, type DescribedRoute } from './routes.ts';
import * as schemas from './schemas.ts';

const PROBLEM_WORDS: Readonly<Record<number, string>> = {
  400: 'A parameter is not usable; `detail` names it.',
  401: 'No token, or none that opens anything.',
  403: 'The token’s role may not.',
  404: 'There is no such thing.',
  409: 'Its state does not allow this.',
  410: '`cursor_expired`: take a snapshot and follow from its `after`.',
  503: 'The database cannot be used now; try again.',
};

/** Schemas that are named in the document. */
const COMPONENTS = {
  Problem: schemas.problemDetails,
  Status: schemas.status,
  Event: schemas.event,
  Record: schemas.record,
  Change: schemas.change,
  Gap: schemas.gap,
  SyncRun: schemas.fullSync,
  QuarantinedDelivery: schemas.quarantined,
  Rejection: schemas.rejection,
  AuditEntry: schemas.auditEntry,
};

type Json = Record<string, unknown>;

/**
 * The document of the JSON API, OpenAPI 3.1, from the schemas that check the queries and the table of the routes.
 * By hand and not by a router that documents itself: the same map also serves pages, which no document lists.
 */
export function openApiDocument(about: { version: string; origin: string }): Json {
  const paths: Record<string, Json> = {};
  for (const route of DESCRIBED_ROUTES) {
    paths[route.path] = { ...paths[route.path], [route.method]: operation(route) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'compliance-mirror, operators’ listener',
      version: about.version,
      description:
        'Lists are paged by key: `next` of one page is `after` of the following. Errors are RFC 9457 problems. ' +
        'Bearer tokens are those of OPS_TOKENS; the role `read` reads, `operate` changes as well.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: about.origin }],
    security: [{ token: [] }],
    paths,
    components: {
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
      schemas: componentSchemas(),
    },
  };
}

function operation(route: DescribedRoute): Json {
  const { params = {}, query, body, answers, problems = [], role } = route;
  const common = role === undefined ? [] : [401, 503];
  const refused = [...(query || body ? [400] : []), ...(role === 'operate' ? [403] : []), ...common];
  return {
    operationId: route.id,
    summary: route.summary,
    ...(role === undefined ? { security: [] } : { description: `Takes a token with the role \`${role}\`.` }),
    parameters: [
      ...Object.entries(params).map(([name, schema]) => parameter('path', name, schema, true)),
      ...Object.entries(query?.shape ?? {}).map(([name, schema]) =>
        parameter('query', name, schema as z.ZodType, false),
      ),
    ],
    ...(body === undefined ? {} : { requestBody: { content: jsonContent(schemaOf(body, 'input')) } }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, { what, schema }]) => [
          status,
          {
            description: what,
            content:
              schema === 'text'
                ? { 'text/plain': { schema: { type: 'string' } } }
                : jsonContent(schemaOf(schema)),
          },
        ]),
      ),
      ...Object.fromEntries([...refused, ...problems].sort().map((status) => [status, problem(status)])),
    },
  };
}

function parameter(where: 'path' | 'query', name: string, schema: z.ZodType, required: boolean): Json {
  return { in: where, name, required, schema: schemaOf(schema, 'input') };
}

function problem(status: number): Json {
  return {
    description: PROBLEM_WORDS[status] ?? 'A problem.',
    content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
  };
}

const jsonContent = (schema: Json) => ({ 'application/json': { schema } });

const names = new Map<unknown, string>(Object.entries(COMPONENTS).map(([name, schema]) => [schema, name]));

/** As JSON Schema, with the named ones as references. */
function schemaOf(schema: z.ZodType, io: 'input' | 'output' = 'output'): Json {
  const name = names.get(schema);
  return name === undefined ? inlined(schema, io) : { $ref: `#/components/schemas/${name}` };
}

function inlined(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    ...{ target: 'draft-2020-12', io, unrepresentable: 'any' },
    override({ zodSchema, jsonSchema }) {
      const name = (zodSchema as unknown) === schema ? undefined : names.get(zodSchema);
      if (name !== undefined) {
        for (const key of Object.keys(jsonSchema)) delete jsonSchema[key as keyof typeof jsonSchema];
        jsonSchema.$ref = `#/components/schemas/${name}`;
      }
      // What a double holds exactly is no limit of ours.
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
    },
  });
  return rest;
}

function componentSchemas(): Json {
  return Object.fromEntries(
    Object.entries(COMPONENTS).map(([name, schema]) => [name, inlined(schema, 'output')]),
  );
}

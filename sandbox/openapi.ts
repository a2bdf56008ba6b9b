import { type OpenAPIHono, z } from '@hono/zod-openapi';
import type { Env } from 'hono';
import { EVENT_TYPES } from '../src/compliance/kinds.ts';
import { SCOPES } from './authentication.ts';
import { EVENT_SCHEMAS } from './schemas.ts';

/** Section 6 of the specification: the twelve events, as the requests that their subscribers get. */
export function describeDeliveries<E extends Env>(routes: OpenAPIHono<E>, signatureHeader: string): void {
  const signature = z.string().meta({
    description:
      't=<unix time>, v1=<hex HMAC-SHA256 over "t.body" under the registration’s secret> (assumed)',
  });
  for (const type of EVENT_TYPES) {
    routes.openAPIRegistry.registerWebhook({
      method: 'post',
      path: type,
      operationId: `deliver_${type.replace('.', '_')}`,
      summary: `Delivery of ${type}`,
      security: [],
      request: {
        headers: z.object({ [signatureHeader]: signature }),
        body: { required: true, content: { 'application/json': { schema: EVENT_SCHEMAS[type] } } },
      },
      responses: {
        '2XX': { description: 'Taken; it is not sent again.' },
        410: { description: 'Nothing more is sent to this registration.' },
        default: { description: 'It is sent again, signed anew, until the schedule ends.' },
      },
    });
  }
}

/** OpenAPI 3.1, made of the routes themselves. `origin` is where the reader has reached the sandbox. */
export function openApiDocument<E extends Env>(routes: OpenAPIHono<E>, origin: string) {
  const document = routes.getOpenAPI31Document({
    openapi: '3.1.0',
    info: {
      title: 'Compliance service',
      version: 'v1',
      description:
        'As the sandbox serves it. What the service’s specification leaves open is decided here, and marked as assumed. Switched to other shapes (/_sandbox/shapes), it answers in another form than this.',
    },
    servers: [{ url: `${origin}/v1` }],
  });
  return {
    ...document,
    components: { ...document.components, securitySchemes: securitySchemes(origin) },
  };
}

function securitySchemes(origin: string) {
  const tokenUrl = `${origin}/oauth/token`;
  return {
    bearer: { type: 'http', scheme: 'bearer', description: 'An API key.' },
    oauth: {
      type: 'oauth2',
      description: 'For a person. The token endpoint takes JSON bodies only.',
      flows: {
        authorizationCode: {
          authorizationUrl: `${origin}/oauth/authorize`,
          tokenUrl,
          refreshUrl: tokenUrl,
          scopes: SCOPES,
        },
      },
    },
    serviceAccount: {
      type: 'oauth2',
      description: 'For a machine. The token endpoint takes JSON bodies only.',
      flows: { clientCredentials: { tokenUrl, scopes: SCOPES } },
    },
  };
}

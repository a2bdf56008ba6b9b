import type { OpenAPIHono } from '@hono/zod-openapi';
import type { OpsEnv } from '../access.ts';

/** OpenAPI 3.1, made of the routes themselves. */
export function openApiDocument(
  app: OpenAPIHono<OpsEnv>,
  about: { version: string; origin: string },
): object {
  const document = app.getOpenAPI31Document({
    openapi: '3.1.0',
    info: {
      title: 'compliance-mirror, operators’ listener',
      version: about.version,
      description:
        'Lists are paged by key: `next` of one page is `after` of the following. Errors are RFC 9457 problems. ' +
        'Bearer tokens are those of OPS_TOKENS; the role `read` reads, `operate` changes as well.',
    },
    servers: [{ url: about.origin }],
    security: [{ token: [] }],
  });
  return {
    ...document,
    info: { ...document.info, license: { name: 'MIT', identifier: 'MIT' } },
    components: {
      ...document.components,
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
    },
  };
}

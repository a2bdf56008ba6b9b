import type { OpenAPIHono } from '@hono/zod-openapi';
import { z } from 'zod';
import { metaSchema } from '../src/compliance/envelope.ts';
import type { Kind } from '../src/compliance/kinds.ts';
import { SCOPES } from './access.ts';

/**
 * The service's resources and answers, as the specification's tables give them. The sandbox validates with these
 * schemas and makes its OpenAPI document of them (`id` and `description` in `meta` are for the document). Unknown fields and
 * statuses are allowed everywhere: a service may say more than its specification.
 */

const idOnly = (name: string) =>
  z
    .looseObject({ id: z.string().min(1) })
    .meta({ id: name, description: 'Its further fields are not specified.' });

/** Section 2. The specification shows some fields of policies, in their events, and none of the other kinds. */
export const RECORD_SCHEMAS = {
  policy: z
    .looseObject({
      policyId: z.string().min(1),
      name: z.string(),
      version: z.string().meta({ description: 'Numbers separated by dots.', examples: ['1.0'] }),
      status: z.string().meta({ description: 'A new policy is `draft`.', examples: ['draft'] }),
    })
    .meta({ id: 'Policy' }),
  risk_assessment: idOnly('RiskAssessment'),
  vendor: idOnly('Vendor'),
} as const satisfies Record<Kind, z.ZodType>;

const answerOf = <Data extends z.ZodType>(data: Data, id: string) => z.looseObject({ data }).meta({ id });
const listOf = <Row extends z.ZodType>(row: Row, id: string) =>
  z.looseObject({ data: z.array(row), meta: metaSchema }).meta({ id });

/** Section 4: the answers of the operations in the sandbox's envelope. */
export const LIST_SCHEMAS = {
  policy: listOf(RECORD_SCHEMAS.policy, 'PolicyList'),
  vendor: listOf(RECORD_SCHEMAS.vendor, 'VendorList'),
} as const;
export const ANSWER_SCHEMAS = {
  policy: answerOf(RECORD_SCHEMAS.policy, 'PolicyAnswer'),
  risk_assessment: answerOf(RECORD_SCHEMAS.risk_assessment, 'RiskAssessmentAnswer'),
  vendor: answerOf(RECORD_SCHEMAS.vendor, 'VendorAnswer'),
} as const;

/** Far more than a name needs. The specification gives no limits. */
const MAX_NAME_LENGTH = 500;
const title = z.string().min(1).max(MAX_NAME_LENGTH);

/** Section 4, notes: the specification does not show the bodies of creates. These are assumed from the records. */
const creates = <Shape extends z.ZodRawShape>(id: string, shape: Shape) =>
  z.looseObject(shape).meta({ id, description: 'Assumed. Further fields become the record’s own.' });
export const CREATE_SCHEMAS = {
  policy: creates('PolicyCreate', {
    name: title,
    version: z
      .string()
      .regex(/^\d+(\.\d+)*$/, 'a dotted number such as 1.0')
      .optional(),
    status: z.literal('draft').optional(),
  }),
  risk_assessment: creates('RiskAssessmentCreate', {
    name: title,
    status: z.literal('identified').optional(),
  }),
} as const;

/** The specification does not show this answer. What other services may answer is in src/compliance/registration.ts. */
export const registrationAnswerSchema = answerOf(
  z
    .looseObject({
      id: z.string().min(1),
      url: z.string().optional(),
      events: z.array(z.string()).optional(),
      description: z.string().optional(),
      secret: z.string().min(1).optional().meta({ description: 'What deliveries are signed with.' }),
    })
    .meta({ id: 'WebhookRegistration' }),
  'WebhookRegistrationAnswer',
);

/** RFC 9457; section 7 shows no error at all. `code` is for programs, `detail` for people. */
export const problemSchema = z
  .looseObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.string(),
  })
  .meta({ id: 'Problem' });

/** OpenAPI 3.1, made of the routes. `origin`: where the reader has reached the sandbox. */
export function openApiDocument(routes: OpenAPIHono, origin: string) {
  const document = routes.getOpenAPI31Document({
    openapi: '3.1.0',
    info: {
      title: 'Compliance service',
      version: 'v1',
      description:
        'As the sandbox serves it. What the service’s specification leaves open is decided here, and marked as assumed.',
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

import { z } from 'zod';
import { metaSchema } from '../src/compliance/envelope.ts';
import { EVENT_TYPES, type EventType, type Kind, kindOfType } from '../src/compliance/kinds.ts';

/**
 * The service's resources, answers and events, as the specification's tables give them. The sandbox validates with these,
 * and its OpenAPI document is made of them (`id` and `description` in `meta` are for that document). Unknown fields and
 * statuses pass through everywhere: a service may say more than its specification.
 */

const idOnly = (name: string) =>
  z
    .looseObject({ id: z.string().min(1) })
    .meta({ id: name, description: 'Its further fields are not specified.' });

/** Section 2: of a policy the fields seen in its events' payload, which may have others; the others' are not shown. */
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

/** Section 4: the answers of the operations in their envelope, as the sandbox gives them. */
export const LIST_SCHEMAS = {
  policy: listOf(RECORD_SCHEMAS.policy, 'PolicyList'),
  vendor: listOf(RECORD_SCHEMAS.vendor, 'VendorList'),
} as const;
export const ANSWER_SCHEMAS = {
  policy: answerOf(RECORD_SCHEMAS.policy, 'PolicyAnswer'),
  risk_assessment: answerOf(RECORD_SCHEMAS.risk_assessment, 'RiskAssessmentAnswer'),
  vendor: answerOf(RECORD_SCHEMAS.vendor, 'VendorAnswer'),
} as const;

/** Far more than a title needs; the specification gives no limits. */
const MAX_NAME_LENGTH = 500;
const title = z.string().min(1).max(MAX_NAME_LENGTH);

/** Section 4, notes: the bodies of creates are not shown; these are assumed from what records show. */
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

/** The registration's answer is not shown; this is the sandbox's. What other services may answer: src/compliance/registration.ts. */
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

const eventData = <Field extends string>(id: string, field: Field) =>
  z
    .looseObject({ [field]: z.string().min(1) } as Record<Field, z.ZodString>)
    .meta({ id, description: 'Assumed; the specification does not show it.' });

/** Section 6: what is in an event's data. Shown for policies only; of the others the id's name is assumed. */
const EVENT_DATA_SCHEMAS = {
  policy: RECORD_SCHEMAS.policy,
  risk_assessment: eventData('RiskEventData', 'riskAssessmentId'),
  vendor: eventData('VendorEventData', 'vendorId'),
} as const satisfies Record<Kind, z.ZodType>;

const eventOf = (type: EventType) =>
  z
    .looseObject({
      id: z.string().min(1),
      type: z.literal(type),
      created: z.iso.datetime(),
      data: EVENT_DATA_SCHEMAS[kindOfType(type)!],
    })
    .meta({ id: `Event_${type.replace('.', '_')}` });

/** Section 6, Delivery format: one schema for each of the twelve types. */
export const EVENT_SCHEMAS = Object.fromEntries(
  EVENT_TYPES.map((type) => [type, eventOf(type)]),
) as unknown as Readonly<Record<EventType, ReturnType<typeof eventOf>>>;

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

import { z } from 'zod';
import { metaSchema } from '../src/compliance/envelope.ts';
import { EVENT_TYPES, type EventType, type Kind, kindOfType } from '../src/compliance/kinds.ts';

/**
 * The service's resources, answers and events, as the specification's tables give them. The sandbox validates with these,
 * and its OpenAPI document is made of them (`id` and `description` in `meta` are for that document). Unknown fields and
 * statuses pass through everywhere: a service may say more than its specification.
 */

/** Section 2, Policy: the fields seen in the policy event payload; the record may hold others. */
export const policySchema = z
  .looseObject({
    policyId: z.string().min(1),
    name: z.string(),
    version: z.string().meta({ description: 'Numbers separated by dots.', examples: ['1.0'] }),
    status: z.string().meta({ description: 'A new policy is `draft`.', examples: ['draft'] }),
  })
  .meta({ id: 'Policy' });

/** Section 2, Risk assessment: fields not shown; addressed by an identifier. */
export const riskAssessmentSchema = z
  .looseObject({ id: z.string().min(1) })
  .meta({ id: 'RiskAssessment', description: 'Its further fields are not specified.' });

/** Section 2, Vendor: fields not shown; addressed by an identifier. */
export const vendorSchema = z
  .looseObject({ id: z.string().min(1) })
  .meta({ id: 'Vendor', description: 'Its further fields are not specified.' });

const listOf = <Row extends z.ZodType>(row: Row) => z.looseObject({ data: z.array(row), meta: metaSchema });
const answerOf = <Data extends z.ZodType>(data: Data) => z.looseObject({ data });

/** Section 4, the answers of the seven operations in their envelope, as the sandbox gives them. */
export const policyListSchema = listOf(policySchema).meta({ id: 'PolicyList' });
export const vendorListSchema = listOf(vendorSchema).meta({ id: 'VendorList' });
export const policyAnswerSchema = answerOf(policySchema).meta({ id: 'PolicyAnswer' });
export const riskAssessmentAnswerSchema = answerOf(riskAssessmentSchema).meta({ id: 'RiskAssessmentAnswer' });
export const vendorAnswerSchema = answerOf(vendorSchema).meta({ id: 'VendorAnswer' });

/** Far more than a title needs; the specification gives no limits. */
const MAX_NAME_LENGTH = 500;
const title = z.string().min(1).max(MAX_NAME_LENGTH);

/** Section 4, notes: the bodies of creates are not shown; these are assumed from what records show. */
export const policyCreateSchema = z
  .looseObject({
    name: title,
    version: z
      .string()
      .regex(/^\d+(\.\d+)*$/, 'a dotted number such as 1.0')
      .optional(),
    status: z.literal('draft').optional(),
  })
  .meta({ id: 'PolicyCreate', description: 'Assumed. Further fields become the record’s own.' });
export const riskAssessmentCreateSchema = z
  .looseObject({ name: title, status: z.literal('identified').optional() })
  .meta({ id: 'RiskAssessmentCreate', description: 'Assumed. Further fields become the record’s own.' });

/** The registration's answer is not shown; this is the sandbox's. What other services may answer: src/compliance/registration.ts. */
const registrationAnswerSchema = z
  .looseObject({
    id: z.string().min(1),
    url: z.string().optional(),
    events: z.array(z.string()).optional(),
    description: z.string().optional(),
    secret: z.string().min(1).optional().meta({ description: 'What deliveries are signed with.' }),
  })
  .meta({ id: 'WebhookRegistration' });
export const registrationEnvelopeSchema = answerOf(registrationAnswerSchema).meta({
  id: 'WebhookRegistrationAnswer',
});

/**
 * Section 6: what an event's data holds, by the kind of record it is about. Shown for policies only; of the
 * others the id's name is assumed, and everything else passes through.
 */
const EVENT_DATA_SCHEMAS = {
  policy: policySchema,
  risk_assessment: z
    .looseObject({ riskAssessmentId: z.string().min(1) })
    .meta({ id: 'RiskEventData', description: 'Assumed; the specification does not show it.' }),
  vendor: z
    .looseObject({ vendorId: z.string().min(1) })
    .meta({ id: 'VendorEventData', description: 'Assumed; the specification does not show it.' }),
} as const satisfies Record<Kind, z.ZodType>;

function eventOf(type: EventType) {
  return z
    .looseObject({
      id: z.string().min(1),
      type: z.literal(type),
      created: z.iso.datetime(),
      data: EVENT_DATA_SCHEMAS[kindOfType(type)!],
    })
    .meta({ id: `Event_${type.replace('.', '_')}` });
}

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

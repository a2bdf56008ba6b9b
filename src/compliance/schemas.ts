import { z } from 'zod';

/**
 * The upstream's resources, envelope, events and registration, as the specification's tables give them.
 * One home for both sides: the client reads with these, the sandbox answers and validates with them.
 * Unknown fields and statuses pass through everywhere: the service may say more than its specification.
 */

/** Section 2, Policy: the fields seen in the policy event payload; the record may hold others. */
export const policySchema = z.looseObject({
  policyId: z.string().min(1),
  name: z.string(),
  version: z.string(),
  status: z.string(),
});
export type Policy = z.infer<typeof policySchema>;

/** Section 2, Risk assessment: fields not shown; addressed by an identifier. */
export const riskAssessmentSchema = z.looseObject({ id: z.string().min(1) });
export type RiskAssessment = z.infer<typeof riskAssessmentSchema>;

/** Section 2, Vendor: fields not shown; addressed by an identifier. */
export const vendorSchema = z.looseObject({ id: z.string().min(1) });
export type Vendor = z.infer<typeof vendorSchema>;

/** Section 2, envelope: pagination, present on lists. */
export const metaSchema = z.looseObject({
  page: z.int().optional(),
  perPage: z.int().optional(),
  total: z.int().nonnegative().optional(),
});
export type Meta = z.infer<typeof metaSchema>;

/** Section 2, Webhook registration: an entry is an exact event type or a family's wildcard. */
export const subscriptionPattern = z
  .string()
  .regex(/^[a-z_]+\.(\*|[a-z_]+)$/, 'an event type such as policy.created, or a family such as policy.*');

export const registrationRequestSchema = z.object({
  url: z.url(),
  events: z.array(subscriptionPattern).min(1),
  description: z.string(),
});
export type RegistrationRequest = z.infer<typeof registrationRequestSchema>;

/** The registration's answer is not shown; this is what we expect, every part of it optional but the id. */
export const registrationAnswerSchema = z.looseObject({
  id: z.string().min(1),
  url: z.string().optional(),
  events: z.array(z.string()).optional(),
  description: z.string().optional(),
  secret: z.string().min(1).optional(),
});
export type RegistrationAnswer = z.infer<typeof registrationAnswerSchema>;

/** Section 6, Delivery format. `created` and the id's limits are checked where deliveries are received. */
export const eventSchema = z.looseObject({
  id: z.string(),
  type: z.string(),
  created: z.string(),
  data: z.record(z.string(), z.unknown()),
});
export type EventEnvelope = z.infer<typeof eventSchema>;

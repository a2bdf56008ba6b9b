import { createRoute, z } from '@hono/zod-openapi';
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
} from '../src/compliance/schemas.ts';
import { registrationBodySchema } from './registrations.ts';

/**
 * Section 4 of the specification, one route for each of the seven operations: what a request is validated with
 * is what the OpenAPI document says of it.
 */

/** Read by `pageOf`, which knows by which names and from which number on pages are asked for. */
const pageNumber = z.string().optional().openapi({ type: 'integer', minimum: 1 });
/** Section 4, notes: how pages are asked for is not shown; the names are those of `meta`. */
const pageQuery = z.object({ page: pageNumber, perPage: pageNumber });
const id = z.string().min(1).meta({ description: 'The record’s identifier.' });

const json = <Schema extends z.ZodType>(schema: Schema) => ({ 'application/json': { schema } });
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

const READ_SECURITY = [{ bearer: [] }, { oauth: ['read'] }, { serviceAccount: ['read'] }];
const WRITE_SECURITY = [{ bearer: [] }, { oauth: ['write'] }, { serviceAccount: ['write'] }];

const readRoute = { method: 'get', security: READ_SECURITY } as const;
const writeRoute = { method: 'post', security: WRITE_SECURITY } as const;
const answer = <Schema extends z.ZodType>(description: string, schema: Schema) => ({
  200: { description, content: json(schema) },
});
const created = <Schema extends z.ZodType>(description: string, schema: Schema) => ({
  201: { description, content: json(schema) },
});
/** The one thing that is created and has an address of its own. */
const createdWithAddress = <Schema extends z.ZodType>(description: string, schema: Schema) => ({
  201: { ...created(description, schema)[201], headers: z.object({ location: z.string() }) },
});

export const listPolicies = createRoute({
  ...readRoute,
  path: '/policies',
  operationId: 'listPolicies',
  summary: 'List policies',
  request: { query: pageQuery },
  responses: { ...answer('A page of policies.', policyListSchema), ...refusals, ...badQuery },
});

export const createPolicy = createRoute({
  ...writeRoute,
  path: '/policies',
  operationId: 'createPolicy',
  summary: 'Create a policy; emits policy.created',
  request: { body: { required: true, content: json(policyCreateSchema) } },
  responses: { ...created('The new policy.', policyAnswerSchema), ...refusals, ...badBody },
});

export const getRiskAssessment = createRoute({
  ...readRoute,
  path: '/risk-assessments/{id}',
  operationId: 'getRiskAssessment',
  summary: 'Fetch a risk assessment',
  request: { params: z.object({ id }) },
  responses: { ...answer('The assessment.', riskAssessmentAnswerSchema), ...refusals, ...notFound },
});

export const createRiskAssessment = createRoute({
  ...writeRoute,
  path: '/risk-assessments',
  operationId: 'createRiskAssessment',
  summary: 'Create a risk assessment; emits risk.identified',
  request: { body: { required: true, content: json(riskAssessmentCreateSchema) } },
  responses: {
    ...createdWithAddress('The new assessment.', riskAssessmentAnswerSchema),
    ...refusals,
    ...badBody,
  },
});

export const listVendors = createRoute({
  ...readRoute,
  path: '/vendors',
  operationId: 'listVendors',
  summary: 'List vendors',
  request: { query: pageQuery },
  responses: { ...answer('A page of vendors.', vendorListSchema), ...refusals, ...badQuery },
});

export const getVendor = createRoute({
  ...readRoute,
  path: '/vendors/{id}',
  operationId: 'getVendor',
  summary: 'Fetch a vendor',
  request: { params: z.object({ id }) },
  responses: { ...answer('The vendor.', vendorAnswerSchema), ...refusals, ...notFound },
});

export const registerWebhook = createRoute({
  ...writeRoute,
  path: '/webhooks',
  operationId: 'registerWebhook',
  summary: 'Register an address for deliveries',
  request: { body: { required: true, content: json(registrationBodySchema) } },
  responses: {
    ...created('The registration, with its signing secret.', registrationEnvelopeSchema),
    ...refusals,
    ...badBody,
  },
});

import { Validator } from '@seriousme/openapi-schema-validator';
import createClient from 'openapi-fetch';
import { beforeEach, describe, expect, it } from 'vitest';
import {
  ANSWER_SCHEMAS,
  LIST_SCHEMAS,
  problemSchema,
  registrationAnswerSchema,
} from '../../sandbox/schemas.ts';
import { EVENT_TYPES } from '../../src/compliance/kinds.ts';
import { API_KEY, request, type TestSandbox, testSandbox } from '../sandbox/support.ts';
import { clientTypes } from './client-types.ts';
import type { paths } from './generated/api.d.ts';

const OPERATIONS = [
  'listPolicies',
  'createPolicy',
  'getRiskAssessment',
  'createRiskAssessment',
  'listVendors',
  'getVendor',
  'registerWebhook',
];
/** In place of the sandbox's own, so that the document is the same in every run. */
const ORIGIN = 'http://127.0.0.1:9090';

let sandbox: TestSandbox;
beforeEach(async () => {
  sandbox = await testSandbox();
});

// biome-ignore lint/suspicious/noExplicitAny: a document of somebody else's shape
const documentOf = async (): Promise<any> => (await request('GET', `${sandbox.url}/openapi.json`)).body;

describe('the OpenAPI document', () => {
  it('is valid OpenAPI 3.1, says a validator that is not ours', async () => {
    const validator = new Validator();
    const result = await validator.validate(await documentOf());
    expect(result).toMatchObject({ valid: true });
    expect(validator.version).toBe('3.1');
  });

  it('would not pass if it were not: the validator looks', async () => {
    const document = await documentOf();
    document.paths['/vendors'].get.responses = { 200: { content: 7 } };
    expect((await new Validator().validate(document)).valid).toBe(false);
  });

  it('has the seven operations and no other, and a webhook for each of the twelve types', async () => {
    const document = await documentOf();
    const operations = Object.values(
      document.paths as Record<string, Record<string, { operationId: string }>>,
    )
      .flatMap((methods) => Object.values(methods))
      .map(({ operationId }) => operationId);
    expect(operations.sort()).toEqual([...OPERATIONS].sort());
    expect(Object.keys(document.webhooks)).toEqual(EVENT_TYPES);
    expect(document.servers).toEqual([{ url: `${sandbox.url}/v1` }]);
    expect(Object.keys(document.components.securitySchemes)).toEqual(['bearer', 'oauth', 'serviceAccount']);
  });

  it('is what the generated client below was made from', async () => {
    const text = JSON.stringify(await documentOf()).replaceAll(sandbox.url, ORIGIN);
    const types = await clientTypes(JSON.parse(text));
    const note =
      '// biome-ignore-all lint: generated\n// biome-ignore-all format: generated\n// biome-ignore-all assist: generated\n';
    // Out of date: `npx vitest run test/contract/openapi.test.ts -u` writes it anew.
    await expect(note + types).toMatchFileSnapshot('./generated/api.d.ts');
  });
});

describe('a client generated from the document', () => {
  const connect = (key = API_KEY) =>
    createClient<paths>({ baseUrl: `${sandbox.url}/v1`, headers: { authorization: `Bearer ${key}` } });

  it('lists policies, and is refused a page that is none', async () => {
    const api = connect();
    const { data, response } = await api.GET('/policies', { params: { query: { page: 2, perPage: 5 } } });
    expect(response.status).toBe(200);
    expect(data!.meta).toEqual({ page: 2, perPage: 5, total: 12 });
    LIST_SCHEMAS.policy.parse(data);
    const refused = await api.GET('/policies', { params: { query: { page: 0 } } });
    expect(problemSchema.parse(refused.error)).toMatchObject({ status: 422, code: 'validation_failed' });
  });

  it('creates a policy, and is refused one without a name', async () => {
    const api = connect();
    const { data, response } = await api.POST('/policies', { body: { name: 'Clean desk', owner: 'People' } });
    expect(response.status).toBe(201);
    expect(ANSWER_SCHEMAS.policy.parse(data).data).toMatchObject({ name: 'Clean desk', status: 'draft' });
    const refused = await api.POST('/policies', { body: { name: '' } });
    expect(problemSchema.parse(refused.error)).toMatchObject({ status: 422, code: 'validation_failed' });
  });

  it('fetches an assessment, and is told when there is none', async () => {
    const api = connect();
    const { data } = await api.GET('/risk-assessments/{id}', { params: { path: { id: 'risk-0002' } } });
    expect(ANSWER_SCHEMAS.risk_assessment.parse(data).data.id).toBe('risk-0002');
    const refused = await api.GET('/risk-assessments/{id}', { params: { path: { id: 'none' } } });
    expect(problemSchema.parse(refused.error)).toMatchObject({ status: 404, code: 'not_found' });
  });

  it('creates an assessment, and is refused one that is mitigated from the start', async () => {
    const api = connect();
    const { data, response } = await api.POST('/risk-assessments', { body: { name: 'Ice on the roof' } });
    expect(response.status).toBe(201);
    expect(ANSWER_SCHEMAS.risk_assessment.parse(data).data).toMatchObject({ status: 'identified' });
    const body = { name: 'Ice', status: 'mitigated' as 'identified' };
    const refused = await api.POST('/risk-assessments', { body });
    expect(problemSchema.parse(refused.error)).toMatchObject({ status: 422, code: 'validation_failed' });
  });

  it('lists vendors, and is refused without a key that is known', async () => {
    const { data } = await connect().GET('/vendors', { params: { query: {} } });
    expect(LIST_SCHEMAS.vendor.parse(data).meta.total).toBe(8);
    const refused = await connect('wrong').GET('/vendors', { params: { query: {} } });
    expect(problemSchema.parse(refused.error)).toMatchObject({ status: 401, code: 'unauthorized' });
  });

  it('fetches a vendor, and is told when there is none', async () => {
    const api = connect();
    const { data } = await api.GET('/vendors/{id}', { params: { path: { id: 'vendor-0003' } } });
    expect(ANSWER_SCHEMAS.vendor.parse(data).data.id).toBe('vendor-0003');
    const refused = await api.GET('/vendors/{id}', { params: { path: { id: 'a/b' } } });
    expect(problemSchema.parse(refused.error)).toMatchObject({ status: 404, code: 'not_found' });
  });

  it('registers a webhook, and is refused one for an event that does not exist', async () => {
    const api = connect();
    const body = { url: 'https://mirror.example/webhooks', events: ['risk.*'], description: '' };
    const { data, response } = await api.POST('/webhooks', { body });
    expect(response.status).toBe(201);
    expect(registrationAnswerSchema.parse(data).data).toMatchObject(body);
    const refused = await api.POST('/webhooks', { body: { ...body, events: ['risk.forgotten'] } });
    expect(problemSchema.parse(refused.error)).toMatchObject({ status: 422, code: 'validation_failed' });
  });
});

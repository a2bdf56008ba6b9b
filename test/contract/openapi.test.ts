import { Validator } from '@seriousme/openapi-schema-validator';
import { beforeEach, describe, expect, it } from 'vitest';
import { request, type TestSandbox, testSandbox } from '../sandbox/support.ts';

const OPERATIONS = [
  'listPolicies',
  'createPolicy',
  'getRiskAssessment',
  'createRiskAssessment',
  'listVendors',
  'getVendor',
  'registerWebhook',
];

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

  it('has the seven operations and no other', async () => {
    const document = await documentOf();
    const operations = Object.values(
      document.paths as Record<string, Record<string, { operationId: string }>>,
    )
      .flatMap((methods) => Object.values(methods))
      .map(({ operationId }) => operationId);
    expect(operations.sort()).toEqual([...OPERATIONS].sort());
    expect(document.servers).toEqual([{ url: `${sandbox.url}/v1` }]);
    expect(Object.keys(document.components.securitySchemes)).toEqual(['bearer', 'oauth', 'serviceAccount']);
  });
});

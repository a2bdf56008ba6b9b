import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { operationOf } from '../../src/cli/api.ts';
import { json, type Upstream as Service, startUpstream } from '../compliance/upstream.ts';
import { cli, inTemporaryDirectory } from './executable.ts';

const API_KEY = 'canary-api-key-of-a-person';
let service: Service;

beforeAll(async () => {
  service = await startUpstream((response, { method, url, headers, body }) => {
    if (headers.authorization !== `Bearer ${API_KEY}`)
      return json(response, 401, { echo: headers.authorization });
    if (url.startsWith('/api/v1/vendors/forbidden')) return json(response, 403, {});
    if (url.startsWith('/api/v1/vendors/none'))
      return json(response, 404, { detail: 'no such \u001b[31mvendor' });
    if (url.startsWith('/api/v1/risk-assessments') && method === 'POST') return response.destroy();
    if (method === 'POST')
      return json(response, 201, { data: { id: 'x1', ...(JSON.parse(body) as object) } });
    return json(response, 200, { data: [{ id: 'v1', name: 'A \u202eB' }], meta: { total: 1 } });
  });
});
afterAll(() => service.close());

async function api(args: readonly string[], body?: string | Buffer, key = API_KEY) {
  return await inTemporaryDirectory(async (directory) => {
    const file = join(directory, 'body.json');
    if (body !== undefined) writeFileSync(file, body);
    const before = service.received.length;
    const finished = await cli(['api', ...args, ...(body === undefined ? [] : ['--body', file])], {
      DATABASE_URL: `file:${join(directory, 'mirror.db')}`,
      COMPLIANCE_BASE_URL: service.settings.baseUrl.href,
      COMPLIANCE_API_KEY: key,
    });
    return { ...finished, requests: service.received.slice(before) };
  });
}

describe('one request by hand', () => {
  it('prints the JSON of the answer, with nothing in it that a terminal obeys', async () => {
    const { code, out, err, requests } = await api(['get', '/vendors?page=1&perPage=2']);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(JSON.parse(out)).toEqual({ data: [{ id: 'v1', name: 'A \u202eB' }], meta: { total: 1 } });
    expect(out).not.toContain('\u202e');
    expect(requests.map(({ method, url }) => `${method} ${url}`)).toEqual([
      'GET /api/v1/vendors?page=1&perPage=2',
    ]);
  });

  it('sends a body once, and shows what became of it', async () => {
    const { code, out, requests } = await api(['POST', '/policies'], '{"name":"New"}');
    expect(code).toBe(0);
    expect(JSON.parse(out)).toEqual({ data: { id: 'x1', name: 'New' } });
    expect(requests.map(({ body }) => body)).toEqual(['{"name":"New"}']);
  });

  it.each([
    ['/vendors/a b', '/vendors/a%20b'],
    ['/vendors/..', 'cannot be asked for'],
  ])(
    'refuses the path %s, which would not be sent as it is, and says what to write',
    async (path, remedy) => {
      const { code, err, requests } = await api(['GET', path]);
      expect(code).toBe(2);
      expect(err).toContain(remedy);
      expect(err).not.toContain('mirror row');
      expect(requests).toHaveLength(0);
    },
  );

  it('never repeats a POST, and says so when its outcome is not known', async () => {
    const { code, err, requests } = await api(['POST', '/risk-assessments'], '{"name":"R"}');
    expect(code).toBe(1);
    expect(err).toContain('unknown');
    expect(requests).toHaveLength(1);
  });

  it('shows what the service says of a failure, and no credentials that it echoes', async () => {
    const missing = await api(['GET', '/vendors/none']);
    expect(missing.code).toBe(1);
    expect(missing.err).toContain('no such');
    expect(missing.err).not.toContain('\u001b');
    const refused = await api(['GET', '/vendors'], undefined, 'canary-of-a-wrong-key');
    expect(refused.code).toBe(1);
    expect(refused.err).toContain('COMPLIANCE_API_KEY');
    expect(refused.err).not.toContain('canary');
  });

  it.each([
    [['DELETE', '/policies'], undefined, 'GET /policies, POST /policies'],
    [['POST', '/policies'], undefined, '--body'],
    [['POST', '/policies'], Buffer.from('{"name":"\xff"}', 'latin1'), 'encoding utf-8'],
    [['GET', '/policies'], '{}', '--body'],
    [['POST', '/policies', '--body', '/nowhere/at/all'], undefined, 'no such file'],
  ])('refuses %j with the body %j, sends nothing, and says what it takes', async (args, body, remedy) => {
    const { code, err, requests } = await api(args, body);
    expect(code).toBe(2);
    expect(err).toContain(remedy);
    expect(requests).toHaveLength(0);
  });
});

describe('the seven operations', () => {
  it.each([
    ['GET', '/policies'],
    ['POST', '/policies'],
    ['GET', '/risk-assessments/ra-1'],
    ['POST', '/risk-assessments'],
    ['GET', '/vendors'],
    ['GET', '/vendors/a%2Fb?x=1'],
    ['POST', '/webhooks'],
  ])('%s %s is one', (method, path) => {
    expect(operationOf(method, path)).toBe(method);
  });

  it.each([
    ['PUT', '/policies'],
    ['GET', 'policies'],
    ['GET', '/'],
    ['GET', '/risk-assessments'],
    ['GET', '/vendors/a/b'],
    ['GET', '/vendors/'],
    ['POST', '/vendors'],
    ['POST', '/webhooks/1'],
  ])('%s %s is none', (method, path) => {
    expect(() => operationOf(method, path)).toThrow(/none of the operations/);
  });
});

import { describe, expect, test } from 'vitest';
import { API_KEY, request, testReceiver, testSandbox } from './support.ts';

const nineVendors = {
  policies: [],
  riskAssessments: [{ id: 'risk-a', name: 'Flood', likelihood: 2 }],
  vendors: Array.from({ length: 9 }, (_, index) => ({ id: `v${index + 1}`, name: `Vendor ${index + 1}` })),
};

describe('authentication', () => {
  test.each([
    ['no header', {}],
    ['a wrong key', { authorization: 'Bearer wrong' }],
    ['another scheme', { authorization: `Basic ${API_KEY}` }],
  ])('%s is answered 401, the same on every path', async (_, headers) => {
    const { url } = await testSandbox();
    const answers = await Promise.all(
      ['/v1/policies', '/v1/vendors/vendor-0001', '/v1/nowhere'].map((path) =>
        request('GET', url + path, undefined, headers as Record<string, string>),
      ),
    );
    for (const answer of answers) {
      expect(answer.status).toBe(401);
      expect(answer.headers.get('content-type')).toBe('application/problem+json');
      expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer /);
      expect(answer.body).toEqual(answers[0]!.body);
    }
  });

  test('any of several keys lets in, and one is made when none is given', async () => {
    const { url } = await testSandbox({ apiKeys: ['first-key', 'second-key'] });
    for (const key of ['first-key', 'second-key']) {
      const answer = await request('GET', `${url}/v1/policies`, undefined, {
        authorization: `Bearer ${key}`,
      });
      expect(answer.status).toBe(200);
    }
  });
});

describe('lists', () => {
  test('come in pages, with the page, its size and the total in meta', async () => {
    const { api } = await testSandbox({ seed: nineVendors });
    const second = await api('GET', '/vendors?page=2&perPage=4');
    expect(second.status).toBe(200);
    expect(second.body.meta).toEqual({ page: 2, perPage: 4, total: 9 });
    expect(second.body.data.map((row: { id: string }) => row.id)).toEqual(['v5', 'v6', 'v7', 'v8']);
  });

  test('have a default size and a largest one', async () => {
    const vendors = Array.from({ length: 130 }, (_, index) => ({ id: `v${index}` }));
    const { api } = await testSandbox({ seed: { ...nineVendors, vendors } });
    expect((await api('GET', '/vendors')).body.meta).toEqual({ page: 1, perPage: 20, total: 130 });
    const { data, meta } = (await api('GET', '/vendors?perPage=500&page=2')).body;
    expect([data[0].id, data.length, meta.perPage]).toEqual(['v100', 30, 100]);
  });

  test.each(['page=0', 'page=1.5', 'page='])('refuse the query %s', async (query) => {
    const { api } = await testSandbox();
    const answer = await api('GET', `/policies?${query}`);
    expect(answer.status).toBe(422);
    expect(answer.body.code).toBe('validation_failed');
  });
});

describe('single records', () => {
  test('come wrapped in data, with the meta that the envelope has for every answer', async () => {
    const { api } = await testSandbox({ seed: nineVendors });
    expect((await api('GET', '/vendors/v3')).body).toEqual({
      data: { id: 'v3', name: 'Vendor 3', status: 'prospective' },
      meta: { page: 1, perPage: 1, total: 1 },
    });
    expect((await api('GET', '/risk-assessments/risk-a')).body.data.likelihood).toBe(2);
  });

  test.each(['/vendors/none', '/risk-assessments/none', '/nothing-here'])('GET %s is 404', async (path) => {
    const { api } = await testSandbox();
    const answer = await api('GET', path);
    expect(answer.status).toBe(404);
    expect(answer.body).toMatchObject({ status: 404, title: 'Not Found', code: 'not_found' });
  });
});

describe('creates', () => {
  test('a policy starts as a draft, is listed and announced, and has no Location, as nothing reads one policy', async () => {
    const { api, register, quiesce } = await testSandbox();
    const receiver = await testReceiver();
    await register(receiver.url, ['policy.*']);
    const created = await api('POST', '/policies', { name: 'Clean desk', owner: 'People' });
    expect(created.status).toBe(201);
    const { policyId } = created.body.data;
    expect(created.headers.get('location')).toBeNull();
    expect(created.body.data).toMatchObject({
      name: 'Clean desk',
      owner: 'People',
      status: 'draft',
      version: '1.0',
    });
    const listed = (await api('GET', '/policies?perPage=100')).body.data;
    expect(listed.at(-1)).toEqual(created.body.data);
    await quiesce();
    expect(receiver.received.map(({ event }) => [event.type, event.data])).toEqual([
      ['policy.created', { policyId, name: 'Clean desk', version: '1.0', status: 'draft' }],
    ]);
  });

  test('an assessment can be fetched at its Location and is announced', async () => {
    const { url, api, register, quiesce } = await testSandbox();
    const receiver = await testReceiver();
    await register(receiver.url, ['risk.identified']);
    const created = await api('POST', '/risk-assessments', { name: 'Ice on the roof' });
    const read = await request('GET', url + created.headers.get('location'), undefined, {
      authorization: `Bearer ${API_KEY}`,
    });
    expect(read.body).toEqual(created.body);
    await quiesce();
    expect(receiver.received[0]!.event.data.riskAssessmentId).toBe(created.body.data.id);
  });

  test.each([
    ['/policies', 'not JSON', 400],
    ['/policies', {}, 422],
    ['/policies', { name: 'x', status: 'approved' }, 422],
    ['/policies', { name: 'x', policyId: 'mine' }, 422],
    ['/risk-assessments', { name: 'x', status: 'mitigated' }, 422],
    ['/policies', { name: 'x', notes: 'n'.repeat(1024 * 1024) }, 413],
  ])('POST %s refuses a bad body with a problem document (%#)', async (path, body, status) => {
    const { api } = await testSandbox();
    const answer = await api('POST', path, body);
    expect(answer.status).toBe(status);
    expect(answer.headers.get('content-type')).toBe('application/problem+json');
    expect(answer.body.code).toEqual(expect.any(String));
  });
});

test.each([
  ['DELETE', '/policies', 'GET, HEAD, POST'],
  ['POST', '/vendors', 'GET, HEAD'],
])('%s %s is 405 and says what is allowed', async (method, path, allow) => {
  const { api } = await testSandbox();
  const answer = await api(method, path);
  expect(answer.status).toBe(405);
  expect(answer.headers.get('allow')).toBe(allow);
});

test.each([
  ['GET', '/nothing'],
  ['PUT', '/_sandbox/nothing'],
])('%s %s is 404', async (method, path) => {
  const { url } = await testSandbox();
  const answer = await request(method, `${url}${path}`, undefined, { 'content-type': 'application/json' });
  expect([answer.status, answer.headers.get('allow')]).toEqual([404, null]);
});

describe('registration', () => {
  test('answers its id, what was asked for, and a secret of its own', async () => {
    const { api } = await testSandbox();
    const asked = { url: 'https://mirror.example/webhooks', events: ['policy.*'], description: 'mine' };
    const first = await api('POST', '/webhooks', asked);
    const second = await api('POST', '/webhooks', asked);
    expect(first.status).toBe(201);
    expect(first.body.data).toEqual({ ...asked, id: expect.any(String), secret: expect.any(String) });
    expect(second.body.data.secret).not.toBe(first.body.data.secret);
    expect(second.body.data.id).not.toBe(first.body.data.id);
  });

  test('takes the secret it is given, and never shows one in the state', async () => {
    const { api, control } = await testSandbox();
    const secret = 'a secret of sixteen or more';
    const answer = await api('POST', '/webhooks', {
      url: 'https://mirror.example/',
      events: ['risk.assessed'],
      description: '',
      secret,
    });
    expect(answer.body.data.secret).toBe(secret);
    const { body } = await control('GET', '/state');
    expect(body.registrations).toHaveLength(1);
    expect(JSON.stringify(body)).not.toContain(secret);
  });

  test.each([
    { url: 'http://mirror.example/webhooks' },
    { url: 'https://user:password@mirror.example/' },
    { events: [] },
    { events: ['*'] },
    { events: ['policy.burned'] },
    { secret: 'short' },
  ])('refuses %o', async (part) => {
    const { api } = await testSandbox();
    const body = { url: 'https://mirror.example/', events: ['vendor.*'], description: '', ...part };
    expect((await api('POST', '/webhooks', body)).status).toBe(422);
  });
});

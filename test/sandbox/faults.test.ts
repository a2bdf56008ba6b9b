import { describe, expect, test } from 'vitest';
import { API_KEY, request, testReceiver, testSandbox } from './support.ts';

const update = { kind: 'vendor', op: 'update', id: 'vendor-0001' };

test('faults are changed field by field while it runs, and shown', async () => {
  const { control } = await testSandbox();
  await control('POST', '/faults', { drop: 0.5 });
  const changed = await control('POST', '/faults', { staleMs: 300 });
  expect(changed.body).toMatchObject({ drop: 0.5, staleMs: 300, duplicate: 0 });
  expect((await control('POST', '/faults', { drop: 1, staleMs: -1 })).status).toBe(422);
  expect((await control('GET', '/faults')).body).toEqual(changed.body);
});

test.each([{ drop: 1.5 }, { delay: { probability: 1, minMs: 5, maxMs: 1 } }, { dorp: 1 }])(
  'a bad fault setting is refused: %o',
  async (patch) => {
    const { control } = await testSandbox();
    expect((await control('POST', '/faults', patch)).status).toBe(422);
  },
);

describe('of deliveries', () => {
  test('a dropped one is never sent, and is in the log as dropped', async () => {
    const { control, register, quiesce } = await testSandbox();
    const receiver = await testReceiver();
    await register(receiver.url, ['vendor.*']);
    await control('POST', '/faults', { drop: 1 });
    const { body } = await control('POST', '/mutate', update);
    await quiesce();
    expect(receiver.received).toEqual([]);
    const [logged] = (await control('GET', `/deliveries?eventId=${body.event.id}`)).body.data;
    expect(logged).toMatchObject({
      outcome: 'dropped',
      faults: ['drop'],
      attempts: [],
      recordId: 'vendor-0001',
    });
  });

  test('a delayed one waits, and quiesce waits for it', async () => {
    const { control, register, quiesce } = await testSandbox();
    const receiver = await testReceiver();
    await register(receiver.url, ['vendor.*']);
    const delayedBy = (ms: number) =>
      control('POST', '/faults', { delay: { probability: 1, minMs: ms, maxMs: ms } });
    await delayedBy(200);
    const { body } = await control('POST', '/mutate', update);
    await quiesce();
    expect(receiver.received).toHaveLength(1);
    const [late] = (await control('GET', `/deliveries?eventId=${body.event.id}`)).body.data;
    expect(late).toMatchObject({ outcome: 'delivered', faults: ['delay'] });

    await delayedBy(600_000);
    await control('POST', '/mutate', update);
    expect((await control('POST', '/scenario', { name: 'stop', waitMs: 100 })).body).toMatchObject({
      quiet: false,
      waiting: 1,
    });
    expect(receiver.received).toHaveLength(1);
  });

  test('a reordered one is overtaken by the next', async () => {
    const { control, register, quiesce } = await testSandbox();
    const receiver = await testReceiver();
    await register(receiver.url, ['vendor.*']);
    // Left to its timer alone it would come after quiesce has given up.
    await control('POST', '/faults', {
      reorder: 1,
      delay: { probability: 1, minMs: 600_000, maxMs: 600_000 },
    });
    const first = await control('POST', '/mutate', update);
    await control('POST', '/faults', { reorder: 0, delay: { probability: 0, minMs: 0, maxMs: 0 } });
    const second = await control('POST', '/mutate', update);
    await quiesce();
    expect(receiver.received.map(({ event }) => event.id)).toEqual([
      second.body.event.id,
      first.body.event.id,
    ]);
  });
});

describe('of the API', () => {
  test('stale reads show an earlier state, and the present one again when switched off', async () => {
    const { api, control } = await testSandbox();
    await control('POST', '/faults', { staleMs: 60_000 });
    await control('POST', '/mutate', { ...update, fields: { owner: 'New' }, silent: true });
    await control('POST', '/mutate', { kind: 'vendor', op: 'delete', id: 'vendor-0002', silent: true });
    const isStale = async (path: string) => {
      const { status, body } = await api('GET', path);
      return status === 200 && body.data.owner !== 'New';
    };
    // A read is fresh only if it draws one of the few milliseconds since the change, of sixty thousand.
    expect(await isStale('/vendors/vendor-0001')).toBe(true);
    expect(await isStale('/vendors/vendor-0002')).toBe(true);
    expect((await api('GET', '/vendors')).body.meta.total).toBe(8);
    await control('POST', '/faults', { staleMs: 0 });
    expect(await isStale('/vendors/vendor-0001')).toBe(false);
    expect((await api('GET', '/vendors/vendor-0002')).status).toBe(404);
    expect((await api('GET', '/vendors')).body.meta.total).toBe(7);
  });

  test('errors come as 5xx problems, as the document says, and have no effect', async () => {
    const { url, api, control } = await testSandbox();
    const before = (await control('GET', '/state')).body.policies;
    await control('POST', '/faults', { errorRate: 1 });
    const answer = await api('POST', '/policies', { name: 'Lost' });
    expect(answer.status).toBeGreaterThanOrEqual(500);
    expect(answer.body.code).toBe('injected_error');
    const { paths } = (await request('GET', `${url}/openapi.json`)).body;
    expect(Object.keys(paths['/policies'].post.responses)).toContain('5XX');
    expect((await control('GET', '/state')).body.policies).toEqual(before);
  });

  test('above the rate limit the answer is 429 with Retry-After', async () => {
    const { api, control } = await testSandbox();
    await control('POST', '/faults', { rateLimit: 2 });
    const answers = [
      await api('GET', '/policies'),
      await api('GET', '/vendors'),
      await api('GET', '/vendors'),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(Number(answers[2]!.headers.get('retry-after'))).toBeGreaterThan(0);
    await control('POST', '/faults', { rateLimit: null });
    expect((await api('GET', '/policies')).status).toBe(200);
  });

  test('a hanging request gets no answer', async () => {
    const { url, control } = await testSandbox();
    await control('POST', '/faults', { hang: 1 });
    const hanging = fetch(`${url}/v1/policies`, {
      headers: { authorization: `Bearer ${API_KEY}` },
      signal: AbortSignal.timeout(300),
    });
    await expect(hanging).rejects.toThrow(/timeout/i);
  });
});

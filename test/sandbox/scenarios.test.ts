import { describe, expect, test, vi } from 'vitest';
import { request, testReceiver, testSandbox } from './support.ts';

const ALL = ['policy.*', 'risk.*', 'vendor.*'];

async function started() {
  const sandbox = await testSandbox();
  const receiver = await testReceiver();
  await sandbox.register(receiver.url, ALL);
  const tell = async (body: Record<string, unknown>) => {
    const answer = await sandbox.control('POST', '/scenario', body);
    await sandbox.quiesce();
    return answer;
  };
  return { ...sandbox, receiver, tell };
}

describe('scenarios', () => {
  test('a bad day changes records of all kinds, and loses, doubles and holds back deliveries until it is stopped', async () => {
    const sandbox = await started();
    const asked = { name: 'bad day', seconds: 600, perSecond: 400 };
    expect((await sandbox.control('POST', '/scenario', asked)).status).toBe(200);
    await vi.waitFor(
      async () => {
        const families = new Set(sandbox.receiver.types().map((type) => type.split('.')[0]));
        expect([...families].toSorted()).toEqual(['policy', 'risk', 'vendor']);
        const { data } = (await sandbox.control('GET', '/deliveries')).body;
        const faults = new Set(data.flatMap(({ faults }: { faults: string[] }) => faults));
        expect([...faults].toSorted()).toEqual(['delay', 'drop', 'duplicate', 'reorder']);
      },
      { timeout: 60_000 },
    );
    expect((await sandbox.control('GET', '/state')).body.scenario.name).toBe('bad day');
    await sandbox.quiesce();
    const state = (await sandbox.control('GET', '/state')).body;
    expect(state.scenario).toBeNull();
    expect(state.deliveries).toEqual({ underWay: 0, waiting: 0, retrying: 0 });
    expect((await sandbox.control('GET', '/state')).body).toEqual(state);
  });

  test('a good day loses nothing, and ends by itself', async () => {
    const sandbox = await started();
    await sandbox.control('POST', '/scenario', { name: 'good day', seconds: 0.3, perSecond: 100 });
    await expect.poll(async () => (await sandbox.control('GET', '/state')).body.scenario).toBeNull();
    await sandbox.quiesce();
    const { data } = (await sandbox.control('GET', '/deliveries')).body;
    expect(new Set(data.map(({ outcome }: { outcome: string }) => outcome))).toEqual(new Set(['delivered']));
  });

  test('in an outage nothing comes out; afterwards the faults are as they were', async () => {
    const sandbox = await started();
    await sandbox.control('POST', '/faults', { staleMs: 5 });
    await sandbox.control('POST', '/scenario', { name: 'outage', seconds: 600, perSecond: 400 });
    expect((await sandbox.api('GET', '/policies')).status).toBeGreaterThanOrEqual(500);
    const deliveries = async () => (await sandbox.control('GET', '/deliveries')).body.data;
    await expect.poll(async () => (await deliveries()).length).toBeGreaterThan(5);
    await sandbox.quiesce();
    expect(sandbox.receiver.received).toEqual([]);
    expect((await sandbox.api('GET', '/policies')).status).toBe(200);
    expect((await sandbox.control('GET', '/faults')).body).toMatchObject({ staleMs: 5, drop: 0 });
  });

  test('a mass deletion takes three quarters of the vendors at once, each with its event', async () => {
    const sandbox = await started();
    const { body } = await sandbox.tell({ name: 'mass deletion' });
    expect(body.deleted).toHaveLength(6);
    expect(sandbox.receiver.types()).toEqual(Array(6).fill('vendor.removed'));
    expect((await sandbox.api('GET', '/vendors')).body.meta.total).toBe(2);
  });

  test.each([{}, { name: 'unheard-of' }, { name: 'bad day', perSecond: 0 }, { name: 'stop', now: true }])(
    'a bad request is refused: %o',
    async (body) => {
      const sandbox = await started();
      const answer = await sandbox.control('POST', '/scenario', body);
      expect(answer.status).toBe(422);
    },
  );
});

test('an assessment that nobody was told of is counted as such, until an event about it arrives', async () => {
  const sandbox = await started();
  const { body } = await sandbox.control('POST', '/mutate', {
    kind: 'risk_assessment',
    op: 'create',
    fields: { name: 'Untold' },
    silent: true,
  });
  const unannounced = async () =>
    (await sandbox.control('GET', '/state')).body.unannouncedRiskAssessments as string[];
  expect(await unannounced()).toContain(body.id);
  await sandbox.control('POST', '/mutate', { type: 'risk.assessed', id: body.id });
  await sandbox.quiesce();
  expect(await unannounced()).not.toContain(body.id);
});

describe('control', () => {
  test('a silent change happens and nobody is told', async () => {
    const sandbox = await started();
    const { body } = await sandbox.control('POST', '/mutate', {
      kind: 'vendor',
      op: 'update',
      id: 'vendor-0004',
      fields: { owner: 'Nobody' },
      silent: true,
    });
    expect(body).toMatchObject({ event: null, record: { owner: 'Nobody' } });
    await sandbox.quiesce();
    expect(sandbox.receiver.received).toEqual([]);
    expect((await sandbox.api('GET', '/vendors/vendor-0004')).body.data.owner).toBe('Nobody');
  });

  test('the state shows every record as the API does', async () => {
    const sandbox = await started();
    const { body } = await sandbox.control('GET', '/state');
    expect((await sandbox.api('GET', '/policies?perPage=100')).body.data).toEqual(body.policies);
    expect((await sandbox.api('GET', '/vendors?perPage=100')).body.data).toEqual(body.vendors);
    for (const row of body.riskAssessments) {
      expect((await sandbox.api('GET', `/risk-assessments/${row.id}`)).body.data).toEqual(row);
    }
  });

  test.each([
    [{ kind: 'vendor', op: 'explode', id: 'vendor-0001' }, 422],
    [{ kind: 'vendor', op: 'update', id: 'none' }, 404],
    [{ kind: 'vendor', op: 'create', id: 'vendor-0001' }, 409],
    [{ kind: 'vendor', op: 'update', id: 'vendor-0001', fields: { status: 'approved' } }, 422],
    [{ kind: 'vendor', op: 'update', id: 'vendor-0001', fields: { vendorId: 'other' } }, 422],
    [{ kind: 'policy', op: 'create', fields: { name: 'N', status: 'approved' } }, 422],
    [{ kind: 'risk_assessment', op: 'update', id: 'risk-0001', fields: { risk: { id: 'r-9' } } }, 422],
    [{ kind: 'vendor', op: 'update', id: 'vendor-0001', fields: { id: 'v-9' } }, 422],
    [{ kind: 'policy', op: 'approve', id: 'policy-0005' }, 409],
  ])('a mutation that cannot be is refused and changes nothing: %o', async (mutation, status) => {
    const sandbox = await started();
    const before = (await sandbox.control('GET', '/state')).body;
    expect((await sandbox.control('POST', '/mutate', mutation)).status).toBe(status);
    await sandbox.quiesce();
    expect((await sandbox.control('GET', '/state')).body).toEqual(before);
  });

  test('with a token, nothing is to be had or changed without it', async () => {
    const token = 'a-token-of-sixteen-characters';
    const { url } = await testSandbox({ token });
    for (const [method, path] of [
      ['GET', '/state'],
      ['GET', '/deliveries'],
      ['POST', '/mutate'],
      ['POST', '/scenario'],
      ['GET', '/nowhere'],
    ] as const) {
      expect((await request(method, `${url}/_sandbox${path}`)).status).toBe(401);
    }
    const bearer = { authorization: `Bearer ${token}` };
    expect((await request('GET', `${url}/_sandbox/state`, undefined, bearer)).status).toBe(200);
    expect((await request('GET', `${url}/v1/policies`, undefined, bearer)).status).toBe(401);
  });
});

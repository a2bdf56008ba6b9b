import { describe, expect, test, vi } from 'vitest';
import { request, type TestSandbox, testReceiver, testSandbox } from './support.ts';

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

async function outcomesOf(sandbox: TestSandbox, eventId: string): Promise<string[]> {
  const { body } = await sandbox.control('GET', `/deliveries?eventId=${eventId}`);
  return body.data.map(({ outcome }: { outcome: string }) => outcome);
}

describe('stories', () => {
  test.each([
    ['lost-policy-delete', 'policy', 'policies', 'policyId', 'policy.deleted'],
    ['lost-vendor-removal', 'vendor', 'vendors', 'id', 'vendor.removed'],
  ])(
    '%s: the record is gone and the delivery that says so is dropped',
    async (name, kind, list, idField, type) => {
      const sandbox = await started();
      const before = (await sandbox.control('GET', '/state')).body[list];
      const { body } = await sandbox.tell({ name });
      const [{ id }] = body.records;
      expect(body.records).toEqual([{ kind, id }]);
      expect(body.events).toMatchObject([{ type, fate: 'dropped' }]);
      const after = (await sandbox.control('GET', '/state')).body[list];
      expect(after).toEqual(before.filter((row: Record<string, unknown>) => row[idField] !== id));
      expect(after).toHaveLength(before.length - 1);
      expect(sandbox.receiver.received).toEqual([]);
      expect(await outcomesOf(sandbox, body.events[0].id)).toEqual(['dropped']);
    },
  );

  test.each([
    [{ name: 'overtaken-update' }, 'policy.updated', 'policy.updated'],
    [{ name: 'overtaken-update', kind: 'vendor' }, 'vendor.updated', 'vendor.updated'],
    [
      { name: 'overtaken-update', kind: 'risk_assessment', id: 'risk-0001' },
      'risk.assessed',
      'risk.mitigated',
    ],
  ])('%o: the older event arrives last, with the later time', async (story, older, newer) => {
    const sandbox = await started();
    const { body } = await sandbox.tell(story);
    expect(sandbox.receiver.types()).toEqual([newer, older]);
    const [first, last] = sandbox.receiver.received.map(({ event }) => event);
    expect([last!.id, first!.id]).toEqual(body.events.map(({ id }: { id: string }) => id));
    expect(Date.parse(last!.created)).toBeGreaterThan(Date.parse(first!.created));
    expect(last!.data).not.toEqual(first!.data);
  });
  test('an overtaken update waits until the one that overtakes it is taken, refusals included', async () => {
    const sandbox = await testSandbox({ retryDelaysMs: [0, 1, 1] });
    const receiver = await testReceiver((place) => (place < 2 ? 503 : 200));
    await sandbox.register(receiver.url, ALL);
    const { body } = await sandbox.control('POST', '/scenario', { name: 'overtaken-update' });
    await sandbox.quiesce();
    const [older, newer] = body.events.map(({ id }: { id: string }) => id);
    expect(receiver.received.map(({ event }) => event.id)).toEqual([newer, newer, newer, older]);
  });

  test('lost-identification: the first event is dropped, a later one about the assessment arrives', async () => {
    const sandbox = await started();
    const { body } = await sandbox.tell({ name: 'lost-identification' });
    const [{ id }] = body.records;
    expect(body.events).toMatchObject([
      { type: 'risk.identified', fate: 'dropped' },
      { type: 'risk.assessed', fate: 'delivered' },
    ]);
    expect(sandbox.receiver.received.map(({ event }) => [event.type, event.data.riskAssessmentId])).toEqual([
      ['risk.assessed', id],
    ]);
    expect((await sandbox.api('GET', `/risk-assessments/${id}`)).body.data.status).toBe('assessed');
  });

  test('unannounced-assessment: it exists, nobody is told, and the state counts it as such', async () => {
    const sandbox = await started();
    const { body } = await sandbox.tell({ name: 'unannounced-assessment' });
    const [{ id }] = body.records;
    expect(body.events).toEqual([]);
    expect((await sandbox.api('GET', `/risk-assessments/${id}`)).status).toBe(200);
    expect((await sandbox.control('GET', '/deliveries')).body.data).toEqual([]);
    const known = await sandbox.api('POST', '/risk-assessments', { name: 'Told of' });
    await sandbox.quiesce();
    const { unannouncedRiskAssessments } = (await sandbox.control('GET', '/state')).body;
    expect(unannouncedRiskAssessments).toContain(id);
    expect(unannouncedRiskAssessments).not.toContain(known.body.data.id);
  });

  test('duplicate-delivery: one event arrives three times', async () => {
    const sandbox = await started();
    const { body } = await sandbox.tell({ name: 'duplicate-delivery' });
    expect(sandbox.receiver.received.map(({ event }) => event.id)).toEqual(Array(3).fill(body.events[0].id));
  });

  test('stage what they say whatever faults are switched on', async () => {
    const sandbox = await started();
    await sandbox.control('POST', '/faults', { drop: 1 });
    await sandbox.tell({ name: 'duplicate-delivery' });
    expect(sandbox.receiver.received).toHaveLength(3);
  });

  test('never hit a record twice, and say so when none is left', async () => {
    const sandbox = await started();
    const hit = new Set<string>();
    for (let count = 0; count < 8; count += 1) {
      hit.add((await sandbox.tell({ name: 'duplicate-delivery' })).body.records[0].id);
    }
    expect(hit.size).toBe(8);
    const none = await sandbox.tell({ name: 'duplicate-delivery' });
    expect([none.status, none.body.code]).toEqual([409, 'no_such_record']);
  });

  test('hit the same records for the same seed number', async () => {
    const [first, second] = [await started(), await started()];
    for (const name of ['lost-policy-delete', 'overtaken-update', 'lost-vendor-removal']) {
      expect((await first.tell({ name })).body.records).toEqual((await second.tell({ name })).body.records);
    }
  });
});

describe('lively', () => {
  test('changes records of all kinds until stopped, and quiesce leaves nothing under way', async () => {
    const sandbox = await started();
    expect((await sandbox.control('POST', '/scenario', { name: 'lively', perSecond: 400 })).status).toBe(200);
    await vi.waitFor(
      () => {
        const families = new Set(sandbox.receiver.types().map((type) => type.split('.')[0]));
        expect([...families].toSorted()).toEqual(['policy', 'risk', 'vendor']);
        expect(sandbox.receiver.received.length).toBeGreaterThan(50);
      },
      { timeout: 60_000 },
    );
    expect((await sandbox.control('GET', '/state')).body.scenario.lively.perSecond).toBe(400);
    await sandbox.quiesce();
    const state = (await sandbox.control('GET', '/state')).body;
    expect(state.scenario).toEqual({ lively: null });
    expect(state.deliveries).toEqual({ underWay: 0, waiting: 0, retrying: 0 });
    expect((await sandbox.control('GET', '/state')).body).toEqual(state);
  });

  test('stops on demand', async () => {
    const sandbox = await started();
    await sandbox.control('POST', '/scenario', { name: 'lively' });
    await sandbox.control('POST', '/scenario', { name: 'stop' });
    expect((await sandbox.control('GET', '/state')).body.scenario.lively).toBeNull();
  });

  test.each([
    {},
    { name: 'unheard-of' },
    { name: 'lively', perSecond: 0 },
    { name: 'lively', perSecond: 1e9 },
    { name: 'duplicate-delivery', kind: 'none' },
    { name: 'stop', now: true },
  ])('a bad request is refused with what can be asked for: %o', async (body) => {
    const sandbox = await started();
    const answer = await sandbox.control('POST', '/scenario', body);
    expect(answer.status).toBe(422);
  });
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

  test('a refusal for a field says which, and what is no id or its own status is taken', async () => {
    const sandbox = await started();
    const mutate = (mutation: object) => sandbox.control('POST', '/mutate', mutation);
    const born = await mutate({ kind: 'vendor', op: 'add', fields: { name: 'N', status: 'approved' } });
    expect(born.body.detail).toContain('A new vendor is prospective');
    const misread = await mutate({ kind: 'vendor', op: 'add', fields: { name: 'N', vendor: { id: 'v-9' } } });
    expect(misread.body.detail).toContain('vendor.id');
    const api = await sandbox.api('POST', '/risk-assessments', { name: 'N', riskId: 'r-9' });
    expect([api.status, api.body.detail]).toEqual([422, expect.stringContaining('riskId')]);
    const fields = { name: 'N', status: 'prospective', vendor: { name: 'x' }, riskAssessmentId: 'risk-0001' };
    expect((await mutate({ kind: 'vendor', op: 'add', fields })).status).toBe(200);
  });

  test.each([
    [{ kind: 'vendor', op: 'explode', id: 'vendor-0001' }, 422],
    [{ kind: 'spaceship', op: 'update', id: 'x' }, 422],
    [{ kind: 'vendor', op: 'update' }, 422],
    [{ kind: 'vendor', op: 'update', id: 'none' }, 404],
    [{ kind: 'vendor', op: 'add', id: 'vendor-0001' }, 409],
    [{ kind: 'vendor', op: 'add', id: 'a\u0000b' }, 422],
    [{ kind: 'vendor', op: 'update', id: 'vendor-0001', fields: { status: 'approved' } }, 422],
    [{ kind: 'vendor', op: 'update', id: 'vendor-0001', fields: { vendorId: 'other' } }, 422],
    [{ kind: 'policy', op: 'update', id: 'policy-0001', fields: { version: 3 } }, 422],
    [{ kind: 'policy', op: 'create', fields: { name: 'N', status: 'approved' } }, 422],
    [{ kind: 'risk_assessment', op: 'create', fields: { name: 'N', status: 'assessed' } }, 422],
    [{ kind: 'vendor', op: 'add', fields: { name: 'N', status: 'no status of ours' } }, 422],
    [{ kind: 'risk_assessment', op: 'create', fields: { name: 'N', riskId: 'r-9' } }, 422],
    [{ kind: 'risk_assessment', op: 'update', id: 'risk-0001', fields: { risk: { id: 'r-9' } } }, 422],
    [{ kind: 'risk_assessment', op: 'update', id: 'risk-0001', fields: { assessmentId: 7 } }, 422],
    [{ kind: 'vendor', op: 'update', id: 'vendor-0001', fields: { vendor: { id: 'v-9' } } }, 422],
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
      ['POST', '/quiesce'],
      ['GET', '/nowhere'],
    ] as const) {
      expect((await request(method, `${url}/_sandbox${path}`)).status).toBe(401);
    }
    const bearer = { authorization: `Bearer ${token}` };
    expect((await request('GET', `${url}/_sandbox/state`, undefined, bearer)).status).toBe(200);
    expect((await request('GET', `${url}/v1/policies`, undefined, bearer)).status).toBe(401);
  });

  test('a page of another site cannot send requests', async () => {
    const { url } = await testSandbox();
    const answer = await request('POST', `${url}/_sandbox/quiesce`, undefined, {
      origin: 'https://elsewhere.example',
    });
    expect(answer.status).toBe(403);
  });
});

import { expect, test } from 'vitest';
import { testReceiver, testSandbox } from './support.ts';

/** What one course of calls comes to, without what tells the time. */
async function course(seedNumber: number) {
  const sandbox = await testSandbox({ seedNumber, retryDelaysMs: [0, 5, 5, 5], timeScale: 1 });
  // Failures at other moments in every run: what is drawn must not depend on who fails first.
  const receiver = await testReceiver(() => (Math.random() < 0.3 ? 500 : 202));
  const { id: registration } = await sandbox.register(receiver.url, ['policy.*', 'risk.*', 'vendor.*']);
  await sandbox.control('POST', '/faults', {
    drop: 0.2,
    duplicate: 0.2,
    reorder: 0.1,
    errorRate: 0.2,
    truncatedPages: 0.4,
    delay: { probability: 0.3, minMs: 1, maxMs: 5 },
  });
  const answers: unknown[] = [];
  for (let n = 0; n < 25; n++) {
    const created = await sandbox.api('POST', '/policies', { name: `Policy ${n}` });
    const fields = { name: `Vendor ${n}` };
    const added = await sandbox.control('POST', '/mutate', { kind: 'vendor', op: 'add', fields });
    const page = await sandbox.api('GET', '/vendors?perPage=5');
    answers.push([
      ...[created.status, created.body.data?.policyId, added.body.id, added.body.event.id],
      ...[page.status, page.body.data?.length],
    ]);
  }
  const story = await sandbox.control('POST', '/scenario', { name: 'lost-policy-delete' });
  answers.push(story.body.records);
  await sandbox.quiesce();
  const { body } = await sandbox.control('GET', '/deliveries');
  type Logged = { id: string; eventId: string; type: string; recordId: string; faults: string[] };
  const deliveries = (body.data as Logged[])
    .map(({ id, eventId, type, recordId, faults }) => ({ id, eventId, type, recordId, faults }))
    .toSorted((a, b) => a.id.localeCompare(b.id));
  return { registration, answers, deliveries };
}

test('the same seed number and the same calls give the same ids, events and faults; another gives others', async () => {
  const [first, second, other] = await Promise.all([course(42), course(42), course(43)]);
  expect(second).toEqual(first);
  expect(first.deliveries.some(({ faults }) => faults.includes('drop'))).toBe(true);
  expect(first.deliveries.some(({ faults }) => faults.includes('duplicate'))).toBe(true);
  expect(other.deliveries).not.toEqual(first.deliveries);
  expect(other.answers).not.toEqual(first.answers);
});

import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { type TestSandbox, testReceiver, testSandbox } from './support.ts';

/** Quick enough to wait for, with the schedule's eight attempts. */
const SOON = { retryDelaysMs: [0, 1, 1, 1, 1, 1, 1, 1] };
const ALL = ['policy.*', 'risk.*', 'vendor.*'];

/** Until this is what is left of the deliveries. */
async function untilOpen(control: TestSandbox['control'], left: Record<string, number>): Promise<void> {
  await expect.poll(async () => (await control('GET', '/state')).body.deliveries).toEqual(left);
}

test('a delivery is the event as JSON, signed over its raw bytes with the registration’s secret', async () => {
  const { api, register, quiesce } = await testSandbox();
  const receiver = await testReceiver();
  const { secret } = await register(receiver.url, ALL);
  await api('POST', '/policies', { name: 'Größe & <b>Maß</b> ✓' });
  await quiesce();
  const [{ headers, raw, event }] = receiver.received as [(typeof receiver.received)[0]];
  expect(Object.keys(event)).toEqual(['id', 'type', 'created', 'data']);
  expect(new Date(event.created).toISOString()).toBe(event.created);
  expect(headers['content-type']).toBe('application/json');
  const [, t, v1] = /^t=([0-9]+), v1=([0-9a-f]{64})$/.exec(String(headers['x-webhook-signature']))!;
  expect(createHmac('sha256', secret).update(`${t}.${raw}`, 'utf8').digest('hex')).toBe(v1);
  expect(Math.abs(Date.now() / 1000 - Number(t))).toBeLessThan(60);
});

describe('retries', () => {
  test('go on until a 2xx, with the same body and a signature made anew', async () => {
    const { api, control, register, quiesce } = await testSandbox({ retryDelaysMs: [0, 1_300, 1] });
    const receiver = await testReceiver((place) => [503, 302, 204][place]!);
    await register(receiver.url, ALL);
    await api('POST', '/policies', { name: 'Twice refused' });
    await quiesce();
    expect(receiver.received).toHaveLength(3);
    expect(new Set(receiver.received.map(({ raw }) => raw)).size).toBe(1);
    const signatures = receiver.received.map(({ headers }) => headers['x-webhook-signature']);
    expect(signatures[1]).not.toBe(signatures[0]);
    const [delivery] = (await control('GET', '/deliveries')).body.data;
    expect(delivery.outcome).toBe('delivered');
    expect(delivery.attempts.map(({ status }: { status: number }) => status)).toEqual([503, 302, 204]);
  });

  test('end after the eighth attempt', async () => {
    const { api, control, register, quiesce } = await testSandbox(SOON);
    const receiver = await testReceiver(() => 500);
    await register(receiver.url, ALL);
    await api('POST', '/policies', { name: 'Never taken' });
    await quiesce();
    expect(receiver.received).toHaveLength(8);
    expect((await control('GET', '/deliveries')).body.data[0].outcome).toBe('abandoned');
  });

  test('follow a receiver that does not answer in time, or at all', async () => {
    const { api, control, register, quiesce } = await testSandbox({ ...SOON, deliveryTimeoutMs: 1_000 });
    const silent = await testReceiver((place) => (place === 0 ? 0 : 200));
    await register(silent.url, ALL);
    await register('http://127.0.0.1:1/closed', ALL);
    await api('POST', '/policies', { name: 'Slow' });
    await quiesce();
    const { data } = (await control('GET', '/deliveries')).body;
    const byOutcome = Object.fromEntries(data.map((row: { outcome: string }) => [row.outcome, row]));
    expect(byOutcome.delivered.attempts[0]).toMatchObject({
      status: null,
      error: expect.stringMatching(/Timeout/),
    });
    expect(byOutcome.abandoned.attempts).toHaveLength(8);
  });
});

test('a 410 disables its registration, and what was still to be sent to it is cancelled', async () => {
  const { api, control, register, quiesce } = await testSandbox({ retryDelaysMs: [0, 3_600_000] });
  const gone = await testReceiver((place) => [500, 410][place]!);
  const other = await testReceiver();
  await register(gone.url, ALL);
  await register(other.url, ALL);
  await api('POST', '/policies', { name: 'Will be retried in an hour' });
  await untilOpen(control, { underWay: 0, waiting: 0, retrying: 1 });
  await api('POST', '/policies', { name: 'Meets the 410' });
  await quiesce();
  await api('POST', '/policies', { name: 'Is not sent to it' });
  await quiesce();
  expect(gone.received).toHaveLength(2);
  expect(other.received).toHaveLength(3);
  const { body } = await control('GET', '/deliveries?outcome=cancelled');
  expect(body.data).toHaveLength(2);
  const { registrations } = (await control('GET', '/state')).body;
  expect(registrations.map(({ disabled }: { disabled: boolean }) => disabled)).toEqual([true, false]);
});

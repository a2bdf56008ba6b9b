import { afterEach, expect, it } from 'vitest';
import { createStage, type Stage } from './stage.ts';

let stage: Stage;
afterEach(() => stage.end());

it('batches of several kinds, as an array or in an object, are events like others, and what they name is read', async () => {
  stage = await createStage();
  await stage.start();
  await stage.leapUntil('first equality', () => stage.compare().differences.length === 0);
  const { records } = stage.upstream;
  const put = (id: string) => records.put('assessments', { id, name: `Assessment ${id}`, status: 'open' });
  const event = (id: string, type: string, data: object) => ({
    id,
    type,
    created: '2026-11-20T12:00:00Z',
    data,
  });
  const risk = (id: string, record: string) => event(id, 'risk.identified', { riskId: record });
  for (const id of ['r1', 'r2']) put(id);
  records.put('vendors', { ...records.find('vendors', 'ven-1')!, name: 'Renamed' });
  const vendor = event('e2', 'vendor.updated', { vendorId: 'ven-1' });
  const bodies: unknown[] = [
    [event('e1', 'policy.updated', { policyId: 'pol-1' }), vendor, risk('e3', 'r1')],
    { events: [vendor, risk('e4', 'r2')] },
  ];
  for (const [nth, body] of bodies.entries()) {
    const sent = { id: `batch-${nth}`, body: JSON.stringify(body) };
    expect(await stage.deliver(sent)).toBe(202);
  }
  await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
  const { items } = await stage.get<{ items: { id: string; deliveries: number }[] }>('/api/deliveries');
  const counted = items.map(({ id, deliveries }) => `${id} ${deliveries}`).sort();
  expect(counted).toEqual(['e1 1', 'e2 2', 'e3 1', 'e4 1']);
});

it('a UUID in capitals in events is the record that answers show in small letters, and the other way round', async () => {
  stage = await createStage();
  const { records } = stage.upstream;
  const small = '0d5f1a52-6a1c-4f3e-9b1d-2f0c6a7b8c9d';
  const capitals = '5E1A9C33-7B2D-4E8F-A1C4-6D5E4F3A2B1C';
  for (const id of [small, capitals]) {
    records.put('vendors', { id, name: `Vendor ${id}`, status: 'active' });
    records.put('assessments', { id, name: `Assessment ${id}`, status: 'open' });
  }
  await stage.start();
  const created = '2026-11-20T12:00:00Z';
  for (const [nth, id] of [small.toUpperCase(), capitals.toLowerCase()].entries()) {
    const events = [
      { id: `v${nth}`, type: 'vendor.updated', created, data: { vendorId: id } },
      { id: `r${nth}`, type: 'risk.assessed', created, data: { riskId: id } },
    ];
    for (const event of events)
      expect(await stage.deliver({ id: event.id, body: JSON.stringify(event) })).toBe(202);
  }
  await stage.leapUntil('in sync', () =>
    Object.values(stage.verdicts()).every((verdict) => verdict === 'in_sync' || verdict === 'known_only'),
  );
  const ids = async (kind: string) =>
    (
      await stage.get<{ items: { id: string; data: { id: string } }[] }>(`/api/records/${kind}?limit=50`)
    ).items
      .filter(({ id }) => id.length === small.length)
      .map(({ id, data }) => `${id} ${data.id}`);
  const expected = [`${small} ${small}`, `${capitals.toLowerCase()} ${capitals}`];
  expect((await ids('vendor')).sort()).toEqual(expected);
  expect((await ids('risk_assessment')).sort()).toEqual(expected);
});

import { expect, it } from 'vitest';
import { startedService } from './started.ts';

it('the list of deliveries says after how long each was answered, whatever became of it', async () => {
  const { deliver, read } = await startedService();
  const created = new Date().toISOString();
  const event = { type: 'vendor.updated', created, data: { id: 'ven_1', name: 'Acme' } };
  await deliver('evt_1', event);
  await deliver('evt_1', event);
  await deliver('evt_2', 'no JSON');
  await deliver('evt_3', event, 't=1, v1=00');
  const outcomes = async () => {
    const { items } = (await read('/api/deliveries')) as {
      items: { outcome: string; answered_in_ms: number | null }[];
    };
    return items.map(({ outcome, answered_in_ms }) => [outcome, Number(answered_in_ms) > 0]).sort();
  };
  await expect
    .poll(outcomes)
    .toEqual(['accepted', 'duplicate', 'quarantined', 'rejected'].map((outcome) => [outcome, true]));
});

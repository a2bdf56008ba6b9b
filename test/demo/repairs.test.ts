import { expect, it } from 'vitest';
import { type Repair, repairRows, tally } from '../../sandbox/demo/repairs.ts';

const at = (seconds: number) => new Date(seconds * 1000).toISOString();
const repair = (recordId: string, seconds: number, cause = 'refetch'): Repair => ({
  ...{ kind: 'vendor', recordId, cause, at: at(seconds), fields: ['status'] },
});
const delivery = (recordId: string, seconds: number, ...faults: string[]) => ({
  ...{ kind: 'vendor' as const, recordId, created: at(seconds), faults },
});

it('the table has what the faults of deliveries made, and counts what events do not show', () => {
  const repairs = [repair('late', 7), repair('fine', 8, 'sync'), repair('late', 9)];
  const deliveries = [
    ...[delivery('late', 4.9, 'drop'), delivery('late', 5, 'delay', 'duplicate'), delivery('late', 8)],
    ...[delivery('fine', 7, 'duplicate'), delivery('fine', 8.5, 'reorder')],
  ];
  expect(repairRows(repairs, deliveries)).toEqual({
    rows: [['late', 'vendor', 'delivery dropped, delivery delayed', 2.1, 'refetch', 'status']],
    left: 0,
    completed: 2,
  });
  expect(tally(repairs)).toBe('2 by refetch, 1 by sync');
});

it('of very many the newest are shown, and the others counted', () => {
  const all = Array.from({ length: 50 }, (_, n) => `v${n}`);
  const { rows, left } = repairRows(
    all.map((id) => repair(id, 7)),
    all.map((id) => delivery(id, 5, 'drop')),
  );
  expect([rows.length, rows[0]?.[0], left]).toEqual([40, 'v10', 10]);
});

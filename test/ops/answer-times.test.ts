import { expect, it } from 'vitest';
import { createAnswerTimes } from '../../src/ops/answer-times.ts';

const at = (wall: number) => new Date(wall).toISOString();
const answered = { eventId: null, address: '10.0.0.1', endedWall: 2_000, milliseconds: 40.06 };
const row = { event_id: null, address: '10.0.0.1' } as const;

it('an accepted delivery is known by its event', () => {
  const times = createAnswerTimes();
  times.note({ ...answered, outcome: 'accepted', eventId: 'evt_1' });
  times.note({ ...answered, outcome: 'duplicate', eventId: 'evt_1', milliseconds: 1 });
  const delivery = { ...row, outcome: 'accepted', event_id: 'evt_1', received_at: at(0) } as const;
  expect(times.of(delivery)).toBe(40.1);
  expect(times.of({ ...delivery, event_id: 'evt_2' })).toBeNull();
});

it('any other is known by the instant at which it was noted, while it was being answered', () => {
  const times = createAnswerTimes();
  times.note({ ...answered, outcome: 'rejected' });
  times.note({ ...answered, outcome: 'rejected', endedWall: 3_000, milliseconds: 2 });
  const found = (wall: number, over = {}) =>
    times.of({ ...row, outcome: 'rejected', received_at: at(wall), ...over });
  expect([1_958, 1_959, 2_000, 2_001, 2_999].map((wall) => found(wall))).toEqual([null, 40.1, 40.1, null, 2]);
  expect(found(2_000, { address: '10.0.0.2' })).toBeNull();
  expect(found(2_000, { outcome: 'quarantined' })).toBeNull();
});

it('remembers the newest, whatever comes', () => {
  const times = createAnswerTimes();
  for (let n = 0; n < 30_000; n += 1) {
    times.note({ ...answered, outcome: 'accepted', eventId: `evt_${n}` });
    times.note({ ...answered, outcome: 'rejected', endedWall: n * 100, milliseconds: 1 });
  }
  const known = (n: number) => [
    times.of({ ...row, outcome: 'accepted', event_id: `evt_${n}`, received_at: at(0) }),
    times.of({ ...row, outcome: 'rejected', received_at: at(n * 100) }),
  ];
  expect([known(29_999), known(20_000), known(9_999)]).toEqual([
    [40.1, 1],
    [40.1, null],
    [null, null],
  ]);
});

import { beforeAll, describe, expect, it } from 'vitest';
import { ATTACKS } from './attacks.ts';
import { play, type Row } from './play.ts';

/** On a busy machine the shorter run takes many times its minute. */
const TIMEOUT_MS = 900_000;

/**
 * Every attack at a smaller size; `npm run hostile` makes the whole of it, and there nobody else may wait for long. Here no
 * time is judged. It needs Linux: other loopback addresses without being set up, and /proc.
 */
describe.skipIf(process.platform !== 'linux')('what a stranger does', { timeout: TIMEOUT_MS }, () => {
  const rows = new Map<string, Row>();
  beforeAll(async () => {
    await play(Object.keys(ATTACKS), { length: 'short', onRow: (row) => rows.set(row.name, row) });
  }, TIMEOUT_MS);

  it.each(Object.keys(ATTACKS))(
    '%s: the service lives, serves everybody else, and keeps its bounds',
    (name) => {
      expect(rows.get(name)!.faults).toEqual([]);
      expect(rows.get(name)!.others.served).toBeGreaterThan(0);
    },
  );
});

import { expect, test } from 'vitest';
import { aftermathOf } from '../../src/ops/aftermath.ts';
import type { ChangeReport } from '../../src/store/reports.ts';

const at = (minute: number) => `2026-11-01T12:${String(minute).padStart(2, '0')}:00.000Z`;
const EVENT = { id: 'e1', received_at: at(0) };
const READ = { verified_at: at(9), unverified_since: null };

function change(minute: number, cause: string, after: Record<string, unknown>): ChangeReport {
  const about = { seq: minute, kind: 'vendor', record_id: 'v1', operation: 'update' } as const;
  return { ...about, before: {}, after, cause, at: at(minute) };
}
const OWN = change(1, 'event:e1', { name: 'A' });

test.each([
  ['no read since', [OWN], { verified_at: null, unverified_since: at(0) }, 'open', null],
  ['a read before it was shown', [OWN], { verified_at: at(0), unverified_since: null }, 'open', null],
  ['a read that did not cover it', [OWN], { verified_at: at(2), unverified_since: at(0) }, 'open', null],
  ['a read since', [OWN], READ, 'confirmed', at(9)],
  ['a read before a later event came', [OWN], { ...READ, unverified_since: at(5) }, 'confirmed', at(9)],
  ['other fields from a read', [OWN, change(3, 'refetch', { status: 'x' })], READ, 'confirmed', at(9)],
  ['the same field from a read', [OWN, change(3, 'sync:4', { name: 'B' })], READ, 'corrected', at(3)],
  ['the same field from an event', [OWN, change(2, 'event:e2', { name: 'B' })], READ, 'replaced', at(2)],
  ['no change of its own, and a read', [change(2, 'event:e2', { name: 'B' })], READ, 'confirmed', at(9)],
  ['no record', [], null, 'open', null],
] as const)('of an event, after %s', (_, later, record, verdict, since) => {
  expect(aftermathOf(EVENT, later, record)).toMatchObject({ verdict, at: since });
});

import { expect, it } from 'vitest';
import { createCandidateProof, createIdsBeside } from '../../src/backfill/candidate-search.ts';
import { UpstreamError } from '../../src/compliance/errors.ts';
import type { RepairStore, UnreadEvent } from '../../src/store/store.ts';
import { HeldClock } from '../compliance/held-clock.ts';

it('what the API does not know beside an id counts only if it shows a record afterwards; else all is asked again', async () => {
  const body = JSON.stringify({ data: { id: 'row_17', ref: 'ra_7', other: 'ra_8' } });
  const event: UnreadEvent = {
    seq: 3,
    id: 'evt_1',
    type: 'risk.assessed',
    kind: 'risk_assessment',
    attempts: 0,
    body,
  };
  const searched: number[] = [];
  const asked: string[] = [];
  const store = {
    eventsNaming: async () => [event],
    shownIds: async () => [],
    noteSearched: async (_kind, _id, { through }) => void searched.push(through),
  } as Partial<RepairStore> as RepairStore;
  const clock = new HeldClock();
  let failing = '';
  const shows = async (_kind: string, id: string) => {
    asked.push(id);
    if (id === failing) throw new UpstreamError('server', 'answered 500');
    return false;
  };
  const beside = createIdsBeside({
    store,
    clock,
    timing: { settleMs: 10 },
    signal: new AbortController().signal,
    gaps: { open: async () => undefined } as never,
    proof: createCandidateProof({ store, clock, upstream: { shows }, requestsPerMinute: 60 }),
    onFound: () => undefined,
  });
  expect(await beside.search('row_17', 3, async () => false)).toEqual({ shown: [], restInMs: 60_000 });
  expect({ asked, searched }).toEqual({ asked: ['ra_7', 'ra_8'], searched: [] });
  expect(await beside.search('row_17', 3, async () => true)).toEqual({ shown: [], restInMs: null });
  expect({ asked, searched }).toEqual({ asked: ['ra_7', 'ra_8', 'ra_7', 'ra_8'], searched: [3] });

  // What was answered while there was no record to compare with counts no more once there is one.
  failing = 'ra_8';
  asked.length = 0;
  expect(await beside.search('row_17', 3, null)).toEqual({ shown: [], restInMs: 60_000 });
  failing = '';
  expect(await beside.search('row_17', 3, async () => true)).toEqual({ shown: [], restInMs: null });
  expect(asked).toEqual(['ra_7', 'ra_8', 'ra_7', 'ra_8']);
});

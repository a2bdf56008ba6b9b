import { describe, expect, it } from 'vitest';
import { decideMissing, decideTombstone } from '../../src/mirror/deletions.ts';
import type { RecordState } from '../../src/mirror/state.ts';
import { NOW_ISO, row, state, TIMING, VERIFIED } from './states.ts';

describe('a 404', () => {
  const read = { number: 7, beganAt: 200, endedAt: 201, endedWall: 2_000 };
  const alive = row({ name: 'Old' });
  const tomb = row({ name: 'Old' }, 'T');
  const first = { returned: true, missingSince: 190, missingNumber: 6, dirty: 5, write: 5 };
  const decide = (
    held: Partial<RecordState>,
    over: {
      row?: typeof alive | null;
      witnessedAt?: number | null;
      witnessFrom?: number;
      witnessedAfter?: boolean;
      absent?: boolean;
      patience?: number;
      approved?: boolean;
      asked?: boolean;
    } = {},
  ) =>
    decideMissing(
      read,
      { state: state(held), row: over.row === undefined ? alive : over.row },
      {
        witnessedAt: over.witnessedAt === undefined ? 195 : over.witnessedAt,
        ...(over.witnessFrom === undefined ? {} : { witnessFrom: over.witnessFrom }),
        witnessedAfter: over.witnessedAfter ?? true,
        absentFromList: over.absent ?? false,
        patience: over.patience ?? 0,
        approved: over.approved ?? false,
        isAsked: over.asked ?? false,
      },
      TIMING,
    );

  it.each([
    { what: 'for an id never returned says nothing', held: {}, outcome: 'unresolved_event' },
    {
      what: 'for what no event named, and was never returned, says nothing',
      held: { dirty: 0 },
      outcome: 'unresolved',
    },
    {
      what: 'within SETTLE of the event that named it tells too little',
      held: { dirtyAt: 195 },
      outcome: 'first',
    },
    {
      what: 'for an id never returned says nothing the second time either',
      held: { missingSince: 190, missingNumber: 6 },
      outcome: 'unresolved_event',
    },
    {
      what: 'for what an event named, and a person is asked about, tells nothing new',
      held: { dirty: 5 },
      over: { asked: true },
      outcome: 'unresolved',
    },
    {
      what: 'for what an event announced gone, and was never returned, is news: it may be about another record',
      held: { deleteEvent: 5 },
      outcome: 'unresolved_event',
    },
    {
      what: 'for what a complete list scan missed as well, and was never returned, is news',
      held: {},
      over: { absent: true },
      outcome: 'unresolved_event',
    },
    {
      what: 'for what an event announced gone is a first once that is known',
      held: { deleteEvent: 5 },
      over: { asked: true },
      outcome: 'first',
    },
    {
      what: 'for what a complete list scan missed is a first once that is known',
      held: {},
      over: { absent: true, asked: true },
      outcome: 'first',
    },
    {
      what: 'for what a person has approved is a first once that is known',
      held: {},
      over: { approved: true, asked: true },
      outcome: 'first',
    },
    {
      what: 'for what a person has approved, and was never returned, is news',
      held: {},
      over: { approved: true },
      outcome: 'unresolved_event',
    },
    {
      what: 'for what nothing shows, and was settled, tells nothing',
      held: { unverifiedSince: null },
      over: { row: null },
      outcome: 'known',
    },
    {
      what: 'for what a complete list scan missed, and no event named, is a first',
      held: { dirty: 0 },
      over: { absent: true },
      outcome: 'first',
    },
    { what: 'for what was returned is a first', held: { returned: true }, outcome: 'first' },
    { what: 'SETTLE after the first is the proof', held: first, outcome: 'proven' },
    {
      what: 'too soon after the first is still the first',
      held: { ...first, missingSince: 191 },
      outcome: 'first',
    },
    {
      what: 'too soon after a dirty mark is still the first',
      held: { ...first, dirtyAt: 191 },
      outcome: 'first',
    },
    { what: 'after an event between the two starts anew', held: { ...first, dirty: 7 }, outcome: 'first' },
    { what: 'after a write between the two starts anew', held: { ...first, write: 7 }, outcome: 'first' },
    {
      what: 'after an event that came once the absence was proven takes that back',
      held: { ...first, proven: true, dirty: 7 },
      outcome: 'first',
    },
    {
      what: 'without a witness proves nothing',
      held: first,
      over: { witnessedAt: null },
      outcome: 'unwitnessed',
    },
    {
      what: 'with a witness from before proves nothing',
      held: first,
      over: { witnessedAt: 189 },
      outcome: 'unwitnessed',
    },
    {
      what: 'with a witness that is too old by now proves nothing',
      held: first,
      over: { witnessedAt: 195, witnessFrom: 196 },
      outcome: 'unwitnessed',
    },
    {
      what: 'with a witness from before it alone proves nothing',
      held: first,
      over: { witnessedAfter: false },
      outcome: 'witnessed_before',
    },
    {
      what: 'with a witness as old as the first proves',
      held: first,
      over: { witnessedAt: 190 },
      outcome: 'proven',
    },
    {
      what: 'needs no witness when announced',
      held: { ...first, deleteEvent: 4 },
      over: { witnessedAt: null, witnessedAfter: false },
      outcome: 'proven',
    },
    {
      what: 'needs no witness when an operator has agreed to it',
      held: first,
      over: { witnessedAt: null, approved: true },
      outcome: 'proven',
    },
    {
      what: 'needs none where nothing is shown alive',
      held: first,
      over: { witnessedAt: null, row: null },
      outcome: 'proven',
    },
    {
      what: 'needs none for what is shown deleted already',
      held: first,
      over: { witnessedAt: null, row: tomb },
      outcome: 'proven',
    },
    {
      what: 'needs one in any case while there is one to be read',
      held: { ...first, deleteEvent: 4 },
      over: { witnessedAt: null, approved: true, patience: 1 },
      outcome: 'unwitnessed',
    },
    { what: 'for a verified tombstone is known', held: VERIFIED, over: { row: tomb }, outcome: 'known' },
    {
      what: 'for what is proven never to have been is known',
      held: VERIFIED,
      over: { row: null },
      outcome: 'known',
    },
    { what: 'for a verified live row is a first', held: VERIFIED, outcome: 'first' },
  ] as { what: string; held: Partial<RecordState>; over?: Parameters<typeof decide>[1]; outcome: string }[])(
    '$what',
    ({ held, over, outcome }) => {
      const decision = decide(held, over);
      expect(decision.outcome).toBe(outcome);
      expect(decision.state.proven).toBe(outcome === 'proven');
      if (outcome === 'first') expect(decision.state.dueAt!).toBeGreaterThan(read.beganAt);
      if (outcome === 'proven' || outcome === 'known') expect(decision.state.dueAt).toBeNull();
      if (outcome !== 'known') expect(decision.state.unverifiedSince).not.toBeNull();
    },
  );

  it('counts from its end, since a witness read meanwhile may have been answered before it, and is asked for again SETTLE after it and the last event', () => {
    expect(decide({ ...VERIFIED, dirty: 5 }).state).toMatchObject({ missingSince: 201, dueAt: 211 });
    const told = { returned: true, dirtyAt: 215 };
    expect(decide(told).state).toMatchObject({ missingSince: 201, dueAt: 225 });
  });
});

describe('a proven absence', () => {
  const alive = row({ id: 'x', name: 'Old' });
  const tomb = row({ id: 'x', name: 'Old' }, 'T');
  const given = state({ missingSince: 90, missingNumber: 5, proven: true, deleteEvent: 5, attempts: 3 });

  it.each([
    {
      what: 'of a living record buries it, with its content',
      held: alive,
      deletedAt: NOW_ISO,
      operation: 'delete',
    },
    { what: 'of a tombstone leaves it', held: tomb, deletedAt: null, operation: null },
    { what: 'of a record without a row makes none', held: null, deletedAt: null, operation: null },
  ])('$what', ({ held, deletedAt, operation }) => {
    const { row: shown, change } = decideTombstone({ state: given, row: held }, { steady: 200 }, NOW_ISO);
    expect(shown?.deletedAt ?? null).toBe(deletedAt);
    expect(shown?.name ?? null).toBe(deletedAt === null ? null : 'Old');
    expect(change?.operation ?? null).toBe(operation);
  });

  it('leaves nothing outstanding and nothing missing, and is no sign that the API has ever shown the record', () => {
    const after = decideTombstone({ state: given, row: alive }, { steady: 200 }, NOW_ISO).state;
    expect(after).toEqual({
      ...given,
      ...VERIFIED,
      missingSince: null,
      missingNumber: null,
      proven: false,
      deleteEvent: null,
      attempts: 0,
      confirmed: given.dirty,
      returned: false,
      readEndedAt: 200,
      addressReadAt: 200,
      readNumber: 5,
    });
    const later = { ...given, readEndedAt: 300 };
    expect(decideTombstone({ state: later, row: alive }, { steady: 200 }, NOW_ISO).state.readEndedAt).toBe(
      300,
    );
  });
});

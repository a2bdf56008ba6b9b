import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import { contentOf } from '../../src/mirror/merge.ts';
import { decideProvisional, type ProvisionalInput } from '../../src/mirror/provisional.ts';
import { decideApply, withoutCovered } from '../../src/mirror/reads.ts';
import { dueAt, type RecordState, standsInRow, UNKNOWN_STATE } from '../../src/mirror/state.ts';
import { NOW_ISO, row, SETTLE, state, TIMING, VERIFIED } from './states.ts';

describe('what an event need not save of a state', () => {
  const stored = state();
  const moved = (field: keyof RecordState): RecordState => ({
    ...stored,
    [field]: typeof stored[field] === 'boolean' ? !stored[field] : (Number(stored[field]) || 0) + 1,
  });

  it('is what stands in the row, and nothing else, whatever fields a state has', () => {
    const fields = Object.keys(UNKNOWN_STATE) as (keyof RecordState)[];
    const inRow = fields.filter((field) => standsInRow(stored, { state: moved(field), row: row({}) }));
    expect(inRow).toEqual(['write', 'provisionalCreated', 'shown']);
    expect(standsInRow(stored, { state: moved('provisionalCreated'), row: null })).toBe(false);
    expect(standsInRow(stored, { state: { ...stored }, row: null })).toBe(true);
  });
});

describe('when a record is due', () => {
  it.each([
    { what: 'never, with nothing outstanding', dirtyAt: null, firstDirtyAt: null, due: null },
    { what: 'SETTLE after its only dirty mark', dirtyAt: 100, firstDirtyAt: 100, due: 110 },
    { what: 'SETTLE after its latest dirty mark', dirtyAt: 130, firstDirtyAt: 100, due: 140 },
    { what: 'SETTLE after the latest, when both rules agree', dirtyAt: 150, firstDirtyAt: 100, due: 160 },
    { what: 'six SETTLEs after the earliest', dirtyAt: 151, firstDirtyAt: 100, due: 160 },
    {
      what: 'after its dirty mark, when the earliest is not known',
      dirtyAt: 130,
      firstDirtyAt: null,
      due: 140,
    },
  ])('is $what', ({ dirtyAt, firstDirtyAt, due }) => {
    expect(dueAt({ dirtyAt, firstDirtyAt }, TIMING)).toBe(due);
  });
});

describe('what an event shows', () => {
  const event = (over: Partial<ProvisionalInput> = {}): ProvisionalInput => ({
    seq: 5,
    type: 'policy.updated',
    kind: 'policy',
    createdMs: 500,
    receivedWall: 600,
    content: { name: 'New' },
    shows: true,
    ...over,
  });
  const settings = { eventsOnly: false, toleranceMs: 300, idFields: new Set(['id']) };
  const old = row({ id: 'x', name: 'Old' });
  const tomb = row({ id: 'x', name: 'Old' }, 'T');

  it.each([
    { what: 'shows a first payload', outcome: 'provisional', name: 'New' },
    { what: 'is laid over a row', held: { row: old }, outcome: 'provisional', name: 'New' },
    {
      what: 'shows a later event',
      held: { state: { provisionalCreated: 499 } },
      outcome: 'provisional',
      name: 'New',
    },
    { what: 'leaves a tie to the API', held: { state: { provisionalCreated: 500 } }, outcome: 'overtaken' },
    {
      what: 'takes a tie without the API',
      held: { state: { provisionalCreated: 500 } },
      only: true,
      outcome: 'provisional',
      name: 'New',
    },
    {
      what: 'stops at a later event, without the API too',
      held: { state: { provisionalCreated: 501 } },
      only: true,
      outcome: 'overtaken',
    },
    { what: 'stops at a verified record', held: { state: VERIFIED }, outcome: 'overtaken' },
    {
      what: 'stops at a read begun after its event',
      held: { state: { readNumber: 5 } },
      outcome: 'overtaken',
    },
    {
      what: 'goes on past a read begun before its event',
      held: { state: { readNumber: 4 } },
      outcome: 'provisional',
      name: 'New',
    },
    {
      what: 'stops at a row that was confirmed long after it',
      held: { verifiedWall: 801 },
      outcome: 'overtaken',
    },
    {
      what: 'goes on at a row confirmed within the tolerance',
      held: { verifiedWall: 800 },
      outcome: 'provisional',
      name: 'New',
    },
    {
      what: 'counts a far future as the tolerance after arrival',
      event: { createdMs: 99_999 },
      held: { state: { provisionalCreated: 900 } },
      outcome: 'overtaken',
    },
    {
      what: 'counts a near future as it is',
      event: { createdMs: 900 },
      held: { state: { provisionalCreated: 899 } },
      outcome: 'provisional',
      name: 'New',
    },
    { what: 'is a dirty mark when it shows nothing', event: { shows: false }, outcome: 'marked_dirty' },
    { what: 'makes no assessment', event: { kind: 'risk_assessment' }, outcome: 'marked_dirty' },
    {
      what: 'makes one without the API',
      event: { kind: 'risk_assessment' },
      only: true,
      outcome: 'provisional',
      name: 'New',
    },
    {
      what: 'is laid over an assessment',
      event: { kind: 'risk_assessment' },
      held: { row: old },
      outcome: 'provisional',
      name: 'New',
    },
    { what: 'revives nothing', held: { row: tomb }, outcome: 'marked_dirty' },
    { what: 'revives without the API', held: { row: tomb }, only: true, outcome: 'provisional', name: 'New' },
    {
      what: 'of a deletion buries',
      event: { type: 'policy.deleted' },
      held: { row: old },
      outcome: 'provisional',
      name: 'Old',
      deletedAt: NOW_ISO,
    },
    {
      what: 'of a deletion keeps an earlier tombstone',
      event: { type: 'policy.deleted' },
      held: { row: tomb },
      outcome: 'provisional',
      name: 'Old',
      deletedAt: 'T',
    },
    {
      what: 'of a deletion makes no row',
      event: { type: 'vendor.removed', kind: 'vendor' },
      outcome: 'marked_dirty',
    },
  ] as {
    what: string;
    event?: Partial<ProvisionalInput>;
    held?: { state?: Partial<RecordState>; row?: typeof old; verifiedWall?: number };
    only?: boolean;
    outcome: string;
    name?: string;
    deletedAt?: string;
  }[])('$what', (example) => {
    const held = {
      state: state(example.held?.state),
      row: example.held?.row ?? null,
      verifiedWall: example.held?.verifiedWall ?? null,
    };
    const decision = decideProvisional(
      event(example.event),
      held,
      { ...settings, eventsOnly: example.only ?? false },
      NOW_ISO,
    );
    expect(decision.outcome).toBe(example.outcome);
    expect(decision.row?.name).toBe(example.name);
    if (decision.row !== null) expect(decision.row.deletedAt).toBe(example.deletedAt ?? null);
    if (example.outcome === 'overtaken')
      expect(decision.state.provisionalCreated).toBe(Math.max(held.state.provisionalCreated ?? 0, 500));
  });

  it('notes the fields that it has changed, with the time of the last dirty mark, and no others', () => {
    const held = {
      state: state({ shown: { at: { owner: 90 }, was: {} } }),
      row: row({ name: 'Old', status: 'a', owner: 'Ann' }),
    };
    const shows = event({ content: { name: 'New', status: 'a', owner: 'Ann' } });
    const decision = decideProvisional(shows, { ...held, verifiedWall: null }, settings, NOW_ISO);
    expect(decision.state.shown).toEqual({ at: { owner: 90, name: 100 }, was: { name: 'Old' } });
  });

  it.each([
    { what: 'announces no deletion', type: 'policy.deleted', before: null },
    { what: 'takes back no announced deletion', type: 'policy.updated', before: 3 },
  ])('$what if a read that began after it has shown the record', ({ type, before }) => {
    const held = { state: state({ readNumber: 5, deleteEvent: before }), row: old, verifiedWall: null };
    expect(decideProvisional(event({ type }), held, settings, NOW_ISO).state.deleteEvent).toBe(before);
  });

  it.each([
    { type: 'policy.deleted', createdMs: 500, before: null, after: 5 },
    { type: 'policy.deleted', createdMs: 500, before: 3, after: 5 },
    { type: 'policy.deleted', createdMs: 499, before: null, after: null },
    { type: 'policy.updated', createdMs: 500, before: 3, after: 3 },
    { type: 'policy.updated', createdMs: 501, before: 3, after: null },
  ])(
    'of $type at $createdMs turns the announced deletion $before into $after',
    ({ type, createdMs, before, after }) => {
      const held = {
        state: state({ deleteEvent: before, provisionalCreated: 500 }),
        row: old,
        verifiedWall: null,
      };
      expect(decideProvisional(event({ type, createdMs }), held, settings, NOW_ISO).state.deleteEvent).toBe(
        after,
      );
    },
  );

  it('never writes a row for an event that a verified record or a later read covers', () => {
    const anyState = fc.record({
      readNumber: fc.nat(10),
      provisionalCreated: fc.option(fc.nat(1_000), { nil: null }),
      verified: fc.boolean(),
    });
    fc.assert(
      fc.property(
        anyState,
        fc.nat(10),
        fc.nat(1_000),
        fc.boolean(),
        fc.boolean(),
        (s, seq, createdMs, eventsOnly, deletes) => {
          const held = {
            state: state({
              readNumber: s.readNumber,
              provisionalCreated: s.provisionalCreated,
              ...(s.verified ? VERIFIED : {}),
            }),
            row: old,
            verifiedWall: null,
          };
          const type = deletes ? 'policy.deleted' : 'policy.updated';
          const decision = decideProvisional(
            event({ seq, createdMs, type }),
            held,
            { ...settings, eventsOnly },
            NOW_ISO,
          );
          if (s.verified || seq <= s.readNumber) expect(decision.row).toBeNull();
          if (s.provisionalCreated !== null && createdMs < s.provisionalCreated)
            expect(decision.row).toBeNull();
        },
      ),
    );
  });
});

describe('a row of a list', () => {
  const read = { number: 7, beganAt: 110, endedAt: 112, endedWall: 2_000, isOfList: true };
  const contacts = [{ id: 'c', mail: 'c@d.e' }];
  const held = row({ name: 'Old', notes: 'x', owner: { id: 'u', name: 'Jo' }, contacts });
  const apply = (kind: Kind, data: JsonObject, over: Partial<RecordState> = VERIFIED) =>
    decideApply(kind, data, read, { state: state({ returned: true, ...over }), row: held }, TIMING);

  it.each<[string, JsonObject]>([
    ['a field', { name: 'Old', owner: { id: 'u', name: 'Jo' }, contacts }],
    ['a field of an object', { name: 'Old', notes: 'x', owner: { id: 'u' }, contacts }],
    ['all of an object but its id', { name: 'Old', notes: 'x', owner: 'u', contacts }],
    ['an object', { name: 'Old', notes: 'x', owner: null, contacts }],
    ['all of a list’s objects but their ids', { ...held.data, contacts: ['c'] }],
  ])('that leaves out %s takes nothing away and confirms nothing', (_, data) => {
    expect(apply('vendor', data)).toMatchObject({
      outcome: 'unchanged',
      lacks: true,
      confirmed: false,
      row: null,
      change: null,
      state: { unverifiedSince: null },
    });
    const { state: open } = apply('vendor', data, {});
    expect(open).toMatchObject({ unverifiedSince: 1_000, dirtyAt: 100, dueAt: 110 });
  });

  it('that leaves out something and shows another thing otherwise is taken, and has the record looked at again', () => {
    expect(apply('vendor', { name: 'New', owner: { id: 'v' } })).toMatchObject({
      outcome: 'updated',
      lacks: true,
      confirmed: false,
      row: { name: 'New', data: { name: 'New', notes: 'x', owner: { id: 'v', name: 'Jo' }, contacts } },
      state: { unverifiedSince: read.endedWall, dueAt: read.endedAt + TIMING.settleMs },
    });
  });

  it('that leaves out something makes no deleted record alive, and has it looked at again', () => {
    const gone = row(held.data, NOW_ISO);
    const applied = (data: JsonObject, before: Partial<RecordState> = VERIFIED) =>
      decideApply('vendor', data, read, { state: state(before), row: gone }, TIMING);
    const dueAt = read.endedAt + TIMING.settleMs;
    const again = { unverifiedSince: read.endedWall, dueAt };
    expect(applied({ name: 'Old' })).toMatchObject({ outcome: 'deferred', row: null, state: again });
    const waiting = { ...VERIFIED, dirtyAt: 100, unverifiedSince: 1_000, dueAt: 110 };
    const still = { ...waiting, dirtyAt: read.endedAt, firstDirtyAt: read.endedAt };
    expect(applied({ name: 'Old' }, waiting)).toMatchObject({ outcome: 'deferred', state: still });
    expect(applied(held.data)).toMatchObject({ outcome: 'revived', state: { unverifiedSince: null } });
  });

  it.each<[string, Partial<RecordState>, 'deferred' | 'updated']>([
    ['less than 18 SETTLEs after it only has that asked', { addressReadAt: -69 }, 'deferred'],
    [
      'of a waiting record only has that asked when it is due',
      { ...state(), addressReadAt: -69 },
      'deferred',
    ],
    ['18 SETTLEs after it is taken', { addressReadAt: -70 }, 'updated'],
    ['is taken where it has never answered', { readEndedAt: 90 }, 'updated'],
  ])('that differs from what its own address has shown %s', (_, over, outcome) => {
    const applied = apply('vendor', { ...held.data, name: 'New' }, { ...VERIFIED, ...over });
    expect(applied.outcome).toBe(outcome);
    if (outcome === 'updated') return;
    // The time of the address stays: so a list that goes on differing is taken in the end.
    expect(applied).toMatchObject({ row: null, state: { addressReadAt: -69, readEndedAt: null } });
    expect(applied.state.unverifiedSince).toBe(over.unverifiedSince ?? read.endedWall);
    expect(applied.state.dueAt).toBe(over.dueAt ?? read.endedAt + TIMING.settleMs);
    // The address confirms nothing before it must show what this list did.
    expect(applied.state.dirtyAt).toBe(read.endedAt);
  });

  it('that differs from what its own address has just shown does not have reads begin anew that may be too early', () => {
    const early = { ...state(), returned: true, addressReadAt: 105, earlyAt: 105, dirtyAt: 90, dueAt: 165 };
    const applied = apply('vendor', { ...held.data, name: 'New' }, early);
    expect(applied).toMatchObject({ outcome: 'deferred', state: early });
  });

  it('leaves the time at which its record’s own address has answered', () => {
    const own = { ...read, isOfList: false };
    const times = (of: typeof read) =>
      decideApply('vendor', held.data, of, { state: state({ addressReadAt: 5 }), row: held }, TIMING).state
        .addressReadAt;
    expect(times(read)).toBe(5);
    expect(times(own)).toBe(own.endedAt);
  });

  it('that shows all that is held confirms it, more fields or not', () => {
    const whole = apply('vendor', { ...held.data, more: 1 }, {});
    expect(whole).toMatchObject({ outcome: 'updated', lacks: false, confirmed: true });
    expect(whole.state).toMatchObject({ unverifiedSince: null, dueAt: null });
  });

  it('that leaves out something and shows nothing else otherwise does not put off what its own address says', () => {
    const { state: after } = apply('vendor', { name: 'Old', notes: 'x', owner: { id: 'u' } }, {});
    const own = { number: 8, beganAt: 113, endedAt: 114, endedWall: 2_100 };
    const gone = decideApply('vendor', { name: 'Old', notes: 'x' }, own, { state: after, row: held }, TIMING);
    expect(gone).toMatchObject({ outcome: 'updated', confirmed: true, state: { unverifiedSince: null } });
  });

  it.each<[unknown, unknown, 'unchanged' | 'updated']>([
    ['5', 5, 'unchanged'],
    [true, 'true', 'unchanged'],
    ['2026-01-01T00:00:00Z', '2026-01-01', 'unchanged'],
    ['2026-01-01T01:00:00+01:00', '2026-01-01T00:00:00.000Z', 'unchanged'],
    [{ at: '2026-01-01', n: 5 }, { at: '2026-01-01T00:00:00Z', n: '5' }, 'unchanged'],
    ['5', 6, 'updated'],
    ['2026-01-02T00:00:00Z', '2026-01-01', 'updated'],
    // No zone, so only the service knows which instant this is.
    ['2026-01-01T00:00:00Z', '2026-01-01T00:00:00', 'updated'],
    ['2026-01-01T00:00:00.0001Z', '2026-01-01T00:00:00.0002Z', 'updated'],
    ['null', null, 'updated'],
  ])('leaves a verified %j as it is written, if it shows %j for it: %s', (own, listed, outcome) => {
    const held = row({ field: own });
    const applied = (over: Partial<RecordState>) =>
      decideApply('vendor', { field: listed }, read, { state: state(over), row: held }, TIMING);
    expect(applied(VERIFIED)).toMatchObject({ outcome, lacks: false, confirmed: true });
    // What an event has shown is not yet known to be what the record's own address shows.
    expect(applied({ returned: true }).row?.data).toEqual({ field: listed });
  });

  it('that leaves out what only events have shown is the first truth about it', () => {
    const first = apply('vendor', { name: 'Old' }, { returned: false });
    expect(first).toMatchObject({ lacks: false, confirmed: true, row: { data: { name: 'Old' } } });
  });

  it('of policies, which have no address of their own, shows what is gone', () => {
    const { row: after, lacks } = apply('policy', { name: 'Old' });
    expect(after?.data).toEqual({ name: 'Old' });
    expect(lacks).toBe(false);
  });

  it('is laid over the row as an answer of its own address would not be', () => {
    const own = { ...read, isOfList: false };
    const { row: after } = decideApply('vendor', { name: 'Old' }, own, { state: state(), row: held }, TIMING);
    expect(after?.data).toEqual({ name: 'Old' });
  });
});

describe('a read', () => {
  const read = { number: 7, beganAt: 110, endedAt: 112, endedWall: 2_000 };
  const old = row({ name: 'Old' });
  const apply = (data: JsonObject, held: { state?: Partial<RecordState>; row?: typeof old | null } = {}) =>
    decideApply(
      'policy',
      data,
      read,
      { state: state(held.state), row: held.row === undefined ? old : held.row },
      TIMING,
    );

  it.each([
    { what: 'inserts', held: { row: null }, data: { name: 'New' }, outcome: 'inserted', open: false },
    { what: 'updates and covers', data: { name: 'New' }, outcome: 'updated', open: false },
    { what: 'confirms', data: { name: 'Old' }, outcome: 'unchanged', open: false },
    {
      what: 'restores',
      held: { row: row({ name: 'Old' }, 'T') },
      data: { name: 'Old' },
      outcome: 'revived',
      open: false,
    },
    {
      what: 'leaves open a dirty mark less than SETTLE older',
      held: { state: { dirtyAt: 101 } },
      data: { name: 'New' },
      outcome: 'updated',
      open: true,
    },
    {
      what: 'is refused by a newer row',
      held: { state: { write: 8 } },
      data: { name: 'New' },
      outcome: 'refused',
      open: true,
    },
    {
      what: 'that differs from what one begun no later has written since is looked at again',
      held: { state: { write: 8, readNumber: 7, dirtyAt: null, unverifiedSince: null, dueAt: null } },
      data: { name: 'New' },
      outcome: 'refused',
      open: true,
    },
    {
      what: 'that differs from what one begun after it has written is the older one',
      held: { state: { write: 9, readNumber: 8, dirtyAt: null, unverifiedSince: null, dueAt: null } },
      data: { name: 'New' },
      outcome: 'refused',
      open: false,
    },
    {
      what: 'that agrees with what one begun no later has written is settled',
      held: { state: { write: 8, readNumber: 6, dirtyAt: null, unverifiedSince: null, dueAt: null } },
      data: { name: 'Old' },
      outcome: 'refused',
      open: false,
    },
    {
      what: 'is applied over a row written as it began',
      held: { state: { write: 7 } },
      data: { name: 'New' },
      outcome: 'updated',
      open: false,
    },
    {
      what: 'is refused a third time',
      held: { state: { write: 8, refusals: 2 } },
      data: { name: 'New' },
      outcome: 'refused',
      open: true,
    },
    {
      what: 'is applied after three refusals, and proves nothing',
      held: { state: { write: 8, refusals: 3 } },
      data: { name: 'New' },
      outcome: 'updated',
      open: true,
    },
    {
      what: 'is deferred too close to another',
      held: { state: { readEndedAt: 101 } },
      data: { name: 'New' },
      outcome: 'deferred',
      open: true,
    },
    {
      what: 'may follow SETTLE after another',
      held: { state: { readEndedAt: 100 } },
      data: { name: 'New' },
      outcome: 'updated',
      open: false,
    },
    {
      what: 'that agrees may follow at once',
      held: { state: { readEndedAt: 109 } },
      data: { name: 'Old' },
      outcome: 'unchanged',
      open: false,
    },
    {
      what: 'of life right after an announced deletion is deferred',
      held: { row: row({ name: 'Old' }, 'T'), state: { deleteEvent: 5, dirtyAt: 101 } },
      data: { name: 'Old' },
      outcome: 'deferred',
      open: true,
    },
    {
      what: 'of another version right after an announced deletion that the row does not show is deferred',
      held: { state: { deleteEvent: 5, dirtyAt: 101 } },
      data: { name: 'New' },
      outcome: 'deferred',
      open: true,
    },
    {
      what: 'of life SETTLE after an announced deletion is believed',
      held: { row: row({ name: 'Old' }, 'T'), state: { deleteEvent: 5, dirtyAt: 100 } },
      data: { name: 'Old' },
      outcome: 'revived',
      open: false,
    },
  ] as {
    what: string;
    held?: Parameters<typeof apply>[1];
    data: JsonObject;
    outcome: string;
    open: boolean;
  }[])('$what', ({ held, data, outcome, open }) => {
    const decision = apply(data, held);
    expect(decision.outcome).toBe(outcome);
    expect(decision.state.unverifiedSince !== null).toBe(open);
    expect(decision.state.dueAt !== null).toBe(open);
    const applied = !['refused', 'deferred'].includes(outcome);
    expect(decision.confirmed).toBe(applied);
    expect(decision.row?.name).toBe(applied && decision.change !== null ? data['name'] : undefined);
  });

  it('that agrees takes nothing back of one begun after it, which was applied before', () => {
    const later = { readNumber: 9, write: 5 };
    expect(apply({ name: 'Old' }, { state: later }).state.readNumber).toBe(9);
    expect(apply({ name: 'Old' }, { state: { readNumber: 6 } }).state.readNumber).toBe(7);
  });

  it('that a list shows late leaves the end of the last read as it is, and no clock that was set back does', () => {
    const endOf = (held: Partial<RecordState>, of: object = {}) =>
      decideApply('policy', { name: 'Old' }, { ...read, ...of }, { state: state(held), row: old }, TIMING)
        .state.readEndedAt;
    const later = { readNumber: 9, readEndedAt: 130 };
    expect(endOf(later)).toBe(130);
    expect(endOf(later, { endedAt: 140 })).toBe(140);
    expect(endOf({ readNumber: 6, readEndedAt: 130 })).toBe(112);
  });

  it('that is older than a verified row counts as no refusal', () => {
    expect(apply({ name: 'Read' }, { state: { ...VERIFIED, write: 8 } })).toMatchObject({
      outcome: 'refused',
      state: { refusals: 0 },
    });
  });

  describe.each([
    { markedDirty: 101, says: 'keeps what an event has shown less than SETTLE before it began' },
    { markedDirty: 100, says: 'is newer than what an event has shown SETTLE before it began' },
  ])('begun at 110, of an event at $marked dirty', ({ markedDirty, says }) => {
    const told = row({ name: 'Told', owner: 'Ann', note: 'old' });
    const held = {
      state: { dirtyAt: markedDirty, shown: { at: { name: markedDirty }, was: { name: 'Before' } } },
      row: told,
    };

    it(says, () => {
      const decision = apply({ name: 'Old', owner: 'Bob' }, held);
      expect(decision.row?.data).toEqual({ name: markedDirty > 100 ? 'Told' : 'Old', owner: 'Bob' });
      expect(decision.row?.name).toBe(markedDirty > 100 ? 'Told' : 'Old');
      expect(decision.state.shown).toEqual(
        markedDirty > 100 ? { at: { name: 101 }, was: { name: 'Old' } } : null,
      );
      expect(decision.state.unverifiedSince === null).toBe(markedDirty <= 100);
    });
  });

  it('that is older than the last one does not say what was there before the event', () => {
    const shown = { at: { name: 105 }, was: { name: 'Read' } };
    const held = { state: { dirtyAt: 105, shown, readNumber: 8 }, row: row({ name: 'Told' }) };
    expect(apply({ name: 'Long ago' }, held).state.shown).toEqual(shown);
  });

  it('keeps only what events have shown lately, however often others tell of the record', () => {
    const held = {
      state: { dirtyAt: 105, shown: { at: { name: 50, status: 105 }, was: {} } },
      row: row({ name: 'A', status: 'b' }),
    };
    expect(apply({ name: 'New', status: 'a' }, held)).toMatchObject({
      outcome: 'updated',
      row: { data: { name: 'New', status: 'b' } },
      state: { shown: { at: { status: 105 }, was: { status: 'a' } } },
    });
  });

  it('that verifies a record shows it as it was read, whatever a clock has made of the times before', () => {
    fc.assert(
      fc.property(fc.nat(200), fc.nat(400), fc.nat(300), (dirtyAt, at, beganAt) => {
        const held = { state: state({ dirtyAt, shown: { at: { name: at }, was: {} } }), row: old };
        const decision = decideApply('policy', { name: 'Read' }, { ...read, beganAt }, held, TIMING);
        if (decision.state.unverifiedSince === null) expect(decision.row?.data).toEqual({ name: 'Read' });
        if (decision.state.unverifiedSince === null) expect(decision.state.shown).toBeNull();
      }),
    );
  });

  it('that is applied forgets absence, announced deletions, refusals and failures', () => {
    const held = {
      missingSince: 90,
      missingNumber: 4,
      proven: true,
      deleteEvent: 3,
      refusals: 2,
      attempts: 4,
    };
    expect(apply({ name: 'Old' }, { state: held }).state).toMatchObject({
      missingSince: null,
      missingNumber: null,
      proven: false,
      deleteEvent: null,
      refusals: 0,
      attempts: 0,
      readNumber: 7,
      readEndedAt: 112,
      returned: true,
    });
  });

  it('that is deferred has shown that the id is of such a record, so that a 404 after it is about one', () => {
    const held = { ...VERIFIED, returned: false, readEndedAt: 109 };
    expect(apply({ name: 'New' }, { state: held }).state).toMatchObject({ returned: true });
  });

  it('that is deferred is made again SETTLE after it ended, or after an event that came since', () => {
    const { state: next } = apply({ name: 'New' }, { state: { ...VERIFIED, readEndedAt: 109 } });
    expect(next).toMatchObject({ dirtyAt: 112, firstDirtyAt: 112, unverifiedSince: 2_000, dueAt: 122 });
    const told = apply({ name: 'New' }, { state: { dirtyAt: 115, readEndedAt: 109 } }).state;
    expect(told).toMatchObject({ dirtyAt: 115, firstDirtyAt: 100, dueAt: 125 });
  });

  it('covers exactly the dirty marks that are SETTLE older than its beginning', () => {
    fc.assert(
      fc.property(fc.nat(200), fc.nat(200), fc.nat(200), (first, later, beganAt) => {
        const held = state({ firstDirtyAt: first, dirtyAt: first + later });
        const next = withoutCovered(held, { beganAt }, TIMING);
        expect(next.unverifiedSince === null).toBe(first + later + SETTLE <= beganAt);
        if (next.unverifiedSince === null)
          expect(next).toMatchObject({ dirtyAt: null, firstDirtyAt: null, dueAt: null });
        else expect(next.firstDirtyAt!).toBe(Math.max(first, beganAt - SETTLE));
        if (next.dirtyAt !== null) expect(next.firstDirtyAt!).toBeLessThanOrEqual(next.dirtyAt);
      }),
    );
  });
});

describe('a read that comes too soon to be believed', () => {
  it('is repeated no sooner than SETTLE later, however long the record has waited already', () => {
    const timing = { settleMs: 1_000 };
    const read = { number: 9, beganAt: 100_000, endedAt: 100_050, endedWall: 100_050 };
    const row = contentOf('vendor', { id: 'v', name: 'as it was' }, '2026-11-01T00:00:00.000Z');
    const state = {
      ...UNKNOWN_STATE,
      dirtyAt: 99_900,
      firstDirtyAt: 1,
      unverifiedSince: 1,
      deleteEvent: 5,
      returned: true,
    };
    const decision = decideApply('vendor', { id: 'v', name: 'as it is' }, read, { state, row }, timing);
    expect(decision.outcome).toBe('deferred');
    expect(decision.state.dueAt).toBe(101_050);
  });
});

describe('an answer of a record’s own address', () => {
  const known = { id: 'v1', name: 'Acme', status: 'active', tier: null };
  const read = { number: 7, beganAt: 200, endedAt: 202, endedWall: 2_000 };
  const held = { state: state(VERIFIED), row: contentOf('vendor', known, null) };
  const outcome = (answer: JsonObject, over: object = {}, kind: Kind = 'vendor') =>
    decideApply(kind, { id: 'v1', ...answer }, { ...read, ...over }, held, TIMING).outcome;

  it.each<[JsonObject, boolean]>([
    [{}, true],
    [{ name: null, status: '', tier: 3 }, true],
    [{ object: 'vendor', self: '/vendors/v1', vendorId: 'v1' }, true],
    [{ __type: 'ThrottlingException', message: 'slow' }, true],
    [{ status: 'closed' }, false],
    [{ name: '', status: 0 }, false],
    // Of a list that shows a part under other names.
    [{ title: 'Acme', state: 'active', owner: 'Ann' }, false],
  ])('of which nothing is left is not the record: %j', (answer, isUnlike) => {
    expect(outcome(answer) === 'unlike').toBe(isUnlike);
    expect(outcome(answer, { isOfList: true })).not.toBe('unlike');
    expect(outcome(answer, {}, 'policy')).not.toBe('unlike');
  });

  it('is the record if none was read before, or nothing is known but an id', () => {
    for (const before of [null, contentOf('vendor', { id: 'v1' }, null), contentOf('vendor', known, NOW_ISO)])
      expect(decideApply('vendor', { id: 'v1' }, read, { ...held, row: before }, TIMING).outcome).not.toBe(
        'unlike',
      );
  });
});

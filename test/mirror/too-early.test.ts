import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import { decideMissing, decideUnlisted } from '../../src/mirror/deletions.ts';
import { decideProvisional } from '../../src/mirror/provisional.ts';
import { decideApply } from '../../src/mirror/reads.ts';
import type { Mirrored, RecordState } from '../../src/mirror/state.ts';
import { NOW_ISO, row, SETTLE, state, TIMING } from './states.ts';

/**
 * Reads that show only what was confirmed before the newest event: the API may not have its change yet. The event was accepted at 100, under
 * number 5; SETTLE is 10.
 */

const OLD = { id: 'p', name: 'Old', status: 'draft' };
const TOLD = { id: 'p', name: 'Told', status: 'draft' };

const waiting = (over: Partial<RecordState> = {}): RecordState =>
  state({ returned: true, confirmed: 4, provisionalCreated: 50, ...over });
const SHOWN = { at: { name: 100 }, was: { name: 'Old' } };
/** The event has shown another name; or nothing but the id. */
const told = (over: Partial<RecordState> = {}): Mirrored => ({
  state: waiting({ shown: SHOWN, ...over }),
  row: row(TOLD),
});
const thin = (over: Partial<RecordState> = {}): Mirrored => ({ state: waiting(over), row: row(OLD) });

const apply = (beganAt: number, data: JsonObject, held: Mirrored) =>
  decideApply('policy', data, { number: 7, beganAt, endedAt: beganAt + 2, endedWall: 2_000 }, held, TIMING);

describe('a read of what an event was about', () => {
  it.each<{ what: string; at: number; data: JsonObject; held: Mirrored; verified: boolean; dueAt?: number }>([
    { what: 'that shows the old state waits', at: 110, data: OLD, held: told(), verified: false, dueAt: 170 },
    {
      what: 'waits after an event without content too',
      at: 110,
      data: OLD,
      held: thin(),
      verified: false,
      dueAt: 170,
    },
    { what: 'that shows what the event has shown counts', at: 110, data: TOLD, held: told(), verified: true },
    {
      what: 'that shows a third state counts',
      at: 110,
      data: { ...OLD, name: 'Third' },
      held: told(),
      verified: true,
    },
    {
      what: 'that shows a third state counts after an event without content too',
      at: 110,
      data: { ...OLD, status: 'approved' },
      held: thin(),
      verified: true,
    },
    {
      what: 'that shows the old value of what the event has changed waits, whatever else differs',
      at: 110,
      data: { ...OLD, link: 'signed anew' },
      held: told(),
      verified: false,
      dueAt: 170,
    },
    {
      what: 'that differs elsewhere counts if what the event has shown was never in a read',
      at: 110,
      data: { ...OLD, link: 'signed anew' },
      held: told({ shown: { at: { actor: 100 }, was: {} } }),
      verified: true,
    },
    {
      what: 'waits for the second time',
      at: 115,
      data: OLD,
      held: told({ earlyAt: 110 }),
      verified: false,
      dueAt: 170,
    },
    {
      what: 'waits for the third',
      at: 170,
      data: OLD,
      held: told({ earlyAt: 110 }),
      verified: false,
      dueAt: 290,
    },
    {
      what: 'waits no longer than that',
      at: 289,
      data: OLD,
      held: told({ earlyAt: 110 }),
      verified: false,
      dueAt: 290,
    },
    { what: 'counts then', at: 290, data: OLD, held: told({ earlyAt: 110 }), verified: true },
    {
      what: 'begins to wait anew after another event',
      at: 300,
      data: OLD,
      held: told({ earlyAt: 110, dirtyAt: 285, dirty: 6 }),
      verified: false,
      dueAt: 360,
    },
    {
      what: 'counts if the API has moved since the event',
      at: 110,
      data: OLD,
      held: thin({ movedAt: 101 }),
      verified: true,
    },
    {
      what: 'waits if the API has moved only before it',
      at: 110,
      data: OLD,
      held: thin({ movedAt: 99 }),
      verified: false,
      dueAt: 170,
    },
    { what: 'counts where no event waits', at: 110, data: OLD, held: thin({ confirmed: 5 }), verified: true },
  ])('$what', ({ at, data, held, verified, dueAt }) => {
    const decision = apply(at, data, held);
    expect(decision.state.unverifiedSince === null).toBe(verified);
    expect(decision.confirmed).toBe(verified);
    if (verified) {
      expect(decision.state).toMatchObject({ confirmed: held.state.dirty, earlyAt: null, movedAt: null });
      return;
    }
    // What the event has shown stays: a follower of the feed would see it taken back.
    expect(decision).toMatchObject({ outcome: 'unchanged', row: null, change: null });
    expect(decision.state).toMatchObject({ dueAt, returned: true, shown: held.state.shown });
  });

  it('too soon after the event notes that the API has moved, and only then the next such read counts', () => {
    const first = apply(105, { ...OLD, status: 'approved' }, thin());
    expect(first.state).toMatchObject({ movedAt: 105, unverifiedSince: 1_000 });
    const held = { state: first.state, row: first.row };
    expect(apply(120, { ...OLD, status: 'approved' }, held).state.unverifiedSince).toBeNull();
  });

  it.each([
    ['behind, and several events wait, is shown and repeated', { earlyAt: 95, firstDirtyAt: 90 }, false],
    ['behind, and one event waits, counts', { earlyAt: 95 }, true],
    ['not behind counts, however many events wait', { firstDirtyAt: 90 }, true],
  ])('that shows a third state where the API was %s', (_, over, verified) => {
    const data = { ...OLD, status: 'between' };
    const decision = apply(110, data, thin(over));
    expect(decision).toMatchObject({ outcome: 'updated', row: { data }, confirmed: verified });
    expect(decision.state.unverifiedSince === null).toBe(verified);
    if (verified) return;
    expect(decision.state).toMatchObject({ earlyAt: 110, dueAt: 170 });
    const next = { state: decision.state, row: decision.row };
    expect(apply(170, data, next).state.dueAt).toBe(290);
    expect(apply(290, { ...OLD, status: 'last' }, next).state.unverifiedSince).toBeNull();
  });

  it('that is too close to another when it would count is repeated once the distance is there, and counts then', () => {
    const held = told({ earlyAt: 110, readEndedAt: 285 });
    const close = apply(290, OLD, held);
    expect(close).toMatchObject({ outcome: 'deferred', state: { earlyAt: 110, dirtyAt: 100, dueAt: 302 } });
    const again = apply(302, OLD, { state: close.state, row: held.row });
    expect(again).toMatchObject({ outcome: 'updated', state: { unverifiedSince: null } });
  });

  it('that shows what the last of several events has shown counts, although the API was behind', () => {
    const held = told({ earlyAt: 95, firstDirtyAt: 90 });
    expect(apply(110, TOLD, held)).toMatchObject({ confirmed: true, state: { unverifiedSince: null } });
  });

  it('that still shows a record whose deletion was announced waits, and shows it alive only in the end', () => {
    const shown = { at: {}, was: {}, wasAlive: true } as const;
    const gone: Mirrored = { state: waiting({ deleteEvent: 5, shown }), row: row(OLD, NOW_ISO) };
    expect(apply(110, OLD, gone)).toMatchObject({ outcome: 'unchanged', state: { earlyAt: 110 } });
    const still = { ...gone, state: { ...gone.state, earlyAt: 110 } };
    expect(apply(290, OLD, still)).toMatchObject({ outcome: 'revived', state: { unverifiedSince: null } });
    expect(apply(110, { ...OLD, link: 'signed anew' }, gone)).toMatchObject({ outcome: 'unchanged' });
  });

  it('of a list, which leaves out what only the event has shown, takes nothing back', () => {
    const shown = { at: { name: 100, note: 100 }, was: { name: 'Old' } };
    const held: Mirrored = { state: waiting({ shown }), row: row({ ...TOLD, note: 'new' }) };
    const read = { number: 7, beganAt: 110, endedAt: 112, endedWall: 2_000, isOfList: true };
    const decision = decideApply('vendor', OLD, read, held, TIMING);
    expect(decision).toMatchObject({
      outcome: 'unchanged',
      row: null,
      lacks: false,
      state: { earlyAt: 110, shown },
    });
  });

  it('of a list, which leaves out the field that has changed, does not put off what its own address says', () => {
    const listed = { number: 7, beganAt: 110, endedAt: 112, endedWall: 2_000, isOfList: true };
    const { state: after } = decideApply('vendor', { id: 'p', name: 'Old' }, listed, thin(), TIMING);
    expect(after.earlyAt).toBe(110);
    const own = { number: 8, beganAt: 113, endedAt: 114, endedWall: 2_002 };
    const decision = decideApply(
      'vendor',
      { ...OLD, status: 'done' },
      own,
      { ...thin(), state: after },
      TIMING,
    );
    expect(decision).toMatchObject({ outcome: 'updated', confirmed: true, state: { unverifiedSince: null } });
  });

  it('that shows a record as it was before its deletion and its return were announced waits', () => {
    const shown = { at: {}, was: {}, wasAlive: true } as const;
    const back: Mirrored = { state: waiting({ shown }), row: row(OLD, NOW_ISO) };
    expect(apply(110, OLD, back)).toMatchObject({ outcome: 'unchanged', state: { earlyAt: 110 } });
    expect(apply(110, { ...OLD, name: 'Back' }, back)).toMatchObject({ outcome: 'revived' });
  });

  it('knows what was there below what two events have shown, one after the other', () => {
    const settings = { eventsOnly: false, toleranceMs: 300, idFields: new Set(['id']) };
    const shows = (seq: number, content: JsonObject, { state: was, row: shown }: Mirrored): Mirrored => {
      const event = {
        seq,
        type: 'policy.updated',
        kind: 'policy' as const,
        createdMs: seq,
        receivedWall: 600,
      };
      const held = { state: { ...was, dirty: seq }, row: shown, verifiedWall: null };
      const decision = decideProvisional({ ...event, content, shows: true }, held, settings, NOW_ISO);
      return { state: decision.state, row: decision.row };
    };
    const one = shows(60, { id: 'p', name: 'Told', owner: 'Ann' }, thin());
    const two = shows(61, { id: 'p', name: 'Told again', status: 'approved' }, one);
    expect(two.row?.data).toEqual({ id: 'p', name: 'Told again', status: 'approved', owner: 'Ann' });
    expect(apply(110, OLD, two)).toMatchObject({ outcome: 'unchanged', state: { earlyAt: 110 } });
    // The API has the first event, and not yet the second.
    expect(apply(110, { ...OLD, name: 'Told', owner: 'Ann' }, two)).toMatchObject({ outcome: 'unchanged' });
    expect(apply(110, { ...OLD, name: 'Third', owner: 'Ann' }, two)).toMatchObject({ outcome: 'updated' });
  });

  it('that differs only in fields that are no difference waits too, and stores them when it counts', () => {
    const rules = { fields: [], ignored: [{ kind: null, path: 'links.file' }], deleted: [] };
    const pointers = { policy: ['id'], risk_assessment: ['id'], vendor: ['id'], rules };
    const signed = (key: string) => ({ ...OLD, links: { file: `https://x/?sig=${key}`, self: 's' } });
    const held = (over: Partial<RecordState>): Mirrored => ({ state: waiting(over), row: row(signed('a')) });
    const read = { number: 7, beganAt: 110, endedAt: 112, endedWall: 2_000 };
    const decide = (over: Partial<RecordState>) =>
      decideApply('policy', signed('b'), read, held(over), TIMING, pointers);
    expect(decide({})).toMatchObject({ outcome: 'unchanged', state: { earlyAt: 110 }, row: null });
    const counted = decide({ confirmed: 5 });
    expect(counted).toMatchObject({ outcome: 'unchanged', change: null, confirmed: true });
    expect(counted.row?.data).toEqual(signed('b'));
  });
});

describe('that a record is not there', () => {
  const read = { number: 7, beganAt: 110, endedAt: 112, endedWall: 2_000 };
  const WITNESSED = { witnessedAt: 109, witnessedAfter: true, absentFromList: false };
  const CREATED: Mirrored = { state: waiting({ returned: false, confirmed: 0 }), row: row(TOLD) };
  const TOMBSTONE: Mirrored = { state: waiting(), row: row(OLD, NOW_ISO) };

  it.each<[string, Mirrored, boolean]>([
    ['no read has shown it yet', CREATED, true],
    ['it has no row either', { ...CREATED, row: null }, true],
    ['it was deleted before', TOMBSTONE, true],
    ['it was alive before', thin(), false],
    ['its deletion was announced', { ...thin(), state: waiting({ deleteEvent: 5 }) }, false],
    ['no event waits', { ...CREATED, state: { ...CREATED.state, confirmed: 5 } }, false],
  ])('is no proof while the API may not have the event yet, if %s: %#', (_, held, isEarly) => {
    const unlisted = decideUnlisted(held, read, TIMING);
    expect(unlisted === null).toBe(!isEarly);
    if (unlisted !== null)
      expect(unlisted).toMatchObject({ earlyAt: 110, dueAt: 170, unverifiedSince: 1_000 });
    const missing = decideMissing(read, held, WITNESSED, TIMING);
    expect(missing.state.earlyAt).toBe(isEarly ? 110 : null);
    const later = { ...read, beganAt: 110 + 18 * SETTLE };
    const waited = { ...held, state: { ...held.state, earlyAt: 110 } };
    expect(decideUnlisted(waited, later, TIMING)).toBeNull();
    // Whatever the event says, a scan that is no read of it proves nothing.
    const tooOld = { beganAt: held.state.dirtyAt! + SETTLE - 1 };
    expect(decideUnlisted(held, tooOld, TIMING)).toBe(held.state);
    expect(decideMissing(later, waited, WITNESSED, TIMING).state.dueAt).not.toBe(170);
  });
});

import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { approveDeletions } from '../support/approve-deletions.ts';
import { fill } from '../support/independent-upstream-records.ts';
import { alive } from './compare.ts';
import { createStage, type Stage } from './stage.ts';

let stage: Stage;

beforeEach(async () => {
  stage = await createStage({ SYNC_FULL_MINUTES: '10000' });
});
afterEach(() => stage.end());

/** Waits for a person, and not for the next proof. */
const pending = async () => {
  const asked = (await stage.problems()).find(
    ({ reason, resolved_at, needs }) =>
      reason === 'pending_deletions' && resolved_at === null && needs === 'you',
  );
  if (asked === undefined) return null;
  const path = `/api/records/${asked.kind}?deletion_pending=true&limit=500`;
  return { kind: asked.kind, count: (await stage.get<{ items: unknown[] }>(path)).items.length };
};
const isPending = async () =>
  (await stage.problems()).some(
    (problem) => problem.reason === 'pending_deletions' && problem.resolved_at === null,
  );

async function startInSync(): Promise<void> {
  await stage.start();
  await stage.leapUntil('first equality', () => stage.compare().differences.length === 0);
  await stage.leapUntil('end of the start’s full syncs', syncRunsEnded);
}
async function syncRunsEnded(): Promise<boolean> {
  const { items } = await stage.get<{ items: { outcome: string | null }[] }>('/api/syncs');
  return items.length >= 3 && items.every(({ outcome }) => outcome !== null);
}

it('the problem of pending deletions stays open from the approval to the deletion', async () => {
  await startInSync();
  const { records } = stage.upstream;
  const gone = ['ven-0', 'ven-1', 'ven-2', 'ven-3', 'ven-4'];
  for (const id of gone) records.remove('vendors', id);
  await stage.post('/api/syncs', { kinds: ['vendor'] });
  await stage.leapUntil('pending deletions', pending);
  await stage.leapUntil('the problem', isPending);
  await stage.leapUntil('end of the full sync', syncRunsEnded);

  // The proof that would use the approval cannot be had, while that of another record can.
  stage.upstream.faultOf = ({ path }) =>
    path.includes('/vendors?') || gone.some((id) => path.endsWith(`/${id}`))
      ? { fault: 'status', status: 503 }
      : null;
  await approveDeletions(stage);
  await stage.leapUntil('the approval', async () => (await pending()) === null);
  const other = records.find('vendors', 'ven-9')!;
  records.remove('vendors', 'ven-9');
  await stage.tell('vendor.removed', 'vendors', other);
  await stage.leapUntil('the end of the other', () => verifiedTombstones() === 1);
  expect(await isPending()).toBe(true);
  expect(alive(stage.database, 'vendors')).toBe(11);

  stage.upstream.faultOf = () => null;
  await stage.leapUntil('the deletion', () => verifiedTombstones() === 6);
  await stage.leapUntil('the resolving', async () => !(await isPending()));
});

it('deletions that wait are looked at again within minutes, so that a passing fault needs no person', async () => {
  await startInSync();
  const { records } = stage.upstream;
  const gone = ['ven-0', 'ven-1', 'ven-2', 'ven-3', 'ven-4'].map((id) => records.find('vendors', id)!);
  for (const { id } of gone) records.remove('vendors', id);
  await stage.post('/api/syncs', { kinds: ['vendor'] });
  await stage.leapUntil('pending deletions', pending);
  await stage.leapUntil('the problem', isPending);
  const before = (await pending())!;
  const looks = async () =>
    (await stage.get<{ items: { kind: string }[] }>('/api/syncs')).items.filter(
      ({ kind }) => kind === 'vendor',
    ).length;
  const looked = await looks();
  await stage.leapUntil('two looks that find the same', async () => (await looks()) >= looked + 2, 5_000);
  await stage.leapUntil('their end', syncRunsEnded);
  expect(await pending()).toEqual(before);

  for (const content of gone) records.put('vendors', content);
  await stage.leapUntil('the resolving', async () => !(await isPending()), 5_000);
  await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
  await stage.leapUntil('their end', syncRunsEnded);

  // Nothing waits any more, and so the next one comes with the timer.
  const last = await looks();
  const until = stage.seconds() + 5 * 60;
  await stage.leapUntil('five minutes', () => stage.seconds() >= until, 5_000);
  expect(await looks()).toBe(last);
});

function verifiedTombstones(): number {
  const db = new DatabaseSync(stage.database, { readOnly: true, timeout: 5_000 });
  try {
    const sql = 'SELECT count(*) AS n FROM vendors WHERE deleted_at IS NOT NULL AND unverified_since IS NULL';
    return Number(db.prepare(sql).get()?.['n']);
  } finally {
    db.close();
  }
}

function idsIn(sql: string): string[] {
  const db = new DatabaseSync(stage.database, { readOnly: true, timeout: 5_000 });
  try {
    return db
      .prepare(`SELECT id FROM record_state WHERE ${sql}`)
      .all()
      .map((row) => String(row['id']));
  } finally {
    db.close();
  }
}

const KNOWN = "kind = 'risk_assessment' AND returned AND unverified_since IS NULL";

/** Makes so many assessments, and waits until the mirror has read them. */
async function readAssessments(assessments: number): Promise<string[]> {
  const { records } = stage.upstream;
  fill(records, { policies: 0, assessments, vendors: 0 });
  const ids = records.ids('assessments');
  await stage.post('/api/syncs', { kind: 'risk_assessment', ids });
  await stage.leapUntil('all assessments', () => idsIn(KNOWN).length === assessments);
  return ids;
}

it('assessments that are gone are judged together, however long their full sync takes', async () => {
  const { upstream } = stage;
  await startInSync();
  await readAssessments(208);

  // Each part is few enough to be deleted by itself. The full sync reads a hundred at a time.
  const inOrder = idsIn(`${KNOWN} ORDER BY read_number, id`);
  const early = inOrder.slice(0, 39);
  // The last four live: the latest read is the first to be asked for as a witness.
  for (const id of [...early, ...inOrder.slice(200, 204)]) upstream.records.remove('assessments', id);
  const isOver = Promise.withResolvers<void>();
  upstream.faultOf = ({ path }) =>
    path.endsWith(`/${inOrder[150]}`) ? { fault: 'held', until: isOver.promise } : null;
  await stage.post('/api/syncs', { kinds: ['risk_assessment'] });
  const left = () => alive(stage.database, 'assessments') - idsIn('proven').length;
  await stage.leapUntil('proofs', () => left() === 208 - early.length, 250);
  upstream.faultOf = () => null;
  isOver.resolve();
  const waiting = await stage.leapUntil('pending deletions', pending);
  expect(waiting).toMatchObject({ kind: 'risk_assessment', count: 43 });
  expect(alive(stage.database, 'assessments')).toBe(208);
});

it('assessments that are found gone after events about them are judged together, however long the last proofs take', async () => {
  const { upstream } = stage;
  await startInSync();
  const ids = await readAssessments(12);

  // The first two are few enough to be deleted by themselves.
  const gone = ids.slice(0, 5);
  for (const id of gone) {
    const record = upstream.records.find('assessments', id)!;
    await stage.tell('risk.assessed', 'assessments', record);
    upstream.records.remove('assessments', id);
  }
  await stage.leapUntil('a first 404 of each', () => idsIn('missing_since IS NOT NULL').length === 5, 50);
  const isOver = Promise.withResolvers<void>();
  upstream.faultOf = ({ path }) =>
    gone.slice(2).some((id) => path.endsWith(`/${id}`)) ? { fault: 'held', until: isOver.promise } : null;
  const left = () => alive(stage.database, 'assessments') - idsIn('proven').length;
  await stage.leapUntil('proofs', () => left() === 10, 50);
  upstream.faultOf = () => null;
  isOver.resolve();
  const waiting = await stage.leapUntil('pending deletions', pending);
  expect(waiting).toMatchObject({ kind: 'risk_assessment', count: 5 });
  expect(alive(stage.database, 'assessments')).toBe(12);
});

/** The vendor, which one event has changed, becomes verified without having been deleted. */
async function expectVerifiedAlive(id: string): Promise<void> {
  await stage.leapUntil('the vendor’s verification', () => {
    const unverified = idsIn("kind = 'vendor' AND unverified_since IS NOT NULL");
    return stage.compare().differences.length === 0 && unverified.length === 0;
  });
  const changes = await stage.get<{ items: { operation: string; record_id: string }[] }>(
    '/api/changes?limit=500',
  );
  const ofIt = changes.items.filter((change) => change.record_id === id);
  expect(ofIt.map(({ operation }) => operation)).toEqual(['insert', 'update']);
}

it('a vendor that the list shows is not deleted because its own address answers 404', async () => {
  await startInSync();
  const event = stage.touchVendor('ven-3');
  stage.upstream.faultOf = ({ path }) => (path.endsWith('/ven-3') ? { fault: 'status', status: 404 } : null);
  await stage.deliver(event);
  await expectVerifiedAlive('ven-3');
});

it.each([['what the list leaves out', /\/ven-3$/]])(
  'a full sync is not complete while %s cannot be read, and nobody is asked to approve',
  async (_, unreadable) => {
    await startInSync();
    stage.upstream.records.remove('vendors', 'ven-3');
    stage.upstream.faultOf = ({ path }) => (unreadable.test(path) ? { fault: 'status', status: 500 } : null);
    await stage.post('/api/syncs', { kinds: ['vendor'] });
    const outcome = async () => {
      const { items } = await stage.get<{ items: { reason: string; outcome: string | null }[] }>(
        '/api/syncs',
      );
      return items.find(({ reason }) => reason.startsWith('operator'))?.outcome ?? null;
    };
    await stage.leapUntil('the end of the full sync', outcome);
    expect(await outcome()).toBe('incomplete');
    expect(verifiedTombstones()).toBe(0);
    expect(await isPending()).toBe(false);

    stage.upstream.faultOf = () => null;
    await stage.leapUntil('the deletion', () => verifiedTombstones() === 1);
  },
);

describe('a vendor that was merged into another, and whose own address has no usable answer for ever', () => {
  const openProblems = async () => (await stage.problems()).filter(({ resolved_at }) => resolved_at === null);
  const isSettled = async () => verifiedTombstones() === 1 && (await openProblems()).length === 0;
  const removed = async () => {
    await startInSync();
    const gone = stage.upstream.records.find('vendors', 'ven-3')!;
    stage.upstream.records.remove('vendors', 'ven-3');
    return gone;
  };

  it('is deleted once the list does not show it and a person approves: it is answered with the other', async () => {
    await removed();
    stage.upstream.aliases.set('ven-3', 'ven-4');
    await stage.post('/api/syncs', { kinds: ['vendor'] });
    await stage.leapUntil('the question', pending);
    expect(alive(stage.database, 'vendors')).toBe(12);
    await approveDeletions(stage);
    await stage.leapUntil('the deletion', isSettled);
    expect(stage.compare().differences).toEqual([]);
  });

  it('is deleted without a person where an event has reported it and the list does not show it: it is answered with a redirect', async () => {
    const gone = await removed();
    stage.upstream.faultOf = ({ path }) =>
      path.endsWith('/ven-3') ? { fault: 'status', status: 301 } : null;
    await stage.tell('vendor.removed', 'vendors', gone);
    await stage.leapUntil('the problem', async () => (await openProblems()).length > 0);
    await stage.post('/api/syncs', { kinds: ['vendor'] });
    await stage.leapUntil('the deletion', isSettled);
    expect(await pending()).toBeNull();
  });
});

it('the last record of all waits for an operator’s approval, and goes with it', async () => {
  const { records } = stage.upstream;
  for (const id of records.ids('policies')) records.remove('policies', id);
  for (const id of records.ids('vendors').slice(1)) records.remove('vendors', id);
  await startInSync();
  expect(alive(stage.database, 'vendors')).toBe(1);

  for (const id of records.ids('vendors')) records.remove('vendors', id);
  await stage.post('/api/syncs', { kinds: ['vendor'] });
  const waiting = await stage.leapUntil('the pending deletion', pending);
  expect(waiting).toMatchObject({ kind: 'vendor', count: 1 });
  await stage.leapUntil('end of the full sync', syncRunsEnded);
  expect(alive(stage.database, 'vendors')).toBe(1);

  await approveDeletions(stage);
  await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
  await stage.leapUntil('the resolving', async () => !(await isPending()));
  expect((await stage.problems()).filter((problem) => problem.resolved_at === null)).toEqual([]);
});

it('the last record of all that was only out of sight is let go of', async () => {
  const { records } = stage.upstream;
  for (const id of records.ids('policies')) records.remove('policies', id);
  for (const id of records.ids('vendors').slice(1)) records.remove('vendors', id);
  await startInSync();
  const [last] = records.ids('vendors');
  const content = records.find('vendors', last!)!;

  records.remove('vendors', last!);
  await stage.post('/api/syncs', { kinds: ['vendor'] });
  await stage.leapUntil('the pending deletion', pending);
  records.put('vendors', content);
  await stage.leapUntil('the resolving', async () => !(await isPending()));
  // What `/api/status` tells may be a second old.
  await stage.leapUntil('nothing pending any more', async () => (await pending()) === null);
  await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
});

import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Fault } from '../support/independent-upstream.ts';
import { signature } from '../support/independent-upstream-sender.ts';
import { alive } from './compare.ts';
import { createStage, type Stage } from './stage.ts';

const STEP_MS = 60_000;
const HOUR_IN_STEPS = 60;
const ENOUGH_FAILURES = 30;
/** Real requests take real time: enough for those that a step sets off. */
const PAUSE_MS = 5;

let stage: Stage;

beforeEach(async () => {
  stage = await createStage();
  await stage.start();
  await stage.leapUntil('first equality', () => stage.compare().differences.length === 0);
});
afterEach(() => stage.end());

it('an hour without the upstream: deliveries are acknowledged, nothing is deleted, no event dies of it, and everything resolves', async () => {
  const { upstream, clock, database } = stage;
  const held = { policies: alive(database, 'policies'), vendors: alive(database, 'vendors') };
  upstream.seen.length = 0;
  let failures = 0;
  upstream.faultOf = () => {
    failures += 1;
    return failures % 2 === 0 ? { fault: 'cut' } : { fault: 'status', status: 503 };
  };
  // Gone meanwhile, and nothing says so.
  upstream.records.remove('vendors', 'ven-0');
  upstream.records.remove('policies', 'pol-0');

  let acknowledged = 0;
  // An hour, and longer where the machine is too slow for the requests of one.
  for (let step = 0; step < HOUR_IN_STEPS || failures <= ENOUGH_FAILURES; step += 1) {
    expect(await stage.deliver(stage.touchVendor(`ven-${1 + (step % 11)}`))).toBe(202);
    acknowledged += 1;
    clock.leap(STEP_MS);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }

  expect({ policies: alive(database, 'policies'), vendors: alive(database, 'vendors') }).toEqual(held);
  await stage.leapUntil('the problem', async () =>
    (await stage.problems()).some(
      (problem) => problem.reason === 'unreachable' && problem.resolved_at === null,
    ),
  );
  const eventsNow = async () => (await stage.get<{ events: Record<string, number> }>('/api/status')).events;
  await stage.leapUntil('processing of all events', async () => (await eventsNow())['pending'] === 0);
  expect(await eventsNow()).toMatchObject({ failed: 0, pending: 0 });
  const db = new DatabaseSync(database, { readOnly: true, timeout: 5_000 });
  const { n } = db.prepare("SELECT count(*) AS n FROM events WHERE state = 'processed'").get()!;
  db.close();
  expect(n).toBe(acknowledged);

  upstream.faultOf = () => null;
  await stage.leapUntil('equality', () => stage.compare().differences.length === 0, 5_000);
  await stage.leapUntil(
    'resolving of every problem',
    async () => (await stage.problems()).every(({ resolved_at }) => resolved_at !== null),
    5_000,
  );
  expect(alive(database, 'vendors')).toBe(held.vendors - 1);
}, 300_000);

/** Leaps that are short beside what is waited for, since real requests take real time. */
const SHORT_STEP_MS = 500;
/** Nothing that waits for the end of a backoff comes without a leap. */
const NO_STEP_MS = 0;
const SLOW_MS = 7_000;

const verdictsOf = (kinds: readonly string[]) => new Set(kinds.map((kind) => stage.verdicts()[kind]));

const isNow = (verdict: string, kinds: readonly string[]) => () => {
  const [first, ...others] = verdictsOf(kinds);
  return first === verdict && others.length === 0;
};
const LISTED = ['policy', 'vendor'];
const POLICIES = '/policies?page=1&perPage=100';

it.each<[string, (isOver: Promise<unknown>) => Fault]>([
  ['cuts every connection', () => ({ fault: 'cut' })],
  ['answers 503', () => ({ fault: 'status', status: 503 })],
  ['answers nothing', (until) => ({ fault: 'held', until })],
])(
  'an API that %s while nothing is to be read is said to be unreachable, until it answers again',
  async (_, faultOf) => {
    const { upstream } = stage;
    const over = Promise.withResolvers<void>();
    await stage.leapUntil('in sync', isNow('in_sync', LISTED));
    upstream.faultOf = () => faultOf(over.promise);
    await stage.leapUntil('unreachable', isNow('unreachable', LISTED), SHORT_STEP_MS);
    upstream.faultOf = () => null;
    over.resolve();
    await stage.leapUntil('in sync again', isNow('in_sync', LISTED));
  },
);

it('an API that is unreachable is so after a restart too, until it answers', async () => {
  const { upstream } = stage;
  await stage.leapUntil('in sync', isNow('in_sync', LISTED));
  upstream.faultOf = () => ({ fault: 'cut' });
  await stage.leapUntil('unreachable', isNow('unreachable', LISTED), SHORT_STEP_MS);
  await stage.stop();
  await stage.start();
  expect(verdictsOf(LISTED)).toEqual(new Set(['unreachable']));
  upstream.faultOf = () => null;
  await stage.leapUntil('in sync again', isNow('in_sync', LISTED));
});

it('an API whose lists take seconds is not called unreachable each time when it is asked whether it answers', async () => {
  const { upstream, clock, database } = stage;
  const db = new DatabaseSync(database, { readOnly: true, timeout: 5_000 });
  try {
    const syncRuns = db.prepare("SELECT id FROM sync_runs WHERE kind = 'policy' AND outcome = 'complete'");
    const isInSync = isNow('in_sync', LISTED);
    const before = syncRuns.all().length;
    upstream.faultOf = () => ({ fault: 'held', until: clock.sleep(SLOW_MS) });
    await stage.post('/api/syncs', { kinds: ['policy'] });
    await stage.leapUntil(
      'a full sync',
      async () => syncRuns.all().length > before && isInSync(),
      SHORT_STEP_MS,
    );
    upstream.seen.length = 0;
    const seen = new Set<string>();
    await stage.leapUntil(
      'a look, and the next',
      async () => {
        for (const verdict of verdictsOf(LISTED)) seen.add(String(verdict));
        return upstream.seen.filter(({ path }) => path.endsWith('perPage=1')).length > 1;
      },
      SHORT_STEP_MS,
    );
    expect([...seen]).toEqual(['in_sync']);
  } finally {
    db.close();
  }
});

it('a key that is revoked while nothing is to be read leaves no listed kind in sync, and is forgotten when it is taken again', async () => {
  const { upstream } = stage;
  await stage.leapUntil('in sync', isNow('in_sync', LISTED));
  upstream.faultOf = () => ({ fault: 'status', status: 401 });
  await stage.leapUntil('refused', isNow('action_required', LISTED));
  upstream.faultOf = () => null;
  await stage.leapUntil('in sync again', isNow('in_sync', LISTED));
});

it('an API that answers everything with JSON of another thing while nothing is to be read leaves no kind in sync', async () => {
  const { upstream } = stage;
  const kinds = [...LISTED, 'risk_assessment'];
  await stage.leapUntil('in sync', isNow('in_sync', LISTED));
  upstream.faultOf = () => ({ fault: 'answer', body: { message: 'Welcome to the portal' } });
  await stage.leapUntil('not understood', isNow('action_required', kinds), SHORT_STEP_MS);
  upstream.faultOf = () => null;
  await stage.leapUntil('in sync again', isNow('in_sync', LISTED));
  await stage.leapUntil('known again', isNow('known_only', ['risk_assessment']));
});

it('a list that is answered 403 while its records can be read is asked for by its backoff, and has no other kind read each time', async () => {
  const { upstream, clock } = stage;
  await stage.leapUntil('in sync', isNow('in_sync', LISTED));
  const isList = (path: string) => /[/]vendors([?]|$)/.test(path);
  upstream.faultOf = ({ path }) => (isList(path) ? { fault: 'status', status: 403 } : null);
  upstream.seen.length = 0;
  await stage.post('/api/syncs', { kinds: ['vendor'] });
  const isRead = (id: string) => upstream.seen.some(({ path }) => path.endsWith(id));
  for (let step = 0; step < 30; step += 1) {
    await stage.deliver(stage.touchVendor(`ven-${1 + (step % 11)}`));
    clock.leap(15_000);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  const asked = (which: (path: string) => boolean) => upstream.seen.filter(({ path }) => which(path)).length;
  expect(asked(isList)).toBeLessThan(16);
  // Beside looks whether the service answers.
  expect(asked((path) => path.endsWith(POLICIES))).toBeLessThan(8);
  await stage.leapUntil('reads of the records', () => isRead('ven-11'));
});

/** Until the waits for the next request, and for the next full sync, have grown long. */
async function failOften(): Promise<void> {
  const { upstream } = stage;
  await stage.leapUntil('in sync', isNow('in_sync', LISTED));
  upstream.faultOf = () => ({ fault: 'status', status: 503 });
  await stage.post('/api/syncs');
  upstream.seen.length = 0;
  await stage.leapUntil('tried often', () => upstream.seen.length > 60, STEP_MS);
  upstream.faultOf = () => null;
  upstream.seen.length = 0;
}

const isAsked = (path: string) => () => stage.upstream.seen.some((seen) => seen.path.endsWith(path));

it('after an outage, what a person asks for, an event announces or a problem demands waits for no backoff', async () => {
  const { upstream } = stage;
  await failOften();
  await stage.post('/api/syncs');
  await stage.leapUntil('the full sync', isAsked(POLICIES), NO_STEP_MS);
  const isResolved = ({ resolved_at }: { resolved_at: string | null }) => resolved_at !== null;
  const areAllResolved = async () => (await stage.problems()).every(isResolved);
  await stage.leapUntil('resolving of every problem', areAllResolved);

  const policy = { ...upstream.records.find('policies', 'pol-1')!, name: 'Renamed' };
  upstream.records.put('policies', policy);
  upstream.seen.length = 0;
  await stage.tell('policy.updated', 'policies', policy);
  await stage.leapUntil('the list', isAsked(POLICIES), SHORT_STEP_MS);

  // It names no record that could be read by itself.
  const late = stage.touchVendor('ven-1');
  const body = late.body.replaceAll('ven-1', '');
  await stage.deliver({ ...late, body }, signature(body, { t: stage.seconds() - 1_000 }));
  await stage.leapUntil('a problem', async () => !(await areAllResolved()), SHORT_STEP_MS);
  await stage.leapUntil('its resolving', areAllResolved, SHORT_STEP_MS);
});

it('while the list of vendors keeps failing, those that events name are read one by one, however many they are', async () => {
  const { upstream } = stage;
  await stage.leapUntil('in sync', isNow('in_sync', LISTED));
  upstream.faultOf = ({ path }) => (path.includes('/vendors?') ? { fault: 'status', status: 503 } : null);
  await stage.post('/api/syncs', { kinds: ['vendor'] });
  const isIncomplete = ({ reason }: { reason: string }) => reason === 'incomplete_list';
  await stage.leapUntil('more than one failure', async () => (await stage.problems()).some(isIncomplete));
  for (const id of upstream.records.ids('vendors')) await stage.deliver(stage.touchVendor(id));
  await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
});

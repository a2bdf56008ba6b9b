import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Fault } from '../support/independent-upstream.ts';
import { signature } from '../support/independent-upstream-sender.ts';
import { alive } from './compare.ts';
import { createStage, type Stage } from './stage.ts';

const STEP_MS = 15_000;
const HOUR_IN_STEPS = 240;
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
    if (step % 2 === 0) {
      expect(await stage.deliver(stage.touchVendor(`ven-${1 + (step % 11)}`))).toBe(202);
      acknowledged += 1;
    }
    clock.leap(STEP_MS);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }

  expect({ policies: alive(database, 'policies'), vendors: alive(database, 'vendors') }).toEqual(held);
  await stage.leapUntil('the gap', async () =>
    (await stage.gaps()).some((gap) => gap.reason === 'upstream_unavailable' && gap.resolved_at === null),
  );
  const eventsNow = async () => (await stage.get<{ events: Record<string, number> }>('/api/status')).events;
  await stage.leapUntil(
    'processing of all events',
    async () => (await eventsNow())['processed'] === acknowledged,
  );
  expect(await eventsNow()).toMatchObject({ failed: 0, pending: 0 });

  upstream.faultOf = () => null;
  await stage.leapUntil('equality', () => stage.compare().differences.length === 0, 5_000);
  await stage.leapUntil(
    'resolving of every gap',
    async () => (await stage.gaps()).every(({ resolved_at }) => resolved_at !== null),
    5_000,
  );
  expect(alive(database, 'vendors')).toBe(held.vendors - 1);
}, 300_000);

/** As the contract says it. Leaps are short beside it, since real requests take real time. */
const SAID_WITHIN_MS = 15_000;
const SHORT_STEP_MS = 100;
const SLOW_MS = 7_000;

const verdictsOf = (kinds: readonly string[]) => new Set(kinds.map((kind) => stage.verdicts()[kind]));

const isNow = (verdict: string, kinds: readonly string[]) => () => {
  const [first, ...others] = verdictsOf(kinds);
  return first === verdict && others.length === 0;
};
const LISTED = ['policy', 'vendor'];

it.each<[string, (isOver: Promise<unknown>) => Fault]>([
  ['cuts every connection', () => ({ fault: 'cut' })],
  ['answers 503', () => ({ fault: 'status', status: 503 })],
  ['answers nothing', (until) => ({ fault: 'held', until })],
])(
  'an API that %s while nothing is to be read is said to be unreachable within 15 s, until it answers again',
  async (_, faultOf) => {
    const { upstream, clock } = stage;
    const over = Promise.withResolvers<void>();
    await stage.leapUntil('in sync', isNow('in_sync', LISTED));
    upstream.faultOf = () => faultOf(over.promise);
    const from = clock.steady();
    await stage.leapUntil('unreachable', isNow('unreachable', LISTED), SHORT_STEP_MS);
    expect(clock.steady() - from).toBeLessThanOrEqual(SAID_WITHIN_MS);
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
    await stage.post('/api/sync-runs', { kinds: ['policy'] });
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

it('a refusal that was met while nothing was to be read, and soon ends, is soon forgotten', async () => {
  const { upstream, clock } = stage;
  await stage.leapUntil('in sync', isNow('in_sync', ['policy']));
  upstream.faultOf = () => ({ fault: 'status', status: 401 });
  await stage.leapUntil('refused', isNow('action_required', ['policy']));
  upstream.faultOf = () => null;
  const from = clock.steady();
  await stage.leapUntil('in sync again', isNow('in_sync', ['policy']));
  expect(clock.steady() - from).toBeLessThan(5 * 60_000);
});

it('a key that is revoked while nothing is to be read leaves no listed kind in sync for long', async () => {
  const { upstream, clock } = stage;
  await stage.leapUntil('in sync', isNow('in_sync', LISTED));
  upstream.faultOf = () => ({ fault: 'status', status: 401 });
  const from = clock.steady();
  await stage.leapUntil('refused', isNow('action_required', LISTED));
  expect(clock.steady() - from).toBeLessThan(5 * 60_000);
  upstream.faultOf = () => null;
  await stage.leapUntil('in sync again', isNow('in_sync', LISTED));
});

it('once the credentials are accepted for one kind again, the others do not wait for the end of their backoff', async () => {
  const { upstream, clock } = stage;
  await stage.leapUntil('in sync', isNow('in_sync', LISTED));
  upstream.faultOf = () => ({ fault: 'status', status: 401 });
  await stage.leapUntil('refused', isNow('action_required', LISTED));
  const before = upstream.seen.length;
  await stage.leapUntil('tried often', async () => upstream.seen.length > before + 40, 30_000);
  upstream.faultOf = () => null;
  const from = clock.steady();
  await stage.post('/api/sync-runs', { kinds: ['vendor'] });
  const isResolved = ({ resolved_at }: { resolved_at: string | null }) => resolved_at !== null;
  await stage.leapUntil('end of all gaps', async () => (await stage.gaps()).every(isResolved));
  expect(clock.steady() - from).toBeLessThan(60_000);
});

it.each([401, 403])(
  'a list that is answered %s while its records can be read is asked for by its backoff, and has no other kind read each time',
  async (status) => {
    const { upstream, clock } = stage;
    await stage.leapUntil('in sync', isNow('in_sync', LISTED));
    const isList = (path: string) => /[/]vendors([?]|$)/.test(path);
    upstream.faultOf = ({ path }) => (isList(path) ? { fault: 'status', status } : null);
    upstream.seen.length = 0;
    await stage.post('/api/sync-runs', { kinds: ['vendor'] });
    const isRead = (id: string) => upstream.seen.some(({ path }) => path.endsWith(id));
    for (let step = 0; step < 30; step += 1) {
      await stage.deliver(stage.touchVendor(`ven-${1 + (step % 11)}`));
      clock.leap(STEP_MS);
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
    await stage.leapUntil('reads of the records', () => isRead('ven-11'));
    const asked = (which: (path: string) => boolean) =>
      upstream.seen.filter(({ path }) => which(path)).length;
    expect(asked(isList)).toBeLessThan(16);
    expect(asked((path) => /[/]policies[?]/.test(path))).toBeLessThan(8);
  },
);

/** Until the waits for the next request, and for the next full sync, have grown long. */
async function failOften(): Promise<void> {
  const { upstream } = stage;
  await stage.leapUntil('in sync', isNow('in_sync', LISTED));
  upstream.faultOf = () => ({ fault: 'status', status: 503 });
  await stage.post('/api/sync-runs');
  upstream.seen.length = 0;
  await stage.leapUntil('tried often', () => upstream.seen.length > 60, STEP_MS);
  upstream.faultOf = () => null;
  upstream.seen.length = 0;
}

const isAsked = (path: string) => () => stage.upstream.seen.some((seen) => seen.path.endsWith(path));
const POLICIES = '/policies?page=1&perPage=100';

it('after an outage, what a person asks for, an event announces or a gap demands waits for no backoff', async () => {
  const { upstream, clock } = stage;
  await failOften();
  let from = clock.steady();
  await stage.post('/api/sync-runs');
  await stage.leapUntil('the full sync', isAsked(POLICIES), SHORT_STEP_MS);
  expect(clock.steady() - from).toBeLessThan(5_000);
  const isResolved = ({ resolved_at }: { resolved_at: string | null }) => resolved_at !== null;
  const areAllResolved = async () => (await stage.gaps()).every(isResolved);
  await stage.leapUntil('resolving of every gap', areAllResolved);

  const policy = { ...upstream.records.find('policies', 'pol-1')!, name: 'Renamed' };
  upstream.records.put('policies', policy);
  upstream.seen.length = 0;
  from = clock.steady();
  await stage.tell('policy.updated', 'policies', policy);
  await stage.leapUntil('the list', isAsked(POLICIES));
  expect(clock.steady() - from).toBeLessThan(15_000);

  const late = stage.touchVendor('ven-1');
  await stage.deliver(late, signature(late.body, { t: stage.seconds() - 1_000 }));
  await stage.leapUntil('a gap', async () => !(await areAllResolved()), SHORT_STEP_MS);
  await stage.leapUntil('its resolving', areAllResolved);
  expect(clock.steady() - from).toBeLessThan(60_000);
});

it('a refetch that a person asks for after an outage is not put off', async () => {
  await failOften();
  const from = stage.clock.steady();
  await stage.post('/api/records/vendor/refetch', { ids: ['ven-1'] });
  await stage.leapUntil('the read', isAsked('/vendors/ven-1'), SHORT_STEP_MS);
  expect(stage.clock.steady() - from).toBeLessThan(5_000);
});

it('after full syncs that failed and one that is complete, the next comes with the timer', async () => {
  const { upstream, clock } = stage;
  upstream.faultOf = () => ({ fault: 'status', status: 503 });
  await stage.post('/api/sync-runs', { kinds: ['vendor'] });
  interface SyncRun {
    id: number;
    kind: string;
    outcome: string | null;
  }
  const last = async () =>
    (await stage.get<{ items: SyncRun[] }>('/api/sync-runs')).items.find(({ kind }) => kind === 'vendor');
  await stage.leapUntil('a failure', async () => (await last())?.outcome === 'incomplete');
  upstream.faultOf = () => null;
  const areAllResolved = async () => (await stage.gaps()).every(({ resolved_at }) => resolved_at !== null);
  await stage.leapUntil(
    'the end of what failed',
    async () => (await last())?.outcome === 'complete' && (await areAllResolved()),
  );
  const before = await last();
  const until = clock.steady() + 5 * 60_000;
  await stage.leapUntil('five minutes', () => clock.steady() >= until, 5_000);
  expect(await last()).toEqual(before);
});

it('while the list of vendors keeps failing, those that events name are read one by one, however many they are', async () => {
  const { upstream } = stage;
  await stage.leapUntil('in sync', isNow('in_sync', LISTED));
  upstream.faultOf = ({ path }) => (path.includes('/vendors?') ? { fault: 'status', status: 503 } : null);
  await stage.post('/api/sync-runs', { kinds: ['vendor'] });
  const isIncomplete = ({ reason }: { reason: string }) => reason === 'list_incomplete';
  await stage.leapUntil('more than one failure', async () => (await stage.gaps()).some(isIncomplete));
  for (const id of upstream.records.ids('vendors')) await stage.deliver(stage.touchVendor(id));
  await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
});

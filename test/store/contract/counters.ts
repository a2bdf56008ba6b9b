import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { EventState } from '../../../src/store/reports.ts';
import type { ClaimedEvent } from '../../../src/store/store.ts';
import { createScene, LEASE_MS, type OpenEngine, type Scene, TIMING } from '../scene.ts';

/** Histories tried: each opens a database of its own. */
const RUNS = 40;

type Step = { verb: string; n: number };
const steps = fc.array(
  fc.record({
    verb: fc.constantFrom(
      'new',
      'known again',
      'unknown',
      'bad',
      'claim',
      'provisional',
      'defer',
      'fail',
      'retry',
      'discard',
      'lapse',
    ),
    n: fc.nat(5),
  }),
  { minLength: 1, maxLength: 40 },
);

export function describeCounters(open: OpenEngine): void {
  describe('the counts of events', () => {
    it('are what counting the rows would say, whatever happened', async () => {
      await fc.assert(
        fc.asyncProperty(steps, async (history) => {
          const scene = await createScene(open);
          try {
            const held: ClaimedEvent[] = [];
            for (const step of history) await take(scene, step, held);
            const counted: Record<EventState, number> = {
              pending: 0,
              processed: 0,
              ignored: 0,
              failed: 0,
              discarded: 0,
            };
            const rows = await scene.query('SELECT state, count(*) AS n FROM events GROUP BY state');
            for (const row of rows) counted[row['state'] as EventState] = Number(row['n']);
            const summary = await scene.store.summary();
            expect(summary.events).toEqual(counted);
            expect(summary.oldest_pending_at === null).toBe(counted.pending === 0);
          } finally {
            await scene.close();
          }
        }),
        { numRuns: RUNS },
      );
    });
  });
}

async function take(scene: Scene, { verb, n }: Step, held: ClaimedEvent[]): Promise<void> {
  const id = `evt_${n}`;
  const some = held.slice(0, n);
  switch (verb) {
    case 'new':
    case 'known again':
      await scene.accept(scene.event({ id, recordId: `pol_${n % 3}` }));
      break;
    case 'unknown':
      await scene.accept(scene.event({ id, type: 'policy.lost', known: false }));
      break;
    case 'bad':
      await scene.accept(scene.event({ id, data: {} }));
      break;
    case 'claim':
      held.push(...(await scene.claim(n + 1)));
      break;
    case 'provisional':
      await scene.store.applyEvents(some, scene.rules(), scene.now());
      break;
    case 'defer':
    case 'fail': {
      const retryAtMs = verb === 'defer' ? scene.now().steady + 100 : null;
      for (const event of some)
        await scene.store.deferEvent({ event, retryAtMs, error: 'no' }, scene.now(), TIMING);
      break;
    }
    case 'retry':
      await scene.store.retryEvent(id, scene.rules(), scene.now());
      break;
    case 'discard':
      await scene.store.discardEvent(id, scene.now());
      break;
    default:
      scene.pass(LEASE_MS);
  }
}

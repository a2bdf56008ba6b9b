import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parseJson } from '../../src/compliance/json.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import { connect } from '../../src/store/sqlite/connection.ts';
import { migrateSchema } from '../../src/store/sqlite/migrations.ts';
import { storeOver } from '../../src/store/sqlite/sqlite.ts';
import type { IncomingEvent } from '../../src/store/store.ts';
import { createScene, type EngineHarness, type Scene, TIMING } from './scene.ts';

/** A database in memory, of which a new store remembers nothing. */
async function openInMemory(): Promise<EngineHarness> {
  const db = connect(':memory:', { readOnly: false });
  migrateSchema(db);
  const store = storeOver(db);
  return {
    store,
    query: async (sql) => db.prepare(sql).all() as Record<string, unknown>[],
    reopen: async () => storeOver(db),
    close: () => store.close(),
  };
}

const TABLES = ['events', 'record_state', 'policies', 'risk_assessments', 'vendors', 'changes', 'gaps']
  .concat(['event_counts', 'record_counts', 'quarantine', 'pending_deletions', 'trimmed_events', 'counter'])
  .sort();

async function contents(scene: Scene): Promise<Record<string, unknown>> {
  const rows = TABLES.map(async (table) => [table, await scene.query(`SELECT * FROM ${table}`)] as const);
  return Object.fromEntries(await Promise.all(rows));
}

/** Few, so that each is busy. */
const kind = fc.constantFrom('policy', 'policy', 'risk_assessment', 'vendor', 'vendor');
const recordId = fc.constantFrom('one', 'one', 'one', 'two');
const about = { kind, recordId };
const TYPES = {
  policy: ['policy.created', 'policy.updated', 'policy.deleted'],
  risk_assessment: ['risk.identified', 'risk.assessed'],
  vendor: ['vendor.added', 'vendor.updated', 'vendor.removed'],
} as const;

/** What JSON can say and a document read back from its column does not: written into the body as it stands here. */
const ODD_NUMBERS: Readonly<Record<string, string>> = {
  huge: '1e400',
  minus: '-0',
  long: '0.1000000000000000055',
};

const fields = fc.record(
  {
    name: fc.constantFrom('a', 'b', null, 'x'.repeat(9_000)),
    status: fc.constantFrom('open', 'closed'),
    riskId: fc.constantFrom('one', 'three'),
    note: fc.constantFrom(...Object.keys(ODD_NUMBERS)),
  },
  { requiredKeys: [] },
);
const arriving = fc.record({
  ...about,
  type: fc.nat(2),
  shows: fields,
  /** Against the clock, in milliseconds: ties, and orders other than that of arrival. */
  created: fc.constantFrom(0, 0, -1_000, 1_000, -600_000),
  form: fc.constantFrom('usual', 'usual', 'usual', 'again', 'conflicting', 'unusable', 'unknown'),
});

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('accept'),
      events: fc.array(arriving, { minLength: 1, maxLength: 4 }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('work') }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('pass'), ms: fc.constantFrom(0, 1, 1_000, 15_000) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('show'), ...about, shows: fields }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('missing'), ...about }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('conclude'), kind }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('defer'), dies: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('retry', 'discard'), event: fc.nat(8) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('due'), kind }) },
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;
type Arriving = typeof arriving extends fc.Arbitrary<infer A> ? A : never;

function eventOf(scene: Scene, words: Arriving, before: readonly IncomingEvent[]): IncomingEvent {
  const { kind, recordId, shows, form } = words;
  const types = TYPES[kind];
  const earlier = form === 'again' || form === 'conflicting' ? before.at(-1) : undefined;
  const event = scene.event({
    kind,
    recordId,
    createdMs: scene.now().wall + words.created,
    type: form === 'unknown' ? `${types[0]!.split('.')[0]}.renamed` : types[words.type % types.length]!,
    known: form !== 'unknown',
    ...(form === 'unusable' ? { data: { note: 'no id' }, recordId: null } : { shows: shows as JsonObject }),
    ...(earlier === undefined ? {} : { id: earlier.id }),
  });
  const sent = form === 'again' && earlier !== undefined ? earlier : event;
  const body = sent.body.replace(/"note":"(\w+)"/, (all, word: string) =>
    word in ODD_NUMBERS ? `"note":${ODD_NUMBERS[word]}` : all,
  );
  return { ...sent, body, data: (parseJson(body) as { data: JsonObject }).data };
}

async function take(scene: Scene, step: Step, arrived: IncomingEvent[]): Promise<unknown> {
  switch (step.do) {
    case 'accept': {
      const events: IncomingEvent[] = [];
      for (const words of step.events) events.push(eventOf(scene, words, [...arrived, ...events]));
      arrived.push(...events);
      return await scene.accept(...events);
    }
    case 'work':
      return (await scene.work()).map(
        ({ event: { seq, id, recordId, receivedWall, attempts }, outcome, error }) => ({
          seq,
          id,
          recordId,
          receivedWall,
          attempts,
          outcome,
          error,
        }),
      );
    case 'pass':
      return scene.pass(step.ms);
    case 'show':
      return await scene.show(step.kind, step.recordId, { id: step.recordId, ...step.shows } as JsonObject);
    case 'missing':
      return await scene.missing(step.kind, step.recordId);
    case 'conclude':
      return await scene.conclude(step.kind);
    case 'defer': {
      const failures = (await scene.claim(1)).map((event) => ({
        event,
        retryAtMs: step.dies ? null : scene.now().steady + 500,
        error: 'failed',
      }));
      for (const failure of failures) await scene.store.deferEvent(failure, scene.now(), TIMING);
      return;
    }
    case 'retry':
      return await scene.store.retryEvent(`evt_${step.event}`, scene.rules(), scene.now());
    case 'discard':
      return await scene.store.discardEvent(`evt_${step.event}`, scene.now());
    case 'due':
      return await scene.store.dueRecords(step.kind, scene.now(), TIMING, 10);
  }
}

it('what a store remembers of events and records leads to the same rows as remembering nothing', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 60 }), async (steps) => {
      const [remembering, forgetting] = [await createScene(openInMemory), await createScene(openInMemory)];
      try {
        const [ones, others]: IncomingEvent[][] = [[], []];
        for (const one of steps) {
          const outcome = await take(remembering, one, ones!);
          await forgetting.reopen();
          expect(await take(forgetting, one, others!)).toEqual(outcome);
          expect(await contents(forgetting)).toEqual(await contents(remembering));
        }
      } finally {
        await remembering.close();
        await forgetting.close();
      }
    }),
    // Each try at a shorter story takes as long as the story: the one that failed is short enough to read.
    { numRuns: 20, endOnFailure: true },
  );
});

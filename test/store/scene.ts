import { expect } from 'vitest';
import type { Kind } from '../../src/compliance/kinds.ts';
import type { IdPointers, JsonObject } from '../../src/compliance/pointers.ts';
import type {
  Applied,
  ClaimedEvent,
  Conclusion,
  IncomingEvent,
  Now,
  ProvisionalOutcome,
  ProvisionalRules,
  ReadMoment,
  Store,
} from '../../src/store/store.ts';

import { MISCOUNTED_RECORDS } from './miscounted.ts';

/** One engine, freshly opened, and a way to look at the tables that users read. */
export interface EngineHarness {
  store: Store;
  query(sql: string): Promise<Record<string, unknown>[]>;
  /** Ends the process, as far as the database can tell, and starts another. Absent where nothing outlives one. */
  reopen?: () => Promise<Store>;
  close(): Promise<void>;
}
export type OpenEngine = () => Promise<EngineHarness>;

export const SETTLE_MS = 10_000;
export const TIMING = { settleMs: SETTLE_MS };
export const TOLERANCE_MS = 300_000;
export const LEASE_MS = 60_000;

const POINTERS: IdPointers = {
  policy: ['policyId', 'policy.id', 'id'],
  risk_assessment: ['riskAssessmentId', 'assessmentId', 'riskId', 'risk.id', 'id'],
  vendor: ['vendorId', 'vendor.id', 'id'],
};
const ID_FIELD = { policy: 'policyId', risk_assessment: 'assessmentId', vendor: 'vendorId' } as const;
const UPDATE_TYPE = {
  policy: 'policy.updated',
  risk_assessment: 'risk.assessed',
  vendor: 'vendor.updated',
} as const;

/** Whole seconds, as the upstream sends them. */
const WALL_START = Date.parse('2026-11-01T12:00:00Z');
/** Far from the wall clock, so that a verb that takes one for the other is found out. */
const STEADY_START = 5_000_000;

export const isoOf = (wall: number): string => new Date(wall).toISOString();

export interface EventWords {
  id?: string;
  type?: string;
  kind?: Kind | null;
  recordId?: string | null;
  known?: boolean;
  createdMs?: number;
  /** What the payload shows besides the id. */
  shows?: JsonObject;
  /** The payload as it is, instead. */
  data?: unknown;
}

export type Scene = Awaited<ReturnType<typeof createScene>>;

/** A store and a clock in the test's hand, with the steps that most stories are made of. */
export async function createScene(open: OpenEngine, start: { wall?: number } = {}) {
  const harness = await open();
  const wallStart = start.wall ?? WALL_START;
  let elapsed = 0;
  let serial = 0;
  let store = harness.store;
  let told: string[] = [];
  const watch = () =>
    store.watchGaps(({ gap, what, error, openForMs }) => {
      const about = `${what} ${gap.reason} ${gap.kind ?? '-'} ${gap.recordId ?? '-'}`;
      const after = openForMs === null ? '' : ` after ${openForMs / 1_000} s`;
      told.push(`${about}${after}${error === null ? '' : `: ${error}`}`);
    });
  watch();

  const now = (): Now => ({ wall: wallStart + elapsed, steady: STEADY_START + elapsed });
  const pass = (ms: number) => {
    elapsed += ms;
  };

  function event(words: EventWords = {}): IncomingEvent {
    serial += 1;
    const kind = words.kind === undefined ? 'policy' : words.kind;
    const type = words.type ?? (kind === null ? 'ledger.updated' : UPDATE_TYPE[kind]);
    const recordId = words.recordId === undefined ? 'pol_1' : words.recordId;
    const id = words.id ?? `evt_${serial}`;
    const createdMs = words.createdMs ?? now().wall;
    const created = isoOf(createdMs);
    const idFields = kind === null || recordId === null ? [] : [[ID_FIELD[kind], recordId] as const];
    const data =
      words.data ?? Object.fromEntries([...idFields, ...Object.entries(words.shows ?? { name: id })]);
    return {
      id,
      type,
      created,
      createdMs,
      kind,
      recordId,
      known: words.known ?? true,
      t: '1793534400',
      body: JSON.stringify({ id, type, created, data }),
    };
  }

  const rules = (over: Partial<ProvisionalRules> = {}): ProvisionalRules => ({
    pointers: POINTERS,
    eventsOnly: false,
    toleranceMs: TOLERANCE_MS,
    timing: TIMING,
    ...over,
  });

  async function accept(...events: IncomingEvent[]) {
    return store.accept({ events, unusable: [] }, now(), TIMING);
  }

  async function claim(limit = 100, owner = `owner_${++serial}`): Promise<ClaimedEvent[]> {
    return store.claimEvents(owner, limit, LEASE_MS, now());
  }

  /** Claims and applies whatever is pending. */
  async function work(over: Partial<ProvisionalRules> = {}): Promise<ProvisionalOutcome[]> {
    return store.applyEvents(await claim(), rules(over), now());
  }

  /** Takes the counter and the time; `arrive` is called when the answer is there. */
  async function beginRead(): Promise<{ number: number; beganAt: number }> {
    return { number: await store.currentNumber(), beganAt: now().steady };
  }
  const endRead = (began: { number: number; beganAt: number }): ReadMoment => ({
    ...began,
    endedAt: now().steady,
    endedWall: now().wall,
  });

  async function apply(
    kind: Kind,
    objects: readonly { id: string; data: JsonObject }[],
    over: { began?: { number: number; beganAt: number }; cause?: string; syncRunId?: number } = {},
  ): Promise<Applied[]> {
    const read = endRead(over.began ?? (await beginRead()));
    const context = {
      cause: over.cause ?? 'refetch',
      syncRunId: over.syncRunId ?? null,
      timing: TIMING,
      pointers: POINTERS,
    };
    return store.applyReads(kind, objects, read, context);
  }

  /** One record as the API shows it now. */
  async function show(kind: Kind, id: string, data: JsonObject, began?: { number: number; beganAt: number }) {
    const [applied] = await apply(kind, [{ id, data }], began === undefined ? {} : { began });
    return applied!;
  }

  async function missing(
    kind: Kind,
    id: string,
    over: { witnessedAt?: number | null; witnessedAfter?: boolean; absentFromList?: boolean } = {},
  ) {
    return store.recordMissing(kind, id, endRead(await beginRead()), {
      witnessedAt: over.witnessedAt === undefined ? now().steady : over.witnessedAt,
      witnessedAfter: over.witnessedAfter ?? true,
      timing: TIMING,
      absentFromList: over.absentFromList ?? false,
    });
  }

  async function conclude(
    kind: Kind,
    over: {
      absent?: readonly string[];
      number?: number;
      syncRunId?: number;
      unannounced?: readonly string[];
    } = {},
  ): Promise<Conclusion> {
    const { absent } = over;
    const proof =
      absent === undefined ? null : { absent, number: over.number ?? (await store.currentNumber()) };
    const context = {
      cause: 'sync:1',
      syncRunId: over.syncRunId ?? null,
      unannounced: over.unannounced ?? null,
    };
    return store.concludeDeletions(kind, proof, context, now());
  }

  return {
    get store() {
      return store;
    },
    query: harness.query,
    close: harness.close,
    canReopen: harness.reopen !== undefined,
    async reopen() {
      store = await harness.reopen!();
      watch();
    },
    now,
    pass,
    event,
    rules,
    accept,
    claim,
    work,
    beginRead,
    endRead,
    apply,
    show,
    missing,
    conclude,
    row: (kind: Kind, id: string) => store.showRecord(kind, id),
    openGaps: async () =>
      (await store.list('gaps', { open: true, limit: 500 })).map(
        (gap) => `${gap.reason} ${gap.kind ?? '-'} ${gap.record_id ?? '-'}`,
      ),
    /** What the store has told of gaps since this was last asked, as `opened failed_event policy pol_1: why`. */
    toldOfGaps: () => {
      const news = told;
      told = [];
      return news;
    },
    changes: () => store.listChanges(0, 500),
  };
}

/** Runs `story` in a scene of its own. */
export function inScene(
  open: OpenEngine,
  story: (scene: Scene) => Promise<void>,
  start: { wall?: number } = {},
) {
  return async () => {
    const scene = await createScene(open, start);
    try {
      await story(scene);
      expect(
        await scene.query(MISCOUNTED_RECORDS),
        'records that were counted otherwise than by looking',
      ).toEqual([]);
    } finally {
      await scene.close();
    }
  };
}

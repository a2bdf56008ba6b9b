import type { Kind } from '../../src/compliance/kinds.ts';
import type { IdPointers, JsonObject } from '../../src/compliance/pointers.ts';
import type { ShownDelivery } from '../../src/store/reports.ts';
import type {
  Applied,
  Cause,
  Conclusion,
  IncomingEvent,
  Now,
  ProvisionalOutcome,
  ProvisionalRules,
  ReadMoment,
  Store,
} from '../../src/store/store.ts';
import type { Processed } from '../../src/store/units/processing.ts';
import { brokenRules } from '../support/pending.ts';
import { dueOf, fullSyncsOf } from './planner.ts';

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
const TOLERANCE_MS = 300_000;
export const HOUR_MS = 3_600_000;

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
/** How a scene begins. `guardPercent`: default 20. */
type Start = { wall?: number; guardPercent?: number };

export async function createScene(open: OpenEngine, start: Start = {}) {
  const harness = await open();
  const wallStart = start.wall ?? WALL_START;
  const { guardPercent = 20 } = start;
  let elapsed = 0;
  let serial = 0;
  let store = harness.store;
  let told: string[] = [];
  const watch = () =>
    store.watchProblems(({ problem, what, error, openForMs }) => {
      const about = `${what} ${problem.reason} ${problem.kind ?? '-'} ${problem.recordId ?? '-'}`;
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
    guardPercent,
    timing: TIMING,
    ...over,
  });

  async function accept(...events: IncomingEvent[]) {
    return store.accept({ events, unusable: [] }, now(), TIMING);
  }

  /** A person accepts what the problem shows. */
  async function resolve(id: number) {
    const shown = await store.show('problems', id);
    return await store.resolveProblem(id, shown!.digest, now());
  }

  /** Processes what is pending. */
  async function work(over: Partial<ProvisionalRules> = {}, limit = 100): Promise<ProvisionalOutcome[]> {
    const turn = { limit, rules: rules(over), retryDelaysMs: [] };
    return (await store.processPending(turn, now())).outcomes;
  }

  /** Our own code breaks on what is pending. `delayMs`: then it is tried again; null: it fails. */
  async function fail(
    over: { limit?: number; delayMs?: number | null } = {},
  ): Promise<Processed['deferred']> {
    const { limit = 100, delayMs = null } = over;
    const retryDelaysMs = delayMs === null ? [] : Array.from({ length: 50 }, () => delayMs);
    const turn = { limit, rules: brokenRules(rules(), 'boom'), retryDelaysMs };
    return (await store.processPending(turn, now())).deferred;
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
    over: {
      began?: { number: number; beganAt: number };
      cause?: Cause;
      syncRunId?: number;
      isOfList?: boolean;
    } = {},
  ): Promise<Applied[]> {
    const { isOfList = false } = over;
    const read = { ...endRead(over.began ?? (await beginRead())), isOfList };
    const context = {
      cause: over.cause ?? { cause: 'refetch', causeId: null },
      syncRunId: over.syncRunId ?? null,
      timing: TIMING,
      pointers: POINTERS,
    };
    const shown = objects.map(({ id, data }) => ({ id, json: JSON.stringify(data) }));
    return store.applyReads(kind, shown, read, context);
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

  /** Reads that find nothing of what the newest event is about, until such a read counts. */
  async function outwait(kind: Kind, id: string): Promise<void> {
    for (const settles of [1, 6, 12]) {
      pass(settles * SETTLE_MS);
      if (settles < 12) await missing(kind, id);
    }
  }

  async function conclude(
    kind: Kind,
    over: {
      absent?: readonly string[];
      number?: number;
      unannounced?: readonly string[];
    } = {},
  ): Promise<Omit<Conclusion, 'left'>> {
    const { absent } = over;
    const number = over.number ?? (await store.currentNumber());
    const proof = absent === undefined ? null : { absent, number, beganAt: now().steady };
    const context = {
      cause: { cause: 'sync', causeId: '1' } as const,
      unannounced: over.unannounced ?? null,
      guardPercent,
      timing: TIMING,
    };
    const { left: _, ...conclusion } = await store.concludeDeletions(kind, proof, context, now());
    return conclusion;
  }

  /** A person lets all pending deletions of the kind go, or refuses them. */
  async function decide(
    kind: Kind,
    what: 'approve' | 'keep',
    over: { untilWall?: number; eventsOnly?: boolean } = {},
  ) {
    const { digest } = await store.pendingOf(kind, now().wall);
    if (what === 'keep') return await store.decideDeletions(kind, digest, 'keep', now());
    const how = { untilWall: now().wall + HOUR_MS, eventsOnly: false, ...over };
    return await store.decideDeletions(kind, digest, how, now());
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
    work,
    resolve,
    fail,
    beginRead,
    endRead,
    apply,
    show,
    missing,
    outwait,
    conclude,
    decide,
    row: (kind: Kind, id: string) => store.show('records', { kind, id }),
    due: (kind: 'vendor' | 'risk_assessment', slots = 10, isRunning = false) =>
      dueOf(store, kind, now(), { timing: TIMING, slots, isRunning }),
    /** The kinds of which a problem wants a full sync. */
    wanted: () => fullSyncsOf(store, now()),
    /** The kinds whose deletions wait for a person. */
    pending: () => fullSyncsOf(store, now(), 'pending'),
    /** When the first record of the kind is to be read, without a look at later dirty marks. */
    async dueAt(kind: Kind): Promise<number | null> {
      const [row] = await harness.query(`SELECT min(due_at) AS at FROM record_state WHERE kind = '${kind}'`);
      return row!['at'] === null ? null : Number(row!['at']);
    },
    /** Records that wait for their second 404, and that have it. */
    async proofs(kind: Kind): Promise<{ awaiting: number; proven: number }> {
      const rows = await harness.query(
        `SELECT proven FROM record_state WHERE kind = '${kind}' AND missing_since IS NOT NULL`,
      );
      const proven = rows.filter((row) => Boolean(row['proven'])).length;
      return { awaiting: rows.length - proven, proven };
    },
    openProblems: async () =>
      (await store.list('problems', { open: true, limit: 500 })).items.map(
        (problem) => `${problem.reason} ${problem.kind ?? '-'} ${problem.record_id ?? '-'}`,
      ),
    /** What the store has told of problems since this was last asked, as `opened failed_event policy pol_1: why`. */
    toldOfProblems: () => {
      const news = told;
      told = [];
      return news;
    },
    changes: async () => (await store.list('changes', { oldestFirst: true, limit: 500 })).items,
  };
}

/** Runs `story` in a scene of its own. */
export function inScene(open: OpenEngine, story: (scene: Scene) => Promise<void>, start: Start = {}) {
  return async () => {
    const scene = await createScene(open, start);
    try {
      await story(scene);
    } finally {
      await scene.close();
    }
  };
}

/** All deliveries of this outcome with their bodies, newest first. */
export async function shownOf(store: Store, outcome: 'quarantined' | 'rejected'): Promise<ShownDelivery[]> {
  const shown: ShownDelivery[] = [];
  for (let after: string | undefined; ; ) {
    const { items, next } = await store.list('deliveries', { outcome, limit: 500, after });
    for (const { id } of items) shown.push((await store.show('deliveries', id))!);
    if (next === null) return shown;
    after = next;
  }
}

import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import type { ListOrder } from './model.ts';
import { type Chance, createChance } from './random.ts';

/**
 * One history, as data: what happens to the upstream, to its messages, to the network and to us, and when. Built
 * whole before anything runs, so that a failing one can be cut down to what it takes to fail.
 */
export interface Plan {
  seed: number;
  settings: Settings;
  /** One: a mirror with a file to itself. More: they share a database. */
  replicas: number;
  operations: readonly Operation[];
}

export interface Settings {
  settleMs: number;
  pageSize: number;
  order: ListOrder;
  givesTotal: boolean;
  requestsPerMinute: number;
  fullSyncMs: number;
  timeoutMs: number;
  /** Share of requests that fail for no lasting reason. */
  errorRate: number;
  /** Usual and longest time of an answer. */
  latencyMs: number;
  longestLatencyMs: number;
  /** The sender's clock is ahead of the true time by this. */
  skewMs: number;
  wholeSeconds: boolean;
  /** Share of events whose id stands where no pointer looks, and how: -1 for each as it comes. */
  elsewhere: { share: number; shape: number };
  /** Records that exist before anything begins, and were never announced. */
  initial: Readonly<Record<Kind, number>>;
  /** Which assessment a record names, by `kind id`. */
  references: readonly (readonly [string, string])[];
  /** The operator's file of assessments. */
  riskIds: readonly string[];
  /** Answers may come from caches, and are up to so old. 0: none does. */
  cacheMs: number;
  /** Answers with a 2xx may say that they failed, or are a part. */
  saysFailure: boolean;
  /** Share of events that come with others in one delivery. */
  batches: number;
}

/** How the event of a change fares. */
export interface Message {
  /** `lost` before any attempt, or the delays of its copies. */
  copiesMs: readonly number[];
  payload: 'full' | 'partial' | 'thin' | 'unusable' | 'broken';
  /** Its id stands where no pointer looks: which of `SHAPES`. Null: where it is looked for. */
  shape: number | null;
  /** Which of the family's types, where several would do; `odd`: one that the specification does not name. */
  type: number | 'odd';
  /** Carries the id of the event before it, with its own content. */
  reusesId: boolean;
  /** Waits a moment for others, and comes in one delivery with them. */
  joins: boolean;
}

export type Fault =
  | { fault: 'outage' | 'unauthorized' | 'forbidden' | 'rate_limited' | 'lost_path' }
  /** Its list, and with `all` its records' own addresses too, shows what was as this began. */
  | { fault: 'lagging'; kind: Kind; of: 'list' | 'all' }
  | { fault: 'truncated' | 'gappy' | 'malformed' | 'page_ignored' | 'total_wrong' | 'forgetful'; kind: Kind }
  /** Its answers say with a 2xx that they are a part, or that they failed. */
  | { fault: 'partial' | 'failed'; kind: Kind }
  /** The path to its records' own addresses is lost. */
  | { fault: 'lost_records'; kind: Kind };

export type Operation = { at: number } & (
  | { do: 'write' | 'delete'; kind: Kind; id: string; message: Message | null }
  | { do: 'fault'; fault: Fault; forMs: number }
  /** After so many more commits (0: at once); before the commit, or after it and before anyone hears of it. */
  | { do: 'crash'; commits: number; when: 'before' | 'after'; downMs: number; stepMs: number }
  | { do: 'step'; offsetMs: number }
  | { do: 'slow'; forMs: number; delayMs: number }
  | { do: 'disk_full'; forMs: number }
  | { do: 'sync'; kinds: readonly Kind[] }
  | { do: 'refetch'; kind: Kind; id: string }
  /**
   * One of several replicas stands still, as a stopped process does, while the time of all others goes on: whoever asks the
   * database for this verb next, as it asks; null: anyone, at once.
   */
  | { do: 'stall'; verb: 'processPending' | 'applyReads' | 'concludeDeletions' | null; forMs: number }
);

const HOUR_MS = 3_600_000;

/** Of seeds from here on the upstream lags, and caches stand before it. */
export const LAGGING_FROM = 3_000_000;
const LAGGING_TO = 4_000_000;
/** Of seeds from here on some lag so; answers may say that they failed or are a part, and events come several in one delivery. */
export const MIXED_FROM = 10_000_000;
/** How long the API may lag behind an event, in SETTLEs. */
const LONGEST_LAG = 15;

/** How many ways there are for an id to stand elsewhere: the sender has them. */
const SHAPES = 5;

export const initialIds = (settings: Settings, kind: Kind): string[] =>
  Array.from({ length: settings.initial[kind] }, (_, index) => idOf(kind, index));

const idOf = (kind: Kind, index: number) => `${kind[0]}${index}`;

/** The plan of a seed. The same seed has the same plan for ever, as long as this file stays as it is. */
export function planOf(seed: number): Plan {
  const chance = createChance(seed);
  const settings = settingsOf(chance);
  const long = chance.happens('long', 0.06) ? chance.pick('long', ['policy', 'vendor'] as const) : null;
  if (long !== null) lengthen(chance, settings, long);
  const isMixed = seed >= MIXED_FROM;
  const lags = isMixed ? chance.happens('lags', 0.3) : seed >= LAGGING_FROM && seed < LAGGING_TO;
  if (isMixed) settings.batches = chance.pick('batches', [0, 0.3, 0.8]);
  settings.saysFailure = isMixed;
  if (lags) {
    settings.cacheMs = chance.pick('cache', [0, settings.settleMs, settings.settleMs * 12]);
    // What no pointer finds, nothing can be compared with.
    settings.elsewhere = { share: 0, shape: 0 };
  }
  const flapping = long === null && chance.happens('flapping', 0.06);
  if (flapping) shorten(chance, settings);
  const { settleMs } = settings;
  const spanMs = settleMs * chance.between('span', 12, 40);
  const operations: Operation[] = [];
  const add = (count: number, make: (at: number) => Operation) => {
    for (let i = 0; i < count; i += 1) operations.push(make(Math.floor(chance.draw('at') * spanMs)));
  };
  const universe: Record<Kind, number> = {
    policy: settings.initial.policy + chance.between('more', 0, 3),
    vendor: settings.initial.vendor + chance.between('more', 0, 3),
    risk_assessment: settings.initial.risk_assessment + chance.between('more', 0, 3),
  };
  const faulty = chance.happens('faulty', 0.6);
  const deletes = chance.pick('deletes', [0.05, 0.2, 0.4]);
  const loss = chance.pick('loss', [0, 0.2, 0.5]);
  const patient = chance.happens('hours', 0.005);
  if (patient) settings.fullSyncMs = 0;

  add(chance.between('writes', 15, 50), (at) => {
    const kind = chance.pick('kind', ['policy', 'policy', 'vendor', 'vendor', 'risk_assessment'] as const);
    // Half of all changes fall on the first records: hot ones.
    const range = Math.max(1, chance.happens('hot', 0.5) ? 2 : universe[kind]);
    const id = idOf(kind, chance.between('id', 0, range - 1));
    const gone = chance.happens('gone', kind === 'risk_assessment' ? deletes / 2 : deletes);
    return {
      at,
      do: gone ? 'delete' : 'write',
      kind,
      id,
      message: messageOf(chance, settings, loss, patient),
    };
  });
  if (faulty) add(chance.between('faults', 1, 3), (at) => faultOf(chance, at, settings));
  if (chance.happens('crashes', 0.5))
    add(chance.between('crashes', 1, 3), (at) => crashOf(chance, at, settings));
  if (chance.happens('steps', 0.15)) {
    add(1, (at) => ({ at, do: 'step', offsetMs: chance.pick('step', [-HOUR_MS, -5_000, 5_000, HOUR_MS]) }));
  }
  if (chance.happens('slow', 0.3)) {
    add(2, (at) => ({
      at,
      do: 'slow' as const,
      forMs: settleMs * 6,
      delayMs: Math.round(settleMs * (0.3 + 4 * chance.draw('slowness'))),
    }));
  }
  if (chance.happens('full', 0.1))
    add(1, (at) => ({ at, do: 'disk_full', forMs: settleMs * chance.between('full', 1, 5) }));
  add(chance.between('sweeps', 0, 4), (at) => ({ at, do: 'sync', kinds: [chance.pick('swept', KINDS)] }));
  add(chance.between('refetches', 0, 3), (at) => {
    const kind = chance.pick('refetched', ['vendor', 'risk_assessment'] as const);
    return { at, do: 'refetch', kind, id: idOf(kind, chance.between('refetched', 0, universe[kind])) };
  });
  // Nothing was ever read, and nothing is known.
  if (chance.happens('lost at first', 0.1))
    operations.push({
      at: 0,
      do: 'fault',
      fault: { fault: 'lost_path' },
      forMs: settleMs * chance.between('lost at first', 2, 10),
    });
  if (lags) operations.push(...lagsOf(chance, spanMs, settings));
  if (long) operations.push(...resumptions(chance, spanMs, long, settings));
  if (flapping) operations.push(...flaps(chance, spanMs, settings));
  operations.sort((a, b) => a.at - b.at);
  return { seed, settings, replicas: 1, operations };
}

function settingsOf(chance: Chance): Settings {
  const settleMs = chance.pick('settle', [150, 400, 800]);
  const initial = {
    policy: chance.between('policies', 0, 8),
    vendor: chance.between('vendors', 0, 8),
    risk_assessment: chance.between('assessments', 0, 4),
  };
  const references = ['p0', 'p1', 'v0', 'v1'].flatMap((id, index) =>
    chance.happens('names', 0.4)
      ? [[`${index < 2 ? 'policy' : 'vendor'} ${id}`, `r${chance.between('named', 0, 5)}`] as const]
      : [],
  );
  return {
    settleMs,
    pageSize: chance.pick('page', [1, 2, 3, 100]),
    order: chance.pick('order', ['id', 'oldest', 'newest'] as const),
    givesTotal: chance.happens('total', 0.7),
    requestsPerMinute: chance.pick('budget', [6_000, 6_000, 6_000, 600]),
    fullSyncMs: chance.pick('timer', [0, settleMs * 5, 3_600_000]),
    timeoutMs: settleMs * 8,
    errorRate: chance.pick('errors', [0, 0, 0.05, 0.2]),
    latencyMs: Math.round(settleMs * chance.pick('latency', [0.01, 0.1, 0.4])),
    longestLatencyMs: settleMs * chance.pick('tail', [1, 4, 7]),
    skewMs: chance.pick('skew', [0, 0, -120_000, 3_000, 120_000]),
    wholeSeconds: chance.happens('seconds', 0.5),
    elsewhere: {
      share: chance.pick('elsewhere', [0, 0, 0, 0, 0.3, 1]),
      shape: chance.between('shape of all', -1, SHAPES - 1),
    },
    initial,
    references,
    riskIds: chance.happens('file', 0.3) ? ['r0', 'r1'] : [],
    cacheMs: 0,
    saysFailure: false,
    batches: 0,
  };
}

/** So long a list that an interrupted list scan over it is worth resuming. */
function lengthen(chance: Chance, settings: Settings, kind: 'policy' | 'vendor'): void {
  settings.initial = { ...settings.initial, [kind]: chance.between('long', 13, 18) };
  settings.pageSize = 1;
  settings.givesTotal = chance.happens('long', 0.3);
  settings.requestsPerMinute = 6_000;
  settings.errorRate = Math.min(settings.errorRate, 0.05);
}

/** Of each kind, one lag after the other. */
function lagsOf(chance: Chance, spanMs: number, { settleMs }: Settings): Operation[] {
  return (['policy', 'vendor', 'risk_assessment'] as const).flatMap((kind) => {
    const operations: Operation[] = [];
    for (let at = 0; at < spanMs; ) {
      at += Math.floor(settleMs * chance.between('lag after', 1, 12));
      const forMs = settleMs * chance.between('lag', 2, LONGEST_LAG);
      const of = kind === 'vendor' && chance.happens('lag of the list alone', 0.5) ? 'list' : 'all';
      operations.push({ at, do: 'fault', fault: { fault: 'lagging', kind, of }, forMs });
      at += forMs;
    }
    return operations;
  });
}

/** Crashes far into a list scan, and records that come to be about then and that nothing announces. */
function resumptions(
  chance: Chance,
  spanMs: number,
  kind: 'policy' | 'vendor',
  { settleMs }: Settings,
): Operation[] {
  return [1, 2, 3].flatMap((time): Operation[] => {
    const at = Math.floor((chance.draw('resumed') * 0.2 + time * 0.25) * spanMs);
    return [
      { at, do: 'sync', kinds: [kind] },
      {
        at: at + 1,
        do: 'crash',
        commits: chance.between('resumed', 22, 40),
        when: 'after',
        stepMs: 0,
        downMs: settleMs * chance.between('resumed', 2, 6),
      },
      {
        at: at + settleMs * chance.between('resumed', 1, 5),
        do: 'write',
        kind,
        id: idOf(kind, 100 + time),
        message: null,
      },
    ];
  });
}

/** A list of two pages, so that what moves moves over the one border between them. */
function shorten(chance: Chance, settings: Settings): void {
  settings.pageSize = chance.between('flapping', 2, 3);
  settings.initial = { ...settings.initial, policy: settings.pageSize + chance.between('flapping', 1, 2) };
  settings.order = 'id';
  // Without it, nothing but luck can tell that such a list has moved.
  settings.givesTotal = true;
  settings.requestsPerMinute = 6_000;
  settings.latencyMs = Math.round(settings.settleMs * 0.4);
  settings.longestLatencyMs = settings.settleMs;
}

/** The first policy of the list goes and comes again and again, unannounced, while the list is walked. */
function flaps(chance: Chance, spanMs: number, { settleMs }: Settings): Operation[] {
  const operations: Operation[] = [];
  for (let at = 0, gone = false; at < spanMs; ) {
    at += Math.ceil(settleMs * (0.4 + 0.8 * chance.draw('flap')));
    gone = !gone;
    operations.push({
      at,
      do: gone ? 'delete' : 'write',
      kind: 'policy',
      id: idOf('policy', 0),
      message: null,
    });
  }
  for (let at = 0; at < spanMs; at += 4 * settleMs) operations.push({ at, do: 'sync', kinds: ['policy'] });
  return operations;
}

function messageOf(
  chance: Chance,
  { settleMs, elsewhere, batches }: Settings,
  loss: number,
  patient: boolean,
): Message | null {
  if (chance.happens('lost', loss)) return null;
  const delay = () => {
    const kind = chance.draw('delay');
    if (kind < 0.6) return chance.between('delay', 0, settleMs / 4);
    if (kind < 0.9) return chance.between('delay', 0, settleMs * 4);
    return chance.between('delay', 0, patient ? 3 * HOUR_MS : settleMs * 25);
  };
  const copies = chance.happens('twice', 0.2) ? chance.between('copies', 2, 3) : 1;
  const payload = chance.draw('payload');
  return {
    copiesMs: Array.from({ length: copies }, delay),
    payload:
      payload < 0.5
        ? 'full'
        : payload < 0.75
          ? 'partial'
          : payload < 0.94
            ? 'thin'
            : payload < 0.97
              ? 'unusable'
              : 'broken',
    shape: chance.happens('message elsewhere', elsewhere.share)
      ? elsewhere.shape >= 0
        ? elsewhere.shape
        : chance.between('shape', 0, SHAPES - 1)
      : null,
    type: chance.happens('odd', 0.04) ? 'odd' : chance.between('type', 0, 2),
    reusesId: chance.happens('reused', 0.03),
    joins: chance.happens('joins', batches),
  };
}

function faultOf(chance: Chance, at: number, { settleMs, saysFailure }: Settings): Operation {
  const listed = chance.pick('listed', ['policy', 'vendor'] as const);
  if (saysFailure && chance.happens('says failure', 0.3)) {
    const fault = chance.pick('says', ['partial', 'failed'] as const);
    const forMs = settleMs * chance.between('lasts', 1, 15);
    return { at, do: 'fault', fault: { fault, kind: chance.pick('of', KINDS) }, forMs };
  }
  if (saysFailure && chance.happens('loses records', 0.2)) {
    const kind = chance.pick('of', ['vendor', 'risk_assessment'] as const);
    return {
      at,
      do: 'fault',
      fault: { fault: 'lost_records', kind },
      forMs: settleMs * chance.between('lasts', 1, 15),
    };
  }
  const fault: Fault = chance.pick('fault', [
    ...(['outage', 'unauthorized', 'forbidden', 'rate_limited', 'lost_path'] as const).map((name) => ({
      fault: name,
    })),
    ...(['truncated', 'gappy', 'malformed', 'page_ignored', 'total_wrong', 'forgetful'] as const).map(
      (name) => ({
        fault: name,
        kind: listed,
      }),
    ),
  ]);
  const long = fault.fault === 'outage' && chance.happens('hour', 0.02);
  return { at, do: 'fault', fault, forMs: long ? HOUR_MS : settleMs * chance.between('lasts', 1, 15) };
}

function crashOf(chance: Chance, at: number, { settleMs }: Settings): Operation {
  const stepped = chance.happens('stepped', 0.4);
  return {
    at,
    do: 'crash',
    commits: chance.pick('commits', [0, 1, 1, 2, 3, 5, 8, 13]),
    when: chance.pick('when', ['before', 'after'] as const),
    downMs: chance.pick('down', [1, settleMs / 2, settleMs * 2, settleMs * 8, 40_000]),
    stepMs: stepped ? chance.pick('step', [-HOUR_MS, -5_000, 5_000, HOUR_MS]) : 0,
  };
}

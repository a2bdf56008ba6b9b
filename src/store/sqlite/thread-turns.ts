import type { Store } from '../store.ts';

/**
 * The classes in which verbs wait for a thread, which runs one at a time, first to last while none has waited too long.
 * `reports` only read and may take long (some are asked by a full sync): they have a thread and a connection of their own.
 */
const CLASSES = ['deliveries', 'processing', 'operators', 'syncs', 'reports'] as const;
export type VerbClass = (typeof CLASSES)[number];

/** How many turns others may have while a verb of the class waits. After that it goes before the classes above it. */
const PATIENCE: Readonly<Record<VerbClass, number>> = {
  // A sender waits for the answer, or a health probe.
  deliveries: 1,
  // At least a quarter of the turns, however many deliveries come: a batch holds more events than most groups of deliveries.
  processing: 3,
  // Rare and short, and often a person waits for the answer.
  operators: 4,
  // Pages of a full sync, and periodic work.
  syncs: 7,
  reports: 7,
};

/** Each class that waits, and how many turns others have had since. */
export type Waiting = Readonly<Partial<Record<VerbClass, number>>>;

/**
 * The class that has waited the longest beyond its patience, or else the first that waits; null if none waits. A waiting class
 * gets its turn before the others have had as many as its patience and one more each.
 */
export function nextTurn(waiting: Waiting): VerbClass | null {
  let chosen: VerbClass | null = null;
  let longest = -1;
  for (const each of CLASSES) {
    const passed = waiting[each];
    if (passed === undefined) continue;
    const beyond = Math.max(-1, passed - PATIENCE[each]);
    if (chosen !== null && beyond <= longest) continue;
    chosen = each;
    longest = beyond;
  }
  return chosen;
}

/** A queue for each class, in order of arrival. */
export interface Line<Item> {
  add(ofClass: VerbClass, item: Item): void;
  /** Removes and returns the item whose turn it is. */
  next(): Item | undefined;
}

export function createLine<Item>(): Line<Item> {
  const items = new Map<VerbClass, Item[]>();
  const passed: Partial<Record<VerbClass, number>> = {};
  return {
    add(ofClass, item) {
      const waiting = items.get(ofClass);
      if (waiting === undefined) items.set(ofClass, [item]);
      else waiting.push(item);
      passed[ofClass] ??= 0;
    },
    next() {
      const turn = nextTurn(passed);
      if (turn === null) return undefined;
      for (const each of CLASSES) if (passed[each] !== undefined) passed[each] += 1;
      const waiting = items.get(turn)!;
      const item = waiting.shift();
      if (waiting.length > 0) passed[turn] = 0;
      else delete passed[turn];
      return item;
    },
  };
}

/** The verbs of the port that are called on a thread; the others need no database, or take a function. */
export type ThreadVerb = Exclude<
  keyof Store,
  'engine' | 'watchGaps' | 'sharedTime' | 'notify' | 'listen' | 'close'
>;

/** On which thread a verb runs, and in which class it waits there. One that is not in the list waits among the pages of a full sync. */
export const classOf = (verb: ThreadVerb): VerbClass => CLASS_OF[verb] ?? 'syncs';

const CLASS_OF: Readonly<Partial<Record<ThreadVerb, Exclude<VerbClass, 'syncs'>>>> = {
  accept: 'deliveries',
  recordRejections: 'deliveries',
  checkWritable: 'deliveries',

  claimEvents: 'processing',
  releaseEvents: 'processing',
  recoverClaims: 'processing',
  nextAttemptWall: 'processing',
  applyEvents: 'processing',
  deferEvents: 'processing',

  retryEvent: 'operators',
  discardEvent: 'operators',
  releaseQuarantined: 'operators',
  approveDeletions: 'operators',
  // One class for both, so that they keep their order.
  openGap: 'operators',
  resolveGap: 'operators',
  audit: 'operators',
  settleAudit: 'operators',
  saveRegistration: 'operators',
  forgetRegistration: 'operators',
  reseal: 'operators',
  readTokens: 'operators',
  leaseTokens: 'operators',
  releaseTokens: 'operators',
  saveTokens: 'operators',
  refuseTokens: 'operators',
  readFact: 'operators',
  writeFact: 'operators',
  claimFact: 'operators',
  openSession: 'operators',
  findSession: 'operators',
  touchSession: 'operators',
  closeSession: 'operators',
  // The view `sync_status` and the length of our own downtime depend on it.
  beat: 'operators',
  epoch: 'operators',
  addTraffic: 'operators',

  seeFields: 'reports',
  failedWithoutRecord: 'reports',
  countDue: 'reports',
  compareReads: 'reports',
  knownIds: 'reports',
  unseenBy: 'reports',
  touchedSince: 'reports',
  hasAnnouncedDeletion: 'reports',
  countProofs: 'reports',
  someLiveRecord: 'reports',
  cycleRecords: 'reports',
  countKnown: 'reports',
  unreadableRecords: 'reports',
  kindsWantingFullSync: 'reports',
  pendingDeletions: 'reports',
  unreadEvents: 'reports',
  neverShown: 'reports',
  eventsNaming: 'reports',
  shownIds: 'reports',
  learnedPointers: 'reports',
  lastDelivery: 'reports',
  listRegistrations: 'reports',
  listSealed: 'reports',
  summary: 'reports',
  listEvents: 'reports',
  listDeliveries: 'reports',
  showEvent: 'reports',
  listRecords: 'reports',
  listStatuses: 'reports',
  showRecord: 'reports',
  recordHistory: 'reports',
  listChanges: 'reports',
  changesBefore: 'reports',
  trimmedChanges: 'reports',
  snapshotRecords: 'reports',
  list: 'reports',
  show: 'reports',
  countGapsOpened: 'reports',
  listPendingDeletions: 'reports',
  listTraffic: 'reports',
};

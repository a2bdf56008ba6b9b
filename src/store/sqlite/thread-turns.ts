import type { Store } from '../store.ts';

/**
 * Of verbs that wait for a thread, which does one at a time: in the order in which they go where none has waited for too long.
 * `reports` only look, and may look for long, questions of a sync among them: they have a thread and a connection of their own.
 */
const CLASSES = ['deliveries', 'processing', 'operators', 'syncs', 'reports'] as const;
export type VerbClass = (typeof CLASSES)[number];

/** Turns that others may have while a verb of the class waits. Then it goes before what stands above it. */
const PATIENCE: Readonly<Record<VerbClass, number>> = {
  // First but for what has waited for long: a sender waits for it, or a probe.
  deliveries: 1,
  // At least a quarter of the turns, however many deliveries come: a batch is larger than most groups of them.
  processing: 3,
  // Rare and short, and mostly somebody waits for it.
  operators: 4,
  // Pages of a full sync, and upkeep.
  syncs: 7,
  reports: 7,
};

/** What waits, and how many turns others have had since it does. */
export type Waiting = Readonly<Partial<Record<VerbClass, number>>>;

/**
 * Whose turn it is: the class that waits the longest beyond its patience, or else the first. Null: nobody waits. A class that
 * waits has its turn before the others have had as many as its patience and one more each. Pure.
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

/** What waits, each class in the order in which it came. */
export interface Line<Item> {
  add(ofClass: VerbClass, item: Item): void;
  /** Takes out whose turn it is. */
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

/** Those that answer without the database, or hand a function over, stay where they are called. */
export type ThreadVerb = Exclude<
  keyof Store,
  'engine' | 'watchGaps' | 'sharedTime' | 'notify' | 'listen' | 'close'
>;

/** A new verb of the port has its place here, or this does not compile. */
export const CLASS_OF: Readonly<Record<ThreadVerb, VerbClass>> = {
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
  resolveGapById: 'operators',
  audit: 'operators',
  askAudit: 'operators',
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
  openSession: 'operators',
  findSession: 'operators',
  touchSession: 'operators',
  closeSession: 'operators',
  // What the view `sync_status` and our own downtime are told from.
  beat: 'operators',
  lastBeat: 'operators',
  epoch: 'operators',
  addTraffic: 'operators',

  currentNumber: 'syncs',
  markUnverifiedDirty: 'syncs',
  dueRecords: 'syncs',
  nextDueAt: 'syncs',
  makeKnown: 'syncs',
  makeDue: 'syncs',
  applyReads: 'syncs',
  recordMissing: 'syncs',
  recordReadFailure: 'syncs',
  concludeDeletions: 'syncs',
  addPendingDeletion: 'syncs',
  markSynced: 'syncs',
  startSyncRun: 'syncs',
  progressSyncRun: 'syncs',
  finishSyncRun: 'syncs',
  interruptSyncRuns: 'syncs',
  putOffUnread: 'syncs',
  seekAnew: 'syncs',
  noteSearched: 'syncs',
  learnPointer: 'syncs',
  openGap: 'syncs',
  resolveGap: 'syncs',
  noteAccess: 'syncs',
  trim: 'syncs',
  learnFields: 'syncs',
  beatReplica: 'syncs',
  leaveReplicas: 'syncs',
  countReplicas: 'syncs',
  takeLease: 'syncs',
  releaseLease: 'syncs',
  requestSyncRuns: 'syncs',
  takeSyncRequests: 'syncs',
  sharePlaces: 'syncs',
  pausePlaces: 'syncs',

  seeFields: 'reports',
  failedWithoutRecord: 'reports',
  countDue: 'reports',
  compareReads: 'reports',
  knownIds: 'reports',
  countLive: 'reports',
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
  readRejection: 'reports',
  summary: 'reports',
  listEvents: 'reports',
  listDeliveries: 'reports',
  showEvent: 'reports',
  listRecords: 'reports',
  listStatuses: 'reports',
  showRecord: 'reports',
  recordHistory: 'reports',
  recordChangesAfter: 'reports',
  listChanges: 'reports',
  changesBefore: 'reports',
  trimmedChanges: 'reports',
  snapshotRecords: 'reports',
  listGaps: 'reports',
  countGapsOpened: 'reports',
  listSyncRuns: 'reports',
  showSyncRun: 'reports',
  listQuarantine: 'reports',
  showQuarantined: 'reports',
  listRejections: 'reports',
  showRejection: 'reports',
  listAudit: 'reports',
  listPendingDeletions: 'reports',
  readQuarantinedBody: 'reports',
  listTraffic: 'reports',
};

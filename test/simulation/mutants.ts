import { registerHooks } from 'node:module';

/**
 * The algorithm's guards, each with the smallest edit that takes it away. A snippet must stand exactly once in its
 * file: when the code moves on, the mutant must move with it, and says so.
 */
export interface Mutant {
  name: string;
  /** What the mirror does without it. */
  without: string;
  edits: readonly { file: string; find: string; put: string }[];
  /** Where the test begins to look, to save its time; then it looks everywhere. */
  tryFirst?: number;
}

const PROVISIONAL = 'src/mirror/provisional.ts';
const READS = 'src/mirror/reads.ts';
const DELETIONS = 'src/mirror/deletions.ts';
const LIST = 'src/backfill/list.ts';
const WHOLE_LIST = 'src/backfill/whole-list.ts';

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'provisional-guard',
    tryFirst: 35,
    without: 'a late payload is shown over what the API has confirmed since',
    edits: [{ file: PROVISIONAL, find: 'if (isCovered || !isNewer) return', put: 'if (false) return' }],
  },
  {
    name: 'write-guard',
    tryFirst: 18,
    without: 'a read begun before the last write of a row undoes it',
    edits: [
      { file: READS, find: 'const newerRow = state.write > read.number;', put: 'const newerRow = false;' },
    ],
  },
  {
    name: 'settle-distance',
    tryFirst: 11,
    without: 'of two reads close together that differ the later one wins, however stale it may be',
    edits: [
      {
        file: READS,
        find: '(asksAddress || tooCloseToTell(state, read, timing))) {',
        put: 'asksAddress) {',
      },
    ],
  },
  {
    name: 'shown-guard',
    tryFirst: 16,
    without: 'a read that begins too soon after an event takes back what that has shown',
    edits: [
      {
        file: READS,
        find: 'const kept = stillShown(state, read, timing, seen.data);',
        put: 'const kept = null;',
      },
    ],
  },
  {
    name: 'too-early',
    tryFirst: 3_000_003,
    without:
      'a read that shows only what was there before the newest event confirms it, although the API lags',
    edits: [
      {
        file: READS,
        find: 'if (dirty <= confirmed || dirtyAt === null',
        put: 'if (true || dirtyAt === null',
      },
    ],
  },
  {
    name: 'list-behind-address',
    tryFirst: 3_000_021,
    without: 'a list that is behind takes back what a record’s own address has just shown',
    edits: [
      {
        file: READS,
        find: 'isOfDeleted || mayBeBehindAddress(state, read, timing)',
        put: 'isOfDeleted',
      },
    ],
  },
  {
    name: 'age',
    tryFirst: 3_000_021,
    without: 'what a cache gives counts as read now',
    edits: [
      {
        file: 'src/backfill/upstream.ts',
        find: 'if (agedMs > 0) number = Math.min(number, await store.numberAt(began.wall));',
        put: '[began.steady, ended.steady] = [began.steady + agedMs, ended.steady + agedMs];',
      },
    ],
  },
  {
    name: 'relived',
    tryFirst: 10_002_752,
    without:
      'a deletion is believed that a newer event contradicts, where the path is lost and nothing can be compared',
    edits: [{ file: DELETIONS, find: 'isRelived ? (context.relivedPatience ?? 0) : 0', put: '0' }],
  },
  {
    name: 'covering-scan',
    tryFirst: 10_017_967,
    without: 'lists from before an event prove that its record is gone',
    edits: [
      {
        file: DELETIONS,
        find: 'if (state.dirtyAt !== null && scan.beganAt < state.dirtyAt + timing.settleMs) return state;',
        put: '',
      },
    ],
  },
  {
    name: 'second-scan',
    tryFirst: 141,
    without: 'what one list scan did not show is gone',
    edits: [
      {
        file: WHOLE_LIST,
        find: 'const last = await scanOnce(first.ids);',
        put: 'first = { ...first, steady: true }; const last = first;',
      },
    ],
  },
  {
    name: 'complete-scan',
    tryFirst: 15,
    without: 'a list that contradicts its own total is taken for the whole list',
    edits: [
      {
        file: LIST,
        find: 'lackOf({ ...list,',
        put: 'lackOf({ ...list, total: null,',
      },
    ],
  },
  {
    name: 'failed-scan',
    tryFirst: 7,
    without: 'a list scan that a failing page cut short counts as complete',
    edits: [
      {
        file: LIST,
        find: 'list.lack = { error: error.message, ...(stays === undefined ? {} : { stays }) };',
        put: '',
      },
    ],
  },
  {
    name: 'settled-scan',
    tryFirst: 107,
    without: 'a list that is read again at once gets the same old page, and skips the same record',
    edits: [{ file: WHOLE_LIST, find: 'await settledAfter(last);', put: '' }],
  },
  {
    name: 'steady-scan',
    tryFirst: 209,
    without: 'a list that moved while it was read is as good as one that did not',
    edits: [
      { file: WHOLE_LIST, find: 'first.steady && last.steady && isLater', put: 'isLater' },
      {
        file: WHOLE_LIST,
        find: "const isOnceMore = hasUnnamed || last.again === 'once';",
        put: 'const isOnceMore = hasUnnamed;',
      },
    ],
  },
  {
    name: 'repeated-page',
    tryFirst: 12,
    without: 'a list that shows one page for ever is read for ever',
    edits: [
      {
        file: LIST,
        find: 'const isRepeat = hasRows && (ids === before || ids === opening);',
        put: 'const isRepeat = false;',
      },
    ],
  },
  {
    name: 'named-in-reads',
    tryFirst: 2,
    without: 'an assessment that only a row names is never looked for',
    edits: [
      {
        file: 'src/store/units/backfill.ts',
        find: 'objects.flatMap((object) => assessmentsIn(object, kind, context.pointers));',
        put: 'objects.slice(0, 0).map(() => assessmentsIn.name);',
      },
    ],
  },
  {
    name: 'repeated-404',
    tryFirst: 26,
    without: 'a single 404 is proof of absence',
    edits: [
      {
        file: DELETIONS,
        find: "return { outcome: 'first', state: { ...first, dueAt: settled } };",
        put: "return { outcome: 'proven', state: { ...first, proven: true, dueAt: null } };",
      },
    ],
  },
  {
    name: 'witness',
    tryFirst: 125,
    without: 'two 404s are proof of absence, whether or not anything else can be read',
    edits: [{ file: DELETIONS, find: 'if (needsWitness && !witnessed)', put: 'if (false)' }],
  },
  {
    name: 'witness-after',
    tryFirst: 10_001_386,
    without: 'a path that was lost, found for a moment and lost again hides what lives from both reads',
    edits: [{ file: DELETIONS, find: 'if (needsWitness && !context.witnessedAfter)', put: 'if (false)' }],
  },
  {
    name: 'hold',
    tryFirst: 145,
    without: 'however many records vanish at once, they are deleted',
    edits: [
      {
        file: DELETIONS,
        find: 'const waits = new Set(pending.map(({ id }) => id));',
        put: 'const waits = new Set<string>();',
      },
    ],
  },
  {
    name: 'crash-recovery',
    tryFirst: 10,
    without: 'after a restart the dirty marks of the last run are taken by its clock',
    edits: [
      {
        file: 'src/service/missed-deliveries.ts',
        find: 'await options.store.markUnverifiedDirty(momentOf(options.clock), options.timing);',
        put: ';',
      },
    ],
  },
  {
    name: 'unread-of-unlisted',
    tryFirst: 22,
    without: 'a reading of the assessments that are known settles an event that named none',
    edits: [
      {
        file: 'src/backfill/backfill.ts',
        find: 'const listed = named?.isComplete ?? true;',
        put: 'const listed = true;',
      },
    ],
  },
  {
    name: 'unread-of-unknown-type',
    tryFirst: 12,
    without: 'an event of an unknown type that names no record is ignored',
    edits: [
      {
        file: 'src/store/units/processing.ts',
        find: 'event.known || (event.kind !== null && event.recordId === null);',
        put: 'event.known;',
      },
    ],
  },
  {
    name: 'one-proof',
    tryFirst: 107,
    without: 'of several records that an event may be about the likeliest is taken',
    edits: [
      {
        file: 'src/backfill/unknown-records.ts',
        find: 'if (others.length > 0)',
        put: 'if (others.length > 99)',
      },
      {
        file: 'src/backfill/unknown-records.ts',
        find: 'other.place <= one.place',
        put: 'other.place < one.place',
      },
    ],
  },
  {
    name: 'proof-by-reading',
    tryFirst: 19,
    without: 'the likeliest value is taken for the id, and nobody is asked',
    edits: [
      {
        file: 'src/backfill/unknown-records.ts',
        find: 'const shown = await shownOf(event, candidates);',
        put: 'return candidates[0]!; const shown: Candidate[] = [];',
      },
    ],
  },
  {
    name: 'unknown-404',
    tryFirst: 156,
    without:
      'a 404 settles what an event named, whatever else stands in the event that may be an assessment’s id',
    edits: [
      {
        file: DELETIONS,
        find: "return { outcome: isNamed ? 'unresolved_event' : 'unresolved', state };",
        put: "return { outcome: 'known', state: { ...answered, unverifiedSince: null, dirtyAt: null, firstDirtyAt: null, dueAt: null } };",
      },
    ],
  },
  {
    name: 'answer-without-record',
    tryFirst: 9,
    without: 'an answer that names no id is taken for the record that was asked for, whatever it says',
    edits: [
      {
        file: 'src/compliance/envelope.ts',
        find: '  checkIsRecord(object);\n  return object;',
        put: '  checkIsRecord.name;\n  return object;',
      },
    ],
  },
  {
    name: 'unreadable-answer',
    tryFirst: 30,
    without: 'an answer that nobody understands is forgotten once a list shows the record',
    edits: [
      {
        file: 'src/backfill/refetch.ts',
        find: 'if (!upstream.isOwnFault(error)) return;',
        put: 'if (error !== null) return;',
      },
    ],
  },
  {
    name: 'unreadable-address',
    tryFirst: 30,
    without: 'a list that shows a record tells that its own address is answered with what can be understood',
    edits: [
      {
        file: 'src/mirror/problems.ts',
        find: "unreadable_answer: {\n    ...YOURS,\n    resolvedBy: ['full_sync'],",
        put: "unreadable_answer: {\n    ...YOURS,\n    resolvedBy: ['read', 'full_sync'],",
      },
    ],
  },
  {
    name: 'row-of-a-list',
    tryFirst: 1,
    without: 'a row of a list confirms what it leaves out',
    edits: [
      {
        file: READS,
        find: 'const next = newerRow || isMixed ? lookAgain(applied, read, timing) : whole;',
        put: 'const next = newerRow ? lookAgain(applied, read, timing) : withoutCovered(applied, read, timing);',
      },
    ],
  },
  {
    name: 'access-by-absence',
    tryFirst: 7,
    without: 'a 404 shows that assessments may be read, whether or not anything else was ever read',
    edits: [
      {
        file: 'src/backfill/made-up-id.ts',
        find: "const isUnknown = answer.outcome === 'missing';",
        put: "const isUnknown = answer.outcome === 'missing'; await onReadable?.(kind, 'read');",
      },
    ],
  },
];

const writeGuard = MUTANTS.find(({ name }) => name === 'write-guard')!;

/** What several replicas rely on besides: each missed over one real database. */
export const REPLICAS_MUTANTS: readonly Mutant[] = [
  {
    name: 'counter-lock',
    tryFirst: 1,
    without: 'transactions of two replicas take the same numbers, and see half of each other',
    edits: [
      {
        file: 'src/store/postgres/connection.ts',
        find: 'LIMIT 1 FOR UPDATE;',
        put: 'LIMIT 1;',
      },
    ],
  },
  {
    name: 'lease-fence',
    without: 'whoever stood still while another took its lease goes on as the worker',
    edits: [
      {
        file: 'src/store/postgres/postgres.ts',
        find: 'Promise.all([requireLease(to, lease), ',
        put: 'Promise.all([null, ',
      },
    ],
  },
  { ...writeGuard, name: 'write-guard-of-replicas' },
];

function mutantNamed(name: string): Mutant {
  const all = [...MUTANTS, ...REPLICAS_MUTANTS];
  const mutant = all.find((one) => one.name === name);
  if (mutant !== undefined) return mutant;
  throw new Error(`no mutant is called ${name}; there are ${all.map((one) => one.name).join(', ')}`);
}

/**
 * Takes a guard out of the source as it is loaded, in memory only. Must run before anything of src/ is imported;
 * `assertMutated` tells afterwards whether every edit found its place.
 */
export function mutate(name: string): { assertMutated(): void } {
  const mutant = mutantNamed(name);
  const open = new Set(mutant.edits);
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      const edits = mutant.edits.filter((edit) => url.endsWith(`/${edit.file}`));
      if (edits.length === 0) return loaded;
      let source = String(loaded.source);
      for (const edit of edits) {
        source = edited(source, edit, mutant);
        open.delete(edit);
      }
      return { ...loaded, source };
    },
  });
  return {
    assertMutated() {
      for (const edit of open) throw new Error(`mutant ${name}: ${edit.file} was never loaded`);
    },
  };
}

export function edited(source: string, edit: Mutant['edits'][number], mutant: Mutant): string {
  const parts = source.split(edit.find);
  if (parts.length !== 2) {
    throw new Error(
      `mutant ${mutant.name}: its snippet stands ${parts.length - 1} times in ${edit.file}, not once`,
    );
  }
  return parts.join(edit.put);
}

import type { Kind } from '../compliance/kinds.ts';

/** What `sync_status` says of a kind, the worst first. `unverified`: without API credentials nothing can be checked. */
export const VERDICTS = [
  'action_required',
  'unreachable',
  'stale',
  'unverified',
  'catching_up',
  'known_only',
  'in_sync',
] as const;
export type Verdict = (typeof VERDICTS)[number];

/** Who resolves it. */
export type Needs = 'you' | 'time';

/**
 * What resolves a problem, besides the code that opened it and a person:
 *
 * - `read`: a read that verifies the record that it names.
 * - `full_sync`: a complete full sync of the kind, begun later. Of a problem of all kinds: one of each kind.
 * - `list`: a complete full sync of a kind that has a list, begun a read delay later: it has read every record, also one that nothing named.
 */
export type Resolution = 'read' | 'full_sync' | 'list';

export interface Weight {
  verdict: Verdict;
  needs: Needs;
}

export interface ProblemRule extends Weight {
  /** Where the kind has no list that could resolve it. */
  unlisted?: Weight;
  /** Where it names a record, which is read by itself. */
  named?: Weight;
  /** From this many occurrences on it does not end by itself. */
  lasting?: Weight & { times: number };
  resolvedBy: readonly Resolution[];
  /** A state that ends with its cause, or that has its own decision: a person cannot resolve it. */
  hasOwnEnd?: true;
  /** What is wrong, in one sentence. */
  sentence: string;
  /** What to do, or what happens by itself. */
  action: string;
  /** The command that helps. ID: the problem's own; KIND and RECORD: of its record. */
  command?: string;
  /** The page's button, if its own place has none. */
  button?: 'approve' | 'resolve' | 'resume' | 'sync' | 'retry' | 'find';
}

const YOURS: Weight = { verdict: 'action_required', needs: 'you' };
const PASSING: Weight = { verdict: 'catching_up', needs: 'time' };

/** Once all pending deletions are approved, the next proof deletes them. */
export const APPROVED: Weight = PASSING;

/** How often a full sync may end incomplete, one after the other, before a person is asked. */
const INCOMPLETE_LISTS = 3;

/** Every reason of a problem. Page, commands, notifications, metrics and the reference in the documents are made from this table. */
export const PROBLEMS = {
  downtime: {
    ...PASSING,
    resolvedBy: ['full_sync'],
    sentence: 'The service was down or could not write, so deliveries may have been missed.',
    action: 'Nothing: the next complete full sync reads what was missed.',
  },
  unreachable: {
    verdict: 'unreachable',
    needs: 'time',
    resolvedBy: [],
    hasOwnEnd: true,
    sentence: 'The compliance service gives no usable answer, so nothing can be verified.',
    action:
      'It is asked again by itself, and deliveries are still received. If it lasts, check its status page, COMPLIANCE_BASE_URL and the network in between.',
    command: 'doctor',
  },
  credentials_rejected: {
    ...YOURS,
    resolvedBy: [],
    hasOwnEnd: true,
    sentence: 'The compliance service rejects our credentials, so nothing can be verified.',
    action:
      'Make new credentials that may read, set them, and restart; a file that holds them is read again by itself. A person’s consent is given with “login”.',
    command: 'doctor',
  },
  rejected_deliveries: {
    ...YOURS,
    resolvedBy: [],
    sentence: 'The sender’s deliveries are rejected, so the mirror does not hear of changes.',
    action:
      'See why they are rejected: a secret that is not set here, or a clock that is wrong. The next accepted delivery resolves this.',
    command: 'deliveries outcome=rejected',
    button: 'sync',
  },
  quarantined: {
    ...PASSING,
    unlisted: YOURS,
    named: PASSING,
    resolvedBy: ['read', 'list'],
    sentence: 'A signed delivery is no usable event, so a change may be missing here.',
    action:
      'Read why, then retry or dismiss it. A complete full sync finds what it was about where the kind has a list.',
    command: 'deliveries outcome=quarantined',
    button: 'retry',
  },
  failed_event: {
    ...PASSING,
    resolvedBy: ['read'],
    sentence: 'An event could not be processed, so its record is read from the API instead.',
    action: 'If its record cannot be read either: read its error, then retry or dismiss the event.',
    command: 'deliveries state=failed',
    button: 'retry',
  },
  unknown_record: {
    ...PASSING,
    unlisted: YOURS,
    resolvedBy: ['read', 'list'],
    sentence: 'The record of an event cannot be found, so a change may be missing here.',
    action:
      'Its error shows which values look like ids. Have the API asked for these: a place that it proves is kept, and all such events are read again. If there is no such record, resolve the problem.',
    command: 'problems resolve ID --find',
    button: 'find',
  },
  conflicting_content: {
    ...PASSING,
    resolvedBy: ['read', 'full_sync'],
    sentence: 'One event id came with two contents.',
    action: 'Nothing: the record is read from the API, which decides. The second content is in quarantine.',
    command: 'deliveries outcome=quarantined',
  },
  unreadable_answer: {
    ...YOURS,
    resolvedBy: ['full_sync'],
    sentence: 'An answer of the compliance service is no record and no list, or says itself that it failed.',
    action:
      'Its error has the request and the beginning of the answer: check COMPLIANCE_BASE_URL, any proxy in between, and the setting that it names. The first usable answer to that request resolves this.',
    command: 'problems show ID',
  },
  incomplete_list: {
    ...PASSING,
    lasting: { ...YOURS, times: INCOMPLETE_LISTS },
    resolvedBy: ['full_sync'],
    sentence: 'A full sync could not see all records of the compliance service, so it proves no deletion.',
    action:
      'The full sync is repeated by itself. If it never fits, a fault, a filter or a permission hides records from us: change that, or resolve the problem to accept exactly what it shows.',
    command: 'problems resolve ID',
    button: 'resolve',
  },
  pending_deletions: {
    ...YOURS,
    resolvedBy: [],
    hasOwnEnd: true,
    sentence: 'Unusually many records are gone from the compliance service, and wait here for you.',
    action: 'See whether they were really deleted there, then approve the deletions, or keep the records.',
    command: 'problems approve ID',
    button: 'approve',
  },
  restored: {
    ...PASSING,
    unlisted: YOURS,
    resolvedBy: ['list'],
    sentence: 'A copy of the database was put back, so what came after it is missing here.',
    action:
      'Full syncs bring back what has a list. Have the risk events of that time delivered again, or name the assessments in RISK_IDS_FILE; then resolve the problem.',
    command: 'problems resolve ID',
    button: 'resolve',
  },
  silence: {
    verdict: 'stale',
    needs: 'you',
    resolvedBy: [],
    sentence: 'No delivery has come for a long time.',
    action:
      'See whether the registration still exists and has our address, and whether the receiver can be reached. The next delivery resolves this. If nothing was to be sent, resolve the problem.',
    command: 'webhook list',
    button: 'sync',
  },
  full_columns: {
    ...YOURS,
    resolvedBy: [],
    sentence: 'The records have more fields than there are columns, so new fields get none.',
    action:
      'Name fields that nobody needs in IGNORED_FIELDS, and restart. All fields are in data. If that is enough, resolve the problem.',
    command: 'export fields',
    button: 'resolve',
  },
  paused: {
    ...YOURS,
    resolvedBy: [],
    hasOwnEnd: true,
    sentence: 'The mirror is paused: deliveries are kept, and nothing is processed or read.',
    action: 'Resume when the reason for the pause is over. The audit says who paused it.',
    command: 'resume',
    button: 'resume',
  },
  full_sync_overdue: {
    verdict: 'stale',
    needs: 'time',
    resolvedBy: ['full_sync'],
    hasOwnEnd: true,
    sentence: 'No full sync has been complete for too long.',
    action: 'The next complete one resolves this. See why the last ones failed or took so long.',
    command: 'sync list',
    button: 'sync',
  },
} as const satisfies Readonly<Record<string, ProblemRule>>;

export type ProblemReason = keyof typeof PROBLEMS;
export const PROBLEM_REASONS = Object.keys(PROBLEMS) as ProblemReason[];

export const problemRule = (reason: ProblemReason): ProblemRule => PROBLEMS[reason];

interface Occurred {
  kind: Kind | null;
  recordId: string | null;
  times: number;
  /** Of a kind: whether a list can show all its records. */
  hasList: boolean;
}

/** What an open problem means for its kind. */
export function weigh(reason: ProblemReason, { kind, recordId, times, hasList }: Occurred): Weight {
  const { lasting, named, unlisted, verdict, needs } = problemRule(reason);
  if (lasting !== undefined && times >= lasting.times) return lasting;
  if (named !== undefined && recordId !== null) return named;
  if (unlisted !== undefined && kind !== null && !hasList) return unlisted;
  return { verdict, needs };
}

/** What an attacker is told: where the service is. Only attacks that play a real sender or owner use the secrets. */
export interface Target {
  port: number;
  opsPort: number;
  /** The signing key that the service was given, in hex. */
  key: string;
  /** A token of the role operate. */
  token: string;
}

/** What came back to the attacker. */
export interface Counts {
  /** Answered 2xx. */
  served: number;
  /** Answered otherwise. */
  rejected: number;
  /** Asked, and the connection ended, or the attack did, before an answer. */
  unanswered: number;
  statuses: Record<number, number>;
  /** What the service should not have done. */
  faults: string[];
  note: string;
}

export const noCounts = (): Counts => ({
  served: 0,
  rejected: 0,
  unanswered: 0,
  statuses: {},
  faults: [],
  note: '',
});

export function addCounts(sum: Counts, more: Counts): void {
  sum.served += more.served;
  sum.rejected += more.rejected;
  sum.unanswered += more.unanswered;
  for (const [status, times] of Object.entries(more.statuses)) {
    sum.statuses[Number(status)] = (sum.statuses[Number(status)] ?? 0) + times;
  }
  sum.faults.push(...more.faults);
  if (more.note !== '') sum.note = more.note;
}

/** Another service than the usual one: events only, one secret, its log in a file. */
export interface Arrangement {
  settings?: Readonly<Record<string, string>>;
  nodeArgs?: readonly string[];
  /** `stuck`: a pipe that nobody reads. */
  log?: 'stuck';
  /** Before the service starts, on its database: a command of the executable run to its end. */
  prepare?: (run: Command, say: (note: string) => void) => Promise<void>;
}

/** Runs a command of the executable with the service's settings and these; resolves to its exit code and all it wrote. */
export type Command = (
  args: readonly string[],
  settings: Readonly<Record<string, string>>,
) => Promise<{ code: number | null; out: string }>;

export interface Attack {
  /** For the table: what `size` counts. */
  unit: string;
  size: { full: number; short: number };
  /** One stage each, one after the other; default: one, the usual. */
  arrangements?: (length: 'full' | 'short') => readonly Arrangement[];
  /** Default: DEFAULT_MEMORY_MB. */
  memoryMb?: number;
  /** Bytes of log that it may cause; default: not judged. */
  logBytes?: number;
  /** Runs in a process of its own. Resolves when it is over, its connections closed or left open on purpose. */
  strike: (target: Target, size: number, length: 'full' | 'short') => Promise<Counts>;
}

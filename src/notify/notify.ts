import type { Clock } from '../platform/clock.ts';
import { DATABASE_ID, type News, newsOf, type Problem, type Tries, triedAgain } from './decide.ts';
import { type Address, send } from './message.ts';

/** How often the problems are looked at. Each look sends one message at most: chats take no more than one a second. */
const LOOK_MS = 1_000;
/** Whose opening was told, and whose end was not; kept across restarts. */
const TOLD_FACT = 'notified';

export interface NotifierOptions {
  to: Address;
  clock: Clock;
  random: () => number;
  /** The open problems, the worst first, and the verdict of each kind. */
  look(): Promise<{ problems: readonly Problem[]; verdicts: Readonly<Record<string, string>> }>;
  /** Open or resolved; null: no row has this id. */
  show(id: number): Promise<Problem | null>;
  facts: {
    readFact(name: string): Promise<string | null>;
    writeFact(name: string, value: string): Promise<unknown>;
  };
  onAttempt(attempt: { news: News; reason: string; error: string | null }): void;
  onError(error: unknown): void;
}

/** By id. What has no row is kept whole. */
type Told = Map<number, Problem | null>;

/**
 * Sends each problem that opens, and its end, to NOTIFY_URL, one at a time, until `signal` aborts. Never rejects. What was sent while
 * the database was down is not saved yet. Then this goes on after the loss of the lease until it is saved, or `stopping` aborts.
 */
export async function notify(
  options: NotifierOptions,
  signal: AbortSignal,
  stopping: AbortSignal = signal,
): Promise<void> {
  const { clock, facts } = options;
  const tries = new Map<string, Tries>();
  let told: Told = new Map();
  let isSaved = true;

  /** Another process may have told something before it lost the lease. */
  async function readTold(): Promise<void> {
    const text = await facts.readFact(TOLD_FACT);
    const stored = new Map(
      Object.entries(JSON.parse(text ?? '{}')).map(([id, of]) => [Number(id), of]),
    ) as Told;
    told = isSaved ? stored : new Map([...stored, ...told]);
  }
  async function save(): Promise<void> {
    if (isSaved) return;
    await facts.writeFact(TOLD_FACT, JSON.stringify(Object.fromEntries(told)));
    isSaved = true;
  }

  async function round(): Promise<void> {
    // A database that is down is told by the problems.
    await readTold().catch(() => undefined);
    const { problems, verdicts } = await options.look();
    const news = newsOf(problems, new Set(told.keys()), clock.wall());
    const keys = news.map(({ what, id }) => `${what} ${id}`);
    for (const key of tries.keys()) if (!keys.includes(key)) tries.delete(key);
    for (const [nth, one] of news.entries()) {
      const before = tries.get(keys[nth]!);
      if (before !== undefined && before.nextAt > clock.steady()) continue;
      const problem = one.what === 'opened' ? problems.find(({ id }) => id === one.id)! : await ended(one.id);
      if (problem === null) continue;
      const error = await send(options.to, { what: one.what, problem, verdicts }, signal);
      if (error !== null && signal.aborted) return;
      options.onAttempt({ news: one, reason: problem.reason, error });
      const again = error === null ? null : triedAgain(before, clock.steady(), options.random());
      if (again === null) await settle(one, problem);
      else tries.set(keys[nth]!, again);
      return;
    }
    await save();
  }

  /** A problem that is not among the open ones any more. Null: it is, or nobody knows it. */
  async function ended(id: number): Promise<Problem | null> {
    const kept = told.get(id) ?? null;
    if (kept !== null) return { ...kept, resolved_at: new Date(clock.wall()).toISOString() };
    const row = await options.show(id);
    if (row === null) await settle({ what: 'resolved', id }, null);
    return row?.resolved_at === null ? null : row;
  }

  async function settle({ what, id }: News, problem: Problem | null): Promise<void> {
    if (what === 'resolved') told.delete(id);
    else told.set(id, id === DATABASE_ID ? problem : null);
    isSaved = false;
    await save();
  }

  while (!signal.aborted) {
    await round().catch(options.onError);
    await clock.sleep(LOOK_MS, signal);
  }
  while (!isSaved && !stopping.aborted) {
    await clock.sleep(LOOK_MS, stopping);
    await readTold().then(save).catch(options.onError);
  }
}

import { setTimeout as sleep } from 'node:timers/promises';
import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import { MirrorError } from '../../src/platform/errors.ts';
import { comparable, compare, type Difference, unknowableAssessments } from './compare.ts';
import type { Change } from './mirror-tables.ts';
import type { Services } from './services.ts';

/** How long a staged story may take to show as a difference. */
const SHOW_TIMEOUT_MS = 2_000;
/** The first full syncs take a second or two, but many times that on a busy machine. */
const FIRST_FULL_SYNC_TIMEOUT_MS = 60_000;
/** How often a record is chosen for a story: the chosen one may have changed since it was read. */
const CHOICES = 5;
/** Between two comparisons. */
export const LOOK_EVERY_MS = 200;

const keyOf = (kind: Kind, id: string) => `${kind}/${id}`;

/** A record that differed, from the first comparison that showed it to the first that no longer did. */
export interface Observation {
  kind: Kind;
  id: string;
  fields: Set<string>;
  /** The staged story that caused it; null: the lively scenario. */
  story: string | null;
  firstSeenMs: number;
  resolvedMs: number | null;
  /**
   * The cause in the mirror's `changes` that ended the difference. Null while it lasts, and also if the mirror changed nothing
   * because upstream itself went back to what the mirror shows.
   */
  resolvedBy: string | null;
}

interface Compared {
  /** Milliseconds since 1970. */
  atMs: number;
  differences: readonly Difference[];
  /** What the mirror has changed since the previous comparison. */
  changes: readonly Change[];
}

/**
 * Follows differences over many comparisons. Each must read the mirror before the upstream: then a change that ends a difference
 * is written after that reading, so a later comparison sees it.
 */
export class DifferenceLog {
  readonly #ended: Observation[] = [];
  readonly #open = new Map<string, Observation>();
  readonly #stories = new Map<string, string>();

  /** From now on, differences of this record count as caused by the story. */
  attribute(kind: Kind, id: string, story: string): void {
    this.#stories.set(keyOf(kind, id), story);
  }

  note({ atMs, differences, changes }: Compared): void {
    const causes = new Map(changes.map(({ kind, recordId, cause }) => [keyOf(kind, recordId), cause]));
    const differing = new Set<string>();
    for (const { kind, id, fields } of differences) {
      const key = keyOf(kind, id);
      differing.add(key);
      const open = this.#open.get(key) ?? this.#begin(kind, id, atMs);
      for (const { field } of fields) open.fields.add(field);
    }
    for (const [key, open] of this.#open) {
      if (differing.has(key)) continue;
      open.resolvedMs = atMs;
      open.resolvedBy = causes.get(key) ?? null;
      this.#ended.push(open);
      this.#open.delete(key);
    }
  }

  get open(): Observation[] {
    return [...this.#open.values()];
  }

  /** All differences in the order in which they began. */
  get all(): Observation[] {
    return [...this.#ended, ...this.open].sort((a, b) => a.firstSeenMs - b.firstSeenMs);
  }

  /** Returns and forgets the differences that have ended, so that an endless run does not fill the memory. */
  takeEnded(): Observation[] {
    return this.#ended.splice(0);
  }

  isOpen(kind: Kind, id: string): boolean {
    return this.#open.has(keyOf(kind, id));
  }

  #begin(kind: Kind, id: string, atMs: number): Observation {
    const key = keyOf(kind, id);
    const begun: Observation = {
      kind,
      id,
      fields: new Set(),
      story: this.#stories.get(key) ?? null,
      firstSeenMs: atMs,
      resolvedMs: null,
      resolvedBy: null,
    };
    this.#open.set(key, begun);
    return begun;
  }
}

export interface Story {
  /** Its name in the sandbox. */
  name: string;
  /** Its name in the output. */
  title: string;
  /** The kind of the existing record that it changes; null: it creates one. */
  kind: Kind | null;
  /** Whether it must make the mirror differ for a while. */
  differs: boolean;
}

export type Comparer = ReturnType<typeof createComparer>;
export type Comparison = Awaited<ReturnType<Comparer['compareNow']>>;

/** Compares both sides whenever it is called, and remembers what differed and what ended it. */
export function createComparer(services: Services) {
  const log = new DifferenceLog();
  const used = new Set<string>();
  let lastSeq = 0;

  async function compareNow() {
    // The mirror first: see DifferenceLog.
    const { records, changes, pendingEvents } = await services.tables.read(lastSeq);
    const { records: upstream, unannounced } = await services.sandbox.state();
    lastSeq = changes.at(-1)?.seq ?? lastSeq;
    const unknowable = unknowableAssessments(upstream, unannounced, services.listedAssessments);
    const sides = comparable(records, upstream, services.shapes);
    const differences = compare(sides.mirror, sides.upstream, unknowable);
    log.note({ atMs: Date.now(), differences, changes });
    return { mirror: records, upstream, differences, unknowable, pendingEvents };
  }

  /** Plays a story, and compares until its difference shows if it has one. Resolves with its record; null: none fits. */
  async function play(story: Story): Promise<string | null> {
    const record = await begin(story);
    if (record === null) return null;
    if (story.differs) log.attribute(record.kind, record.id, story.title);
    const deadline = Date.now() + SHOW_TIMEOUT_MS;
    do await compareNow();
    while (story.differs && !log.isOpen(record.kind, record.id) && Date.now() < deadline);
    return `${record.kind} ${record.id}`;
  }

  async function begin(story: Story): Promise<{ kind: Kind; id: string } | null> {
    for (let attempt = 0; attempt < CHOICES; attempt += 1) {
      const id = story.kind === null ? null : chooseEqual(await compareNow(), story.kind);
      const [record] = await services.sandbox.play(story.name, id);
      if (record === undefined) continue;
      used.add(keyOf(record.kind, record.id));
      return record;
    }
    return null;
  }

  /** A record that is equal on both sides: for one that the mirror lacks, a lost delete would change nothing. */
  function chooseEqual({ mirror, differences }: Comparison, kind: Kind): string | null {
    const differing = new Set(differences.filter((each) => each.kind === kind).map(({ id }) => id));
    const fitting = [...mirror[kind].values()].filter(
      ({ id, deleted_at }) => deleted_at === null && !differing.has(id) && !used.has(keyOf(kind, id)),
    );
    return fitting[Math.floor(Math.random() * fitting.length)]?.id ?? null;
  }

  return { log, compareNow, play };
}

/** Waits for the first full syncs, and forgets the differences before them, when the mirror was empty. */
export async function untilFirstSync(comparer: Comparer, signal: AbortSignal): Promise<Comparison> {
  const comparison = await until(comparer, signal, FIRST_FULL_SYNC_TIMEOUT_MS, isEqual);
  if (!isEqual(comparison) && !signal.aborted) {
    throw new MirrorError('demo', 'the first full sync did not bring the mirror into sync');
  }
  comparer.log.takeEnded();
  return comparison;
}

/** Compares until `isDone`, time is up, or `signal` aborts. Resolves with the last comparison. */
export async function until(
  comparer: Comparer,
  signal: AbortSignal,
  timeoutMs: number,
  isDone: (comparison: Comparison) => boolean | Promise<boolean>,
): Promise<Comparison> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const comparison = await comparer.compareNow();
    if ((await isDone(comparison)) || Date.now() > deadline || signal.aborted) return comparison;
    await pause(LOOK_EVERY_MS, signal);
  }
}

export function isEqual(comparison: Comparison): boolean {
  const rows = KINDS.reduce((sum, kind) => sum + comparison.mirror[kind].size, 0);
  return comparison.differences.length === 0 && rows > 0;
}

/** Resolves early when `signal` aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}

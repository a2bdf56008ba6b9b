import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import { MirrorError } from '../../src/platform/errors.ts';
import {
  compare,
  type Difference,
  type MirrorRecords,
  type UpstreamRecords,
  unknowableAssessments,
} from './compare.ts';
import { pause } from './narration.ts';
import type { StagedStory } from './scenario.ts';
import { comparable } from './shaped.ts';
import type { Stage } from './stage.ts';
import { Watch } from './watch.ts';

/** How long a staged story may take to show as a difference. */
const SHOW_TIMEOUT_MS = 2_000;
/** The first reading of everything takes a second or two, and many times that on a busy machine. */
const FIRST_FULL_SYNC_TIMEOUT_MS = 60_000;
/** Records that may be chosen for a story and then turn out to have changed meanwhile. */
const CHOICES = 5;
/** Between two looks. */
export const LOOK_EVERY_MS = 200;

export interface Sight {
  mirror: MirrorRecords;
  upstream: UpstreamRecords;
  differences: Difference[];
  unknowable: ReadonlySet<string>;
  pendingEvents: number;
}

/** Compares both sides again and again, and remembers what differed and what ended it. */
export interface Lookout {
  watch: Watch;
  look(): Promise<Sight>;
  /** Tells a story and looks until it shows, where it must; resolves to the record that it is about, or null. */
  tell(story: StagedStory): Promise<string | null>;
}

export function createLookout(stage: Stage): Lookout {
  const watch = new Watch();
  const used = new Set<string>();
  let lastSeq = 0;

  async function look(): Promise<Sight> {
    // The mirror first: see Watch.
    const { records, changes, pendingEvents } = await stage.tables.read(lastSeq);
    const { records: upstream, unannounced } = await stage.sandbox.state();
    lastSeq = changes.at(-1)?.seq ?? lastSeq;
    const unknowable = unknowableAssessments(upstream, unannounced, stage.listedAssessments);
    const sides = comparable(records, upstream, stage.shapes);
    const differences = compare(sides.mirror, sides.upstream, unknowable);
    watch.note({ atMs: Date.now(), differences, changes });
    return { mirror: records, upstream, differences, unknowable, pendingEvents };
  }

  async function tell(story: StagedStory): Promise<string | null> {
    const record = await begin(story);
    if (record === null) return null;
    if (story.differs) watch.stage(record.kind, record.id, story.told);
    const deadline = Date.now() + SHOW_TIMEOUT_MS;
    do await look();
    while (story.differs && !watch.isOpen(record.kind, record.id) && Date.now() < deadline);
    return `${record.kind} ${record.id}`;
  }

  async function begin(story: StagedStory): Promise<{ kind: Kind; id: string } | null> {
    for (let attempt = 0; attempt < CHOICES; attempt += 1) {
      const id = story.kind === null ? null : chooseEqual(await look(), story.kind);
      const [record] = await stage.sandbox.tell(story.name, id);
      if (record === undefined) continue;
      used.add(`${record.kind} ${record.id}`);
      return record;
    }
    return null;
  }

  /** A record that both sides show alike: of one that the mirror does not hold, a lost delete would change nothing. */
  function chooseEqual({ mirror, differences }: Sight, kind: Kind): string | null {
    const differing = new Set(differences.filter((each) => each.kind === kind).map(({ id }) => id));
    const fitting = [...mirror[kind].values()].filter(
      ({ id, deleted_at }) => deleted_at === null && !differing.has(id) && !used.has(`${kind} ${id}`),
    );
    return fitting[Math.floor(Math.random() * fitting.length)]?.id ?? null;
  }

  return { watch, look, tell };
}

/** Waits for the first full sync, and forgets what differed until then: that the mirror was empty is no loss. */
export async function intoStep(lookout: Lookout, signal: AbortSignal): Promise<Sight> {
  const sight = await until(lookout, signal, FIRST_FULL_SYNC_TIMEOUT_MS, isEqual);
  if (!isEqual(sight) && !signal.aborted) {
    throw new MirrorError('demo', 'the first full sync did not bring the mirror into sync');
  }
  lookout.watch.takeEnded();
  return sight;
}

/** Looks until `isDone`, or time is up, or `signal` aborts; resolves to the last sight. */
export async function until(
  lookout: Lookout,
  signal: AbortSignal,
  timeoutMs: number,
  isDone: (sight: Sight) => boolean | Promise<boolean>,
): Promise<Sight> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const sight = await lookout.look();
    if ((await isDone(sight)) || Date.now() > deadline || signal.aborted) return sight;
    await pause(LOOK_EVERY_MS, signal);
  }
}

export function isEqual(sight: Sight): boolean {
  const rows = KINDS.reduce((sum, kind) => sum + sight.mirror[kind].size, 0);
  return sight.differences.length === 0 && rows > 0;
}

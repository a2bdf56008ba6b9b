import type { Kind } from '../../src/compliance/kinds.ts';
import type { Difference } from './compare.ts';
import type { Change } from './mirror-tables.ts';

/** A record that was seen to differ, from the first look that showed it to the first that did not. */
export interface Observation {
  kind: Kind;
  id: string;
  fields: Set<string>;
  /** The staged story that did it, or null: the lively scenario's own doing. */
  story: string | null;
  firstSeenMs: number;
  resolvedMs: number | null;
  /**
   * Cause of the change that ended it, as the mirror's `changes` name it. Null while it lasts, and for good where the
   * mirror changed nothing, because upstream itself came back to what the mirror shows.
   */
  resolvedBy: string | null;
}

export interface Look {
  /** Milliseconds since 1970. */
  atMs: number;
  differences: readonly Difference[];
  /** What the mirror changed since the look before. */
  changes: readonly Change[];
}

/**
 * Follows differences over many looks. Each look must have read the mirror before it read the upstream: then
 * whatever ends a difference is a change that the mirror writes after that look, and is seen in a later one.
 */
export class Watch {
  readonly #ended: Observation[] = [];
  readonly #open = new Map<string, Observation>();
  readonly #stories = new Map<string, string>();
  /** Causes since the look that last showed the difference. */
  readonly #causes = new Map<string, string>();

  /** From now on, differences of this record are that story's. */
  stage(kind: Kind, id: string, story: string): void {
    this.#stories.set(keyOf(kind, id), story);
  }

  note(look: Look): void {
    for (const change of look.changes) this.#causes.set(keyOf(change.kind, change.recordId), change.cause);
    const differing = new Set<string>();
    for (const { kind, id, fields } of look.differences) {
      const key = keyOf(kind, id);
      differing.add(key);
      const open = this.#open.get(key) ?? this.#begin(kind, id, look.atMs);
      for (const { field } of fields) open.fields.add(field);
    }
    for (const [key, open] of this.#open) {
      if (differing.has(key)) continue;
      open.resolvedMs = look.atMs;
      open.resolvedBy = this.#causes.get(key) ?? null;
      this.#ended.push(open);
      this.#open.delete(key);
    }
    this.#causes.clear();
  }

  get open(): Observation[] {
    return [...this.#open.values()];
  }

  /** In the order in which they began. */
  get all(): Observation[] {
    return [...this.#ended, ...this.open].sort((a, b) => a.firstSeenMs - b.firstSeenMs);
  }

  /** The ended ones, and forgets them: a run without an end must not collect for ever. */
  takeEnded(): Observation[] {
    return this.#ended.splice(0);
  }

  isOpen(kind: Kind, id: string): boolean {
    return this.#open.has(keyOf(kind, id));
  }

  #begin(kind: Kind, id: string, atMs: number): Observation {
    const key = keyOf(kind, id);
    const story = this.#stories.get(key) ?? null;
    const begun = {
      kind,
      id,
      fields: new Set<string>(),
      story,
      firstSeenMs: atMs,
      resolvedMs: null,
      resolvedBy: null,
    };
    this.#open.set(key, begun);
    return begun;
  }
}

function keyOf(kind: Kind, id: string): string {
  return `${kind}/${id}`;
}

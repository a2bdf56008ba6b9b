import type { Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';

/** One state of one record. Its position in the record's history is its number, and stands in its content as `rev`. */
export interface Version {
  at: number;
  rev: number;
  /** Null: the record does not exist. */
  content: JsonObject | null;
}

export type ListOrder = 'id' | 'oldest' | 'newest';

/** Everything that was ever true upstream, so that an answer may show any moment of it. */
export interface Model {
  /** The next version of a record: with content, or gone. */
  change(kind: Kind, id: string, at: number, alive: boolean): Version;
  history(kind: Kind, id: string): readonly Version[];
  /** What the record was at an instant; null: it did not exist. */
  shown(kind: Kind, id: string, at: number): JsonObject | null;
  list(kind: Kind, at: number): JsonObject[];
  ids(kind: Kind): string[];
  alive(kind: Kind, id: string): boolean;
}

const FIELD_OF_ID: Record<Kind, string> = { policy: 'policyId', risk_assessment: 'id', vendor: 'id' };

export function createModel(options: { order: ListOrder; references: ReadonlyMap<string, string> }): Model {
  const records: Record<Kind, Map<string, Version[]>> = {
    policy: new Map(),
    risk_assessment: new Map(),
    vendor: new Map(),
  };
  const historyOf = (kind: Kind, id: string) => records[kind].get(id) ?? [];

  function at(kind: Kind, id: string, instant: number): Version | null {
    return historyOf(kind, id).findLast((version) => version.at <= instant) ?? null;
  }

  /** Fields come, go and change, so that merged payloads and whole reads can be told apart. */
  function contentOf(kind: Kind, id: string, rev: number): JsonObject {
    const assessment = options.references.get(`${kind} ${id}`);
    return {
      [FIELD_OF_ID[kind]]: id,
      name: `${id} ${Math.floor(rev / 3)}`,
      ...(kind === 'policy' ? { version: `1.${rev}` } : {}),
      status: ['draft', 'in_review', 'approved'][rev % 3],
      rev,
      ...(rev % 2 === 0 ? { note: { revised: rev } } : {}),
      ...(assessment === undefined ? {} : { riskAssessmentId: assessment }),
    };
  }

  return {
    change(kind, id, instant, alive) {
      const history = records[kind].get(id) ?? [];
      records[kind].set(id, history);
      const rev = history.length;
      const version = { at: instant, rev, content: alive ? contentOf(kind, id, rev) : null };
      history.push(version);
      return version;
    },
    history: historyOf,
    shown: (kind, id, instant) => at(kind, id, instant)?.content ?? null,
    list(kind, instant) {
      const rows = [...records[kind].keys()].flatMap((id) => {
        const version = at(kind, id, instant);
        return version?.content
          ? [{ id, since: bornAt(historyOf(kind, id), version), content: version.content }]
          : [];
      });
      const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1);
      rows.sort((a, b) => {
        if (options.order === 'id' || a.since === b.since) return byId(a, b);
        return options.order === 'oldest' ? a.since - b.since : b.since - a.since;
      });
      return rows.map((row) => row.content);
    },
    ids: (kind) => [...records[kind].keys()],
    alive: (kind, id) => (historyOf(kind, id).at(-1)?.content ?? null) !== null,
  };
}

/** When this life of the record began. */
function bornAt(history: readonly Version[], version: Version): number {
  let born = version;
  for (let rev = version.rev - 1; rev >= 0 && history[rev]?.content; rev -= 1) born = history[rev]!;
  return born.at;
}

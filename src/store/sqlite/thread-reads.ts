import type { JsonObject } from '../../compliance/pointers.ts';
import type { Applied, BackfillStore, ReadObject } from '../store.ts';

/**
 * Records of a page on their way to the thread: as texts, which cross at a twentieth of what objects cost, and of which only
 * those are taken apart that are not held just so. Most come back as they were, so that of those nothing is told.
 */

type ApplyReads = BackfillStore['applyReads'];
type Args = Parameters<ApplyReads>;

/** A line for each record: neither ids nor JSON as JSON.stringify writes it hold a line's end. One text crosses faster than many. */
interface Page {
  ids: string;
  jsons: string;
}

/** By their places in the page; JSON, as it is cheaper than copying value by value. */
type Others = string;

export interface CrossingReads {
  applyReads(kind: Args[0], page: Page, read: Args[2], context: Args[3]): Promise<Others>;
}

/** What is told of a record that was alive and verified, and that the read has shown as it was. */
const AS_IT_WAS: Omit<Applied, 'id'> = {
  ...{ outcome: 'unchanged', differences: [], verified: true },
  ...{ lagMs: null, witness: true, announced: false, lacks: false },
};

/** On the event loop: the verb as the port has it. */
export function readVerbs(call: CrossingReads): { applyReads: ApplyReads } {
  return {
    async applyReads(kind, objects, read, context) {
      const page: Page = {
        ids: objects.map(({ id }) => id).join('\n'),
        jsons: objects.map((object) => object.json ?? JSON.stringify(object.data)).join('\n'),
      };
      const others = JSON.parse(await call.applyReads(kind, page, read, context)) as [number, Applied][];
      const applied: Applied[] = objects.map(({ id }) => ({ id, ...AS_IT_WAS }));
      for (const [at, one] of others) applied[at] = one;
      return applied;
    },
  };
}

/** In the thread: the same over the store. */
export function crossingReads(store: { applyReads: ApplyReads }): CrossingReads {
  return {
    async applyReads(kind, { ids, jsons }, read, context) {
      // Of no records there is no line, and not an empty one.
      const lines = jsons === '' ? [] : jsons.split('\n');
      const named = ids.split('\n');
      const objects = lines.map((json, at) => new Crossed(named[at]!, json));
      const applied = await store.applyReads(kind, objects, read, context);
      return JSON.stringify([...applied.entries()].filter(([, one]) => !isAsItWas(one)));
    },
  };
}

class Crossed implements ReadObject {
  readonly id: string;
  readonly json: string;
  #data: JsonObject | undefined;

  constructor(id: string, json: string) {
    this.id = id;
    this.json = json;
  }

  get data(): JsonObject {
    this.#data ??= JSON.parse(this.json) as JsonObject;
    return this.#data;
  }
}

const isAsItWas = ({ outcome, verified, lagMs, witness, announced, lacks }: Applied): boolean =>
  outcome === 'unchanged' && verified && lagMs === null && witness && !announced && !lacks;

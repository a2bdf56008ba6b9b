import { turns } from '../../src/store/database.ts';
import { connect } from '../../src/store/sqlite/connection.ts';
import { storeOver } from '../../src/store/sqlite/sqlite.ts';
import { createMortal, DiskFull, type Life, READING } from './life.ts';
import { type Site, startStages } from './stages.ts';

export interface MirrorOptions {
  site: Site;
  path: string;
  /** After each commit, before anyone hears of it. */
  onCommit: (verb: string, args: readonly unknown[]) => void;
}

/** A mirror that has its SQLite file to itself. It dies between two commits, and before one is heard of. */
export function startMirror({ site, path, onCommit }: MirrorOptions): Life {
  const { world } = site;
  const life = createMortal(site, '', () => void file.close());
  world.setOwner(life.owner);
  const file = storeOver(connect(path, { readOnly: false }));
  // What is checked after a commit must see that one and no other's.
  const inTurn = turns();

  /** Who has died hears of nothing. */
  async function heard(ask: () => Promise<unknown>): Promise<unknown> {
    if (life.isDead()) return await life.never;
    try {
      const answer = await ask();
      return life.isDead() ? await life.never : answer;
    } catch (error) {
      if (life.isDead()) return await life.never;
      throw error;
    }
  }

  async function commit(verb: string, call: () => Promise<unknown>, args: readonly unknown[]) {
    if (life.isDead()) return life.never;
    if (life.isLast('before')) {
      life.burn();
      return life.never;
    }
    if (site.isDiskFull()) throw new DiskFull();
    const result = await call();
    site.trace(`commit ${verb}`);
    onCommit(verb, args);
    if (life.isLast('after')) life.burn();
    return result;
  }

  async function slowly(work: () => Promise<unknown>): Promise<unknown> {
    const slowness = site.slownessMs();
    if (slowness > 0) await world.clock(life.owner).sleep(slowness);
    return work();
  }

  const store = life.reaching(file, (verb, call, args) => {
    if (READING.has(verb)) return heard(call);
    const inItsTurn = () => heard(() => inTurn(() => commit(verb, call, args)));
    return verb === 'processPending' ? slowly(inItsTurn) : inItsTurn();
  });
  const stages = startStages(site, life, store);
  // Its start takes none of the world's time, unless the disk is full, and nobody makes it stand still.
  return { ...life, stages, deliver: life.deliverTo(stages), isStill: () => false };
}

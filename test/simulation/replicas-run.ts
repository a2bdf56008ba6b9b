import type { JsonObject } from '../../src/compliance/pointers.ts';
import type { Notice } from '../../src/store/store.ts';
import type { TestDatabase } from '../postgres/database.ts';
import { createCrowd } from './interleaving.ts';
import { assessmentNamedIn } from './invariants.ts';
import type { Plan } from './plan.ts';
import { type Replica, startReplica } from './replica.ts';
import { createStory, namedInBody, namedTo, type Outcome, type Staging } from './story.ts';
import { createWork } from './time.ts';
import { createWitness, type Note } from './witness.ts';

/**
 * Several replicas of the real stages over one real PostgreSQL.
 *
 * Virtual: all clocks, the database's as the replicas learn of it among them, and with them leases, backoffs
 * and timers; the upstream, the network, deliveries, notices between replicas, deaths and standstills. Real: every
 * verb, on each replica's own connections, and so what waits for what, which transaction sees which, and in which
 * order they commit. That order is the server's and the machine's, so the same seed has the same history but not the
 * same trace (I7). Left to other tests: steps of the database's clock, its restarts, and LISTEN.
 */

const NOTICE_LOST = 0.1;
const LONGEST_NOTICE_MS = 50;
/** How often a follower asks for what is new in `changes`. */
const FOLLOW_EVERY_MS = 100;
/** Replicas' clocks are right to within this. */
const CLOCK_ERROR_MS = 100;

/**
 * Plays a plan of several over an empty database with a witness. `met`: transactions that wanted the counter while another
 * replica's had it, or waited for it.
 */
export async function runReplicas(plan: Plan, database: TestDatabase): Promise<Outcome & { met: number }> {
  await database.empty();
  await database.query('TRUNCATE witness.notes');
  const work = createWork();
  const crowd = createCrowd();
  const witness = createWitness(database);
  const story = createStory<Replica>(plan, { evidence: witness, work, clockErrorMs: CLOCK_ERROR_MS });
  const { site, invariants, fail, demand, meanwhile, lives, living, someone } = story;
  const { world, chance } = site;

  // ─── what the database has noted ──────────────────────────────────────────────────────────────────────

  const owners = new Map<string, string>();
  const alive = new Map<string, boolean>();
  const traced = new Map<string, string>();
  /** The number of the last write of each record, and who has written last as the worker. */
  const written = new Map<string, unknown>();
  let worker: string | null = null;
  /** What waits for the next look at the notes. */
  const waiting: (() => void)[] = [];
  let isJudging = false;
  let judgeAgain = false;

  function judgeOne(notes: readonly Note[]): void {
    let read: number | null = null;
    for (const note of notes) {
      if (note.body !== null) {
        invariants.accepted(note.body);
        invariants.named(namedInBody(note.body));
        continue;
      }
      const { kind, id, who, cause, data } = note;
      const key = `${kind} ${id}`;
      witness.learn(note);
      if (kind === 'risk_assessment') invariants.named([id]);
      else if (data !== null) invariants.named(assessmentNamedIn(JSON.parse(data) as JsonObject));
      const isAlive = note.deleted_at === null;
      const isConcluded = !isAlive && alive.get(key) === true && !cause?.startsWith('event:');
      // Rows are written by the worker alone. A unit that began before another took the lease may still commit, but none after that one's.
      if (written.get(key) !== note.write) {
        if (note.lease_owner === owners.get(who)) worker = who;
        else if (worker !== who) fail(`I2: ${who} writes ${key} after ${worker} has taken over`);
      }
      written.set(key, note.write);
      // Each record that is concluded to be gone has a proof of its own, with a number of its own.
      if (!isConcluded) read = note.read_number ?? read;
      alive.set(key, isAlive);
      const shown = `${isAlive ? '' : 'deleted '}${note.unverified_since === null ? 'verified ' : ''}${data}`;
      if (traced.get(key) !== shown) site.trace(`commits ${key} ${shown}`, who);
      traced.set(key, shown);
    }
    demand(invariants.check(read));
  }

  async function judgeOnce(): Promise<void> {
    const known = invariants.unread();
    if (known.size > 0) await witness.look('inSync');
    const notes = await witness.take();
    for (const some of Map.groupBy(notes, (note) => note.transaction).values()) judgeOne(some);
    for (const check of waiting.splice(0)) check();
    demand(invariants.checkUnread(known));
  }

  async function judge(): Promise<void> {
    judgeAgain = true;
    if (isJudging) return;
    isJudging = true;
    while (judgeAgain) {
      judgeAgain = false;
      await judgeOnce();
    }
    isJudging = false;
  }

  // ─── what a follower of the changes sees ──────────────────────────────────────────────────────────────

  const followed = new Set<number>();
  let followedTo = 0;
  async function follow(): Promise<void> {
    const rows = await database.query(
      `SELECT seq FROM changes WHERE seq > ${followedTo} ORDER BY seq LIMIT 10`,
    );
    for (const { seq } of rows) {
      followedTo = seq as number;
      followed.add(followedTo);
    }
  }
  function keepFollowing(): void {
    meanwhile(follow());
    world.at(world.now() + FOLLOW_EVERY_MS, null, keepFollowing);
  }

  async function skippedByFollower(): Promise<string[]> {
    for (let before = -1; before < followed.size; ) {
      before = followed.size;
      await follow();
    }
    const rows = await database.query('SELECT seq FROM changes');
    return rows.filter(({ seq }) => !followed.has(seq as number)).map(({ seq }) => String(seq));
  }

  // ─── the replicas ─────────────────────────────────────────────────────────────────────────────────────

  function onVerb(verb: string, args: readonly unknown[]): void {
    invariants.named(namedTo(verb, args));
    for (const { name, stages } of living()) {
      const id = stages.id();
      if (id !== null) owners.set(name, id);
    }
    meanwhile(judge());
  }

  /** Each hears of it a little later, if at all; whoever lives in its place then. */
  function notify(notice: Notice): void {
    for (const place of lives.keys()) {
      if (chance.happens('notice', NOTICE_LOST)) continue;
      const at = world.now() + chance.between('notice', 1, LONGEST_NOTICE_MS);
      world.at(at, null, () => lives[place]?.hear(notice));
    }
  }

  const staging: Staging<Replica> = {
    start: (name) => startReplica({ site, name, url: database.url, work, crowd, onVerb, notify }),
    onceSeen(check) {
      waiting.push(check);
      meanwhile(judge());
    },
    stall({ verb, forMs }) {
      if (verb === null) {
        someone('stalled')?.standStill(forMs);
        return;
      }
      for (const each of living()) {
        each.standStillAt(verb, forMs, () => {
          site.trace(`stands still before ${verb}`, each.name);
          for (const other of living()) other.spare();
        });
      }
    },
    async judgeAtTheEnd() {
      await judgeOnce();
      await witness.look();
      const unnoticed = await witness.unnoticed();
      if (unnoticed.length > 0) fail(`the witness has missed ${unnoticed.join(', ')}`);
      const skipped = await skippedByFollower();
      if (skipped.length > 0) fail(`a follower of changes has skipped ${skipped.join(', ')}`);
    },
  };

  keepFollowing();
  const outcome = await story.play(staging);
  return { ...outcome, met: crowd.met() };
}

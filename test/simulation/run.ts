import { createHash, randomUUID } from 'node:crypto';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { openSqlite } from '../../src/store/sqlite/sqlite.ts';
import type { ReadMoment } from '../../src/store/store.ts';
import { evidenceInFile } from './evidence.ts';
import { startMirror } from './mirror.ts';
import type { Plan } from './plan.ts';
import { createStory, namedInBody, namedTo, type Outcome } from './story.ts';

/** A file system in memory where there is one: a run commits some hundred times, and it is not the disk that is tested. */
export const FOLDER = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

/** Commits that touch no record: nothing to check after them. */
const BOOKKEEPING: ReadonlySet<string> = new Set([
  ...['beat', 'startSyncRun', 'progressSyncRun', 'finishSyncRun', 'interruptSyncRuns'],
  ...['openProblem', 'endProblem', 'audit'],
]);

let template: Buffer | null = null;

/** The bytes of an empty, migrated database: migrating anew for each run would cost more than the run. */
async function emptyDatabase(folder: string): Promise<Buffer> {
  if (template === null) {
    const path = join(folder, `simulation-${randomUUID()}.db`);
    await (await openSqlite(path)).close();
    const db = new Database(path);
    template = db.serialize();
    db.close();
    removeFiles(path);
  }
  return template;
}

function removeFiles(path: string): void {
  for (const suffix of ['', '-wal', '-shm', '.epoch.json', '.lock']) rmSync(path + suffix, { force: true });
}

/** Plays a plan of one mirror over a file of its own. Everything is virtual but the file, so that it goes the same way again. */
export async function run(plan: Plan, folder = FOLDER): Promise<Outcome & { traceHash: string }> {
  const path = join(folder, `simulation-${randomUUID()}.db`);
  writeFileSync(path, await emptyDatabase(folder));
  const evidence = evidenceInFile(path);
  const story = createStory(plan, { evidence });
  const { site, invariants, demand } = story;

  let isClockSet = false;

  function onCommit(verb: string, args: readonly unknown[]): void {
    if (verb === 'accept') {
      for (const { body } of (args[0] as { events: { body: string }[] }).events) {
        invariants.accepted(body);
        invariants.named(namedInBody(body));
      }
    }
    invariants.named(namedTo(verb, args));
    isClockSet ||= site.world.wallOffset() !== 0;
    if (!BOOKKEEPING.has(verb)) {
      const read = verb === 'applyReads' ? (args[2] as ReadMoment) : null;
      demand(invariants.check(read?.number ?? null));
    }
    demand(invariants.checkUnread());
    demand(invariants.checkAnswers());
    if (!isClockSet) demand(invariants.checkThrough(site.world.trueWall() - site.world.now()));
  }

  const outcome = await story.play({ start: () => startMirror({ site, path, onCommit }) });
  evidence.close();
  removeFiles(path);
  const hash = createHash('sha256');
  for (const line of outcome.trace) hash.update(`${line}\n`);
  return { ...outcome, traceHash: hash.digest('hex') };
}

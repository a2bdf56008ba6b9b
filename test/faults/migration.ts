import { copyFileSync, existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { missingStrace } from './means.ts';
import { conclude, emptyRow, inFolder, type Row, skippedRow } from './row.ts';
import { createSender, type Sender } from './sender.ts';
import { buildWithMigration, startService, strace } from './service.ts';

/** A step that takes a while and touches what matters. */
const STEPS = [
  'CREATE TABLE one_more (id TEXT PRIMARY KEY, body TEXT)',
  'INSERT INTO one_more SELECT id, body FROM events',
  'ALTER TABLE events ADD COLUMN one_more TEXT',
  'CREATE INDEX one_more_body ON one_more (body)',
];
const EVENTS = 200;

interface Scene {
  /** Of this version. */
  database: string;
  sender: Sender;
}

/** Kills the next version's `migrate` at its nth write to a file, backup included. */
export async function killInMigration(places: readonly number[]): Promise<Row> {
  const fault = 'kill -9 in mid-migration';
  const missing = missingStrace();
  if (missing !== null) return skippedRow(fault, missing);
  const row = emptyRow(fault);
  const seen = { before: 0, after: 0, finished: 0, backups: 0 };
  await inFolder(async (next) => {
    const main = buildWithMigration(next, STEPS);
    await withEvents(async ({ database, sender }) => {
      for (const n of places) {
        await inFolder(async (folder) => {
          const copy = join(folder, 'mirror.db');
          copyFileSync(database, copy);
          const under = strace(`pwrite64:signal=KILL:when=${n}`);
          const migration = startService({ database: copy, main, command: ['migrate'], under });
          const { signal, code } = await migration.exited;
          if (signal === null) {
            seen.finished += 1;
            if (code !== 0) row.faults.push(`n=${n}: ${migration.output()}`);
          }
          const schema = schemaOf(copy);
          seen[schema === 'whole' ? 'after' : 'before'] += 1;
          if (schema === 'torn') row.faults.push(`n=${n}: half of the migration is there`);
          for (const name of readdirSync(folder).filter((file) => file.endsWith('.bak'))) {
            seen.backups += 1;
            if (eventsIn(join(folder, name)) < EVENTS) row.faults.push(`n=${n}: ${name} lacks events`);
          }
          await conclude(row, `n=${n}`, sender.frozen(), copy, { main });
          const left = readdirSync(folder).filter((file) => file.includes('.partial-'));
          if (left.length > 0 && schema !== 'whole') row.faults.push(`n=${n}: ${left} is left over`);
        });
      }
    });
  });
  row.note = `${seen.before} old, ${seen.after} new schema after the kill, ${seen.backups} whole backups, ${seen.finished} not reached`;
  return row;
}

/** A migration that ends in an error: this version goes on as if nothing had been, and a backup is named. */
export async function failingMigration(): Promise<Row> {
  const row = emptyRow('migration that fails');
  await inFolder(async (next) => {
    const main = buildWithMigration(next, [...STEPS, 'INSERT INTO not_there VALUES (1)']);
    await withEvents(async ({ database, sender }) => {
      for (const command of ['serve', 'migrate', 'serve']) {
        const service = startService({ database, main, command: [command] });
        await service.listening;
        const { code } = await service.exited;
        const named = /is in (\S+\.bak)\)/.exec(service.output())?.[1];
        if (code !== 1 || named === undefined || !existsSync(named)) {
          row.faults.push(`${command} ended with ${code}: ${service.output()}`);
        } else if (eventsIn(named) < EVENTS) row.faults.push(`${named} lacks events`);
        if (schemaOf(database) !== 'old') row.faults.push(`${command}: the file is not as it was`);
      }
      const backups = readdirSync(join(database, '..')).filter((name) => name.endsWith('.bak'));
      if (backups.length !== 1) row.faults.push(`${backups.length} backups of one schema are kept`);
      await conclude(row, 'failed', sender, database);
    });
  });
  row.note = 'exit code 1, backup named, this version goes on';
  return row;
}

async function withEvents(work: (scene: Scene) => Promise<void>): Promise<void> {
  await inFolder(async (folder) => {
    mkdirSync(join(folder, 'data'));
    const database = join(folder, 'data/mirror.db');
    const sender = createSender('migrate');
    const service = startService({ database });
    const at = await service.listening;
    if (at === null) throw new Error(service.output());
    await sender.load(at.port, () => sender.acknowledged.length >= EVENTS);
    await service.stop();
    await work({ database, sender });
    sender.close();
  });
}

function schemaOf(path: string): 'old' | 'whole' | 'torn' {
  const db = new DatabaseSync(path, { timeout: 5_000 });
  try {
    const table = db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'one_more'").get() !== undefined;
    const index = db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'one_more_body'").get() !== undefined;
    if (table !== index) return 'torn';
    return table ? 'whole' : 'old';
  } finally {
    db.close();
  }
}

function eventsIn(path: string): number {
  const db = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
  try {
    return Number(db.prepare('SELECT count(*) AS n FROM events').get()?.['n']);
  } finally {
    db.close();
  }
}

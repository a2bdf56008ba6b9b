import { closeSync, openSync, readFileSync, statSync, truncateSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { conclude, emptyRow, inFolder, type Row } from './row.ts';
import { createSender } from './sender.ts';
import { endedOrStopped, startService } from './service.ts';

const PAGE_BYTES = 4096;

/** Ways in which a file comes to harm while nobody looks. */
const DAMAGES = {
  'no database any more': (path: string) => overwrite(path, 0, PAGE_BYTES),
  'garbage behind the first page': (path: string) =>
    overwrite(path, PAGE_BYTES, statSync(path).size - PAGE_BYTES),
  'second half missing': (path: string) =>
    truncateSync(path, Math.floor(statSync(path).size / 2 / PAGE_BYTES) * PAGE_BYTES),
  'pages of one table': (path: string) =>
    overwrite(path, (rootOf(path, 'events') - 1) * PAGE_BYTES, PAGE_BYTES),
} as const;

type Damage = keyof typeof DAMAGES;
const DAMAGE_NAMES = Object.keys(DAMAGES) as Damage[];

/**
 * A damaged file: the service must end with a clear error, at its start or at the first delivery that touches the
 * damage, acknowledge nothing it could not keep, and go on from a backup.
 */
export async function corruptFile(damages: readonly Damage[] = DAMAGE_NAMES): Promise<Row> {
  const row = emptyRow('damaged file, then its backup');
  for (const damage of damages) {
    await inFolder(async (folder) => {
      const database = join(folder, 'mirror.db');
      const copy = join(folder, 'copy.db');
      const sender = createSender('corrupt');
      const service = startService({ database });
      const at = await service.listening;
      if (at === null) throw new Error(service.output());
      await sender.load(at.port, () => sender.acknowledged.length >= 100);
      const backup = startService({ database, command: ['backup', copy] });
      const backedUp = await backup.exited;
      if (backedUp.code !== 0) row.faults.push(`${damage}: the backup failed: ${backup.output()}`);
      await service.stop();

      DAMAGES[damage](database);
      const bytes = readFileSync(database);
      const promised = sender.acknowledged.length;
      const started = await meetsDamage(row, damage, database, sender);
      if (sender.acknowledged.length > promised) {
        row.faults.push(`${damage}: acknowledged an event on a damaged file`);
      }
      if (!started && !bytes.equals(readFileSync(database))) {
        row.faults.push(`${damage}: the damaged file was changed`);
      }

      const restore = startService({ database, command: ['restore', copy] });
      if ((await restore.exited).code !== 0)
        row.faults.push(`${damage}: the restore failed: ${restore.output()}`);
      await conclude(row, damage, sender, database);
      sender.close();
    });
  }
  row.note = 'clear error, exit code 1; the backup goes on';
  return row;
}

/** Resolves to whether it came as far as taking deliveries. */
async function meetsDamage(
  row: Row,
  damage: string,
  database: string,
  sender: ReturnType<typeof createSender>,
): Promise<boolean> {
  const service = startService({ database });
  const at = await service.listening;
  if (at !== null) await sender.loadToDeath(at.port);
  const { code } = await endedOrStopped(service);
  if (code !== 1 || !/compliance-mirror: .*cannot be trusted.*backup/.test(service.output())) {
    row.faults.push(`${damage}: it ended with ${code}: ${service.output()}`);
  }
  return at !== null;
}

function overwrite(path: string, from: number, bytes: number): void {
  const file = openSync(path, 'r+');
  writeSync(file, Buffer.alloc(bytes, 0xa5), 0, bytes, from);
  closeSync(file);
}

function rootOf(path: string, table: string): number {
  const db = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
  const row = db.prepare('SELECT rootpage FROM sqlite_master WHERE name = ?').get(table);
  db.close();
  return Number(row?.['rootpage']);
}

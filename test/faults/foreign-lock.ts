import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { conclude, emptyRow, inFolder, type Row } from './row.ts';
import { createSender } from './sender.ts';
import { startService } from './service.ts';

/** Refusals waited for: each takes as long as the service waits for the lock. */
const REFUSALS = 3;

/** The service may be in the middle of a write when the stranger comes: it waits its turn, as any program would. */
const STRANGER_WAIT_MS = 30_000;

/** Another program keeps a write transaction open on the file. */
export async function foreignLock(): Promise<Row> {
  const row = emptyRow('foreign write lock, then released');
  await inFolder(async (folder) => {
    const database = join(folder, 'mirror.db');
    const sender = createSender('lock');
    const service = startService({ database });
    const at = await service.listening;
    if (at === null) throw new Error(service.output());
    await sender.load(at.port, () => sender.acknowledged.length >= 50);
    const stranger = new DatabaseSync(database, { timeout: STRANGER_WAIT_MS });
    stranger.exec('BEGIN IMMEDIATE');
    await sender.load(at.port, () => sender.refused.length >= REFUSALS);
    stranger.exec('ROLLBACK');
    const goal = sender.acknowledged.length + 50;
    await sender.load(at.port, () => sender.acknowledged.length >= goal);

    stranger.exec('BEGIN IMMEDIATE');
    service.child.kill('SIGKILL');
    await service.exited;
    const second = startService({ database });
    await second.listening;
    const { code } = await second.exited;
    if (code !== 1 || !second.output().includes('another process holds the database')) {
      row.faults.push(`started under the lock it ended with ${code}: ${second.output()}`);
    }
    stranger.close();
    await conclude(row, 'lock', sender, database);
    sender.close();
  });
  row.note = 'accepts again without a restart';
  return row;
}

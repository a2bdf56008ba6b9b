import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { missingMount, missingStrace } from './means.ts';
import { conclude, emptyRow, inFolder, type Row, skippedRow } from './row.ts';
import { createSender, type Sender } from './sender.ts';
import { startService, strace } from './service.ts';

const DISK_MEBIBYTES = 12;
const BALLAST_MEBIBYTES = 9;
/** Refusals that show that the disk stays full, and acceptances that show that it is not any more. */
const ENOUGH = 10;

/** A disk of a few mebibytes runs full under load and is freed again; once under a living service, once after its death. */
export async function diskFull(): Promise<Row> {
  const fault = 'disk full (small tmpfs), then freed';
  const missing = missingMount();
  if (missing !== null) return skippedRow(fault, missing);
  const row = emptyRow(fault);
  for (const ending of ['freed', 'killed while full'] as const) {
    await onSmallDisk(async (folder) => {
      const database = join(folder, 'mirror.db');
      const ballast = join(folder, 'ballast');
      const sender = createSender(ending.slice(0, 5), 4_000);
      const service = startService({ database });
      const at = await service.listening;
      if (at === null) throw new Error(service.output());
      writeFileSync(ballast, Buffer.alloc(BALLAST_MEBIBYTES * 1024 * 1024));
      await sender.load(at.port, () => sender.refused.length >= ENOUGH);
      // A group of deliveries that did not fit leaves room for a smaller one.
      fillUp(join(folder, 'rest'));
      if (!(await becomesUnready(at.opsUrl))) row.faults.push(`${ending}: /readyz says ready on a full disk`);
      if (ending === 'freed') {
        for (const file of [ballast, join(folder, 'rest')]) rmSync(file);
        await recovers(row, ending, sender, at.port);
        await service.stop();
      } else {
        service.child.kill('SIGKILL');
        await service.exited;
        await startsOnlyWithASay(row, database);
        for (const file of [ballast, join(folder, 'rest')]) rmSync(file);
      }
      await conclude(row, ending, sender, database);
      sender.close();
    });
  }
  row.note = 'freed: accepts again without a restart';
  return row;
}

/** Page by page, until the disk takes no more. */
function fillUp(path: string): void {
  writeFileSync(path, '');
  try {
    for (;;) appendFileSync(path, Buffer.alloc(4_096));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  }
}

/** Its answer serves all probes for two seconds; several of those are enough. */
async function becomesUnready(opsUrl: string): Promise<boolean> {
  const deadline = Date.now() + 15_000;
  while (Date.now() < deadline) {
    if ((await fetch(`${opsUrl}/readyz`)).status === 503) return true;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  return false;
}

/** On a full disk a start may fail, and then says so; it may also succeed, and must then end when asked. */
async function startsOnlyWithASay(row: Row, database: string): Promise<void> {
  const service = startService({ database });
  if ((await service.listening) !== null) {
    await service.stop();
    return;
  }
  const { code } = await service.exited;
  if (code !== 1 || !service.output().includes('disk is full')) {
    row.faults.push(`started on a full disk it ended with ${code}: ${service.output()}`);
  }
}

/** The same without a mount: the kernel refuses every write from the nth to the last of `writes`. */
export async function noSpace(writes: readonly (readonly [number, number])[]): Promise<Row> {
  const fault = 'ENOSPC for a while, then space again';
  const missing = missingStrace();
  if (missing !== null) return skippedRow(fault, missing);
  const row = emptyRow(fault);
  for (const [from, to] of writes) {
    await inFolder(async (folder) => {
      const database = join(folder, 'mirror.db');
      const sender = createSender(`nospc${from}`);
      const service = startService({
        database,
        under: strace(`pwrite64:error=ENOSPC:when=${from}..${to}`),
      });
      const at = await service.listening;
      if (at === null) throw new Error(service.output());
      await sender.load(at.port, () => sender.refused.length > 0);
      await recovers(row, `writes ${from} to ${to}`, sender, at.port);
      await service.stop();
      await conclude(row, `writes ${from} to ${to}`, sender, database);
      sender.close();
    });
  }
  row.note = 'accepts again without a restart';
  return row;
}

/** Gives up after as many refusals as no pause of the disk accounts for. */
const MOST_REFUSALS = 500;

async function recovers(row: Row, round: string, sender: Sender, port: number): Promise<void> {
  const goal = sender.acknowledged.length + ENOUGH;
  const limit = sender.refused.length + MOST_REFUSALS;
  await sender.load(port, () => sender.acknowledged.length >= goal || sender.refused.length >= limit);
  if (sender.acknowledged.length < goal) row.faults.push(`${round}: it does not accept again`);
}

async function onSmallDisk(work: (folder: string) => Promise<void>): Promise<void> {
  await inFolder(async (folder) => {
    const disk = join(folder, 'disk');
    mkdirSync(disk);
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_MEBIBYTES}m`, 'tmpfs', disk]);
    try {
      await work(disk);
    } finally {
      // Lazily: a process that is just ending may still have it open.
      execFileSync('umount', ['-l', disk]);
    }
  });
}

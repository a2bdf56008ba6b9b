import { join } from 'node:path';
import { missingStrace } from './means.ts';
import { conclude, emptyRow, inFolder, type Row, skippedRow } from './row.ts';
import { createSender } from './sender.ts';
import { endedOrStopped, startService, strace } from './service.ts';

const FAULT = 'flush fails with EIO from the nth on';

/** The disk gives out: the service must answer 503 and end, since a flush tried again may succeed for nothing. */
export async function flushError(places: readonly number[]): Promise<Row> {
  const missing = missingStrace();
  if (missing !== null) return skippedRow(FAULT, missing);
  const row = emptyRow(FAULT);
  const codes = new Set<number | null>();
  for (const n of places) {
    await inFolder(async (folder) => {
      const database = join(folder, 'mirror.db');
      const sender = createSender(`eio${n}`);
      const service = startService({ database, under: strace(`fsync:error=EIO:when=${n}+`) });
      const at = await service.listening;
      if (at !== null) await sender.loadToDeath(at.port);
      const { code } = await endedOrStopped(service);
      codes.add(code);
      if (code === 0 || code === null) row.faults.push(`n=${n}: it ended with ${code}`);
      if (!/compliance-mirror: .*cannot be (trusted|flushed|written)/.test(service.output())) {
        row.faults.push(`n=${n}: it ends without saying why: ${service.output()}`);
      }
      await conclude(row, `n=${n}`, sender, database);
      sender.close();
    });
  }
  row.note = `exit code ${[...codes].join(', ')}`;
  return row;
}

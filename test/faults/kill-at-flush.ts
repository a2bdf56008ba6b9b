import { join } from 'node:path';
import { missingStrace } from './means.ts';
import { conclude, emptyRow, inFolder, type Row, skippedRow } from './row.ts';
import { createSender } from './sender.ts';
import { endedOrStopped, startService, strace } from './service.ts';

const FAULT = 'kill -9 at the nth flush to disk';

/** Kills the service as it begins its nth fsync, counted from its start, for every n of `places`. */
export async function killAtFlush(places: readonly number[]): Promise<Row> {
  const missing = missingStrace();
  if (missing !== null) return skippedRow(FAULT, missing);
  const row = emptyRow(FAULT);
  let early = 0;
  for (const n of places) {
    await inFolder(async (folder) => {
      const database = join(folder, 'mirror.db');
      const sender = createSender(`kill${n}`);
      const service = startService({ database, under: strace(`fsync:signal=KILL:when=${n}`) });
      const at = await service.listening;
      if (at === null) early += 1;
      else await sender.loadToDeath(at.port);
      const { signal } = await endedOrStopped(service);
      if (signal !== 'SIGKILL') row.faults.push(`n=${n}: not killed: ${service.output()}`);
      await conclude(row, `n=${n}`, sender, database);
      sender.close();
    });
  }
  row.note = `n from ${places[0]} to ${places.at(-1)}; ${early} before it listened`;
  return row;
}

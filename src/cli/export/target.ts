import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { UsageError } from '../../platform/errors.ts';

/** Text gathered before it is written. Characters. */
const GATHERED = 64 * 1024;

export interface Target {
  write(text: string): Promise<void>;
  /** Until here, nobody finds a file of that name. */
  finish(): Promise<void>;
  /** Leaves nothing behind. */
  abandon(): Promise<void>;
}

/** A file that is there whole or not at all, readable for its owner alone: it holds what the database does. */
export async function fileTarget(path: string, options: { force: boolean }): Promise<Target> {
  if (!options.force && existsSync(path)) {
    throw new UsageError(`${path} is there already`, 'choose another name, or add --force');
  }
  if (!existsSync(dirname(path))) throw new UsageError(`there is no folder ${dirname(path)}`);
  const partial = `${path}.${randomBytes(4).toString('hex')}.partial`;
  const file = await open(partial, 'wx', 0o600);
  let gathered = '';
  const flush = async () => {
    await file.writeFile(gathered);
    gathered = '';
  };
  return {
    async write(text) {
      gathered += text;
      if (gathered.length >= GATHERED) await flush();
    },
    async finish() {
      await flush();
      await file.sync();
      await file.close();
      await rename(partial, path);
    },
    async abandon() {
      await file.close().catch(() => undefined);
      await rm(partial, { force: true });
    },
  };
}

/** A stream that others read, at their pace. */
export function streamTarget(stream: NodeJS.WriteStream): Target {
  return {
    async write(text) {
      if (!stream.write(text)) await once(stream, 'drain');
    },
    finish: async () => undefined,
    abandon: async () => undefined,
  };
}

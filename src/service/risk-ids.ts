import { readFile } from 'node:fs/promises';
import { isUsableId } from '../compliance/pointers.ts';
import { describeError, UsageError } from '../platform/errors.ts';
import type { Logger } from '../platform/logger.ts';

export interface RiskIds {
  /** Rejects with UsageError when the file cannot be used. */
  check(): Promise<void>;
  /** What the file holds now; what it last held when it cannot be read. */
  read(): Promise<readonly string[]>;
}

/** `RISK_IDS_FILE`: one id a line; blank lines and those that begin with # say nothing. Null: no ids. */
export function riskIdsReader(path: string | null, log: Pick<Logger, 'warn'>): RiskIds {
  let last: readonly string[] = [];

  async function load(file: string): Promise<void> {
    const lines = (await readFile(file, 'utf8')).split(/\r?\n/).map((line) => line.trim());
    const ids = lines.filter((line) => line !== '' && !line.startsWith('#'));
    const bad = ids.findIndex((id) => !isUsableId(id));
    if (bad >= 0) throw new UsageError(`RISK_IDS_FILE: id ${bad + 1} in ${file} is not one`, 'one id a line');
    last = ids;
  }

  return {
    async check() {
      if (path === null) return;
      await load(path).catch((error) => {
        if (error instanceof UsageError) throw error;
        const isFolder = (error as NodeJS.ErrnoException).code === 'EISDIR';
        throw new UsageError(
          `RISK_IDS_FILE: ${isFolder ? `${path} is a folder` : describeError(error)}`,
          'name a readable file, one id a line',
        );
      });
    },
    async read() {
      if (path !== null) {
        await load(path).catch((error) =>
          log.warn({ error: describeError(error) }, 'RISK_IDS_FILE cannot be read'),
        );
      }
      return last;
    },
  };
}

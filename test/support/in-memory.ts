import { chmodSync, mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { IS_FULL } from './full.ts';

const MEMORY = '/dev/shm';
const ENOUGH_BYTES = 2 * 2 ** 30;

/**
 * Folders for temporary files are in memory where there is enough of it: flushes of databases that nobody needs afterwards took more than half of the
 * time of the tests. What a flush is worth is shown by a disk that forgets what was not flushed (`test/faults`), wherever its file is.
 */
export default function inMemory(): void {
  // What is long may also be large.
  if (IS_FULL || freeBytes() < ENOUGH_BYTES) return;
  const folder = mkdtempSync(`${MEMORY}/compliance-mirror-tests-`);
  // PostgreSQL runs as a user of its own where the tests run as root.
  chmodSync(folder, 0o755);
  process.env['TMPDIR'] = folder;
  // Also where somebody stops the tests, which ends their processes a moment later.
  process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }));
}

function freeBytes(): number {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize;
  } catch {
    return 0;
  }
}

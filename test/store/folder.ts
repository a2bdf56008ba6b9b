import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** The path of a database that is not there yet, in a folder that goes with the test. */
export function freshPath(): string {
  const folder = mkdtempSync(join(tmpdir(), 'mirror-file-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'mirror.db');
}

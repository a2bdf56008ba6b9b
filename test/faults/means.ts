import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Why a fault cannot be made on this machine, or null: it can. */
export function missingStrace(): string | null {
  if (process.platform !== 'linux') return 'strace exists on Linux only';
  const tried = spawnSync('strace', ['-D', '-f', '-qq', '-o', '/dev/null', 'true']);
  if (tried.error !== undefined) return 'strace is not installed';
  return tried.status === 0 ? null : `strace may not trace here: ${String(tried.stderr).trim()}`;
}

export function missingCompiler(): string | null {
  if (process.platform !== 'linux') return 'the forgetful disk is made for Linux only';
  const tried = spawnSync('cc', ['--version']);
  return tried.error === undefined && tried.status === 0 ? null : 'there is no C compiler (cc)';
}

export function missingMount(): string | null {
  const folder = mkdtempSync(join(tmpdir(), 'mirror-fault-'));
  try {
    const tried = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder]);
    if (tried.error !== undefined || tried.status !== 0) return 'a small disk can be mounted by root only';
    spawnSync('umount', [folder]);
    return null;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

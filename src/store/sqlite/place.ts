import {
  accessSync,
  closeSync,
  constants,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmdirSync,
  statSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { UsageError } from '../../platform/errors.ts';

/** Nobody but the service's own user: payloads and hashes of sign-ins are in it. */
const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;

const REMEDY =
  'name a file in a folder that the user of the service may write to, such as file:./data/mirror.db';

/** Makes the folder and the empty file, with a mode of ours: SQLite would take the umask's. Throws UsageError where that cannot be. */
export function makePlaceFor(path: string): void {
  makeFolder(dirname(resolve(path)), path);
  try {
    refuseFolder(path);
    closeSync(openSync(path, 'a', FILE_MODE));
  } catch (error) {
    throw unusable(path, error);
  }
}

/** Throws as `makePlaceFor` would, and leaves nothing behind. */
export function probePlaceFor(path: string): void {
  let folder = dirname(resolve(path));
  try {
    while (statSync(folder, { throwIfNoEntry: false }) === undefined) folder = dirname(folder);
    makeFolder(folder, path);
    rmdirSync(mkdtempSync(join(folder, '.compliance-mirror-')));
  } catch (error) {
    throw unusable(path, error);
  }
}

/** SQLite calls that an I/O error, as of a broken disk. */
export function refuseFolder(path: string): void {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  throw new UsageError(`DATABASE_URL: ${path} is a folder`, REMEDY);
}

/** Step by step: on file systems that answer ENOENT to a mkdir, such as /proc, Node's own recursion never ends. */
function makeFolder(folder: string, path: string): void {
  try {
    const found = statSync(folder, { throwIfNoEntry: false });
    if (found?.isDirectory()) return;
    if (found !== undefined) throw new UsageError(`DATABASE_URL: ${folder} is not a folder`, REMEDY);
    makeFolder(dirname(folder), path);
    mkdirSync(folder, { mode: FOLDER_MODE });
  } catch (error) {
    // Another process that starts at the same time may have made it.
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return;
    throw unusable(path, error);
  }
}

function unusable(path: string, error: unknown): unknown {
  if (error instanceof UsageError) return error;
  const { code } = error as NodeJS.ErrnoException;
  // What may pass by itself is not the setting's fault.
  if (code === undefined || /^(ENOSPC|EDQUOT|EIO|EMFILE|ENFILE|ENOMEM)$/.test(code)) return error;
  const why = code === 'EROFS' ? 'is on a read-only file system' : `cannot be made or written (${code})`;
  return new UsageError(`DATABASE_URL: ${path} ${why}`, REMEDY);
}

/** Whether the file system of the file at `path` is mounted for reading. */
export function isReadOnly(path: string): boolean {
  try {
    accessSync(dirname(resolve(path)), constants.W_OK);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EROFS';
  }
}

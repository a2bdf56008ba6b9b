import { statSync } from 'node:fs';

/** Others than its owner: of the owner's group, and everybody. */
const OTHERS_WRITE = 0o022;
const OTHERS_READ = 0o044;

/**
 * How others get at a file with secrets, to follow its name, with what to do; null: they do not, or it is no file. root may read
 * any file, so one of root's counts as ours. Windows has no modes.
 */
export function openToOthers(path: string): string | null {
  const user = process.getuid?.();
  const stat = statSync(path, { throwIfNoEntry: false });
  if (user === undefined || stat?.isFile() !== true) return null;
  if (stat.uid !== user && stat.uid !== 0) {
    return `belongs to user ${stat.uid}, and this is user ${user}: chown ${user} ${path}`;
  }
  if ((stat.mode & OTHERS_WRITE) !== 0) return `can be changed by other users: chmod 600 ${path}`;
  return (stat.mode & OTHERS_READ) === 0 ? null : `can be read by other users: chmod 600 ${path}`;
}

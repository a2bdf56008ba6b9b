import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  realpathSync,
  rmdirSync,
  statSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import Database from 'better-sqlite3';
import { StoreUnavailable, UsageError } from '../../platform/errors.ts';

/** How long a statement waits for another process's write lock. Longer would delay all deliveries after it. */
const LOCK_WAIT_MS = 1_000;

/** The write-ahead log is folded back at about 64 MiB: rarely enough to be cheap, and small enough to read fast. */
const CHECKPOINT_PAGES = 16_000;

/**
 * Pages kept in memory, in KiB: the records and index pages of a thousand busy records, a few times over. SQLite's own
 * 2 MiB made each event read pages again that the one before had just written. With 16 MiB only a search through the data of ten
 * thousand records was faster when it came again, 5 ms instead of 9.
 */
const PAGE_CACHE_KIB = 8_192;

export type Connection = Database.Database;

/** Opens the file (or `:memory:`), durable: WAL and FULL, both asserted, since a silent NORMAL loses acknowledged rows. */
export function connect(path: string, options: { readOnly: boolean }): Connection {
  // A nameless one is temporary: it has no place, and is refused below.
  if (path !== ':memory:' && path !== '') {
    if (options.readOnly && !existsSync(path)) {
      throw new UsageError(
        `there is no database at ${path}`,
        'start the service once, or run `compliance-mirror migrate`',
      );
    }
    if (options.readOnly) refuseFolder(path);
    else makePlaceFor(path);
  }
  return guarded(() => {
    const file = options.readOnly ? whereRead(path) : path;
    const db = new Database(file, { readonly: options.readOnly, timeout: LOCK_WAIT_MS });
    try {
      // Opened, it can be read, and SQLite has not looked at the log yet.
      refuseLogOfAnother(path);
      if (options.readOnly) return db;
      db.pragma('journal_mode = WAL');
      db.pragma('synchronous = FULL');
      db.pragma('foreign_keys = ON');
      db.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
      db.pragma(`cache_size = -${PAGE_CACHE_KIB}`);
      assertDurable(db, path);
    } catch (error) {
      db.close();
      throw error;
    }
    return db;
  });
}

/** Of a file that is read as a whole; what is larger would take too much memory. */
const MOST_IN_MEMORY = 2 ** 30;

/**
 * The file at `path`, or what is in it: a database with a write-ahead log cannot be opened where its log cannot be made, and a
 * file system that takes no writes changes nothing while we read. A log is read where it is, if its index is there, too.
 */
function whereRead(path: string): string | Buffer {
  if (!isReadOnly(path)) return path;
  const there = `${path} is on a read-only file system`;
  const into = 'to a folder that can be written to, and let DATABASE_URL name the copy';
  const log = `${path}-wal`;
  if ((statSync(log, { throwIfNoEntry: false })?.size ?? 0) > 0) {
    if (existsSync(`${path}-shm`)) return path;
    throw new UsageError(
      `${there}, and its log, ${log}, cannot be read there without the file ${path}-shm`,
      `copy the file and its log ${into}`,
    );
  }
  if (statSync(path).size > MOST_IN_MEMORY) {
    throw new UsageError(`${there}, and too large to be read from there`, `copy it ${into}`);
  }
  const image = readFileSync(path);
  // How it is written and read, of the file's format: by a journal, not by a log.
  image.fill(1, 18, 20);
  return image;
}

function assertDurable(db: Connection, path: string): void {
  const journal = db.pragma('journal_mode', { simple: true });
  const synchronous = db.pragma('synchronous', { simple: true });
  const expected = path === ':memory:' ? 'memory' : 'wal';
  if (journal === expected && synchronous === 2) return;
  throw new StoreUnavailable(
    `the database is not durable: journal_mode ${journal}, synchronous ${synchronous}`,
    {
      fatal: true,
      remedy: 'the file system must support write-ahead logging: a local disk, not a network share',
    },
  );
}

/**
 * Throws once the file or its log is no longer what is at its path: what is written from then on has no name, or is in a file that
 * nobody will open. With a log, SQLite does not look.
 */
export function placeKeeper(db: Connection): () => void {
  if (db.memory) return () => undefined;
  const known = new Map<string, string>();
  return () => {
    for (const path of [db.name, `${db.name}-wal`]) {
      const found = statSync(path, { throwIfNoEntry: false });
      const now = found && `${found.dev}/${found.ino}`;
      const before = known.get(path);
      if (before === undefined && now !== undefined) known.set(path, now);
      if (before === undefined || now === before) continue;
      throw new StoreUnavailable(`${path} was removed or replaced while the service ran`, {
        fatal: true,
        remedy:
          'what was accepted since then is in the file that was there, not in this one; end the service before another file takes its place',
      });
    }
  };
}

/** Runs `work`, and translates SQLite's errors into ours. */
export function guarded<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw translate(error);
  }
}

/** The same for a verb: one that only reads may find the file damaged too. */
export async function guardedVerb<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw translate(error);
  }
}

interface Meaning {
  codes: RegExp;
  says: (message: string) => string;
  remedy: string;
  fatal?: boolean;
}

const MEANINGS: readonly Meaning[] = [
  {
    codes: /^SQLITE_FULL$/,
    says: () => 'the disk is full',
    remedy: 'free space; nothing acknowledged is lost',
  },
  {
    codes: /^SQLITE_(BUSY|LOCKED)/,
    says: () => 'another process holds the database',
    remedy: 'end the program that keeps a write transaction open on the file',
  },
  {
    codes: /^SQLITE_(READONLY|CANTOPEN$|PERM$)/,
    says: (message) => `the database cannot be written: ${message}`,
    remedy: 'the file and its folder must be writable by the user that runs the service',
  },
  {
    codes: /^SQLITE_(IOERR|CORRUPT|NOTADB$)/,
    says: (message) => `the database cannot be trusted any more: ${message}`,
    remedy: 'check the disk; if the file is damaged, restore a backup: a gap says then what it lacks',
    fatal: true,
  },
];

function translate(error: unknown): unknown {
  if (!(error instanceof Database.SqliteError)) return error;
  const meaning = MEANINGS.find(({ codes }) => codes.test(error.code));
  if (meaning === undefined) return error;
  const { says, remedy, fatal = false } = meaning;
  return new StoreUnavailable(says(error.message), { fatal, remedy, cause: error });
}

// ─── the place of the file ───────────────────────────────────────────────────────────────────────────────

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
    // Its log and its lock are made beside it.
    accessSync(dirname(resolve(path)), constants.W_OK);
    refuseOtherNames(path);
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

/**
 * A backup is a file without a log. One beside it is of the database that was there before: SQLite would write it into the file, and
 * damage it, perhaps without a sign.
 */
function refuseLogOfAnother(path: string): void {
  const log = `${path}-wal`;
  if ((statSync(log, { throwIfNoEntry: false })?.size ?? 0) === 0) return;
  const start = Buffer.alloc(20);
  const file = openSync(path, 'r');
  try {
    readSync(file, start);
  } finally {
    closeSync(file);
  }
  // How it is written, of the file's format: by a journal, not by a log.
  if (start[18] !== 1) return;
  throw new UsageError(
    `${path} is a backup that was put back, and ${log} is of the database that was there before`,
    `remove ${log} and ${path}-shm, which would damage it`,
  );
}

/** SQLite calls that an I/O error, as of a broken disk. */
function refuseFolder(path: string): void {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  throw new UsageError(`DATABASE_URL: ${path} is a folder`, REMEDY);
}

/**
 * The log of changes and the lock go by the file's name, beside it. By two names two services would each keep a log of their
 * own and lose what the other has acknowledged; and the log of a file that is mounted alone stays behind in its container.
 */
function refuseOtherNames(path: string): void {
  if (statSync(path).nlink > 1) {
    throw new UsageError(
      `DATABASE_URL: ${path} has another name besides (a hard link), and who writes by that loses what is written by this`,
      'remove the other name ("find -samefile" shows it), or name a copy made by "cp"',
    );
  }
  if (isMountedAlone(path)) {
    throw new UsageError(
      `DATABASE_URL: ${path} is mounted by itself, without the folder in which its log has to be`,
      'mount its folder instead, such as -v mirror-data:/data',
    );
  }
}

function isMountedAlone(path: string): boolean {
  let mounts: string;
  try {
    mounts = readFileSync('/proc/self/mountinfo', 'utf8');
  } catch {
    // Not Linux, or without /proc.
    return false;
  }
  // Of each line the fifth field is the place, with a space as \040.
  const octal = (character: string) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`;
  const place = realpathSync(path).replace(/[ \t\n\\]/g, octal);
  return mounts.split('\n').some((line) => line.split(' ')[4] === place);
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

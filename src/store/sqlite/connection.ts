import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  realpathSync,
  statSync,
} from 'node:fs';
import { dirname, resolve } from 'node:path';
import Database from 'better-sqlite3';
import { describeError, StoreUnavailable, UsageError } from '../../platform/errors.ts';

/** How long a statement waits for another process's write lock. Longer would delay all deliveries after it. */
const LOCK_WAIT_MS = 1_000;

/** The write-ahead log is moved into the file at about 64 MiB: seldom enough to be cheap, and early enough for fast reads. */
const CHECKPOINT_PAGES = 16_000;

/** A log that grew beyond this during a long query is cut to it once it has been moved: SQLite alone would keep its length. Bytes. */
const KEPT_LOG_BYTES = 2 ** 27;

/**
 * The page cache: several times what a thousand busy records need, with their indexes. With SQLite's default, 2 MiB, each event read
 * pages again that the event before had just written. With 16 MiB only a repeated search in the data of ten thousand records was
 * faster: 5 ms in place of 9.
 */
const PAGE_CACHE_KIB = 8_192;

export type Connection = Database.Database;

/**
 * Opens the file (or `:memory:`). Asserts WAL and synchronous=FULL: with NORMAL a power loss would lose acknowledged rows.
 * `isOpen`: this process has the file open already.
 */
export function connect(path: string, options: { readOnly: boolean; isOpen?: boolean }): Connection {
  // An empty path is a temporary database without a file, and is refused below.
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
    const db = new Database(path, { readonly: options.readOnly, timeout: LOCK_WAIT_MS });
    try {
      // Now the file can be read, and SQLite has not looked at its log yet. This opens and closes the file, which ends all locks that the
      // process has on it: some programs that close the database later would then remove its log, as if nobody used it.
      if (!options.isOpen) refuseLogOfAnother(path);
      if (options.readOnly) return db;
      db.pragma('journal_mode = WAL');
      db.pragma('synchronous = FULL');
      db.pragma('foreign_keys = ON');
      db.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
      db.pragma(`journal_size_limit = ${KEPT_LOG_BYTES}`);
      db.pragma(`cache_size = -${PAGE_CACHE_KIB}`);
      assertDurable(db, path);
    } catch (error) {
      db.close();
      throw error;
    }
    return db;
  });
}

/** Throws unless each commit waits for the disk. */
export function assertDurable(db: Connection, path: string = db.name): void {
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

/** Makes all that was committed durable. The lock of the file is not affected: of its log this closes a descriptor, not of the file. */
export function flushLog(db: Connection): void {
  const path = `${db.name}-wal`;
  if (db.memory || !existsSync(path)) return;
  try {
    const log = openSync(path, 'r');
    try {
      fsyncSync(log);
    } finally {
      closeSync(log);
    }
  } catch (error) {
    throw new StoreUnavailable(`${path} cannot be flushed to the disk: ${describeError(error)}`, {
      fatal: true,
      remedy: 'check the disk; what was acknowledged is in the database',
      cause: error,
    });
  }
}

/**
 * The result throws when the file or its log was removed or replaced: from then on we would write to a file that nobody will open, or
 * read one that nobody writes. SQLite does not notice that in WAL mode, and removes no log while it is open.
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
      throw new StoreUnavailable(`${path} was removed or replaced while it was open`, {
        fatal: true,
        remedy:
          'start it again. Events accepted since then are only in the file that was there before: stop the service before you replace its file',
      });
    }
  };
}

/** Translates SQLite's errors into ours. */
export function guarded<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw translate(error);
  }
}

/** The same for a verb. Even one that only reads may find the file damaged. */
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
    remedy: 'stop the program that keeps a write transaction open on the file',
  },
  {
    codes: /^SQLITE_(READONLY|CANTOPEN$|PERM$)/,
    says: (message) => `the database cannot be written: ${message}`,
    remedy: 'the file and its folder must be writable by the user that runs the service',
  },
  {
    // SQLite reports no more than a failed write for a quota or a limit, and for a full disk when the log's index must grow.
    codes: /^SQLITE_IOERR_(WRITE|SHMSIZE)$/,
    says: (message) => `the disk takes no more: ${message}`,
    remedy: 'free space, or raise the quota; if there is room, check the disk. Nothing acknowledged is lost',
    fatal: true,
  },
  {
    codes: /^SQLITE_(IOERR|CORRUPT|NOTADB$)/,
    says: (message) => `the database cannot be trusted any more: ${message}`,
    remedy:
      'check the disk; if the file is damaged, restore a backup: problems then say from when events are missing',
    fatal: true,
  },
];

/** StoreUnavailable if the file or the disk is at fault; otherwise the error itself. */
export function translate(error: unknown): unknown {
  if (!(error instanceof Database.SqliteError)) return error;
  const meaning = MEANINGS.find(({ codes }) => codes.test(error.code));
  if (meaning === undefined) return error;
  const { says, remedy, fatal = false } = meaning;
  return new StoreUnavailable(says(error.message), { fatal, remedy, cause: error });
}

// ─── the place of the file ───────────────────────────────────────────────────────────────────────────────

/** Only for the service's own user, since the database has payloads and hashes of sign-ins. */
const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;

const REMEDY =
  'name a file in a folder that the user of the service may write to, such as file:./data/mirror.db';

/** Makes the folder and the empty file, with our modes: SQLite would use the umask. Throws UsageError if it cannot. */
export function makePlaceFor(path: string): void {
  makeFolder(dirname(resolve(path)), path);
  try {
    refuseFolder(path);
    // Not opened if it is there: see `connect`.
    if (existsSync(path)) accessSync(path, constants.W_OK);
    else closeSync(openSync(path, 'a', FILE_MODE));
    // SQLite makes the log, and we the lock, beside the file.
    accessSync(dirname(resolve(path)), constants.W_OK);
    refuseLoneMount(path);
  } catch (error) {
    throw unusable(path, error);
  }
}

/**
 * A backup is a file without a log. A log beside it belongs to the database that was there before: SQLite would write it into the
 * file and damage it, perhaps unnoticed.
 */
function refuseLogOfAnother(path: string): void {
  const log = `${path}-wal`;
  if (sizeOf(log) === 0) return;
  const start = Buffer.alloc(20);
  const file = openSync(path, 'r');
  try {
    readSync(file, start);
  } finally {
    closeSync(file);
  }
  // 1: this file is written without a log.
  if (start[18] !== 1) return;
  throw new UsageError(
    `${path} is a backup that was put back, and ${log} is of the database that was there before`,
    `run "compliance-mirror restore" with the backup, or remove ${log} and ${path}-shm: they would damage it`,
  );
}

/** SQLite would report an I/O error, as for a broken disk. */
function refuseFolder(path: string): void {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  throw new UsageError(`DATABASE_URL: ${path} is a folder`, REMEDY);
}

/** The log of a file that is mounted alone would be lost with its container. */
function refuseLoneMount(path: string): void {
  if (!isMountedAlone(path)) return;
  throw new UsageError(
    `DATABASE_URL: ${path} is mounted by itself, without the folder in which its log has to be`,
    'mount its folder instead, such as -v mirror-data:/data',
  );
}

function isMountedAlone(path: string): boolean {
  let mounts: string;
  try {
    mounts = readFileSync('/proc/self/mountinfo', 'utf8');
  } catch {
    // Not on Linux, or without /proc.
    return false;
  }
  // The fifth field of each line is the mount point, with a space as \040.
  const octal = (character: string) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`;
  const place = realpathSync(path).replace(/[ \t\n\\]/g, octal);
  return mounts.split('\n').some((line) => line.split(' ')[4] === place);
}

/** One folder after another: where mkdir fails with ENOENT, as in /proc, Node's own recursive mkdir never ends. */
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
  // These may pass by themselves: the setting is not wrong.
  if (code === undefined || /^(ENOSPC|EDQUOT|EIO|EMFILE|ENFILE|ENOMEM)$/.test(code)) return error;
  const why = code === 'EROFS' ? 'is on a read-only file system' : `cannot be made or written (${code})`;
  return new UsageError(`DATABASE_URL: ${path} ${why}`, REMEDY);
}

export const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

import { readMigrationFiles } from 'drizzle-orm/migrator';
import { UsageError } from '../platform/errors.ts';
import { packagePath } from '../platform/package.ts';

/** A row of the table `__drizzle_migrations`: a step of the schema, by the hash of its text and its number in the order of steps. */
export interface TakenStep {
  hash: string;
  created_at: number;
}

export interface Steps {
  /** How many steps the database has taken. */
  taken: number;
  /** Statements that bring it up to this version, in one transaction. */
  missing: string[];
}

const NOTES =
  'CREATE TABLE IF NOT EXISTS __drizzle_migrations (id serial PRIMARY KEY, hash text NOT NULL, created_at bigint)';

/**
 * Throws UsageError for a database that this version must not touch. `hasMirror`: the database has our tables; without them the notes are
 * another program's, because drizzle uses one table name for all. Released steps never change, so a step with an unknown hash is from
 * a build before the first release.
 */
export function stepsOf(
  engine: 'sqlite' | 'postgres',
  notes: readonly TakenStep[],
  hasMirror: boolean,
  /** The engine's words for the error messages. */
  words: Record<'anothers' | 'backup' | 'useOwn' | 'useNew', string>,
): Steps {
  if (notes.length > 0 && !hasMirror) {
    throw new UsageError(`${words.anothers}: it has migrations, but no mirror`, words.useOwn);
  }
  const known = readMigrationFiles({ migrationsFolder: packagePath(`drizzle/${engine}`) });
  const last = notes.at(-1)?.created_at ?? 0;
  if (last > (known.at(-1)?.folderMillis ?? 0)) {
    throw new UsageError(
      'the database was written by a newer version of compliance-mirror',
      `start that version, or restore the ${words.backup} made before it migrated`,
    );
  }
  const ours = new Set(known.map(({ hash }) => hash));
  if (notes.some(({ hash }) => !ours.has(hash))) {
    throw new UsageError(
      'the tables are from an older build of compliance-mirror, before its first release, and were not changed',
      `${words.useNew}: the mirror reads everything from the API again, and the old one keeps its history`,
    );
  }
  const missing = known
    .filter(({ folderMillis }) => folderMillis > last)
    .flatMap(({ sql, hash, folderMillis }) => [
      ...sql,
      `INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('${hash}', ${folderMillis})`,
    ]);
  return { taken: notes.length, missing: missing.length === 0 ? [] : [NOTES, ...missing] };
}

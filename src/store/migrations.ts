import { type MigrationMeta, readMigrationFiles } from 'drizzle-orm/migrator';
import { UsageError } from '../platform/errors.ts';
import { packagePath } from '../platform/package.ts';

/** A step of the schema, as the table `__drizzle_migrations` notes it. */
export interface TakenStep {
  /** Of the step's text. */
  hash: string;
  /** Its number in the order of steps. */
  created_at: number;
}

export interface Steps {
  /** How many the database has taken. */
  taken: number;
  /** Those that bring it up to this version, in their order. */
  missing: MigrationMeta[];
}

/** The engine's own texts for a database that this version must not touch. */
export interface Refusals {
  anotherPrograms: { says: string; remedy: string };
  newer: { remedy: string };
  unreleased: { remedy: string };
}

/**
 * Throws UsageError for a database that this version must not touch. `hasMirror`: our tables are there; drizzle keeps the notes of
 * every program under one name. Steps that were released never change: an unknown text is of a build before the first release.
 */
export function stepsOf(
  engine: 'sqlite' | 'postgres',
  notes: readonly TakenStep[],
  hasMirror: boolean,
  refusals: Refusals,
): Steps {
  if (notes.length > 0 && !hasMirror) {
    throw new UsageError(refusals.anotherPrograms.says, refusals.anotherPrograms.remedy);
  }
  const known = readMigrationFiles({ migrationsFolder: packagePath(`drizzle/${engine}`) });
  const last = notes.at(-1)?.created_at ?? 0;
  if (last > (known.at(-1)?.folderMillis ?? 0)) {
    throw new UsageError(
      'the database was written by a newer version of compliance-mirror',
      refusals.newer.remedy,
    );
  }
  const ours = new Set(known.map(({ hash }) => hash));
  if (notes.some(({ hash }) => !ours.has(hash))) {
    throw new UsageError(
      'the tables are of an older build of compliance-mirror, from before its first release, and stay as they are',
      refusals.unreleased.remedy,
    );
  }
  return { taken: notes.length, missing: known.filter(({ folderMillis }) => folderMillis > last) };
}

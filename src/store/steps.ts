/** A step of the schema, as a database notes that it has taken it. */
export interface TakenStep {
  /** Of the step's text. */
  hash: string;
  /** Its number in the order of steps. */
  created_at: number;
}

/**
 * Why this version cannot go on from a database that has taken these steps; null: it can. Steps that were released never
 * change, so that a text unknown to us is of a build before the first release, or of a version after this one.
 */
export function unfit(
  taken: readonly TakenStep[],
  known: readonly { hash: string; folderMillis: number }[],
): 'newer' | 'unreleased' | null {
  if ((taken.at(-1)?.created_at ?? 0) > (known.at(-1)?.folderMillis ?? 0)) return 'newer';
  const ours = new Set(known.map(({ hash }) => hash));
  return taken.every(({ hash }) => ours.has(hash)) ? null : 'unreleased';
}

/** What is said of such a database. */
export const UNFIT: Readonly<Record<'newer' | 'unreleased', string>> = {
  newer: 'the database was written by a newer version of compliance-mirror',
  unreleased:
    'the tables are of an older build of compliance-mirror, from before its first release, and stay as they are',
};

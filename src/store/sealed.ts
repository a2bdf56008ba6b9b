import { drizzleModule } from './drizzle.ts';
import type { SealedText } from './store.ts';

const { sql } = drizzleModule('drizzle-orm');

/** Where something sealed with CREDENTIALS_KEY stands: every such column of the schema, on both engines. */
export const SEALED_TEXTS = sql`SELECT 'registrations' AS "table", upstream_id AS "row", sealed_secret AS sealed
  FROM registrations WHERE sealed_secret IS NOT NULL
  UNION ALL SELECT 'registration_answers', upstream_id, sealed_answer FROM registrations WHERE sealed_answer IS NOT NULL
  UNION ALL SELECT 'tokens', name, sealed FROM tokens ORDER BY 1, 2`;

export function isSameSealed(stored: readonly SealedText[], read: readonly SealedText[]): boolean {
  const isSame = (each: SealedText, index: number) => {
    const other = read[index];
    return other?.table === each.table && other.row === each.row && other.sealed === each.sealed;
  };
  return stored.length === read.length && stored.every(isSame);
}

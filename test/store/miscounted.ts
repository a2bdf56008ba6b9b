/** Kinds whose counts, which triggers keep, differ from their rows. */
export const MISCOUNTED_RECORDS = `SELECT kind FROM record_counts c WHERE
  known <> (SELECT count(*) FROM record_state s WHERE s.kind = c.kind)
  OR outstanding <> (SELECT count(*) FROM record_state s WHERE s.kind = c.kind AND (due_at IS NOT NULL OR proven) AND unverified_since IS NOT NULL)
  OR live + deleted <> CASE kind WHEN 'policy' THEN (SELECT count(*) FROM policies)
    WHEN 'vendor' THEN (SELECT count(*) FROM vendors) ELSE (SELECT count(*) FROM risk_assessments) END
  OR unverified <> CASE kind WHEN 'policy' THEN (SELECT count(*) FROM policies WHERE deleted_at IS NULL AND unverified_since IS NOT NULL)
    WHEN 'vendor' THEN (SELECT count(*) FROM vendors WHERE deleted_at IS NULL AND unverified_since IS NOT NULL)
    ELSE (SELECT count(*) FROM risk_assessments WHERE deleted_at IS NULL AND unverified_since IS NOT NULL) END`;

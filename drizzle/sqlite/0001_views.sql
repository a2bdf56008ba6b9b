INSERT INTO record_counts (kind, live, deleted, known, outstanding, unverified) VALUES ('policy', 0, 0, 0, 0, 0), ('risk_assessment', 0, 0, 0, 0, 0), ('vendor', 0, 0, 0, 0, 0);
--> statement-breakpoint
INSERT INTO facts (name, value) VALUES ('epoch', lower(hex(randomblob(8))));
--> statement-breakpoint
CREATE TRIGGER policies_counted_in AFTER INSERT ON policies BEGIN
  UPDATE record_counts SET live = live + (NEW.deleted_at IS NULL), deleted = deleted + (NEW.deleted_at IS NOT NULL),
    unverified = unverified + (NEW.deleted_at IS NULL AND NEW.unverified_since IS NOT NULL) WHERE kind = 'policy';
END;
--> statement-breakpoint
CREATE TRIGGER policies_counted_over AFTER UPDATE OF deleted_at, unverified_since ON policies
  WHEN (OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL) OR (OLD.unverified_since IS NULL) <> (NEW.unverified_since IS NULL) BEGIN
  UPDATE record_counts SET live = live + (NEW.deleted_at IS NULL) - (OLD.deleted_at IS NULL),
    deleted = deleted + (OLD.deleted_at IS NULL) - (NEW.deleted_at IS NULL),
    unverified = unverified + (NEW.deleted_at IS NULL AND NEW.unverified_since IS NOT NULL)
      - (OLD.deleted_at IS NULL AND OLD.unverified_since IS NOT NULL) WHERE kind = 'policy';
END;
--> statement-breakpoint
CREATE TRIGGER policies_counted_out AFTER DELETE ON policies BEGIN
  UPDATE record_counts SET live = live - (OLD.deleted_at IS NULL), deleted = deleted - (OLD.deleted_at IS NOT NULL),
    unverified = unverified - (OLD.deleted_at IS NULL AND OLD.unverified_since IS NOT NULL) WHERE kind = 'policy';
END;
--> statement-breakpoint
CREATE TRIGGER risk_assessments_counted_in AFTER INSERT ON risk_assessments BEGIN
  UPDATE record_counts SET live = live + (NEW.deleted_at IS NULL), deleted = deleted + (NEW.deleted_at IS NOT NULL),
    unverified = unverified + (NEW.deleted_at IS NULL AND NEW.unverified_since IS NOT NULL) WHERE kind = 'risk_assessment';
END;
--> statement-breakpoint
CREATE TRIGGER risk_assessments_counted_over AFTER UPDATE OF deleted_at, unverified_since ON risk_assessments
  WHEN (OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL) OR (OLD.unverified_since IS NULL) <> (NEW.unverified_since IS NULL) BEGIN
  UPDATE record_counts SET live = live + (NEW.deleted_at IS NULL) - (OLD.deleted_at IS NULL),
    deleted = deleted + (OLD.deleted_at IS NULL) - (NEW.deleted_at IS NULL),
    unverified = unverified + (NEW.deleted_at IS NULL AND NEW.unverified_since IS NOT NULL)
      - (OLD.deleted_at IS NULL AND OLD.unverified_since IS NOT NULL) WHERE kind = 'risk_assessment';
END;
--> statement-breakpoint
CREATE TRIGGER risk_assessments_counted_out AFTER DELETE ON risk_assessments BEGIN
  UPDATE record_counts SET live = live - (OLD.deleted_at IS NULL), deleted = deleted - (OLD.deleted_at IS NOT NULL),
    unverified = unverified - (OLD.deleted_at IS NULL AND OLD.unverified_since IS NOT NULL) WHERE kind = 'risk_assessment';
END;
--> statement-breakpoint
CREATE TRIGGER vendors_counted_in AFTER INSERT ON vendors BEGIN
  UPDATE record_counts SET live = live + (NEW.deleted_at IS NULL), deleted = deleted + (NEW.deleted_at IS NOT NULL),
    unverified = unverified + (NEW.deleted_at IS NULL AND NEW.unverified_since IS NOT NULL) WHERE kind = 'vendor';
END;
--> statement-breakpoint
CREATE TRIGGER vendors_counted_over AFTER UPDATE OF deleted_at, unverified_since ON vendors
  WHEN (OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL) OR (OLD.unverified_since IS NULL) <> (NEW.unverified_since IS NULL) BEGIN
  UPDATE record_counts SET live = live + (NEW.deleted_at IS NULL) - (OLD.deleted_at IS NULL),
    deleted = deleted + (OLD.deleted_at IS NULL) - (NEW.deleted_at IS NULL),
    unverified = unverified + (NEW.deleted_at IS NULL AND NEW.unverified_since IS NOT NULL)
      - (OLD.deleted_at IS NULL AND OLD.unverified_since IS NOT NULL) WHERE kind = 'vendor';
END;
--> statement-breakpoint
CREATE TRIGGER vendors_counted_out AFTER DELETE ON vendors BEGIN
  UPDATE record_counts SET live = live - (OLD.deleted_at IS NULL), deleted = deleted - (OLD.deleted_at IS NOT NULL),
    unverified = unverified - (OLD.deleted_at IS NULL AND OLD.unverified_since IS NOT NULL) WHERE kind = 'vendor';
END;
--> statement-breakpoint
-- Outstanding: to be read, or read as gone and not judged yet, which a full sync does with all of them at its end.
CREATE TRIGGER record_state_counted_in AFTER INSERT ON record_state BEGIN
  UPDATE record_counts SET known = known + 1, outstanding = outstanding + ((NEW.due_at IS NOT NULL OR NEW.proven) AND NEW.unverified_since IS NOT NULL)
    WHERE kind = NEW.kind;
END;
--> statement-breakpoint
CREATE TRIGGER record_state_counted_over AFTER UPDATE OF due_at, unverified_since, proven ON record_state
  WHEN ((OLD.due_at IS NOT NULL OR OLD.proven) AND OLD.unverified_since IS NOT NULL) <> ((NEW.due_at IS NOT NULL OR NEW.proven) AND NEW.unverified_since IS NOT NULL) BEGIN
  UPDATE record_counts SET outstanding = outstanding + CASE WHEN (NEW.due_at IS NOT NULL OR NEW.proven) AND NEW.unverified_since IS NOT NULL THEN 1 ELSE -1 END
    WHERE kind = NEW.kind;
END;
--> statement-breakpoint
CREATE TRIGGER record_state_counted_out AFTER DELETE ON record_state BEGIN
  UPDATE record_counts SET known = known - 1, outstanding = outstanding - ((OLD.due_at IS NOT NULL OR OLD.proven) AND OLD.unverified_since IS NOT NULL)
    WHERE kind = OLD.kind;
END;
--> statement-breakpoint
CREATE TRIGGER gaps_counted_in AFTER INSERT ON gaps BEGIN
  INSERT INTO gap_counts (reason, kind, open, opened) VALUES (NEW.reason, coalesce(NEW.kind, ''), NEW.resolved_at IS NULL, 1)
    ON CONFLICT (reason, kind) DO UPDATE SET open = open + excluded.open, opened = opened + 1;
END;
--> statement-breakpoint
CREATE TRIGGER gaps_counted_over AFTER UPDATE OF resolved_at ON gaps WHEN (OLD.resolved_at IS NULL) <> (NEW.resolved_at IS NULL) BEGIN
  UPDATE gap_counts SET open = open + (NEW.resolved_at IS NULL) - (OLD.resolved_at IS NULL)
    WHERE reason = NEW.reason AND kind = coalesce(NEW.kind, '');
END;
--> statement-breakpoint
CREATE TRIGGER gaps_counted_out AFTER DELETE ON gaps WHEN OLD.resolved_at IS NULL BEGIN
  UPDATE gap_counts SET open = open - 1 WHERE reason = OLD.reason AND kind = coalesce(OLD.kind, '');
END;
--> statement-breakpoint
INSERT INTO quarantine_count (one, waiting) VALUES (1, 0);
--> statement-breakpoint
CREATE TRIGGER quarantine_counted_in AFTER INSERT ON quarantine WHEN NEW.released_at IS NULL BEGIN
  UPDATE quarantine_count SET waiting = waiting + 1;
END;
--> statement-breakpoint
CREATE TRIGGER quarantine_counted_over AFTER UPDATE OF released_at ON quarantine WHEN (OLD.released_at IS NULL) <> (NEW.released_at IS NULL) BEGIN
  UPDATE quarantine_count SET waiting = waiting + (NEW.released_at IS NULL) - (OLD.released_at IS NULL);
END;
--> statement-breakpoint
CREATE TRIGGER quarantine_counted_out AFTER DELETE ON quarantine WHEN OLD.released_at IS NULL BEGIN
  UPDATE quarantine_count SET waiting = waiting - 1;
END;
--> statement-breakpoint
CREATE VIEW current_policies AS SELECT * FROM policies WHERE deleted_at IS NULL;
--> statement-breakpoint
CREATE VIEW current_risk_assessments AS SELECT * FROM risk_assessments WHERE deleted_at IS NULL;
--> statement-breakpoint
CREATE VIEW current_vendors AS SELECT * FROM vendors WHERE deleted_at IS NULL;
--> statement-breakpoint
-- Made anew with each field that is learned: sqlite/database.ts.
CREATE VIEW policies_flat AS SELECT id, name, version, status, data, first_seen_at, synced_at, verified_at, unverified_since, last_event_id, last_event_at, cause
FROM policies WHERE deleted_at IS NULL;
--> statement-breakpoint
CREATE VIEW risk_assessments_flat AS SELECT id, name, status, data, first_seen_at, synced_at, verified_at, unverified_since, last_event_id, last_event_at, cause
FROM risk_assessments WHERE deleted_at IS NULL;
--> statement-breakpoint
CREATE VIEW vendors_flat AS SELECT id, name, status, data, first_seen_at, synced_at, verified_at, unverified_since, last_event_id, last_event_at, cause
FROM vendors WHERE deleted_at IS NULL;
--> statement-breakpoint
CREATE VIEW deliveries AS
  SELECT received_at, 'accepted' AS outcome, id AS event_id, type, kind, record_id, state, error AS reason, address, deliveries, seq AS number FROM events
  UNION ALL
  SELECT received_at, 'duplicate', event_id, type, kind, record_id, NULL, NULL, address, 1, id FROM duplicates
  UNION ALL
  SELECT received_at, 'quarantined', event_id, type, kind, record_id, NULL, reason, address, 1, id FROM quarantine
  UNION ALL
  SELECT at, 'rejected', event_id, type, NULL, NULL, NULL, reason, address, times, id FROM rejections
  ORDER BY received_at DESC;
--> statement-breakpoint
CREATE VIEW sync_status AS
WITH kinds AS (
  SELECT 'policy' AS kind,
    (SELECT live FROM record_counts c WHERE c.kind = 'policy') AS records,
    (SELECT deleted FROM record_counts c WHERE c.kind = 'policy') AS deleted,
    (SELECT outstanding FROM record_counts c WHERE c.kind = 'policy') - (SELECT count(*)
      FROM gaps g JOIN record_state s ON s.kind = g.kind AND s.id = g.record_id WHERE g.resolved_at IS NULL AND g.kind = 'policy'
        AND g.reason IN ('unaddressable', 'unresolved')
        AND (g.reason = 'unaddressable' OR (NOT s.returned AND s.searched >= s.dirty
          -- One that has both counts once.
          AND NOT EXISTS (SELECT 1 FROM gaps o WHERE o.resolved_at IS NULL AND o.reason = 'unaddressable' AND o.kind = g.kind
            AND o.record_id = g.record_id AND o.number > s.dirty))) AND g.number > s.dirty
        AND s.due_at IS NOT NULL AND s.unverified_since IS NOT NULL) AS unverified,
    -- Some have no row yet; of those the ones that are due first are looked at.
    (SELECT min(since) FROM (SELECT min(unverified_since) AS since FROM policies WHERE unverified_since IS NOT NULL
      UNION ALL SELECT unverified_since FROM (SELECT * FROM record_state WHERE kind = 'policy' AND due_at IS NOT NULL AND unverified_since IS NOT NULL ORDER BY due_at LIMIT 100) AS s
        WHERE NOT EXISTS (SELECT 1 FROM gaps g WHERE g.resolved_at IS NULL AND g.kind = s.kind AND g.record_id = s.id
          AND (g.reason = 'unaddressable' OR (g.reason = 'unresolved' AND NOT s.returned AND s.searched >= s.dirty)) AND g.number > s.dirty))) AS oldest_unverified_at,
    -- What the API does not know by its id, no full sync has left unread.
    (SELECT unverified_since FROM policies r WHERE unverified_since IS NOT NULL AND (verified_at IS NOT NULL OR NOT EXISTS
      (SELECT 1 FROM gaps g WHERE g.resolved_at IS NULL AND g.kind = 'policy' AND g.record_id = r.id AND g.reason IN ('unaddressable', 'unresolved')))
      ORDER BY unverified_since LIMIT 1) AS unread_since,
    NULL AS reach
  UNION ALL
  SELECT 'risk_assessment' AS kind,
    (SELECT live FROM record_counts c WHERE c.kind = 'risk_assessment') AS records,
    (SELECT deleted FROM record_counts c WHERE c.kind = 'risk_assessment') AS deleted,
    (SELECT outstanding FROM record_counts c WHERE c.kind = 'risk_assessment') - (SELECT count(*)
      -- What an event named by an id that the API does not know may stand in it under another one.
      FROM gaps g JOIN record_state s ON s.kind = g.kind AND s.id = g.record_id WHERE g.resolved_at IS NULL AND g.kind = 'risk_assessment'
        AND g.reason IN ('unaddressable', 'unresolved')
        AND (g.reason = 'unaddressable' OR (NOT s.returned AND s.searched >= s.dirty
          -- One that has both counts once.
          AND NOT EXISTS (SELECT 1 FROM gaps o WHERE o.resolved_at IS NULL AND o.reason = 'unaddressable' AND o.kind = g.kind
            AND o.record_id = g.record_id AND o.number > s.dirty))) AND g.number > s.dirty
        AND s.due_at IS NOT NULL AND s.unverified_since IS NOT NULL) AS unverified,
    (SELECT min(since) FROM (SELECT min(unverified_since) AS since FROM risk_assessments WHERE unverified_since IS NOT NULL
      UNION ALL SELECT unverified_since FROM (SELECT * FROM record_state WHERE kind = 'risk_assessment' AND due_at IS NOT NULL AND unverified_since IS NOT NULL ORDER BY due_at LIMIT 100) AS s
        WHERE NOT EXISTS (SELECT 1 FROM gaps g WHERE g.resolved_at IS NULL AND g.kind = s.kind AND g.record_id = s.id
          AND (g.reason = 'unaddressable' OR (g.reason = 'unresolved' AND NOT s.returned AND s.searched >= s.dirty)) AND g.number > s.dirty))) AS oldest_unverified_at,
    (SELECT unverified_since FROM risk_assessments r WHERE unverified_since IS NOT NULL AND (verified_at IS NOT NULL OR NOT EXISTS
      (SELECT 1 FROM gaps g WHERE g.resolved_at IS NULL AND g.kind = 'risk_assessment' AND g.record_id = r.id AND g.reason IN ('unaddressable', 'unresolved')))
      ORDER BY unverified_since LIMIT 1) AS unread_since,
    (SELECT 'known ids only: ' || known FROM record_counts c WHERE c.kind = 'risk_assessment') AS reach
  UNION ALL
  SELECT 'vendor' AS kind,
    (SELECT live FROM record_counts c WHERE c.kind = 'vendor') AS records,
    (SELECT deleted FROM record_counts c WHERE c.kind = 'vendor') AS deleted,
    (SELECT outstanding FROM record_counts c WHERE c.kind = 'vendor') - (SELECT count(*)
      FROM gaps g JOIN record_state s ON s.kind = g.kind AND s.id = g.record_id WHERE g.resolved_at IS NULL AND g.kind = 'vendor'
        AND g.reason IN ('unaddressable', 'unresolved')
        AND (g.reason = 'unaddressable' OR (NOT s.returned AND s.searched >= s.dirty
          -- One that has both counts once.
          AND NOT EXISTS (SELECT 1 FROM gaps o WHERE o.resolved_at IS NULL AND o.reason = 'unaddressable' AND o.kind = g.kind
            AND o.record_id = g.record_id AND o.number > s.dirty))) AND g.number > s.dirty
        AND s.due_at IS NOT NULL AND s.unverified_since IS NOT NULL) AS unverified,
    (SELECT min(since) FROM (SELECT min(unverified_since) AS since FROM vendors WHERE unverified_since IS NOT NULL
      UNION ALL SELECT unverified_since FROM (SELECT * FROM record_state WHERE kind = 'vendor' AND due_at IS NOT NULL AND unverified_since IS NOT NULL ORDER BY due_at LIMIT 100) AS s
        WHERE NOT EXISTS (SELECT 1 FROM gaps g WHERE g.resolved_at IS NULL AND g.kind = s.kind AND g.record_id = s.id
          AND (g.reason = 'unaddressable' OR (g.reason = 'unresolved' AND NOT s.returned AND s.searched >= s.dirty)) AND g.number > s.dirty))) AS oldest_unverified_at,
    (SELECT unverified_since FROM vendors r WHERE unverified_since IS NOT NULL AND (verified_at IS NOT NULL OR NOT EXISTS
      (SELECT 1 FROM gaps g WHERE g.resolved_at IS NULL AND g.kind = 'vendor' AND g.record_id = r.id AND g.reason IN ('unaddressable', 'unresolved')))
      ORDER BY unverified_since LIMIT 1) AS unread_since,
    NULL AS reach
), service AS (
  SELECT
    (SELECT value FROM facts WHERE name = 'heartbeat') AS heartbeat,
    coalesce((SELECT value FROM facts WHERE name = 'events_only'), '1') = '1' AS events_only,
    coalesce((SELECT value FROM facts WHERE name = 'paused_since'), '') <> '' AS paused,
    coalesce((SELECT value FROM facts WHERE name = 'unreachable'), '0') = '1' AS unreachable,
    (SELECT value FROM facts WHERE name = 'access') AS access,
    CAST(coalesce((SELECT value FROM facts WHERE name = 'last_run_before_access'), '0') AS INTEGER) AS last_run_before_access,
    CAST(coalesce((SELECT value FROM facts WHERE name = 'settle_ms'), '0') AS REAL) AS settle_ms,
    CAST(coalesce((SELECT value FROM facts WHERE name = 'full_sync_ms'), '0') AS REAL) AS full_sync_ms
), told AS (
  SELECT k.*, service.*,
    (SELECT known FROM record_counts c WHERE c.kind = k.kind) AS known,
    (SELECT in_sync_since FROM kind_state WHERE kind_state.kind = k.kind) AS since,
    -- Nothing read with the present credentials is nothing known: with no record there is nothing that could be wrong either.
    (SELECT read_at FROM kind_state s WHERE s.kind = k.kind AND (s.read_with = service.access
      OR (s.probed_with = service.access AND (SELECT live + outstanding FROM record_counts c WHERE c.kind = k.kind) = 0
        AND EXISTS (SELECT 1 FROM kind_state o WHERE o.read_with = service.access)))) AS readable_since,
    (SELECT id FROM sync_runs WHERE sync_runs.kind = k.kind AND outcome = 'complete' ORDER BY number DESC, id DESC LIMIT 1) AS last_full_sync,
    (SELECT finished_at FROM sync_runs WHERE sync_runs.kind = k.kind AND outcome = 'complete' ORDER BY number DESC, id DESC LIMIT 1) AS last_full_sync_at,
    (SELECT round((julianday(finished_at) - julianday(started_at)) * 86400, 1) FROM sync_runs
      WHERE sync_runs.kind = k.kind AND outcome = 'complete' ORDER BY number DESC, id DESC LIMIT 1) AS last_full_sync_seconds,
    (SELECT seen FROM sync_runs WHERE sync_runs.kind = k.kind AND outcome = 'complete' ORDER BY number DESC, id DESC LIMIT 1) AS listed,
    strftime('%Y-%m-%dT%H:%M:%fZ', CASE WHEN k.unread_since IS NULL
      THEN (SELECT CASE WHEN id > last_run_before_access THEN started_at END FROM sync_runs
        WHERE sync_runs.kind = k.kind AND outcome = 'complete' ORDER BY number DESC, id DESC LIMIT 1)
      -- Of what became unverified before its end and still is, the full sync may have read another version than is held.
      ELSE (SELECT started_at FROM sync_runs WHERE sync_runs.kind = k.kind AND outcome = 'complete' AND id > last_run_before_access AND finished_at < k.unread_since
        ORDER BY finished_at DESC LIMIT 1) END, '-' || (settle_ms / 1000.0) || ' seconds') AS complete_through,
    (SELECT coalesce(sum(open), 0) FROM gap_counts g WHERE g.kind IN (k.kind, '')) AS open_gaps,
    (SELECT coalesce(sum(open), 0) FROM gap_counts g WHERE g.kind IN (k.kind, '')
      AND (reason IN ('credentials_rejected', 'deletions_unproven', 'unreadable_answer', 'unproven_id', 'trimmed_event') OR (reason IN ('no_record_id', 'restored') AND g.kind = 'risk_assessment')
        -- Once all are approved, nobody has to act: the next proof deletes them.
        OR (reason = 'deletion_pending' AND coalesce((SELECT min(coalesce(approved_until, '')) FROM pending_deletions p WHERE p.kind = k.kind), '')
          <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')))) AS blocking_gaps,
    (SELECT coalesce(sum(open), 0) FROM gap_counts g WHERE g.kind IN (k.kind, '')
      AND reason NOT IN ('unresolved', 'unaddressable', 'failed_event', 'silence')) AS pressing_gaps,
    -- Of a long backlog only its head is looked at: it then counts as every kind's.
    ((SELECT count FROM event_counts WHERE state = 'pending') > 1000 OR EXISTS (SELECT 1 FROM
      (SELECT events.kind AS about FROM events WHERE state = 'pending' ORDER BY seq LIMIT 1000) WHERE about = k.kind OR about IS NULL)) AS backlog
  FROM kinds k, service
), judged AS (
  SELECT *, CASE
    WHEN events_only THEN 'unverified'
    WHEN paused OR blocking_gaps > 0 THEN 'action_required'
    WHEN heartbeat IS NULL OR abs(julianday('now') - julianday(heartbeat)) > 60.0 / 86400 THEN 'stale'
    WHEN unreachable THEN 'unreachable'
    -- One that was never whole is overdue since the first that failed: a first one may take long.
    WHEN full_sync_ms > 0 AND (julianday('now') - julianday(coalesce(last_full_sync_at, (SELECT s.started_at FROM sync_runs s WHERE s.kind = told.kind
      AND s.outcome IN ('failed', 'incomplete') ORDER BY s.id LIMIT 1)))) * 86400000 > 2 * full_sync_ms + 600000 THEN 'stale'
    -- What other credentials or another address have shown says nothing about what these show.
    WHEN readable_since IS NULL OR last_full_sync IS NULL OR last_full_sync <= last_run_before_access OR unverified > 0 OR backlog OR pressing_gaps > 0 THEN 'catching_up'
    ELSE 'in_sync' END AS verdict
  FROM told
)
-- What the next heartbeat is to note holds since now, as far as can be shown.
SELECT kind, verdict, CASE WHEN verdict = 'in_sync' THEN coalesce(since, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) END AS in_sync_since, records, deleted, known, unverified,
  oldest_unverified_at, last_full_sync_at, last_full_sync_seconds, complete_through, readable_since, open_gaps,
  CASE WHEN events_only THEN 'payloads of events only' WHEN readable_since IS NULL THEN 'not read with the present credentials yet'
    WHEN last_full_sync <= last_run_before_access THEN 'not read in full with the present credentials yet'
    WHEN reach IS NOT NULL THEN reach
    WHEN listed IS NULL THEN 'what the API lists, not read in full yet'
    ELSE listed || ' listed by the API at the last full sync' END AS coverage
FROM judged;

CREATE TABLE "policies" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"name" text,
	"version" text,
	"status" text,
	"data" jsonb NOT NULL,
	"first_seen_at" timestamp with time zone NOT NULL,
	"synced_at" timestamp with time zone NOT NULL,
	"verified_at" timestamp with time zone,
	"unverified_since" timestamp with time zone,
	"deleted_at" timestamp with time zone,
	"deletion_pending_since" timestamp with time zone,
	"last_event_id" text,
	"last_event_at" timestamp with time zone,
	"cause" text NOT NULL,
	"cause_id" text,
	"change_seq" bigint DEFAULT 0 NOT NULL,
	"provisional_created" bigint,
	"shown" jsonb
);
--> statement-breakpoint
CREATE TABLE "risk_assessments" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"name" text,
	"status" text,
	"data" jsonb NOT NULL,
	"first_seen_at" timestamp with time zone NOT NULL,
	"synced_at" timestamp with time zone NOT NULL,
	"verified_at" timestamp with time zone,
	"unverified_since" timestamp with time zone,
	"deleted_at" timestamp with time zone,
	"deletion_pending_since" timestamp with time zone,
	"last_event_id" text,
	"last_event_at" timestamp with time zone,
	"cause" text NOT NULL,
	"cause_id" text,
	"change_seq" bigint DEFAULT 0 NOT NULL,
	"provisional_created" bigint,
	"shown" jsonb
);
--> statement-breakpoint
CREATE TABLE "vendors" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"name" text,
	"status" text,
	"data" jsonb NOT NULL,
	"first_seen_at" timestamp with time zone NOT NULL,
	"synced_at" timestamp with time zone NOT NULL,
	"verified_at" timestamp with time zone,
	"unverified_since" timestamp with time zone,
	"deleted_at" timestamp with time zone,
	"deletion_pending_since" timestamp with time zone,
	"last_event_id" text,
	"last_event_at" timestamp with time zone,
	"cause" text NOT NULL,
	"cause_id" text,
	"change_seq" bigint DEFAULT 0 NOT NULL,
	"provisional_created" bigint,
	"shown" jsonb
);
--> statement-breakpoint
CREATE TABLE "record_state" (
	"kind" text COLLATE "C" NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"dirty" bigint DEFAULT 0 NOT NULL,
	"dirty_at" bigint,
	"first_dirty_at" bigint,
	"unverified_since" timestamp with time zone,
	"provisional_created" bigint,
	"read_number" bigint DEFAULT 0 NOT NULL,
	"read_ended_at" bigint,
	"address_read_at" bigint,
	"returned" boolean DEFAULT false NOT NULL,
	"missing_since" bigint,
	"missing_number" bigint,
	"proven" boolean DEFAULT false NOT NULL,
	"delete_event" bigint,
	"confirmed" bigint DEFAULT 0 NOT NULL,
	"moved_at" bigint,
	"early_at" bigint,
	"refusals" integer DEFAULT 0 NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"error" text,
	"due_at" bigint,
	"sync_run_id" bigint,
	CONSTRAINT "record_state_kind_id_pk" PRIMARY KEY("kind","id")
);
--> statement-breakpoint
CREATE TABLE "changes" (
	"seq" bigint PRIMARY KEY NOT NULL,
	"kind" text COLLATE "C" NOT NULL,
	"record_id" text COLLATE "C" NOT NULL,
	"operation" text NOT NULL,
	"before" jsonb NOT NULL,
	"after" jsonb NOT NULL,
	"name" text,
	"version" text,
	"status" text,
	"data" jsonb NOT NULL,
	"cause" text NOT NULL,
	"cause_id" text,
	"at" timestamp with time zone NOT NULL,
	"valid_to" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "events" (
	"seq" bigint PRIMARY KEY NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"type" text NOT NULL,
	"created" timestamp with time zone NOT NULL,
	"created_ms" bigint NOT NULL,
	"kind" text COLLATE "C",
	"record_id" text COLLATE "C",
	"received_at" timestamp with time zone NOT NULL,
	"deliveries" integer DEFAULT 1 NOT NULL,
	"last_delivered_at" timestamp with time zone NOT NULL,
	"state" text NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"next_attempt_at" timestamp with time zone,
	"processed_at" timestamp with time zone,
	"error" text,
	"content_hash" text,
	"address" text,
	"body" text
);
--> statement-breakpoint
CREATE TABLE "trimmed_events" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"content_hash" text NOT NULL,
	"received_at" timestamp with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "problems" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "problems_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"kind" text COLLATE "C",
	"record_id" text COLLATE "C",
	"reason" text COLLATE "C" NOT NULL,
	"verdict" text COLLATE "C" NOT NULL,
	"needs" text COLLATE "C" NOT NULL,
	"opened_at" timestamp with time zone NOT NULL,
	"resolved_at" timestamp with time zone,
	"times" integer DEFAULT 1 NOT NULL,
	"error" text,
	"digest" text NOT NULL,
	"acceptable" boolean NOT NULL,
	"accepted_at" timestamp with time zone,
	"number" bigint NOT NULL,
	"coverable_at" bigint
);
--> statement-breakpoint
CREATE TABLE "sync_runs" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "sync_runs_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"kind" text COLLATE "C" NOT NULL,
	"reason" text COLLATE "C" NOT NULL,
	"started_at" timestamp with time zone NOT NULL,
	"finished_at" timestamp with time zone,
	"pages" integer DEFAULT 0 NOT NULL,
	"seen" integer DEFAULT 0 NOT NULL,
	"inserted" integer DEFAULT 0 NOT NULL,
	"updated" integer DEFAULT 0 NOT NULL,
	"deleted" integer DEFAULT 0 NOT NULL,
	"unchanged" integer DEFAULT 0 NOT NULL,
	"outcome" text,
	"error" text,
	"differences" jsonb,
	"listed" boolean DEFAULT false NOT NULL,
	"number" bigint NOT NULL,
	"began_at" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "pending_deletions" (
	"kind" text COLLATE "C" NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"pending_since" timestamp with time zone NOT NULL,
	"approved_until" timestamp with time zone,
	"kept_number" bigint,
	CONSTRAINT "pending_deletions_kind_id_pk" PRIMARY KEY("kind","id")
);
--> statement-breakpoint
CREATE TABLE "rejections" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "rejections_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"received_at" timestamp with time zone NOT NULL,
	"outcome" text COLLATE "C" NOT NULL,
	"reason" text COLLATE "C" NOT NULL,
	"event_id" text,
	"type" text,
	"t" text,
	"times" integer DEFAULT 1 NOT NULL,
	"address" text,
	"header" text,
	"body" "bytea",
	"dismissed_at" timestamp with time zone,
	"kind" text COLLATE "C",
	"record_id" text COLLATE "C",
	"bytes" bigint NOT NULL,
	"body_sha256" text,
	"network" text COLLATE "C" DEFAULT '' NOT NULL
);
--> statement-breakpoint
CREATE TABLE "audit" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "audit_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"at" timestamp with time zone NOT NULL,
	"actor" text NOT NULL,
	"action" text NOT NULL,
	"outcome" text NOT NULL,
	"target" text
);
--> statement-breakpoint
CREATE TABLE "registrations" (
	"upstream_id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"url" text NOT NULL,
	"events" jsonb NOT NULL,
	"description" text NOT NULL,
	"delivers" jsonb NOT NULL,
	"sealed_secret" text,
	"sealed_answer" text,
	"created_at" timestamp with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tokens" (
	"name" text PRIMARY KEY NOT NULL,
	"sealed" text NOT NULL,
	"version" integer NOT NULL,
	"refusal" text,
	"saved_at" timestamp with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "counter" (
	"value" bigint PRIMARY KEY NOT NULL
);
--> statement-breakpoint
CREATE TABLE "learned_pointers" (
	"kind" text COLLATE "C" NOT NULL,
	"path" text COLLATE "C" NOT NULL,
	"event_id" text COLLATE "C" NOT NULL,
	"record_id" text COLLATE "C" NOT NULL,
	"learned_at" timestamp with time zone NOT NULL,
	"leads" boolean NOT NULL,
	CONSTRAINT "learned_pointers_kind_path_pk" PRIMARY KEY("kind","path")
);
--> statement-breakpoint
CREATE TABLE "fields" (
	"kind" text COLLATE "C" NOT NULL,
	"position" integer NOT NULL,
	"column" text,
	"path" text NOT NULL,
	"keys" jsonb NOT NULL,
	"type" text NOT NULL,
	"first_seen_at" timestamp with time zone NOT NULL,
	CONSTRAINT "fields_kind_position_pk" PRIMARY KEY("kind","position")
);
--> statement-breakpoint
CREATE TABLE "sync_history" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "sync_history_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"kind" text COLLATE "C" NOT NULL,
	"verdict" text COLLATE "C" NOT NULL,
	"complete" boolean NOT NULL,
	"since" timestamp with time zone NOT NULL,
	"until" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "facts" (
	"name" text PRIMARY KEY NOT NULL,
	"value" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "kind_state" (
	"kind" text COLLATE "C" PRIMARY KEY NOT NULL,
	"verdict" text COLLATE "C",
	"complete" boolean,
	"since" timestamp with time zone,
	"read_with" text,
	"probed_with" text,
	"read_at" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "leases" (
	"name" text PRIMARY KEY NOT NULL,
	"owner" text NOT NULL,
	"fence" bigint NOT NULL,
	"lease_until" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "sync_requests" (
	"kind" text COLLATE "C" NOT NULL,
	"reason" text COLLATE "C" NOT NULL,
	"requested_at" timestamp with time zone NOT NULL,
	CONSTRAINT "sync_requests_kind_reason_pk" PRIMARY KEY("kind","reason")
);
--> statement-breakpoint
CREATE TABLE "operator_sessions" (
	"hash" text PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"sealed" text NOT NULL,
	"opened_at" bigint NOT NULL,
	"used_at" bigint NOT NULL
);
--> statement-breakpoint
CREATE INDEX "policies_deletion_pending" ON "policies" USING btree ("id") WHERE deletion_pending_since IS NOT NULL;--> statement-breakpoint
CREATE INDEX "policies_unverified" ON "policies" USING btree ("unverified_since","deleted_at") WHERE unverified_since IS NOT NULL;--> statement-breakpoint
CREATE INDEX "policies_deleted" ON "policies" USING btree ("id") WHERE deleted_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX "policies_deleted_at" ON "policies" USING btree ("deleted_at") WHERE deleted_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX "risk_assessments_deletion_pending" ON "risk_assessments" USING btree ("id") WHERE deletion_pending_since IS NOT NULL;--> statement-breakpoint
CREATE INDEX "risk_assessments_unverified" ON "risk_assessments" USING btree ("unverified_since","deleted_at") WHERE unverified_since IS NOT NULL;--> statement-breakpoint
CREATE INDEX "risk_assessments_deleted" ON "risk_assessments" USING btree ("id") WHERE deleted_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX "risk_assessments_deleted_at" ON "risk_assessments" USING btree ("deleted_at") WHERE deleted_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX "vendors_deletion_pending" ON "vendors" USING btree ("id") WHERE deletion_pending_since IS NOT NULL;--> statement-breakpoint
CREATE INDEX "vendors_unverified" ON "vendors" USING btree ("unverified_since","deleted_at") WHERE unverified_since IS NOT NULL;--> statement-breakpoint
CREATE INDEX "vendors_deleted" ON "vendors" USING btree ("id") WHERE deleted_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX "vendors_deleted_at" ON "vendors" USING btree ("deleted_at") WHERE deleted_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX "record_state_due" ON "record_state" USING btree ("kind","due_at","unverified_since","id") WHERE due_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX "record_state_missing" ON "record_state" USING btree ("kind","missing_since") WHERE missing_since IS NOT NULL;--> statement-breakpoint
CREATE INDEX "changes_at" ON "changes" USING btree ("at");--> statement-breakpoint
CREATE UNIQUE INDEX "events_id" ON "events" USING btree ("id");--> statement-breakpoint
CREATE INDEX "events_pending" ON "events" USING btree ("seq","next_attempt_at") WHERE state = 'pending';--> statement-breakpoint
CREATE INDEX "events_failed" ON "events" USING btree ("seq") WHERE state = 'failed';--> statement-breakpoint
CREATE INDEX "events_record" ON "events" USING btree ("record_id","seq");--> statement-breakpoint
CREATE INDEX "trimmed_events_received" ON "trimmed_events" USING btree ("received_at");--> statement-breakpoint
CREATE INDEX "problems_open" ON "problems" USING btree ("reason","kind","record_id") WHERE resolved_at IS NULL;--> statement-breakpoint
CREATE INDEX "problems_record" ON "problems" USING btree ("kind","record_id");--> statement-breakpoint
CREATE INDEX "problems_open_newest" ON "problems" USING btree ("id") WHERE resolved_at IS NULL;--> statement-breakpoint
CREATE INDEX "problems_open_worst" ON "problems" USING btree ("kind","verdict") WHERE resolved_at IS NULL;--> statement-breakpoint
CREATE INDEX "problems_accepted" ON "problems" USING btree ("kind","reason","record_id") WHERE accepted_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX "problems_resolved" ON "problems" USING btree ("resolved_at") WHERE resolved_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX "sync_runs_kind" ON "sync_runs" USING btree ("kind","id");--> statement-breakpoint
CREATE INDEX "sync_runs_running" ON "sync_runs" USING btree ("kind") WHERE finished_at IS NULL;--> statement-breakpoint
CREATE INDEX "sync_runs_whole" ON "sync_runs" USING btree ("kind","number","id") WHERE outcome IN ('complete', 'accepted');--> statement-breakpoint
CREATE INDEX "sync_runs_completed" ON "sync_runs" USING btree ("kind","finished_at") WHERE outcome = 'complete';--> statement-breakpoint
CREATE INDEX "rejections_by_sender" ON "rejections" USING btree ("reason","network") WHERE outcome = 'rejected';--> statement-breakpoint
CREATE INDEX "rejections_outcome" ON "rejections" USING btree ("outcome","id");--> statement-breakpoint
CREATE INDEX "rejections_record" ON "rejections" USING btree ("record_id","id") WHERE record_id IS NOT NULL;--> statement-breakpoint
CREATE INDEX "rejections_waiting" ON "rejections" USING btree ("id") WHERE outcome = 'quarantined' AND dismissed_at IS NULL;--> statement-breakpoint
CREATE INDEX "rejections_with_body" ON "rejections" USING btree ("id") WHERE outcome = 'quarantined' AND body IS NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX "sync_history_open" ON "sync_history" USING btree ("kind") WHERE until IS NULL;--> statement-breakpoint
CREATE INDEX "sync_history_kind" ON "sync_history" USING btree ("kind","since");--> statement-breakpoint
-- Room on each page, so that a change of a row stays on it and writes no index.
ALTER TABLE policies SET (fillfactor = 70);
--> statement-breakpoint
ALTER TABLE risk_assessments SET (fillfactor = 70);
--> statement-breakpoint
ALTER TABLE vendors SET (fillfactor = 70);
--> statement-breakpoint
-- The same for the end of a version, which comes with the next change of its record.
ALTER TABLE changes SET (fillfactor = 85);
--> statement-breakpoint
INSERT INTO counter (value) VALUES (0);
--> statement-breakpoint
INSERT INTO facts (name, value) VALUES ('epoch', left(md5(random()::text || clock_timestamp()::text), 16));
--> statement-breakpoint
-- Loses its row in a crash of the server, since it is not logged, and is empty on a standby that takes over.
CREATE UNLOGGED TABLE counter_intact (one integer PRIMARY KEY);
--> statement-breakpoint
INSERT INTO counter_intact (one) VALUES (1);
--> statement-breakpoint
CREATE VIEW current_policies AS SELECT * FROM policies WHERE deleted_at IS NULL;
--> statement-breakpoint
CREATE VIEW current_risk_assessments AS SELECT * FROM risk_assessments WHERE deleted_at IS NULL;
--> statement-breakpoint
CREATE VIEW current_vendors AS SELECT * FROM vendors WHERE deleted_at IS NULL;
--> statement-breakpoint
-- Columns for the fields that records have come behind these (store/postgres/flat-views.ts).
CREATE VIEW policies_flat AS SELECT id, name, version, status, data, first_seen_at, synced_at, verified_at, unverified_since, deletion_pending_since, last_event_id, last_event_at, cause, cause_id FROM policies WHERE deleted_at IS NULL;
--> statement-breakpoint
CREATE VIEW risk_assessments_flat AS SELECT id, name, status, data, first_seen_at, synced_at, verified_at, unverified_since, deletion_pending_since, last_event_id, last_event_at, cause, cause_id FROM risk_assessments WHERE deleted_at IS NULL;
--> statement-breakpoint
CREATE VIEW vendors_flat AS SELECT id, name, status, data, first_seen_at, synced_at, verified_at, unverified_since, deletion_pending_since, last_event_id, last_event_at, cause, cause_id FROM vendors WHERE deleted_at IS NULL;
--> statement-breakpoint
-- Without the end of a version: to set an indexed column would write every index. As of a date over a million changes, the table is read as a
-- whole, in 1 s on two busy cores; a window over the changes took 4 s and more.
CREATE INDEX changes_record ON changes (kind, record_id, seq, at);
--> statement-breakpoint
CREATE VIEW policies_history AS SELECT record_id AS id, name, version, status, data, at AS valid_from, valid_to, operation, cause, cause_id, seq
FROM changes WHERE kind = 'policy';
--> statement-breakpoint
CREATE VIEW risk_assessments_history AS SELECT record_id AS id, name, status, data, at AS valid_from, valid_to, operation, cause, cause_id, seq
FROM changes WHERE kind = 'risk_assessment';
--> statement-breakpoint
CREATE VIEW vendors_history AS SELECT record_id AS id, name, status, data, at AS valid_from, valid_to, operation, cause, cause_id, seq
FROM changes WHERE kind = 'vendor';
--> statement-breakpoint
CREATE VIEW deliveries AS
  SELECT received_at, id, 'accepted' AS outcome, id AS event_id, type, kind, record_id, state, error AS reason, address, deliveries FROM events
  UNION ALL
  SELECT received_at, 'rejection:' || id, outcome, event_id, type, kind, record_id, CASE WHEN dismissed_at IS NOT NULL THEN 'dismissed' END, reason,
    address, times FROM rejections
  ORDER BY received_at DESC;
--> statement-breakpoint
CREATE VIEW sync_status AS
WITH kinds (kind) AS (VALUES ('policy'), ('risk_assessment'), ('vendor')),
-- In the order of the code's table: the worst first.
verdicts (place, verdict) AS (VALUES (0, 'action_required'), (1, 'unreachable'), (2, 'stale'), (3, 'unverified'), (4, 'catching_up'), (5, 'known_only'), (6, 'in_sync')),
fact (heartbeat, events_only, access, last_run_before, settle) AS (SELECT
  (SELECT value::timestamptz FROM facts WHERE name = 'heartbeat'), coalesce((SELECT value FROM facts WHERE name = 'events_only'), '1') = '1',
  (SELECT value FROM facts WHERE name = 'access'),
  (SELECT coalesce(max(value::bigint), 0) FROM facts WHERE name IN ('last_run_before_access', 'last_run_before_outage')),
  coalesce((SELECT value FROM facts WHERE name = 'settle_ms'), '0')::float8 * interval '1 millisecond'),
-- To be read, or read as gone and not judged yet. What waits as an unknown record or was accepted is told there, unless an event came since.
outstanding AS (SELECT kind, count(*) AS unverified, min(unverified_since) AS oldest FROM (
    SELECT kind, id, unverified_since FROM record_state WHERE due_at IS NOT NULL AND unverified_since IS NOT NULL
    UNION ALL SELECT kind, id, unverified_since FROM record_state
      WHERE missing_since IS NOT NULL AND proven AND due_at IS NULL AND unverified_since IS NOT NULL) AS waiting
  WHERE (kind, id) NOT IN (SELECT p.kind, p.record_id FROM problems AS p JOIN record_state AS s ON s.kind = p.kind AND s.id = p.record_id
    WHERE p.number > s.dirty AND (p.accepted_at IS NOT NULL OR (p.resolved_at IS NULL AND p.reason = 'unknown_record')))
  GROUP BY kind),
told AS (
  SELECT k.kind, f.*, coalesce(o.unverified, 0) AS unverified, o.oldest, run.id AS run, run.listed, run.finished_at,
    -- With no record nothing could be wrong: an invented id was answered as unknown, while another kind can be read.
    EXISTS (SELECT 1 FROM kind_state s WHERE s.kind = k.kind AND (s.read_with = f.access OR (s.probed_with = f.access AND o.kind IS NULL
      AND NOT EXISTS (SELECT 1 FROM risk_assessments WHERE deleted_at IS NULL AND k.kind = 'risk_assessment')
      AND NOT EXISTS (SELECT 1 FROM vendors WHERE deleted_at IS NULL AND k.kind = 'vendor')
      AND NOT EXISTS (SELECT 1 FROM policies WHERE deleted_at IS NULL AND k.kind = 'policy')
      AND EXISTS (SELECT 1 FROM kind_state AS other WHERE other.read_with = f.access)))) AS is_read,
    -- Of a long backlog only its head is looked at: it then counts as every kind's.
    EXISTS (SELECT 1 FROM events WHERE state = 'pending' ORDER BY seq LIMIT 1 OFFSET 1000) OR EXISTS (SELECT 1 FROM
      (SELECT kind AS about FROM events WHERE state = 'pending' ORDER BY seq LIMIT 1000) AS head WHERE about = k.kind OR about IS NULL) AS backlog
  FROM kinds AS k CROSS JOIN fact AS f LEFT JOIN outstanding AS o ON o.kind = k.kind
    LEFT JOIN sync_runs AS run ON run.id = (SELECT id FROM sync_runs WHERE kind = k.kind AND outcome IN ('complete', 'accepted') ORDER BY number DESC, id DESC LIMIT 1)
), judged AS (
  SELECT t.*, (SELECT verdict FROM verdicts WHERE place = least(
      coalesce((SELECT min(v.place) FROM problems AS p JOIN verdicts AS v ON v.verdict = p.verdict
        WHERE p.resolved_at IS NULL AND (p.kind = t.kind OR p.kind IS NULL)), 6),
      CASE WHEN heartbeat IS NULL OR clock_timestamp() - heartbeat NOT BETWEEN interval '-60 seconds' AND interval '60 seconds' THEN 2 ELSE 6 END,
      CASE WHEN events_only THEN 3 ELSE 6 END,
      -- What other credentials have shown, or there was before an outage, says nothing about what there is.
      CASE WHEN unverified > 0 OR backlog OR NOT is_read OR coalesce(run, 0) <= last_run_before THEN 4 ELSE 6 END,
      CASE WHEN listed THEN 6 ELSE 5 END)) AS verdict,
    (SELECT count(*) FROM problems AS p WHERE p.kind = t.kind AND p.accepted_at IS NOT NULL)
      + (SELECT count(*) FROM pending_deletions AS d WHERE d.kind = t.kind AND d.kept_number IS NOT NULL) AS accepted
  FROM told AS t
)
-- All rows are counted only here, and only if somebody asks for it: a heartbeat asks for the verdict alone.
SELECT j.kind, j.verdict, j.verdict = 'in_sync' AND accepted = 0 AS complete,
  CASE WHEN s.verdict = j.verdict THEN s.since ELSE date_trunc('milliseconds', clock_timestamp()) END AS since,
  CASE j.kind WHEN 'policy' THEN (SELECT count(*) FROM current_policies) WHEN 'vendor' THEN (SELECT count(*) FROM current_vendors)
    ELSE (SELECT count(*) FROM current_risk_assessments) END AS records,
  CASE j.kind WHEN 'policy' THEN (SELECT count(*) FROM policies WHERE deleted_at IS NOT NULL) WHEN 'vendor' THEN (SELECT count(*) FROM vendors WHERE deleted_at IS NOT NULL)
    ELSE (SELECT count(*) FROM risk_assessments WHERE deleted_at IS NOT NULL) END AS deleted,
  unverified AS unverified, oldest AS oldest_unverified_at, finished_at AS last_full_sync_at,
  -- Of what became unverified before its end and still is, a full sync may have read another version than is held.
  (SELECT r.started_at - settle FROM sync_runs AS r WHERE r.kind = j.kind
    AND r.outcome = 'complete' AND r.listed AND r.id > last_run_before AND (oldest IS NULL OR r.finished_at < oldest)
    -- A record whose deletion waits for a person is shown as it was last read: what became of it then, until it was gone, is nowhere.
    AND NOT EXISTS (SELECT 1 FROM pending_deletions AS d WHERE d.kind = j.kind AND d.kept_number IS NULL
      AND coalesce(CASE d.kind WHEN 'policy' THEN (SELECT verified_at FROM policies WHERE id = d.id) WHEN 'vendor' THEN (SELECT verified_at FROM vendors WHERE id = d.id)
        ELSE (SELECT verified_at FROM risk_assessments WHERE id = d.id) END, '-infinity') < r.started_at)
    ORDER BY r.number DESC, r.id DESC LIMIT 1) AS complete_through,
  (SELECT count(*) FROM problems AS p WHERE p.resolved_at IS NULL AND (p.kind = j.kind OR p.kind IS NULL)) AS problems,
  accepted
FROM judged AS j LEFT JOIN kind_state AS s ON s.kind = j.kind;
--> statement-breakpoint
-- For the tools of analysts, which show them beside the columns; the words are those of docs/tables.md.
DO $$
DECLARE
  told record;
BEGIN
  FOR told IN SELECT * FROM (VALUES
    ('TABLE', 'changes', 'who changed what, when and why; rows are only added, in the order of commits'),
    ('TABLE', 'events', 'each accepted event and its state'),
    ('TABLE', 'sync_history', 'what sync_status said, from then to then'),
    ('TABLE', 'fields', 'the columns of the views …_flat, and where in data they are'),
    ('VIEW', 'deliveries', 'all that came in, whatever its outcome'),
    ('VIEW', 'sync_status', 'one row for each kind: how far its rows can be trusted')) AS named(what, relation, meaning)
  LOOP
    EXECUTE format('COMMENT ON %s %I IS %L', told.what, told.relation, told.meaning);
  END LOOP;
  FOR told IN SELECT c.table_name, c.column_name, d.meaning FROM information_schema.columns c JOIN (VALUES
    ('%', 'id', 'as the service has it'), ('%', 'name', 'as the service has it'), ('%', 'version', 'as the service has it'),
    ('%', 'status', 'as the service has it; a status never seen before is stored as it is'),
    ('%', 'data', 'the whole record, JSON'),
    ('%', 'first_seen_at', 'when the row was made'), ('%', 'synced_at', 'when the row was last written'),
    ('%', 'verified_at', 'when the API last confirmed it; null: known from events only'),
    ('%', 'unverified_since', 'null: nothing is outstanding. Otherwise: since when the row may be out of date'),
    ('%', 'deleted_at', 'null: not deleted. Deleted records keep their row'),
    ('%', 'deletion_pending_since', 'since when it is gone from the service, and kept alive here until a person decides'),
    ('%', 'last_event_id', 'the last processed event about it'), ('%', 'last_event_at', 'the last processed event about it'),
    ('%', 'cause', 'what wrote the row: event, sync, refetch or person'), ('%', 'cause_id', 'the id of the event or of the sync run; of a refetch that of the event that made it due, if one did'),
    ('%', 'change_seq', 'the seq of the change in changes that wrote its content'),
    ('%', 'provisional_created', 'internal: the time of the newest event whose payload is shown, milliseconds since 1970'),
    ('%', 'shown', 'internal: the fields from events that no read has confirmed yet'),
    ('sync_status', 'verdict', 'the worst that holds; in_sync or known_only: all that is known is confirmed, and only in_sync says that a list has shown the rest'),
    ('sync_status', 'complete', 'a list has proved that no record is missing'),
    ('sync_status', 'since', 'since when the verdict is what it is; begins again when a full sync finds a difference that no event had announced'),
    ('sync_status', 'unverified', 'records that are still to be read'),
    ('sync_status', 'last_full_sync_at', 'end of the last complete full sync'),
    ('sync_status', 'complete_through', 'everything that the service held at that moment is in the mirror; null: no list has proved it, or none can'),
    ('sync_status', 'problems', 'how many are open for the kind or for all'),
    ('sync_status', 'accepted', 'how many differences from the service a person has accepted')
    ) AS d(relation, column_name, meaning) USING (column_name)
    WHERE c.table_schema = current_schema() AND CASE d.relation WHEN '%' THEN c.table_name ~ '^(current_)?(policies|risk_assessments|vendors)(_flat)?$'
      ELSE c.table_name = d.relation END
  LOOP
    EXECUTE format('COMMENT ON COLUMN %I.%I IS %L', told.table_name, told.column_name, told.meaning);
  END LOOP;
END $$;

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
	"returned" boolean DEFAULT false NOT NULL,
	"missing_since" bigint,
	"missing_number" bigint,
	"proven" boolean DEFAULT false NOT NULL,
	"delete_event" bigint,
	"searched" bigint DEFAULT 0 NOT NULL,
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
	"at" timestamp with time zone NOT NULL
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
	"created_at" timestamp with time zone NOT NULL,
	"expires_at" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "tokens" (
	"name" text PRIMARY KEY NOT NULL,
	"sealed" text NOT NULL,
	"version" integer NOT NULL,
	"refusal" text,
	"lease_owner" text,
	"lease_until" bigint,
	"saved_at" timestamp with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "counter" (
	"value" bigint PRIMARY KEY NOT NULL
);
--> statement-breakpoint
CREATE TABLE "traffic" (
	"minute" timestamp with time zone NOT NULL,
	"what" text COLLATE "C" NOT NULL,
	"times" bigint NOT NULL,
	"total_ms" bigint NOT NULL,
	"max_ms" bigint NOT NULL,
	CONSTRAINT "traffic_minute_what_pk" PRIMARY KEY("minute","what")
);
--> statement-breakpoint
CREATE TABLE "learned_pointers" (
	"kind" text COLLATE "C" NOT NULL,
	"path" text COLLATE "C" NOT NULL,
	"event_id" text COLLATE "C" NOT NULL,
	"record_id" text COLLATE "C" NOT NULL,
	"learned_at" timestamp with time zone NOT NULL,
	"used" boolean NOT NULL,
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
CREATE INDEX "changes_record" ON "changes" USING btree ("kind","record_id","seq","at");--> statement-breakpoint
CREATE INDEX "changes_at" ON "changes" USING btree ("at");--> statement-breakpoint
CREATE UNIQUE INDEX "events_id" ON "events" USING btree ("id");--> statement-breakpoint
CREATE INDEX "events_pending" ON "events" USING btree ("seq","next_attempt_at") WHERE state = 'pending';--> statement-breakpoint
CREATE INDEX "events_failed" ON "events" USING btree ("seq") WHERE state = 'failed';--> statement-breakpoint
CREATE INDEX "events_sought" ON "events" USING btree ("next_attempt_at") WHERE state = 'failed' AND next_attempt_at IS NOT NULL;--> statement-breakpoint
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
CREATE INDEX "sync_history_kind" ON "sync_history" USING btree ("kind","since");
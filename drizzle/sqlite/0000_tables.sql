CREATE TABLE `audit` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`at` text NOT NULL,
	`actor` text NOT NULL,
	`action` text NOT NULL,
	`outcome` text NOT NULL,
	`target` text
);
--> statement-breakpoint
CREATE TABLE `changes` (
	`seq` integer PRIMARY KEY NOT NULL,
	`kind` text NOT NULL,
	`record_id` text NOT NULL,
	`operation` text NOT NULL,
	`before` text NOT NULL,
	`after` text NOT NULL,
	`name` text,
	`version` text,
	`status` text,
	`data` text NOT NULL,
	`cause` text NOT NULL,
	`cause_id` text,
	`at` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `changes_record` ON `changes` (`kind`,`record_id`,`seq`,`at`);--> statement-breakpoint
CREATE INDEX `changes_at` ON `changes` (`at`);--> statement-breakpoint
CREATE TABLE `counter` (
	`value` integer PRIMARY KEY NOT NULL
);
--> statement-breakpoint
CREATE TABLE `events` (
	`seq` integer PRIMARY KEY NOT NULL,
	`id` text NOT NULL,
	`type` text NOT NULL,
	`created` text NOT NULL,
	`created_ms` integer NOT NULL,
	`kind` text,
	`record_id` text,
	`received_at` text NOT NULL,
	`deliveries` integer DEFAULT 1 NOT NULL,
	`last_delivered_at` text NOT NULL,
	`state` text NOT NULL,
	`attempts` integer DEFAULT 0 NOT NULL,
	`next_attempt_at` text,
	`processed_at` text,
	`error` text,
	`content_hash` text,
	`address` text,
	`body` text
);
--> statement-breakpoint
CREATE UNIQUE INDEX `events_id` ON `events` (`id`);--> statement-breakpoint
CREATE INDEX `events_pending` ON `events` (`seq`,`next_attempt_at`) WHERE state = 'pending';--> statement-breakpoint
CREATE INDEX `events_failed` ON `events` (`seq`) WHERE state = 'failed';--> statement-breakpoint
CREATE INDEX `events_sought` ON `events` (`next_attempt_at`) WHERE state = 'failed' AND next_attempt_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX `events_record` ON `events` (`record_id`,`seq`);--> statement-breakpoint
CREATE TABLE `facts` (
	`name` text PRIMARY KEY NOT NULL,
	`value` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `fields` (
	`kind` text NOT NULL,
	`position` integer NOT NULL,
	`column` text,
	`path` text NOT NULL,
	`keys` text NOT NULL,
	`type` text NOT NULL,
	`first_seen_at` text NOT NULL,
	PRIMARY KEY(`kind`, `position`)
);
--> statement-breakpoint
CREATE TABLE `kind_state` (
	`kind` text PRIMARY KEY NOT NULL,
	`verdict` text,
	`complete` integer,
	`since` text,
	`read_with` text,
	`probed_with` text,
	`read_at` text
);
--> statement-breakpoint
CREATE TABLE `learned_pointers` (
	`kind` text NOT NULL,
	`path` text NOT NULL,
	`event_id` text NOT NULL,
	`record_id` text NOT NULL,
	`learned_at` text NOT NULL,
	`used` integer NOT NULL,
	PRIMARY KEY(`kind`, `path`)
);
--> statement-breakpoint
CREATE TABLE `leases` (
	`name` text PRIMARY KEY NOT NULL,
	`owner` text NOT NULL,
	`fence` integer NOT NULL,
	`lease_until` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `operator_sessions` (
	`hash` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`sealed` text NOT NULL,
	`opened_at` integer NOT NULL,
	`used_at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `pending_deletions` (
	`kind` text NOT NULL,
	`id` text NOT NULL,
	`pending_since` text NOT NULL,
	`approved_until` text,
	`kept_number` integer,
	PRIMARY KEY(`kind`, `id`)
);
--> statement-breakpoint
CREATE TABLE `policies` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text,
	`version` text,
	`status` text,
	`data` text NOT NULL,
	`first_seen_at` text NOT NULL,
	`synced_at` text NOT NULL,
	`verified_at` text,
	`unverified_since` text,
	`deleted_at` text,
	`deletion_pending_since` text,
	`last_event_id` text,
	`last_event_at` text,
	`cause` text NOT NULL,
	`cause_id` text,
	`change_seq` integer DEFAULT 0 NOT NULL,
	`provisional_created` integer,
	`shown` text
);
--> statement-breakpoint
CREATE INDEX `policies_deletion_pending` ON `policies` (`id`) WHERE deletion_pending_since IS NOT NULL;--> statement-breakpoint
CREATE INDEX `policies_unverified` ON `policies` (`unverified_since`,`deleted_at`) WHERE unverified_since IS NOT NULL;--> statement-breakpoint
CREATE INDEX `policies_deleted` ON `policies` (`id`) WHERE deleted_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX `policies_deleted_at` ON `policies` (`deleted_at`) WHERE deleted_at IS NOT NULL;--> statement-breakpoint
CREATE TABLE `problems` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`kind` text,
	`record_id` text,
	`reason` text NOT NULL,
	`verdict` text NOT NULL,
	`needs` text NOT NULL,
	`opened_at` text NOT NULL,
	`resolved_at` text,
	`times` integer DEFAULT 1 NOT NULL,
	`error` text,
	`digest` text NOT NULL,
	`acceptable` integer NOT NULL,
	`accepted_at` text,
	`number` integer NOT NULL,
	`coverable_at` integer
);
--> statement-breakpoint
CREATE INDEX `problems_open` ON `problems` (`reason`,`kind`,`record_id`) WHERE resolved_at IS NULL;--> statement-breakpoint
CREATE INDEX `problems_record` ON `problems` (`kind`,`record_id`);--> statement-breakpoint
CREATE INDEX `problems_open_newest` ON `problems` (`id`) WHERE resolved_at IS NULL;--> statement-breakpoint
CREATE INDEX `problems_open_worst` ON `problems` (`kind`,`verdict`) WHERE resolved_at IS NULL;--> statement-breakpoint
CREATE INDEX `problems_accepted` ON `problems` (`kind`,`reason`,`record_id`) WHERE accepted_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX `problems_resolved` ON `problems` (`resolved_at`) WHERE resolved_at IS NOT NULL;--> statement-breakpoint
CREATE TABLE `record_state` (
	`kind` text NOT NULL,
	`id` text NOT NULL,
	`dirty` integer DEFAULT 0 NOT NULL,
	`dirty_at` integer,
	`first_dirty_at` integer,
	`unverified_since` text,
	`provisional_created` integer,
	`read_number` integer DEFAULT 0 NOT NULL,
	`read_ended_at` integer,
	`returned` integer DEFAULT 0 NOT NULL,
	`missing_since` integer,
	`missing_number` integer,
	`proven` integer DEFAULT 0 NOT NULL,
	`delete_event` integer,
	`searched` integer DEFAULT 0 NOT NULL,
	`confirmed` integer DEFAULT 0 NOT NULL,
	`moved_at` integer,
	`early_at` integer,
	`refusals` integer DEFAULT 0 NOT NULL,
	`attempts` integer DEFAULT 0 NOT NULL,
	`error` text,
	`due_at` integer,
	`sync_run_id` integer,
	PRIMARY KEY(`kind`, `id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `record_state_due` ON `record_state` (`kind`,`due_at`,`unverified_since`,`id`) WHERE due_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX `record_state_missing` ON `record_state` (`kind`,`missing_since`) WHERE missing_since IS NOT NULL;--> statement-breakpoint
CREATE TABLE `registrations` (
	`upstream_id` text PRIMARY KEY NOT NULL,
	`url` text NOT NULL,
	`events` text NOT NULL,
	`description` text NOT NULL,
	`delivers` text NOT NULL,
	`sealed_secret` text,
	`sealed_answer` text,
	`created_at` text NOT NULL,
	`expires_at` text
);
--> statement-breakpoint
CREATE TABLE `rejections` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`received_at` text NOT NULL,
	`outcome` text NOT NULL,
	`reason` text NOT NULL,
	`event_id` text,
	`type` text,
	`t` text,
	`times` integer DEFAULT 1 NOT NULL,
	`address` text,
	`header` text,
	`body` blob,
	`dismissed_at` text,
	`kind` text,
	`record_id` text,
	`bytes` integer NOT NULL,
	`body_sha256` text,
	`network` text DEFAULT '' NOT NULL
);
--> statement-breakpoint
CREATE INDEX `rejections_by_sender` ON `rejections` (`reason`,`network`) WHERE outcome = 'rejected';--> statement-breakpoint
CREATE INDEX `rejections_outcome` ON `rejections` (`outcome`,`id`);--> statement-breakpoint
CREATE INDEX `rejections_record` ON `rejections` (`record_id`,`id`) WHERE record_id IS NOT NULL;--> statement-breakpoint
CREATE INDEX `rejections_waiting` ON `rejections` (`id`) WHERE outcome = 'quarantined' AND dismissed_at IS NULL;--> statement-breakpoint
CREATE INDEX `rejections_with_body` ON `rejections` (`id`) WHERE outcome = 'quarantined' AND body IS NOT NULL;--> statement-breakpoint
CREATE TABLE `risk_assessments` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text,
	`status` text,
	`data` text NOT NULL,
	`first_seen_at` text NOT NULL,
	`synced_at` text NOT NULL,
	`verified_at` text,
	`unverified_since` text,
	`deleted_at` text,
	`deletion_pending_since` text,
	`last_event_id` text,
	`last_event_at` text,
	`cause` text NOT NULL,
	`cause_id` text,
	`change_seq` integer DEFAULT 0 NOT NULL,
	`provisional_created` integer,
	`shown` text
);
--> statement-breakpoint
CREATE INDEX `risk_assessments_deletion_pending` ON `risk_assessments` (`id`) WHERE deletion_pending_since IS NOT NULL;--> statement-breakpoint
CREATE INDEX `risk_assessments_unverified` ON `risk_assessments` (`unverified_since`,`deleted_at`) WHERE unverified_since IS NOT NULL;--> statement-breakpoint
CREATE INDEX `risk_assessments_deleted` ON `risk_assessments` (`id`) WHERE deleted_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX `risk_assessments_deleted_at` ON `risk_assessments` (`deleted_at`) WHERE deleted_at IS NOT NULL;--> statement-breakpoint
CREATE TABLE `sync_history` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`kind` text NOT NULL,
	`verdict` text NOT NULL,
	`complete` integer NOT NULL,
	`since` text NOT NULL,
	`until` text
);
--> statement-breakpoint
CREATE UNIQUE INDEX `sync_history_open` ON `sync_history` (`kind`) WHERE until IS NULL;--> statement-breakpoint
CREATE INDEX `sync_history_kind` ON `sync_history` (`kind`,`since`);--> statement-breakpoint
CREATE TABLE `sync_requests` (
	`kind` text NOT NULL,
	`reason` text NOT NULL,
	`requested_at` text NOT NULL,
	PRIMARY KEY(`kind`, `reason`)
);
--> statement-breakpoint
CREATE TABLE `sync_runs` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`kind` text NOT NULL,
	`reason` text NOT NULL,
	`started_at` text NOT NULL,
	`finished_at` text,
	`pages` integer DEFAULT 0 NOT NULL,
	`seen` integer DEFAULT 0 NOT NULL,
	`inserted` integer DEFAULT 0 NOT NULL,
	`updated` integer DEFAULT 0 NOT NULL,
	`deleted` integer DEFAULT 0 NOT NULL,
	`unchanged` integer DEFAULT 0 NOT NULL,
	`outcome` text,
	`error` text,
	`differences` text,
	`listed` integer DEFAULT 0 NOT NULL,
	`number` integer NOT NULL,
	`began_at` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `sync_runs_kind` ON `sync_runs` (`kind`,`id`);--> statement-breakpoint
CREATE INDEX `sync_runs_running` ON `sync_runs` (`kind`) WHERE finished_at IS NULL;--> statement-breakpoint
CREATE INDEX `sync_runs_whole` ON `sync_runs` (`kind`,`number`,`id`) WHERE outcome IN ('complete', 'accepted');--> statement-breakpoint
CREATE INDEX `sync_runs_completed` ON `sync_runs` (`kind`,`finished_at`) WHERE outcome = 'complete';--> statement-breakpoint
CREATE TABLE `tokens` (
	`name` text PRIMARY KEY NOT NULL,
	`sealed` text NOT NULL,
	`version` integer NOT NULL,
	`refusal` text,
	`lease_owner` text,
	`lease_until` integer,
	`saved_at` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `traffic` (
	`minute` text NOT NULL,
	`what` text NOT NULL,
	`times` integer NOT NULL,
	`total_ms` integer NOT NULL,
	`max_ms` integer NOT NULL,
	PRIMARY KEY(`minute`, `what`)
);
--> statement-breakpoint
CREATE TABLE `trimmed_events` (
	`id` text PRIMARY KEY NOT NULL,
	`content_hash` text NOT NULL,
	`received_at` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `trimmed_events_received` ON `trimmed_events` (`received_at`);--> statement-breakpoint
CREATE TABLE `vendors` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text,
	`status` text,
	`data` text NOT NULL,
	`first_seen_at` text NOT NULL,
	`synced_at` text NOT NULL,
	`verified_at` text,
	`unverified_since` text,
	`deleted_at` text,
	`deletion_pending_since` text,
	`last_event_id` text,
	`last_event_at` text,
	`cause` text NOT NULL,
	`cause_id` text,
	`change_seq` integer DEFAULT 0 NOT NULL,
	`provisional_created` integer,
	`shown` text
);
--> statement-breakpoint
CREATE INDEX `vendors_deletion_pending` ON `vendors` (`id`) WHERE deletion_pending_since IS NOT NULL;--> statement-breakpoint
CREATE INDEX `vendors_unverified` ON `vendors` (`unverified_since`,`deleted_at`) WHERE unverified_since IS NOT NULL;--> statement-breakpoint
CREATE INDEX `vendors_deleted` ON `vendors` (`id`) WHERE deleted_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX `vendors_deleted_at` ON `vendors` (`deleted_at`) WHERE deleted_at IS NOT NULL;
CREATE TABLE `trimmed_events` (
	`id` text PRIMARY KEY NOT NULL,
	`content_hash` text NOT NULL,
	`received_at` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `trimmed_events_received` ON `trimmed_events` (`received_at`);--> statement-breakpoint
CREATE INDEX `events_with_body` ON `events` (`seq`) WHERE body IS NOT NULL;--> statement-breakpoint
CREATE INDEX `quarantine_with_body` ON `quarantine` (`id`) WHERE body IS NOT NULL;
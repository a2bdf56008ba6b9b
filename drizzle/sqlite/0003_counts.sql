CREATE TABLE `gap_counts` (
	`reason` text PRIMARY KEY NOT NULL,
	`opened` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `quarantine_waiting` ON `quarantine` (`id`) WHERE released_at IS NULL;--> statement-breakpoint
INSERT INTO `gap_counts` (`reason`, `opened`) SELECT `reason`, count(*) FROM `gaps` GROUP BY `reason`;
--> statement-breakpoint
CREATE TRIGGER gaps_counted AFTER INSERT ON gaps BEGIN
  INSERT INTO gap_counts (reason, opened) VALUES (NEW.reason, 1) ON CONFLICT (reason) DO UPDATE SET opened = opened + 1;
END;

INSERT INTO record_counts (kind, live, deleted, known, outstanding, unverified) VALUES ('policy', 0, 0, 0, 0, 0), ('risk_assessment', 0, 0, 0, 0, 0), ('vendor', 0, 0, 0, 0, 0);
--> statement-breakpoint
INSERT INTO facts (name, value) VALUES ('epoch', left(md5(random()::text || clock_timestamp()::text), 16));
--> statement-breakpoint
INSERT INTO quarantine_count (one, waiting) VALUES (1, 0);
--> statement-breakpoint
-- Counts are kept by the statement, not by the row: a batch of 256 would leave 256 dead versions of one count behind.
-- Writers hold the counter's lock, so no two of them add to a count at once.
CREATE FUNCTION count_records() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  alive bigint := 0;
  tombstones bigint := 0;
  doubted bigint := 0;
BEGIN
  IF TG_OP <> 'DELETE' THEN
    SELECT count(*) FILTER (WHERE deleted_at IS NULL), count(*) FILTER (WHERE deleted_at IS NOT NULL),
      count(*) FILTER (WHERE deleted_at IS NULL AND unverified_since IS NOT NULL) INTO alive, tombstones, doubted FROM come;
  END IF;
  IF TG_OP <> 'INSERT' THEN
    SELECT alive - count(*) FILTER (WHERE deleted_at IS NULL), tombstones - count(*) FILTER (WHERE deleted_at IS NOT NULL),
      doubted - count(*) FILTER (WHERE deleted_at IS NULL AND unverified_since IS NOT NULL) INTO alive, tombstones, doubted FROM gone;
  END IF;
  IF alive <> 0 OR tombstones <> 0 OR doubted <> 0 THEN
    UPDATE record_counts SET live = live + alive, deleted = deleted + tombstones, unverified = unverified + doubted WHERE kind = TG_ARGV[0];
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
-- Outstanding: to be read, or read as gone and not judged yet, which a full sync does with all of them at its end.
CREATE FUNCTION count_known() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NOT EXISTS (SELECT FROM come) THEN RETURN NULL; END IF;
    UPDATE record_counts c SET known = known + n.more, outstanding = outstanding + n.due
      FROM (SELECT kind, count(*) AS more, count(*) FILTER (WHERE (due_at IS NOT NULL OR proven) AND unverified_since IS NOT NULL) AS due FROM come GROUP BY kind) n
      WHERE c.kind = n.kind;
  ELSIF TG_OP = 'UPDATE' THEN
    UPDATE record_counts c SET outstanding = outstanding + n.more
      FROM (SELECT kind, sum(weight) AS more FROM
        (SELECT kind, 1 AS weight FROM come WHERE (due_at IS NOT NULL OR proven) AND unverified_since IS NOT NULL
          UNION ALL SELECT kind, -1 FROM gone WHERE (due_at IS NOT NULL OR proven) AND unverified_since IS NOT NULL) w
        GROUP BY kind HAVING sum(weight) <> 0) n
      WHERE c.kind = n.kind;
  ELSE
    UPDATE record_counts c SET known = known - n.less, outstanding = outstanding - n.due
      FROM (SELECT kind, count(*) AS less, count(*) FILTER (WHERE (due_at IS NOT NULL OR proven) AND unverified_since IS NOT NULL) AS due FROM gone GROUP BY kind) n
      WHERE c.kind = n.kind;
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE FUNCTION count_gaps() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO gap_counts AS c (reason, kind, open, opened)
      SELECT reason, coalesce(kind, ''), count(*) FILTER (WHERE resolved_at IS NULL), count(*) FROM come GROUP BY 1, 2
      ON CONFLICT (reason, kind) DO UPDATE SET open = c.open + excluded.open, opened = c.opened + excluded.opened;
  ELSIF TG_OP = 'UPDATE' THEN
    UPDATE gap_counts c SET open = open + n.more
      FROM (SELECT reason, coalesce(kind, '') AS kind, sum(weight) AS more FROM
        (SELECT reason, kind, 1 AS weight FROM come WHERE resolved_at IS NULL UNION ALL SELECT reason, kind, -1 FROM gone WHERE resolved_at IS NULL) w
        GROUP BY 1, 2 HAVING sum(weight) <> 0) n
      WHERE c.reason = n.reason AND c.kind = n.kind;
  ELSE
    UPDATE gap_counts c SET open = open - n.less
      FROM (SELECT reason, coalesce(kind, '') AS kind, count(*) AS less FROM gone WHERE resolved_at IS NULL GROUP BY 1, 2) n
      WHERE c.reason = n.reason AND c.kind = n.kind;
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE FUNCTION count_quarantined() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  more bigint := 0;
BEGIN
  IF TG_OP <> 'DELETE' THEN SELECT count(*) INTO more FROM come WHERE released_at IS NULL; END IF;
  IF TG_OP <> 'INSERT' THEN SELECT more - count(*) INTO more FROM gone WHERE released_at IS NULL; END IF;
  IF more <> 0 THEN UPDATE quarantine_count SET waiting = waiting + more; END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
-- Loses its row in a crash of the server, since it is not logged, and is empty on a standby that takes over. Commits before that may
-- be lost although somebody has read them, so their numbers are left out and not given out again. There are never so many at once: a
-- connection has one commit that is not on the disk yet, of a few thousand numbers at most.
CREATE UNLOGGED TABLE counter_intact (one integer PRIMARY KEY);
--> statement-breakpoint
INSERT INTO counter_intact (one) VALUES (1);
--> statement-breakpoint
-- Locks the counter until the transaction ends. The last of the index is its newest version.
CREATE FUNCTION hold_counter() RETURNS bigint LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  held bigint;
BEGIN
  -- Then no trigger runs, and counts, and verdicts with them, would be wrong.
  IF current_setting('session_replication_role') = 'replica' THEN
    RAISE trigger_protocol_violated USING MESSAGE = 'session_replication_role is replica';
  END IF;
  IF (SELECT count(*) FROM pg_trigger WHERE tgname LIKE '%\_counted\_%' AND tgenabled IN ('O', 'A') AND tgrelid IN ('policies'::regclass,
    'risk_assessments'::regclass, 'vendors'::regclass, 'record_state'::regclass, 'gaps'::regclass, 'quarantine'::regclass)) < 18 THEN
    RAISE trigger_protocol_violated USING MESSAGE = 'triggers ..._counted_... are disabled or missing';
  END IF;
  SELECT value INTO held FROM counter ORDER BY value DESC LIMIT 1 FOR UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION 'the table counter is empty: restore a backup'; END IF;
  IF NOT EXISTS (SELECT FROM counter_intact) THEN
    UPDATE counter SET value = value + 1000000 WHERE value = held RETURNING value INTO held;
    INSERT INTO counter_intact (one) VALUES (1);
  END IF;
  RETURN held;
END $$;
--> statement-breakpoint
-- What every group of deliveries does, as one statement: all replicas wait for whoever holds the counter, so that nothing
-- may travel while it is held. Each statement in here sees what is committed as it begins, and not as it was sent.
CREATE FUNCTION mark_dirty(given_kinds text[], given_ids text[], given_numbers bigint[], before bigint, noted_at bigint, due bigint, since timestamptz) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  doubted_policies text[];
  doubted_assessments text[];
  doubted_vendors text[];
BEGIN
  WITH marked_dirty AS (
    INSERT INTO record_state AS s (kind, id, dirty, dirty_at, first_dirty_at, unverified_since, due_at)
      SELECT g.kind, g.id, before + g.number, noted_at, noted_at, since, due FROM unnest(given_kinds, given_ids, given_numbers) AS g (kind, id, number)
      ON CONFLICT (kind, id) DO UPDATE SET dirty = excluded.dirty, dirty_at = greatest(s.dirty_at, excluded.dirty_at),
        first_dirty_at = coalesce(s.first_dirty_at, excluded.first_dirty_at),
        unverified_since = coalesce(s.unverified_since, excluded.unverified_since),
        due_at = least(CASE WHEN s.due_at > 1 THEN s.due_at END, excluded.due_at), missing_since = NULL, missing_number = NULL, proven = false
      RETURNING s.kind, s.id, s.unverified_since
  )
  SELECT array_agg(id) FILTER (WHERE kind = 'policy'), array_agg(id) FILTER (WHERE kind = 'risk_assessment'), array_agg(id) FILTER (WHERE kind = 'vendor')
    INTO doubted_policies, doubted_assessments, doubted_vendors FROM marked_dirty WHERE unverified_since = since;
  IF doubted_policies IS NOT NULL THEN
    UPDATE policies SET unverified_since = since WHERE id = ANY (doubted_policies) AND unverified_since IS NULL;
  END IF;
  IF doubted_assessments IS NOT NULL THEN
    UPDATE risk_assessments SET unverified_since = since WHERE id = ANY (doubted_assessments) AND unverified_since IS NULL;
  END IF;
  IF doubted_vendors IS NOT NULL THEN
    UPDATE vendors SET unverified_since = since WHERE id = ANY (doubted_vendors) AND unverified_since IS NULL;
  END IF;
END $$;
--> statement-breakpoint
-- Takes in events that nobody has seen. Null, and nothing done, where one is known.
CREATE FUNCTION accept_events(given_ids text[], given_types text[], given_created timestamptz[], given_created_ms bigint[], given_kinds text[], given_records text[], given_states text[], given_bodies text[], dirty_kinds text[], dirty_ids text[], dirty_places bigint[], noted_at bigint, due bigint, received timestamptz, given_addresses text[]) RETURNS bigint LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  before bigint := hold_counter();
  pending bigint := cardinality(array_positions(given_states, 'pending'));
  ignored bigint := cardinality(given_ids) - pending;
BEGIN
  IF EXISTS (SELECT FROM events WHERE id = ANY (given_ids)) OR EXISTS (SELECT FROM trimmed_events WHERE id = ANY (given_ids)) THEN
    RETURN NULL;
  END IF;
  UPDATE counter SET value = before + cardinality(given_ids) WHERE value = before;
  IF pending > 0 THEN
    UPDATE event_counts SET count = count + pending WHERE ctid = (SELECT ctid FROM event_counts WHERE state BETWEEN 'pending' AND 'pending' ORDER BY state DESC LIMIT 1);
  END IF;
  IF ignored > 0 THEN
    UPDATE event_counts SET count = count + ignored WHERE ctid = (SELECT ctid FROM event_counts WHERE state BETWEEN 'ignored' AND 'ignored' ORDER BY state DESC LIMIT 1);
  END IF;
  INSERT INTO events (seq, id, type, created, created_ms, kind, record_id, received_at, last_delivered_at, state, processed_at, address, body)
    SELECT before + g.place, g.id, g.type, g.created, g.created_ms, g.kind, g.record_id, received, received, g.state,
      CASE g.state WHEN 'ignored' THEN received END, g.address, g.body
    FROM unnest(given_ids, given_types, given_created, given_created_ms, given_kinds, given_records, given_states, given_addresses, given_bodies)
      WITH ORDINALITY AS g (id, type, created, created_ms, kind, record_id, state, address, body, place);
  IF cardinality(dirty_ids) > 0 THEN
    PERFORM mark_dirty(dirty_kinds, dirty_ids, dirty_places, before, noted_at, due, received);
  END IF;
  RETURN before;
END $$;
--> statement-breakpoint
-- Makes and enables the triggers, and counts all rows: also for people, who may have disabled the triggers or put rows back without them.
CREATE FUNCTION count_again() RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  counted record;
BEGIN
  -- First, as all writers do.
  PERFORM FROM counter FOR UPDATE;
  FOR counted IN SELECT * FROM (VALUES ('policies', 'count_records(''policy'')'), ('risk_assessments', 'count_records(''risk_assessment'')'),
    ('vendors', 'count_records(''vendor'')'), ('gaps', 'count_gaps()'), ('quarantine', 'count_quarantined()'), ('record_state', 'count_known()')) AS t (rows, function)
  LOOP
    EXECUTE format($q$
      CREATE OR REPLACE TRIGGER %1$s_counted_in AFTER INSERT ON %1$s REFERENCING NEW TABLE AS come FOR EACH STATEMENT EXECUTE FUNCTION %2$s;
      CREATE OR REPLACE TRIGGER %1$s_counted_over AFTER UPDATE ON %1$s REFERENCING OLD TABLE AS gone NEW TABLE AS come FOR EACH STATEMENT EXECUTE FUNCTION %2$s;
      CREATE OR REPLACE TRIGGER %1$s_counted_out AFTER DELETE ON %1$s REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION %2$s;
    $q$, counted.rows, counted.function);
  END LOOP;
  UPDATE record_counts c SET
    (live, deleted, unverified) = (SELECT count(*) FILTER (WHERE deleted_at IS NULL), count(*) FILTER (WHERE deleted_at IS NOT NULL),
        count(*) FILTER (WHERE deleted_at IS NULL AND unverified_since IS NOT NULL)
      FROM (SELECT 'policy' AS kind, deleted_at, unverified_since FROM policies
        UNION ALL SELECT 'risk_assessment', deleted_at, unverified_since FROM risk_assessments
        UNION ALL SELECT 'vendor', deleted_at, unverified_since FROM vendors) r WHERE r.kind = c.kind),
    (known, outstanding) = (SELECT count(*), count(*) FILTER (WHERE (due_at IS NOT NULL OR proven) AND unverified_since IS NOT NULL)
      FROM record_state s WHERE s.kind = c.kind);
  UPDATE gap_counts SET open = 0;
  INSERT INTO gap_counts AS c (reason, kind, open, opened)
    SELECT reason, coalesce(kind, ''), count(*) FILTER (WHERE resolved_at IS NULL), count(*) FROM gaps GROUP BY 1, 2
    ON CONFLICT (reason, kind) DO UPDATE SET open = excluded.open, opened = greatest(c.opened, excluded.opened);
  UPDATE quarantine_count SET waiting = (SELECT count(*) FROM quarantine WHERE released_at IS NULL);
  UPDATE event_counts c SET count = (SELECT count(*) FROM events e WHERE e.state = c.state);
END $$;
--> statement-breakpoint
SELECT count_again();
--> statement-breakpoint
CREATE VIEW current_policies AS SELECT * FROM policies WHERE deleted_at IS NULL;
--> statement-breakpoint
CREATE VIEW current_risk_assessments AS SELECT * FROM risk_assessments WHERE deleted_at IS NULL;
--> statement-breakpoint
CREATE VIEW current_vendors AS SELECT * FROM vendors WHERE deleted_at IS NULL;
--> statement-breakpoint
-- Gives a view of typed columns those that `fields` has. As the owner of the views, who alone may: the service's own role need not be.
-- Nothing is dropped, so that grants and other views on it stay: columns get other names, and more come behind them. Values that
-- have come since and do not fit are null. A query that holds the view is waited for only briefly, since readers wait behind us.
-- It looks into the caller's temporary schema last: unless that is named, it comes before all others, and a type of the caller's own
-- that is called "text" would run his code with the owner's rights.
SELECT set_config('search_path', current_setting('search_path') || ', pg_temp', true);
--> statement-breakpoint
CREATE FUNCTION show_fields(given_kind text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
  SET search_path FROM CURRENT SET lock_timeout = '250ms' AS $$
DECLARE
  own text := current_schema();
  records text := CASE given_kind WHEN 'policy' THEN 'policies' WHEN 'risk_assessment' THEN 'risk_assessments' WHEN 'vendor' THEN 'vendors' END;
  flat text := format('%I.%I', own, records || '_flat');
  columns text := 'id, name, ' || CASE given_kind WHEN 'policy' THEN 'version, ' ELSE '' END ||
    'status, data, first_seen_at, synced_at, verified_at, unverified_since, last_event_id, last_event_at, cause';
  present text[] := (SELECT array_agg(attname ORDER BY attnum) FROM pg_attribute WHERE attrelid = to_regclass(flat) AND attnum > 0);
  place integer := cardinality(string_to_array(columns, ','));
  -- The same as in mirror/fields.ts.
  day text := '(?!0000)(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)';
  instant text := '(?!0001.*:..$|9999.*:..$)' || day || 'T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,9})?(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])';
  field record;
BEGIN
  -- Whose rights the caller has: current_user is the owner in here.
  IF NOT has_table_privilege(coalesce(nullif(current_setting('role'), 'none'), session_user), format('%I.fields', own), 'INSERT') THEN
    RAISE insufficient_privilege USING MESSAGE = 'permission denied for show_fields: it is for whoever writes the table fields';
  END IF;
  FOR field IN EXECUTE format($q$SELECT "column", type,
      'data' || CASE WHEN keys->>1 IS NULL THEN '' ELSE format('->%%L', keys->>0) END || format('->>%%L', coalesce(keys->>1, keys->>0)) AS written,
      'data' || format('->%%L', keys->>0) || CASE WHEN keys->>1 IS NULL THEN '' ELSE format('->%%L', keys->>1) END AS value
    FROM %I.fields WHERE kind = $1 AND "column" IS NOT NULL ORDER BY position$q$, own) USING given_kind
  LOOP
    place := place + 1;
    IF present[place] <> field."column" THEN
      EXECUTE format('ALTER VIEW %s RENAME COLUMN %I TO %I', flat, present[place], field."column");
    END IF;
    columns := columns || format(E',\n  %s AS %I', CASE field.type
      WHEN 'number' THEN format('CASE jsonb_typeof(%1$s) WHEN ''number'' THEN (%1$s)::numeric END', field.value)
      WHEN 'boolean' THEN format('CASE jsonb_typeof(%1$s) WHEN ''boolean'' THEN (%1$s)::boolean END', field.value)
      WHEN 'date' THEN format('CASE WHEN %1$s ~ %2$L THEN (%1$s)::date END', field.written, '^' || day || '$')
      WHEN 'instant' THEN format('CASE WHEN %1$s ~ %2$L THEN (%1$s)::timestamptz END', field.written, '^' || instant || '$')
      WHEN 'json' THEN format('nullif(%s, ''null'')', field.value)
      ELSE field.written END, field."column");
  END LOOP;
  EXECUTE format('CREATE OR REPLACE VIEW %s AS SELECT %s FROM %I.%I WHERE deleted_at IS NULL', flat, columns, own, records);
END $$;
--> statement-breakpoint
SELECT set_config('search_path', regexp_replace(current_setting('search_path'), ', pg_temp$', ''), true);
--> statement-breakpoint
SELECT show_fields('policy'), show_fields('risk_assessment'), show_fields('vendor');
--> statement-breakpoint
CREATE VIEW deliveries AS
  SELECT received_at, 'accepted' AS outcome, id AS event_id, type, kind, record_id, state, error AS reason, address, deliveries, seq AS number FROM events
  UNION ALL
  SELECT received_at, 'duplicate', event_id, type, kind, record_id, NULL, NULL, address, 1, id FROM duplicates
  UNION ALL
  SELECT received_at, 'quarantined', event_id, type, kind, record_id, NULL, reason, address, 1, id FROM quarantine
  UNION ALL
  SELECT at, 'rejected', event_id, type, NULL::text, NULL::text, NULL::text, reason, address, times, id FROM rejections
  ORDER BY received_at DESC;
--> statement-breakpoint
CREATE VIEW sync_status AS
WITH kinds AS (
  SELECT c.kind, c.live AS records, c.deleted, c.known,
    c.outstanding - (SELECT count(*)
      -- What an event named by an id that the API does not know may stand in it under another one.
      -- OFFSET 0 has each looked up by its key: statistics that know of no due record would look through all due ones for each gap.
      FROM gaps g CROSS JOIN LATERAL (SELECT * FROM record_state WHERE kind = g.kind AND id = g.record_id OFFSET 0) s
      WHERE g.resolved_at IS NULL AND g.kind = c.kind
        AND g.reason IN ('unaddressable', 'unresolved')
        AND (g.reason = 'unaddressable' OR (NOT s.returned AND s.searched >= s.dirty
          -- One that has both counts once.
          AND NOT EXISTS (SELECT 1 FROM gaps o WHERE o.resolved_at IS NULL AND o.reason = 'unaddressable' AND o.kind = g.kind
            AND o.record_id = g.record_id AND o.number > s.dirty))) AND g.number > s.dirty
        AND s.due_at IS NOT NULL AND s.unverified_since IS NOT NULL) AS unverified,
    -- Some have no row yet; of those the ones that are due first are looked at.
    least(CASE c.kind
      WHEN 'policy' THEN (SELECT min(unverified_since) FROM policies WHERE unverified_since IS NOT NULL)
      WHEN 'vendor' THEN (SELECT min(unverified_since) FROM vendors WHERE unverified_since IS NOT NULL)
      ELSE (SELECT min(unverified_since) FROM risk_assessments WHERE unverified_since IS NOT NULL) END,
      (SELECT min(unverified_since) FROM (SELECT * FROM record_state WHERE kind = c.kind AND due_at IS NOT NULL AND unverified_since IS NOT NULL ORDER BY due_at LIMIT 100) AS s
        WHERE NOT EXISTS (SELECT 1 FROM gaps g WHERE g.resolved_at IS NULL AND g.kind = s.kind AND g.record_id = s.id
          AND (g.reason = 'unaddressable' OR (g.reason = 'unresolved' AND NOT s.returned AND s.searched >= s.dirty)) AND g.number > s.dirty))) AS oldest_unverified_at,
    -- What the API does not know by its id, no full sync has left unread.
    CASE c.kind
      WHEN 'policy' THEN (SELECT unverified_since FROM policies r WHERE unverified_since IS NOT NULL AND (verified_at IS NOT NULL OR NOT EXISTS
        (SELECT 1 FROM gaps g WHERE g.resolved_at IS NULL AND g.kind = 'policy' AND g.record_id = r.id AND g.reason IN ('unaddressable', 'unresolved')))
        ORDER BY unverified_since LIMIT 1)
      WHEN 'vendor' THEN (SELECT unverified_since FROM vendors r WHERE unverified_since IS NOT NULL AND (verified_at IS NOT NULL OR NOT EXISTS
        (SELECT 1 FROM gaps g WHERE g.resolved_at IS NULL AND g.kind = 'vendor' AND g.record_id = r.id AND g.reason IN ('unaddressable', 'unresolved')))
        ORDER BY unverified_since LIMIT 1)
      ELSE (SELECT unverified_since FROM risk_assessments r WHERE unverified_since IS NOT NULL AND (verified_at IS NOT NULL OR NOT EXISTS
        (SELECT 1 FROM gaps g WHERE g.resolved_at IS NULL AND g.kind = 'risk_assessment' AND g.record_id = r.id AND g.reason IN ('unaddressable', 'unresolved')))
        ORDER BY unverified_since LIMIT 1) END AS unread_since,
    CASE c.kind WHEN 'risk_assessment' THEN 'known ids only: ' || c.known END AS reach
  FROM record_counts c
), service AS (
  SELECT
    (SELECT value::timestamptz FROM facts WHERE name = 'heartbeat') AS heartbeat,
    coalesce((SELECT value FROM facts WHERE name = 'events_only'), '1') = '1' AS events_only,
    coalesce((SELECT value FROM facts WHERE name = 'paused_since'), '') <> '' AS paused,
    coalesce((SELECT value FROM facts WHERE name = 'unreachable'), '0') = '1' AS unreachable,
    (SELECT value FROM facts WHERE name = 'access') AS access,
    coalesce((SELECT value FROM facts WHERE name = 'last_run_before_access'), '0')::bigint AS last_run_before_access,
    coalesce((SELECT value FROM facts WHERE name = 'settle_ms'), '0')::float8 * interval '1 millisecond' AS settle,
    coalesce((SELECT value FROM facts WHERE name = 'full_sync_ms'), '0')::float8 AS full_sync_ms
), told AS (
  SELECT k.*, service.*,
    (SELECT in_sync_since FROM kind_state WHERE kind_state.kind = k.kind) AS since,
    -- Nothing read with the present credentials is nothing known: with no record there is nothing that could be wrong either.
    (SELECT read_at FROM kind_state s WHERE s.kind = k.kind AND (s.read_with = service.access
      OR (s.probed_with = service.access AND (SELECT live + outstanding FROM record_counts c WHERE c.kind = k.kind) = 0
        AND EXISTS (SELECT 1 FROM kind_state o WHERE o.read_with = service.access)))) AS readable_since,
    last.id AS last_full_sync,
    last.finished_at AS last_full_sync_at,
    round(extract(epoch FROM last.finished_at - last.started_at), 1) AS last_full_sync_seconds,
    last.seen AS listed,
    CASE WHEN last.id <= service.last_run_before_access THEN NULL
      WHEN k.unread_since IS NULL THEN last.started_at
      -- Of what became unverified before its end and still is, the full sync may have read another version than is held.
      ELSE (SELECT s.started_at FROM sync_runs s WHERE s.kind = k.kind AND s.outcome = 'complete'
        AND s.id > service.last_run_before_access AND s.finished_at < k.unread_since ORDER BY s.finished_at DESC LIMIT 1) END - service.settle AS complete_through,
    gap.*,
    -- Of a long backlog only its head is looked at: it then counts as every kind's.
    ((SELECT count FROM event_counts WHERE state = 'pending') > 1000 OR EXISTS (SELECT 1 FROM
      (SELECT events.kind AS about FROM events WHERE state = 'pending' ORDER BY seq LIMIT 1000) head WHERE about = k.kind OR about IS NULL)) AS backlog
  FROM kinds k CROSS JOIN service
  LEFT JOIN LATERAL (SELECT s.id, s.finished_at, s.started_at, s.seen FROM sync_runs s WHERE s.kind = k.kind AND s.outcome = 'complete' ORDER BY s.number DESC, s.id DESC LIMIT 1) last ON true
  CROSS JOIN LATERAL (SELECT coalesce(sum(open), 0)::bigint AS open_gaps,
    coalesce(sum(open) FILTER (WHERE g.reason IN ('credentials_rejected', 'deletions_unproven', 'unreadable_answer', 'unproven_id', 'trimmed_event')
      OR (g.reason IN ('no_record_id', 'restored') AND g.kind = 'risk_assessment')
      -- Once all are approved, nobody has to act: the next proof deletes them.
      OR (g.reason = 'deletion_pending' AND coalesce((SELECT min(coalesce(p.approved_until, '-infinity')) FROM pending_deletions p WHERE p.kind = k.kind), '-infinity')
        <= clock_timestamp())), 0) AS blocking_gaps,
    coalesce(sum(open) FILTER (WHERE g.reason NOT IN ('unresolved', 'unaddressable', 'failed_event', 'silence')), 0) AS pressing_gaps
    FROM gap_counts g WHERE g.kind IN (k.kind, '')) gap
), judged AS (
  SELECT *, CASE
    WHEN events_only THEN 'unverified'
    WHEN paused OR blocking_gaps > 0 THEN 'action_required'
    WHEN heartbeat IS NULL OR clock_timestamp() - heartbeat NOT BETWEEN interval '-60 seconds' AND interval '60 seconds' THEN 'stale'
    WHEN unreachable THEN 'unreachable'
    -- One that was never whole is overdue since the first that failed: a first one may take long.
    WHEN full_sync_ms > 0 AND clock_timestamp() - coalesce(last_full_sync_at, (SELECT s.started_at FROM sync_runs s WHERE s.kind = told.kind
      AND s.outcome IN ('failed', 'incomplete') ORDER BY s.id LIMIT 1)) > (2 * full_sync_ms + 600000) * interval '1 millisecond' THEN 'stale'
    -- What other credentials or another address have shown says nothing about what these show.
    WHEN readable_since IS NULL OR last_full_sync IS NULL OR last_full_sync <= last_run_before_access OR unverified > 0 OR backlog OR pressing_gaps > 0 THEN 'catching_up'
    ELSE 'in_sync' END AS verdict
  FROM told
)
-- What the next heartbeat is to note holds since now, as far as can be shown.
SELECT kind, verdict, CASE WHEN verdict = 'in_sync' THEN coalesce(since, date_trunc('milliseconds', clock_timestamp())) END AS in_sync_since, records, deleted, known, unverified,
  oldest_unverified_at, last_full_sync_at, last_full_sync_seconds, complete_through, readable_since, open_gaps,
  CASE WHEN events_only THEN 'payloads of events only' WHEN readable_since IS NULL THEN 'not read with the present credentials yet'
    WHEN last_full_sync <= last_run_before_access THEN 'not read in full with the present credentials yet'
    WHEN reach IS NOT NULL THEN reach
    WHEN listed IS NULL THEN 'what the API lists, not read in full yet'
    ELSE listed || ' listed by the API at the last full sync' END AS coverage
FROM judged ORDER BY kind;

--> statement-breakpoint
-- For the tools of analysts, which show them beside the columns; the words are those of docs/tables.md.
DO $$
DECLARE
  told record;
BEGIN
  FOR told IN SELECT * FROM (VALUES
    ('TABLE', 'changes', 'who changed what, when and why; rows are only added, in the order of commits'),
    ('TABLE', 'events', 'each accepted event and its state'),
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
    ('%', 'last_event_id', 'the last processed event about it'), ('%', 'last_event_at', 'the last processed event about it'),
    ('%', 'cause', 'what wrote the row: event:ID, refetch or sync:NUMBER'),
    ('%', 'change_seq', 'the seq of the change in changes that wrote its content'),
    ('%', 'provisional_created', 'internal: the time of the newest event whose payload is shown, milliseconds since 1970'),
    ('%', 'shown', 'internal: the fields from events that no read has confirmed yet'),
    ('sync_status', 'verdict', 'in_sync: the present credentials have read it, a complete full sync is recent enough, and nothing is outstanding. Otherwise why not'),
    ('sync_status', 'in_sync_since', 'begins again when a full sync finds a difference that no event had announced'),
    ('sync_status', 'unverified', 'records that are still to be read'),
    ('sync_status', 'last_full_sync_at', 'end of the last complete full sync'),
    ('sync_status', 'complete_through', 'everything that the service held at that moment is in the mirror'),
    ('sync_status', 'readable_since', 'since when the present credentials have been seen to read the kind'),
    ('sync_status', 'coverage', 'what the kind''s records are compared with: the API''s list, or the known ids only')
    ) AS d(relation, column_name, meaning) USING (column_name)
    WHERE c.table_schema = current_schema() AND CASE d.relation WHEN '%' THEN c.table_name ~ '^(current_)?(policies|risk_assessments|vendors)(_flat)?$'
      ELSE c.table_name = d.relation END
  LOOP
    EXECUTE format('COMMENT ON COLUMN %I.%I IS %L', told.table_name, told.column_name, told.meaning);
  END LOOP;
END $$;

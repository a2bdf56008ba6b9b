import { z } from '@hono/zod-openapi';
import { isKind, KINDS, type Kind } from '../../compliance/kinds.ts';
import { isUsableId, MAX_ID_LENGTH, recordIdOf } from '../../compliance/pointers.ts';
import { eventState, kind, listedOutcome } from '../../store/report-rows.ts';
import { PAGE_LIMIT_MAX } from '../../store/reports.ts';

const PAGE_LIMIT_DEFAULT = 50;
/** Seconds. Most proxies give up on an answer after a minute. */
const WAIT_MAX = 30;

/**
 * `owner.team=Legal`: the path to a field of a record, and its value. Names do not contain what has another meaning in
 * SQLite's paths.
 */
const FIELD_FILTER = /^[^\0\\"$[\]=.]+(?:\.[^\0\\"$[\]=.]+)*=/;

function readFieldFilter(text: string): { path: string[]; value: string } {
  const sign = text.indexOf('=');
  return { path: text.slice(0, sign).split('.'), value: text.slice(sign + 1) };
}

const limitWords = 'a whole number of at least 1';
const limit = z.coerce
  .number(limitWords)
  .int(limitWords)
  .min(1, limitWords)
  .default(PAGE_LIMIT_DEFAULT)
  .transform((wanted) => Math.min(wanted, PAGE_LIMIT_MAX))
  .describe(`More than ${PAGE_LIMIT_MAX} count as ${PAGE_LIMIT_MAX}. A page of large rows has fewer.`);
const flag = z.enum(['true', 'false']).transform((text) => text === 'true');
/** The id of a row that the database numbered. */
export const rowId = z
  .string()
  .regex(/^[1-9]\d{0,14}$/)
  .transform(Number)
  .openapi({ type: 'integer', minimum: 1 });
/** `after` of lists that are ordered by a number. */
export const numberCursor = z.string().regex(/^\d{1,15}$/, 'the value of `next` from the page before');
/** A number, with its epoch before it. Without an epoch, the present one is meant. */
const FEED_CURSOR = /^(?:([0-9a-z]{1,64})\.)?(\d{1,15})$/;
const feedCursor = z.string().regex(FEED_CURSOR, 'a `seq`, or the value of `next` from the page before');
const snapshotWords = 'the value of `next` from the page before, of the same snapshot';
const instantWords = 'an instant such as 2026-11-01T12:00:00Z';
/** In the years 1 to 9999: PostgreSQL knows no year 0, and as text a longer year sorts wrongly. */
const instant = z.iso
  .datetime({ offset: true, error: instantWords })
  .transform((text) => new Date(text).toISOString())
  .refine((text) => /^(?!0000)\d{4}-/.test(text), instantWords)
  .openapi({ type: 'string', format: 'date-time' });
const someWords = `a text of 1 to ${MAX_ID_LENGTH} characters`;
const some = z.string(someWords).min(1, someWords).max(MAX_ID_LENGTH, someWords);

const pagedByNumber = { limit, after: numberCursor.optional() };
const period = {
  since: instant.optional().describe('From then on.'),
  until: instant.optional().describe('Before then.'),
};

export const queries = {
  deliveries: z.strictObject({
    limit,
    // Deliveries are read from two tables, so their key has a number for each.
    after: z
      .string()
      .regex(/^\d{1,16}\.\d{1,16}$/, 'the value of `next` from the page before')
      .optional(),
    outcome: listedOutcome.optional(),
    state: eventState.optional().describe('Of accepted ones; `dismissed` also of quarantined ones.'),
    type: some.optional(),
    kind: kind.optional(),
    record_id: some.transform(recordIdOf).optional(),
    ...period,
    search: some
      .optional()
      .describe(
        'The id of events or of their record; if there are none, a part of the body, letter for letter.',
      ),
  }),
  records: z.strictObject({
    limit,
    after: some.optional(),
    search: some
      .refine((text) => !text.includes('\0'), 'a text without U+0000')
      .optional()
      .describe(
        'Ids that begin with it, and names that contain it: in names A to Z in either case, other letters as they are.',
      ),
    status: some.optional(),
    field: some
      .regex(FIELD_FILTER, 'a field and its value, such as owner.team=Legal')
      .transform(readFieldFilter)
      .optional()
      .openapi({ type: 'string', description: 'A field and its value, such as owner.team=Legal.' }),
    unverified: flag.optional(),
    deleted: flag.optional(),
    deletion_pending: flag.optional().describe('Gone from the service, and waiting for you.'),
    typed: flag
      .optional()
      .describe('With the typed columns of the view `…_flat`, with `at` of `…_history`, as in CSV.'),
    at: instant
      .optional()
      .describe('As they were then; without those that were deleted, unless `deleted` says otherwise.'),
  }),
  status: z.strictObject({
    at: instant.optional().describe('What was so then, with a digest of all records.'),
  }),
  changes: z.strictObject({
    limit,
    after: feedCursor.transform((text): FeedCursor => readFeedCursor(text)!).optional(),
    since: instant.optional().describe('Without `after`: begin with the changes from this instant.'),
    kind: kind.optional(),
    wait: z.coerce
      .number('a number of seconds')
      .min(0, 'a number of seconds')
      .default(0)
      .transform((wanted) => Math.min(wanted, WAIT_MAX))
      .openapi({
        type: 'number',
        minimum: 0,
        default: 0,
        description: `Seconds to wait for a change where there is none yet. More than ${WAIT_MAX} count as ${WAIT_MAX}.`,
      }),
  }),
  snapshot: z
    .strictObject({
      limit,
      kind: kind.optional(),
      // Before the id come an epoch, a number and a kind.
      after: z
        .string()
        .min(1)
        .max(MAX_ID_LENGTH + 100)
        .transform(readSnapshotCursor)
        .optional(),
    })
    .refine(({ kind, after }) => kind === undefined || after === undefined || after.kind === kind, {
      path: ['after'],
      error: snapshotWords,
    }),
  problems: z.strictObject({
    ...pagedByNumber,
    ...period,
    state: z.enum(['open', 'resolved', 'all']).default('open'),
  }),
  byNumber: z.strictObject(pagedByNumber),
  byPlace: z.strictObject({
    limit,
    after: some.regex(/^\d{1,9}$/, 'the value of `next` from the page before').optional(),
  }),
  byTime: z.strictObject({ ...pagedByNumber, ...period }),
};

export interface FeedCursor {
  seq: number;
  epoch: string | null;
}

/** Where the next page of a snapshot begins. `seq` is that of the first page: a follower starts from it. */
export interface SnapshotCursor extends FeedCursor {
  kind: Kind;
  id: string;
}

/** Null: the text is no cursor. */
function readFeedCursor(text: string): FeedCursor | null {
  const match = FEED_CURSOR.exec(text);
  return match === null ? null : { epoch: match[1] ?? null, seq: Number(match[2]) };
}

function readSnapshotCursor(text: string, context: z.RefinementCtx): SnapshotCursor {
  const [, where = '', kind = '', id = ''] = /^([^:]+):([a-z_]+):(.+)$/su.exec(text) ?? [];
  const cursor = readFeedCursor(where);
  if (cursor !== null && isKind(kind)) return { ...cursor, kind, id };
  context.addIssue(snapshotWords);
  return z.NEVER;
}

export const syncRequest = z.union(
  [
    z.strictObject({
      kinds: z
        .array(kind)
        .min(1)
        .max(KINDS.length)
        .optional()
        .describe('Full syncs of these. Absent: of all.'),
    }),
    z.strictObject({
      kind: kind.describe('Only these records of it are read.'),
      ids: z
        .array(some.refine(isUsableId, 'no record can have this id').transform(recordIdOf))
        .min(1)
        .max(PAGE_LIMIT_MAX),
    }),
  ],
  'it has `kinds`, or `kind` and `ids` that records can have',
);

export const resolveRequest = z.union(
  [
    z.strictObject({
      digest: some.describe('As /api/problems shows it: what it names is accepted, and nothing else.'),
    }),
    z.strictObject({
      find: z
        .literal(true)
        .describe(
          'For `unknown_record`: ask the API for what looks like an id in its events. A place that is proven is kept.',
        ),
    }),
  ],
  'it has `digest`, or `find`, which is true',
);

export const decision = z
  .strictObject({
    digest: some.describe('Names exactly the deletions that wait: SHA-256 of their ids.'),
  })
  .describe('Which records these are: /api/records/{kind}?deletion_pending=true');

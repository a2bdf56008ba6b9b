import type { Child } from 'hono/jsx';
import type { z } from 'zod';
import { isKind, type Kind } from '../../compliance/kinds.ts';
import { problem } from '../../platform/problem.ts';
import { type EventReport, type Paging, pendingDeletionKey } from '../../store/reports.ts';
import type { OpsHandlerContext } from '../access.ts';
import { type Aftermath, aftermathOf } from '../aftermath.ts';
import { nextKey } from '../api/answers.ts';
import { waitingIn } from '../attention.ts';
import type { OpsContext } from '../context.ts';
import { recordsCsv } from '../csv.ts';
import { pendingBySyncRun } from '../pending-deletions.ts';
import type { Snapshots } from '../snapshot.ts';
import { count, kindPlural } from '../words.ts';
import { AuditPage } from './audit-page.tsx';
import { DeliveriesPage } from './deliveries-page.tsx';
import type { DryRuns } from './dry-runs.ts';
import { EventPage } from './event-page.tsx';
import { EventsPage } from './events-page.tsx';
import { createNotices, type Notice, noticeOf, noticeOfEvent } from './form-outcome.ts';
import { GapsPage } from './gaps-page.tsx';
import { fragment, type PageName, Pages, page } from './layout.tsx';
import { NewRows, type Visit } from './pieces.tsx';
import {
  QuarantinedPage,
  QuarantinePage,
  RejectionPage,
  RejectionsPage,
} from './quarantine-and-rejections-pages.tsx';
import { eventHref, nextPath, PAGE_ROWS, pageQueries, pageQuery, rowNumber } from './query.ts';
import { RecordPage } from './record-page.tsx';
import { RecordsPage } from './records-page.tsx';
import { SyncRunPage } from './sync-run-page.tsx';
import { SyncRunsPage, SyncRunsParts } from './sync-runs-page.tsx';

/** Ids of pending deletions on one page: they stand close together. */
const PENDING_SHOWN = 200;

/** Of its record, after an event was accepted: its own is one of the first, but where very many waited with it. */
const CHANGES_LOOKED_AT = 200;

const KINDS_ARE = 'Kinds are policy, risk_assessment and vendor.';

/** A list's page, and what its rows are called. */
interface RowWords {
  current: PageName;
  one: string;
  many: string;
  href: string;
}

type Query<Name extends keyof typeof pageQueries> = z.output<(typeof pageQueries)[Name]>;

/** The pages that list what is stored, and show one thing of it. Reading only. */
export function createListPages(context: OpsContext, snapshots: Snapshots, dryRuns: DryRuns) {
  const { store, clock } = context;
  const notices = createNotices(context);
  const visit = async (c: OpsHandlerContext, notice: Notice | null): Promise<Visit> => ({
    ...{ identity: c.get('identity'), now: clock.wall(), notice },
    waiting: waitingIn(await snapshots.current()),
  });
  const html = async (c: OpsHandlerContext, content: Child, say = noticeOf) => {
    const outcome = notices.take(c);
    return c.html(page(content, await visit(c, outcome && say(outcome))));
  };
  const paging = (after: string | undefined): Paging => ({ limit: PAGE_ROWS, after });
  /** Links to what follows, and back to the first page where this is another. */
  const links = (c: OpsHandlerContext, after: string | number | null) => ({
    next: nextPath(c, after),
    first: firstPath(c),
  });

  /** The page that `make` makes of its query; what it answers itself, as that something is missing, is left as it is. */
  const paged =
    <Query,>(
      schema: z.ZodType<Query>,
      make: (c: OpsHandlerContext, query: Query) => Promise<Child | Response>,
    ) =>
    async (c: OpsHandlerContext): Promise<Response> => {
      const query = pageQuery(c, schema);
      if (!query.ok) return query.response;
      const made = await make(c, query.value);
      return made instanceof Response ? made : html(c, made);
    };

  /** What a list's page is told: how many rows have come to it since it was made. */
  const newRows = async (
    c: OpsHandlerContext,
    { current, one, many, href }: RowWords,
    found: number,
    more: boolean,
  ): Promise<string> => {
    const words = found === 0 ? null : `${count(found, one, many)}${more ? ' and more' : ''}`;
    const parts = (
      <>
        <Pages current={current} />
        <NewRows {...{ words, href }} />
      </>
    );
    return fragment(parts, await visit(c, null));
  };

  /** The same, of a list whose rows have numbers: those of its first page, the newest first. */
  const newAbove = (c: OpsHandlerContext, words: RowWords, numbers: readonly number[], above: number) => {
    const found = numbers.filter((number) => number > above).length;
    return newRows(c, words, found, found === PAGE_ROWS);
  };

  const newOf =
    (words: RowWords, list: (paging: Paging) => Promise<readonly { id: number }[]>) =>
    async (c: OpsHandlerContext, { above }: Query<'newRows'>): Promise<string> => {
      const rows = await list({ limit: PAGE_ROWS });
      return newAbove(
        c,
        words,
        rows.map(({ id }) => id),
        above,
      );
    };

  async function showEvent(c: OpsHandlerContext, id: string): Promise<Response> {
    const event = await store.showEvent(id);
    if (event === null) return missing('There is no event of this id.');
    return html(
      c,
      <EventPage
        {...{ event, aftermath: await aftermath(event), receiver: context.receiver }}
        tookMs={context.answerTimes.of({ ...event, outcome: 'accepted', event_id: event.id })}
        here={eventHref(id)}
      />,
      (outcome) => noticeOfEvent(outcome, event),
    );
  }

  async function aftermath(event: EventReport): Promise<Aftermath | null> {
    const { kind, record_id, seq } = event;
    if (kind === null || record_id === null) return null;
    const [later, record] = await Promise.all([
      store.recordChangesAfter(kind, record_id, seq, CHANGES_LOOKED_AT),
      store.showRecord(kind, record_id),
    ]);
    return aftermathOf(event, later, record);
  }

  async function showRecord(c: OpsHandlerContext, kind: Kind, id: string): Promise<Response> {
    const query = pageQuery(c, pageQueries.byNumber.extend({ id: pageQueries.records.shape.id }));
    if (!query.ok) return query.response;
    const record = await store.showRecord(kind, id);
    if (record === null) return missing('There is no record of this kind and id.');
    const changes = await store.recordHistory(kind, id, paging(query.value.after));
    return html(
      c,
      <RecordPage
        {...{ kind, record, changes }}
        eventsOnly={context.facts().eventsOnly}
        {...links(
          c,
          nextKey(changes, PAGE_ROWS, (change) => change.seq),
        )}
      />,
    );
  }

  const listRecords = (c: OpsHandlerContext, kind: Kind) =>
    paged(pageQueries.records, async (c, { after, id: _, order, ...filter }) => {
      const [found, statuses, { summary }] = await Promise.all([
        store.listRecords(kind, filter, { ...paging(after), order }),
        store.listStatuses(kind),
        snapshots.current(),
      ]);
      return (
        <RecordsPage
          {...{ kind, filter, order, statuses, records: found.items, searchedTo: found.searched_to }}
          kinds={summary?.kinds ?? []}
          csv={`/download${sameQuery(c)}`}
          {...links(c, found.next)}
        />
      );
    })(c);

  const syncRunsView = async (c: OpsHandlerContext, after: string | undefined) => {
    const syncRuns = await store.listSyncRuns(paging(after));
    return {
      ...{ syncRuns, snapshot: await snapshots.current(), dryRun: dryRuns.current() },
      ...links(c, nextId(syncRuns)),
    };
  };

  return {
    events: paged(pageQueries.events, async (c, { after, id, ...filter }) => {
      if (id !== undefined) return showEvent(c, id);
      const { record_id: recordId, ...rest } = filter;
      const found = await store.listEvents({ ...rest, recordId }, paging(after));
      const url = new URL(c.req.url);
      const above = String(found.items[0]?.seq ?? 0);
      return (
        <EventsPage
          {...{ filter, events: found.items, lookedBackTo: found.looked_back_to }}
          here={`${url.pathname}${url.search}`}
          stream={after === undefined ? pathWith('/stream/events', { ...filter, above }) : null}
          {...links(c, found.next)}
        />
      );
    }),

    deliveries: paged(pageQueries.deliveries, async (c, { after, ...filter }) => {
      const found = await store.listDeliveries(filter, paging(after));
      const isNewest = after === undefined && filter.until === undefined;
      return (
        <DeliveriesPage
          {...{ filter, deliveries: found.items, lookedBackTo: found.looked_back_to }}
          answerTimes={context.answerTimes}
          stream={isNewest ? pathWith('/stream/deliveries', { ...filter, above: found.newest }) : null}
          {...links(c, found.next)}
        />
      );
    }),

    async newDeliveries(c: OpsHandlerContext, { above, ...filter }: Query<'newDeliveries'>): Promise<string> {
      const { items, next } = await store.listDeliveries(filter, { limit: PAGE_ROWS, above });
      const href = pathWith('/deliveries', filter);
      const words = { current: 'Deliveries', one: 'new delivery', many: 'new deliveries', href } as const;
      return newRows(c, words, items.length, next !== null);
    },

    async newEvents(c: OpsHandlerContext, { above, ...filter }: Query<'newEvents'>): Promise<string> {
      const { record_id: recordId, ...rest } = filter;
      const { items } = await store.listEvents({ ...rest, recordId }, { limit: PAGE_ROWS });
      const href = pathWith('/events', filter);
      return newAbove(
        c,
        { current: 'Events', one: 'new event', many: 'new events', href },
        items.map(({ seq }) => seq),
        above,
      );
    },

    newGaps: newOf({ current: 'Gaps', one: 'new gap', many: 'new gaps', href: '/gaps' }, (paging) =>
      store.listGaps({ open: true }, paging),
    ),
    newQuarantined: newOf(
      { current: 'Quarantine', one: 'new delivery', many: 'new deliveries', href: '/quarantine' },
      (paging) => store.listQuarantine(paging),
    ),
    newRejections: newOf(
      { current: 'Rejections', one: 'new rejection', many: 'new rejections', href: '/rejections' },
      (paging) => store.listRejections(paging),
    ),

    event: (c: OpsHandlerContext) => showEvent(c, c.req.param('id') ?? ''),

    async records(c: OpsHandlerContext): Promise<Response> {
      const kind = c.req.param('kind') ?? '';
      if (!isKind(kind)) return missing(KINDS_ARE);
      const id = c.req.query('id');
      return id ? showRecord(c, kind, id) : listRecords(c, kind);
    },

    async download(c: OpsHandlerContext): Promise<Response> {
      const kind = c.req.param('kind') ?? '';
      if (!isKind(kind)) return missing(KINDS_ARE);
      const query = pageQuery(c, pageQueries.records);
      if (!query.ok) return query.response;
      const { after: _, id: __, order, ...filter } = query.value;
      return new Response(recordsCsv(context, kind, filter, order), {
        headers: {
          'content-type': 'text/csv; charset=utf-8',
          'content-disposition': `attachment; filename="${kindPlural(kind).replaceAll(' ', '-')}.csv"`,
        },
      });
    },

    async record(c: OpsHandlerContext): Promise<Response> {
      const kind = c.req.param('kind') ?? '';
      if (!isKind(kind)) return missing(KINDS_ARE);
      return showRecord(c, kind, c.req.param('id') ?? '');
    },

    gaps: paged(pageQueries.gaps, async (c, { show, after }) => {
      const gaps = await store.listGaps({ open: show === 'open' }, paging(after));
      return (
        <GapsPage
          {...{ show, gaps }}
          eventsOnly={context.facts().eventsOnly}
          stream={show === 'open' ? streamOf(c, '/stream/gaps', gaps) : null}
          {...links(c, nextId(gaps))}
        />
      );
    }),

    syncRuns: paged(pageQueries.byNumber, async (c, { after }) => (
      <SyncRunsPage {...(await syncRunsView(c, after))} />
    )),

    async syncRunsParts(c: OpsHandlerContext) {
      const view = await syncRunsView(c, undefined);
      const parts = (
        <>
          <SyncRunsParts {...view} />
          <Pages current="Sync runs" />
        </>
      );
      return fragment(parts, await visit(c, null));
    },

    syncRun: paged(pageQueries.deletions, async (c, { after }) => {
      const id = rowNumber(c.req.param('id'));
      const syncRun = id === null ? null : await store.showSyncRun(id);
      if (syncRun === null) return missing('There is no full sync of this number.');
      const [pending] = await pendingBySyncRun(store, clock.wall(), syncRun.id);
      const page = { limit: PENDING_SHOWN, after };
      const shown =
        pending === undefined ? [] : await store.listPendingDeletions({ syncRunId: syncRun.id }, page);
      const running = context.facts().runningSyncRuns.find((each) => each.id === syncRun.id) ?? null;
      return (
        <SyncRunPage
          {...{ syncRun, running }}
          pending={pending === undefined ? null : { ...pending, shown }}
          {...links(c, nextKey(shown, PENDING_SHOWN, pendingDeletionKey))}
        />
      );
    }),

    quarantine: paged(pageQueries.byNumber, async (c, { after }) => {
      const rows = await store.listQuarantine(paging(after));
      const stream = streamOf(c, '/stream/quarantine', rows);
      return <QuarantinePage {...{ rows, stream }} {...links(c, nextId(rows))} />;
    }),

    async quarantined(c: OpsHandlerContext): Promise<Response> {
      const id = rowNumber(c.req.param('id'));
      const delivery = id === null ? null : await store.showQuarantined(id);
      if (id === null || delivery === null)
        return missing('There is no delivery of this number in quarantine.');
      const body = await store.readQuarantinedBody(id);
      return html(c, <QuarantinedPage {...{ delivery, body, receiver: context.receiver }} />);
    },

    rejections: paged(pageQueries.byNumber, async (c, { after }) => {
      const rows = await store.listRejections(paging(after));
      const stream = streamOf(c, '/stream/rejections', rows);
      return <RejectionsPage {...{ rows, stream }} {...links(c, nextId(rows))} />;
    }),

    async rejection(c: OpsHandlerContext): Promise<Response> {
      const id = rowNumber(c.req.param('id'));
      const rejection = id === null ? null : await store.readRejection(id);
      if (id === null || rejection === null)
        return missing('This rejection is not kept any more, or never was.');
      const diagnosis = await context.diagnose(id);
      const { receiver } = context;
      return html(c, <RejectionPage {...{ diagnosis, receiver, rejection: { id, ...rejection } }} />);
    },

    audit: paged(pageQueries.byNumber, async (c, { after }) => {
      const rows = await store.listAudit(paging(after));
      return <AuditPage rows={rows} {...links(c, nextId(rows))} />;
    }),
  };
}

const nextId = (rows: readonly { id: number }[]) => nextKey(rows, PAGE_ROWS, (row) => row.id);

function pathWith(path: string, filter: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(filter).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

/** Where the newest page of a list is told of what comes; null: it is another page. */
function streamOf(c: OpsHandlerContext, path: string, rows: readonly { id: number }[]): string | null {
  return firstPath(c) === null ? pathWith(path, { above: String(rows[0]?.id ?? 0) }) : null;
}

/** The same page from its first row on; null: this is it. */
function firstPath(c: OpsHandlerContext): string | null {
  const { pathname, searchParams } = new URL(c.req.url);
  if (!searchParams.has('after')) return null;
  searchParams.delete('after');
  return searchParams.size === 0 ? pathname : `${pathname}?${searchParams}`;
}

/** The same filter, from its first row on. */
function sameQuery(c: OpsHandlerContext): string {
  return firstPath(c) ?? new URL(c.req.url).pathname + new URL(c.req.url).search;
}

function missing(detail: string): Response {
  return problem(404, 'not_found', 'It is not here.', detail);
}

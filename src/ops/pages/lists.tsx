import { isKind, type Kind } from '../../compliance/kinds.ts';
import { problem } from '../../platform/problem.ts';
import { type Paging, pendingDeletionKey } from '../../store/reports.ts';
import type { OpsHandlerContext } from '../access.ts';
import type { OpsContext } from '../context.ts';
import { pendingBySyncRun } from '../pending-deletions.ts';
import type { Snapshots } from '../snapshot.ts';
import { AuditPage } from './audit-page.tsx';
import { DeliveriesPage } from './deliveries-page.tsx';
import { QuarantinedPage, QuarantinePage, RejectionPage, RejectionsPage } from './deliveries-pages.tsx';
import type { DryRuns } from './dry-runs.ts';
import { EventPage } from './event-page.tsx';
import { EventsPage } from './events-page.tsx';
import { GapsPage } from './gaps-page.tsx';
import { eventHref } from './hrefs.ts';
import { page } from './layout.tsx';
import { nextPath, PAGE_ROWS, pageQueries, pageQuery, TOLD } from './query.ts';
import { RecordPage } from './record-page.tsx';
import { RecordsPage } from './records-page.tsx';
import { SyncRunPage } from './sync-run-page.tsx';
import { SyncRunsPage, SyncRunsParts } from './sync-runs-page.tsx';
import { toldText } from './told.ts';

/** Ids of pending deletions on one page: they stand close together. */
const PENDING_SHOWN = 200;

/** The pages that list what is stored, and show one thing of it. Reading only. */
export function createListPages(context: OpsContext, snapshots: Snapshots, dryRuns: DryRuns) {
  const { store, clock } = context;
  const shared = (c: OpsHandlerContext) => ({
    identity: c.get('identity'),
    now: clock.wall(),
    told: toldText(c.req.query(TOLD)),
  });
  const paging = (after: string | undefined): Paging => ({ limit: PAGE_ROWS, after });
  /** Links to what follows, and back to the first page where this is another. */
  const links = <Row,>(c: OpsHandlerContext, rows: readonly Row[], key: (row: Row) => string | number) => {
    const last = rows.length < PAGE_ROWS ? undefined : rows.at(-1);
    return { next: nextPath(c, last === undefined ? null : key(last)), first: firstPath(c) };
  };

  async function showEvent(c: OpsHandlerContext, id: string): Promise<Response> {
    const event = await store.showEvent(id);
    if (event === null) return missing('There is no event of this id.');
    return c.html(page(<EventPage event={event} here={eventHref(id)} {...shared(c)} />));
  }

  async function showRecord(c: OpsHandlerContext, kind: Kind, id: string): Promise<Response> {
    const query = pageQuery(c, pageQueries.byNumber.extend({ id: pageQueries.records.shape.id }));
    if (!query.ok) return query.response;
    const record = await store.showRecord(kind, id);
    if (record === null) return missing('There is no record of this kind and id.');
    const changes = await store.recordHistory(kind, id, paging(query.value.after));
    return c.html(
      page(
        <RecordPage
          {...{ kind, record, changes }}
          eventsOnly={context.facts().eventsOnly}
          {...shared(c)}
          {...links(c, changes, (change) => change.seq)}
        />,
      ),
    );
  }

  const syncRunsView = async (c: OpsHandlerContext, after: string | undefined) => {
    const syncRuns = await store.listSyncRuns(paging(after));
    return {
      ...{ syncRuns, snapshot: await snapshots.current(), dryRun: dryRuns.current() },
      ...shared(c),
      ...links(c, syncRuns, (syncRun) => syncRun.id),
    };
  };

  return {
    async events(c: OpsHandlerContext): Promise<Response> {
      const query = pageQuery(c, pageQueries.events);
      if (!query.ok) return query.response;
      const { after, id, ...filter } = query.value;
      if (id !== undefined) return showEvent(c, id);
      const { record_id: recordId, ...rest } = filter;
      const found = await store.listEvents({ ...rest, recordId }, paging(after));
      const url = new URL(c.req.url);
      url.searchParams.delete(TOLD);
      return c.html(
        page(
          <EventsPage
            {...{ filter, events: found.items, lookedBackTo: found.looked_back_to }}
            here={`${url.pathname}${url.search}`}
            {...shared(c)}
            next={nextPath(c, found.next)}
            first={firstPath(c)}
          />,
        ),
      );
    },

    async deliveries(c: OpsHandlerContext): Promise<Response> {
      const query = pageQuery(c, pageQueries.deliveries);
      if (!query.ok) return query.response;
      const { after, ...filter } = query.value;
      const found = await store.listDeliveries(filter, paging(after));
      return c.html(
        page(
          <DeliveriesPage
            {...{ filter, deliveries: found.items, lookedBackTo: found.looked_back_to }}
            {...shared(c)}
            next={nextPath(c, found.next)}
            first={firstPath(c)}
          />,
        ),
      );
    },

    event: (c: OpsHandlerContext) => showEvent(c, c.req.param('id') ?? ''),

    async records(c: OpsHandlerContext): Promise<Response> {
      const kind = c.req.param('kind') ?? '';
      if (!isKind(kind)) return missing('Kinds are policy, risk_assessment and vendor.');
      const id = c.req.query('id');
      if (id !== undefined && id !== '') return showRecord(c, kind, id);
      const query = pageQuery(c, pageQueries.records);
      if (!query.ok) return query.response;
      const { after, id: _, ...filter } = query.value;
      const records = await store.listRecords(kind, filter, paging(after));
      return c.html(
        page(
          <RecordsPage
            {...{ kind, filter, records }}
            {...shared(c)}
            {...links(c, records, (record) => record.id)}
          />,
        ),
      );
    },

    async record(c: OpsHandlerContext): Promise<Response> {
      const kind = c.req.param('kind') ?? '';
      if (!isKind(kind)) return missing('Kinds are policy, risk_assessment and vendor.');
      return showRecord(c, kind, c.req.param('id') ?? '');
    },

    async gaps(c: OpsHandlerContext): Promise<Response> {
      const query = pageQuery(c, pageQueries.gaps);
      if (!query.ok) return query.response;
      const { show, after } = query.value;
      const gaps = await store.listGaps({ open: show === 'open' }, paging(after));
      return c.html(
        page(
          <GapsPage
            {...{ show, gaps }}
            eventsOnly={context.facts().eventsOnly}
            {...shared(c)}
            {...links(c, gaps, (gap) => gap.id)}
          />,
        ),
      );
    },

    async syncRuns(c: OpsHandlerContext): Promise<Response> {
      const query = pageQuery(c, pageQueries.byNumber);
      if (!query.ok) return query.response;
      return c.html(page(<SyncRunsPage {...(await syncRunsView(c, query.value.after))} />));
    },

    syncRunsParts: async (c: OpsHandlerContext) =>
      String(<SyncRunsParts {...(await syncRunsView(c, undefined))} />),

    async syncRun(c: OpsHandlerContext): Promise<Response> {
      const query = pageQuery(c, pageQueries.deletions);
      if (!query.ok) return query.response;
      const id = numbered(c);
      const syncRun = id === null ? null : await store.showSyncRun(id);
      if (syncRun === null) return missing('There is no full sync of this number.');
      const [pending] = await pendingBySyncRun(store, clock.wall(), syncRun.id);
      const shown =
        pending === undefined
          ? []
          : await store.listPendingDeletions(
              { syncRunId: syncRun.id },
              { limit: PENDING_SHOWN, after: query.value.after },
            );
      const running = context.facts().runningSyncRuns.find((each) => each.id === syncRun.id) ?? null;
      return c.html(
        page(
          <SyncRunPage
            {...{ syncRun, running }}
            pending={pending === undefined ? null : { ...pending, shown }}
            {...shared(c)}
            next={nextPath(c, shown.length < PENDING_SHOWN ? null : pendingDeletionKey(shown.at(-1)!))}
            first={firstPath(c)}
          />,
        ),
      );
    },

    async quarantine(c: OpsHandlerContext): Promise<Response> {
      const query = pageQuery(c, pageQueries.byNumber);
      if (!query.ok) return query.response;
      const rows = await store.listQuarantine(paging(query.value.after));
      return c.html(page(<QuarantinePage rows={rows} {...shared(c)} {...links(c, rows, (row) => row.id)} />));
    },

    async quarantined(c: OpsHandlerContext): Promise<Response> {
      const id = numbered(c);
      const delivery = id === null ? null : await store.showQuarantined(id);
      if (id === null || delivery === null)
        return missing('There is no delivery of this number in quarantine.');
      const body = await store.readQuarantinedBody(id);
      return c.html(page(<QuarantinedPage {...{ delivery, body }} {...shared(c)} />));
    },

    async rejections(c: OpsHandlerContext): Promise<Response> {
      const query = pageQuery(c, pageQueries.byNumber);
      if (!query.ok) return query.response;
      const rows = await store.listRejections(paging(query.value.after));
      return c.html(page(<RejectionsPage rows={rows} {...shared(c)} {...links(c, rows, (row) => row.id)} />));
    },

    async rejection(c: OpsHandlerContext): Promise<Response> {
      const id = numbered(c);
      const rejection = id === null ? null : await store.readRejection(id);
      if (id === null || rejection === null)
        return missing('This rejection is not kept any more, or never was.');
      const diagnosis = await context.diagnose(id);
      return c.html(
        page(<RejectionPage rejection={{ id, ...rejection }} diagnosis={diagnosis} {...shared(c)} />),
      );
    },

    async audit(c: OpsHandlerContext): Promise<Response> {
      const query = pageQuery(c, pageQueries.byNumber);
      if (!query.ok) return query.response;
      const rows = await store.listAudit(paging(query.value.after));
      return c.html(page(<AuditPage rows={rows} {...shared(c)} {...links(c, rows, (row) => row.id)} />));
    },
  };
}

/** The same page from its first row on; null: this is it. */
function firstPath(c: OpsHandlerContext): string | null {
  const { pathname, searchParams } = new URL(c.req.url);
  if (!searchParams.has('after')) return null;
  searchParams.delete('after');
  searchParams.delete(TOLD);
  return searchParams.size === 0 ? pathname : `${pathname}?${searchParams}`;
}

function numbered(c: OpsHandlerContext): number | null {
  const text = c.req.param('id') ?? '';
  return /^[1-9]\d{0,14}$/.test(text) ? Number(text) : null;
}

function missing(detail: string): Response {
  return problem(404, 'not_found', 'It is not here.', detail);
}

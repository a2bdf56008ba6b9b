import { z } from 'zod';
import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import { isAllowed, MACHINES } from '../machines.ts';
import type { Grants } from '../oauth/grants.ts';
import type { OauthOptions } from '../options.ts';
import { recordId } from '../records.ts';
import type { Registrations } from '../registrations.ts';
import type { Scenarios } from '../scenarios.ts';
import type { ScaledTimers } from '../time.ts';
import type { Settings, Upstream } from '../upstream.ts';

export interface PageParts {
  upstream: Upstream;
  registrations: Registrations;
  settings: Settings;
  /** What undoes every change of them. */
  atStart: Readonly<Settings>;
  scenarios: Scenarios;
  timers: ScaledTimers;
  oauth: OauthOptions;
  grants: Grants;
  seedNumber: number;
}

const ROWS_PER_PAGE = 10;
const DELIVERIES_SHOWN = 15;
const GRANTS_SHOWN = 10;
const MAX_SEARCH_LENGTH = 200;

/** What part of the whole a browser looks at. Anything unreadable in it stands for its default. */
export const viewSchema = z.object({
  kind: z.enum(KINDS).catch('policy'),
  q: z.string().max(MAX_SEARCH_LENGTH).catch(''),
  page: z.coerce.number().int().min(1).catch(1),
});
export type View = z.infer<typeof viewSchema>;

export type PageModel = ReturnType<typeof pageModel>;
export type RecordRow = PageModel['rows'][number];

export function pageModel(parts: PageParts, view: View) {
  const { upstream, registrations, settings, scenarios, timers, oauth, grants } = parts;
  const { state, deliveries } = upstream;
  const matching = state.list(view.kind).filter((record) => matches(view.kind, record, view.q));
  const pages = Math.max(1, Math.ceil(matching.length / ROWS_PER_PAGE));
  const page = Math.min(view.page, pages);
  const shown = matching.toReversed().slice((page - 1) * ROWS_PER_PAGE, page * ROWS_PER_PAGE);
  return {
    view: { ...view, page },
    counts: Object.fromEntries(KINDS.map((kind) => [kind, state.count(kind)])) as Record<Kind, number>,
    rows: shown.map((record) => rowOf(view.kind, record)),
    pages,
    found: matching.length,
    deliveries: deliveries.log.list().slice(-DELIVERIES_SHOWN).toReversed(),
    open: deliveries.open,
    registrations: registrations.list(),
    faults: settings.faults,
    shapes: settings.shapes,
    lively: scenarios.status.lively !== null,
    timeScale: timers.scale,
    application: { id: oauth.application.id, redirectUri: oauth.application.redirectUri },
    serviceAccounts: oauth.serviceAccounts.map(({ id, scopes }) => ({ id, scopes })),
    accessTokenSeconds: grants.accessTokenSeconds,
    grants: grants.list().slice(-GRANTS_SHOWN).toReversed(),
    seedNumber: parts.seedNumber,
  };
}

function matches(kind: Kind, record: JsonObject, search: string): boolean {
  const text = `${recordId(kind, record)} ${String(record.name ?? '')} ${String(record.status ?? '')}`;
  return text.toLowerCase().includes(search.trim().toLowerCase());
}

function rowOf(kind: Kind, record: JsonObject) {
  const text = (value: unknown) => (typeof value === 'string' || typeof value === 'number' ? `${value}` : '');
  return {
    id: recordId(kind, record),
    name: text(record.name) || '(no name)',
    status: text(record.status) || '(none)',
    version: kind === 'policy' ? text(record.version) : null,
    record,
    /** Those that its status allows. */
    operations: Object.entries(MACHINES[kind].operations)
      .filter(([, operation]) => operation.effect !== 'create' && isAllowed(operation, record.status))
      .map(([name, { effect, event }]) => ({ name, effect, event })),
  };
}

import { Hono } from 'hono';
import { KINDS } from '../../compliance/kinds.ts';
import { acceptsPage, type OpsEnv, type OpsHandlerContext } from '../access.ts';
import type { OpsContext } from '../context.ts';
import type { Snapshots } from '../status.ts';
import { auditList } from './audit.tsx';
import { deliveriesList } from './deliveries.tsx';
import { deliveryPage } from './delivery-page.tsx';
import { takeNotice } from './forms.ts';
import { type Content, Frame, page } from './layout.tsx';
import { listPage } from './list-page.tsx';
import { overview } from './overview.tsx';
import type { Visit } from './pieces.tsx';
import { recordPage } from './record-page.tsx';
import { recordsList } from './records.tsx';
import { syncPage, syncsList } from './syncs.tsx';

/**
 * The addresses of the pages. A page is a function from a request to its content; this file makes the
 * answer. Every request here is already authenticated.
 */
export function createPages(context: OpsContext, snapshots: Snapshots): Hono<OpsEnv> {
  const pages = new Hono<OpsEnv>();

  const visit = async (c: OpsHandlerContext): Promise<Visit> => {
    const { status } = await snapshots.current();
    const waiting = status.problems.filter(({ needs }) => needs === 'you').length;
    // The script of an open page, which asks without accepting a page, must not take what is meant for the next one.
    const notice = acceptsPage(c) ? takeNotice(c, context.publicUrl) : null;
    return { identity: c.get('identity'), now: context.clock.wall(), notice, waiting };
  };

  const addPage = (path: string, contentOf: (c: OpsHandlerContext) => Promise<Content>) =>
    pages.get(path, async (c) => {
      const content = await contentOf(c);
      return c.html(page(<Frame {...content} />, await visit(c)));
    });

  addPage('/', overview(snapshots));
  addPage('/deliveries', listPage(deliveriesList(context)));
  addPage('/deliveries/:id', (c) => deliveryPage(context, c));
  for (const kind of KINDS) {
    addPage(`/records/${kind}`, listPage(recordsList(context, kind)));
    addPage(`/records/${kind}/:id`, (c) => recordPage(context, kind, c));
  }
  addPage('/syncs', listPage(syncsList(context)));
  addPage('/syncs/:id', (c) => syncPage(context, c));
  addPage('/audit', listPage(auditList(context)));

  return pages;
}

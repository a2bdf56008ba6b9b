import type { Child } from 'hono/jsx';
import type { z } from 'zod';
import type { OpsHandlerContext } from '../access.ts';
import { waitingIn } from '../attention.ts';
import type { OpsContext } from '../context.ts';
import type { Snapshots } from '../snapshot.ts';
import { createNotices, type Notice, noticeOf } from './form-outcome.ts';
import { fragment, type PageName, Pages, page } from './layout.tsx';
import type { Visit } from './pieces.tsx';
import { pageQuery } from './query.ts';

/** How all pages answer. */
export function createAnswers(context: Pick<OpsContext, 'clock' | 'publicUrl'>, snapshots: Snapshots) {
  const notices = createNotices(context);
  const visit = async (c: OpsHandlerContext, notice: Notice | null): Promise<Visit> => ({
    ...{ identity: c.get('identity'), now: context.clock.wall(), notice },
    waiting: waitingIn(await snapshots.current()),
  });
  const html = async (c: OpsHandlerContext, content: Child, noticeFor = noticeOf): Promise<Response> => {
    const outcome = notices.take(c);
    return c.html(page(content, await visit(c, outcome && noticeFor(outcome))));
  };
  return {
    html,

    /** What a page's stream sends: the parts that change, and the navigation with its counts. */
    async parts(c: OpsHandlerContext, current: PageName, content: Child): Promise<string> {
      const parts = (
        <>
          {content}
          <Pages current={current} />
        </>
      );
      return fragment(parts, await visit(c, null));
    },

    /** Reads the query, and answers with the page that `make` returns. */
    paged:
      <Query,>(schema: z.ZodType<Query>, make: (c: OpsHandlerContext, query: Query) => Promise<Child>) =>
      async (c: OpsHandlerContext): Promise<Response> =>
        html(c, await make(c, pageQuery(c, schema))),
  };
}

export type Answers = ReturnType<typeof createAnswers>;

import type { MiddlewareHandler } from 'hono';
import { PROBLEM_CONTENT_TYPE } from '../../platform/problem.ts';
import { acceptsPage, type OpsEnv } from '../access.ts';
import type { OpsContext } from '../context.ts';
import { Frame, page } from './layout.tsx';
import { Title } from './pieces.tsx';

/** A person's browser gets a problem as a page; a program, and whatever asks the API, as it is. */
export function problemPages({ clock }: Pick<OpsContext, 'clock'>): MiddlewareHandler<OpsEnv> {
  return async function problemPages(c, next) {
    await next();
    const { res } = c;
    if (res.headers.get('content-type') !== PROBLEM_CONTENT_TYPE) return;
    if (!acceptsPage(c) || c.req.path.startsWith('/api/')) return;
    const { title, detail } = (await res.json()) as { title: string; detail?: string };
    const identity = c.get('identity') ?? null;
    const content = <ProblemPage title={title} status={res.status} detail={detail ?? null} />;
    const visit = { identity, now: clock.wall(), notice: null, waiting: null };
    const headers = new Headers(res.headers);
    headers.set('content-type', 'text/html; charset=utf-8');
    c.res = undefined;
    c.res = new Response(page(content, visit), { status: res.status, headers });
  };
}

/** An error, for a person: the same words as the problem that a program gets. */
function ProblemPage({ status, title, detail }: { status: number; title: string; detail: string | null }) {
  return (
    <Frame title={title} current={null}>
      <Title note={detail}>{title}</Title>
      <p class="note">
        {status === 401 ? <a href="/sign-in">Sign in</a> : <a href="/">To the status page</a>}
      </p>
    </Frame>
  );
}

import { setTimeout as sleep } from 'node:timers/promises';
import { type Context, Hono } from 'hono';
import { streamSSE } from 'hono/streaming';
import { requireOwnOrigin } from '../access.ts';
import { actOnForm, type SandboxParts } from '../controls.ts';
import { Problem, toProblem } from '../problems.ts';
import { queryOf, type View, viewSchema } from './forms.tsx';
import { Layout, pageHeaders } from './layout.tsx';
import { DeliveriesPart, FaultsPart, RegistrationsPart, ScenariosPart, ShapesPart } from './parts.tsx';
import { RecordsPart } from './records-part.tsx';

/** How often an open page is updated. */
const LOOK_MS = 500;
/** Each open page has a connection and is drawn again at every interval. */
const MAX_STREAMS = 16;

/** The page at the root, the address of its forms, and the stream that keeps it up to date. */
export function pageRoutes(parts: SandboxParts, stopping: AbortSignal): Hono {
  const routes = new Hono();
  let streams = 0;
  const headers = pageHeaders();
  for (const path of ['/', '/act', '/parts']) routes.use(path, headers);

  const shown = (c: Context) => ({ parts, view: viewSchema.parse(c.req.query()) });

  routes.get('/', (c) => c.html(<SandboxPage {...shown(c)} notice={null} />));

  routes.post('/act', requireOwnOrigin, async (c) => {
    try {
      await actOnForm(parts, await fieldsIn(c));
    } catch (error) {
      const problem = toProblem(error);
      if (problem.status >= 500) throw error;
      return c.html(<SandboxPage {...shown(c)} notice={problem.message} />, problem.status);
    }
    return c.redirect(`/${new URL(c.req.url).search}`, 303);
  });

  routes.get('/parts', (c) => {
    if (streams >= MAX_STREAMS) throw new Problem(503, 'too_many_streams', 'Too many pages are open.');
    streams += 1;
    c.header('x-accel-buffering', 'no');
    return streamSSE(c, async (stream) => {
      const ended = new AbortController();
      stream.onAbort(() => ended.abort());
      const signal = AbortSignal.any([ended.signal, stopping]);
      let sent = '';
      try {
        while (!signal.aborted) {
          const html = String(<Parts {...shown(c)} notice={null} />);
          if (html !== sent) await stream.writeSSE({ event: 'parts', data: html });
          sent = html;
          await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined);
        }
      } finally {
        streams -= 1;
      }
    });
  });
  return routes;
}

async function fieldsIn(c: Context): Promise<Record<string, string>> {
  const body = await c.req.parseBody();
  return Object.fromEntries(
    Object.entries(body).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

interface PageProps {
  parts: SandboxParts;
  view: View;
  /** Why the last form was rejected; null: it was not. */
  notice: string | null;
}

/** Everything that changes, in parts that the script can replace one by one. */
function Parts({ parts, view, notice }: PageProps) {
  return (
    <>
      <div data-part="notice" role="alert">
        {notice !== null && <p class="notice">{notice}</p>}
      </div>
      <div class="columns">
        <div class="stack">
          <RecordsPart parts={parts} view={view} />
          <DeliveriesPart parts={parts} />
        </div>
        <div class="stack">
          <ScenariosPart parts={parts} view={view} />
          <RegistrationsPart parts={parts} />
          <FaultsPart parts={parts} view={view} />
          <ShapesPart parts={parts} view={view} />
        </div>
      </div>
    </>
  );
}

function SandboxPage({ parts, view, notice }: PageProps) {
  return (
    <Layout title="What it holds">
      <div class="wrap">
        <header class="top">
          <h1>Compliance sandbox</h1>
          <p>
            A stand-in for the compliance service, in memory. The API is below <code>/v1</code>, its
            description at <a href="/openapi.json">openapi.json</a>. Started with the seed number{' '}
            {parts.seedNumber}. All times are UTC.
          </p>
          <span class="live" data-live role="status">
            reload for news
          </span>
        </header>
        <main data-stream={`/parts${queryOf(view)}`}>
          <Parts parts={parts} view={view} notice={notice} />
        </main>
      </div>
    </Layout>
  );
}

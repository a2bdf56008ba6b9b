import { secured } from '../ops/headers.ts';
import { problem } from '../platform/problem.ts';
import type { ListenOptions } from '../receive/server.ts';

type Fetch = ListenOptions['fetch'];

/** A start takes seconds, and a migration of a large database minutes: soon is enough. */
const RETRY_AFTER = { 'retry-after': '5' };

export interface Front {
  /** What the listeners call. */
  receiver: Fetch;
  ops: Fetch;
  /** What the start is at. */
  at(state: 'starting' | 'migrating'): void;
  /** From now on the stages answer themselves. */
  open(apps: { receiver: Fetch; ops: Fetch }): void;
}

/**
 * Answers while there is no database to answer from, so that whoever probes can tell a start from a death, and a
 * sender is told to come back. Nothing is received, shown or asked for here.
 */
export function createFront(publicUrl: URL | null): Front {
  let state: 'starting' | 'migrating' = 'starting';
  let apps: { receiver: Fetch; ops: Fetch } | null = null;

  const live = () => secured(Response.json({ status: 'live' }), publicUrl);
  const away = () =>
    secured(
      problem(503, 'starting', 'The service is starting.', 'Send it again later.', RETRY_AFTER),
      publicUrl,
    );
  const notReady = () =>
    secured(Response.json({ status: 'not_ready', reason: state }, { status: 503 }), publicUrl);

  return {
    receiver: (request, env) => {
      if (apps !== null) return apps.receiver(request, env);
      return pathOf(request) === '/livez' ? live() : away();
    },
    ops: (request, env) => {
      if (apps !== null) return apps.ops(request, env);
      const path = pathOf(request);
      if (path === '/livez') return live();
      return path === '/readyz' ? notReady() : away();
    },
    at(to) {
      state = to;
    },
    open(to) {
      apps = to;
    },
  };
}

const pathOf = (request: Request) => new URL(request.url).pathname;

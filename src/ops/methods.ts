import type { Hono, MiddlewareHandler } from 'hono';
import { problem } from '../problem.ts';
import type { OpsEnv } from './access.ts';
import { notFound } from './api.ts';

/** Each with how it reads in Allow: a HEAD is answered wherever a GET is. */
const METHODS = { GET: 'GET, HEAD', POST: 'POST' } as const;

/** What no route has taken: 405 where `app` takes another method at the same path, else 404. */
export function nothingTaken(app: Hono<OpsEnv>): MiddlewareHandler<OpsEnv> {
  return async function nothingTaken(c) {
    // Asked of the router and not of a list of paths, so that no route can be left out of it.
    const taken = Object.entries(METHODS).filter(([method]) => {
      const [routes] = app.router.match(method, c.req.path);
      return routes.some(([[, route]]) => route.method === method);
    });
    const allow = taken.map(([, methods]) => methods).join(', ');
    if (allow === '') return notFound();
    return problem(405, 'method_not_allowed', 'This method is not taken here.', `Allowed: ${allow}.`, {
      allow,
    });
  };
}

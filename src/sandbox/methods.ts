import type { Hono } from 'hono';
import { Problem } from './problems.ts';

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

/** Of a request that no route of `app` has taken: 405 where another method is taken at the same path, else 404. */
export function nothingTaken(app: Hono, path: string): Problem {
  // Asked of the router and not of a list of paths, so that no route can be left out of it.
  const allow = METHODS.filter((method) => {
    const [routes] = app.router.match(method, path);
    return routes.some(([[, route]]) => route.method === method);
  }).join(', ');
  return allow === ''
    ? new Problem(404, 'not_found', 'There is nothing at this path.')
    : new Problem(405, 'method_not_allowed', `Allowed here: ${allow}.`, { allow });
}

import { OpenAPIHono } from '@hono/zod-openapi';
import { z } from 'zod';
import type { Kind } from '../compliance/kinds.ts';
import type { JsonObject } from '../compliance/pointers.ts';
import type { Meta, Policy, RiskAssessment, Vendor } from '../compliance/schemas.ts';
import { type Authenticator, type AuthVariables, authenticate } from './authentication.ts';
import type { FaultSwitch } from './faults.ts';
import * as operations from './operations.ts';
import { Problem } from './problems.ts';
import type { Random } from './random.ts';
import type { Registrations } from './registrations.ts';
import { restFaults } from './rest-faults.ts';
import type { Upstream } from './upstream.ts';

interface PageSizes {
  defaultPerPage: number;
  /** A request for more gets this many; `meta.perPage` says so. */
  maxPerPage: number;
}

interface RestParts {
  upstream: Upstream;
  registrations: Registrations;
  faults: FaultSwitch;
  random: Random;
  authenticators: readonly Authenticator[];
  pageSizes: PageSizes;
  stopping: AbortSignal;
}

/** What `RECORD_SCHEMAS` made sure of when a record was put into the state. */
interface Records {
  policy: Policy;
  risk_assessment: RiskAssessment;
  vendor: Vendor;
}

/** The seven operations of the specification, below `/v1`. */
export function restRoutes(parts: RestParts): OpenAPIHono<AuthVariables> {
  const { upstream, registrations, faults, random, pageSizes } = parts;
  const routes = new OpenAPIHono<AuthVariables>({
    defaultHook: (result) => {
      if (!result.success) throw new Problem(422, 'validation_failed', z.prettifyError(result.error));
    },
  });
  routes.use(authenticate(parts.authenticators));
  routes.use(restFaults(faults, random, parts.stopping));

  /** The moment whose state this request sees. */
  const asOfMs = () => upstream.state.now() - random.between(0, faults.current.staleMs);

  const list = <K extends Kind>(kind: K, query: { page: number; perPage?: number | undefined }) => {
    const size = Math.min(query.perPage ?? pageSizes.defaultPerPage, pageSizes.maxPerPage);
    const records = upstream.state.list(kind, asOfMs()) as Records[K][];
    const answer = pageOf(records, query.page, size);
    const isTruncated = random.chance(faults.current.truncatedPages) && answer.data.length > 0;
    return isTruncated
      ? { ...answer, data: answer.data.slice(0, random.integer(0, answer.data.length - 1)) }
      : answer;
  };

  const read = <K extends Kind>(kind: K, id: string) => {
    const record = upstream.state.get(kind, id, asOfMs());
    if (record === null) throw new Problem(404, 'not_found', `There is no ${kind} with this id.`);
    return { data: record as Records[K] };
  };

  const create = <K extends Kind>(kind: K, fields: JsonObject) => {
    const change = upstream.apply({ kind, op: 'create', fields });
    upstream.announce(change);
    return { id: change.id, answer: { data: change.record as Records[K] } };
  };

  routes.openapi(operations.listPolicies, (c) => c.json(list('policy', c.req.valid('query')), 200));
  routes.openapi(operations.createPolicy, (c) => {
    const { answer, id } = create('policy', c.req.valid('json'));
    return c.json(answer, 201, { location: locationOf('policies', id) });
  });
  routes.openapi(operations.getRiskAssessment, (c) =>
    c.json(read('risk_assessment', c.req.valid('param').id), 200),
  );
  routes.openapi(operations.createRiskAssessment, (c) => {
    const { answer, id } = create('risk_assessment', c.req.valid('json'));
    return c.json(answer, 201, { location: locationOf('risk-assessments', id) });
  });
  routes.openapi(operations.listVendors, (c) => c.json(list('vendor', c.req.valid('query')), 200));
  routes.openapi(operations.getVendor, (c) => c.json(read('vendor', c.req.valid('param').id), 200));
  routes.openapi(operations.registerWebhook, (c) => {
    const { disabled: _, ...answer } = registrations.add(c.req.valid('json'));
    const data = { ...answer, events: [...answer.events] };
    return c.json({ data }, 201, { location: locationOf('webhooks', answer.id) });
  });

  const allow = (path: string, methods: string) =>
    routes.all(path, () => {
      throw new Problem(405, 'method_not_allowed', `Allowed here: ${methods}.`, { allow: methods });
    });
  allow('/policies', 'GET, POST');
  allow('/risk-assessments/:id', 'GET');
  allow('/risk-assessments', 'POST');
  allow('/vendors', 'GET');
  allow('/vendors/:id', 'GET');
  allow('/webhooks', 'POST');
  return routes;
}

/** Page 1 is the first; one past the end is empty. */
export function pageOf<Row>(
  records: readonly Row[],
  page: number,
  perPage: number,
): { data: Row[]; meta: Meta } {
  const start = (page - 1) * perPage;
  return { data: records.slice(start, start + perPage), meta: { page, perPage, total: records.length } };
}

function locationOf(collection: string, id: string): string {
  return `/v1/${collection}/${encodeURIComponent(id)}`;
}

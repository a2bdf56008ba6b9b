import { OpenAPIHono } from '@hono/zod-openapi';
import type { MiddlewareHandler } from 'hono';
import { z } from 'zod';
import type { Kind } from '../src/compliance/kinds.ts';
import type { JsonObject } from '../src/compliance/pointers.ts';
import type {
  policyAnswerSchema,
  policyListSchema,
  registrationEnvelopeSchema,
  vendorAnswerSchema,
  vendorListSchema,
} from '../src/compliance/schemas.ts';
import { restFaults } from './faults.ts';
import * as operations from './operations.ts';
import { pageOf } from './paging.ts';
import { Problem, unfit } from './problems.ts';
import type { Random } from './random.ts';
import type { Registrations } from './registrations.ts';
import { registrationAnswer } from './shapes.ts';
import { keptId, listAnswer, recordAnswer, shapedRecord, shownId } from './shaping.ts';
import type { Settings, Upstream } from './upstream.ts';

interface RestParts {
  upstream: Upstream;
  registrations: Registrations;
  settings: Settings;
  random: Random;
  authenticate: MiddlewareHandler;
  stopping: AbortSignal;
}

type PolicyList = z.infer<typeof policyListSchema>;
type PolicyAnswer = z.infer<typeof policyAnswerSchema>;
type VendorList = z.infer<typeof vendorListSchema>;
/** Of an assessment and of a vendor: both are specified as an object with an id. */
type RecordAnswer = z.infer<typeof vendorAnswerSchema>;
type RegistrationEnvelope = z.infer<typeof registrationEnvelopeSchema>;

/** The seven operations of the specification, below `/v1`. */
export function restRoutes(parts: RestParts): OpenAPIHono {
  const { upstream, registrations, settings, random } = parts;
  const routes = new OpenAPIHono({
    defaultHook: (result) => {
      if (!result.success) throw unfit(z.prettifyError(result.error));
    },
  });
  routes.use(parts.authenticate);
  routes.use(restFaults(settings, random, parts.stopping));

  /** The moment whose state this request sees. */
  const asOfMs = () => upstream.state.now() - random.between(0, settings.faults.staleMs);

  const list = (kind: Kind, query: Readonly<Record<string, string>>) => {
    const { rows, meta } = pageOf(upstream.state.list(kind, asOfMs()), query, settings.shapes.paging);
    const isTruncated = random.chance(settings.faults.truncatedPages) && rows.length > 0;
    const shown = isTruncated ? rows.slice(0, random.integer(0, rows.length - 1)) : rows;
    return listAnswer(
      kind,
      shown.map((record) => shapedRecord(kind, record, 'rows', settings.shapes)),
      meta,
      settings.shapes,
    );
  };

  const read = (kind: Kind, id: string) => {
    const record = upstream.state.get(kind, keptId(kind, id, settings.shapes), asOfMs());
    if (record === null) throw new Problem(404, 'not_found', `There is no ${kind} with this id.`);
    return recordAnswer(kind, shapedRecord(kind, record, 'read', settings.shapes), settings.shapes);
  };

  const create = (kind: Kind, fields: JsonObject) => {
    const change = upstream.apply({ kind, op: 'create', fields });
    upstream.announce(change);
    // A new record is whole.
    const record = shapedRecord(kind, change.record!, 'rows', settings.shapes);
    return {
      id: shownId(kind, change.id, settings.shapes),
      answer: recordAnswer(kind, record, settings.shapes),
    };
  };

  // The routes' types are those of the shapes by default; the switches are there to answer otherwise.
  routes.openapi(operations.listPolicies, (c) => c.json(list('policy', c.req.query()) as PolicyList, 200));
  routes.openapi(operations.createPolicy, (c) =>
    c.json(create('policy', c.req.valid('json')).answer as PolicyAnswer, 201),
  );
  routes.openapi(operations.getRiskAssessment, (c) =>
    c.json(read('risk_assessment', c.req.valid('param').id) as RecordAnswer, 200),
  );
  routes.openapi(operations.createRiskAssessment, (c) => {
    const { answer, id } = create('risk_assessment', c.req.valid('json'));
    const location = `/v1/risk-assessments/${encodeURIComponent(id)}`;
    return c.json(answer as RecordAnswer, 201, { location });
  });
  routes.openapi(operations.listVendors, (c) => c.json(list('vendor', c.req.query()) as VendorList, 200));
  routes.openapi(operations.getVendor, (c) =>
    c.json(read('vendor', c.req.valid('param').id) as RecordAnswer, 200),
  );
  routes.openapi(operations.registerWebhook, (c) => {
    const { disabled: _, ...registration } = registrations.add(c.req.valid('json'));
    const number = registrations.list().length;
    const answer = registrationAnswer({ ...registration, number }, settings.shapes.registration);
    return c.json(answer as RegistrationEnvelope, 201);
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

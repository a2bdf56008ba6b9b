import type { Random } from './random.ts';
import type { IdShape, ShapesPatch } from './shapes.ts';

/** What services of this kind do, for each switch. The page offers them; `drawShapes` draws of them. */

export const ID_PLACES = {
  policy: ['policyId', 'id', 'policy_id', 'uuid', 'policy.id', 'attributes.id'],
  risk_assessment: [
    ...['id', 'riskAssessmentId', 'assessmentId', 'assessment_id', 'riskId', 'uuid'],
    ...['riskAssessment.id', 'assessment.ref', 'risk.riskId', 'risk.id'],
  ],
  vendor: ['id', 'vendorId', 'vendor_id', 'uuid', 'vendor.id', 'vendor.ref', 'company.vendorId'],
} as const;
export const LIST_PLACES = ['data', 'data.{kinds}', 'data.items', 'data.results', 'items', ''] as const;
export const RECORD_PLACES = ['data', 'data.{kind}', 'data.record', 'item', ''] as const;
export const META_PLACES = ['meta', 'data.meta', 'pagination'] as const;
/** As [parameter for the page, parameter for its size]. */
const PAGE_NAMES = [
  ['page', 'perPage'],
  ['page', 'per_page'],
  ['page', 'pageSize'],
  ['page', 'limit'],
  ['pageNumber', 'size'],
] as const;
export const SECRET_PLACES = [
  ...['data.secret', 'data.signingSecret', 'data.signing_secret', 'data.webhookSecret', 'data.signingKey'],
  ...['data.key', 'data.hook.token', 'data.webhook.secret', 'secret', 'signing_secret', 'webhook.secret'],
] as const;
export const REGISTRATION_ID_PLACES = [
  ...['data.id', 'data.webhookId', 'data.webhook_id', 'data.webhook.id', 'id', 'webhook_id'],
] as const;

/**
 * Shapes that a mirror can follow once its settings say where ids are and how pages are asked for: all rows and events have
 * ids, and every list can be read by page number or whole. Policy events are as the specification shows them.
 */
export function drawShapes(random: Random): ShapesPatch {
  const pick = <T>(items: readonly T[]): T => random.pick(items)!;
  const ids = (kind: keyof typeof ID_PLACES): Partial<IdShape> => {
    const rows = pick<string>(ID_PLACES[kind]);
    return {
      rows,
      read: random.chance(0.25) ? null : rows,
      events: kind === 'policy' ? 'policyId' : pick<string>(ID_PLACES[kind]),
      numbers: random.chance(0.25),
      inside: random.chance(0.5),
    };
  };
  const [startName, sizeName] = pick(PAGE_NAMES);
  const list = pick<string>(LIST_PLACES.slice(0, 4));
  const drawnIds = { policy: ids('policy'), risk_assessment: ids('risk_assessment'), vendor: ids('vendor') };
  const isBare = random.chance(0.2);
  const record = pick<string>(['data', 'data', 'data.{kind}', '']);
  const recordInArray = random.chance(0.2);
  const hasMeta = !random.chance(0.3);
  const isWhole = random.chance(0.2);
  return {
    ids: drawnIds,
    envelope: {
      // A bare list of all rows at once would have no total, so a reader could not tell that it is complete.
      list: isBare && !isWhole ? '' : list,
      ...{ record, recordInArray },
      meta: hasMeta || isWhole ? 'meta' : null,
    },
    paging: {
      by: isWhole ? 'nothing' : 'page',
      ...{ startName, sizeName },
      firstPage: random.integer(0, 1),
      maxSize: pick([10, 50, 100]),
    },
    registration: {
      secret: pick<string>(SECRET_PLACES),
      id: random.chance(0.2) ? null : pick<string>(REGISTRATION_ID_PLACES.slice(0, 3)),
      idNumber: random.chance(0.3),
    },
    statuses: pick(['snake', 'upper', 'title']),
  };
}

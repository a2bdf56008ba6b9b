import type { Kind } from '../../src/compliance/kinds.ts';
import type { Random } from './random.ts';

/**
 * What the specification leaves open about the form of answers and events. Places are names of fields with dots between them.
 * `shaped-upstream.ts` answers so.
 */
export interface IdShape {
  /** In the rows of lists. */
  rows: string;
  /** In the answers of GET by id; null: they have no id. */
  read: string | null;
  /** In events' data; null: events do not say which record they are about. */
  events: string | null;
  /** In events' data: the place of an id that is not the record's; null: there is none. */
  otherId: string | null;
  /** JSON numbers instead of texts: `vendor-0001` becomes 1. An id without a number of that form stays as it is. */
  numbers: boolean;
  /** If the id is nested, the record's other fields are beside it and not at the top. */
  inside: boolean;
}

export interface Shapes {
  ids: Record<Kind, IdShape>;
  /** The empty text is the answer itself; `{kind}` is vendor or riskAssessment, `{kinds}` vendors or policies. */
  envelope: {
    list: string;
    record: string;
    recordInArray: boolean;
    /** The place of page, perPage and total; null: there are none. A bare answer has none either. */
    meta: string | null;
  };
  paging: {
    /** By page number, by the number of rows to skip, or by a cursor in each page; `nothing`: all rows at once. */
    by: 'page' | 'offset' | 'cursor' | 'nothing';
    /** The parameter that says which page, where to begin, or after which cursor. */
    startName: string;
    sizeName: string;
    firstPage: number;
    size: number;
    /** A request for more rows gets this many. */
    maxSize: number;
  };
  /** The places in the answer of POST /webhooks; null: it has none. */
  registration: { secret: string | null; id: string | null };
  /** How statuses are written: in_review, IN_REVIEW, In review. */
  statuses: 'snake' | 'upper' | 'title';
}

export type ShapesPatch = {
  [Part in keyof Omit<Shapes, 'ids'>]?: Shapes[Part] extends object ? Partial<Shapes[Part]> : Shapes[Part];
} & { ids?: Record<Kind, Partial<IdShape>> };

const idsAt = (rows: string, events: string): IdShape => ({
  rows,
  read: rows,
  events,
  otherId: null,
  numbers: false,
  inside: false,
});

/** As the product's sandbox answers. */
const DEFAULTS: Shapes = {
  ids: {
    policy: idsAt('policyId', 'policyId'),
    risk_assessment: idsAt('id', 'riskAssessmentId'),
    vendor: idsAt('id', 'vendorId'),
  },
  envelope: { list: 'data', record: 'data', recordInArray: false, meta: 'meta' },
  paging: { by: 'page', startName: 'page', sizeName: 'perPage', firstPage: 1, size: 20, maxSize: 100 },
  registration: { secret: 'data.secret', id: 'data.id' },
  statuses: 'snake',
};

export function shapesOf({ ids, envelope, paging, registration, statuses }: ShapesPatch): Shapes {
  // A place that is given only for rows also counts for GET by id, which answers with a record of the same form.
  const of = (kind: Kind): IdShape => {
    const patch = ids?.[kind] ?? {};
    const read = patch.rows ?? DEFAULTS.ids[kind].read;
    return { ...DEFAULTS.ids[kind], read, ...patch };
  };
  return {
    ids: { policy: of('policy'), risk_assessment: of('risk_assessment'), vendor: of('vendor') },
    envelope: { ...DEFAULTS.envelope, ...envelope },
    paging: { ...DEFAULTS.paging, ...paging },
    registration: { ...DEFAULTS.registration, ...registration },
    statuses: statuses ?? DEFAULTS.statuses,
  };
}

// What `drawShapes` draws from: the usual forms of such services.

// biome-ignore format: names side by side
const ID_PLACES = {
  policy: ['policyId', 'id', 'policy_id', 'uuid', 'policy.id', 'attributes.id'],
  risk_assessment: [
    'id', 'riskAssessmentId', 'assessmentId', 'assessment_id', 'riskId', 'uuid', 'riskAssessment.id', 'assessment.ref', 'risk.riskId',
    'risk.id',
  ],
  vendor: ['id', 'vendorId', 'vendor_id', 'uuid', 'vendor.id', 'vendor.ref', 'company.vendorId'],
} as const;
/** The parameters for the page and its size. */
const PAGE_NAMES = [
  ['page', 'perPage'],
  ['page', 'per_page'],
  ['page', 'pageSize'],
  ['page', 'limit'],
  ['pageNumber', 'size'],
] as const;

/**
 * Draws shapes that a mirror can read once its settings name the places of ids and the parameters of pages: all rows and events
 * have ids, and every list comes by page number or whole. Policy events are as the specification shows them.
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
  const list = pick(['data', 'data.{kinds}', 'data.items', 'data.results']);
  const isBare = random.chance(0.2);
  const isWhole = random.chance(0.2);
  return {
    ids: { policy: ids('policy'), risk_assessment: ids('risk_assessment'), vendor: ids('vendor') },
    envelope: {
      // Not bare if all rows come at once: without a total a reader could not tell that the list is complete.
      list: isBare && !isWhole ? '' : list,
      record: pick(['data', 'data', 'data.{kind}', '']),
      recordInArray: random.chance(0.2),
      meta: isWhole || random.chance(0.7) ? 'meta' : null,
    },
    paging: {
      by: isWhole ? 'nothing' : 'page',
      startName,
      sizeName,
      firstPage: random.integer(0, 1),
      maxSize: pick([10, 50, 100]),
    },
    registration: {
      secret: pick(['data.secret', 'data.signingSecret', 'data.webhook.secret', 'secret', 'signing_secret']),
      id: random.chance(0.2) ? null : pick(['data.id', 'data.webhookId']),
    },
    statuses: pick(['snake', 'upper', 'title']),
  };
}

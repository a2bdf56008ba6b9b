import { z } from 'zod';
import type { Kind } from '../src/compliance/kinds.ts';
import { areNested, merged, type Patch, patchOf } from './places.ts';
import { parseOrRefuse } from './problems.ts';
import type { Random } from './random.ts';

/**
 * What the specification leaves open about the form of answers and events, as settings. The defaults are our decisions. With other
 * values the sandbox is another service that fits the specification.
 */

/** As deep as fields are in real services. */
const MAX_PLACE_DEPTH = 4;
/** Fields of records that an id must not replace. */
const TAKEN = /^(name|version|status)(\.|$)/;

const FIELD = /^[A-Za-z_][\w-]{0,63}$/;
const isField = (text: string) => FIELD.test(text) && !text.startsWith('__');
const placeOf = (isPart: (text: string) => boolean) =>
  z.string().refine((text) => {
    const parts = text.split('.');
    return parts.length <= MAX_PLACE_DEPTH && parts.every(isPart);
  }, `a place: names of fields with dots between them, at most ${MAX_PLACE_DEPTH} deep, such as data.items`);
const place = placeOf(isField);
const idPlace = place.refine((text) => !TAKEN.test(text), 'name, version and status are fields of their own');
/** The empty text is the answer itself; `{kind}` is vendor or riskAssessment, `{kinds}` vendors or policies. */
const container = z.union(
  [z.literal(''), placeOf((text) => isField(text) || text === '{kind}' || text === '{kinds}')],
  'a place, such as data.items, or the empty text for the answer itself',
);
const parameter = z.string().regex(/^[\w.[\]-]{1,64}$/, 'a parameter’s name');

const idShape = z.strictObject({
  /** In the rows of lists, and in the answers of creates. */
  rows: idPlace,
  /** In the answers of GET by id; null: they have no id. */
  read: idPlace.nullable(),
  /** In events' data; null: events do not say which record they are about. */
  events: idPlace.nullable(),
  /** In events' data: the place of an id that is not the record's; null: there is none. */
  otherId: idPlace.nullable(),
  /** JSON numbers instead of texts: `vendor-0001` becomes 1. An id without a number of that form stays as it is. */
  numbers: z.boolean(),
  /** If the id is nested, the record's other fields are beside it and not at the top. */
  inside: z.boolean(),
});

const schema = z
  .strictObject({
    ids: z.strictObject({ policy: idShape, risk_assessment: idShape, vendor: idShape }),
    envelope: z.strictObject({
      list: container,
      record: container,
      recordInArray: z.boolean(),
      /** The place of page, perPage and total; null: there are none. A bare answer has none either. */
      meta: place.nullable(),
    }),
    paging: z.strictObject({
      /** By page number, by the number of rows to skip, or by a cursor in each page; `nothing`: all rows at once. */
      by: z.enum(['page', 'offset', 'cursor', 'nothing']),
      /** The parameter that says which page, where to begin, or after which cursor. */
      startName: parameter,
      sizeName: parameter,
      firstPage: z.int().min(0).max(1),
      size: z.int().positive(),
      /** A request for more rows gets this many. */
      maxSize: z.int().positive(),
    }),
    /** The answer of POST /webhooks. */
    registration: z.strictObject({
      /** Null: the answer has no secret, for example because a person gets it by mail. */
      secret: place.nullable(),
      id: place.nullable(),
      idNumber: z.boolean(),
      /** The place of url, events and description. */
      rest: z.union([z.literal(''), place]),
    }),
    /** How statuses are written: in_review, IN_REVIEW, In review. */
    statuses: z.enum(['snake', 'upper', 'title']),
  })
  .superRefine(({ envelope, paging, registration, ids }, context) => {
    const refuseIf = (is: boolean, path: string[], message: string) => {
      if (is) context.addIssue({ code: 'custom', path, message });
    };
    for (const name of ['list', 'record'] as const) {
      const isInTheWay = areNested(envelope.meta, envelope[name]);
      refuseIf(isInTheWay, ['envelope', 'meta'], `is in the way of ${name}`);
    }
    refuseIf(paging.startName === paging.sizeName, ['paging', 'sizeName'], 'is the name of startName too');
    for (const [kind, { events, otherId }] of Object.entries(ids)) {
      refuseIf(areNested(events, otherId), ['ids', kind, 'otherId'], 'is in the way of events');
    }
    const { secret, id, rest } = registration;
    const others = ['url', 'events', 'description'].map((field) =>
      rest === '' ? field : `${rest}.${field}`,
    );
    refuseIf(areNested(secret, id, ...others), ['registration'], 'its places are in each other’s way');
  });

export type Shapes = z.infer<typeof schema>;
export type IdShape = Shapes['ids'][Kind];
export type ShapesPatch = Patch<Shapes>;
export const shapesPatchSchema = patchOf(schema);

const idsAt = (rows: string, events: string): IdShape => ({
  rows,
  read: rows,
  events,
  otherId: null,
  numbers: false,
  inside: false,
});

export const DEFAULT_SHAPES: Shapes = {
  ids: {
    policy: idsAt('policyId', 'policyId'),
    risk_assessment: idsAt('id', 'riskAssessmentId'),
    vendor: idsAt('id', 'vendorId'),
  },
  envelope: { list: 'data', record: 'data', recordInArray: false, meta: 'meta' },
  paging: { by: 'page', startName: 'page', sizeName: 'perPage', firstPage: 1, size: 20, maxSize: 100 },
  registration: { secret: 'data.secret', id: 'data.id', idNumber: false, rest: 'data' },
  statuses: 'snake',
};

/** @throws Problem if the result would contradict itself. */
export function changedShapes(shapes: Shapes, patch: ShapesPatch): Shapes {
  // A place that is given only for rows also counts for GET by id, which answers with a record of the same form.
  const ids = Object.entries(patch.ids ?? {}).map(([kind, change]) => {
    const readsId = shapes.ids[kind as Kind].read !== null;
    return [kind, change?.rows !== undefined && readsId ? { read: change.rows, ...change } : change];
  });
  return parseOrRefuse(schema, merged(shapes, { ...patch, ids: Object.fromEntries(ids) }));
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
const LIST_PLACES = ['data', 'data.{kinds}', 'data.items', 'data.results'] as const;
/** The parameters for the page and its size. */
const PAGE_NAMES = [
  ['page', 'perPage'],
  ['page', 'per_page'],
  ['page', 'pageSize'],
  ['page', 'limit'],
  ['pageNumber', 'size'],
] as const;
// biome-ignore format: names side by side
const SECRET_PLACES = [
  'data.secret', 'data.signingSecret', 'data.signing_secret', 'data.webhookSecret', 'data.signingKey', 'data.key', 'data.hook.token',
  'data.webhook.secret', 'secret', 'signing_secret', 'webhook.secret',
] as const;
const REGISTRATION_ID_PLACES = ['data.id', 'data.webhookId', 'data.webhook_id'] as const;

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
  const list = pick<string>(LIST_PLACES);
  const drawnIds = { policy: ids('policy'), risk_assessment: ids('risk_assessment'), vendor: ids('vendor') };
  const isBare = random.chance(0.2);
  const record = pick<string>(['data', 'data', 'data.{kind}', '']);
  const recordInArray = random.chance(0.2);
  const hasMeta = !random.chance(0.3);
  const isWhole = random.chance(0.2);
  return {
    ids: drawnIds,
    envelope: {
      // Not bare if all rows come at once: without a total a reader could not tell that the list is complete.
      list: isBare && !isWhole ? '' : list,
      record,
      recordInArray,
      meta: hasMeta || isWhole ? 'meta' : null,
    },
    paging: {
      by: isWhole ? 'nothing' : 'page',
      startName,
      sizeName,
      firstPage: random.integer(0, 1),
      maxSize: pick([10, 50, 100]),
    },
    registration: {
      secret: pick<string>(SECRET_PLACES),
      id: random.chance(0.2) ? null : pick<string>(REGISTRATION_ID_PLACES),
      idNumber: random.chance(0.3),
    },
    statuses: pick(['snake', 'upper', 'title']),
  };
}

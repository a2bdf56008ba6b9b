import { z } from 'zod';
import type { Kind } from '../src/compliance/kinds.ts';
import type { JsonObject } from '../src/compliance/pointers.ts';
import { areNested, valueIn, withAt } from './places.ts';
import { parseOrRefuse } from './problems.ts';

/**
 * What the specification leaves open about the form of answers and events, as switches. The defaults are what the
 * sandbox has decided; every other setting is another service that fits the specification as well. Places are dotted
 * paths: `assessment.ref` is the field `ref` of the object in the field `assessment`.
 */

/** As deep as real services bury a field; a bound on what a typing error can make. */
const MAX_PLACE_DEPTH = 4;
/** Records' own fields, which no id may stand in the place of. */
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

const idShape = z.strictObject({
  /** In the rows of lists, and in the answers of creates. */
  rows: idPlace,
  /** In the answers of GET by id; null: they hold no id. */
  read: idPlace.nullable(),
  /** In events' data; null: events do not say which record they are about. */
  events: idPlace.nullable(),
  /** In events' data: a place of an id that is not the record's; null: none. */
  otherId: idPlace.nullable(),
  /** JSON numbers instead of texts: `vendor-0001` becomes 1. An id without a number of that form stays as it is. */
  numbers: z.boolean(),
  /** Where the id stands deeper, the record's other fields stand beside it there, and not at the top. */
  inside: z.boolean(),
});

const shapesFields = {
  ids: z.strictObject({ policy: idShape, risk_assessment: idShape, vendor: idShape }),
  envelope: z.strictObject({
    /** Where a list's rows stand. */
    list: container,
    /** Where a single record stands. */
    record: container,
    /** A single record comes as an array of one. */
    recordInArray: z.boolean(),
    /** Where page, perPage and total stand; null: nowhere. Left out where an answer is no object of its own. */
    meta: place.nullable(),
  }),
  paging: z.strictObject({
    /** By page number, by the number of rows to skip, by a cursor that each page gives, or not at all: all rows at once. */
    by: z.enum(['page', 'offset', 'cursor', 'nothing']),
    /** The parameter that says which page, where to begin, or after which cursor. */
    startName: z.string().regex(/^[\w.[\]-]{1,64}$/, 'a parameter’s name'),
    sizeName: z.string().regex(/^[\w.[\]-]{1,64}$/, 'a parameter’s name'),
    firstPage: z.int().min(0).max(1),
    /** Rows on a page when the request does not say. */
    size: z.int().positive(),
    /** A request for more gets this many. */
    maxSize: z.int().positive(),
  }),
  registration: z.strictObject({
    /** Where the answer of POST /webhooks holds its secret; null: it does not, as when a person is sent it. */
    secret: place.nullable(),
    id: place.nullable(),
    idNumber: z.boolean(),
    /** Where url, events and description stand. */
    rest: z.union([z.literal(''), place]),
  }),
  /** How statuses are written: in_review, IN_REVIEW, In review. */
  statuses: z.enum(['snake', 'upper', 'title']),
};

const schema = z
  .strictObject(shapesFields)
  .superRefine(({ envelope, paging, registration, ids }, context) => {
    const refuse = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message });
    for (const name of ['list', 'record'] as const) {
      const { meta } = envelope;
      if (meta !== null && envelope[name] !== '' && areNested(meta, envelope[name])) {
        refuse(['envelope', 'meta'], `stands in the way of ${name}`);
      }
    }
    if (paging.startName === paging.sizeName) refuse(['paging', 'sizeName'], 'is the name of startName too');
    for (const [kind, { events, otherId }] of Object.entries(ids)) {
      if (events !== null && otherId !== null && areNested(events, otherId)) {
        refuse(['ids', kind, 'otherId'], 'stands in the way of events');
      }
    }
    const example = { id: 'id', number: 1, secret: 'secret', url: 'url', events: [], description: '' };
    const answer = registrationAnswer(example, registration);
    const isWhole =
      (registration.secret === null || valueIn(answer, registration.secret) === 'secret') &&
      (registration.id === null || valueIn(answer, registration.id) === (registration.idNumber ? 1 : 'id')) &&
      ['url', 'events', 'description'].every(
        (name) =>
          valueIn(answer, registration.rest === '' ? name : `${registration.rest}.${name}`) !== undefined,
      );
    if (!isWhole) refuse(['registration'], 'its places stand in each other’s way');
  });

export type Shapes = z.infer<typeof schema>;
export type IdShape = Shapes['ids'][Kind];
export type PagingShape = Shapes['paging'];

const idsAt = (rows: string, events: string): IdShape => ({
  ...{ rows, read: rows, events, otherId: null, numbers: false, inside: false },
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

/** Any of the fields at any depth; those left out stay as they are. */
export const shapesPatchSchema = z
  .strictObject({
    ids: z.strictObject({
      policy: idShape.partial().optional(),
      risk_assessment: idShape.partial().optional(),
      vendor: idShape.partial().optional(),
    }),
    envelope: shapesFields.envelope.partial(),
    paging: shapesFields.paging.partial(),
    registration: shapesFields.registration.partial(),
    statuses: shapesFields.statuses,
  })
  .partial();
export type ShapesPatch = z.infer<typeof shapesPatchSchema>;

/** Throws a Problem when the whole would contradict itself. */
export function changedShapes(shapes: Shapes, patch: ShapesPatch): Shapes {
  const { ids, envelope, paging, registration, statuses } = shapes;
  return parseOrRefuse(schema, {
    ids: {
      policy: changedIds(ids.policy, patch.ids?.policy),
      risk_assessment: changedIds(ids.risk_assessment, patch.ids?.risk_assessment),
      vendor: changedIds(ids.vendor, patch.ids?.vendor),
    },
    envelope: { ...envelope, ...patch.envelope },
    paging: { ...paging, ...patch.paging },
    registration: { ...registration, ...patch.registration },
    statuses: patch.statuses ?? statuses,
  });
}

/** A place for rows alone is one for GET by id too, which answers with a record of the same form. */
function changedIds(shape: IdShape, patch: { rows?: string | undefined } = {}) {
  const read = patch.rows !== undefined && shape.read !== null ? patch.rows : shape.read;
  return { ...shape, read, ...patch };
}

/** The live setting: parts read `current` each time, so that a change holds from the next request on. */
export class ShapeSwitch {
  #shapes: Shapes;
  readonly #initial: Shapes;

  constructor(initial: Shapes) {
    this.#shapes = initial;
    this.#initial = initial;
  }

  get current(): Shapes {
    return this.#shapes;
  }

  change(patch: ShapesPatch): Shapes {
    this.#shapes = changedShapes(this.#shapes, patch);
    return this.#shapes;
  }

  /** As `change`, of the shapes at the start. */
  replace(patch: ShapesPatch): Shapes {
    this.#shapes = changedShapes(this.#initial, patch);
    return this.#shapes;
  }
}

interface RegistrationParts {
  id: string;
  /** Its place among the registrations, from 1. */
  number: number;
  secret: string;
  url: string;
  events: readonly string[];
  description: string;
}

/** The answer of POST /webhooks. */
export function registrationAnswer(parts: RegistrationParts, shape: Shapes['registration']): JsonObject {
  const { id, number, secret, ...rest } = parts;
  let answer: JsonObject = shape.rest === '' ? rest : withAt({}, shape.rest, rest);
  if (shape.id !== null) answer = withAt(answer, shape.id, shape.idNumber ? number : id);
  return shape.secret === null ? answer : withAt(answer, shape.secret, secret);
}

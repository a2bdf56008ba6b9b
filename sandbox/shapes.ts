import { z } from 'zod';
import { KINDS, type Kind } from '../src/compliance/kinds.ts';
import { isObject, type JsonObject } from '../src/compliance/pointers.ts';
import { parseOrRefuse } from './problems.ts';

/**
 * What the specification leaves open about the form of answers and events, as switches. The defaults are what the
 * sandbox has decided; every other setting is another service that fits the specification as well. Places are dotted
 * paths: `assessment.ref` is the field `ref` of the object in the field `assessment`.
 */

/** As deep as real services bury a field; a bound on what a typing error can make. */
const MAX_PLACE_DEPTH = 4;
/** Fields of records, which no id may replace. */
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
  /** In the answers of GET by id; null: they hold no id. */
  read: idPlace.nullable(),
  /** In events' data; null: events do not say which record they are about. */
  events: idPlace.nullable(),
  /** In events' data: a place of an id that is not the record's; null: none. */
  otherId: idPlace.nullable(),
  /** JSON numbers instead of texts: `vendor-0001` becomes 1. An id without a number of that form stays as it is. */
  numbers: z.boolean(),
  /** Where the id is nested, the record's other fields are beside it, and not at the top. */
  inside: z.boolean(),
});

const groups = {
  envelope: z.strictObject({
    list: container,
    record: container,
    recordInArray: z.boolean(),
    /** Of page, perPage and total; null, or a bare answer: there are none. */
    meta: place.nullable(),
  }),
  paging: z.strictObject({
    /** By page number, by the number of rows to skip, by a cursor that each page gives, or not at all: all rows at once. */
    by: z.enum(['page', 'offset', 'cursor', 'nothing']),
    /** The parameter that says which page, where to begin, or after which cursor. */
    startName: parameter,
    sizeName: parameter,
    firstPage: z.int().min(0).max(1),
    size: z.int().positive(),
    /** A request for more gets this many. */
    maxSize: z.int().positive(),
  }),
  /** Of POST /webhooks. */
  registration: z.strictObject({
    /** Null: the answer does not hold it, as when a person is sent it. */
    secret: place.nullable(),
    id: place.nullable(),
    idNumber: z.boolean(),
    /** Of url, events and description. */
    rest: z.union([z.literal(''), place]),
  }),
};
/** How statuses are written: in_review, IN_REVIEW, In review. */
const statuses = z.enum(['snake', 'upper', 'title']);

const schema = z
  .strictObject({
    ids: z.strictObject({ policy: idShape, risk_assessment: idShape, vendor: idShape }),
    ...groups,
    statuses,
  })
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
    // Makes an answer with every part and looks whether one overwrote another.
    const marked = { id: '«id»', number: 123456, secret: '«secret»', url: '«url»', events: ['«events»'] };
    const answer = JSON.stringify(registrationAnswer({ ...marked, description: '«text»' }, registration));
    const wanted = ['«url»', '«events»', '«text»'];
    if (registration.secret !== null) wanted.push('«secret»');
    if (registration.id !== null) wanted.push(registration.idNumber ? '123456' : '«id»');
    if (!wanted.every((part) => answer.includes(part))) {
      refuse(['registration'], 'its places stand in each other’s way');
    }
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
    envelope: groups.envelope.partial(),
    paging: groups.paging.partial(),
    registration: groups.registration.partial(),
    statuses,
  })
  .partial();
export type ShapesPatch = z.infer<typeof shapesPatchSchema>;

/** Throws a Problem when the whole would contradict itself. */
export function changedShapes(shapes: Shapes, patch: ShapesPatch): Shapes {
  const ids = KINDS.map((kind) => [kind, changedIds(shapes.ids[kind], patch.ids?.[kind])]);
  return parseOrRefuse(schema, {
    ...shapes,
    ...patch,
    ids: Object.fromEntries(ids),
    envelope: { ...shapes.envelope, ...patch.envelope },
    paging: { ...shapes.paging, ...patch.paging },
    registration: { ...shapes.registration, ...patch.registration },
  });
}

/** A place for rows alone is one for GET by id too, which answers with a record of the same form. */
function changedIds(shape: IdShape, patch: { rows?: string | undefined } = {}) {
  const read = patch.rows !== undefined && shape.read !== null ? patch.rows : shape.read;
  return { ...shape, read, ...patch };
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

/** `document` with `value` at `place`: objects on the way there are kept or made, anything else in the way gives way. */
export function withAt(document: JsonObject, place: string, value: unknown): JsonObject {
  const [step = '', ...rest] = place.split('.');
  if (rest.length === 0) return { ...document, [step]: value };
  const inner = valueIn(document, step);
  return { ...document, [step]: withAt(isObject(inner) ? inner : {}, rest.join('.'), value) };
}

/** Undefined where there is nothing. */
export function valueIn(document: unknown, place: string): unknown {
  let value = document;
  for (const step of place.split('.')) {
    if (!isObject(value) || !Object.hasOwn(value, step)) return undefined;
    value = value[step];
  }
  return value;
}

/** One is the other, or inside it. */
function areNested(one: string, other: string): boolean {
  return `${one}.`.startsWith(`${other}.`) || `${other}.`.startsWith(`${one}.`);
}

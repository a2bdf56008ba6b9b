import { seededRandom } from '../support/random.ts';
import { drawShapes, type IdShape, type ShapesPatch } from '../support/shapes.ts';
import type { Expected, Kind, Shape } from './matrix.ts';

/** Shapes that fit the specification, one difference from the sandbox's own at a time, and what must come of each. */

type Ids = { [Field in keyof IdShape]?: IdShape[Field] | Record<Kind, IdShape[Field]> };

/** The same for each kind, or what is given for it. */
function ids(shape: Ids): ShapesPatch {
  const of = (kind: Kind) =>
    Object.fromEntries(
      Object.entries(shape).map(([field, value]) => [
        field,
        typeof value === 'object' && value !== null ? value[kind] : value,
      ]),
    );
  return { ids: { policy: of('policy'), risk_assessment: of('risk_assessment'), vendor: of('vendor') } };
}

const each = <T>(policy: T, risk_assessment: T, vendor: T) => ({ policy, risk_assessment, vendor });

/** Both listed kinds. */
const lists = (expected: Expected) => ({ policy: expected, vendor: expected });
/** A problem that says which setting does it; once it does, everything is mirrored. */
const mendedBy = (name: string, value: string): Expected => ({
  problem: new RegExp(`set ${name}=${value.replaceAll('.', '\\.')}(?![\\w.])`),
  set: { [name]: value },
});
const mendedByParam = (value: string): Expected => ({
  problem: /set COMPLIANCE_PAGE_PARAM to the parameter in its documentation/,
  set: { COMPLIANCE_PAGE_PARAM: value },
});
/** A problem that says why nothing does. */
const never = (problem: RegExp): Expected => ({ problem, set: null });

const EVENT_IDS: readonly [string, Ids][] = [
  ['under id', { events: 'id' }],
  ['as in snake case', { events: each('policy_id', 'assessment_id', 'vendor_id') }],
  ['under another of their words', { events: each('policy.id', 'riskId', 'vendor.id') }],
  ['one deeper', { events: each('policy.policyId', 'riskAssessment.id', 'vendor.vendorId') }],
  ['one deeper, with the fields', { events: each('policy.id', 'assessment.id', 'vendor.id'), inside: true }],
  ['under ref, one deeper', { events: each('policy.ref', 'assessment.ref', 'vendor.ref') }],
  ['at risk.riskId and the like', { events: each('subject.policyId', 'risk.riskId', 'supplier.code') }],
  ['two deeper', { events: 'payload.object.key' }],
  ['as a number, one deeper', { events: each('policy.ref', 'assessment.ref', 'vendor.ref'), numbers: true }],
];

/** `MATRIX_DRAWN`: so many services of which everything is drawn, each by its number. */
const DRAWN = Array.from({ length: Number(process.env['MATRIX_DRAWN'] ?? 4) }, (_, index) => index + 1);

export const SHAPES: readonly Shape[] = [
  { name: 'as it is by default', shapes: {} },

  ...EVENT_IDS.map(([where, shape]): Shape => ({ name: `events: id ${where}`, shapes: ids(shape) })),
  {
    name: 'events: another id under id',
    shapes: ids({ events: each('policy.ref', 'assessment.ref', 'vendor.ref'), otherId: 'id' }),
  },
  {
    name: 'events: no id',
    shapes: ids({ events: null }),
    expected: { risk_assessment: never(/unknown_record: .*nothing else in it looks like one/) },
  },

  { name: 'API: id under id', shapes: ids({ rows: 'id' }) },
  { name: 'API: id as in events', shapes: ids({ rows: each('policyId', 'riskAssessmentId', 'vendorId') }) },
  {
    name: 'API: id under uuid',
    shapes: ids({ rows: 'uuid' }),
    expected: each(
      mendedBy('ID_POINTERS_POLICY', 'uuid,policyId,policy.id,id'),
      'mirrored' as const,
      mendedBy('ID_POINTERS_VENDOR', 'uuid,vendorId,vendor.id,id'),
    ),
  },
  {
    name: 'API: id at attributes.id',
    shapes: ids({ rows: 'attributes.id' }),
    expected: each(
      mendedBy('ID_POINTERS_POLICY', 'attributes.id,policyId,policy.id,id'),
      'mirrored' as const,
      mendedBy('ID_POINTERS_VENDOR', 'attributes.id,vendorId,vendor.id,id'),
    ),
  },
  { name: 'API: numbers', shapes: ids({ numbers: true }) },
  { name: 'API: no id in GET by id', shapes: ids({ read: null }) },
  {
    name: 'API: each record in a field of its own',
    shapes: ids({ rows: each('policy.id', 'riskAssessment.id', 'vendor.id'), inside: true }),
  },
  {
    name: 'API: each record in a field of its own, twice',
    shapes: {
      ...ids({ rows: each('policy.id', 'risk.id', 'attributes.id'), inside: true }),
      envelope: { record: 'data.{kind}' },
    },
  },

  ...['data.items', 'data.{kinds}', ''].map(
    (list): Shape => ({ name: `lists at "${list}"`, shapes: { envelope: { list } } }),
  ),
  {
    name: 'lists at "items"',
    shapes: { envelope: { list: 'items' } },
    expected: lists(never(/unreadable_answer: .*holds no list/)),
  },
  {
    name: 'lists at "data.results.list"',
    shapes: { envelope: { list: 'data.results.list' } },
    expected: lists(never(/unreadable_answer: .*not clear which one is the list/)),
  },
  ...['data.{kind}', '', 'data.item', 'item'].map(
    (record): Shape => ({ name: `a record at "${record}"`, shapes: { envelope: { record } } }),
  ),
  { name: 'a record in an array of one', shapes: { envelope: { recordInArray: true } } },
  { name: 'a record as a bare array of one', shapes: { envelope: { record: '', recordInArray: true } } },
  { name: 'no meta', shapes: { envelope: { meta: null } } },
  { name: 'meta under another name', shapes: { envelope: { meta: 'pagination' } } },

  {
    name: 'first page 0',
    shapes: { paging: { firstPage: 0 } },
    expected: lists(mendedBy('COMPLIANCE_FIRST_PAGE', '0')),
  },
  {
    name: 'first page 0, no meta',
    shapes: { paging: { firstPage: 0 }, envelope: { meta: null } },
    expected: lists(mendedBy('COMPLIANCE_FIRST_PAGE', '0')),
  },
  { name: 'page and per_page', shapes: { paging: { sizeName: 'per_page' } } },
  {
    name: 'page and per_page, no meta, four at once',
    shapes: { paging: { sizeName: 'per_page', size: 4 }, envelope: { meta: null } },
  },
  {
    name: 'pageNumber and pageSize',
    shapes: { paging: { startName: 'pageNumber', sizeName: 'pageSize', size: 4 } },
    expected: lists(mendedByParam('pageNumber')),
  },
  {
    name: 'offset and limit',
    shapes: { paging: { by: 'offset', startName: 'offset', sizeName: 'limit', size: 5 } },
    expected: lists(mendedByParam('offset')),
  },
  {
    name: 'skip and take',
    shapes: { paging: { by: 'offset', startName: 'skip', sizeName: 'take', size: 5 } },
    expected: lists(mendedByParam('skip')),
  },
  { name: 'everything at once', shapes: { paging: { by: 'nothing' } } },
  { name: 'everything at once, no meta', shapes: { paging: { by: 'nothing' }, envelope: { meta: null } } },
  { name: 'a cap below what is asked', shapes: { paging: { maxSize: 3 } } },
  {
    name: 'a cap below what is asked, no meta',
    shapes: { paging: { maxSize: 3 }, envelope: { meta: null } },
  },
  {
    name: 'cursors',
    shapes: { paging: { by: 'cursor', startName: 'cursor', size: 5 } },
    expected: lists(never(/paging by cursors or links is not supported/)),
  },
  {
    name: 'parameters of unknown names',
    shapes: { paging: { startName: 'p', sizeName: 'n', size: 5 } },
    expected: lists(never(/set COMPLIANCE_PAGE_PARAM to the parameter in its documentation/)),
  },
  {
    name: 'parameters of unknown names, no meta',
    shapes: { paging: { startName: 'p', sizeName: 'n', size: 5 }, envelope: { meta: null } },
    expected: lists(never(/set COMPLIANCE_PAGE_PARAM to the parameter in its documentation/)),
  },

  { name: 'statuses in capitals', shapes: { statuses: 'upper' } },
  { name: 'statuses as words', shapes: { statuses: 'title' } },

  ...DRAWN.map(
    (number): Shape => ({
      name: `drawn by ${number}`,
      shapes: drawShapes(seededRandom(number)),
      expected: 'guided',
    }),
  ),
];

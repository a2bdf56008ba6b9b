import { KINDS } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import { parseOrRefuse, unfit } from '../problems.ts';
import { type Shapes, type ShapesPatch, shapesPatchSchema, valueIn, withAt } from '../shapes.ts';
import {
  ID_PLACES,
  LIST_PLACES,
  META_PLACES,
  RECORD_PLACES,
  REGISTRATION_ID_PLACES,
  SECRET_PLACES,
} from '../shapes-draw.ts';

/** The form's fields: which shape each sets, and how it is written in a form, where every value is a text. */
export interface ShapeField {
  /** Its place among the shapes. */
  name: string;
  label: string;
  /** `place?`: empty stands for none. `place`: empty stands for the answer itself. */
  type: 'place' | 'place?' | 'text' | 'flag' | 'number' | readonly string[];
  /** Offered, and not required. */
  choices?: readonly string[];
}

interface ShapeGroup {
  title: string;
  fields: readonly ShapeField[];
}

const TITLES = { policy: 'Policies', risk_assessment: 'Risk assessments', vendor: 'Vendors' } as const;

export const SHAPE_GROUPS: readonly ShapeGroup[] = [
  ...KINDS.map((kind): ShapeGroup => {
    const choices = ID_PLACES[kind];
    return {
      title: `Ids: ${TITLES[kind]}`,
      fields: [
        { name: `ids.${kind}.rows`, label: 'in lists and creates', type: 'text', choices },
        { name: `ids.${kind}.read`, label: 'in GET by id; empty: none', type: 'place?', choices },
        { name: `ids.${kind}.events`, label: 'in events; empty: none', type: 'place?', choices },
        { name: `ids.${kind}.otherId`, label: 'another id in events, at', type: 'place?', choices: ['id'] },
        { name: `ids.${kind}.numbers`, label: 'as numbers', type: 'flag' },
        { name: `ids.${kind}.inside`, label: 'fields beside a nested id', type: 'flag' },
      ],
    };
  }),
  {
    title: 'Envelope',
    fields: [
      { name: 'envelope.list', label: 'Rows at; empty: bare', type: 'place', choices: LIST_PLACES },
      { name: 'envelope.record', label: 'Record at; empty: bare', type: 'place', choices: RECORD_PLACES },
      { name: 'envelope.meta', label: 'meta at; empty: none', type: 'place?', choices: META_PLACES },
      { name: 'envelope.recordInArray', label: 'a record in an array of one', type: 'flag' },
    ],
  },
  {
    title: 'Paging',
    fields: [
      { name: 'paging.by', label: 'by', type: ['page', 'offset', 'cursor', 'nothing'] },
      { name: 'paging.firstPage', label: 'First page', type: 'number' },
      {
        name: 'paging.startName',
        label: 'Parameter for the page',
        type: 'text',
        choices: ['page', 'offset', 'cursor'],
      },
      {
        name: 'paging.sizeName',
        label: 'for its size',
        type: 'text',
        choices: ['perPage', 'per_page', 'limit'],
      },
      { name: 'paging.size', label: 'Rows when not asked', type: 'number' },
      { name: 'paging.maxSize', label: 'Rows at most', type: 'number' },
    ],
  },
  {
    title: 'Registration’s answer, and statuses',
    fields: [
      {
        name: 'registration.secret',
        label: 'Secret at; empty: none',
        type: 'place?',
        choices: SECRET_PLACES,
      },
      {
        name: 'registration.id',
        label: 'Id at; empty: none',
        type: 'place?',
        choices: REGISTRATION_ID_PLACES,
      },
      { name: 'registration.rest', label: 'The rest at; empty: bare', type: 'place', choices: ['data', ''] },
      { name: 'registration.idNumber', label: 'its id a number', type: 'flag' },
      { name: 'statuses', label: 'Statuses as', type: ['snake', 'upper', 'title'] },
    ],
  },
];

/** What the form shows for a shape: a text, or whether the box is ticked. */
export function shownShape(shapes: Shapes, { name }: ShapeField): string | boolean {
  const value = valueIn(shapes, name);
  return typeof value === 'boolean' ? value : String(value ?? '');
}

/** Throws a Problem that names the field. */
export function shapesIn(form: Readonly<Record<string, string>>): ShapesPatch {
  let patch: JsonObject = {};
  for (const field of SHAPE_GROUPS.flatMap(({ fields }) => fields)) {
    patch = withAt(patch, field.name, sentShape(field, form[field.name]));
  }
  return parseOrRefuse(shapesPatchSchema, patch);
}

function sentShape({ name, type }: ShapeField, text = ''): unknown {
  if (type === 'flag') return text !== '';
  if (type === 'place?') return text === '' ? null : text;
  if (type !== 'number') return text;
  if (!/^\d{1,9}$/.test(text)) throw unfit(`${name}: a whole number.`);
  return Number(text);
}

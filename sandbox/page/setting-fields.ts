import { KINDS } from '../../src/compliance/kinds.ts';
import {
  ID_PLACES,
  LIST_PLACES,
  META_PLACES,
  RECORD_PLACES,
  REGISTRATION_ID_PLACES,
  SECRET_PLACES,
} from '../shapes-draw.ts';
import type { FieldGroup, ShownField } from './forms.tsx';

/** The fields by which the page's forms show and set what can be changed. */

const percent = (name: string, label: string): ShownField => ({ name, label, type: 'percent', max: 100 });
const seconds = (name: string, label: string, max: number): ShownField => ({
  ...{ name, label, type: 'seconds', max },
});

export const FAULT_GROUPS: readonly FieldGroup[] = [
  {
    title: 'Deliveries',
    fields: [
      percent('drop', 'Dropped, %'),
      percent('duplicate', 'Sent twice, %'),
      percent('reorder', 'Overtaken, %'),
      percent('delay.probability', 'Delayed, %'),
      seconds('delay.minMs', 'by at least, s', 600),
      seconds('delay.maxMs', 'by at most, s', 600),
    ],
  },
  {
    title: 'API',
    fields: [
      seconds('staleMs', 'Stale by up to, s', 60),
      percent('errorRate', '5xx, %'),
      percent('hang', 'No answer, %'),
      percent('truncatedPages', 'Pages cut short, %'),
      { name: 'rateLimit', label: 'Requests a minute', type: 'number?' },
      { name: 'payloads', label: 'Risk and vendor events', type: ['full', 'thin'] },
    ],
  },
];

export const TIME_FIELDS: readonly ShownField[] = [
  { name: 'scale', label: 'Retries come sooner by the factor', type: 'number' },
];

export const OAUTH_FIELDS: readonly ShownField[] = [
  { name: 'accessTokenSeconds', label: 'New access tokens live, s', type: 'number' },
];

const TITLES = { policy: 'Policies', risk_assessment: 'Risk assessments', vendor: 'Vendors' } as const;

const flag = (name: string, label: string): ShownField => ({ name, label, type: 'flag' });
const number = (name: string, label: string): ShownField => ({ name, label, type: 'number' });
const text = (name: string, label: string, choices: readonly string[]): ShownField => ({
  ...{ name, label, type: 'text', choices },
});
const orNone = (name: string, label: string, choices: readonly string[]): ShownField => ({
  ...{ name, label, type: 'text?', choices },
});

export const SHAPE_GROUPS: readonly FieldGroup[] = [
  ...KINDS.map((kind): FieldGroup => {
    const choices = ID_PLACES[kind];
    return {
      title: `Ids: ${TITLES[kind]}`,
      fields: [
        text(`ids.${kind}.rows`, 'in lists and creates', choices),
        orNone(`ids.${kind}.read`, 'in GET by id; empty: none', choices),
        orNone(`ids.${kind}.events`, 'in events; empty: none', choices),
        orNone(`ids.${kind}.otherId`, 'another id in events, at', ['id']),
        flag(`ids.${kind}.numbers`, 'as numbers'),
        flag(`ids.${kind}.inside`, 'fields beside a nested id'),
      ],
    };
  }),
  {
    title: 'Envelope',
    fields: [
      text('envelope.list', 'Rows at; empty: bare', LIST_PLACES),
      text('envelope.record', 'Record at; empty: bare', RECORD_PLACES),
      orNone('envelope.meta', 'meta at; empty: none', META_PLACES),
      flag('envelope.recordInArray', 'a record in an array of one'),
    ],
  },
  {
    title: 'Paging',
    fields: [
      { name: 'paging.by', label: 'by', type: ['page', 'offset', 'cursor', 'nothing'] },
      number('paging.firstPage', 'First page'),
      text('paging.startName', 'Parameter for the page', ['page', 'offset', 'cursor']),
      text('paging.sizeName', 'for its size', ['perPage', 'per_page', 'limit']),
      number('paging.size', 'Rows when not asked'),
      number('paging.maxSize', 'Rows at most'),
    ],
  },
  {
    title: 'Registration’s answer, and statuses',
    fields: [
      orNone('registration.secret', 'Secret at; empty: none', SECRET_PLACES),
      orNone('registration.id', 'Id at; empty: none', REGISTRATION_ID_PLACES),
      text('registration.rest', 'The rest at; empty: bare', ['data', '']),
      flag('registration.idNumber', 'its id a number'),
      { name: 'statuses', label: 'Statuses as', type: ['snake', 'upper', 'title'] },
    ],
  },
];

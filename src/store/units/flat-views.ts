import type { Kind } from '../../compliance/kinds.ts';
import { recordColumns } from '../reports.ts';
import { tableName } from './records.ts';

interface FlatView {
  view: string;
  /** The columns before the typed ones, which are made of `data`. */
  columns: { name: string; is: string }[];
  from: string;
}

/** The views of a kind with typed columns: the records that are alive, and each version of each record. */
export function flatViews(kind: Kind): FlatView[] {
  const records = tableName(kind);
  const present = recordColumns(kind).filter((column) => column !== 'deleted_at');
  const drawn = ['name', ...(kind === 'policy' ? ['version'] : []), 'status', 'data'];
  return [
    {
      view: `${records}_flat`,
      columns: present.map((name) => ({ name, is: name })),
      from: `${records} WHERE deleted_at IS NULL`,
    },
    {
      view: `${records}_history`,
      columns: [
        { name: 'id', is: 'record_id' },
        ...drawn.map((name) => ({ name, is: name })),
        { name: 'valid_from', is: 'at' },
        ...['valid_to', 'operation', 'cause', 'cause_id', 'seq'].map((name) => ({ name, is: name })),
      ],
      from: `changes WHERE kind = '${kind}'`,
    },
  ];
}

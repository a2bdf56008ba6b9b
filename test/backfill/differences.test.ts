import { expect, it } from 'vitest';
import { createDifferences } from '../../src/backfill/differences.ts';
import type { Applied } from '../../src/store/store.ts';

const applied = (id: string, outcome: Applied['outcome'], more: Partial<Applied> = {}): Applied => ({
  id,
  outcome,
  differences: ['name'],
  verified: true,
  lagMs: null,
  witness: true,
  announced: false,
  lacks: false,
  ...more,
});

it('what a full sync reads and deletes is a difference unless an event announced it or the read may be the older one', () => {
  const differences = createDifferences();
  differences.read([
    applied('changed', 'updated'),
    applied('looked at again', 'deferred'),
    applied('new', 'inserted'),
    applied('alive again', 'revived'),
    applied('the same', 'unchanged'),
    applied('older than the row', 'refused'),
    applied('told of', 'updated', { announced: true }),
  ]);
  differences.concluded({
    deleted: [
      { id: 'gone', cause: 'absence' },
      { id: 'gone, as told', cause: 'event' },
    ],
    pending: ['for a person'],
    left: 0,
  });
  expect(differences.report()).toEqual({
    new: 2,
    deleted_upstream: 2,
    different: 2,
    repaired: 4,
    fields: { name: 2 },
    examples: [
      { id: 'changed', what: 'different', fields: ['name'], repaired: true },
      { id: 'looked at again', what: 'different', fields: ['name'], repaired: false },
      { id: 'new', what: 'new', fields: [], repaired: true },
      { id: 'alive again', what: 'new', fields: [], repaired: true },
      { id: 'gone', what: 'deleted_upstream', fields: [], repaired: true },
      { id: 'for a person', what: 'deleted_upstream', fields: [], repaired: false },
    ],
  });
});

it('of many differences the first 20 are named, and of many fields 100 are counted, whatever their names', () => {
  const differences = createDifferences();
  const all = Array.from({ length: 150 }, (_, n) => (n === 0 ? '__proto__' : `field ${n}`));
  for (const name of all) differences.read([applied(name, 'updated', { differences: [name] })]);
  differences.read([applied('again', 'updated', { differences: ['__proto__', 'field 149'] })]);
  const { different, examples, fields } = differences.report();
  expect({ different, named: examples.length, counted: Object.keys(fields) }).toEqual({
    different: 151,
    named: 20,
    counted: all.slice(0, 100),
  });
  expect(Object.entries(fields)[0]).toEqual(['__proto__', 2]);
});

it('of a record with many fields, or with long names of fields, an example stays small', () => {
  const differences = createDifferences();
  const many = Array.from({ length: 50_000 }, (_, n) => `field ${n}`);
  differences.read([applied('many', 'updated', { differences: many })]);
  differences.read([applied('long', 'updated', { differences: ['x'.repeat(1_000_000)] })]);
  const { examples, fields } = differences.report();
  expect(examples.map((example) => example.fields.length)).toEqual([100, 1]);
  expect(examples[1]!.fields).toEqual([`${'x'.repeat(100)}…`]);
  expect(Object.keys(fields)).toHaveLength(100);
});

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { edited, MUTANTS, REPLICAS_MUTANTS } from './mutants.ts';

const ROOT = new URL('../../', import.meta.url);

describe('a mutant', () => {
  it.each([...MUTANTS, ...REPLICAS_MUTANTS])('changes exactly one place of the code: $name', (mutant) => {
    for (const edit of mutant.edits) {
      const source = readFileSync(new URL(edit.file, ROOT), 'utf8');
      expect(edited(source, edit, mutant)).not.toBe(source);
    }
  });

  it('whose place is gone says so', () => {
    const [mutant] = MUTANTS;
    expect(() => edited('', mutant!.edits[0]!, mutant!)).toThrow('stands 0 times');
  });
});

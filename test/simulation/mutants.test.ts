import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { IS_FULL } from '../support/full.ts';
import { edited, MUTANTS, REPLICAS_MUTANTS } from './mutants.ts';

const PROGRAM = new URL('./simulate.ts', import.meta.url).pathname;
const ROOT = new URL('../../', import.meta.url);

/** Seeds within which a guard's absence must show. */
const SEEDS = 500;

async function simulate(name: string, seeds: { from: number; count: number }): Promise<string> {
  const args = [`--mutant=${name}`, `--from=${seeds.from}`, `--seeds=${seeds.count}`];
  const run = promisify(execFile)(process.execPath, [PROGRAM, ...args]);
  // Exit code 3: none of the seeds has caught it.
  return (await run.catch((error: { stdout: string }) => error)).stdout;
}

/** Without `FULL`, the first of each file that they are in; `npm run simulate -- --mutant NAME` looks for any. */
const LOOKED_FOR = MUTANTS.filter(
  ({ edits }, nth) =>
    IS_FULL || MUTANTS.findIndex((mutant) => mutant.edits[0]!.file === edits[0]!.file) === nth,
);

describe('each guard of the algorithm', () => {
  it.each(LOOKED_FOR)(
    'is missed when it is gone: without $name, $without',
    { timeout: 400_000 },
    async ({ name, tryFirst }) => {
      const caught = new RegExp(`^mutant ${name} caught by seed \\d+: I\\d`, 'm');
      const first = tryFirst === undefined ? '' : await simulate(name, { from: tryFirst, count: 1 });
      if (caught.test(first)) return;
      expect(await simulate(name, { from: 1, count: SEEDS })).toMatch(caught);
    },
  );
});

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

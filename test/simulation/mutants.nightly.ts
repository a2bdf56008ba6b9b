import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { MUTANTS } from './mutants.ts';

const PROGRAM = new URL('./simulate.ts', import.meta.url).pathname;

/** Seeds within which a guard's absence must show. */
const SEEDS = 500;

async function simulate(name: string, seeds: { from: number; count: number }): Promise<string> {
  const args = [`--mutant=${name}`, `--from=${seeds.from}`, `--seeds=${seeds.count}`];
  const run = promisify(execFile)(process.execPath, [PROGRAM, ...args]);
  // Exit code 3: none of the seeds has caught it.
  return (await run.catch((error: { stdout: string }) => error)).stdout;
}

describe('each guard of the algorithm', () => {
  it.each(MUTANTS)(
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

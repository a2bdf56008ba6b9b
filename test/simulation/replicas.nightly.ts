import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { REPLICAS_MUTANTS } from './mutants.ts';

const PROGRAM = new URL('./simulate.ts', import.meta.url).pathname;

/** Histories that are played at once: each mostly waits for the server. */
const JOBS = 3;
/** Seeds within which a guard's absence must show: how transactions interleave is chance. */
const SEEDS_OF_MUTANTS = 150;
const LOOKED_FOR = REPLICAS_MUTANTS.filter(({ tryFirst }) => tryFirst !== undefined);

async function simulate(...args: string[]): Promise<string> {
  const run = promisify(execFile)(process.execPath, [PROGRAM, '--postgres', `--jobs=${JOBS}`, ...args]);
  return (await run.catch((error: { stdout: string }) => error)).stdout;
}

describe('what several replicas rely on', () => {
  it.each(LOOKED_FOR)(
    'is missed when it is gone: without $name, $without',
    { timeout: 600_000 },
    async ({ name, tryFirst = 1 }) => {
      const told = await simulate(`--mutant=${name}`, `--from=${tryFirst}`, `--seeds=${SEEDS_OF_MUTANTS}`);
      expect(told).toMatch(new RegExp(`^mutant ${name} caught by seed \\d+: `, 'm'));
    },
  );
});

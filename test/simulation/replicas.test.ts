import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { IS_FULL } from '../support/full.ts';
import { REPLICAS_MUTANTS } from './mutants.ts';

const PROGRAM = new URL('./simulate.ts', import.meta.url).pathname;

/** `npm run simulate -- --postgres` plays as many as one likes. */
const SEEDS = IS_FULL ? 5 : 2;
/** Histories that are played at once: each mostly waits for the server. */
const JOBS = 3;
/**
 * Seeds within which a guard's absence must show: how transactions interleave is chance. So without `FULL` only what nearly
 * any history shows is looked for; `npm run simulate -- --postgres --mutant NAME --seeds 150` looks for any.
 */
const SEEDS_OF_MUTANTS = 150;
const LOOKED_FOR = REPLICAS_MUTANTS.filter(({ name, tryFirst }) =>
  IS_FULL ? tryFirst !== undefined : name === 'counter-lock',
);

async function simulate(...args: string[]): Promise<string> {
  const run = promisify(execFile)(process.execPath, [PROGRAM, '--postgres', `--jobs=${JOBS}`, ...args]);
  return (await run.catch((error: { stdout: string }) => error)).stdout;
}

describe('several replicas over one PostgreSQL, whatever happens to them', () => {
  it('keep every invariant while their transactions interleave', { timeout: 400_000 }, async () => {
    const told = await simulate(`--seeds=${SEEDS}`);
    expect(told).toContain('every invariant held');
    // Else nothing was shown: they would have worked one after another.
    expect(Number(/; (\d+) transactions waited/.exec(told)?.[1])).toBeGreaterThan(SEEDS);
  });
});

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

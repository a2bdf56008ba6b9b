import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/**
 * `npm run nightly [-- WORD…]`: the long proofs, one after another, each to its end even if one before it fails. With words, only
 * those whose name contains one. Prints a table of the outcomes; exits 1 if any proof failed. It takes some hours.
 */
const PROOFS: Readonly<Record<string, readonly string[]>> = {
  // With the files `*.nightly.ts`: every mutant, every page in every size, the matrix of shapes, growth of the store.
  'full tests': ['npx', 'vitest', 'run'],
  'simulated histories': ['node', 'test/simulation/simulate.ts', '--seeds=10000', '--from=10000000'],
  'simulated replicas': ['node', 'test/simulation/simulate.ts', '--postgres', '--seeds=100'],
  'hostile strangers': ['node', 'test/hostile/run.ts'],
  'faults of the disk': ['node', 'test/faults/run.ts'],
  'crash loop': ['node', 'test/crash/kill.ts', '--times=100'],
  chaos: ['node', 'test/convergence/chaos.ts'],
  replicas: ['node', 'test/replicas/run.ts', '--minutes=5'],
  growth: ['node', 'test/bench/run.ts', '--only=growth'],
};

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const words = process.argv.slice(2);
const chosen = Object.entries(PROOFS).filter(
  ([name]) => words.length === 0 || words.some((word) => name.includes(word)),
);
if (chosen.length === 0) {
  process.stderr.write(`no proof has such a name; there are: ${Object.keys(PROOFS).join(', ')}\n`);
  process.exit(2);
}

/** Resolves to the exit code; null: it was ended by a signal or could not start. */
async function play([file, ...args]: readonly string[]): Promise<number | null> {
  const child = spawn(file!, args, { cwd: ROOT, stdio: 'inherit', env: { ...process.env, FULL: '1' } });
  return await new Promise((resolve) => {
    child.once('error', () => resolve(null));
    child.once('exit', resolve);
  });
}

const outcomes: string[] = [];
for (const [name, command] of chosen) {
  const begun = performance.now();
  const code = await play(command);
  if (code !== 0) process.exitCode = 1;
  const minutes = ((performance.now() - begun) / 60_000).toFixed(1);
  outcomes.push(`${name.padEnd(24)}${minutes.padStart(6)} min  ${code === 0 ? 'held' : `FAILED (${code})`}`);
}
process.stdout.write(`\n${outcomes.join('\n')}\n`);

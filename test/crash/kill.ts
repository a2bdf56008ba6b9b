import { parseArgs } from 'node:util';
import { inTemporaryDirectory } from './harness.ts';
import { killUnderLoad } from './kill-runs.ts';

/** By hand, after a build: `npx node test/crash/kill.ts --times 20`. Exits 1 if anything was lost or applied twice. */
const { values } = parseArgs({ options: { times: { type: 'string', default: '20' } } });

/** Runs end anywhere from their first deliveries to well past their first checkpoint. */
const LONGEST_RUN = 8_000;

const say = (line: string) => process.stdout.write(`${line}\n`);

await inTemporaryDirectory(async (directory) => {
  const { ledger, afterKill, atEnd, exitCode } = await killUnderLoad({
    directory,
    times: Number(values.times),
    acknowledgementsBefore: () => 1 + Math.floor(Math.random() * LONGEST_RUN),
    onKill: (
      n,
      { lost, storedTwice, notAppliedOnce, effectsWithoutMark, states, integrity },
      { acknowledged },
    ) =>
      say(
        `kill ${n}: ${acknowledged.size} acknowledged so far, lost ${lost.length}, stored twice ${storedTwice.length}, ` +
          `not applied once ${notAppliedOnce.length}, effects without mark ${effectsWithoutMark}, ` +
          `done ${states['processed'] ?? 0}, pending ${states['pending'] ?? 0}, integrity ${integrity}`,
      ),
  });
  const all = [...afterKill, atEnd];
  const bad = all.some(
    (found) =>
      found.integrity !== 'ok' ||
      found.lost.length + found.storedTwice.length + found.notAppliedOnce.length + found.effectsWithoutMark >
        0,
  );
  const left = Object.entries(atEnd.states).filter(([state]) => state !== 'processed');
  say(
    `at the end: ${ledger.acknowledged.size} acknowledged, ${JSON.stringify(atEnd.states)}, lost ${atEnd.lost.length}, ` +
      `not applied once ${atEnd.notAppliedOnce.length}; stopped with exit code ${exitCode}`,
  );
  process.exitCode = bad || left.length > 0 || exitCode !== 0 ? 1 : 0;
});

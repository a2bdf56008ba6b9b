import { createLookout, intoStep, LOOK_EVERY_MS } from './lookout.ts';
import { introduce, pause, type Screen } from './narration.ts';
import { tally } from './report.ts';
import { FAULTS, LIVELY_PER_SECOND, STORIES } from './scenario.ts';
import type { Stage } from './stage.ts';

const STORY_EVERY_MS = 8_000;
const REPORT_EVERY_MS = 10_000;

/** The lively scenario and the staged stories, one after another, until `signal` aborts. */
export async function keepRunning(screen: Screen, stage: Stage, signal: AbortSignal): Promise<void> {
  introduce(screen, stage);
  screen.write('Ctrl-C ends it.', '');
  const lookout = createLookout(stage);
  await intoStep(lookout, signal);
  await stage.sandbox.setFaults(FAULTS);
  await stage.sandbox.startLively(LIVELY_PER_SECOND);
  let nextStoryMs = Date.now() + STORY_EVERY_MS;
  let nextReportMs = Date.now() + REPORT_EVERY_MS;
  let told = 0;
  while (!signal.aborted) {
    const { mirror, differences } = await lookout.look();
    if (Date.now() >= nextStoryMs) {
      const story = STORIES[told % STORIES.length]!;
      const record = await lookout.tell(story);
      screen.write(`${clock()}  ${story.told}: ${record ?? 'no record is left for it'}`);
      told += 1;
      nextStoryMs = Date.now() + STORY_EVERY_MS;
    }
    if (Date.now() >= nextReportMs) {
      const { events, redeliveries } = await stage.tables.countEvents();
      const records = Object.values(mirror).reduce((sum, rows) => sum + rows.size, 0);
      const resolved = lookout.watch.takeEnded();
      const mended = resolved.length > 0 ? `; since the last line ended ${tally(resolved)}` : '';
      screen.write(
        `${clock()}  ${records} records, ${events} events and ${redeliveries} redeliveries so far; ${differences.length} differ right now${mended}`,
      );
      nextReportMs = Date.now() + REPORT_EVERY_MS;
    }
    await pause(LOOK_EVERY_MS, signal);
  }
  screen.write('', 'Stopping both services.');
}

function clock(): string {
  return new Date().toISOString().slice(11, 19);
}

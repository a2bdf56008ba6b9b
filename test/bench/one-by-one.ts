import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { offer } from './open-loop.ts';
import { startMirror } from './processes.ts';
import { Backlog, measure } from './ratios.ts';

const PER_SECOND = 2_000;
const SECONDS = 10;
/** Offered before, and not counted: what runs for the first time is compiled first. */
const WARM_UP_SECONDS = 5;

/** What a delivery costs where each comes alone, at its own time, beside what it costs in the groups of a closed loop. */
export async function measureOneByOne({
  say,
  main,
}: {
  say: (line: string) => void;
  main?: string;
}): Promise<void> {
  const build = main === undefined ? {} : { main };
  const closed = await measure('mirror', build);
  const folder = mkdtempSync(join(tmpdir(), 'compliance-mirror-one-by-one-'));
  const mirror = await startMirror(join(folder, 'mirror.db'), {}, build);
  const backlog = new Backlog(join(folder, 'mirror.db'));
  try {
    const offered = { perSecond: PER_SECOND, oneByOne: true };
    await offer(mirror, { ...offered, run: 'warm', seconds: WARM_UP_SECONDS });
    await backlog.empty();
    const before = await mirror.usage();
    const found = await offer(mirror, { ...offered, run: 'main', seconds: SECONDS });
    await backlog.empty();
    const cpuUs = (((await mirror.usage()).cpuMs - before.cpuMs) * 1_000) / found.taken;
    say(`\n${PER_SECOND} deliveries a second, one by one:`);
    say(
      `  taken ${found.taken} of ${found.offered}, p50 ${found.p50Ms.toFixed(1)} ms, p99 ${found.p99Ms.toFixed(1)} ms`,
    );
    say(
      `  µs CPU/request ${cpuUs.toFixed(1)}, in a closed loop ${closed.cpuUs.toFixed(1)}: ${(cpuUs / closed.cpuUs).toFixed(2)} times`,
    );
  } finally {
    backlog.close();
    mirror.kill('SIGTERM');
    await mirror.exited;
    rmSync(folder, { recursive: true, force: true });
  }
}

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Offered, type OpenLoopFigures, offer } from './open-loop.ts';
import { BASELINE, portIn, type ServerProcess, startMirror, startProcess } from './processes.ts';
import { Backlog, measure } from './ratios.ts';

const PER_SECOND = 2_000;
const SECONDS = 10;
/** Offered before, and not counted: what runs for the first time is compiled first. */
const WARM_UP_SECONDS = 5;

/**
 * What a delivery costs where each comes alone, at its own time, beside what it costs in the groups of a closed loop; and the
 * same of the baseline, which commits nothing: a server that wakes for each request pays for that, too.
 */
export async function measureOneByOne({
  say,
  main,
}: {
  say: (line: string) => void;
  main?: string;
}): Promise<void> {
  const build = main === undefined ? {} : { main };
  say(`\n${PER_SECOND} deliveries a second, one by one:`);

  const bare = startProcess(BASELINE, [], {});
  const port = portIn(await bare.line('Baseline: '));
  const alone = await oneByOne(bare, { port, opsUrl: `http://127.0.0.1:${port}` }, async () => undefined);
  report('the baseline', alone, (await measure('baseline', build)).cpuUs);

  const folder = mkdtempSync(join(tmpdir(), 'compliance-mirror-one-by-one-'));
  const mirror = await startMirror(join(folder, 'mirror.db'), {}, build);
  const backlog = new Backlog(join(folder, 'mirror.db'));
  const mirrored = await oneByOne(mirror, mirror, () => backlog.empty());
  backlog.close();
  rmSync(folder, { recursive: true, force: true });
  report('accept + mirror', mirrored, (await measure('mirror', build)).cpuUs);

  function report(
    what: string,
    { found, cpuUs }: { found: OpenLoopFigures; cpuUs: number },
    closedUs: number,
  ) {
    const { taken, offered, p50Ms, p99Ms } = found;
    say(`  ${what}: taken ${taken} of ${offered}, p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms`);
    const times = (cpuUs / closedUs).toFixed(2);
    say(`    µs CPU/request ${cpuUs.toFixed(1)}, in a closed loop ${closedUs.toFixed(1)}: ${times} times`);
  }
}

/** Ends the server. */
async function oneByOne(
  server: ServerProcess,
  to: Offered,
  empty: () => Promise<void>,
): Promise<{ found: OpenLoopFigures; cpuUs: number }> {
  try {
    const offered = { perSecond: PER_SECOND, oneByOne: true };
    await offer(to, { ...offered, run: 'warm', seconds: WARM_UP_SECONDS });
    await empty();
    const before = await server.usage();
    const found = await offer(to, { ...offered, run: 'main', seconds: SECONDS });
    await empty();
    return { found, cpuUs: (((await server.usage()).cpuMs - before.cpuMs) * 1_000) / found.taken };
  } finally {
    server.kill('SIGTERM');
    await server.exited;
  }
}

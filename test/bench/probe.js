import { readFileSync } from 'node:fs';

/**
 * Preloaded into a server (`node --import`): tells its parent, over the channel that `spawn` opened, what the
 * process has used so far. The process itself is asked because /proc counts in hundredths of a second, and only
 * on Linux. No TypeScript: to read it each thread of the server would load a compiler, 15 MiB of memory each.
 */

/**
 * Not `maxRSS` where there is another way: on Linux that begins with the parent's memory as it was at the spawn, so that
 * two processes would differ by what their parent had done meanwhile.
 */
function highestRssBytes() {
  try {
    const kibibytes = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
    if (kibibytes !== undefined) return Number(kibibytes) * 1024;
  } catch {
    // Not Linux.
  }
  return process.resourceUsage().maxRSS * 1024;
}

process.on('message', (message) => {
  if (message !== 'usage') return;
  const { user, system } = process.cpuUsage();
  const usage = {
    cpuMs: (user + system) / 1000,
    rssBytes: process.memoryUsage.rss(),
    maxRssBytes: highestRssBytes(),
  };
  process.send?.(usage);
});
// Whoever started it is gone, or gave up: a server left behind would disturb the next measurement.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
// Nobody should live on because somebody might ask.
process.channel?.unref();

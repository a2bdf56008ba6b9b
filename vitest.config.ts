import { globSync } from 'node:fs';
import { join, matchesGlob } from 'node:path';
import { defineConfig } from 'vitest/config';
import type { TestCase } from 'vitest/node';
import { IS_FULL } from './test/support/full.ts';

// Threads and processes that tests start load the sources by Node itself: to strip their types each time anew took half of what
// the threads of a store cost. Node checks what it kept against the source.
process.env['NODE_COMPILE_CACHE'] ??= join(import.meta.dirname, 'node_modules/.cache/compile');

/** The projects in their order: a file belongs to the first that names it, and to `process` where none does. */
const PROJECTS: Record<string, readonly string[]> = {
  // Long proofs, which `npm run nightly` plays.
  nightly: ['test/**/*.nightly.ts'],
  browser: ['test/browser/**', 'test/sandbox/browser.test.ts'],
  postgres: ['test/replicas/**', 'test/store/postgres*.test.ts'],
  store: ['test/store/**'],
  // In the folders of the units, and yet with processes, a build or long waits.
  process: [
    'test/compliance/client.test.ts',
    'test/doctor/diagnosis.test.ts',
    'test/metrics/told.test.ts',
    'test/notify/notify.test.ts',
    'test/ops/{health-service,walk}.test.ts',
    'test/receive/server.test.ts',
    'test/service/{forged,log-lines,pause,start,threads}.test.ts',
  ],
  // Neither a build nor another process nor a server of anybody else's, and done in moments.
  unit: [
    'test/*.test.ts',
    'test/{backfill,compliance,doctor,inbox,metrics,mirror,notify,ops,process,receive,service}/**',
    'test/demo/{compare,repairs}.test.ts',
    'test/release/checks.test.ts',
    'test/setup/draft.test.ts',
  ],
};

const filesOf = Map.groupBy(
  globSync(IS_FULL ? 'test/**/*.{test,nightly}.ts' : 'test/**/*.test.ts'),
  (file) =>
    Object.keys(PROJECTS).find((name) => PROJECTS[name]!.some((glob) => matchesGlob(file, glob))) ??
    'process',
);

const flaky: string[] = [];

function noteFlaky(test: TestCase): void {
  if (test.diagnostic()?.flaky) flaky.push(`${test.module.relativeModuleId} > ${test.fullName}`);
}

function tellFlaky(): void {
  for (const name of flaky) process.stdout.write(`\nPassed only at the second try: ${name}\n`);
}

export default defineConfig({
  test: {
    setupFiles: ['test/properties.ts'],
    // Much of what the tests take is waiting, for processes and for settling: so many workers keep a machine of two cores busy meanwhile.
    maxWorkers: 8,
    // A snapshot that is missing fails, here as in continuous integration; `-u` writes it.
    update: 'none',
    // A busy machine does not fail the whole run, and no such test goes unseen.
    retry: 1,
    reporters: ['default', { onTestCaseResult: noteFlaky, onTestRunEnd: tellFlaky }],
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // Ends what hangs; the default of a second would also end what a busy machine is slow at.
    expect: { poll: { timeout: 40_000 } },
    // Files of one worker share their modules, and the process for commands: to load and start them anew took longer than many tests.
    isolate: false,
    projects: [...filesOf].map(([name, include]) => ({
      extends: true,
      test: { name, include },
    })),
  },
});

import { join, matchesGlob } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestCase, type TestSpecification } from 'vitest/node';
import { IS_FULL } from './test/support/full.ts';

// Threads and processes that tests start load the sources by Node itself: to strip their types each time anew took half of what
// the threads of a store cost. Node checks what it kept against the source.
process.env['NODE_COMPILE_CACHE'] ??= join(import.meta.dirname, 'node_modules/.cache/compile');

/** Neither a build nor another process nor a server of anybody else's, and done in moments: `npm run test:unit`. */
export const UNITS = {
  include: [
    'test/*.test.ts',
    'test/{backfill,compliance,doctor,inbox,metrics,mirror,notify,ops,process,receive,service}/**/*.test.ts',
    'test/demo/{compare,repairs}.test.ts',
    'test/release/checks.test.ts',
    'test/setup/draft.test.ts',
  ],
  // In the same folders, and yet with processes, a build or long waits.
  exclude: [
    'test/compliance/client.test.ts',
    'test/doctor/diagnosis.test.ts',
    'test/metrics/told.test.ts',
    'test/notify/notify.test.ts',
    'test/ops/{health-service,walk}.test.ts',
    'test/receive/server.test.ts',
    'test/service/{forged,log-lines,pause,start,threads}.test.ts',
  ],
};

/** Short files whose tests take longest: hundreds of the store's, those that wait for a clock that does not leap, and a proof at its full length. */
const LONG = [
  'test/{metrics/told,setup/conversation}.test.ts',
  'test/store/{postgres,sqlite}.test.ts',
  'test/**/*.nightly.ts',
];

/** What takes long begins first, and units, which only compute, fill the time in which the last of the others wait. */
class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rankOf = ({ moduleId }: TestSpecification) => {
      const isOne = (globs: string[]) =>
        globs.some((glob) => matchesGlob(moduleId, join(import.meta.dirname, glob)));
      if (isOne(LONG)) return 0;
      return isOne(UNITS.include) && !isOne(UNITS.exclude) ? 2 : 1;
    };
    return (await super.sort(files)).sort((a, b) => rankOf(a) - rankOf(b));
  }
}

const flaky: string[] = [];

function noteFlaky(test: TestCase): void {
  if (test.diagnostic()?.flaky) flaky.push(`${test.module.relativeModuleId} > ${test.fullName}`);
}

function tellFlaky(): void {
  for (const name of flaky) process.stdout.write(`\nPassed only at the second try: ${name}\n`);
}

export default defineConfig({
  test: {
    include: IS_FULL ? ['test/**/*.{test,nightly}.ts'] : ['test/**/*.test.ts'],
    setupFiles: ['test/properties.ts'],
    globalSetup: ['test/support/in-memory.ts'],
    // Some of what the tests take is waiting, for processes and for settling: so many workers keep a machine of two cores busy meanwhile. Each
    // takes three seconds of a processor to load the modules and to run warm.
    maxWorkers: 4,
    sequence: { sequencer: LongFirst },
    // A snapshot that is missing fails, here as in continuous integration; `-u` writes it.
    update: 'none',
    // A busy machine does not fail the whole run, and no such test goes unseen.
    retry: 1,
    reporters: ['default', { onTestCaseResult: noteFlaky, onTestRunEnd: tellFlaky }],
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // Ends what hangs; the default of a second would also end what a busy machine is slow at.
    expect: { poll: { timeout: 40_000 } },
    // Files of one worker share their modules, and the process for commands: to load and start them anew took longer than many tests. For
    // the same reason this is one project: workers of one are of no use to another.
    isolate: false,
  },
});

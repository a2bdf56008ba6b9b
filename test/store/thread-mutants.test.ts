import { execFile } from 'node:child_process';
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { edited, type Mutant } from '../simulation/mutants.ts';
import { IS_FULL } from '../support/full.ts';
import { freshPath } from './folder.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const VITEST = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs');
const TESTS = readFileSync(join(ROOT, 'test/store/thread.test.ts'), 'utf8');
const DATABASE = 'src/store/sqlite/database.ts';

/** What the threads bring, each promise of theirs taken away, and the test that misses it. */
const MUTANTS: readonly (Mutant & { caughtBy: string })[] = [
  {
    name: 'early-answer',
    without: 'a delivery is answered before its commit',
    edits: [
      {
        file: DATABASE,
        find: 'commit.run();\n        return result;',
        put: 'setTimeout(() => commit.run(), 20);\n        return result;',
      },
    ],
    caughtBy: 'answers once the commit is made',
  },
  {
    name: 'broken-slice',
    without: 'what belongs together is committed piece by piece',
    edits: [
      { file: DATABASE, find: 'begin.run();\n      try {', put: 'try {' },
      { file: DATABASE, find: 'commit.run();\n        return result;', put: 'return result;' },
    ],
    caughtBy: 'lets another program see a unit whole',
  },
  {
    name: 'unfair-class',
    without: 'events wait for as long as deliveries come',
    edits: [
      { file: 'src/store/sqlite/thread-worker.ts', find: 'processing: 3,', put: 'processing: Infinity,' },
    ],
    caughtBy: 'in the turns of its classes',
  },
  {
    name: 'moving-report',
    without: 'a report mixes what was before a commit with what was after it',
    edits: [{ file: DATABASE, find: 'beginReading.run();', put: '' }],
    caughtBy: 'reports one moment of the file',
  },
];

interface Counts {
  numPassedTests: number;
  numFailedTests: number;
}

/** How the tests of that title fare over a copy of the code with these edits. */
async function outcome(title: string, mutant: Mutant): Promise<Counts> {
  const copy = dirname(freshPath());
  for (const each of [
    'src',
    'sandbox',
    'test',
    'drizzle',
    'package.json',
    'tsconfig.json',
    'vitest.config.ts',
  ]) {
    cpSync(join(ROOT, each), join(copy, each), { recursive: true });
  }
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  for (const edit of mutant.edits) {
    const file = join(copy, edit.file);
    writeFileSync(file, edited(readFileSync(file, 'utf8'), edit, mutant));
  }
  const report = join(copy, 'report.json');
  const reporting = ['--reporter=json', `--outputFile=${report}`];
  const args = [VITEST, 'run', 'test/store/thread.test.ts', ...reporting, '-t', title];
  // It exits with 1 where a test fails.
  // What Node compiled of a copy is of no use to the next.
  const env = { ...process.env, NODE_DISABLE_COMPILE_CACHE: '1' };
  await promisify(execFile)(process.execPath, args, { cwd: copy, env }).catch(() => undefined);
  return JSON.parse(readFileSync(report, 'utf8')) as Counts;
}

it.each(MUTANTS)(
  'the threads’ mutant $name has its place in the code, and one test that catches it',
  (mutant) => {
    for (const edit of mutant.edits) {
      const source = readFileSync(join(ROOT, edit.file), 'utf8');
      expect(edited(source, edit, mutant)).not.toBe(source);
    }
    expect(TESTS.split(mutant.caughtBy)).toHaveLength(2);
  },
);

// Each runs the test over a copy of the code.
describe.runIf(IS_FULL)('each promise of the threads', () => {
  it('is kept by the code as it is', async () => {
    const titles = MUTANTS.map(({ caughtBy }) => caughtBy).join('|');
    const counts = await outcome(titles, { name: 'none', without: 'nothing', edits: [] });
    expect(counts).toMatchObject({ numPassedTests: MUTANTS.length, numFailedTests: 0 });
  });

  it.each(MUTANTS)('is missed when it is gone: without $name, $without', async (mutant) => {
    expect(await outcome(mutant.caughtBy, mutant)).toMatchObject({ numPassedTests: 0, numFailedTests: 1 });
  });
});

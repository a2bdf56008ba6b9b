import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const BIOME = join(ROOT, 'node_modules/@biomejs/biome/bin/biome');

/** A file, what it must not import, and what it may. */
const DIRECTIONS: readonly (readonly [
  file: string,
  refused: readonly string[],
  allowed: readonly string[],
])[] = [
  ['src/unlisted/new.ts', ['../errors.ts', '../store/store.ts'], ['./other.ts']],
  ['src/unlisted-root.ts', ['./service.ts', './store/store.ts', './config.ts'], ['./errors.ts']],
  [
    'src/main.ts',
    ['./service.ts', './config.ts', './cli/serve.ts', '../sandbox/sandbox.ts'],
    ['./cli/run.ts'],
  ],
  ['src/service.ts', ['./cli/run.ts', '../sandbox/sandbox.ts'], ['./receive/routes.ts', 'hono']],
  [
    'src/service/new.ts',
    ['../cli/run.ts', '../../sandbox/sandbox.ts', '../service.ts'],
    ['../store/open.ts'],
  ],
  [
    'src/service/narrator.ts',
    ['../inbox/inbox.ts', '../store/open.ts'],
    ['../store/store.ts', '../metrics.ts'],
  ],
  [
    'src/config.ts',
    ['./store/store.ts', './service.ts', '../sandbox/options.ts'],
    ['./config-parsers.ts', './signing-secret.ts'],
  ],
  [
    'src/receive/new.ts',
    ['../config.ts', '../mirror/merge.ts', '../process/worker.ts', '../compliance/client.ts'],
    ['../inbox/inbox.ts', '../store/store.ts', '../compliance/kinds.ts', 'hono', '@hono/node-server'],
  ],
  [
    'src/inbox/new.ts',
    ['../config.ts', '../receive/routes.ts', '../process/worker.ts', '../store/open.ts'],
    ['../clock.ts'],
  ],
  [
    'src/process/new.ts',
    ['../config.ts', '../receive/routes.ts', '../backfill/backfill.ts', '../store/reports.ts'],
    ['../inbox/retry.ts', '../mirror/decide.ts', 'p-queue'],
  ],
  ['src/mirror/new.ts', ['../clock.ts', '../process/handlers.ts', '../store/open.ts'], ['../store/store.ts']],
  [
    'src/backfill/new.ts',
    [
      '../config.ts',
      '../process/worker.ts',
      '../inbox/inbox.ts',
      '../ops/routes.ts',
      '../../sandbox/sandbox.ts',
    ],
    ['../compliance/client.ts', '../mirror/decide.ts', '../inbox/retry.ts'],
  ],
  [
    'src/ops/new.tsx',
    [
      '../config.ts',
      '../backfill/backfill.ts',
      '../inbox/inbox.ts',
      '../compliance/client.ts',
      '../service.ts',
    ],
    ['../store/reports.ts', 'hono/jsx'],
  ],
  [
    'src/ops/dashboard/new.tsx',
    ['../../config.ts', '../../backfill/backfill.ts', '../../store/open.ts'],
    ['../words.ts'],
  ],
  ['src/retention/new.ts', ['../config.ts', '../store/open.ts', '../ops/routes.ts'], ['../store/store.ts']],
  ['src/notify/new.ts', ['../store/store.ts', '../ops/verdict.ts', '../config.ts'], ['../clock.ts']],
  [
    'src/compliance/new.ts',
    ['../config.ts', '../store/store.ts', '../backfill/backfill.ts', '../../sandbox/state.ts'],
    ['zod'],
  ],
  [
    'src/store/new.ts',
    ['../mirror/decide.ts', '../process/worker.ts', '../config.ts', 'drizzle-orm', 'drizzle-orm/pg-core'],
    ['better-sqlite3', './drizzle.ts', 'drizzle-orm/migrator'],
  ],
  ['src/store/reports.ts', ['./open.ts', './lock.ts', 'drizzle-orm'], ['./store.ts']],
  ['src/store/store.ts', ['./open.ts', './sqlite/sqlite.ts', 'drizzle-orm', 'better-sqlite3'], []],
  [
    'src/store/sqlite/new.ts',
    [
      '../../process/worker.ts',
      '../../inbox/inbox.ts',
      '../../config.ts',
      '../open.ts',
      'hono',
      'drizzle-orm',
    ],
    ['../../mirror/decide.ts', '../../process/handlers.ts', '../store.ts', '../drizzle.ts'],
  ],
  [
    'src/store/units/new.ts',
    ['../sqlite/connection.ts', '../postgres/connection.ts', '../open.ts', '../../config.ts', 'drizzle-orm'],
    ['../database.ts', '../../mirror/decide.ts', '../schema.sqlite.ts', '../drizzle.ts'],
  ],
  [
    'src/store/postgres/new.ts',
    ['../../process/worker.ts', '../../inbox/inbox.ts', '../../config.ts', '../open.ts', 'hono'],
    [
      '../../mirror/decide.ts',
      '../../process/handlers.ts',
      '../store.ts',
      '../resolving.ts',
      '../epoch.ts',
      'pg',
    ],
  ],
  [
    'src/cli/new.ts',
    ['hono', 'drizzle-orm', 'pg'],
    ['../../sandbox/sandbox.ts', '../service.ts', '../store/open.ts'],
  ],
  [
    'sandbox/new.ts',
    [
      '../src/store/store.ts',
      '../src/receive/signature.ts',
      '../src/service.ts',
      '../src/config.ts',
      '../src/cli/cli.ts',
    ],
    ['../src/compliance/kinds.ts', '../src/errors.ts', './page/routes.tsx', 'hono'],
  ],
  [
    'sandbox/page/new.tsx',
    ['../../src/store/store.ts', '../../src/service.ts', '../../src/config.ts'],
    [
      '../../src/compliance/kinds.ts',
      '../../src/errors.ts',
      '../problems.ts',
      'hono/jsx',
      '@hono/zod-openapi',
    ],
  ],
  [
    'sandbox/demo/new.ts',
    ['../../src/service.ts', '../../src/store/open.ts', '../../src/cli/cli.ts', '../state.ts', 'pg'],
    ['../../src/compliance/kinds.ts', './stage.ts', 'node:sqlite', 'hono'],
  ],
];

/** Packages with one home each, tried from every folder that is not their home. */
const SQL = ['drizzle-orm', 'drizzle-orm/sqlite-core', 'better-sqlite3', 'node:sqlite', 'pg'];
const WEB = ['hono', 'hono/jsx', '@hono/node-server'];
const FOLDERS = [
  ...readdirSync(join(ROOT, 'src'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => `src/${entry.name}`),
  'sandbox',
];

/** Stages that are handed settings, and may name their types. */
const HANDED_SETTINGS = ['receive', 'inbox', 'process', 'backfill', 'ops', 'compliance'];

let tree: string;
/** Per file of the tree, the imports that the check refused and the rule that did. */
let refusals: Map<string, string[]>;

beforeAll(async () => {
  tree = mkdtempSync(join(tmpdir(), 'import-directions-'));
  for (const name of ['biome.json', 'import-directions.jsonc', 'package.json'])
    cpSync(join(ROOT, name), join(tree, name));
  for (const [file, refused, allowed] of DIRECTIONS) write(file, [...refused, ...allowed]);
  for (const folder of FOLDERS) {
    write(`${folder}/packages.ts`, [...SQL, ...WEB]);
    write(`${folder}/detour.ts`, [`./../${folder === 'src/store' ? 'service' : 'store/open'}.ts`]);
    write(`${folder}/environment.ts`, [], 'export const home = process.env["HOME"];');
    write(`${folder}/development.ts`, ['fast-check']);
  }
  for (const folder of HANDED_SETTINGS) {
    write(`src/${folder}/settings.ts`, [], "export type { Config } from '../config.ts';");
  }
  write('src/mirror/ring-a.ts', ['./ring-b.ts']);
  write('src/mirror/ring-b.ts', ['./ring-a.ts']);
  refusals = await lint();
});

afterAll(() => rmSync(tree, { recursive: true, force: true }));

function write(file: string, specifiers: readonly string[], more = ''): void {
  const lines = specifiers.map((specifier, index) => `export * as m${index} from '${specifier}';`);
  mkdirSync(dirname(join(tree, file)), { recursive: true });
  writeFileSync(join(tree, file), `${[...lines, more].join('\n')}\n`);
}

/** The linter's findings, as `rule line`; its exit code is 1 where it finds any. */
function lint(): Promise<Map<string, string[]>> {
  const args = [
    BIOME,
    'lint',
    '--vcs-enabled=false',
    '--reporter=github',
    '--max-diagnostics=none',
    'src',
    'sandbox',
  ];
  return new Promise((resolve) => {
    execFile(process.execPath, args, { cwd: tree, maxBuffer: 2 ** 26 }, (_error, stdout) => {
      const found = new Map<string, string[]>();
      for (const [, rule, file, line] of stdout.matchAll(/title=lint\/\w+\/(\w+),file=(.+?),line=(\d+)/g)) {
        const name = /(?:src|sandbox)\/.*/.exec(file!)![0];
        found.set(name, [...(found.get(name) ?? []), `${rule} ${line}`]);
      }
      resolve(found);
    });
  });
}

/** Lines of `file` that the import rule refused, ascending. */
function refusedLines(file: string): number[] {
  return (refusals.get(file) ?? [])
    .filter((finding) => finding.startsWith('noRestrictedImports '))
    .map((finding) => Number(finding.split(' ')[1]))
    .sort((a, b) => a - b);
}

describe('the check', () => {
  it.each(DIRECTIONS)(
    "lets %s import what its place in the data's way allows, and nothing else",
    (file, refused) => {
      expect(refusedLines(file)).toEqual(refused.map((_, index) => index + 1));
    },
  );

  it.each(FOLDERS)('keeps database drivers and hono out of %s unless that is their home', (folder) => {
    const refused = SQL.filter((name) => folder !== 'src/store' || name.startsWith('drizzle-orm'));
    const sql = refused.map((name) => SQL.indexOf(name) + 1);
    const web = ['src/receive', 'src/ops', 'sandbox'].includes(folder)
      ? []
      : WEB.map((_, index) => SQL.length + index + 1);
    expect(refusedLines(`${folder}/packages.ts`)).toEqual([...sql, ...web]);
  });

  it.each(FOLDERS)('sees through a detour in a path written in %s', (folder) => {
    expect(refusedLines(`${folder}/detour.ts`)).toEqual([1]);
  });

  it.each(FOLDERS)('refuses the environment and development packages in %s', (folder) => {
    expect(refusals.get(`${folder}/environment.ts`)).toContain('noProcessEnv 1');
    expect(refusals.get(`${folder}/development.ts`)).toContain('noUndeclaredDependencies 1');
  });

  it.each(HANDED_SETTINGS)('lets src/%s name the types of settings', (folder) => {
    expect(refusedLines(`src/${folder}/settings.ts`)).toEqual([]);
  });

  it('refuses two files that import each other', () => {
    expect(refusals.get('src/mirror/ring-a.ts')).toContain('noImportCycles 1');
  });

  it('knows every folder by name', () => {
    const listed = DIRECTIONS.map(([file]) => dirname(file));
    expect(FOLDERS.filter((folder) => !listed.includes(folder))).toEqual([]);
  });
});

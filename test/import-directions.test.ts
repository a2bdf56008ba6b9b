import { globSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string) => readFileSync(`${ROOT}/${path}`, 'utf8');

interface Room {
  name: string;
  paths: string[];
  may: { what: string; typesOnly: boolean }[];
}

const quoted = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, path]) => path!);
const [ROOMS, PACKAGES] = tables(
  /\n## Who may import whom\n(.+?)(?:\n## |$)/s.exec(read('ARCHITECTURE.md'))![1]!,
);

const PATHS = ROOMS.flatMap(({ paths }) => paths);

/** The cells of each table of a text, without the heads. */
function rowsOf(text: string): string[][][] {
  const found = text.match(/(?:^\|.*\|\n)+/gm) ?? [];
  return found.map((table) =>
    table
      .trim()
      .split('\n')
      .slice(2)
      .map((row) => row.slice(2, -2).split(' | ')),
  );
}

function tables(text: string): [Room[], Map<string, string[]>] {
  const [rooms = [], packages = []] = rowsOf(text);
  return [
    rooms.map(([room = '', may = '']) => ({
      name: /^(\w+): /.exec(room)?.[1] ?? quoted(room)[0]!,
      paths: quoted(room),
      may: [...may.matchAll(/(types of )?(?:`([^`]+)`|(\w+))/g)]
        .map(([, types, path, name]) => ({ what: (path ?? name)!, typesOnly: types !== undefined }))
        .filter(({ what }) => what !== 'nothing'),
    })),
    new Map(
      packages.flatMap(([names = '', by = '']) => quoted(names).map((name) => [`${name}/`, quoted(by)])),
    ),
  ];
}

/** The entry of `paths` that says most about `path`: a file itself, or the innermost folder. */
function closest(path: string, paths: Iterable<string>): string | undefined {
  const fitting = [...paths].filter((each) => path === each || (each.endsWith('/') && path.startsWith(each)));
  return fitting.sort((a, b) => b.length - a.length)[0];
}

function roomOf(path: string): Room | undefined {
  const entry = closest(path, PATHS);
  return ROOMS.find(({ paths }) => entry !== undefined && paths.includes(entry));
}

/** Whether it stands for the file: by its path, its room's name, or its room's folder. */
const standsFor = (what: string, path: string) =>
  what === path || roomOf(path)?.name === what || (roomOf(path)?.paths.includes(what) && what.endsWith('/'));

interface Import {
  from: string;
  /** A path from the project's folder, or a package. */
  to: string;
  isType: boolean;
}

function isAllowed({ from, to, isType }: Import): boolean {
  const [own, other] = [roomOf(from), roomOf(to)];
  if (own === undefined) return false;
  if (own === other) return true;
  if (/\.(tsx?|json)$/.test(to))
    return own.may.some(({ what, typesOnly }) => standsFor(what, to) && (isType || !typesOnly));
  const guarded = closest(`${to}/`, PACKAGES.keys());
  return guarded === undefined || PACKAGES.get(guarded)!.some((each) => standsFor(each, from));
}

const IMPORT = /(?:^(?:import|export)( type)?[^;]*? from |^import |\bimport\()'([^']+)'/gm;

const FILES = globSync('{src,sandbox}/**/*.{ts,tsx}', { cwd: ROOT });
const IMPORTS: Import[] = FILES.flatMap((from) =>
  [...read(from).matchAll(IMPORT)].map(([, type, name = '']) => ({
    from,
    to: name.startsWith('.') ? posix.join(posix.dirname(from), name) : name,
    isType: type !== undefined,
  })),
);

describe('the table of who may import whom', () => {
  it('is obeyed', () => {
    expect(IMPORTS.length).toBeGreaterThan(1000);
    expect(IMPORTS.filter((each) => !isAllowed(each))).toEqual([]);
  });

  it('stands on files of which none needs itself, types included', () => {
    const needs = Map.groupBy(IMPORTS, ({ from }) => from);
    const done = new Set<string>();
    const circles: string[] = [];
    function follow(path: string, way: readonly string[]): void {
      if (way.includes(path)) circles.push([...way.slice(way.indexOf(path)), path].join(' -> '));
      if (way.includes(path) || done.has(path)) return;
      for (const { to } of needs.get(path) ?? []) follow(to, [...way, path]);
      done.add(path);
    }
    for (const path of FILES) follow(path, []);
    expect(circles).toEqual([]);
  });

  it('has a room for every file', () => {
    expect(FILES.filter((path) => roomOf(path) === undefined)).toEqual([]);
  });

  it('allows nothing that nobody needs', () => {
    const needless = ROOMS.flatMap(({ name, may }) =>
      may
        .filter(
          ({ what, typesOnly }) =>
            !IMPORTS.some(
              ({ from, to, isType }) =>
                roomOf(from)?.name === name && standsFor(what, to) && (isType || !typesOnly),
            ),
        )
        .map(({ what }) => `${name}: ${what}`),
    );
    expect(needless).toEqual([]);
  });

  it.each([
    ['src/receive/new.ts', 'src/mirror/merge.ts'],
    ['src/receive/new.ts', 'src/compliance/client.ts'],
    ['src/receive/new.ts', 'src/platform/config.ts'],
    ['src/process/new.ts', 'src/backfill/backfill.ts'],
    ['src/process/new.ts', 'src/store/reports.ts'],
    ['src/mirror/new.ts', 'src/platform/clock.ts'],
    ['src/backfill/new.ts', 'sandbox/sandbox.ts'],
    ['src/ops/pages/new.tsx', 'src/backfill/backfill.ts'],
    ['src/compliance/new.ts', 'src/store/store.ts'],
    ['src/store/store.ts', 'src/store/open.ts'],
    ['src/store/units/new.ts', 'src/store/sqlite/connection.ts'],
    ['src/store/postgres/new.ts', 'src/store/sqlite/connection.ts'],
    ['src/service/service.ts', 'src/cli/run.ts'],
    ['src/service/new.ts', 'sandbox/sandbox.ts'],
    ['src/main.ts', 'src/service/service.ts'],
    ['src/unlisted/new.ts', 'src/platform/errors.ts'],
    ['src/cli/new.ts', 'test/support/ports.ts'],
    ['sandbox/new.ts', 'src/store/store.ts'],
    ['sandbox/page/new.tsx', 'src/cli/cli.ts'],
    ['sandbox/demo/new.ts', 'sandbox/state.ts'],
    ['src/cli/new.ts', 'hono'],
    ['src/mirror/new.ts', '@hono/node-server'],
    ['src/service/service.ts', 'better-sqlite3'],
    ['src/store/sqlite/new.ts', 'pg'],
    ['src/store/sqlite/new.ts', 'drizzle-orm/sqlite-core'],
    ['sandbox/new.ts', 'node:sqlite'],
  ])('keeps %s from importing %s', (from, to) => {
    expect(isAllowed({ from, to, isType: false })).toBe(false);
  });

  it.each([
    ['src/receive/new.ts', 'src/platform/config.ts'],
    ['src/inbox/new.ts', 'src/store/store.ts'],
  ])('lets %s have the types of %s, and nothing else', (from, to) => {
    expect(isAllowed({ from, to, isType: true })).toBe(true);
    expect(isAllowed({ from, to, isType: false })).toBe(false);
  });
});

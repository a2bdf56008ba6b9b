import { readdirSync } from 'node:fs';
import { afterAll, expect, it, vi } from 'vitest';
import { answers } from './answers.ts';
import { exitCodes, help } from './command-lines.ts';
import { metrics, openapi, settings, tables, tell, words } from './declarations.ts';
import { logLines } from './log-lines.ts';

// Other files of this worker have loaded, and will load, the real ones.
vi.hoisted(() => vi.resetModules());
afterAll(() => vi.resetModules());

/** Every setting as it is read: its default, and what it takes. */
vi.mock(import('../../src/platform/config-sources.ts'), async (original) => {
  const real = await original();
  const createReader: typeof real.createReader = (...given) => {
    const read = real.createReader(...given);
    return {
      ...read,
      value(name, parser, otherwise) {
        tell(name, otherwise, parser.takes);
        return read.value(name, parser, otherwise);
      },
      secret(name, parser) {
        tell(name, null, parser.takes);
        return read.secret(name, parser);
      },
    };
  };
  return { ...real, createReader };
});

/** What users, scripts and checks can see from outside, as text. `npx vitest run test/golden -u` writes the files anew. */
const FILES: Readonly<Record<string, () => Promise<string>>> = {
  'exit-codes.txt': exitCodes,
  'help.txt': help,
  'json.txt': answers,
  'log-lines.txt': logLines,
  'metrics.txt': metrics,
  'openapi.json': openapi,
  'settings.txt': settings,
  'tables.txt': tables,
  'words.txt': words,
};

it.each(Object.entries(FILES))('%s is as it was', async (name, text) => {
  await expect(await text()).toMatchFileSnapshot(`files/${name}`);
});

it('no file is left of what is not looked at any more', () => {
  const left = readdirSync(new URL('files', import.meta.url)).filter((name) => !Object.hasOwn(FILES, name));
  expect(left).toEqual([]);
});

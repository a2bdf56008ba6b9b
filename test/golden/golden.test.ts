import { readdirSync } from 'node:fs';
import { expect, it } from 'vitest';
import { answers } from './answers.ts';
import { exitCodes, help } from './command-lines.ts';
import { metrics, openapi, settings, tables, words } from './declarations.ts';
import { logLines } from './log-lines.ts';

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

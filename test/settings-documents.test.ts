import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { aboutSetting, SETTING_NAMES, type SettingName, settingsHelp } from '../src/platform/settings.ts';

const read = (name: string) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');
const isAdvanced = (name: SettingName) => aboutSetting(name).isAdvanced;

function tableOf(names: readonly SettingName[]): string {
  const rows = names.map((name) => {
    const { otherwise, unit, says } = aboutSetting(name);
    const value = otherwise === null ? '–' : `\`${otherwise}\`${unit === undefined ? '' : ` ${unit}`}`;
    return `| \`${name}\` | ${value} | ${says} |`;
  });
  return ['| name | default | meaning |', '|---|---|---|', ...rows].join('\n');
}

/** The page, with the tables between its marks as the settings' schema has them. */
function withTables(page: string): string {
  const tables = {
    people: tableOf(SETTING_NAMES.filter((name) => !isAdvanced(name))),
    advanced: tableOf(SETTING_NAMES.filter(isAdvanced)),
  };
  return Object.entries(tables).reduce(
    (text, [mark, table]) =>
      text.replace(
        new RegExp(`(<!-- settings: ${mark} -->\n)[^]*?(\n<!-- end -->)`),
        (_, begin, end) => `${begin}\n${table}\n${end}`,
      ),
    page,
  );
}

const EXAMPLE_HEAD = `# Settings, as "compliance-mirror setup" writes them. Or copy this to .env, take the # away where you set something, and
# keep others from reading it: umask 077. Every command reads it in the folder where it runs; what the environment sets wins.
# docs/settings.md says more of each, and has the advanced ones. Any NAME may be given as NAME_FILE=/path instead.
`;

function example(): string {
  const lines = SETTING_NAMES.filter((name) => !isAdvanced(name)).map((name) => {
    const { otherwise, brief } = aboutSetting(name);
    return `\n# ${brief}\n#${name}=${otherwise ?? ''}\n`;
  });
  return EXAMPLE_HEAD + lines.join('');
}

/** `npx vitest run test/settings-documents.test.ts -u` writes them. */
describe('the schema of the settings is what people read of them:', () => {
  it('in docs/settings.md', async () => {
    await expect(withTables(read('docs/settings.md'))).toMatchFileSnapshot('../docs/settings.md');
  });

  it('in .env.example', async () => {
    await expect(example()).toMatchFileSnapshot('../.env.example');
  });

  it('in --help, a line each that fits a terminal', () => {
    const lines = settingsHelp().split('\n');
    expect(lines.filter((line) => line.startsWith('  '))).toHaveLength(SETTING_NAMES.length);
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
  });
});

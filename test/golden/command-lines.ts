import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { lockFile } from '../../src/store/open.ts';
import { cli, inTemporaryDirectory } from '../cli/executable.ts';

export interface Helped {
  command: string;
  text: string;
}

let helped: Promise<Helped[]> | null = null;

/** Every command and subcommand with what its `--help` says, the executable itself first. */
export function everyHelp(): Promise<Helped[]> {
  helped ??= helpBelow([]);
  return helped;
}

async function helpBelow(path: string[]): Promise<Helped[]> {
  const { out } = await cli([...path, '--help']);
  const groups = out.split('\n\n').filter((part) => /^(?!Options:|Arguments:).*[:?]\n {2}/.test(part));
  const commands = [...groups.join('\n').matchAll(/^ {2}([a-z][\w-]*)/gm)];
  const all: Helped[] = [{ command: path.join(' '), text: out }];
  for (const [, name] of commands) {
    if (name !== 'help') all.push(...(await helpBelow([...path, name!])));
  }
  return all;
}

export async function help(): Promise<string> {
  const all = await everyHelp();
  return all.map(({ command, text }) => `$ compliance-mirror ${command} --help\n${text}\n`).join('');
}

const USAGE = [
  ...['nonsense', '--version', '--help', 'status --jsno', 'deliveries --limit 0', 'deliveries stat=failed'],
  ...['records policies', 'audit --since soon', 'sync policies', 'demo --for soon'],
  ...['export nothing', 'webhook register', 'deliveries retry'],
];
const ASKING = [
  ...[
    'status',
    'status --check',
    'deliveries',
    'records vendor',
    'problems show 7',
    'audit',
    'export vendors',
  ],
  ...['sync', 'sync vendor v1', 'deliveries retry e1', 'problems resolve 7 --digest x', 'pause', 'resume'],
];
/** Where nobody listens. */
const NOWHERE = 'http://127.0.0.1:1';

/** The exit code of each command line, by what it finds. */
export const exitCodes = () =>
  inTemporaryDirectory(async (folder) => {
    const lines: string[] = [];
    const url = `file:${join(folder, 'mirror.db')}`;
    const note = async (found: string, commands: readonly string[], settings = {}) => {
      for (const command of commands) {
        const { code } = await cli(command.split(' '), { DATABASE_URL: url, ...settings });
        lines.push(`${code}  ${found}: ${command}\n`);
      }
    };
    const api = { COMPLIANCE_BASE_URL: `${NOWHERE}/v1`, COMPLIANCE_API_KEY: 'any' };
    const away = { OPS_URL: NOWHERE, OPS_TOKEN: 'any' };
    await note('usage', USAGE);
    await note('a wrong setting', ['status', 'serve', 'migrate'], { PORT: '99999' });
    await note('no database', ASKING);
    await note('no service', ['migrate', 'migrate', ...ASKING, 'doctor']);
    await note('no API', ['api GET /vendors']);
    await note('an API that is down', ['api GET /vendors'], api);
    await note('a service elsewhere that is down', ['status', 'pause', 'migrate'], away);
    const lock = lockFile(url, '2026-11-01T12:00:00.000Z');
    await note('held by another', ['serve', 'migrate', ...ASKING]);
    lock.release();
    const broken = join(folder, 'broken.db');
    writeFileSync(broken, 'no database at all');
    await note('a file that is none', ['migrate', 'status'], { DATABASE_URL: `file:${broken}` });
    return lines.join('');
  });

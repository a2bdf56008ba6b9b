import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { nextVersion } from '../store/next-version.ts';
import { cli } from './executable.ts';
import { type ServiceHere, serviceHere } from './service-here.ts';

/** A Node on this machine that is too old for us, other than the one that runs the tests. */
function oldNode(): string | null {
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    const node = join(folder, 'node');
    if (folder.includes('node_modules') || !existsSync(node)) continue;
    const [major = 0] = execFileSync(node, ['-p', 'process.versions.node'], { encoding: 'utf8' })
      .split('.')
      .map(Number);
    if (major < 22) return node;
  }
  return null;
}

describe('on a Node that is too old', () => {
  const old = oldNode();

  it.skipIf(old === null)(
    'a real one (skipped where the machine has none) prints one line and exits 2',
    async () => {
      const { code, out, err } = await cli(['status'], {}, { node: old! });
      expect({ code, out, lines: err.trimEnd().split('\n').length }).toEqual({ code: 2, out: '', lines: 1 });
      expect(err).toContain('Node 26 or newer');
    },
  );

  it.each([
    ['25.9.0', 2],
    ['26.0.0', 0],
  ])('version %s exits %i', async (version, code) => {
    const pretend = `Object.defineProperty(process,"versions",{value:{...process.versions,node:"${version}"}})`;
    const nodeArgs = ['--import', `data:text/javascript,${encodeURIComponent(pretend)}`];
    expect((await cli(['--help'], {}, { nodeArgs })).code).toBe(code);
  });
});

it('its version is told to who asks', async () => {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  expect(await cli(['--version'])).toEqual({ code: 0, out: `${version}\n`, err: '' });
});

it('the help of a subcommand is shown by "help" too', async () => {
  expect(await cli(['help', 'problems', 'show'])).toEqual(await cli(['problems', 'show', '--help']));
});

it('all commands fit on one screen, a line each', async () => {
  const { out } = await cli(['help']);
  const commands = out.match(/^ {2}[a-z][a-z-]*/gm)!.map((name) => name.trim());
  expect(commands).toEqual([
    ...['serve', 'setup', 'demo', 'sandbox', 'status', 'doctor', 'problems', 'audit'],
    ...['deliveries', 'records', 'export', 'sync', 'pause', 'resume'],
    ...['webhook', 'login', 'rotate-key', 'api', 'backup', 'restore'],
  ]);
  expect(out.split('\n').length).toBeLessThan(40);
  expect(out.split('\n').filter((line) => line.length > 80)).toEqual([]);
});

describe('bad usage', () => {
  it.each([
    ['an unknown command', ['nonsense'], "unknown command 'nonsense'"],
    ['no command', [], 'Usage: compliance-mirror'],
    ['an unknown option', ['status', '--jsno'], "unknown option '--jsno'"],
    ['an unknown kind', ['records', 'policies'], 'policy, risk_assessment, vendor'],
    ['an unknown filter', ['deliveries', 'stat=failed'], 'there are state=, outcome=, type=, kind=, record='],
    ['two texts to search for', ['deliveries', 'shwo', 'evt_1'], 'two texts'],
  ])('%s exits 2 and says what is wrong', async (_, args, message) => {
    const { code, out, err } = await cli(args);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(message);
    expect(err).not.toMatch(/\n\s+at /);
  });
});

describe('without a running service', () => {
  it.each([
    ['where nothing is set up', '“setup”'],
    ['beside a database', '“npm start”'],
  ])(
    '%s, every command that looks or acts says so and what to do, and makes no database',
    async (where, remedy) => {
      const folder = mkdtempSync(join(tmpdir(), 'compliance-mirror-test-'));
      const path = join(folder, 'mirror.db');
      const settings = { DATABASE_URL: `file:${path}` };
      if (where === 'beside a database') expect((await cli(['migrate'], settings)).code).toBe(0);
      const before = existsSync(path);
      for (const command of ['status', 'records vendor', 'problems resolve 1']) {
        const { code, out, err } = await cli(command.split(' '), settings);
        expect({ code, out, lines: err.trimEnd().split('\n').length }).toEqual({
          code: 1,
          out: '',
          lines: 1,
        });
        expect(err).toContain(path);
        expect(err).toContain(remedy);
      }
      expect((await cli(['status', '--check'], settings)).code).toBe(3);
      expect(existsSync(path)).toBe(before);
      rmSync(folder, { recursive: true, force: true });
    },
  );
});

describe('on an empty database', () => {
  let directory: string;
  let settings: Record<string, string>;

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-test-'));
    settings = { DATABASE_URL: `file:${join(directory, 'mirror.db')}` };
    expect((await cli(['migrate'], settings)).code).toBe(0);
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it('migrating one of an earlier version says what takes so long, and then where the backup is', async () => {
    const { PATH = '' } = process.env;
    const older = { DATABASE_URL: `file:${join(directory, 'older.db')}` };
    expect((await cli(['migrate'], older)).code).toBe(0);
    const { status, stderr } = spawnSync(process.execPath, [join(nextVersion(), 'src/main.ts'), 'migrate'], {
      encoding: 'utf8',
      env: { PATH, ...older },
    });
    expect(status).toBe(0);
    expect(stderr.split('\n')).toEqual([
      'The database is migrated to this version, which may take long',
      expect.stringMatching(/^Before it is migrated, the database was backed up to .*\.bak$/),
      '',
    ]);
  });

  describe('of a running service', () => {
    let service: ServiceHere;

    beforeAll(async () => {
      const WEBHOOK_SECRETS = 'a-secret-for-the-commands-0123';
      service = await serviceHere({ ...settings, PORT: '0', OPS_PORT: '0', WEBHOOK_SECRETS });
    });
    afterAll(() => service.stop());

    it.each([
      ['deliveries', /^Nothing has come in yet/],
      ['deliveries state=failed', /^Nothing matches/],
      ['records policy', /^The mirror holds no policy/],
      ['problems', /^No problem is open/],
    ])('%s says in words that there is nothing, and an empty list to programs', async (command, words) => {
      expect((await cli(command.split(' '), settings)).out).toMatch(words);
      const { code, out } = await cli([...command.split(' '), '--json'], settings);
      expect({ code, list: JSON.parse(out) }).toEqual({ code: 0, list: { items: [], more: false } });
      expect((await cli([...command.split(' '), '--csv'], settings)).out).toMatch(/^[a-z_,]+\r\n$/);
    });

    it('a value that only the API can judge exits 2 as well, and is named', async () => {
      const { code, err } = await cli(['deliveries', 'state=lost'], settings);
      expect(code).toBe(2);
      expect(err).toContain('`state`');
      expect(err).toContain('dismissed');
    });

    it.each(['', '..'])('the id %j is one that nothing has, and never a list', async (id) => {
      const show = await cli(['deliveries', 'show', id], settings);
      expect(show.code).toBe(id === '' ? 2 : 1);
      const record = await cli(['records', 'show', 'vendor', id], settings);
      expect(record).toMatchObject({ code: 1, err: expect.stringContaining('holds no vendor with the id') });
    });

    it.each([
      [['deliveries', 'dismiss', '\u001b[2J'], '\\u001b[2J: there is no such delivery'],
      [['records', 'history', 'policy', '../p'], 'no policy with the id ../p'],
      [['problems', 'resolve', '7', '--digest', 'x'], 'no problem 7'],
      [['sync', 'show', '7'], 'no full sync 7'],
    ])('%j exits 1 and says that there is none', async (args, message) => {
      const { code, out, err } = await cli(args, settings);
      expect({ code, said: out + err }).toEqual({ code: 1, said: expect.stringContaining(message) });
    });

    it('the status is what the API answers, and names each kind to people', async () => {
      const status = JSON.parse((await cli(['status', '--json'], settings)).out);
      expect(status).toMatchObject({
        service: { state: 'running' },
        events: { pending: 0 },
      });
      const { out } = await cli(['status'], settings);
      expect(out).toMatch(/\nKIND +VERDICT +RECORDS +UNVERIFIED +PROBLEMS +COMPLETE THROUGH/);
      expect(out).toMatch(/\npolicy +unverified/);
      const { code, err } = await cli(['status', '--check'], settings);
      expect({ code, err }).toMatchObject({ code: 3, err: expect.stringContaining('not in sync: policy: ') });
    });

    it('an id that can be no id is refused before anything is queued', async () => {
      const { code, err } = await cli(['sync', 'vendor', 'a\nb'], settings);
      expect(code).toBe(2);
      expect(err).toContain('`ids` that records can have');
    });
  });

  it('a reader that has gone away is no failure', () => {
    const main = new URL('../../dist/src/main.js', import.meta.url).pathname;
    const command = `"${process.execPath}" "${main}" help 2>&1 | :; echo "\${PIPESTATUS[0]}"`;
    const text = execFileSync('bash', ['-c', command], {
      env: { ...process.env, ...settings },
      encoding: 'utf8',
    });
    expect(text).toBe('0\n');
  });
});

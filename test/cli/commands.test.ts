import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStore } from '../../src/store/open.ts';
import { olderDatabase } from '../store/older-database.ts';
import { cli } from './executable.ts';

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
    ['20.19.5', 2],
    ['25.9.0', 2],
    ['26.0.0', 0],
    ['27.1.0', 0],
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
  expect(await cli(['help', 'gaps', 'show'])).toEqual(await cli(['gaps', 'show', '--help']));
});

describe('bad usage', () => {
  it.each([
    ['an unknown command', ['nonsense'], "unknown command 'nonsense'"],
    ['no command', [], 'Usage: compliance-mirror'],
    ['a group without its command', ['events'], 'Usage: compliance-mirror events'],
    ['an unknown option', ['status', '--jsno'], "unknown option '--jsno'"],
    ['a limit out of range', ['events', 'list', '--limit', '501'], 'from 1 to 500'],
    ['an unknown kind', ['records', 'list', 'policies'], 'policy, risk_assessment, vendor'],
    [
      'an unknown state',
      ['events', 'list', '--state', 'lost'],
      'pending, processed, ignored, failed, discarded',
    ],
    ['a length of time that is none', ['demo', '--for', 'soon'], '20s'],
    ['a demo too short for its stories', ['demo', '--for', '1s'], 'at least 4s'],
    ['tampering with nothing compared', ['demo', '--tamper'], '--for'],
  ])('%s exits 2 and says what is wrong', async (_, args, message) => {
    const { code, out, err } = await cli(args);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(message);
    expect(err).not.toMatch(/\n\s+at /);
  });

  it('a wrong setting exits 2 and names every variable that is wrong', async () => {
    const { code, err } = await cli(['status'], { PORT: '99999', SYNC_SETTLE_SECONDS: 'soon' });
    expect(code).toBe(2);
    expect(err).toContain('PORT');
    expect(err).toContain('SYNC_SETTLE_SECONDS');
  });

  it('a database that is not there exits 2, and is not made by looking', async () => {
    const path = join(tmpdir(), `no-such-folder-${process.pid}`, 'mirror.db');
    for (const args of [['status'], ['events', 'retry', 'e1'], ['refetch', 'vendor', 'v1']]) {
      const { code, err } = await cli(args, { DATABASE_URL: `file:${path}` });
      expect(code).toBe(2);
      expect(err).toContain(path);
    }
    expect(existsSync(path)).toBe(false);
  });
});

describe('on an empty database with no service running', () => {
  let directory: string;
  let settings: Record<string, string>;

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-test-'));
    settings = { DATABASE_URL: `file:${join(directory, 'mirror.db')}` };
    expect((await cli(['migrate'], settings)).code).toBe(0);
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it('migrating one of an earlier version says what takes so long, and then where the backup is', async () => {
    const path = olderDatabase();
    const { code, err } = await cli(['migrate'], { DATABASE_URL: `file:${path}` });
    expect(code).toBe(0);
    expect(err.split('\n')).toEqual([
      'The database is migrated to this version, which may take long',
      expect.stringMatching(/^Before it is migrated, the database was backed up to .*\.bak$/),
      '',
    ]);
  });

  it('migrating again changes nothing and succeeds', async () => {
    expect((await cli(['migrate'], settings)).code).toBe(0);
  });

  it.each([
    [['audit', 'list']],
    [['deliveries', 'list']],
    [['events', 'list']],
    [['records', 'list', 'policy']],
    [['gaps', 'list']],
    [['sync-runs', 'list']],
    [['quarantine', 'list']],
  ])('%j lists nothing, as JSON in the shape of the API', async (args) => {
    expect((await cli(args, settings)).out).toBe('(none)\n');
    const { code, out } = await cli([...args, '--json'], settings);
    expect({ code, list: JSON.parse(out) }).toEqual({ code: 0, list: { items: [], next: null } });
  });

  it('a value that only the API can judge exits 2 as well, and is named', async () => {
    const { code, err } = await cli(['events', 'list', '--after', 'the-last'], settings);
    expect(code).toBe(2);
    expect(err).toContain('`after`: the value of `next` from the page before');
  });

  it('a status that cannot be read is an error, and not a row of zeros', async () => {
    const path = join(directory, 'broken.db');
    expect((await cli(['migrate'], { DATABASE_URL: `file:${path}` })).code).toBe(0);
    const database = new DatabaseSync(path);
    database.exec('DROP VIEW sync_status');
    database.close();
    for (const args of [['status'], ['status', '--json'], ['status', '--check']]) {
      const { code, out, err } = await cli(args, { DATABASE_URL: `file:${path}` });
      expect({ code, out }).toEqual({ code: 1, out: '' });
      expect(err).toContain('sync_status');
    }
  });

  it.each(['', '.', '..'])('the id %j is one that nothing has, and never a list', async (id) => {
    for (const args of [
      ['events', 'show'],
      ['events', 'retry'],
      ['records', 'show', 'vendor'],
    ]) {
      const { code, out, err } = await cli([...args, id], settings);
      expect({ code, out }).toEqual({ code: 1, out: '' });
      expect(err).toMatch(/no event with the id|holds no vendor with the id/);
    }
  });

  it('the status names each kind and says that no service runs, and what to do', async () => {
    const status = JSON.parse((await cli(['status', '--json'], settings)).out);
    expect(status.service).toBeNull();
    expect(status.kinds.map((each: { kind: string }) => each.kind)).toEqual([
      'policy',
      'risk_assessment',
      'vendor',
    ]);
    expect(status.events).toEqual({ pending: 0, processed: 0, ignored: 0, failed: 0, discarded: 0 });
    const { out } = await cli(['status'], settings);
    expect(out).toMatch(/^No service is running .*\nWhat to do: Start it .*\n\n/);
    // Without credentials nothing is read, ever.
    expect(out).not.toContain('reading assessments');
    const { code, err } = await cli(['status', '--check'], settings);
    expect({ code, err }).toMatchObject({ code: 3, err: expect.stringContaining('not in sync: policy: ') });
  });

  it('the status check is not content with what was in sync until a moment ago, when its service stopped', async () => {
    const path = join(directory, 'stopped.db');
    const stopped = { ...settings, DATABASE_URL: `file:${path}` };
    expect((await cli(['migrate'], stopped)).code).toBe(0);
    const database = new DatabaseSync(path);
    const now = new Date().toISOString();
    const fact = database.prepare('INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)');
    for (const [name, value] of Object.entries({ heartbeat: now, events_only: '0', access: 'a' }))
      fact.run(name, value);
    for (const kind of ['policy', 'risk_assessment', 'vendor']) {
      database
        .prepare('INSERT INTO kind_state (kind, read_with, read_at) VALUES (?, ?, ?)')
        .run(kind, 'a', now);
      database
        .prepare(
          `INSERT INTO sync_runs (kind, reason, started_at, finished_at, outcome, number, began_at)
            VALUES (?, 'start', ?, ?, 'complete', 1, 1)`,
        )
        .run(kind, now, now);
    }
    database.close();
    const { code, out, err } = await cli(['status', '--check'], stopped);
    expect(out).toContain('in_sync');
    expect({ code, err }).toMatchObject({ code: 3, err: expect.stringContaining('no service is running') });
  });

  it.each([
    [['events', 'show', 'e1'], 'no event with the id e1'],
    [['events', 'retry', 'e1'], 'no event with the id e1'],
    [['events', 'discard', '\u001b[2J'], 'no event with the id \\u001b[2J'],
    [['records', 'show', 'vendor', 'v1'], 'no vendor with the id v1'],
    [['records', 'history', 'policy', '../p'], 'no policy with the id ../p'],
    [['gaps', 'show', '7'], 'no gap with the id 7'],
    [['sync-runs', 'show', '7'], 'no full sync with the id 7'],
    [['deletions', 'approve', '7'], 'no deletions of full sync 7 wait for approval'],
    [['quarantine', 'show', '7'], 'no delivery with the id 7'],
    [['quarantine', 'release', '7'], 'no delivery with the id 7'],
    [['sync'], 'no service is running'],
  ])('%j exits 1 with one clear line', async (args, message) => {
    const { code, out, err } = await cli(args, settings);
    expect({ code, out, lines: err.trimEnd().split('\n').length }).toEqual({ code: 1, out: '', lines: 1 });
    expect(err).toContain(message);
  });

  it('a full sync that is only asked for has no JSON to print, and says so before it is asked for', async () => {
    for (const args of [['--json'], ['--wait', '--json']]) {
      const { code, out, err } = await cli(['sync', ...args], settings);
      expect({ code, out }).toEqual({ code: 2, out: '' });
      expect(err).toContain("'--json' needs '--dry-run'");
    }
  });

  it('an id that can be no id is refused before anything is queued', async () => {
    const { code, err } = await cli(['refetch', 'vendor', 'a\nb'], settings);
    expect(code).toBe(2);
    expect(err).toContain('cannot be a record');
    const unaddressable = await cli(['refetch', 'vendor', 'v1', '..'], settings);
    expect(unaddressable.code).toBe(2);
    expect(unaddressable.err).toContain('no path can carry');
  });

  it('a refetch is remembered for the service to come', async () => {
    const { code, out } = await cli(['refetch', 'vendor', 'v1', 'v2', 'v1'], settings);
    expect(code).toBe(0);
    expect(out).toContain('2 records will be read again as soon as the service runs');
  });

  it('without ids it is all of the kind, and a file without ids is a mistake', async () => {
    const store = await openStore(settings['DATABASE_URL']!);
    const read = { number: 1, beganAt: 1, endedAt: 1, endedWall: Date.now() };
    const ids = ['p1', 'p2', 'p3'];
    const rows = ids.map((policyId) => ({ id: policyId, data: { policyId, name: policyId } }));
    const pointers = { policy: ['policyId'], risk_assessment: ['id'], vendor: ['id'] };
    const context = { cause: 'refetch', syncRunId: null, timing: { settleMs: 1 }, pointers };
    await store.applyReads('policy', rows, read, context);
    await store.close();
    const due = () => {
      const database = new DatabaseSync(settings['DATABASE_URL']!.slice('file:'.length), {
        readOnly: true,
        timeout: 5_000,
      });
      const sql = "select id from record_state where kind = 'policy' and due_at is not null order by id";
      const found = database.prepare(sql).all();
      database.close();
      return found.map(({ id }) => id);
    };
    expect(due()).toEqual([]);
    const { code, out } = await cli(['refetch', 'policy'], settings);
    expect({ code, out }).toEqual({
      code: 0,
      out: 'All policies will be read again as soon as the service runs.\n',
    });
    // A service that starts reads all of each kind; what is named is noted for it.
    expect(due()).toEqual([]);
    expect((await cli(['refetch', 'policy', 'p2'], settings)).out).toBe(
      '1 record will be read again as soon as the service runs.\n',
    );
    expect(due()).toEqual(['p2']);
    const empty = await cli(['refetch', 'policy', '--ids', '/dev/null'], settings);
    expect(empty.code).toBe(2);
    expect(empty.err).toContain('holds no id');
  });

  it('a file of ids may have comment lines and blank ones, as RISK_IDS_FILE may', async () => {
    const list = join(directory, 'ids');
    writeFileSync(list, '# asked about in May\r\nv-1\r\n\r\n  # and in June\r\nv-2\r\n');
    const { code, out } = await cli(['refetch', 'vendor', '--ids', list], settings);
    expect({ code, out }).toEqual({
      code: 0,
      out: '2 records will be read again as soon as the service runs.\n',
    });
  });

  it('pausing and resuming need no service', async () => {
    expect((await cli(['pause'], settings)).code).toBe(0);
    expect((await cli(['resume'], settings)).out).toContain('Resumed');
  });

  it('a reader that has gone away is no failure', () => {
    const main = new URL('../../dist/src/main.js', import.meta.url).pathname;
    const command = `"${process.execPath}" "${main}" status --json 2>&1 | :; echo "\${PIPESTATUS[0]}"`;
    const text = execFileSync('bash', ['-c', command], {
      env: { ...process.env, ...settings },
      encoding: 'utf8',
    });
    expect(text).toBe('0\n');
  });
});

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { serve } from '@hono/node-server';
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { parseJson } from '../../src/compliance/json.ts';
import { type Clock, systemClock } from '../../src/platform/clock.ts';
import { eventually } from '../convergence/service.ts';
import { IS_FULL } from '../support/full.ts';
import { type FollowedRow, sameRows } from './follower.ts';
import { type Harness, opsHarness, READ } from './harness.ts';

const DOCUMENT = readFileSync(new URL('../../docs/following-changes.md', import.meta.url), 'utf8');
const HAS_PYTHON = spawnSync('python3', ['--version']).status === 0;
const KILLS = IS_FULL ? 12 : 6;
/** Requests that a follower makes before it is killed, at most: a snapshot takes a dozen, and some are to end. */
const LONGEST_LIFE = 40;
/** Changes made while nothing is asked: of those made until a slow process has started there would be no end. */
const MOST_AHEAD = 6;
/** Instead of the wait that a follower asks for. Milliseconds. */
const IDLE_MS = 5;
/** Only what hangs is ended by it. */
const PATIENCE_MS = 120_000;
const DAY_MS = 86_400_000;

const TABLES = { policy: 'policies', risk_assessment: 'risk_assessments', vendor: 'vendors' } as const;
const NOTHING = { name: null, version: null, status: null, deleted_at: null };
const KINDS = ['policy', 'risk_assessment', 'vendor'] as const;

/** Numbers that look like chance and are the same in each run of one seed. */
function chanceOf(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** What a follower keeps. */
function copyIn(file: string): Map<string, FollowedRow> {
  // Not for reading alone: who was killed may have left a log that has to be taken in first.
  const db = new Database(file);
  const rows = db.prepare('SELECT kind, id, row FROM records').all() as Record<string, string>[];
  db.close();
  const rowOf = (text: string) => ({ ...NOTHING, ...(parseJson(text) as FollowedRow) });
  return new Map(rows.map(({ kind, id, row }) => [`${kind} ${id}`, rowOf(row!)]));
}

function tables(h: Harness): Map<string, FollowedRow> {
  const rows = new Map<string, FollowedRow>();
  const db = new Database(h.database, { readonly: true });
  for (const kind of KINDS) {
    const version = kind === 'policy' ? 'version' : 'NULL AS version';
    const sql = `SELECT id, name, ${version}, status, deleted_at, data FROM ${TABLES[kind]}`;
    for (const { id, data, ...columns } of db.prepare(sql).all() as Record<string, unknown>[]) {
      rows.set(`${kind} ${id}`, { ...columns, data: parseJson(String(data)) } as FollowedRow);
    }
  }
  db.close();
  return rows;
}

it.for([
  ['TypeScript', 'ts', process.execPath, 1, true],
  ['Python', 'python', 'python3', 3, HAS_PYTHON],
] as const)(
  'the follower in %s that the document shows, killed at random, rebuilds the three tables',
  { timeout: 2 * PATIENCE_MS },
  async ([, language, program, seed, isHere], { skip }) => {
    if (!isHere) skip('there is no Python here');
    const chance = chanceOf(seed);
    let skippedMs = 0;
    const real = systemClock();
    const clock: Clock = {
      ...real,
      wall: () => real.wall() + skippedMs,
      steady: () => real.steady() + skippedMs,
    };
    const h = await opsHarness({ clock });
    const folder = mkdtempSync(join(tmpdir(), 'follower-'));
    const copy = join(folder, 'copy.db');
    const file = join(folder, `follower.${language}`);
    writeFileSync(file, new RegExp(`\`\`\`${language}\\n([^]*?)\`\`\``).exec(DOCUMENT)![1]!);
    /** The process that runs. What one before it had sent comes late, and is answered, but does not count. */
    let life = 0;
    let requests = 0;
    let ahead = 0;
    let asked = Promise.withResolvers<void>();
    let expired = 0;
    /** Whether the last answer said that nothing was new. */
    let isIdle = false;
    const server = serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: async ({ url, headers }) => {
        const [, of, path] = /^(\d+)(\/.*)$/.exec(url.slice(origin.length + 1)) ?? [];
        // Pages so small that a kill meets a follower between two of them, and no waiting.
        const small = new URL(`${origin}${path}`);
        small.searchParams.set('limit', '3');
        small.searchParams.delete('wait');
        const response = await h.app.request(small.href, { headers });
        if (response.status === 410) expired += 1;
        const saysNothing =
          path?.startsWith('/api/changes') === true && (await response.clone().text()).includes('"items":[]');
        if (Number(of) === life) {
          requests += 1;
          ahead = 0;
          asked.resolve();
          asked = Promise.withResolvers();
          isIdle = saysNothing;
        }
        if (saysNothing) await setTimeout(IDLE_MS);
        return response;
      },
    });
    await once(server, 'listening');
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const start = (): ChildProcess => {
      life += 1;
      isIdle = false;
      const env = { ...process.env, OPS_URL: `${origin}/${life}`, OPS_TOKEN: READ, COPY: copy };
      return spawn(program, [file], { env, stdio: ['ignore', 'ignore', 'inherit'] });
    };
    const kill = async (child: ChildProcess) => {
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      expect((await gone)[1]).toBe('SIGKILL');
    };
    const change = async () => {
      // Reads closer together than SETTLE would not be applied.
      skippedMs += 60_000;
      const kind = KINDS[chance(3)]!;
      const id = `rec ${chance(9)}`;
      await h.mirror(kind, id, {
        name: `name ${chance(1000)}`,
        status: ['draft', 'processed'][chance(2)],
        // No double holds all of these.
        [`field ${chance(3)}`]: 2n ** 60n + BigInt(chance(9)),
      });
    };

    try {
      while (life < KILLS) {
        const until = requests + 1 + chance(LONGEST_LIFE);
        const child = start();
        while (requests < until) {
          ahead += 1;
          if (ahead > MOST_AHEAD) await asked.promise;
          else await change();
          await new Promise((resolve) => setImmediate(resolve));
        }
        await kill(child);
        for (let n = chance(20); n > 0; n -= 1) await change();
        if (life === KILLS / 2) {
          await change();
          await h.store.trim('changes', {
            before: clock.wall() + DAY_MS,
            now: clock.wall() + DAY_MS,
            after: 0,
            limit: 1_000_000,
          });
        }
      }
      const last = start();
      await eventually('a follower with nothing left to read', () => isIdle, PATIENCE_MS);
      await kill(last);
      expect(expired).toBeGreaterThan(0);
      expect(sameRows(copyIn(copy), tables(h))).toBe(true);
    } finally {
      server.close();
      if ('closeAllConnections' in server) server.closeAllConnections();
      await h.close();
      rmSync(folder, { recursive: true, force: true });
    }
  },
);

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { Hono } from 'hono';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import type { OpsEnv } from '../../src/ops/access.ts';
import { createApi } from '../../src/ops/api/app.ts';
import { WAITING_MAX, WAITING_MAX_OF_ONE } from '../../src/ops/api/feed.ts';
import type { OpsContext } from '../../src/ops/context.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { createScene, type Scene, SETTLE_MS } from '../store/scene.ts';
import { IS_FULL } from '../support/full.ts';
import { type Disk, type FollowedRow, follow, Killed, sameRows } from './follower.ts';

/** Histories tried, each over a database of its own. */
const RUNS = IS_FULL ? 40 : 5;
const DAY_MS = 86_400_000;
const TABLES = { policy: 'policies', risk_assessment: 'risk_assessments', vendor: 'vendors' } as const;

let folder: string;
let scene: Scene;
let closing: () => Promise<void>;
let draining = new AbortController();

async function open(): Promise<void> {
  draining = new AbortController();
  folder = mkdtempSync(join(tmpdir(), 'feed-'));
  const path = join(folder, 'mirror.db');
  scene = await createScene(async () => {
    const store = await openStore(`file:${path}`);
    const reader = new Database(path, { readonly: true });
    return {
      store,
      query: async (sql) => reader.prepare(sql).all() as Record<string, unknown>[],
      close: async () => {
        reader.close();
        await store.close();
      },
    };
  });
  closing = async () => {
    await scene.close();
    rmSync(folder, { recursive: true, force: true });
  };
}

/** Who asks is in the header `from`. The feed needs nothing of a service but these. */
function listener(verbs: Partial<Store> = {}, clock = systemClock()) {
  const audit = { note: async () => undefined };
  const context = { store: { ...scene.store, ...verbs }, clock, signal: draining.signal };
  return new Hono<OpsEnv>()
    .use(async (c, next) => {
      c.set('identity', { name: c.req.header('from') ?? 'rita', role: 'read', isSession: false });
      await next();
    })
    .route('/', createApi(context as unknown as OpsContext, audit as never, {} as never));
}

async function get(
  path: string,
  app = listener(),
  from = 'rita',
): Promise<{ status: number; body: JsonObject }> {
  const response = await app.request(path, { headers: { from } });
  return { status: response.status, body: (await response.json()) as JsonObject };
}

async function trimAll(): Promise<void> {
  scene.pass(DAY_MS);
  await scene.store.trim('changes', {
    before: scene.now().wall,
    now: scene.now().wall,
    after: 0,
    limit: 1000,
  });
}

async function tables(): Promise<Map<string, FollowedRow>> {
  const rows = new Map<string, FollowedRow>();
  for (const kind of KINDS) {
    const version = kind === 'policy' ? 'version' : 'NULL AS version';
    const sql = `SELECT id, name, ${version}, status, deleted_at, data FROM ${TABLES[kind]}`;
    for (const { id, data, ...columns } of await scene.query(sql)) {
      rows.set(`${kind} ${id}`, { ...columns, data: JSON.parse(String(data)) } as FollowedRow);
    }
  }
  return rows;
}

const fields = fc.dictionary(
  fc.constantFrom('name', 'version', 'status', 'owner', '__proto__', 'note'),
  fc.oneof(fc.string({ maxLength: 4 }), fc.constant(null), fc.jsonValue({ maxDepth: 1 })),
  { maxKeys: 4 },
);
const step = fc.record({
  verb: fc.constantFrom('event', 'event', 'delete event', 'read', 'read', 'absent', 'pass'),
  kind: fc.constantFrom(...KINDS),
  n: fc.nat(3),
  fields,
});

async function take(verb: string, kind: Kind, n: number, shows: JsonObject): Promise<void> {
  const recordId = `rec:${n}`;
  if (verb === 'event') await scene.accept(scene.event({ kind, recordId, shows }));
  if (verb === 'delete event') {
    const type = { policy: 'policy.deleted', vendor: 'vendor.removed', risk_assessment: 'risk.mitigated' };
    await scene.accept(scene.event({ kind, type: type[kind], recordId, shows }));
  }
  if (verb.endsWith('event')) await scene.work();
  if (verb === 'read') await scene.show(kind, recordId, shows);
  if (verb === 'absent') await scene.conclude(kind, { absent: [recordId] });
  scene.pass(verb === 'pass' ? SETTLE_MS : 1);
}

describe('a follower of the feed', () => {
  it('killed and restarted at random, with the history trimmed on the way, rebuilds the three tables', async () => {
    let expired = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 6, maxLength: 40 }),
        fc.infiniteStream(fc.nat(29)),
        async (history, chances) => {
          await open();
          const chance = () => chances.next().value as number;
          try {
            const disk: Disk = { rows: new Map(), cursor: '0' };
            const counting = async (path: string) => {
              // The mirror does not stand still while somebody reads it page by page.
              const meanwhile = chance() < 15 ? history[chance() % history.length] : undefined;
              if (meanwhile !== undefined) {
                await take(meanwhile.verb, meanwhile.kind, meanwhile.n, meanwhile.fields);
              }
              const answer = await get(path);
              if (answer.status === 410) expired += 1;
              return answer;
            };
            const trimAt = Math.floor(history.length / 2);
            for (const [index, { verb, kind, n, fields: shows }] of history.entries()) {
              await take(verb, kind, n, shows);
              if (index === trimAt) await trimAll();
              if (chance() > 12) continue;
              await follow(counting, disk, () => {
                if (chance() === 0) throw new Killed();
              }).catch((error: unknown) => {
                if (!(error instanceof Killed)) throw error;
              });
            }
            await follow(get, disk, () => undefined);
            expect(disk.rows).toEqual(await tables());
            expect(sameRows(disk.rows, await tables())).toBe(true);
          } finally {
            await closing();
          }
        },
      ),
      { numRuns: RUNS },
    );
    // The trimming was met, or nothing of it was tried.
    expect(expired).toBeGreaterThan(0);
  }, 300_000);
});

describe('the feed', () => {
  beforeEach(open);
  afterEach(() => closing());

  async function threeVendors(): Promise<void> {
    for (const id of ['a', 'b', 'c']) await scene.show('vendor', id, { id, name: id });
  }

  it('refuses a cursor older than what is kept, and names the snapshot', async () => {
    await threeVendors();
    const cursor = (await get('/api/changes?limit=1')).body['next'];
    await trimAll();
    const { status, body } = await get(`/api/changes?after=${cursor}`);
    expect([status, body['code']]).toEqual([410, 'cursor_expired']);
    expect(body['detail']).toContain('/api/snapshot');
    const { seq } = (await get('/api/snapshot')).body;
    expect((await get(`/api/changes?after=${seq}`)).status).toBe(200);
  });

  it('goes on from the last change that was trimmed, since nothing lies between', async () => {
    await threeVendors();
    const { next } = (await get('/api/changes')).body;
    await trimAll();
    expect(await get(`/api/changes?after=${next}`)).toMatchObject({
      status: 200,
      body: { items: [], next },
    });
  });

  it('refuses a cursor that this database has not come to, as after a restore', async () => {
    await threeVendors();
    expect((await get('/api/changes?after=999999')).body['code']).toBe('cursor_expired');
  });

  it('takes a bare number as well as an epoch with one, and answers with both', async () => {
    await threeVendors();
    const { epoch, items, next } = (await get('/api/changes?limit=1')).body;
    const [first] = items as JsonObject[];
    expect(next).toBe(`${epoch}.${first!['seq']}`);
    const rest = await get(`/api/changes?after=${next}`);
    expect(await get(`/api/changes?after=${first!['seq']}`)).toEqual(rest);
    expect((await get('/api/snapshot')).body).toMatchObject({
      epoch,
      after: expect.stringMatching(/^\w+\.\d+$/),
    });
  });

  it('refuses a cursor of another epoch, though its number is one that this database has', async () => {
    await threeVendors();
    const { next } = (await get('/api/changes?limit=1')).body;
    const page = encodeURIComponent(String((await get('/api/snapshot?limit=1')).body['next']));
    await scene.store.writeFact('epoch', 'another');
    for (const path of [`/api/changes?after=${next}`, `/api/snapshot?after=${page}`]) {
      const { status, body } = await get(path);
      expect([status, body['code']], path).toEqual([410, 'cursor_expired']);
      expect(body['detail']).toContain('/api/snapshot');
    }
  });

  it('gives a snapshot of one kind, or of all, tombstones included, with one seq for all its pages', async () => {
    await threeVendors();
    await scene.show('policy', 'p:1', { id: 'p:1', name: 'P' });
    await scene.conclude('policy', { absent: ['p:1'] });
    const first = (await get('/api/snapshot?limit=2')).body;
    await scene.show('vendor', 'd', { id: 'd', name: 'd' });
    const second = (await get(`/api/snapshot?limit=2&after=${encodeURIComponent(String(first['next']))}`))
      .body;
    expect(second['seq']).toBe(first['seq']);
    const ids = [first, second].flatMap((page) => (page['items'] as JsonObject[]).map((row) => row['id']));
    expect(ids).toEqual(['p:1', 'a', 'b', 'c']);
    const vendors = (await get('/api/snapshot?kind=vendor')).body;
    expect((vendors['items'] as JsonObject[]).map((row) => row['id'])).toEqual(['a', 'b', 'c', 'd']);
    expect(vendors['next']).toBeNull();
  });

  it('that is waited for answers with a change that was made while it looked, and refuses what is of another epoch by then', async () => {
    await threeVendors();
    const { next } = (await get('/api/changes')).body;
    let looks = 0;
    const list: Store['list'] = async (...args) => {
      const changes = await scene.store.list(...args);
      looks += 1;
      if (looks % 2 === 1) await scene.show('vendor', `new_${looks}`, { id: `new_${looks}` });
      return changes;
    };
    let waitedMs = 0;
    const clock = {
      ...systemClock(),
      steady: () => waitedMs,
      sleep: async (ms: number) => {
        waitedMs += ms;
      },
    };
    const { body } = await get(`/api/changes?after=${next}&wait=30`, listener({ list }, clock));
    expect(body['items']).toMatchObject([{ record_id: 'new_1' }]);
    expect(waitedMs).toBeLessThan(15_000);
    const feed = async () => {
      const present = await scene.store.feed();
      return looks < 4 ? present : { ...present, epoch: 'another' };
    };
    const waited = get(`/api/changes?after=${body['next']}&wait=30`, listener({ list, feed }));
    expect((await waited).status).toBe(410);
  });

  it('of one kind passes over the others, page by page, and of all kinds together is the whole', async () => {
    const steps = fc.array(step, { minLength: 1, maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(steps, fc.integer({ min: 1, max: 5 }), async (history, limit) => {
        await closing();
        await open();
        for (const { verb, kind, n, fields: shows } of history) await take(verb, kind, n, shows);
        const whole = (await get('/api/changes?limit=500')).body['items'] as JsonObject[];
        for (const kind of KINDS) {
          const followed: JsonObject[] = [];
          for (let after = '0', isMore = true; isMore; ) {
            const { items, next } = (await get(`/api/changes?kind=${kind}&limit=${limit}&after=${after}`))
              .body;
            isMore = after !== next;
            after = String(next);
            expect((items as JsonObject[]).length).toBeLessThanOrEqual(limit);
            followed.push(...(items as JsonObject[]));
          }
          expect(followed).toEqual(whole.filter((change) => change['kind'] === kind));
        }
      }),
      { numRuns: RUNS },
    );
  });

  it('that is waited for answers once there is a change of the kind, and not for another kind', async () => {
    await threeVendors();
    const { next } = (await get('/api/changes')).body;
    let isAnswered = false;
    const asked = get(`/api/changes?after=${next}&kind=policy&wait=30`).finally(() => {
      isAnswered = true;
    });
    await scene.show('vendor', 'd', { id: 'd', name: 'd' });
    expect((await get(`/api/changes?after=${next}&wait=30`)).body['items']).toMatchObject([
      { record_id: 'd' },
    ]);
    expect(isAnswered).toBe(false);
    await scene.show('policy', 'p', { id: 'p', name: 'P' });
    expect((await asked).body['items']).toMatchObject([{ kind: 'policy', record_id: 'p' }]);
  });

  it('lets one token wait at so many places that others find one, and all together no more, and a look at its head waits for nothing', async () => {
    await threeVendors();
    const { next } = (await get('/api/changes')).body;
    const app = listener();
    const [long, short] = ['30', '0.01'].map((wait) => `/api/changes?after=${next}&wait=${wait}`);
    const waiting = Array.from({ length: WAITING_MAX_OF_ONE }, () => get(long!, app));
    await expect.poll(async () => (await get(short!, app)).status).toBe(503);
    expect((await get(short!, app, 'olga')).status).toBe(200);
    while (waiting.length < WAITING_MAX) waiting.push(get(long!, app, 'olga'));
    await expect.poll(async () => (await get(short!, app, 'otto')).status).toBe(503);
    expect((await app.request(long!, { method: 'HEAD' })).status).toBe(200);
    draining.abort();
    expect((await Promise.all(waiting)).every(({ status }) => status === 200)).toBe(true);
    expect((await get(short!, app)).status).toBe(200);
  });

  it('does not take anything else for seconds to wait', async () => {
    for (const wait of ['-1', 'x']) {
      expect((await get(`/api/changes?wait=${wait}`)).status, wait).toBe(400);
    }
  });

  it('does not take anything else for a place in a snapshot', async () => {
    for (const after of ['x', '1', '1:vendor', '1:person:a', '-1:vendor:a', '1:vendor:']) {
      const { status, body } = await get(`/api/snapshot?after=${encodeURIComponent(after)}`);
      expect([after, status, body['code']]).toEqual([after, 400, 'invalid_parameter']);
    }
  });
});

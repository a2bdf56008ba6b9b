import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../convergence/service.ts';
import { type IndependentUpstream, startIndependentUpstream } from '../support/independent-upstream.ts';
import { fill } from '../support/independent-upstream-records.ts';
import { createSender, eventAbout, signature } from '../support/independent-upstream-sender.ts';
import { createSite, OPS_TOKEN, type Replica, type Site } from './site.ts';

const TIMEOUT_MS = 240_000;

let upstream: IndependentUpstream;
let site: Site;

beforeAll(async () => {
  upstream = await startIndependentUpstream();
  fill(upstream.records, { policies: 20, assessments: 0, vendors: 10 });
  site = await createSite({
    upstream,
    replicas: 2,
    settings: { SYNC_SETTLE_SECONDS: '0.5', COMPLIANCE_REQUESTS_PER_MINUTE: '6000', SYNC_FULL_MINUTES: '0' },
  });
  await Promise.all(site.replicas.map((replica) => replica.start()));
}, TIMEOUT_MS);
afterAll(async () => {
  await site.end();
  await upstream.close();
});

/** The host's name, the process's number and something of its own, with a `-` between them. */
const isOwnedBy = (owner: string | undefined, pid: number | null) =>
  owner !== undefined && new RegExp(`-${pid}-[^-]+$`).test(owner);

/** Who does the list scans now, and who does not. */
async function roles(): Promise<{ holder: Replica; other: Replica }> {
  return await eventually('somebody to hold the lease', async () => {
    const [lease] = await site.query<{ owner: string }>("SELECT owner FROM leases WHERE name = 'worker'");
    const holder = site.replicas.find((replica) => isOwnedBy(lease?.owner, replica.pid()));
    const other = site.replicas.find((replica) => replica !== holder);
    return holder !== undefined && other !== undefined && { holder, other };
  });
}

const syncRuns = async (reason: string) =>
  await site.query<{ id: string; outcome: string | null }>(
    `SELECT id, outcome FROM sync_runs WHERE reason LIKE '%${reason}%' AND kind = 'policy' ORDER BY id`,
  );

describe('what one replica is asked for', () => {
  it('is fully synced by the one that full syncs', async () => {
    const { other } = await roles();
    await other.post('/api/syncs', { kinds: ['policy'] });
    await eventually('the full sync', async () =>
      (await syncRuns('operator:tester')).some(({ outcome }) => outcome === 'complete'),
    );
  });

  it('stops the others too, until any of them is told to go on', async () => {
    const { holder, other } = await roles();
    await other.post('/api/pause');
    const isPaused = async (replica: Replica) =>
      (await replica.get<{ problems: { reason: string }[] }>('/api/status')).problems.some(
        ({ reason }) => reason === 'paused',
      );
    await eventually('the other to pause', () => isPaused(holder));
    const since = async (replica: Replica) =>
      (await replica.get<{ since: string | null }>('/api/status')).since;
    expect(await since(other)).toMatch(/^\d{4}-/);
    expect(await since(holder)).toBe(await since(other));
    const sender = createSender(holder.webhookUrl);
    const record = { ...upstream.records.find('policies', 'pol-3')!, name: 'While paused' };
    upstream.records.put('policies', record);
    const event = eventAbout('policy.updated', 'policies', record, 'while-paused');
    await eventually('it to be taken', async () => isTaken(await sender.attempt(event)));
    sender.close();
    await holder.post('/api/resume');
    await eventually('both to go on', async () => !(await isPaused(other)) && !(await isPaused(holder)));
    await eventually('the event to be done', async () => {
      const [event] = await site.query<{ state: string }>(
        "SELECT state FROM events WHERE id = 'while-paused'",
      );
      return event?.state === 'processed';
    });
  });
});

/** As a browser asks that a load balancer sends to this replica: pages, forms and the cookie alone. */
async function browse(
  replica: Replica,
  path: string,
  cookie: string,
  form?: Record<string, string>,
): Promise<Response> {
  return await fetch(`${replica.opsUrl}${path}`, {
    redirect: 'manual',
    headers: { accept: 'text/html', 'sec-fetch-site': 'same-origin', cookie },
    ...(form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) }),
  });
}

async function signedIn(at: Replica): Promise<string> {
  const answer = await browse(at, '/sign-in', '', { token: OPS_TOKEN });
  expect(answer.status).toBe(303);
  return answer.headers.get('set-cookie')!.split(';')[0]!;
}

describe('an operator who signed in at one replica', () => {
  it('is signed in at every one, and signed out of every one at once, as nobody else is', async () => {
    const [a, b] = site.replicas as [Replica, Replica];
    const [mine, another] = [await signedIn(a), await signedIn(b)];
    for (const replica of site.replicas) expect((await browse(replica, '/', mine)).status).toBe(200);
    expect((await browse(b, '/sign-out', mine, {})).status).toBe(303);
    for (const replica of site.replicas) {
      expect((await browse(replica, '/', mine)).headers.get('location')).toBe('/sign-in');
      expect((await browse(replica, '/api/pause', mine, {})).status).toBe(401);
      expect((await browse(replica, '/', another)).status).toBe(200);
    }
  });
});

describe('the one that full syncs', () => {
  it(
    'is followed by another when it is killed, and the list scan it was at is read again',
    async () => {
      const { holder, other } = await roles();
      // The list scan stands still in the middle.
      upstream.faultOf = ({ path }) => (path.includes('/policies') ? { fault: 'hang', ms: 60_000 } : null);
      await holder.post('/api/syncs', { kinds: ['policy'] });
      await eventually('the scan to be under way', async () =>
        (await syncRuns('operator')).some(({ outcome }) => outcome === null),
      );
      await holder.kill();
      upstream.faultOf = () => null;
      await eventually('the other to take over', async () => (await roles()).holder === other);
      await eventually('a scan of its own', async () => (await syncRuns('')).at(-1)?.outcome === 'complete');
      expect((await syncRuns('operator')).at(-1)).toMatchObject({ outcome: 'interrupted' });
      await holder.start();
    },
    TIMEOUT_MS,
  );
});

describe('while the database is down', () => {
  it(
    'deliveries are answered 503 with Retry-After and no replica is ready; when it is back, both go on by themselves',
    async () => {
      await site.server.halt('crash');
      const [a] = site.replicas as [Replica];
      const event = eventAbout('vendor.updated', 'vendors', upstream.records.find('vendors', 'ven-2')!);
      const sender = createSender(a.webhookUrl);
      await eventually('a 503', async () => (await sender.attempt(event)) === 503);
      const [delivered, ready] = [await answerOf(a, event.body), await fetch(`${a.opsUrl}/readyz`)];
      expect(delivered.status).toBe(503);
      expect(delivered.headers.get('retry-after')).toMatch(/^\d+$/);
      expect(ready.status).toBe(503);
      await site.server.start();
      for (const replica of site.replicas) {
        await eventually(
          `${replica.name} to be ready`,
          async () => (await fetch(`${replica.opsUrl}/readyz`)).ok,
        );
      }
      await eventually('it to be taken', async () => isTaken(await sender.attempt(event)));
      sender.close();
      await eventually('it to be done', async () => {
        const [row] = await site.query<{ state: string }>(
          `SELECT state FROM events WHERE id = '${event.id}'`,
        );
        return row?.state === 'processed';
      });
      await roles();
    },
    TIMEOUT_MS,
  );
});

/** 200: an earlier attempt was, whose answer did not come in time. */
const isTaken = (status: number | null) => status === 202 || status === 200;

async function answerOf(replica: Replica, body: string): Promise<Response> {
  return await fetch(replica.webhookUrl, {
    method: 'POST',
    body,
    headers: { 'x-webhook-signature': signature(body) },
  });
}

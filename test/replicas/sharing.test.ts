import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../convergence/service.ts';
import { type IndependentUpstream, startIndependentUpstream } from '../support/independent-upstream.ts';
import { fill } from '../support/independent-upstream-records.ts';
import { createSender, eventAbout, signature } from '../support/independent-upstream-sender.ts';
import { createSite, type Replica, type Site } from './site.ts';

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
    const [lease] = await site.query<{ owner: string }>("SELECT owner FROM leases WHERE name = 'backfill'");
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
    await other.post('/api/sync-runs', { kinds: ['policy'] });
    await eventually('the full sync', async () =>
      (await syncRuns('operator:tester')).some(({ outcome }) => outcome === 'complete'),
    );
  });

  it('is read again by the one that reads', async () => {
    const { other } = await roles();
    await eventually(
      'the vendor',
      async () => (await site.query("SELECT 1 FROM vendors WHERE id = 'ven-1'")).length > 0,
    );
    upstream.records.put('vendors', { id: 'ven-1', name: 'Renamed unseen', status: 'active' });
    await other.post('/api/records/vendor/ven-1/refetch');
    await eventually('the new name', async () => {
      const [row] = await site.query<{ name: string }>("SELECT name FROM vendors WHERE id = 'ven-1'");
      return row?.name === 'Renamed unseen';
    });
  });

  it('stops the others too, until any of them is told to go on', async () => {
    const { holder, other } = await roles();
    await other.post('/api/pause');
    const isPaused = async (replica: Replica) =>
      (await replica.get<{ service: { paused: boolean } }>('/api/status')).service.paused;
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

  it('shows on the page of every one what is known of the upstream', async () => {
    const { other } = await roles();
    const status = await eventually('its status', async () => {
      const seen = await other.get<{ upstream: { ok: boolean | null; budget_left: number } }>('/api/status');
      return seen.upstream.ok === true && seen;
    });
    expect(status.upstream.budget_left).toBeGreaterThan(0);
  });
});

describe('the one that full syncs', () => {
  it(
    'is followed by another when it is killed, and the list scan it was at is read again',
    async () => {
      const { holder, other } = await roles();
      // The list scan stands still in the middle.
      upstream.faultOf = ({ path }) => (path.includes('/policies') ? { fault: 'hang', ms: 60_000 } : null);
      await holder.post('/api/sync-runs', { kinds: ['policy'] });
      await eventually('the scan to be under way', async () =>
        (await syncRuns('operator')).some(({ outcome }) => outcome === null),
      );
      await holder.kill();
      upstream.faultOf = () => null;
      await eventually('the other to take over', async () => (await roles()).holder === other);
      // Its reason is `takeover` or, if this one came first, `start`.
      await eventually('a scan of its own', async () => (await syncRuns('')).at(-1)?.outcome === 'complete');
      expect((await syncRuns('operator')).at(-1)).toMatchObject({ outcome: 'interrupted' });
      await holder.start();
    },
    TIMEOUT_MS,
  );

  it(
    'hands over at once when it stops in good order',
    async () => {
      const { holder, other } = await roles();
      const pid = holder.pid();
      expect(await holder.stop()).toBe(0);
      // It has let go: nobody waits for its time to be over.
      const [lease] = await site.query<{ owner: string }>("SELECT owner FROM leases WHERE name = 'backfill'");
      expect(isOwnedBy(lease?.owner, pid)).toBe(false);
      await eventually('the other to take over', async () => (await roles()).holder === other);
      await holder.start();
    },
    TIMEOUT_MS,
  );
});

describe('one that was given other settings', () => {
  it.each([
    ['another key', { COMPLIANCE_API_KEY: 'not-the-key-of-the-others' }, 'or the credentials for it"'],
    ['no API', { COMPLIANCE_BASE_URL: '', COMPLIANCE_API_KEY: '' }, '"COMPLIANCE_BASE_URL"'],
    ['another window', { SYNC_SETTLE_SECONDS: '7' }, '"SYNC_SETTLE_SECONDS"'],
    ['other places of ids', { ID_POINTERS_VENDOR: 'uuid' }, '"ID_POINTERS_*"'],
  ])(
    'says so, and the verdict stays that of the one that reads: %s',
    async (_what, own, setting) => {
      const { other } = await roles();
      await eventually(
        'all to be in sync',
        async () => (await site.query("SELECT 1 FROM sync_status WHERE verdict <> 'in_sync'")).length === 0,
      );
      await other.stop();
      await other.start({ ...own, LOG_LEVEL: 'warn' });
      const seen = new Set<string>();
      const line = other.line('has other settings');
      const until = line.then(() => true);
      const looked = async () => {
        const rows = await site.query<{ verdict: string; window: string }>(
          "SELECT DISTINCT verdict, value AS window FROM sync_status, facts WHERE name = 'settle_ms'",
        );
        for (const { verdict, window } of rows) seen.add(`${verdict} ${window}`);
        return false;
      };
      while (!(await Promise.race([until, looked()])));
      expect(await line).toContain(setting);
      expect([...seen]).toEqual(['in_sync 500']);
      await other.stop();
      await other.start();
    },
    TIMEOUT_MS,
  );
});

describe('one that rejected deliveries and is gone', () => {
  it(
    'leaves no gap behind: the next delivery at another one resolves it, with a full sync',
    async () => {
      const { holder, other } = await roles();
      const [here, gone] = [createSender(holder.webhookUrl), createSender(other.webhookUrl)];
      const event = () => eventAbout('vendor.updated', 'vendors', upstream.records.find('vendors', 'ven-3')!);
      // Its first one resolves what was open before its start.
      expect(await here.attempt(event())).toBe(202);
      await other.stop();
      await other.start({ WEBHOOK_SECRETS: 'a-secret-that-the-sender-left-behind' });
      const beat = async () => {
        const seen = await site.query<{ id: string; at: string }>('SELECT id, seen_at AS at FROM replicas');
        return seen.find(({ id }) => isOwnedBy(id, holder.pid()))?.at;
      };
      const before = await beat();
      await eventually('the one to see that the other is there', async () => (await beat()) !== before);
      for (let count = 0; count < 5; count += 1) expect(await gone.attempt(event())).toBe(401);
      const gapIs = (resolved: string) => async () =>
        (
          await site.query(
            `SELECT 1 FROM gaps WHERE reason = 'rejected_signatures' AND resolved_at IS ${resolved}`,
          )
        ).length > 0;
      await eventually('the gap', gapIs('NULL'));
      await other.stop();
      await eventually('its end', async () => {
        await here.attempt(event());
        return await gapIs('NOT NULL')();
      });
      await eventually('the full sync', async () => (await syncRuns('rejected deliveries')).length > 0);
      for (const sender of [here, gone]) sender.close();
      await other.start();
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

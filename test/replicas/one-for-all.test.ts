import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { start } from '../cli/executable.ts';
import {
  CLIENT_ID,
  CLIENT_SECRET,
  type OauthServer,
  REDIRECT_URI,
  startOauthServer,
} from '../compliance/oauth-server.ts';
import { eventually } from '../convergence/service.ts';
import { createSite, OPS_TOKEN, type Replica, type Site } from './site.ts';

const TIMEOUT_MS = 240_000;
const WINDOW_MS = 60_000;
const PAGE_SIZE = 2;
const REQUESTS_PER_MINUTE = 60;

let upstream: OauthServer;
let site: Site;
/** When each request of the API came, all replicas together. */
const arrivals: number[] = [];

const policies = (count: number) =>
  Array.from({ length: count }, (_, n) => ({
    policyId: `p${n}`,
    name: `Policy ${n}`,
    version: '1.0',
    status: 'draft',
  }));

beforeAll(async () => {
  upstream = await startOauthServer();
  upstream.policies = policies(5);
  const noteArrival = () => void arrivals.push(performance.now());
  upstream.onCall = noteArrival;
  const settings = {
    COMPLIANCE_AUTH: 'oauth',
    COMPLIANCE_AUTH_URL: `${upstream.origin}/auth`,
    COMPLIANCE_CLIENT_ID: CLIENT_ID,
    COMPLIANCE_CLIENT_SECRET: CLIENT_SECRET,
    COMPLIANCE_REDIRECT_URI: REDIRECT_URI,
    COMPLIANCE_PAGE_SIZE: String(PAGE_SIZE),
    COMPLIANCE_REQUESTS_PER_MINUTE: String(REQUESTS_PER_MINUTE),
    CREDENTIALS_KEY: randomBytes(32).toString('base64'),
    SYNC_SETTLE_SECONDS: '0.1',
    SYNC_FULL_MINUTES: '0',
  };
  const baseUrl = `${upstream.origin}/v1`;
  site = await createSite({ upstream: { baseUrl }, replicas: 3, settings });
  const login = start(['login'], {
    ...settings,
    DATABASE_URL: site.databaseUrl,
    COMPLIANCE_BASE_URL: baseUrl,
  });
  await fetch(await login.line('/auth/oauth/authorize'));
  expect(await login.exited).toBe(0);
  await Promise.all(site.replicas.map((replica) => replica.start()));
  await eventually('the first full syncs', async () => {
    const [row] = await site.query<{ done: string }>(
      'SELECT count(*) AS done FROM sync_runs WHERE finished_at IS NOT NULL',
    );
    return Number(row?.done) >= 3;
  });
}, TIMEOUT_MS);
afterAll(async () => {
  await site.end();
  await upstream.close();
});

const each = (): [Replica, Replica, Replica] => [...site.replicas] as [Replica, Replica, Replica];

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

async function formSecret(at: Replica, cookie: string): Promise<string> {
  const page = await browse(at, '/', cookie);
  expect(page.status).toBe(200);
  return /name="csrf" value="([^"]+)"/.exec(await page.text())![1]!;
}

describe('an operator who signed in at one replica', () => {
  it('is signed in at every one, and a form that one of them showed is taken by another', async () => {
    const [a, b, c] = each();
    const cookie = await signedIn(a);
    const csrf = await formSecret(b, cookie);
    expect(await formSecret(c, cookie)).toBe(csrf);
    expect((await browse(c, '/actions/pause', cookie, { csrf: 'made-up' })).status).toBe(403);
    expect((await browse(c, '/actions/pause', cookie, { csrf })).status).toBe(303);
    for (const replica of each()) {
      await eventually(`${replica.name} to pause`, async () => {
        const status = await replica.get<{ service: { paused: boolean } }>('/api/status');
        return status.service.paused;
      });
    }
    expect((await browse(a, '/actions/resume', cookie, { csrf })).status).toBe(303);
  });

  it('is signed out of every one at once, and of none by another who signs out', async () => {
    const [a, b, c] = each();
    const [mine, another] = [await signedIn(a), await signedIn(b)];
    const csrf = await formSecret(c, mine);
    expect((await browse(b, '/sign-out', mine, { csrf })).status).toBe(303);
    for (const replica of each()) {
      expect((await browse(replica, '/', mine)).headers.get('location')).toBe('/sign-in');
      expect((await browse(replica, '/actions/pause', mine, { csrf })).status).toBe(401);
      expect((await browse(replica, '/', another)).status).toBe(200);
    }
  });

  it('leaves nothing in the database that signs anybody in', async () => {
    const cookie = await signedIn(each()[0]);
    const id = cookie.slice(cookie.indexOf('=') + 1);
    const rows = JSON.stringify(await site.query('SELECT * FROM operator_sessions'));
    expect(rows).not.toContain(id);
    expect(rows).not.toContain(OPS_TOKEN);
  });
});

/** Asks every replica to compare its list with the API, each by itself. Ends with the replicas, if not before. */
const compareEverywhere = () =>
  each().map((replica) => replica.post('/api/sync-runs', { dry_run: true, kinds: ['policy'] }));

describe('the upstream', () => {
  it('is asked for one renewal when the token expires in the hands of all three', async () => {
    const refreshes = () => upstream.grants.filter(({ body }) => body['grant_type'] === 'refresh_token');
    const { promise, resolve: letGo } = Promise.withResolvers<void>();
    upstream.gate = promise;
    const before = upstream.calls.length;
    const compared = compareEverywhere();
    await eventually('a request of each', () => upstream.calls.length >= before + site.replicas.length);
    upstream.expireAccess();
    upstream.gate = null;
    letGo();
    await Promise.all(compared);
    expect(refreshes()).toHaveLength(1);

    // What was renewed is every replica's from now on.
    const since = upstream.calls.length;
    await Promise.all(compareEverywhere());
    expect(new Set(upstream.calls.slice(since).map(({ authorization }) => authorization)).size).toBe(1);
    expect(refreshes()).toHaveLength(1);
  });

  it(
    'gets no more requests in a minute than the setting says, from all three together',
    async () => {
      upstream.policies = policies(6 * PAGE_SIZE * REQUESTS_PER_MINUTE);
      const compared = compareEverywhere().map((one) => one.catch(() => undefined));
      // Whoever had a budget of its own would go on until that is used up.
      for (const replica of each()) {
        await eventually(`${replica.name} to have none left`, async () => {
          const status = await replica.get<{ upstream: { budget_left: number } }>('/api/status');
          return status.upstream.budget_left === 0;
        });
      }
      const inOneMinute = arrivals.map(
        (at, place) => arrivals.slice(place).filter((later) => later - at < WINDOW_MS).length,
      );
      expect(Math.max(...inOneMinute)).toBeLessThanOrEqual(REQUESTS_PER_MINUTE);
      // They had what there is.
      expect(Math.max(...inOneMinute)).toBeGreaterThan(REQUESTS_PER_MINUTE / 2);
      await Promise.all(site.replicas.map((replica) => replica.kill()));
      await Promise.all(compared);
    },
    TIMEOUT_MS,
  );
});

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
const PAGE_SIZE = 2;
const REQUESTS_PER_MINUTE = 60;

let upstream: OauthServer;
let site: Site;

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

describe('an operator who signed in at one replica', () => {
  it('is signed in at every one', async () => {
    const [a, , c] = each();
    const cookie = await signedIn(a);
    expect((await browse(c, '/api/pause', cookie, {})).status).toBe(303);
    for (const replica of each()) {
      await eventually(`${replica.name} to pause`, async () => {
        const status = await replica.get<{ problems: { reason: string }[] }>('/api/status');
        return status.problems.some(({ reason }) => reason === 'paused');
      });
    }
    expect((await browse(a, '/api/resume', cookie, {})).status).toBe(303);
  });

  it('is signed out of every one at once, and of none by another who signs out', async () => {
    const [a, b] = each();
    const [mine, another] = [await signedIn(a), await signedIn(b)];
    expect((await browse(b, '/sign-out', mine, {})).status).toBe(303);
    for (const replica of each()) {
      expect((await browse(replica, '/', mine)).headers.get('location')).toBe('/sign-in');
      expect((await browse(replica, '/api/pause', mine, {})).status).toBe(401);
      expect((await browse(replica, '/', another)).status).toBe(200);
    }
  });
});

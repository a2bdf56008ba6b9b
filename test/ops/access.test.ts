import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createOps } from '../../src/ops/app.ts';
import { ATTEMPTS_GLOBALLY, ATTEMPTS_PER_ADDRESS } from '../../src/ops/guess-limit.ts';
import { SESSION_IDLE_MS } from '../../src/ops/sessions.ts';
import { createAddresses } from '../../src/platform/addresses.ts';
import { loadConfig, type OpsToken } from '../../src/platform/config.ts';
import { bearer, type Harness, OPERATE, opsHarness, READ, signIn } from './harness.ts';

let h: Harness;
beforeEach(async () => {
  h = await opsHarness();
});
afterEach(() => h.close());

const form = { 'content-type': 'application/x-www-form-urlencoded' };
const html = { accept: 'text/html,application/xhtml+xml' };
const auditActions = async () =>
  (await h.store.list('audit', { limit: 100 })).map(
    ({ actor, action, outcome }) => `${actor} ${action} ${outcome}`,
  );

describe('bearer tokens', () => {
  test('either role reads', async () => {
    for (const token of [OPERATE, READ]) {
      expect((await h.app.request('/api/status', { headers: bearer(token) })).status).toBe(200);
    }
    // No scheme of HTTP is written in one case only.
    const headers = { authorization: `bearer ${READ}` };
    expect((await h.app.request('/api/status', { headers })).status).toBe(200);
    // Nor is a look at the headers alone a change.
    expect((await h.app.request('/api/status', { method: 'HEAD', headers })).status).toBe(200);
  });

  test('all refusals are alike to the byte', async () => {
    const authorizations = [
      undefined,
      '',
      'Bearer',
      'Bearer ',
      'Bearer wrong',
      `Basic ${OPERATE}`,
      `Bearer ${OPERATE}x`,
      OPERATE,
    ];
    const answers = await Promise.all(
      authorizations.map(async (authorization) => {
        const response = await h.app.request('/api/status', {
          headers: authorization === undefined ? {} : { authorization },
        });
        return JSON.stringify([response.status, [...response.headers], await response.text()]);
      }),
    );
    expect(new Set(answers).size).toBe(1);
    expect(answers[0]).toContain('401');
  });

  test('a wrong bearer is refused even beside a good session', async () => {
    const { cookie } = await signIn(h.app, OPERATE);
    const response = await h.app.request('/api/status', { headers: { cookie, ...bearer('nonsense') } });
    expect(response.status).toBe(401);
  });

  test('behind a trusted proxy wrong ones count for whom the proxy names; only a right one proves its connection', async () => {
    const { trustedProxies } = loadConfig({ TRUSTED_PROXIES: '10.0.0.7' });
    const proven: unknown[] = [];
    const prove = (request: unknown) => proven.push(request);
    const app = createOps({ ...h.context, addresses: createAddresses(trustedProxies), prove });
    const ask = (token: string, address: string) => {
      const incoming = { socket: { remoteAddress: '10.0.0.7' }, headers: { 'x-forwarded-for': address } };
      return app.request('/api/status', { headers: bearer(token) }, { incoming });
    };
    for (let n = 0; n < ATTEMPTS_PER_ADDRESS; n += 1) await ask('wrong', '203.0.113.9');
    const more = await Promise.all(
      Array.from({ length: ATTEMPTS_GLOBALLY }, () => ask('wrong', '203.0.113.9')),
    );
    expect(more.map(({ status }) => status)).toEqual(more.map(() => 429));
    expect((await ask('wrong', '203.0.113.10')).status).toBe(401);
    expect(proven).toEqual([]);
    expect((await ask(READ, '203.0.113.10')).status).toBe(200);
    expect(proven).toHaveLength(1);
  });

  test('too many wrong ones are answered 429, with when to come back; a right one always gets in', async () => {
    for (let n = 0; n < ATTEMPTS_PER_ADDRESS; n += 1) {
      await h.app.request('/api/status', { headers: bearer('wrong') });
    }
    const response = await h.app.request('/api/status', { headers: bearer('wrong') });
    expect(response.status).toBe(429);
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await response.json()).toMatchObject({ code: 'too_many_attempts' });
    expect((await h.app.request('/api/status', { headers: bearer(OPERATE) })).status).toBe(200);
    expect(await auditActions()).toEqual(['unknown bearer refused']);
    const counted = await h.context.metrics.tokensPresented.get();
    const bearers = counted.values.filter(({ labels }) => labels['door'] === 'bearer');
    expect(bearers.map(({ labels, value }) => [labels['outcome'], value])).toEqual([
      ['accepted', 1],
      ['refused', ATTEMPTS_PER_ADDRESS],
      ['limited', 1],
    ]);
  });

  test('the role read changes nothing, and its try is audited', async () => {
    const response = await h.app.request('/api/pause', { method: 'POST', headers: bearer(READ) });
    expect(response.status).toBe(403);
    expect(await response.json()).toMatchObject({ code: 'forbidden' });
    expect(h.asked).toEqual([]);
    expect(await h.store.list('audit', { limit: 9 })).toMatchObject([
      { actor: 'rita', action: 'change', outcome: 'forbidden', target: '/api/pause' },
    ]);
  });

  test('however often the role read tries to change something, and however long the path, the audit stays small', async () => {
    const path = `/api/${'x'.repeat(10_000)}`;
    for (let n = 0; n < 20; n += 1) await h.app.request(path, { method: 'POST', headers: bearer(READ) });
    const entries = await h.store.list('audit', { limit: 50 });
    expect(entries.map(({ outcome }) => outcome)).toEqual(['forbidden']);
    expect(entries[0]!.target!.length).toBeLessThanOrEqual(300);
  });
});

describe('signing in', () => {
  test('a person without a session is led to the sign-in, a script is told 401', async () => {
    const person = await h.app.request('/', { headers: html });
    expect([person.status, person.headers.get('location')]).toEqual([303, '/sign-in']);
    expect((await h.app.request('/')).status).toBe(401);
    // Signed in, he would be led to where only a form leads.
    const referer = 'http://localhost/events?state=failed';
    const form = { method: 'POST', headers: { ...html, referer } };
    const answer = await h.app.request('/actions/pause', form);
    expect(answer.status).toBe(401);
    const text = await answer.text();
    expect(text).toContain('Your session has ended.');
    expect(text).toContain('href="/sign-in?next=%2Fevents%3Fstate%3Dfailed"');
    // A wrong token never had a session.
    const byToken = await h.app.request('/', { headers: { ...html, ...bearer('wrong') } });
    expect(await byToken.text()).not.toContain('session');
  });

  test('it leads back to the page that was asked for, and never off this site', async () => {
    const asked = await h.app.request('/events?state=failed', { headers: html });
    expect(asked.headers.get('location')).toBe('/sign-in?next=%2Fevents%3Fstate%3Dfailed');
    const cases: [string, string][] = [
      ['/events?state=failed', '/events?state=failed'],
      ['https://evil.example/', '/'],
      ['https://evil.example/events', '/'],
      ['//evil.example/', '/'],
      ['//[', '/'],
      ['/\\evil.example', '/'],
      ['/..//evil.example', '/'],
      ['javascript:alert(1)', '/'],
      ['', '/'],
    ];
    for (const [next, path] of cases) {
      const response = await h.app.request('/sign-in', {
        method: 'POST',
        headers: { ...form, origin: 'http://localhost' },
        body: new URLSearchParams({ token: OPERATE, next }),
      });
      expect([next, response.headers.get('location')]).toEqual([next, path]);
    }
  });

  test('the form gives a cookie that scripts cannot read and other sites cannot send', async () => {
    const { response, cookie } = await signIn(h.app, OPERATE);
    expect([response.status, response.headers.get('location')]).toEqual([303, '/']);
    const set = response.headers.get('set-cookie')!;
    expect(set).toMatch(/^compliance-mirror=[\w-]{43}; /);
    for (const part of ['HttpOnly', 'SameSite=Strict', 'Path=/', 'Max-Age=43200'])
      expect(set).toContain(part);
    expect(set).not.toContain('Secure');
    expect((await h.app.request('/', { headers: { cookie } })).status).toBe(200);
    expect(await auditActions()).toEqual(['olga sign_in ok']);
  });

  test('behind https the cookie is bound to the host and only sent encrypted', async () => {
    const secure = await opsHarness({ publicUrl: new URL('https://mirror.example/') });
    const { response } = await signIn(secure.app, OPERATE, 'https://mirror.example');
    expect(response.headers.get('set-cookie')).toMatch(/^__Host-compliance-mirror=.*; Secure/);
    await secure.close();
  });

  test('behind a proxy it is taken from the address that operators use, whatever the proxy calls this service', async () => {
    const behind = await opsHarness({ publicUrl: new URL('https://mirror.example/') });
    const from = async (origin: string) => {
      const response = await behind.app.request('http://10.0.0.5:8081/sign-in', {
        method: 'POST',
        headers: { ...form, origin, host: '10.0.0.5:8081' },
        body: new URLSearchParams({ token: OPERATE }),
      });
      return response.status;
    };
    expect(await from('https://mirror.example')).toBe(303);
    for (const other of ['http://mirror.example', 'http://10.0.0.5:8081'])
      expect(await from(other)).toBe(403);
    await behind.close();
  });

  test('a browser’s connection is proven by its session, and by no other cookie', async () => {
    const proven: unknown[] = [];
    const app = createOps({ ...h.context, prove: (request) => proven.push(request) });
    const { cookie } = await signIn(app, READ);
    proven.length = 0;
    await app.request('/', { headers: { cookie: `${cookie}x` } });
    expect(proven).toEqual([]);
    await app.request('/', { headers: { cookie } });
    expect(proven).toHaveLength(1);
  });

  test('signing in anew ends the session that the browser had', async () => {
    const { cookie } = await signIn(h.app, OPERATE);
    const again = await h.app.request('/sign-in', {
      method: 'POST',
      headers: { ...form, cookie, origin: 'http://localhost' },
      body: new URLSearchParams({ token: READ }),
    });
    expect(again.status).toBe(303);
    expect((await h.app.request('/api/status', { headers: { cookie } })).status).toBe(401);
  });

  test('the audit says who signed in and out, and from which address, whatever the request claims', async () => {
    const here = { origin: 'http://localhost', 'x-forwarded-for': '203.0.113.9' };
    const bindings = { incoming: { socket: { remoteAddress: '192.0.2.7' }, headers: here } };
    const post = (path: string, fields: Record<string, string>, cookie = '') => {
      const body = new URLSearchParams(fields);
      return h.app.request(path, { method: 'POST', headers: { ...form, ...here, cookie }, body }, bindings);
    };
    const { cookie, csrf } = await signIn(h.app, READ);
    await post('/sign-in', { token: OPERATE });
    await post('/sign-out', { csrf }, cookie);
    const [out, signedIn] = await h.store.list('audit', { limit: 9 });
    expect(out).toMatchObject({ actor: 'rita', action: 'sign_out', outcome: 'ok', target: '192.0.2.7' });
    expect(signedIn).toMatchObject({ actor: 'olga', action: 'sign_in', outcome: 'ok', target: '192.0.2.7' });
  });

  test('a wrong token gets the form again, with its reason and without a cookie', async () => {
    const { response } = await signIn(h.app, 'not-the-token');
    expect(response.status).toBe(401);
    expect(response.headers.get('set-cookie')).toBeNull();
    expect(await response.text()).toContain('This token is not known.');
    expect(await auditActions()).toEqual(['unknown sign_in refused']);
  });

  test('too many wrong tokens are slowed and told to wait; a right one signs in meanwhile', async () => {
    for (let n = 0; n < ATTEMPTS_PER_ADDRESS; n += 1) await signIn(h.app, 'wrong');
    const slept: number[] = [];
    let answer = () => {};
    h.context.clock.sleep = (ms) => {
      slept.push(ms);
      return new Promise((resolve) => {
        // The other sleeps are those of looks at the database.
        if (ms === 1000) answer = resolve;
      });
    };
    const wrong = h.app.request('/sign-in', {
      method: 'POST',
      headers: { ...form, origin: 'http://localhost' },
      body: new URLSearchParams({ token: 'wrong' }),
    });
    await expect.poll(() => slept).toContain(1000);
    expect((await signIn(h.app, OPERATE)).response.status).toBe(303);
    answer();
    expect((await wrong).status).toBe(429);
    expect((await wrong).headers.get('set-cookie')).toBeNull();
  });

  test('no more than a hundred answers wait at a time, and each makes room for another', async () => {
    for (let n = 0; n < ATTEMPTS_PER_ADDRESS; n += 1) await signIn(h.app, 'wrong');
    const waiting: (() => void)[] = [];
    // The other sleeps are of no answer.
    h.context.clock.sleep = (ms) => new Promise((resolve) => ms === 1_000 && waiting.push(resolve));
    const wrong = () => h.app.request('/api/status', { headers: bearer('wrong') });
    const slow = Array.from({ length: 100 }, wrong);
    await expect.poll(() => waiting.length).toBe(100);
    expect((await wrong()).status).toBe(429);
    for (const answer of waiting.splice(0)) answer();
    await Promise.all(slow);
    void wrong();
    await expect.poll(() => waiting.length).toBe(1);
  });

  test.each([
    ['another site', { origin: 'https://evil.example' }],
    ['another port', { origin: 'http://localhost:9999' }],
    ['nowhere', { origin: 'null' }],
    ['an unnamed place', {}],
    ['an unnamed other site', { 'sec-fetch-site': 'cross-site' }],
  ])('the form is not taken from %s', async (_name, headers) => {
    const response = await h.app.request('/sign-in', {
      method: 'POST',
      headers: { ...form, ...headers } as Record<string, string>,
      body: new URLSearchParams({ token: OPERATE }),
    });
    expect(response.status).toBe(403);
    expect(response.headers.get('set-cookie')).toBeNull();
    // A stranger is told of no setting.
    expect(await response.text()).not.toMatch(/[A-Z]+_[A-Z_]+/);
  });

  test('signing out ends the session on the server as well', async () => {
    const { cookie, csrf } = await signIn(h.app, READ);
    const response = await h.app.request('/sign-out', {
      method: 'POST',
      headers: { ...form, cookie, origin: 'http://localhost' },
      body: new URLSearchParams({ csrf }),
    });
    expect(response.status).toBe(303);
    expect(response.headers.get('set-cookie')).toContain('Max-Age=0');
    expect((await h.app.request('/api/status', { headers: { cookie } })).status).toBe(401);
  });

  test('a session left alone ends', async () => {
    const clock = { now: Date.now(), wall: () => clock.now, steady: () => clock.now, sleep: async () => {} };
    const other = await opsHarness({ clock });
    const { cookie } = await signIn(other.app, OPERATE);
    clock.now += SESSION_IDLE_MS;
    expect((await other.app.request('/api/status', { headers: { cookie } })).status).toBe(401);
    await other.close();
  });

  test('with the database gone an operator still gets in, to see that it is gone', async () => {
    await h.store.close();
    const { response, cookie } = await signIn(h.app, OPERATE);
    expect(response.status).toBe(303);
    const page = await h.app.request('/', { headers: { cookie } });
    expect(await page.text()).toContain('The database cannot be read.');
  });
});

describe('changes by a signed-in browser', () => {
  const post = (cookie: string, headers: Record<string, string>, csrf?: string) =>
    h.app.request('/actions/pause', {
      method: 'POST',
      headers: { ...form, cookie, ...headers },
      body: new URLSearchParams(csrf === undefined ? {} : { csrf }),
    });

  test('need this site’s origin and the form’s secret', async () => {
    const { cookie, csrf } = await signIn(h.app, OPERATE);
    const other = await signIn(h.app, OPERATE);
    const refusals: [Record<string, string>, string | undefined][] = [
      [{ origin: 'https://evil.example' }, csrf],
      [{}, csrf],
      [{ origin: 'http://localhost' }, undefined],
      [{ origin: 'http://localhost' }, ''],
      [{ origin: 'http://localhost' }, other.csrf],
    ];
    for (const [headers, secret] of refusals) expect((await post(cookie, headers, secret)).status).toBe(403);
    expect(h.asked).toEqual([]);
    expect((await post(cookie, { origin: 'http://localhost' }, csrf)).status).toBe(303);
    expect((await post(cookie, { 'sec-fetch-site': 'same-origin', 'x-csrf-token': csrf })).status).toBe(303);
    expect(h.asked).toEqual(['pause', 'pause']);
  });

  test('are not for the role read, whose page shows no buttons', async () => {
    const { cookie, csrf } = await signIn(h.app, READ);
    expect((await post(cookie, { origin: 'http://localhost' }, csrf)).status).toBe(403);
    expect(await (await h.app.request('/', { headers: { cookie } })).text()).not.toContain('/actions/');
  });

  test('are audited by the token’s name', async () => {
    const { cookie, csrf } = await signIn(h.app, OPERATE);
    await post(cookie, { origin: 'http://localhost' }, csrf);
    expect(await auditActions()).toContain('olga pause ok');
  });
});

describe('tokens that change while the service runs', () => {
  test('end their sessions, change their roles and open the door at once', async () => {
    let tokens: OpsToken[] = [
      { name: 'olga', role: 'operate', token: OPERATE },
      { name: 'rita', role: 'read', token: READ },
    ];
    const other = await opsHarness({ tokens: () => tokens });
    const olga = await signIn(other.app, OPERATE);
    const rita = await signIn(other.app, READ);
    const opens = async (headers: Record<string, string>) =>
      (await other.app.request('/api/status', { headers })).status;
    expect([await opens({ cookie: olga.cookie }), await opens(bearer(READ))]).toEqual([200, 200]);

    tokens = [{ name: 'olga', role: 'read', token: OPERATE }];
    expect([await opens({ cookie: rita.cookie }), await opens(bearer(READ))]).toEqual([401, 401]);
    const pause = await other.app.request('/actions/pause', {
      method: 'POST',
      headers: { ...form, cookie: olga.cookie, origin: 'http://localhost' },
      body: new URLSearchParams({ csrf: olga.csrf }),
    });
    expect(pause.status).toBe(403);

    tokens = [...tokens, { name: 'rita', role: 'read', token: READ }];
    // Her old session is over; her token is good again.
    expect([await opens({ cookie: rita.cookie }), await opens(bearer(READ))]).toEqual([401, 200]);
    expect(other.asked).toEqual([]);
    await other.close();
  });
});

test('an open page is told nothing more once its session or its token is gone', async () => {
  let tokens: OpsToken[] = [
    { name: 'olga', role: 'operate', token: OPERATE },
    { name: 'rita', role: 'read', token: READ },
  ];
  const other = await opsHarness({ tokens: () => tokens });
  const { cookie, csrf } = await signIn(other.app, OPERATE);
  const open = async (headers: Record<string, string>) => {
    const reader = (await other.app.request('/stream', { headers })).body!.getReader();
    expect((await reader.read()).done).toBe(false);
    return reader;
  };
  const [bySession, byToken] = [await open({ cookie }), await open(bearer(READ))];
  await other.app.request('/sign-out', {
    method: 'POST',
    headers: { ...form, cookie, origin: 'http://localhost' },
    body: new URLSearchParams({ csrf }),
  });
  tokens = tokens.slice(0, 1);
  for (const reader of [bySession, byToken]) expect((await reader.read()).done).toBe(true);
  await other.close();
});

describe('forms', () => {
  const FORMS = [
    'retry',
    'sync',
    'sync-runs',
    'pause',
    'resume',
    'events',
    'refetch',
    'release',
    'approve-deletions',
    'resolve-gap',
  ];

  test('are all that posts to /actions, and none is taken without its secret, from elsewhere, or from a reader', async () => {
    const posted = h.app.routes.filter(
      ({ method, path }) => method === 'POST' && path.startsWith('/actions/'),
    );
    expect(posted.map(({ path }) => path.slice('/actions/'.length)).sort()).toEqual(FORMS.sort());
    const olga = await signIn(h.app, OPERATE);
    const rita = await signIn(h.app, READ);
    const here = { origin: 'http://localhost' };
    for (const name of FORMS) {
      const post = async (cookie: string, csrf: string, headers: Record<string, string>) =>
        (
          await h.app.request(`/actions/${name}`, {
            method: 'POST',
            headers: { ...form, cookie, ...headers },
            body: new URLSearchParams({
              csrf,
              id: 'evt_1',
              do: 'retry',
              kind: 'vendor',
              fullSync: '1',
              sure: 'yes',
            }),
          })
        ).status;
      expect([name, await post(olga.cookie, '', here)]).toEqual([name, 403]);
      expect([name, await post(olga.cookie, rita.csrf, here)]).toEqual([name, 403]);
      expect([name, await post(olga.cookie, olga.csrf, { origin: 'https://evil.example' })]).toEqual([
        name,
        403,
      ]);
      expect([name, await post(rita.cookie, rita.csrf, here)]).toEqual([name, 403]);
    }
    expect(h.asked).toEqual([]);
  });
});

test('every answer, errors too, forbids scripts from elsewhere, framing, sniffing and keeping', async () => {
  const { cookie } = await signIn(h.app, OPERATE);
  for (const path of ['/', '/livez', '/sign-in', '/api/status', '/nowhere', '/metrics']) {
    for (const headers of [{}, { cookie }] as Record<string, string>[]) {
      const response = await h.app.request(path, { headers });
      const policy = response.headers.get('content-security-policy')!;
      expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
      for (const part of ["frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"])
        expect(policy).toContain(part);
      expect(policy).not.toContain('unsafe');
      expect(response.headers.get('x-frame-options')).toBe('DENY');
      for (const name of ['opener', 'resource'])
        expect(response.headers.get(`cross-origin-${name}-policy`)).toBe('same-origin');
      expect(response.headers.get('x-content-type-options')).toBe('nosniff');
      expect(response.headers.get('referrer-policy')).toBe('same-origin');
      expect(response.headers.get('cache-control')).toBe('no-store');
    }
  }
});

test('a browser keeps the script and the style sheet, whose addresses change with them', async () => {
  const { cookie } = await signIn(h.app, OPERATE);
  const html = await (await h.app.request('/', { headers: { cookie } })).text();
  const paths = html.match(/\/assets\/[\w.-]+/g) ?? [];
  expect(paths).toHaveLength(2);
  for (const path of paths)
    expect((await h.app.request(path)).headers.get('cache-control')).toContain('immutable');
});

test('a body larger than any form of ours is refused', async () => {
  const response = await h.app.request('/sign-in', {
    method: 'POST',
    headers: { ...form, origin: 'http://localhost' },
    body: `token=${'x'.repeat(70_000)}`,
  });
  expect(response.status).toBe(413);
});

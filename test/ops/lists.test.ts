import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Kind } from '../../src/compliance/kinds.ts';
import { PROBLEMS } from '../../src/mirror/problems.ts';
import { PAGE_ROWS } from '../../src/ops/pages/query.ts';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import type { ProblemReason } from '../../src/store/store.ts';
import { failPending } from '../support/pending.ts';
import { bearer, type Harness, incoming, OPERATE, opsHarness, READ } from './harness.ts';

let h: Harness;
beforeEach(async () => {
  h = await opsHarness();
});
afterEach(() => h.close());

const HTML = { accept: 'text/html' };
const page = async (path: string, token = OPERATE, cookie = '') => {
  const response = await h.app.request(path, { headers: { ...bearer(token), ...HTML, cookie } });
  return { status: response.status, text: await response.text(), type: response.headers.get('content-type') };
};
/** As a form of the page `from` posts. */
const post = (path: string, body: object = {}, from = '/') =>
  h.app.request(path, {
    method: 'POST',
    headers: { ...bearer(OPERATE), ...HTML, referer: `http://localhost${from}` },
    body: new URLSearchParams({ body: JSON.stringify(body) }),
  });
/** Where a form leads, and what it leaves for the page there. */
const ledTo = (response: Response) => {
  const [, told = null] =
    /compliance-mirror-notice=([^;]+)/.exec(response.headers.get('set-cookie') ?? '') ?? [];
  return [response.headers.get('location'), told];
};
const accept = (...ids: string[]) =>
  h.store.accept({ events: ids.map((id) => incoming({ id })), unusable: [] }, h.now(), { settleMs: 1 });

async function kill(...ids: string[]): Promise<void> {
  for (const id of ids) {
    await accept(id);
    await failPending(h.store, h.now(), `${id} is of no use`);
  }
}

const HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>';

describe('the deliveries', () => {
  test('are paged by key, and a filter stays over the pages', async () => {
    await kill(...Array.from({ length: PAGE_ROWS + 1 }, (_, n) => `evt_${n}`));
    const first = await page('/deliveries?state=failed&state=pending');
    expect(first.text).toContain(`>evt_${PAGE_ROWS}</code>`);
    const next = /href="([^"]+)" rel="next"/.exec(first.text)![1]!.replaceAll('&amp;', '&');
    expect(next).toMatch(/^\/deliveries\?state=failed&after=[\d.]+$/);
    const second = await page(next);
    expect(second.text).toContain('>evt_0</code>');
    expect(second.text).not.toContain('rel="next"');
    expect(second.text).toMatch(/<option value="failed" selected/);
  });

  test('are retried or dismissed each, and that one could not be is told', async () => {
    await kill('a', 'c');
    const press = (id: string, verb: string) => post(`/api/deliveries/${id}/${verb}`, {}, '/deliveries/a');
    expect(ledTo(await press('a', 'retry'))).toEqual(['/deliveries/a', 'processed.0']);
    expect((await press('gone', 'retry')).status).toBe(404);
    await press('c', 'dismiss');
    expect(
      await Promise.all(['a', 'c'].map(async (id) => (await h.store.show('deliveries', id))!.state)),
    ).toEqual(['processed', 'dismissed']);
    const audit = (await h.store.list('audit', { limit: 10 })).items.map(
      ({ actor, action, outcome, target }) => [actor, action, outcome, target].join(' '),
    );
    expect(audit).toEqual(['olga delivery_dismiss ok c', 'olga delivery_retry ok a']);
    h.context.store.dismissDelivery = () => Promise.reject(new StoreUnavailable('disk full', { remedy: '' }));
    expect((await press('a', 'dismiss')).status).toBe(503);
  });

  test('stand with whom they came from and how often, and a form shows every filter', async () => {
    const address = '192.0.2.1';
    const event = { ...incoming({ id: 'evt_a' }), address };
    await h.store.accept({ events: [event], unusable: [] }, h.now(), { settleMs: 1 });
    const first = (await page('/deliveries?outcome=accepted&since=2026-01-01T00:00')).text;
    for (const part of ['evt_a', address, 'value="2026-01-01T00:00:00"', 'name="outcome"'])
      expect(first).toContain(part);
    await h.store.accept({ events: [event], unusable: [] }, h.now(), { settleMs: 1 });
    expect((await page('/deliveries')).text).toContain('data-label="Times">2</td>');
    expect((await page('/deliveries?until=2026-01-01T00:00Z')).status).toBe(200);
  });

  test('are refused under an address that cannot be used', async () => {
    for (const query of ['color=red', 'state=odd', 'until=yesterday', 'until=2026-02-30T00:00', 'after=-1']) {
      expect((await page(`/deliveries?${query}`)).status, query).toBe(400);
    }
  });
});

describe('the page of a delivery', () => {
  test('tells what a retry came to', async () => {
    const nameless = incoming({ id: 'nameless', recordId: null });
    const body = nameless.body.replace('policyId', 'nothing');
    await h.store.accept({ events: [{ ...nameless, body }], unusable: [] }, h.now(), { settleMs: 1 });
    const told = async (verb: string) => {
      await post(`/api/deliveries/nameless/${verb}`);
      return (await page('/deliveries/nameless')).text;
    };
    await kill('fine');
    expect(await told('retry')).toContain('the payload holds no id of a policy');
    expect(await told('dismiss')).toContain('accepted, dismissed');
  });

  test('shows what its event changed, field by field, and how far the record is verified', async () => {
    await kill('e1');
    await post('/api/deliveries/e1/retry');
    const open = (await page('/deliveries/e1')).text;
    for (const part of [
      '>name</th>',
      '&quot;Access&quot;',
      'confirmed by the API: <span class="state pending">',
    ])
      expect(open).toContain(part);
  });

  test('shows what is quarantined as text, and it is dismissed once', async () => {
    const bodies = [Buffer.from('{"type":"<b>x</b>"}'), Buffer.from([0xff, 0x00, 0x41])];
    const rest = { reason: 'missing_id', t: '1', kind: 'vendor', recordId: 'v1' } as const;
    const unusable = bodies.map((body) => ({ ...rest, body }));
    await h.store.accept({ events: [], unusable }, h.now(), { settleMs: 1 });
    expect((await page('/deliveries/rejection:1')).text).toContain(
      '&quot;type&quot;: &quot;&lt;b&gt;x&lt;/b&gt;&quot;',
    );
    const binary = (await page('/deliveries/rejection:2')).text;
    expect(binary).toMatch(/<pre>.*A<\/pre>/s);
    const action = '/api/deliveries/rejection%3A2/dismiss';
    expect(binary).toContain(`formaction="${action}"`);
    const dismiss = (from: string) => post(action, {}, from);
    expect(ledTo(await dismiss('/deliveries'))).toEqual(['/deliveries', 'dismissed.0']);
    const again = await dismiss('/deliveries/rejection:2?x=1');
    expect(again.status).toBe(409);
    const why = await again.text();
    expect(why).toContain('It is dismissed.');
    expect(why).toContain('<a href="/deliveries/rejection:2?x=1">Back</a>');
    expect(await (await dismiss('//evil.example/')).text()).toContain('<a href="/">Back</a>');
    expect((await page('/deliveries/rejection:2')).text).not.toContain('action="/api/');
    expect((await page('/deliveries?outcome=quarantined')).text).toContain('quarantined, dismissed');
  });

  test('shows what is rejected with what doctor says of it', async () => {
    const rejection = { reason: 'bad_signature', t: '1793534400', bytes: 3, bodySha256: null, times: 41 };
    const sent = { header: 't=1, v1=ab', body: Buffer.from('abc'), address: '192.0.2.7', wall: Date.now() };
    await h.store.recordRejections([{ ...rejection, ...sent }]);
    h.context.diagnose = async () => ({
      causes: [{ code: 'wrong_secret', what: 'No known secret fits.', remedy: 'Copy it anew.' }],
      fit: { hash: 'HMAC-SHA256' },
    });
    const { text } = await page('/deliveries/rejection:1');
    for (const part of [
      't=1, v1=ab',
      'No known secret fits.',
      'Copy it anew.',
      'HMAC-SHA256',
      'abc',
      '192.0.2.7',
    ])
      expect(text).toContain(part);
    expect(text).toContain('41: it stands for others');
  });
});

describe('the records', () => {
  test('show data and history field by field, each change with the way to its cause', async () => {
    await h.mirror('vendor', 'v1', { name: 'Acme', owner: HOSTILE });
    const { text } = await page('/records/vendor/v1');
    expect(text).toContain('<h1>Acme</h1>');
    expect(text).toContain('href="/syncs/1"');
    expect(text).toContain('>data.owner</th>');
    expect(text).not.toContain('>data.name</th>');
    expect(text).not.toMatch(/<img|<script>/);
    expect(text).toContain('action="/api/syncs"');
    expect((await page('/records/vendor/v1', READ)).text).not.toContain('action="/api/');
    const body = /name="body" value="([^"]+)"/.exec(text)![1]!.replaceAll('&quot;', '"');
    const asked = await post('/api/syncs', JSON.parse(body), '/records/vendor/v1');
    expect(ledTo(asked)).toEqual(['/records/vendor/v1', 'queued.1']);
    expect(h.asked).toEqual(['refetch vendor v1']);
  });

  test('say why the last read failed', async () => {
    await h.mirror('vendor', 'v1', { name: 'Acme' });
    expect((await page('/records/vendor/v1')).text).not.toContain('Last read');
    const read = { since: h.now().steady, settleMs: 1 };
    await h.store.recordReadFailure('vendor', 'v1', `answered 500: ${HOSTILE}`, h.now().steady, read);
    const { text } = await page('/records/vendor/v1');
    expect(text).toContain('failed: answered 500');
    expect(text).not.toMatch(/<img|<script>/);
  });

  test('are found by a part of their name, by status and by a field, which stay over the pages', async () => {
    const names = Array.from({ length: PAGE_ROWS + 2 }, (_, n) => `Company ${n}`);
    for (const [n, name] of names.entries()) {
      const status = n % 2 === 0 ? 'approved' : 'draft';
      await h.mirror('vendor', `v${String(n).padStart(3, '0')}`, { name, status, owner: { team: `T${n}` } });
    }
    const idsIn = (text: string) => [...text.matchAll(/<code>(v\d+)<\/code>/g)].map(([, id]) => id);
    const found = await page('/records/vendor?search=PANY+51');
    expect(idsIn(found.text)).toEqual(['v051']);
    expect(idsIn((await page('/records/vendor?field=owner.team%3DT7')).text)).toEqual(['v007']);
    expect(found.text).toContain('<option value="approved">approved</option>');

    const first = await page('/records/vendor?search=company&deleted=false');
    const next = /href="([^"]+)" rel="next"/.exec(first.text)![1]!.replaceAll('&amp;', '&');
    expect(next).toMatch(/^\/records\/vendor\?search=company&deleted=false&after=/);
    const second = await page(next);
    expect([...idsIn(first.text), ...idsIn(second.text)].toSorted()).toEqual(
      names.map((_, n) => `v${String(n).padStart(3, '0')}`),
    );
  });

  test('are filtered by the status that the form shows, also where none has it any more', async () => {
    await h.mirror('vendor', 'v1', { status: 'draft' });
    const { text } = await page('/records/vendor?status=gone');
    expect(text).toContain('<option value="draft">draft</option>');
    expect(text).toMatch(/<option value="gone" selected[^>]*>gone<\/option>/);
  });

  test('an address that is not usable says which part of it', async () => {
    const { status, text, type } = await page('/records/vendor?unverified=maybe');
    expect([status, type]).toEqual([400, 'text/html; charset=utf-8']);
    expect(text).toContain('“unverified”');
    expect((await page('/records/car')).status).toBe(404);
    // A form sends what was left empty as well.
    expect((await page('/records/vendor?search=&unverified=&deleted=')).status).toBe(200);
  });
});

describe('the problems on the overview', () => {
  const open = (reason: ProblemReason, kind: Kind | null, recordId: string | null = null) =>
    h.store.openProblem({ reason, kind, recordId }, recordId, h.now());
  const buttons = async (token: string) => {
    const { text } = await page('/', token);
    return [...text.matchAll(/id="resolve-(\d+)"/g)].map(([, id]) => Number(id));
  };

  test('are all there, the worst first, with what to do', async () => {
    await open('downtime', null);
    await open('silence', null);
    await h.store.openProblem({ reason: 'paused', kind: null, recordId: null }, null, h.now());
    await open('unknown_record', 'vendor', HOSTILE);
    const { text } = await page('/');
    const reasons = ['paused', 'silence', 'downtime', 'unknown_record'] as const;
    const places = reasons.map((reason) => text.indexOf(`>${PROBLEMS[reason].sentence}</h3>`));
    expect(places.every((place) => place > 0)).toBe(true);
    expect(places).toEqual(places.toSorted((one, other) => one - other));
    for (const reason of reasons) expect(text).toContain(PROBLEMS[reason].action);
    expect(text).not.toMatch(/<img|<script>/);
  });

  test('that a person can accept are resolved by exactly what is shown, one by one', async () => {
    await open('restored', 'risk_assessment');
    await open('silence', null);
    const [silence, restored] = (await h.store.list('problems', { limit: 2 })).items;
    expect(await buttons(OPERATE)).toEqual([restored!.id, silence!.id]);
    expect(await buttons(READ)).toEqual([]);
    const resolve = (digest: string) => post(`/api/problems/${restored!.id}/resolve`, { digest });
    expect((await resolve('of-another-page')).status).toBe(409);
    const answer = await resolve(restored!.digest);
    expect([answer.status, ...ledTo(answer)]).toEqual([303, '/', 'resolved.0']);
    const { text } = await page('/', OPERATE, 'compliance-mirror-notice=resolved.0');
    expect(text).toContain('The problem is resolved.<');
    expect((await resolve(restored!.digest)).status).toBe(409);
    expect(await buttons(OPERATE)).toEqual([silence!.id]);
  });

  test('of a record that cannot be found have a button that has the API asked', async () => {
    await open('unknown_record', 'risk_assessment');
    const [unknown] = (await h.store.list('problems', { limit: 1 })).items;
    expect((await page('/', OPERATE)).text).toContain(`id="find-${unknown!.id}"`);
    expect((await page('/', READ)).text).not.toContain('id="find-');
    const press = () => post(`/api/problems/${unknown!.id}/resolve`, { find: true });
    const without = await press();
    expect([without.status, await without.text()]).toEqual([
      409,
      expect.stringContaining('No place was proven.'),
    ]);
    h.proven.path = 'assessment.ref';
    const answer = await press();
    expect([answer.status, ...ledTo(answer)]).toEqual([303, '/', 'found.2']);
    const { text } = await page('/', OPERATE, 'compliance-mirror-notice=found.2');
    expect(text).toContain('The API has proven a place of the id.');
  });

  test('are there of each reason, however many others are open', async () => {
    await open('downtime', null);
    for (let n = 0; n < 201; n += 1) await open('quarantined', 'risk_assessment', `risk_${n}`);
    const { text } = await page('/');
    expect(text).toContain('>202 open problems<');
    expect(text).toContain('10 of 99.');
    expect(text).toContain(PROBLEMS.downtime.sentence);
  });
});

test('full syncs are requested by kind, or of all', async () => {
  const asked = await post('/api/syncs', { kinds: ['vendor'] }, '/syncs');
  expect(ledTo(asked)).toEqual(['/syncs', 'queued.0']);
  await post('/api/syncs');
  expect(h.asked).toEqual(['sync vendor operator:olga', 'sync policy,risk_assessment,vendor operator:olga']);
});

test('a person gets a problem as a page, a program as JSON, and both the same words', async () => {
  const person = await page('/nowhere');
  expect([person.status, person.type]).toEqual([404, 'text/html; charset=utf-8']);
  expect(person.text).toContain('<h1>Page not found.</h1>');
  const program = await h.app.request('/nowhere', { headers: bearer(OPERATE) });
  expect(await program.json()).toMatchObject({ title: 'Page not found.' });
  const api = await h.app.request('/api/nowhere', { headers: { ...bearer(OPERATE), ...HTML } });
  expect(api.headers.get('content-type')).toBe('application/problem+json');
});

test('what a page says was done is words of ours, said once, whatever stands in the cookie', async () => {
  for (const told of ['<b>', 'accepted.x', 'constructor.1', 'accepted', 'accepted.1.1', 'hacked']) {
    const { status, text } = await page('/audit', OPERATE, `compliance-mirror-notice=${told}`);
    expect(status).toBe(200);
    expect(text).not.toContain('class="notice"');
  }
  const cookie = 'compliance-mirror-notice=dismissed.1';
  const headers = { ...bearer(OPERATE), cookie };
  // An open page asks for itself again, and must not take what the next page has to say.
  const again = await h.app.request('/audit', { headers });
  expect(await again.text()).not.toContain('The delivery is dismissed.');
  expect(again.headers.get('set-cookie')).toBe(null);
  const response = await h.app.request('/audit', { headers: { ...headers, accept: 'text/html' } });
  expect(await response.text()).toContain('The delivery is dismissed.');
  expect(response.headers.get('set-cookie')).toMatch(/^compliance-mirror-notice=; Max-Age=0;/);
});

test('the navigation counts the problems that need a person, on every page', async () => {
  await kill('a', 'b');
  await h.hold('vendor', ['v1', 'v2', 'v3']);
  for (const path of ['/', '/audit', '/records/vendor', '/deliveries/a'])
    expect((await page(path)).text, path).toContain(
      '<span class="count">1<span class="hidden"> problem needs you',
    );
});

import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { KINDS } from '../../src/compliance/kinds.ts';
import { PAGE_ROWS } from '../../src/ops/pages/query.ts';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import { EVENTS_LOOKED_AT } from '../../src/store/reports.ts';
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
const post = (path: string, fields: [string, string][]) =>
  h.app.request(path, {
    method: 'POST',
    headers: { ...bearer(OPERATE), 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams(fields),
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
  await accept(...ids);
  const claimed = await h.store.claimEvents('test', 500, 60_000, h.now());
  for (const event of claimed) {
    const failure = { event, retryAtMs: null, error: `${event.id} is of no use` };
    await h.store.deferEvent(failure, h.now(), { settleMs: 1 });
  }
}

const HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>';

describe('the events', () => {
  test('are paged by key, and a filter stays over the pages', async () => {
    await kill(...Array.from({ length: PAGE_ROWS + 1 }, (_, n) => `evt_${n}`));
    const first = await page('/events?state=failed');
    expect(first.text).toContain(`>evt_${PAGE_ROWS}</code>`);
    const next = /href="([^"]+)" rel="next"/.exec(first.text)![1]!.replaceAll('&amp;', '&');
    expect(next).toMatch(/^\/events\?state=failed&after=\d+$/);
    const second = await page(next);
    expect(second.text).toContain('>evt_0</code>');
    expect(second.text).not.toContain('rel="next"');
    expect(second.text).toContain('href="/events?state=failed"');
  });

  test('are refused under an address that cannot be used, also where it names one of them', async () => {
    await accept('evt_1');
    expect((await page('/events?id=evt_1&state=&type=&kind=')).status).toBe(200);
    for (const query of ['id=evt_1&bogus=1', 'id=evt_1&state=odd', `id=${'x'.repeat(256)}`]) {
      expect([query, (await page(`/events?${query}`)).status]).toEqual([query, 400]);
    }
  });

  test('of a filter given twice lead on with the one that the page shows', async () => {
    await kill(...Array.from({ length: PAGE_ROWS + 1 }, (_, n) => `evt_${n}`));
    const { text } = await page('/events?state=failed&state=pending');
    expect(text).toMatch(/href="\/events\?state=failed&amp;after=\d+" rel="next"/);
  });

  test('that are rare are looked for as far as one page looks, which it says', async () => {
    const ids = Array.from({ length: EVENTS_LOOKED_AT + 5 }, (_, n) => `evt_${n}`);
    await accept(...ids);
    const first = await page('/events?type=policy.lost');
    expect(first.text).toContain('No matching event among these.');
    expect(first.text).toContain('This page looked back to <time');
    const next = /href="([^"]+)" rel="next">Look further back</
      .exec(first.text)![1]!
      .replaceAll('&amp;', '&');
    const second = await page(next);
    expect(second.text).toContain('No matching events.');
    expect(second.text).not.toContain('looked back to');
  });

  test('are none of a state only where nothing else is asked for', async () => {
    await kill('evt_1');
    for (const state of ['failed', 'pending']) {
      const { text } = await page(`/events?state=${state}&type=vendor.added`);
      expect(text).toContain('No matching events.');
    }
    expect((await page('/events?state=pending')).text).toContain(
      'No pending events: none waits to be processed.',
    );
  });

  test('are found by their id, also one that no path can carry', async () => {
    await accept('..', HOSTILE, 'a/b?c#d');
    for (const id of ['..', HOSTILE, 'a/b?c#d']) {
      const { status, text } = await page(`/events?${new URLSearchParams({ id })}`);
      expect(status).toBe(200);
      expect(text).toContain('As it was sent');
    }
    expect((await page(`/events/${encodeURIComponent('a/b?c#d')}`)).status).toBe(200);
    expect((await page('/events')).text).toContain('href="/events/=Li4"');
    expect((await page('/events/=Li4')).text).toContain('As it was sent');
  });

  test('are tried again and discarded in bulk, each audited, and what has changed meanwhile is counted', async () => {
    await kill('a', 'b', 'c');
    const retried = await post('/actions/events', [
      ...(['a', 'b', 'gone'].map((id) => ['id', id]) as [string, string][]),
      ...([
        ['do', 'retry'],
        ['back', '/events?state=failed'],
      ] as [string, string][]),
    ]);
    expect(ledTo(retried)).toEqual(['/events?state=failed', 'retried.2.1']);
    const { text } = await page('/events?state=failed', OPERATE, 'compliance-mirror-notice=retried.2.1');
    expect(text).toContain('2 events processed. 1 could not be: the error is beside each.');
    await post('/actions/events', [
      ['id', 'c'],
      ['do', 'discard'],
    ]);
    expect(
      await Promise.all(['a', 'b', 'c'].map(async (id) => (await h.store.showEvent(id))!.state)),
    ).toEqual(['processed', 'processed', 'discarded']);
    const audit = (await h.store.list('audit', { limit: 10 })).map(({ actor, action, outcome, target }) =>
      [actor, action, outcome, target].join(' '),
    );
    expect(audit).toEqual([
      'olga event_discard ok c',
      'olga event_retry not_possible gone',
      'olga event_retry ok b',
      'olga event_retry ok a',
    ]);
    h.context.store.discardEvent = () => Promise.reject(new StoreUnavailable('disk full', { remedy: '' }));
    const failing = post('/actions/events', [
      ['id', 'a'],
      ['do', 'discard'],
    ]);
    expect((await failing).status).toBe(503);
  });

  test('as many can be ticked as a list shows, with the longest ids there are', async () => {
    const ids = Array.from({ length: 500 }, (_, n) => `${'鷗'.repeat(250)}${n}`);
    await kill(...ids);
    const fields = [...ids.map((id) => ['id', id]), ['do', 'discard'], ['back', '/events?state=failed']];
    const response = await post('/actions/events', fields as [string, string][]);
    expect(ledTo(response)).toEqual(['/events?state=failed', 'discarded.500.0']);
    expect((await post('/actions/refetch', fields as [string, string][])).status).toBe(413);
  }, 300_000);

  test('a form that names nothing, too much or no verb is refused and changes nothing', async () => {
    await kill('a');
    const many = Array.from({ length: 501 }, (_, n): [string, string] => ['id', `x${n}`]);
    for (const fields of [
      [['do', 'retry']],
      [['id', 'a']],
      [
        ['id', 'a'],
        ['do', 'drop'],
      ],
      [...many, ['do', 'retry']],
    ]) {
      expect((await post('/actions/events', fields as [string, string][])).status).toBe(400);
    }
    const away = await post('/actions/events', [
      ['id', 'a'],
      ['do', 'retry'],
      ['back', '//evil.example/'],
    ]);
    expect(ledTo(away)).toEqual(['/', 'retried.1.0']);
  });
});

describe('the records', () => {
  test('show data and history field by field, each change with the way to its cause', async () => {
    await h.mirror('vendor', 'v1', { name: 'Acme', owner: HOSTILE });
    const { text } = await page('/records/vendor/v1');
    expect(text).toContain('<h1>Acme</h1>');
    expect(text).toContain('href="/sync-runs/1"');
    expect(text).toContain('>data.owner</th>');
    expect(text).not.toContain('>data.name</th>');
    expect(text).not.toMatch(/<img|<script>/);
    expect(text).toContain('action="/actions/refetch"');
    expect((await page('/records/vendor/v1', READ)).text).not.toContain('/actions/');
    const asked = await post('/actions/refetch', [
      ['kind', 'vendor'],
      ['id', 'v1'],
    ]);
    expect(ledTo(asked)).toEqual(['/records/vendor/v1', 'refetched.1.0']);
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

  /** As by full syncs, each a minute after the one before. */
  async function readAgain(...names: string[]): Promise<void> {
    let at = h.now().steady;
    for (const name of names) {
      at += 60_000;
      await h.store.applyReads(
        'vendor',
        [{ id: 'v1', data: { id: 'v1', name } }],
        { number: await h.store.currentNumber(), beganAt: at, endedAt: at, endedWall: h.now().wall },
        {
          cause: 'sync:2',
          syncRunId: null,
          timing: { settleMs: 0 },
          pointers: { policy: ['id'], risk_assessment: ['id'], vendor: ['id'] },
        },
      );
    }
  }

  test('begin with the change by which they appeared, also where it is the last that fits on a page', async () => {
    await h.mirror('vendor', 'v1', { name: 'Acme' });
    const names = Array.from({ length: PAGE_ROWS }, (_, n) => `Acme ${n}`);
    await readAgain(...names.slice(1));
    const { text } = await page('/records/vendor/v1');
    expect(text).toContain('>Appeared <small>');
    expect(text).not.toContain('Earlier changes');
    await readAgain(...names);
    expect((await page('/records/vendor/v1')).text).toContain('Earlier changes');
  });

  test('whose history is trimmed say so, whether a part of it is left or not', async () => {
    await h.mirror('vendor', 'v1', { name: 'Acme' });
    const trimmed = 'are trimmed.';
    expect((await page('/records/vendor/v1')).text).not.toContain(trimmed);
    await readAgain('Acme Ltd');
    const [, first] = (await h.store.recordHistory('vendor', 'v1', { limit: 9 })).items;
    const later = Date.parse(first!.at) + 86_400_000;
    const trim = { before: later, now: later, after: 0, limit: 1 };
    await h.store.trim('changes', trim);
    const { text } = await page('/records/vendor/v1');
    expect(text).toContain('>Changed <small>');
    expect(text).toContain(trimmed);
    await h.store.trim('changes', trim);
    expect((await page('/records/vendor/v1')).text).toContain(trimmed);
  });

  test('have long names shortened where they head a page or stand in a list, and whole among their data', async () => {
    const name = Array.from({ length: 600 }, (_, n) => `word ${n}`).join(' ');
    await h.mirror('vendor', 'v1', { name });
    expect((await page('/records/vendor')).text).not.toContain(name.slice(0, 200));
    const { text } = await page('/records/vendor/v1');
    expect(text).toContain(name.slice(0, 200));
    expect(text).toContain(`<h1>${name.slice(0, 160)}…</h1>`);
  });

  test('have a status and a version of any length on pages that stay small', async () => {
    const [status, version] = ['s'.repeat(1_000_000), 'v'.repeat(1_000_000)];
    await h.mirror('policy', 'p1', { name: 'A', status, version });
    for (const path of ['/records/policy', '/records/policy/p1']) {
      const { text } = await page(path);
      expect(text.length).toBeLessThan(200_000);
      expect(text).toContain(`${status.slice(0, 160)}…`);
      expect(text).toContain(`${version.slice(0, 160)}…`);
    }
  });

  test('whose name is empty are headed by their id, and said to have no name', async () => {
    for (const name of ['', '  ']) {
      await h.mirror('vendor', 'ven_1', { name });
      expect((await page('/records/vendor/ven_1')).text).toContain('<h1>ven_1</h1>');
      expect((await page('/records/vendor')).text).toContain('no name');
    }
  });

  test('have a status that stays in one line if it is short, and may break anywhere if it is not', async () => {
    await h.mirror('vendor', 'ven_1', { status: 'under_review' });
    await h.mirror('vendor', 'ven_2', { status: 'x'.repeat(255) });
    const { text } = await page('/records/vendor');
    expect(text).toContain('<span class="whole">under_review</span>');
    expect(text).toContain('<span>xxx');
  });

  test('are found by a part of their name, by status and by a field, which stay over the pages and in the file', async () => {
    const names = Array.from({ length: PAGE_ROWS + 2 }, (_, n) => `Company ${n}`);
    for (const [n, name] of names.entries()) {
      const status = n % 2 === 0 ? 'approved' : 'draft';
      await h.mirror('vendor', `v${String(n).padStart(3, '0')}`, { name, status, owner: { team: `T${n}` } });
    }
    const idsIn = (text: string) => [...text.matchAll(/<code>(v\d+)<\/code>/g)].map(([, id]) => id);
    const found = await page('/records/vendor?search=PANY+51');
    expect(idsIn(found.text)).toEqual(['v051']);
    expect(idsIn((await page('/records/vendor?field=owner.team%3DT7')).text)).toEqual(['v007']);
    expect(found.text).toContain('<option value="approved">approved (26)</option>');
    expect(found.text).toContain('vendors <span class="quiet">52</span>');

    const first = await page('/records/vendor?search=company&order=name');
    const next = /href="([^"]+)" rel="next"/.exec(first.text)![1]!.replaceAll('&amp;', '&');
    expect(next).toMatch(/^\/records\/vendor\?search=company&order=name&after=/);
    const second = await page(next);
    expect([...idsIn(first.text), ...idsIn(second.text)].toSorted()).toEqual(
      names.map((_, n) => `v${String(n).padStart(3, '0')}`),
    );

    const file = /href="(\/download[^"]+)"/.exec(second.text)![1]!.replaceAll('&amp;', '&');
    const { text, type } = await page(file);
    expect(type).toBe('text/csv; charset=utf-8');
    expect(text.split('\r\n')).toHaveLength(PAGE_ROWS + 2 + 2);
    expect(text).toMatch(/^id,name,status,data,/);
    expect((await page('/download/records/vendor?status=draft')).text.match(/,draft,/g)).toHaveLength(26);
  });

  test('are filtered by the status that the form shows, also where none has it any more', async () => {
    await h.mirror('vendor', 'v1', { status: 'draft' });
    const { text } = await page('/records/vendor?status=gone');
    expect(text).toContain('<option value="draft">draft (1)</option>');
    expect(text).toMatch(/<option value="gone" selected[^>]*>gone<\/option>/);
  });

  test('no name is a formula in the file that a person opens', async () => {
    await h.mirror('vendor', 'v1', { name: '=HYPERLINK("http://evil.example")' });
    expect((await page('/download/records/vendor')).text).toContain(`"'=HYPERLINK(`);
  });

  test('that are rare are looked for as far as one page looks, which it says', async () => {
    const { items } = await h.store.listRecords('vendor', {}, { limit: 1 });
    expect(items).toEqual([]);
    h.context.store.listRecords = async () => ({ items: [], next: '2.v9', searched_to: 'Name of v9' });
    const { text } = await page('/records/vendor?search=rare');
    expect(text).toContain('No matching record among these.');
    expect(text).toContain('This page searched to <code>Name of v9</code>. There are more records.');
    expect(text).toContain('href="/records/vendor?search=rare&amp;after=2.v9" rel="next">Search further');
  });

  test('an address that is not usable says which part of it', async () => {
    const { status, text, type } = await page('/records/vendor?unverified=maybe');
    expect([status, type]).toEqual([400, 'text/html; charset=utf-8']);
    expect(text).toContain('“unverified”');
    expect((await page('/records/car')).status).toBe(404);
    expect((await page('/events?color=red')).status).toBe(400);
    // A form sends what was left empty as well.
    expect((await page('/records/vendor?search=&unverified=&deleted=')).status).toBe(200);
  });
});

test('what is in quarantine is shown as text or in hex, and released once', async () => {
  const bodies = ['{"type":"<b>x</b>"}', new Uint8Array([0xff, 0x00, 0x41])].map((body) => Buffer.from(body));
  await h.store.accept(
    {
      events: [],
      unusable: bodies.map((body) => ({
        reason: 'missing_id',
        t: '1',
        kind: 'vendor',
        recordId: 'v1',
        body,
      })),
    },
    h.now(),
    { settleMs: 1 },
  );
  expect((await page('/quarantine/1')).text).toContain('&quot;type&quot;: &quot;&lt;b&gt;x&lt;/b&gt;&quot;');
  const binary = (await page('/quarantine/2')).text;
  expect(binary).toContain('It is not UTF-8.');
  expect(binary).toMatch(/0000 {2}ff 00 41 +··A/);
  expect(ledTo(await post('/actions/release', [['id', '2']]))).toEqual(['/quarantine/2', 'released.1.0']);
  expect((await post('/actions/release', [['id', '2']])).status).toBe(409);
  expect((await page('/quarantine/2')).text).not.toContain('/actions/release');
});

test('the gaps of a restore are resolved where only a person can, one by one', async () => {
  for (const kind of KINDS) {
    await h.store.openGap({ reason: 'restored', kind, recordId: null }, 'from then to now', h.now());
  }
  const [, ofAssessments] = (await h.store.list('gaps', { limit: 3 })).map(({ id }) => id);
  const buttons = async (token: string) =>
    [...(await page('/gaps', token)).text.matchAll(/name="id" value="(\d+)"/g)].map(([, id]) => Number(id));
  expect(await buttons(OPERATE)).toEqual([ofAssessments]);
  expect(await buttons(READ)).toEqual([]);
  expect((await page('/')).text).toContain('href="/gaps?reason=restored"');
  const answer = await post('/actions/resolve-gap', [['id', String(ofAssessments)]]);
  expect([answer.status, ...ledTo(answer)]).toEqual([303, '/gaps', 'resolved.1.0']);
  const { text } = await page('/gaps', OPERATE, 'compliance-mirror-notice=resolved.1.0');
  expect(text).toContain('The gap is resolved.');
  expect((await post('/actions/resolve-gap', [['id', String(ofAssessments)]])).status).toBe(409);
  expect(await buttons(OPERATE)).toEqual([]);
  h.live.eventsOnly = true;
  expect(await buttons(OPERATE)).toHaveLength(2);
});

test('gaps that need a person are one click away, however many others were opened after them', async () => {
  await h.store.openGap(
    { reason: 'restored', kind: 'risk_assessment', recordId: null },
    'from then',
    h.now(),
  );
  for (let n = 0; n < 60; n += 1) {
    await h.store.openGap({ reason: 'failed_event', kind: 'vendor', recordId: `ven_${n}` }, null, h.now());
  }
  const [link, href] = /<a href="([^"]+)">See what to do<\/a>/.exec((await page('/')).text) ?? [];
  expect(link).toBeDefined();
  const { text } = await page(href!);
  expect(text).toContain('A copy of the database was put back');
  expect(text).not.toContain('ven_');
  expect((await page('/gaps?reason=restored&show=resolved')).text).not.toContain('A copy of the database');
  // Resolved meanwhile; others are open.
  expect((await page('/gaps?reason=silence')).text).not.toContain('None is open');
});

test('without an API a person ends the gaps that a full sync would have ended, and no others', async () => {
  for (const reason of ['rejected_timestamp', 'unusable_delivery', 'silence', 'rejected_signatures'] as const)
    await h.store.openGap({ reason, kind: null, recordId: null }, null, h.now());
  const buttons = async () => [...(await page('/gaps')).text.matchAll(/name="id" value="(\d+)"/g)].length;
  expect(await buttons()).toBe(0);
  h.live.eventsOnly = true;
  expect(await buttons()).toBe(2);
});

test('of an id that no request can ask for, the button does not say that there is no such record: a list may show it', async () => {
  await h.store.openGap({ reason: 'unaddressable', kind: 'vendor', recordId: '..' }, null, h.now());
  expect((await page('/gaps')).text).toContain('Leave it unread: resolve');
  await h.store.openGap({ reason: 'unresolved', kind: 'vendor', recordId: 'ven_1' }, null, h.now());
  expect((await page('/gaps')).text.match(/There is no such record: resolve/g)).toHaveLength(1);
});

test('why a delivery was put into quarantine is said in words', async () => {
  const unusable = { reason: 'invalid_utf8', t: '1', body: Buffer.from([0xff]), kind: null, recordId: null };
  await h.store.accept({ events: [], unusable: [unusable] }, h.now(), { settleMs: 1 });
  expect((await page('/deliveries')).text).toContain('invalid utf8');
});

test('a rejection is shown with what doctor says of it', async () => {
  await h.store.recordRejections([
    {
      reason: 'bad_signature',
      t: '1793534400',
      bytes: 3,
      bodySha256: null,
      header: 't=1, v1=ab',
      body: Buffer.from('abc'),
      address: '192.0.2.7',
      times: 41,
      wall: Date.now(),
    },
  ]);
  h.context.diagnose = async () => ({
    causes: [{ code: 'wrong_secret', what: 'No known secret fits.', remedy: 'Copy it anew.' }],
    fit: { hash: 'HMAC-SHA256' },
  });
  const { text } = await page('/rejections/1');
  for (const part of [
    't=1, v1=ab',
    'No known secret fits.',
    'Copy it anew.',
    'HMAC-SHA256',
    '41: it stands for others',
    'abc',
    '192.0.2.7',
  ]) {
    expect(text).toContain(part);
  }
  const list = (await page('/rejections')).text;
  for (const part of ['Rejected deliveries', '192.0.2.7', '>41<', '2026-11-01 12:00:00', 't=1793534400'])
    expect(list).toContain(part);
  expect((await page('/rejections/99')).status).toBe(404);
});

test('gaps stand under their reasons with symptom, check and command; the resolved ones apart', async () => {
  await h.store.openGap({ reason: 'unresolved', kind: 'vendor', recordId: HOSTILE }, HOSTILE, h.now());
  await h.store.openGap({ reason: 'silence', kind: null, recordId: null }, null, h.now());
  await h.store.resolveGap({ reason: 'silence', kind: null, recordId: null }, h.now());
  const open = (await page('/gaps')).text;
  expect(open).toContain('The API does not know this record');
  for (const word of ['Symptom', 'Check', 'Command']) expect(open).toContain(`<dt>${word}</dt>`);
  expect(open).not.toMatch(/<img|<script>|No delivery for a long time/);
  const resolved = (await page('/gaps?show=resolved')).text;
  expect(resolved).toContain('No delivery for a long time');
  expect(resolved).not.toContain('needs a person');
  expect(resolved).not.toContain('Symptom');
});

test('what gaps are about is one link away', async () => {
  await h.store.openGap({ reason: 'failed_event', kind: 'vendor', recordId: 'v1' }, null, h.now());
  expect((await page('/gaps')).text).toContain('<a href="/events?state=failed">Failed events</a>');
});

test('the command of a single gap can be pasted as it is, and that of several leaves open which one', async () => {
  const open = (recordId: string) =>
    h.store.openGap({ reason: 'unresolved', kind: 'vendor', recordId }, null, h.now());
  const command = async () =>
    /<code>compliance-mirror (refetch .*?)<\/code>/.exec((await page('/gaps')).text)?.[1];
  await open('a $& b');
  expect(await command()).toBe('refetch vendor &#39;a $&amp; b&#39;');
  expect((await page('/gaps')).text).toContain('“gaps resolve 1”');
  await open('another');
  expect(await command()).toBe('refetch KIND ID');
  await h.store.openGap({ reason: 'restored', kind: 'risk_assessment', recordId: null }, null, h.now());
  expect((await page('/gaps')).text).toContain('compliance-mirror gaps resolve 3');
});

test('no id becomes an option of a command that is pasted', async () => {
  const gap = { reason: 'unresolved', kind: 'vendor', recordId: '--ids=/data/ops-token' } as const;
  await h.store.openGap(gap, null, h.now());
  expect((await page('/gaps')).text).toContain('compliance-mirror refetch vendor ID<');
});

test('from the gap of pending deletions it is two steps to their approval', async () => {
  const syncRun = await h.hold('vendor', ['v1', 'v2', 'v3']);
  expect((await page('/gaps')).text).toContain('<a href="/sync-runs">all vendors</a>');
  expect((await page('/sync-runs')).text).toContain(`href="/sync-runs/${syncRun}#pending"`);
});

test('a dry run is begun from the page, and the page shows what it found', async () => {
  h.context.actions.dryRun = async () => ({
    missing: 1_200,
    extra: 0,
    different: 0,
    repaired: 0,
    fields: {},
    incomplete: null,
    examples: [{ id: 'v9', what: 'missing', fields: [], repaired: false }],
  });
  expect((await post('/actions/sync-runs', [['do', 'compare']])).status).toBe(400);
  const begun = await post('/actions/sync-runs', [
    ['kind', 'vendor'],
    ['do', 'compare'],
  ]);
  expect(ledTo(begun)).toEqual(['/sync-runs', 'compared.1.0']);
  await expect.poll(async () => (await page('/sync-runs')).text).toContain('nothing was written');
  expect((await page('/sync-runs')).text).toContain('<code>v9</code>');
  expect((await page('/sync-runs')).text).toContain('The first 1 of 1,200.');
  await post('/actions/sync-runs', [
    ['kind', 'vendor'],
    ['kind', 'policy'],
    ['do', 'sync'],
  ]);
  expect(h.asked).toEqual(['sync policy,vendor operator:olga']);
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
  for (const told of ['<b>', 'retried.x.1', 'constructor.1.1', 'retried.1', 'retried.1.1.1', 'hacked']) {
    const { status, text } = await page('/events', OPERATE, `compliance-mirror-notice=${told}`);
    expect(status).toBe(200);
    expect(text).not.toContain('class="notice"');
  }
  const cookie = 'compliance-mirror-notice=discarded.1.0';
  const response = await h.app.request('/events', { headers: { ...bearer(OPERATE), cookie } });
  expect(await response.text()).toContain('1 event discarded.');
  expect(response.headers.get('set-cookie')).toMatch(/^compliance-mirror-notice=; Max-Age=0;/);
});

describe('the page of an event', () => {
  const told = async (id: string, verb: string) => {
    const answer = await post('/actions/events', [
      ...([
        ['id', id],
        ['do', verb],
        ['back', `/events/${id}`],
      ] as [string, string][]),
    ]);
    const [path, left] = ledTo(answer);
    return (await page(path!, OPERATE, `compliance-mirror-notice=${left}`)).text;
  };

  test('tells what a retry came to', async () => {
    const nameless = incoming({ id: 'nameless', recordId: null });
    const body = nameless.body.replace('policyId', 'nothing');
    await h.store.accept({ events: [{ ...nameless, body }], unusable: [] }, h.now(), { settleMs: 1 });
    await kill('fine');
    expect(await told('fine', 'retry')).toContain('<p class="notice" role="status">Processed.</p>');
    expect(await told('nameless', 'retry')).toContain('Failed again: the payload holds no id of a policy');
    expect(await told('nameless', 'discard')).toContain('<p class="notice" role="status">Discarded.</p>');
    expect(await told('nameless', 'discard')).toContain('Not possible any more: the event is discarded.');
  });

  test('shows what it changed, field by field, and what the API said of it', async () => {
    await kill('e1');
    await told('e1', 'retry');
    const open = (await page('/events/e1')).text;
    expect(open).toContain('>name</th>');
    expect(open).toContain('&quot;Access&quot;');
    expect(open).toContain('The API has not confirmed it yet.');
    const { wall, steady } = h.now();
    const read = { beganAt: steady, endedAt: steady, endedWall: wall };
    await h.store.applyReads(
      'policy',
      [{ id: 'pol_1', data: { id: 'pol_1', name: 'Other' } }],
      { number: await h.store.currentNumber(), ...read },
      { cause: 'refetch', syncRunId: null, timing: { settleMs: 0 }, pointers: h.live.idPointers },
    );
    expect((await page('/events/e1')).text).toContain('The API showed something else: changed by');
  });

  test('shows the body as a command that sends it once more, and no secret', async () => {
    const body = incoming({ id: "it's" }).body;
    await h.store.accept({ events: [incoming({ id: "it's", body })], unusable: [] }, h.now(), {
      settleMs: 1,
    });
    const { text } = await page(`/events/${encodeURIComponent("it's")}`);
    expect(text).toContain('curl -X POST &#39;http://127.0.0.1:8080/webhooks&#39;');
    expect(text).toContain('v1=SIGNATURE');
  });
});

describe('the deliveries', () => {
  test('stand with whom they came from, what they were answered, and what is new of them', async () => {
    const address = '192.0.2.1';
    const event = { ...incoming({ id: 'evt_a' }), address };
    await h.store.accept({ events: [event], unusable: [] }, h.now(), { settleMs: 1 });
    const first = (await page('/deliveries?outcome=accepted&since=2026-01-01T00:00')).text;
    for (const part of ['evt_a', address, '>valid<', '>202<', 'value="2026-01-01T00:00:00"']) {
      expect(first).toContain(part);
    }
    const stream = /data-stream="([^"]+)"/.exec(first)![1]!.replaceAll('&amp;', '&');
    await h.store.accept(
      { events: [event, { ...incoming({ id: 'evt_b' }), address }], unusable: [] },
      h.now(),
      { settleMs: 1 },
    );
    const news = await h.app.request(stream, { headers: bearer(READ) });
    const { value } = await news.body!.getReader().read();
    const told = new TextDecoder().decode(value);
    expect(told).toContain('1 new delivery: show them');
    expect(told).toContain('href="/deliveries?outcome=accepted&amp;since=2026-01-01T00%3A00%3A00.000Z"');
    const all = (await page('/deliveries')).text;
    expect([...all.matchAll(/class="state duplicate"/g)]).toHaveLength(1);
    expect((await page('/deliveries?until=2026-01-01T00:00')).text).not.toContain('data-stream');
    expect((await page('/deliveries?until=2026-01-01T00:00Z')).status).toBe(200);
    expect((await page('/deliveries?until=yesterday')).status).toBe(400);
    expect((await page('/deliveries?until=2026-02-30T00:00')).status).toBe(400);
    expect((await page('/deliveries?until=0000-06-01T00:00')).status).toBe(400);
  });
});

test.each(['events', 'gaps', 'quarantine', 'rejections', 'deliveries'])(
  'the stream of %s takes no place for what it cannot tell',
  async (list) => {
    for (const query of ['', '?above=-1', '?above=0&state=foo'])
      expect((await page(`/stream/${list}${query}`)).status).toBe(400);
  },
);

test('the navigation counts what waits for a person, on every page', async () => {
  await kill('a', 'b');
  const minute = new Date(Math.floor(h.now().wall / 60_000) * 60_000).toISOString();
  await h.store.addTraffic([{ minute, what: 'rejected:bad_signature', times: 3, total_ms: 0, max_ms: 0 }], 0);
  await h.hold('vendor', ['v1', 'v2', 'v3']);
  for (const path of ['/', '/audit', '/records/vendor', '/events/a']) {
    const { text } = await page(path);
    const counts = [...text.matchAll(/class="count" title="([^"]+)"/g)].map(([, words]) => words);
    expect(counts, path).toEqual(['2 failed', '3 deletions to approve', '3 in the last hour']);
  }
});

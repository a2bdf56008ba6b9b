import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { sandboxOptionsFromEnv } from '../../sandbox/options.ts';
import { valueIn } from '../../sandbox/places.ts';
import { seededRandom } from '../../sandbox/random.ts';
import { changedShapes, DEFAULT_SHAPES, drawShapes, type ShapesPatch } from '../../sandbox/shapes.ts';
import { shapedRecord } from '../../sandbox/shaping.ts';
import { KINDS } from '../../src/compliance/kinds.ts';
import { request, testReceiver, testSandbox } from './support.ts';

const seed = {
  policies: [{ id: 'policy-0001', name: 'Access', owner: 'Security' }],
  riskAssessments: [{ id: 'risk-0001', name: 'Flood' }],
  vendors: [
    { id: 'vendor-0001', name: 'Alder', riskAssessmentId: 'risk-0001' },
    { id: 'vendor-0002', name: 'Birch' },
    { id: 'vendor-0003', name: 'Cedar' },
  ],
};
const alder = { name: 'Alder', status: 'prospective', riskAssessmentId: 'risk-0001' };
const SINGLE = { page: 1, perPage: 1, total: 1 };

describe('a single record', () => {
  const cases: [string, ShapesPatch, unknown][] = [
    [
      'under another name',
      { ids: { vendor: { rows: 'uuid' } } },
      { data: { uuid: 'vendor-0001', ...alder } },
    ],
    [
      'deeper',
      { ids: { vendor: { rows: 'vendor.ref' } } },
      { data: { vendor: { ref: 'vendor-0001' }, ...alder } },
    ],
    [
      'deeper, with its fields',
      { ids: { vendor: { rows: 'vendor.ref', inside: true } } },
      { data: { vendor: { ref: 'vendor-0001', ...alder } } },
    ],
    ['nowhere', { ids: { vendor: { read: null } } }, { data: alder }],
    [
      'as a number, as in references',
      { ids: { vendor: { numbers: true }, risk_assessment: { numbers: true } } },
      { data: { id: 1, ...alder, riskAssessmentId: 1 } },
    ],
  ];
  test.each(cases)('has its id %s', async (_, shapes, answer) => {
    const { api } = await testSandbox({ seed, shapes });
    expect((await api('GET', '/vendors/vendor-0001')).body).toEqual({ ...(answer as object), meta: SINGLE });
  });

  const whole = { id: 'vendor-0001', ...alder };
  const envelopes: [ShapesPatch['envelope'], unknown][] = [
    [{ record: '' }, whole],
    [{ record: 'data.{kind}' }, { data: { vendor: whole }, meta: SINGLE }],
    [{ recordInArray: true }, { data: [whole], meta: SINGLE }],
    [{ record: '', recordInArray: true }, [whole]],
    [{ meta: null }, { data: whole }],
    [{ record: 'data.item', meta: 'data.meta', list: 'data.items' }, { data: { item: whole, meta: SINGLE } }],
  ];
  test.each(envelopes)('comes in the envelope %j', async (envelope, answer) => {
    const { api } = await testSandbox({ seed, shapes: { envelope } });
    expect((await api('GET', '/vendors/vendor-0001')).body).toEqual(answer);
  });

  test('whose id is a number is read by it, changed by it, and shown by it in the state', async () => {
    const { api, control } = await testSandbox({ seed, shapes: { ids: { vendor: { numbers: true } } } });
    expect((await api('GET', '/vendors/2')).body.data).toMatchObject({ id: 2, name: 'Birch' });
    const mutation = { kind: 'vendor', op: 'update', id: '2', fields: { name: 'Beech' } };
    expect((await control('POST', '/mutate', mutation)).body).toMatchObject({
      id: '2',
      record: { name: 'Beech' },
    });
    const added = (await control('POST', '/mutate', { kind: 'vendor', op: 'add', fields: { name: 'Elm' } }))
      .body;
    expect(added.id).toMatch(/^\d+$/);
    expect((await api('GET', `/vendors/${added.id}`)).body.data.id).toBe(Number(added.id));
    const ids = (await control('GET', '/state')).body.vendors.map(({ id }: { id: string }) => id);
    expect(ids).toEqual(['1', '2', '3', added.id]);
    const story = (await control('POST', '/scenario', { name: 'duplicate-delivery', id: '2' })).body;
    expect(story.records).toEqual([{ kind: 'vendor', id: '2' }]);
  });

  test('whose id in the seed is a number already is read and changed by that', async () => {
    const vendors = [{ id: 7, name: 'Alder' }, { name: 'Birch' }];
    const shapes = { ids: { vendor: { numbers: true } } };
    const { api, control } = await testSandbox({ seed: { ...seed, vendors }, shapes });
    expect((await api('GET', '/vendors')).body.data.map(({ id }: { id: unknown }) => id)).toEqual(['7', 2]);
    expect((await api('GET', '/vendors/7')).body.data).toMatchObject({ id: '7', name: 'Alder' });
    const mutation = { kind: 'vendor', op: 'update', id: '7', fields: { name: 'Ash' } };
    expect((await control('POST', '/mutate', mutation)).body).toMatchObject({ record: { name: 'Ash' } });
  });

  test('has its status in other words', async () => {
    for (const [statuses, word] of [
      ['upper', 'UNDER_REVIEW'],
      ['title', 'Under review'],
    ] as const) {
      const vendors = [{ id: 'v', status: 'under_review' }];
      const { api } = await testSandbox({ seed: { ...seed, vendors }, shapes: { statuses } });
      expect((await api('GET', '/vendors/v')).body.data.status).toBe(word);
    }
  });
});

describe('a list', () => {
  const names = (rows: { name: string }[]) => rows.map(({ name }) => name);

  test.each([
    ['', (body: unknown) => body],
    ['data.{kinds}', (body: unknown) => valueIn(body, 'data.vendors')],
    ['data.items', (body: unknown) => valueIn(body, 'data.items')],
  ])('has its rows at "%s"', async (list, rows) => {
    const { api } = await testSandbox({ seed, shapes: { envelope: { list } } });
    const { body } = await api('GET', '/vendors');
    expect(names(rows(body) as { name: string }[])).toEqual(['Alder', 'Birch', 'Cedar']);
    expect(Array.isArray(body) ? null : body.meta).toEqual(
      list === '' ? null : { page: 1, perPage: 20, total: 3 },
    );
  });

  test.each([
    [{ firstPage: 0 }, 'page=0&perPage=2', ['Alder', 'Birch']],
    [{ firstPage: 0 }, 'page=1&perPage=2', ['Cedar']],
    [{ sizeName: 'per_page' }, 'page=2&per_page=1', ['Birch']],
    [{ sizeName: 'per_page', size: 2 }, 'page=2&perPage=1', ['Cedar']],
    [{ by: 'offset', startName: 'offset', sizeName: 'limit' }, 'offset=1&limit=1', ['Birch']],
    [
      { by: 'offset', startName: 'offset', sizeName: 'limit', size: 2 },
      'page=2&perPage=2',
      ['Alder', 'Birch'],
    ],
    [{ by: 'nothing', size: 1 }, 'page=2&perPage=1', ['Alder', 'Birch', 'Cedar']],
    [{ maxSize: 2 }, 'perPage=100', ['Alder', 'Birch']],
  ] as const)('is paged by %j: %s', async (paging, query, expected) => {
    const { api } = await testSandbox({ seed, shapes: { paging } });
    expect(names((await api('GET', `/vendors?${query}`)).body.data)).toEqual(expected);
  });

  test('is paged by cursors, which lead to its end and cannot be made up', async () => {
    const { api } = await testSandbox({
      seed,
      shapes: { paging: { by: 'cursor', startName: 'cursor', size: 2 } },
    });
    const first = (await api('GET', '/vendors?page=2')).body;
    expect(names(first.data)).toEqual(['Alder', 'Birch']);
    const last = (await api('GET', `/vendors?cursor=${first.meta.nextCursor}`)).body;
    expect([names(last.data), last.meta.nextCursor]).toEqual([['Cedar'], null]);
    expect((await api('GET', '/vendors?cursor=made-up')).status).toBe(422);
  });
});

describe('an event', () => {
  const full = { name: 'Flood', status: 'assessed' };
  test.each([
    [{ events: 'assessment_id' }, { assessment_id: 'risk-0001', ...full }],
    [
      { events: 'riskAssessment.id', inside: true },
      { riskAssessment: { id: 'risk-0001', ...full, updatedAt: expect.any(String) } },
    ],
    [
      { events: 'assessment.ref', numbers: true },
      { assessment: { ref: 1 }, ...full },
    ],
    [{ events: null }, full],
    [
      { events: 'risk.riskId', otherId: 'id' },
      { risk: { riskId: 'risk-0001' }, id: expect.stringMatching(/^about-evt-/), ...full },
    ],
  ])('says which assessment it is about as %j', async (ids, data) => {
    const { register, control, quiesce } = await testSandbox({
      seed,
      shapes: { ids: { risk_assessment: ids } },
    });
    const receiver = await testReceiver();
    await register(receiver.url, ['risk.*']);
    const id = 'numbers' in ids ? '1' : 'risk-0001';
    await control('POST', '/mutate', { kind: 'risk_assessment', op: 'assess', id });
    await quiesce();
    const { updatedAt: _, ...told } = receiver.received[0]!.event.data;
    expect(told).toEqual(data);
  });
});

test.each([
  [{ secret: 'secret' }, { data: { id: 'ID' }, secret: 'SECRET' }],
  [
    { secret: 'data.hook.token', id: 'data.webhookId' },
    { data: { webhookId: 'ID', hook: { token: 'SECRET' } } },
  ],
  [
    { rest: '', secret: 'signing_secret', id: 'webhook_id' },
    { signing_secret: 'SECRET', webhook_id: 'ID' },
  ],
  [{ id: 'data.id', idNumber: true }, { data: { id: 1, secret: 'SECRET' } }],
  [{ id: null, secret: null }, { data: {} }],
])('a registration answers %j', async (registration, expected) => {
  const { api } = await testSandbox({ shapes: { registration } });
  const asked = { url: 'https://mirror.example/webhooks', events: ['policy.*'], description: 'mine' };
  const { status, body } = await api('POST', '/webhooks', { ...asked, secret: 'SECRET-OF-SIXTEEN' });
  const shown = JSON.parse(
    JSON.stringify(body)
      .replace('SECRET-OF-SIXTEEN', 'SECRET')
      .replace(/webhook-\w{12}/, 'ID'),
  );
  const withRest =
    'rest' in registration
      ? { ...asked, ...expected }
      : { ...expected, data: { ...asked, ...(expected as { data: object }).data } };
  expect([status, shown]).toEqual([201, withRest]);
});

describe('/_sandbox/shapes', () => {
  test('shows them, changes some, and puts them back as at the start', async () => {
    const { control, api } = await testSandbox({ seed });
    expect((await control('GET', '/shapes')).body).toEqual(DEFAULT_SHAPES);
    await control('PATCH', '/shapes', { envelope: { record: '' } });
    const changed = await control('POST', '/shapes', { ids: { vendor: { rows: 'uuid' } } });
    expect(changed.body.envelope.record).toBe('');
    expect((await api('GET', '/vendors/vendor-0001')).body.uuid).toBe('vendor-0001');
    expect((await control('POST', '/shapes/reset', {})).body).toEqual(DEFAULT_SHAPES);
    expect((await control('GET', '/state')).body.shapes).toEqual(DEFAULT_SHAPES);
  });

  test('draws the same ones from the same number', async () => {
    const { control } = await testSandbox();
    const draw = async (number: number) => (await control('POST', '/shapes/draw', { seed: number })).body;
    const first = await draw(7);
    expect(await draw(8)).not.toEqual(first);
    expect(await draw(7)).toEqual(first);
  });

  test.each([
    [{ ids: { vendor: { rows: 'a..b' } } }, 'ids.vendor.rows'],
    [{ ids: { vendor: { rows: null } } }, 'ids.vendor.rows'],
    [{ ids: { vendor: { events: '__proto__.id' } } }, 'ids.vendor.events'],
    [{ ids: { policy: { events: 'name' } } }, 'fields of their own'],
    [{ ids: { team: {} } }, 'team'],
    [{ ids: { vendor: { otherId: 'vendorId' } } }, 'in the way of events'],
    [{ envelope: { list: 'a.b.c.d.e' } }, 'envelope.list'],
    [{ envelope: { meta: 'data.meta' } }, 'in the way of list'],
    [{ paging: { firstPage: 2 } }, 'paging.firstPage'],
    [{ paging: { size: 1.5 } }, 'paging.size'],
    [{ paging: { startName: 'perPage' } }, 'paging.sizeName'],
    [{ registration: { secret: 'data' } }, 'each other’s way'],
    [{ registration: { id: 'data.secret' } }, 'each other’s way'],
    [{ statuses: 'klingon' }, 'statuses'],
    [{ fieldNames: {} }, 'fieldNames'],
  ])('refuses %j and says why, and nothing is changed', async (patch, reason) => {
    const { control } = await testSandbox();
    const { status, body } = await control('PATCH', '/shapes', patch);
    expect([status, body.code]).toEqual([422, 'validation_failed']);
    expect(body.detail).toContain(reason);
    expect((await control('GET', '/shapes')).body).toEqual(DEFAULT_SHAPES);
  });

  test('can be set from the start, as JSON or by a number', () => {
    expect(
      sandboxOptionsFromEnv({ SANDBOX_SHAPES: '{"statuses":"upper"}', SANDBOX_PAGE_SIZE: '5' }).shapes,
    ).toEqual({
      statuses: 'upper',
      paging: { size: 5 },
    });
    expect(sandboxOptionsFromEnv({ SANDBOX_SHAPES: 'draw:7' }).shapes).toEqual(drawShapes(seededRandom(7)));
    for (const SANDBOX_SHAPES of ['draw', '{', '{"statuses":"klingon"}']) {
      expect(() => sandboxOptionsFromEnv({ SANDBOX_SHAPES })).toThrow(/SANDBOX_SHAPES/);
    }
  });

  test('are shown and set by the page’s form, as JSON', async () => {
    const { url, control } = await testSandbox();
    const page = await (await fetch(url)).text();
    const [, shown] = /<textarea name="shapes"[^>]*>([^<]*)</.exec(page)!;
    const shapes = JSON.parse(shown!.replaceAll('&quot;', '"'));
    expect(shapes).toEqual(DEFAULT_SHAPES);
    const post = (fields: Record<string, string>) =>
      fetch(`${url}/act`, { method: 'POST', body: new URLSearchParams(fields), redirect: 'manual' });
    shapes.ids.vendor.events = null;
    expect((await post({ action: 'shapes', shapes: JSON.stringify(shapes) })).status).toBe(303);
    expect((await control('GET', '/shapes')).body).toEqual(shapes);
    const wrong = await post({ action: 'shapes', shapes: '{"paging":{"size":1.5}}' });
    expect([wrong.status, await wrong.text()]).toEqual([422, expect.stringContaining('paging.size')]);
    expect((await post({ action: 'shapes/reset' })).status).toBe(303);
    expect((await control('GET', '/shapes')).body).toEqual(DEFAULT_SHAPES);
  });
});

test('whatever is drawn, each record’s id stands where the shapes say, and its fields are all there', () => {
  const records = {
    policy: { policyId: 'policy-0012', name: 'n', version: '1.0', status: 'draft' },
    risk_assessment: { id: 'risk-0012', name: 'n', status: 'identified' },
    vendor: { id: 'vendor-0012', name: 'n', status: 'approved' },
  };
  fc.assert(
    fc.property(fc.nat(), (number) => {
      const shapes = changedShapes(DEFAULT_SHAPES, drawShapes(seededRandom(number)));
      for (const kind of KINDS) {
        for (const where of ['rows', 'read', 'events'] as const) {
          const place = shapes.ids[kind][where];
          const shaped = shapedRecord(kind, records[kind], where, shapes);
          if (place !== null) expect(String(valueIn(shaped, place))).toMatch(/^12$|-0012$/);
          expect(JSON.stringify(shaped)).toContain('"name":"n"');
        }
      }
    }),
  );
});

describe('bodies', () => {
  test('that are not UTF-8 are refused, and no record is made', async () => {
    const { url, control } = await testSandbox({ seed });
    const body = Buffer.concat([Buffer.from('{"name":"a'), Buffer.from([0xff]), Buffer.from('"}')]);
    const headers = { authorization: 'Bearer key-for-these-tests', 'content-type': 'application/json' };
    for (const path of ['/v1/policies', '/_sandbox/mutate', '/oauth/token']) {
      const answer = await fetch(url + path, { method: 'POST', body, headers });
      expect([answer.status, ((await answer.json()) as { code: string }).code]).toEqual([
        400,
        'invalid_utf8',
      ]);
    }
    expect((await control('GET', '/state')).body.policies).toHaveLength(1);
  });

  test('that are too large end the connection that brings them', async () => {
    const { url } = await testSandbox();
    const answer = await request('POST', `${url}/_sandbox/mutate`, 'x'.repeat(1024 * 1024 + 1));
    expect([answer.status, answer.headers.get('connection')]).toEqual([413, 'close']);
  });
});

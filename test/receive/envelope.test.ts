import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { IdPointers } from '../../src/compliance/pointers.ts';
import { parseEnvelope } from '../../src/receive/envelope.ts';
import { eventBody } from './sign.ts';

const pointers: IdPointers = {
  policy: ['policyId', 'policy.id', 'id'],
  risk_assessment: ['riskAssessmentId', 'risk.id', 'id'],
  vendor: ['vendorId', 'vendor.id', 'id'],
};
const T = '1767225600';
const parse = (body: string | Uint8Array) =>
  parseEnvelope(Buffer.from(body), { pointers, t: T, address: '192.0.2.1' });

describe('an event', () => {
  it('is read with its record, its instant and the body as it came', () => {
    const body = ` {"id":"evt_1","type":"policy.updated","created":"2026-01-01T01:00:00+01:00",\n"data":{"policyId":"é"}} `;
    expect(parse(body)).toEqual({
      ok: true,
      events: [
        {
          id: 'evt_1',
          type: 'policy.updated',
          created: '2026-01-01T01:00:00+01:00',
          createdMs: 1_767_225_600_000,
          kind: 'policy',
          recordId: 'é',
          known: true,
          body,
          t: T,
          address: '192.0.2.1',
        },
      ],
    });
  });

  it.each([
    ['risk.identified', { risk: { id: 'r1' } }, 'risk_assessment', 'r1', true],
    ['vendor.added', { id: 7 }, 'vendor', '7', true],
    ['vendor.added', { policyId: 'p' }, 'vendor', null, true],
    ['policy.deleted', { id: '../admin' }, 'policy', '../admin', true],
    ['policy.archived', { policyId: 'p' }, 'policy', 'p', false],
    ['control.tested', { id: 'c1' }, null, null, false],
    ['policy', { id: 'c1' }, null, null, false],
  ])('of type %s with data %j is about %s %s', (type, data, kind, recordId, known) => {
    expect(parse(eventBody({ type, data }))).toMatchObject({ ok: true, events: [{ kind, recordId, known }] });
  });

  it('keeps __proto__ as data', () => {
    const parsed = parse(
      '{"__proto__":{"id":"inherited"},"id":"evt_1","type":"policy.updated","created":"2026-01-01T00:00:00Z","data":{"__proto__":{"policyId":"evil"},"id":"pol_1"}}',
    );
    expect(parsed).toMatchObject({ ok: true, events: [{ id: 'evt_1', recordId: 'pol_1' }] });
    expect(({} as Record<string, unknown>)['policyId']).toBeUndefined();
    expect(
      parse('{"__proto__":{"id":"evt_1"},"type":"a.b","created":"2026-01-01T00:00:00Z","data":{}}'),
    ).toMatchObject({
      reason: 'missing_id',
    });
  });

  it('may nest 64 deep, and not 65', () => {
    const deep = (levels: number) =>
      eventBody().replace('"Access control"', '['.repeat(levels - 2) + ']'.repeat(levels - 2));
    expect(parse(deep(64)).ok).toBe(true);
    expect(parse(deep(65))).toMatchObject({ code: 'invalid_event', reason: 'nested_too_deep' });
    expect(parse(deep(200_000))).toMatchObject({
      reason: 'nested_too_deep',
      unusable: { kind: 'policy', recordId: 'pol_1' },
    });
  });

  it('may hold many brackets side by side, and in its texts', () => {
    const name = '[{'.repeat(100);
    expect(parse(eventBody({ data: { name, list: Array.from({ length: 100 }, () => [{}]) } })).ok).toBe(true);
  });

  it.each(['x'.repeat(255), ' ', '../admin', '😀', '<b>'])('may have the id %j', (id) => {
    expect(parse(eventBody({ id }))).toMatchObject({ ok: true, events: [{ id }] });
  });
});

describe('a body that is no JSON object', () => {
  it.each([
    ['empty_body', ''],
    ['not_json', ' '],
    ['not_json', 'id=evt_1'],
    ['not_json', eventBody().slice(0, -1)],
    ['invalid_utf8', Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xff]), Buffer.from('"}')])],
    ['invalid_utf8', Buffer.from('7b2261223a22eda0bd227d', 'hex')],
    ['byte_order_mark', `\ufeff${eventBody()}`],
    ['not_events', `[${eventBody()},{}]`],
    ['not_events', `[${eventBody()},1]`],
    ['not_events', '[]'],
    ['not_events', '[[]]'],
    ['not_an_object', '"text"'],
    ['not_an_object', 'null'],
  ])('is invalid_json for the reason %s: %j', (reason, body) => {
    const bytes = Buffer.from(body);
    const parsed = parse(bytes);
    expect(parsed).toMatchObject({ ok: false, code: 'invalid_json', reason });
    expect(parsed).toMatchObject({ unusable: { reason, t: T, body: bytes, recordId: null } });
  });

  it.each([
    [eventBody().slice(0, -1), 'policy'],
    // It may hold more than it shows.
    [`[${eventBody({ type: 'vendor.removed' })}`, null],
    [`{"events":[${eventBody({ type: 'vendor.removed' })}`, null],
    [`{"type" : "risk.assessed"`, 'risk_assessment'],
    ['{"type":"other.thing"', null],
    ['{"type":"constructor.x"', null],
  ])('still tells its kind where it can: %s', (body, kind) => {
    expect(parse(body)).toMatchObject({ unusable: { kind } });
  });
});

describe('an object that is no event', () => {
  it.each([
    ['missing_id', { id: undefined }],
    ['invalid_id', { id: 7 }],
    ['invalid_id', { id: '' }],
    ['invalid_id', { id: 'x'.repeat(256) }],
    ['invalid_id', { id: 'a\u0000b' }],
    ['invalid_id', { id: 'a\u0085b' }],
    ['invalid_id', { id: '\ud800' }],
    ['missing_type', { type: undefined }],
    ['invalid_type', { type: '' }],
    ['invalid_type', { type: ['policy.updated'] }],
    ['missing_created', { created: undefined }],
    ['invalid_created', { created: '2026-02-30T00:00:00Z' }],
    ['invalid_created', { created: '2026-01-01T00:00:00' }],
    ['invalid_created', { created: 1767225600 }],
    ['missing_data', { data: undefined }],
    ['invalid_data', { data: [] }],
    ['invalid_data', { data: 'policyId' }],
  ])('is invalid_event for the reason %s: %j', (reason, fields) => {
    const body = Buffer.from(eventBody(fields));
    expect(parse(body)).toMatchObject({
      ok: false,
      code: 'invalid_event',
      reason,
      unusable: { reason, t: T, body },
    });
  });

  it('still tells its record, else its kind', () => {
    expect(parse(eventBody({ id: 7 }))).toMatchObject({ unusable: { kind: 'policy', recordId: 'pol_1' } });
    expect(parse(eventBody({ data: [] }))).toMatchObject({ unusable: { kind: 'policy', recordId: null } });
    expect(parse(eventBody({ type: 7 }))).toMatchObject({ unusable: { kind: null, recordId: null } });
  });
});

it('every body gets an answer, and every event of it has what the table needs', () => {
  const field = <Value>(good: fc.Arbitrary<Value>) =>
    fc.oneof({ weight: 3, arbitrary: good }, fc.jsonValue());
  const objects = fc.record({
    id: field(fc.string({ minLength: 1 })),
    type: field(fc.constantFrom('policy.updated', 'vendor.removed', 'x.y')),
    created: field(
      fc
        .date({ noInvalidDate: true, min: new Date(0), max: new Date(4e12) })
        .map((date) => date.toISOString()),
    ),
    data: field(fc.dictionary(fc.string(), fc.jsonValue())),
  });
  const bodies = fc.oneof(
    objects.map((value) => Buffer.from(JSON.stringify(value))),
    fc.uint8Array({ maxLength: 50 }).map((bytes) => Buffer.from(bytes)),
  );
  fc.assert(
    fc.property(bodies, (body) => {
      const parsed = parse(body);
      if (!parsed.ok) expect(parsed.unusable).toMatchObject({ t: T, body });
      else {
        expect(parsed.events.map((event) => Buffer.from(event.body))).toEqual([body]);
        expect(Number.isSafeInteger(parsed.events[0]!.createdMs)).toBe(true);
      }
    }),
  );
});

describe('bytes that were changed on their way', () => {
  /** What the platform itself makes of them; undefined: no JSON object. */
  function objectIn(body: Uint8Array): object | undefined {
    try {
      const root: unknown = JSON.parse(
        new TextDecoder('utf8', { fatal: true, ignoreBOM: true }).decode(body),
      );
      return typeof root === 'object' && root !== null ? [root].flat()[0] : undefined;
    } catch {
      return undefined;
    }
  }

  it('are read as the platform reads them, or not at all', () => {
    const good = Buffer.from(eventBody({ data: { policyId: 'é', list: [1, { a: null }] } }));
    const pieces = fc.oneof(
      fc
        .constantFrom('{', '}', '[', ']', '"', ',', ':', '\\', '\\ud800', '\u0000', '1e999', '\ufeff')
        .map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 3 }).map((bytes) => Buffer.from(bytes)),
    );
    const changes = fc.array(fc.tuple(fc.nat(good.length), fc.nat(3), pieces), { maxLength: 3 });
    fc.assert(
      fc.property(changes, (all) => {
        const body = all.reduce<Buffer>(
          (bytes, [at, cut, piece]) =>
            Buffer.concat([bytes.subarray(0, at), piece, bytes.subarray(at + cut)]),
          good,
        );
        const parsed = parse(body);
        const root = objectIn(body);
        expect(!parsed.ok && parsed.code === 'invalid_json').toBe(root === undefined);
        if (parsed.ok) {
          const { id, type, created } = parsed.events[0]!;
          expect(root).toMatchObject({ id, type, created });
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it.each([
    '[',
    '{"a":',
    '"type":"',
    '"type" : ',
    ' ',
    '\u00a0',
    '\\',
    '\\u0041',
    '1',
    '{"type":"policy.',
    '"type":"aaaaaaaa',
  ])('are judged as quickly as they can be read, be it a megabyte of %j', (piece) => {
    const body = Buffer.from(piece.repeat(Math.ceil(1_048_576 / piece.length)));
    expect(parse(body)).toMatchObject({ ok: false, code: 'invalid_json' });
  });
});

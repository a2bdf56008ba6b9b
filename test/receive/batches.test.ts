import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { contentHashOf } from '../../src/compliance/json.ts';
import { DEFAULT_ID_POINTERS as pointers } from '../../src/compliance/pointers.ts';
import { parseEnvelope } from '../../src/receive/envelope.ts';
import { openStore } from '../../src/store/open.ts';
import type { IncomingEvent } from '../../src/store/store.ts';

const created = '2026-11-20T12:00:00Z';
const P = { id: 'e1', type: 'policy.updated', created, data: { policyId: 'p1' } };
const V = { id: 'e2', type: 'vendor.updated', created, data: { vendorId: 'v1' } };
const R = { id: 'e3', type: 'risk.identified', created, data: { riskId: 'r1' } };
/** Without its data. */
const B = { id: 'b1', type: 'batch', created };
const text = JSON.stringify;

const parse = (body: string) => parseEnvelope(Buffer.from(body), { pointers, t: '1' });

describe('a batch', () => {
  it.each<[string, string, string[]]>([
    ['of several kinds, as an array', text([P, V, R]), ['p1', 'v1', 'r1']],
    ['of one, as an array', text([R]), ['r1']],
    ['in an object', text({ events: [R] }), ['r1']],
    [
      'under any name, beside what is no event',
      text({ id: 'b1', type: 'batch', n: 2, items: [P, R] }),
      ['p1', 'r1'],
    ],
    [
      'with a type of its own that names a kind',
      text({ type: 'policy.batch', events: [P, R] }),
      ['p1', 'r1'],
    ],
    [
      'as the data of an event of no kind',
      text({ id: 'b1', type: 'batch', created, data: [V, R] }),
      ['v1', 'r1'],
    ],
    ['with the same event twice', text([R, R]), ['r1', 'r1']],
  ])('%s is taken apart', (_, body, records) => {
    const parsed = parse(body);
    if (!parsed.ok) throw new Error(parsed.reason);
    expect(parsed.events.map(({ recordId }) => recordId)).toEqual(records);
    for (const event of parsed.events) expect(parse(event.body)).toEqual({ ok: true, events: [event] });
  });

  it.each<[string, string, string, string | null]>([
    ['an array with something else', text([P, { ...R, id: 7 }]), 'not_events', null],
    ['an array with a number', text([P, 1]), 'not_events', null],
    ['an array in an array that is empty', text([P, []]), 'not_events', null],
    [
      'an object with something else in its array',
      text({ events: [P, { ...R, data: 1 }] }),
      'mixed_batch',
      null,
    ],
    ['an array of batches', text([[P], [R]]), 'not_events', null],
    [
      'an array with an event of no kind that wraps others',
      text([P, { ...B, data: { R } }]),
      'not_events',
      null,
    ],
    ['an event of no kind that wraps others', text({ ...B, data: { events: [V, R] } }), 'mixed_batch', null],
    [
      'an event of a kind, and of no known type, that wraps others',
      text({ ...B, type: 'policy.batch', data: { items: [P, V, R] } }),
      'mixed_batch',
      null,
    ],
    [
      'an array with an event of a kind, and of no known type, that wraps others',
      text([P, { ...B, type: 'policy.batch', data: { R } }]),
      'not_events',
      null,
    ],
    [
      'an event of no kind with another as a text',
      text({ ...B, data: { raw: text(R) } }),
      'mixed_batch',
      null,
    ],
    ['a message with an event as a text', text({ MessageId: 'm1', Message: text(R) }), 'mixed_batch', null],
    ['one event a line', `${text(V)}\n${text(R)}\n`, 'not_json', null],
    ['one event after the other', `${text(V)}${text(R)}`, 'not_json', null],
    ['one event a message', `data: ${text(V)}\n\ndata: ${text(R)}\n\n`, 'not_json', null],
    ['an object with two arrays of events', text({ policies: [P], risks: [R] }), 'mixed_batch', null],
    [
      'an event with others in an array beside its data',
      text({ ...P, included: [V, R] }),
      'mixed_batch',
      null,
    ],
    ['the same within a batch', text([{ ...P, included: [V, R] }]), 'not_events', null],
    ['an object with an event beside its array', text({ events: [P], last: R }), 'mixed_batch', null],
    [
      'an event of no kind that wraps what is none',
      text({ ...B, data: [{ ...R, id: 7 }] }),
      'mixed_batch',
      null,
    ],
    [
      'an event of a kind that has no id, and wraps another',
      text({ ...P, id: undefined, data: { policyId: 'p1', was: R } }),
      'missing_id',
      null,
    ],
    ['an event of a kind that has no id', text({ ...P, id: undefined }), 'missing_id', 'policy'],
    ['an array that is cut off', text([V, R]).slice(0, -1), 'not_json', null],
  ])(
    'that cannot be taken apart is quarantined whole, and may be about any kind that it does not exclude: %s',
    (_, body, reason, kind) => {
      expect(parse(body)).toMatchObject({ ok: false, reason, unusable: { reason, kind } });
    },
  );

  it('is not what an event of a kind, and of no known type, has in its data', () => {
    const body = text({
      ...P,
      type: 'policy.archived',
      data: { policyId: 'p1', was: { type: 'high_risk' } },
    });
    expect(parse(body)).toMatchObject({ ok: true, events: [{ id: 'e1', body }] });
  });

  it('is not what an event of a known kind has in its data', () => {
    const body = text({ ...P, data: { policyId: 'p1', changes: [V, R], raw: text(R) } });
    expect(parse(body)).toMatchObject({ ok: true, events: [{ id: 'e1', body }] });
  });

  it('keeps every digit and every character of its events', () => {
    const odd = `{"id":"e","type":"vendor.updated","created":"${created}","data":{"vendorId":12345678901234567890,"__proto__":{"a":1},"name":"\\ud800"}}`;
    for (const body of [`[${odd}]`, `{"events":[${odd}]}`]) {
      const parsed = parse(body);
      if (!parsed.ok) throw new Error(parsed.reason);
      const [event] = parsed.events;
      expect(event).toMatchObject({ recordId: '12345678901234567890' });
      expect(event!.body.isWellFormed()).toBe(true);
      expect(contentHashOf(event!.body)).toBe(contentHashOf(odd));
    }
  });
});

const WRAPPED: ((bodies: readonly string[]) => string)[] = [
  (bodies) => `[${bodies.join(', ')}]`,
  (bodies) => `{"events":[${bodies.join(',')}],"count":${bodies.length}}`,
];

it('of any events has the same effect as a delivery of each', async () => {
  const anEvent = fc.record({
    id: fc.constantFrom('a', 'b', 'c', 'd'),
    type: fc.constantFrom('policy.updated', 'vendor.removed', 'risk.assessed', 'policy.odd', 'ledger.closed'),
    created: fc.constant(created),
    data: fc.record(
      { id: fc.constantFrom('x', 'y'), name: fc.constantFrom('One', 'Two') },
      { requiredKeys: [] },
    ),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(anEvent, { minLength: 2, maxLength: 8 }),
      fc.constantFrom(...WRAPPED),
      async (all, wrap) => {
        const bodies = all.map((one) => text(one));
        const eventsOf = (body: string): readonly IncomingEvent[] => {
          const parsed = parse(body);
          if (!parsed.ok) throw new Error(parsed.reason);
          return parsed.events;
        };
        const batch = eventsOf(wrap(bodies));
        const single = bodies.flatMap(eventsOf);
        expect(batch).toEqual(single);
        expect(await effectOf([batch])).toEqual(await effectOf(single.map((event) => [event])));
      },
    ),
    { numRuns: 30 },
  );
});

async function effectOf(deliveries: readonly (readonly IncomingEvent[])[]) {
  const store = await openStore(':memory:');
  const now = { wall: Date.parse(created), steady: 5_000 };
  const timing = { settleMs: 1_000 };
  const rules = { pointers, eventsOnly: true, toleranceMs: 300_000, timing, guardPercent: 20 };
  try {
    const outcomes = [];
    for (const events of deliveries)
      outcomes.push(...(await store.accept({ events, unusable: [] }, now, timing, pointers)));
    await store.processPending({ limit: 100, rules, retryDelaysMs: [] }, now);
    const { items } = await store.list('deliveries', { limit: 100 });
    const shown = await Promise.all(items.map(({ id }) => store.show('deliveries', id)));
    const records = await Promise.all(
      (['policy', 'risk_assessment', 'vendor'] as const).map((kind) =>
        store.list('records', { kind, limit: 9 }),
      ),
    );
    // A conflict takes a number of its own after those of its delivery.
    const statuses = outcomes.map(({ status, ...rest }) => ({
      status,
      conflicting: 'conflicting' in rest && rest.conflicting,
    }));
    return {
      statuses,
      shown: shown.map((each) => ({ ...each, number: 0 })),
      records: records.map((each) => each.items),
    };
  } finally {
    await store.close();
  }
}

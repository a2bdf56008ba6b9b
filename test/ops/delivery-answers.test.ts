import { afterEach, expect, test } from 'vitest';
import { answerTo, createAnswerTimes } from '../../src/ops/delivery-answers.ts';
import { type Harness, startReceiver } from '../receive/harness.ts';
import { eventBody, header, nowSeconds } from '../receive/sign.ts';

let receiver: Harness;
afterEach(() => receiver.close());

test('what a rejection is said to have been answered is what the receiver answers', async () => {
  let secrets = [Buffer.from('0123456789abcdef0123456789abcdef')];
  receiver = await startReceiver({ settings: { secrets: () => secrets, maxBodyBytes: 400 } });
  const body = eventBody();
  const now = nowSeconds();
  const signed = (t: number | string) => ({ 'x-webhook-signature': header(t, body) });
  const sent = [
    {},
    { 'x-webhook-signature': 'x'.repeat(2_000) },
    { 'x-webhook-signature': `t=${now}` },
    { 'x-webhook-signature': `t=${now}, v1=${'0'.repeat(64)}` },
    signed(now - 900),
    signed(now + 900),
    signed(now * 1000),
    { ...signed(now), 'content-encoding': 'br' },
  ];
  const answers: number[] = [];
  for (const headers of sent) answers.push((await receiver.post(body, headers)).status);
  answers.push((await receiver.post('x'.repeat(500), signed(now))).status);
  secrets = [];
  answers.push((await receiver.post(body, signed(now))).status);
  const told = receiver.rejected.map(({ reason }) => answerTo({ outcome: 'rejected', reason }));
  expect(told.map(({ status }) => status)).toEqual(answers);
  expect(told.map(({ signature }) => signature)).toEqual([
    ...['missing', 'invalid', 'invalid', 'invalid', 'valid', 'valid', 'valid'],
    ...['not_checked', 'not_checked', 'not_checked'],
  ]);
});

test('what else came in is said to have been answered as the receiver answers', async () => {
  receiver = await startReceiver();
  const post = async (body: string) =>
    (await receiver.post(body, { 'x-webhook-signature': header(nowSeconds(), body) })).status;
  const accepted = await post(eventBody());
  const quarantined = await post('no JSON');
  receiver.answer = () => ({ status: 'duplicate', conflicting: true });
  const duplicate = await post(eventBody());
  const told = (outcome: 'accepted' | 'duplicate' | 'quarantined', reason: string | null = null) =>
    answerTo({ outcome, reason });
  expect(told('accepted')).toEqual({ status: accepted, signature: 'valid' });
  expect(told('duplicate')).toEqual({ status: duplicate, signature: 'valid' });
  expect(told('quarantined', 'not_json')).toEqual({ status: quarantined, signature: 'valid' });
  expect(told('quarantined', 'conflicting_content')).toEqual({
    status: duplicate,
    signature: 'valid',
  });
});

const at = (wall: number) => new Date(wall).toISOString();
const answered = { eventId: null, address: '10.0.0.1', endedWall: 2_000, milliseconds: 40.06 };
const row = { event_id: null, address: '10.0.0.1' } as const;

test('an accepted delivery is known by its event', () => {
  const times = createAnswerTimes();
  times.note({ ...answered, outcome: 'accepted', eventId: 'evt_1' });
  times.note({ ...answered, outcome: 'duplicate', eventId: 'evt_1', milliseconds: 1 });
  const delivery = { ...row, outcome: 'accepted', event_id: 'evt_1', received_at: at(0) } as const;
  expect(times.of(delivery)).toBe(40.1);
  expect(times.of({ ...delivery, event_id: 'evt_2' })).toBeNull();
});

test('any other is known by the instant at which it was noted, while it was being answered', () => {
  const times = createAnswerTimes();
  times.note({ ...answered, outcome: 'rejected' });
  times.note({ ...answered, outcome: 'rejected', endedWall: 3_000, milliseconds: 2 });
  const found = (wall: number, over = {}) =>
    times.of({ ...row, outcome: 'rejected', received_at: at(wall), ...over });
  expect([1_958, 1_959, 2_000, 2_001, 2_999].map((wall) => found(wall))).toEqual([null, 40.1, 40.1, null, 2]);
  expect(found(2_000, { address: '10.0.0.2' })).toBeNull();
  expect(found(2_000, { outcome: 'quarantined' })).toBeNull();
});

test('remembers the newest, whatever comes', () => {
  const times = createAnswerTimes();
  for (let n = 0; n < 30_000; n += 1) {
    times.note({ ...answered, outcome: 'accepted', eventId: `evt_${n}` });
    times.note({ ...answered, outcome: 'rejected', endedWall: n * 100, milliseconds: 1 });
  }
  const known = (n: number) => [
    times.of({ ...row, outcome: 'accepted', event_id: `evt_${n}`, received_at: at(0) }),
    times.of({ ...row, outcome: 'rejected', received_at: at(n * 100) }),
  ];
  expect([known(29_999), known(20_000), known(9_999)]).toEqual([
    [40.1, 1],
    [40.1, null],
    [null, null],
  ]);
});

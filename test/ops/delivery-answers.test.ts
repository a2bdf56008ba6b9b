import { afterEach, expect, test } from 'vitest';
import { answerTo } from '../../src/ops/delivery-answers.ts';
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
  const told = (outcome: 'accepted' | 'quarantined', reason: string | null = null) =>
    answerTo({ outcome, reason });
  expect(told('accepted')).toEqual({ status: accepted, signature: 'valid' });
  expect(told('quarantined', 'not_json')).toEqual({ status: quarantined, signature: 'valid' });
  expect(told('quarantined', 'conflicting_content')).toEqual({
    status: duplicate,
    signature: 'valid',
  });
});

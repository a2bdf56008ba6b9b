import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { messageIn } from '../../src/compliance/errors.ts';
import { registrationIn, textsIn } from '../../src/compliance/registration.ts';

const S = 'whsec_0123456789abcdef';

describe('the answer to a registration', () => {
  test.each<[string, unknown, string | null, string | null]>([
    ['bare', { id: 'w1', secret: S }, 'w1', S],
    ['in data', { data: { id: 'w1', signingSecret: S } }, 'w1', S],
    ['in a list of one', { data: [{ id: 'w1', signing_secret: S }] }, 'w1', S],
    ['nested by name', { data: { webhook: { webhookId: 'w1', webhookSecret: S } } }, 'w1', S],
    ['the secret nested deeper than the id', { data: { id: 'w1', signing: { id: 'k9', key: S } } }, 'w1', S],
    ['beside data', { data: { webhook_id: 'w1' }, signingKey: S }, 'w1', S],
    ['the id of a request beside it', { id: 'req_1', data: { hook: { id: 'w1', secret: S } } }, 'w1', S],
    ['the id under another usual name', { result: { hookId: 17, signingKey: S } }, '17', S],
    ['the id a number', { data: { id: 7, secret: S } }, '7', S],
    ['no id', { secret: S }, null, S],
    ['an id that is none', { id: 1.5, secret: S }, null, S],
    ['the same twice', { data: { id: 'w1', secret: S, signingSecret: S } }, 'w1', S],
    ['two that differ', { data: { id: 'w1', secret: S, key: 'idempotency-key-1' } }, 'w1', null],
    ['masked', { data: { id: 'w1', secret: 'whsec_****cdef', token: S } }, 'w1', null],
    ['masked in one place, whole in another', { id: 'w1', secret: '••••', signingKey: S }, 'w1', S],
    ['empty in one place, whole in another', { id: 'w1', secret: '', signingKey: S }, 'w1', S],
    ['an unusual name', { data: { id: 'w1', hook: { token: S } } }, 'w1', null],
    ['too deep', { data: { id: 'w1', a: { b: { secret: S } } } }, 'w1', null],
    ['a secret that is no text', { id: 'w1', secret: { value: 5 } }, 'w1', null],
    [
      'several registrations',
      {
        data: [
          { id: 'a', secret: S },
          { id: 'b', secret: `${S}0` },
        ],
      },
      null,
      null,
    ],
    ['a text', S, null, null],
    ['nothing', null, null, null],
  ])('%s', (_, body, id, secret) => {
    const text = JSON.stringify(body);
    expect(registrationIn(text)).toMatchObject({ text, id, secret });
    expect(registrationIn(`\ufeff${text}`)).toMatchObject({ id, secret });
  });

  test('its address and events are those that stand with its id', () => {
    const body = { data: { hook: { id: 'w1', secret: S, url: 'https://a.example/', events: ['policy.*'] } } };
    expect(registrationIn(JSON.stringify(body))).toMatchObject({
      url: 'https://a.example/',
      events: ['policy.*'],
    });
    expect(registrationIn('{"url":5,"events":["policy.*",1]}')).toMatchObject({ url: null, events: null });
  });

  test('whatever it is, it is read without a fault and kept whole', () => {
    const data = fc.jsonValue().map((value) => JSON.stringify({ data: value }));
    fc.assert(
      fc.property(fc.oneof(fc.json(), fc.string(), data), (text) => {
        expect(registrationIn(text).text).toBe(text);
        textsIn(text);
      }),
    );
  });

  test('wherever a secret of a usual name stands alone within reach, it is found', () => {
    const name = fc.constantFrom(
      'secret',
      'signingSecret',
      'signing_secret',
      'webhookSecret',
      'signingKey',
      'key',
    );
    const wrap = fc.constantFrom<(inner: object) => object>(
      (inner) => inner,
      (data) => ({ data }),
      (hook) => ({ hook }),
      (hook) => ({ data: { hook } }),
      (hook) => ({ data: [hook] }),
    );
    const secret = fc.stringMatching(/^[A-Za-z0-9+/_=-]{16,80}$/);
    fc.assert(
      fc.property(name, wrap, secret, (field, around, value) => {
        const text = JSON.stringify(around({ [field]: value, name: 'x' }));
        expect(registrationIn(text).secret).toBe(value);
        expect([...textsIn(text).values()]).toContain(value);
      }),
    );
  });

  test.each<[string, [string, string][]]>([
    [JSON.stringify({ data: { hook: [{ token: S }], n: 1, none: '' } }), [['data.hook.0.token', S]]],
    [`${S}\n`, [['.', S]]],
    [' \n', []],
    // Deeper than anybody would look.
    [`[${'['.repeat(100_000)}"${S}"${']'.repeat(100_000)},"${S}"]`, [['1', S]]],
  ])('its texts are known by their dotted places, which count lists from 0: %.60s', (answer, texts) => {
    expect([...textsIn(answer)]).toEqual(texts);
  });
});

describe('the message of an error', () => {
  const asked = JSON.stringify({ events: ['risk_assessments_all.*'] });
  test.each<[string, unknown, string | null]>([
    ['of a problem', { title: 'Bad', detail: 'url must be public', code: 'x' }, 'url must be public'],
    ['in a list', { errors: [{ field: 'events', message: 'unknown' }] }, 'unknown'],
    ['in an error object', { error: { message: 'no such event' } }, 'no such event'],
    ['beside a number of its own', { errcode: 4001, errmsg: 'the plan has none' }, 'the plan has none'],
    ['of a gateway', { fault: { faultstring: 'quota violation' } }, 'quota violation'],
    ['of OAuth', { error: 'invalid_client', error_description: 'no such client' }, 'no such client'],
    [
      'with what we asked for',
      { message: 'no risk_assessments_all.* here' },
      'no risk_assessments_all.* here',
    ],
    ['with what may be a secret', { message: `${S} and 0123456789abcdef` }, '[hidden] and [hidden]'],
    ['beside a secret', { message: 'exists', existing: { id: 'w1', secret: S } }, 'exists'],
    ['that is none', { secret: S }, null],
    ['that is empty', { message: ' ' }, null],
    ['that is all', 'no such event', 'no such event'],
  ])('%s', (_, body, message) => {
    expect(messageIn(JSON.stringify(body), asked)).toBe(message);
  });

  test('is the text where that is not JSON, and never a page or a part of JSON', () => {
    expect(messageIn(`Not\n  allowed [yet]:\n  ${S}\n`)).toBe('Not allowed [yet]: [hidden]');
    expect(messageIn('no '.repeat(1000))).toHaveLength(200);
    for (const answer of ['<html>no</html>', '{"message":"cut', '']) expect(messageIn(answer)).toBeNull();
  });
});

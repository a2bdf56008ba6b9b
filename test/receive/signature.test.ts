import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  readSignature,
  type SignedDelivery,
  signatureOf,
  type VerificationSettings,
  verifySignature,
} from '../../src/receive/signature.ts';
import { mac, SECRET } from './sign.ts';

const NOW = 1_767_225_600;
const BODY =
  '{"id":"evt_1","type":"policy.updated","created":"2026-01-01T00:00:00Z","data":{"policyId":"pol_1"}}';
/** `printf '%s' "1767225600.$BODY" | openssl dgst -sha256 -hmac $SECRET` */
const GOOD = '55aea580cd4c731f3ce523386d5f49af0470efea8fd91f626e7f93bb6619fdc5';
const WRONG = 'a'.repeat(64);

const SETTINGS: VerificationSettings = {
  template: [{ kind: 'timestamp' }, { kind: 'text', text: '.' }, { kind: 'body' }],
  algorithm: 'sha256',
  toleranceSeconds: 300,
};

function verify(
  headerValue: string | undefined,
  body: string | Uint8Array = BODY,
  more: Partial<SignedDelivery> = {},
  changed: Partial<VerificationSettings> = {},
) {
  const delivery = {
    body: Buffer.from(body),
    secrets: [Buffer.from(SECRET)],
    nowSeconds: NOW,
    ...more,
  };
  const settings = { ...SETTINGS, ...changed };
  const claimed = readSignature(headerValue, settings);
  return claimed.ok ? verifySignature(claimed, delivery, settings) : claimed;
}

const signedAt = (t: string | number) => `t=${t}, v1=${mac(t, BODY)}`;

describe('a signature header is accepted', () => {
  const cases: [what: string, header: string][] = [
    ['in the form of the specification', `t=${NOW}, v1=${GOOD}`],
    ['without a blank after the comma', `t=${NOW},v1=${GOOD}`],
    ['with blanks and tabs after the comma', `t=${NOW},\t  \tv1=${GOOD}`],
    ['with v1 before t', `v1=${GOOD}, t=${NOW}`],
    ['with several v1, the last one right', `t=${NOW}, v1=${WRONG}, v1=${GOOD}`],
    ['with several v1, the first one right', `t=${NOW}, v1=${GOOD}, v1=${WRONG}`],
    ['with eight v1', `t=${NOW}${`, v1=${WRONG}`.repeat(7)}, v1=${GOOD}`],
    ['with unknown keys beside a right v1', `t=${NOW}, v0=${WRONG}, kid=a/b+c==, v1=${GOOD}, v2=x, n=`],
    ['in upper-case hex', `t=${NOW}, v1=${GOOD.toUpperCase()}`],
    ['sent twice with the same t', `t=${NOW}, v1=${WRONG}, t=${NOW}, v1=${GOOD}`],
    ['at an age of 299 s', signedAt(NOW - 299)],
    ['at an age of 300 s', signedAt(NOW - 300)],
    ['299 s in the future', signedAt(NOW + 299)],
  ];
  it.each(cases)('%s', (_what, header) => {
    expect(verify(header)).toMatchObject({ ok: true, secretPosition: 0 });
  });

  it('over bytes that are no text, as openssl signs them', () => {
    const bytes = Buffer.from('00fffe0d0af09f9880', 'hex');
    const signature = '774f6f20e2e212fe086e1794cc0b7a641b96df38dba9c1d323c15ff5b97f72cd';
    expect(verify(`t=${NOW}, v1=${signature}`, bytes)).toEqual({ ok: true, t: `${NOW}`, secretPosition: 0 });
  });

  it.each([
    ['CRLF', '{"a":\r\n1}'],
    ['NUL', '{"a":"\u0000"}'],
    ['emoji', '{"a":"😀"}'],
    ['nothing', ''],
  ])('over a body with %s in it', (_what, body) => {
    expect(verify(`t=${NOW}, v1=${mac(NOW, body)}`, body)).toMatchObject({ ok: true });
  });
});

describe('a signature header is refused', () => {
  const cases: [what: string, header: string | undefined, reason: string, t?: string | null][] = [
    ['that is not there', undefined, 'missing_header', null],
    ['that is empty', '', 'missing_header', null],
    ['without t', `v1=${GOOD}`, 'no_timestamp', null],
    ['without v1', `t=${NOW}`, 'no_signature'],
    ['with an empty v1', `t=${NOW}, v1=`, 'malformed_signature'],
    ['with an empty v1 beside a right one', `t=${NOW}, v1=, v1=${GOOD}`, 'malformed_signature'],
    ['with T for t', `T=${NOW}, v1=${GOOD}`, 'no_timestamp', null],
    ['with V1 for v1', `t=${NOW}, V1=${GOOD}`, 'no_signature'],
    ['with a right v0 alone', `t=${NOW}, v0=${GOOD}`, 'no_signature'],
    ['with a right v2 alone', `t=${NOW}, v2=${GOOD}`, 'no_signature'],
    ['with a right v0 beside a wrong v1', `t=${NOW}, v0=${GOOD}, v1=${WRONG}`, 'bad_signature'],
    ...[
      'abc',
      `+${NOW}`,
      `-${NOW}`,
      `${NOW}.0`,
      '1.767e9',
      '0x69558f00',
      `0${NOW}`,
      '176722560000',
      `"${NOW}"`,
      '',
    ].map((t): [string, string, string, string] => [`with t=${t}`, signedAt(t), 'bad_timestamp', t]),
    ['with two different t', `t=${NOW}, t=${NOW + 1}, v1=${GOOD}`, 'conflicting_timestamps'],
    [
      'sent twice with different t',
      `t=${NOW}, v1=${GOOD}, t=${NOW - 1}, v1=${GOOD}`,
      'conflicting_timestamps',
    ],
    ['with 63 hex digits', `t=${NOW}, v1=${GOOD.slice(0, -1)}`, 'malformed_signature'],
    ['with 65 hex digits', `t=${NOW}, v1=${GOOD}0`, 'malformed_signature'],
    ['with a letter that is not hex', `t=${NOW}, v1=${GOOD.slice(0, -1)}g`, 'malformed_signature'],
    ['with junk behind the hex', `t=${NOW}, v1=${GOOD};`, 'malformed_signature'],
    ['with a blank behind the hex', `t=${NOW}, v1=${GOOD} x`, 'malformed_header'],
    ['with v1=good=x', `t=${NOW}, v1=${GOOD}=x`, 'malformed_signature'],
    ['with a trailing comma', `t=${NOW}, v1=${GOOD},`, 'malformed_header'],
    ['with a leading comma', `,t=${NOW}, v1=${GOOD}`, 'malformed_header', null],
    ['with two commas', `t=${NOW},, v1=${GOOD}`, 'malformed_header'],
    ['with a bare junk element', `t=${NOW}, junk, v1=${GOOD}`, 'malformed_header'],
    ['with a blank before a comma', `t=${NOW} , v1=${GOOD}`, 'malformed_header', null],
    ['with a line break after a comma', `t=${NOW},\n v1=${GOOD}`, 'malformed_header'],
    ['with semicolons', `t=${NOW}; v1=${GOOD}`, 'malformed_header', null],
    ['with nine v1', `t=${NOW}${`, v1=${GOOD}`.repeat(9)}`, 'too_many_signatures'],
    ['over 1 KiB', `t=${NOW}, v1=${GOOD}, x=${'y'.repeat(1024)}`, 'header_too_long', null],
    ['with a wrong v1', `t=${NOW}, v1=${WRONG}`, 'bad_signature'],
    ['in milliseconds with a wrong v1', `t=${NOW}000, v1=${WRONG}`, 'bad_timestamp', `${NOW}000`],
  ];
  it.each(cases)('%s', (_what, header, reason, t = `${NOW}`) => {
    expect(verify(header)).toEqual({ ok: false, reason, t, macValid: false });
  });

  const signed: [what: string, t: number | string, reason: string][] = [
    ['at an age of 301 s', NOW - 301, 'timestamp_too_old'],
    ['301 s in the future', NOW + 301, 'timestamp_too_new'],
    ['in milliseconds', `${NOW}000`, 'timestamp_milliseconds'],
    ['of the year 1970', 0, 'timestamp_too_old'],
  ];
  it.each(signed)('%s, and known to be signed correctly', (_what, t, reason) => {
    expect(verify(signedAt(t))).toEqual({ ok: false, reason, t: `${t}`, macValid: true });
  });

  it('without a word about its age when the signature is wrong', () => {
    expect(verify(`t=${NOW - 9999}, v1=${GOOD}`)).toMatchObject({ reason: 'bad_signature', macValid: false });
  });

  it.each([
    ['changed in one byte', BODY.replace('pol_1', 'pol_2')],
    ['spaced anew', JSON.stringify(JSON.parse(BODY), null, 1)],
    ['given a BOM', `\ufeff${BODY}`],
    ['cut', BODY.slice(0, -1)],
  ])('when the body was %s in transit', (_what, body) => {
    expect(verify(`t=${NOW}, v1=${GOOD}`, body)).toMatchObject({ reason: 'bad_signature' });
  });

  it('when its secret is retired', () => {
    const secrets = [Buffer.from('another secret of ours')];
    expect(verify(`t=${NOW}, v1=${GOOD}`, BODY, { secrets })).toMatchObject({ reason: 'bad_signature' });
    expect(verify(`t=${NOW}, v1=${GOOD}`, BODY, { secrets: [] })).toMatchObject({ reason: 'bad_signature' });
  });
});

describe('settings', () => {
  it('let any of several secrets sign, and say which did', () => {
    const secrets = ['first secret of three', SECRET, 'third secret of three'].map((each) =>
      Buffer.from(each),
    );
    expect(verify(`t=${NOW}, v1=${GOOD}`, BODY, { secrets })).toMatchObject({ ok: true, secretPosition: 1 });
    const third = `t=${NOW}, v1=${mac(NOW, BODY, 'third secret of three')}`;
    expect(verify(third, BODY, { secrets })).toMatchObject({ ok: true, secretPosition: 2 });
  });

  // All made with `openssl dgst`.
  it.each([
    [
      'sha384',
      '4f9750d9482fea6e64f67916e5bb2f41ae5576ed29209565a5921915e7ba1bd500e3009a77715483b77542bebcd1d8c8',
    ],
    [
      'sha512',
      '5df6e83870f76ff08d7c9bc7b89da8e39f1441222b90b7bcfad3f7ff3f5ab4d2cc9725c78052a202b270cfb2749b18746136b5203321609b68458fbd8ddc3c27',
    ],
  ] as const)('take %s as openssl makes it, and then refuse the length of sha256', (algorithm, hex) => {
    expect(verify(`t=${NOW}, v1=${hex}`, BODY, {}, { algorithm })).toMatchObject({ ok: true });
    expect(verify(`t=${NOW}, v1=${GOOD}`, BODY, {}, { algorithm })).toMatchObject({
      reason: 'malformed_signature',
    });
  });

  it('take a secret of bytes as openssl does', () => {
    const secrets = [Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex')];
    const hex = 'a0fc88e464dcb3fba5032ebb193d6bd23c14bec9394bea151c9eb4cb67770e46';
    expect(verify(`t=${NOW}, v1=${hex}`, BODY, { secrets })).toMatchObject({ ok: true });
  });

  it('bound the age both ways by the tolerance', () => {
    expect(verify(signedAt(NOW - 11), BODY, {}, { toleranceSeconds: 10 })).toMatchObject({ ok: false });
    expect(verify(signedAt(NOW - 9), BODY, {}, { toleranceSeconds: 10 })).toMatchObject({ ok: true });
  });
});

describe('whatever the body', () => {
  const bodies = fc.uint8Array({ minLength: 1, maxLength: 300 });

  it('the right signature verifies it', () => {
    fc.assert(
      fc.property(bodies, fc.uint8Array({ minLength: 16, maxLength: 200 }), (body, secret) => {
        const verdict = verify(`t=${NOW}, v1=${mac(NOW, body, secret)}`, body, { secrets: [secret] });
        expect(verdict.ok).toBe(true);
      }),
    );
  });

  it('a change of one byte is refused', () => {
    fc.assert(
      fc.property(bodies, fc.nat(), fc.integer({ min: 1, max: 255 }), (body, at, difference) => {
        const changed = Uint8Array.from(body);
        changed[at % body.length]! ^= difference;
        expect(verify(`t=${NOW}, v1=${mac(NOW, body)}`, changed)).toMatchObject({ reason: 'bad_signature' });
      }),
    );
  });

  it('any header gets a verdict and only a right one is accepted', () => {
    const piece = fc.constantFrom(
      't=',
      `${NOW}`,
      'v1=',
      GOOD,
      ',',
      ', ',
      ' ',
      '=',
      'v0=',
      WRONG,
      '"',
      '\t',
      'x',
    );
    const oneRight = new RegExp(`^[^"]*\\bt=${NOW}[^"]*$`);
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const header = pieces.join('');
        const verdict = verify(header);
        if (verdict.ok) {
          expect(header).toMatch(oneRight);
          expect(header).toContain(`v1=${GOOD}`);
        } else expect(verdict.reason).toMatch(/^[a-z_]+$/);
      }),
    );
  });
});

describe('a MAC', () => {
  it.each(['sha256', 'sha384', 'sha512'] as const)(
    'of %s is none under a key that anyone could have',
    (algorithm) => {
      for (let bytes = 0; bytes < 16; bytes++) {
        const secret = new Uint8Array(bytes).fill(7);
        const delivery = { body: Buffer.from('{}') };
        expect(() => signatureOf(secret, '', delivery, { ...SETTINGS, algorithm })).toThrow(`${bytes} bytes`);
      }
    },
  );
});

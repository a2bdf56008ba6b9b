import { spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { allAtOnce, diagnose as diagnosing } from '../../src/doctor/diagnosis.ts';
import { bodyForms } from '../../src/doctor/diagnosis-bodies.ts';
import type { DiagnosisSettings, Specimen } from '../../src/doctor/diagnosis-causes.ts';
import type { CandidateSecret } from '../../src/doctor/diagnosis-search.ts';
import { SPECIMENS } from './specimens.ts';

const diagnose = (...given: Parameters<typeof diagnosing>) => allAtOnce(diagnosing(...given));

const FOLDER = fileURLToPath(new URL('../fixtures/doctor/', import.meta.url));
const ARRIVED_SECONDS = Date.parse('2026-11-02T12:00:00Z') / 1000;

const EXPECTED: CandidateSecret = {
  text: 'correct-horse-battery-staple',
  isInUse: true,
  name: 'the 1st',
};
const RETIRED: CandidateSecret = {
  text: 'the-secret-of-last-year-0123',
  isInUse: false,
  name: '--retired',
};
const BASE64: CandidateSecret = {
  text: 'jx0sO0pZaHeGlaSzwtHg/wARIjNEVWZ3iJmqu8zd7v8=',
  isInUse: true,
  name: 'the 2nd',
};
const SECRETS = [EXPECTED, BASE64, RETIRED];

const SETTINGS: DiagnosisSettings = {
  template: [{ kind: 'timestamp' }, { kind: 'text', text: '.' }, { kind: 'body' }],
  algorithm: 'sha256',
  header: 'x-webhook-signature',
  toleranceSeconds: 300,
  secretEncoding: 'utf8',
};

function specimen(name: string, changes: Partial<Specimen> = {}): Specimen {
  const header = `${FOLDER}${name}.header`;
  return {
    headerValue: existsSync(header) ? readFileSync(header, 'utf8') : undefined,
    headers: new Map(),
    body: readFileSync(`${FOLDER}${name}.body`),
    receivedSeconds: ARRIVED_SECONDS,
    ...changes,
  };
}

const codesOf = (one: Specimen, settings: Partial<DiagnosisSettings> = {}, secrets = SECRETS) =>
  diagnose(one, secrets, { ...SETTINGS, ...settings }).causes.map(({ code }) => code);

describe('the cause that doctor names, on deliveries signed by openssl', () => {
  it.each(SPECIMENS)('%s: %j', (name, codes) => {
    const diagnosis = diagnose(specimen(name), SECRETS, SETTINGS);
    expect(diagnosis.causes.map(({ code }) => code)).toEqual(codes);
    expect(diagnosis.healthy).toBe(codes.length === 0);
    for (const { what, remedy } of diagnosis.causes) {
      expect(what).not.toBe('');
      expect(remedy).not.toBe('');
    }
  });

  it('never repeats a secret', () => {
    const names = ['healthy', 'wrong-secret', 'retired-secret', 'base64-secret', 'comma-separator'];
    for (const name of names) {
      const text = JSON.stringify(diagnose(specimen(name), SECRETS, SETTINGS));
      for (const secret of SECRETS) expect(text).not.toContain(secret.text);
    }
  });
});

it('prints a body anew with the digits of its numbers, and its keys where they were or sorted', () => {
  const body = '{"type":"é/<","10":[1.0,12345678901234567890],"2":{"b":"=\\\\","a":[]},"id":-0}';
  const forms = allAtOnce(bodyForms(Buffer.from(body))).map(({ bytes }) => Buffer.from(bytes).toString());
  for (const form of [
    '{"type": "é/<", "10": [1.0, 12345678901234567890], "2": {"b": "=\\\\", "a": []}, "id": -0}',
    '{"10":[1.0,12345678901234567890],"2":{"a":[],"b":"=\\\\"},"id":-0,"type":"\\u00e9\\/<"}',
    '{"id":-0,"type":"é/\\u003c","10":[1.0,12345678901234567890],"2":{"b":"=\\\\","a":[]}}',
    '{\n\t"id": -0,\n\t"type": "é/<",\n\t"10": [\n\t\t1.0,\n\t\t12345678901234567890\n\t],\n\t"2": {\n\t\t"b": "=\\\\",\n\t\t"a": []\n\t}\n}',
  ]) {
    expect(forms).toContain(form);
  }
});

describe('the setting that doctor proposes', () => {
  const remedies = (name: string) =>
    diagnose(specimen(name), SECRETS, SETTINGS)
      .causes.map(({ remedy }) => remedy)
      .join(' ');

  it('is the right one, and with it the delivery is healthy', () => {
    expect(remedies('comma-separator')).toContain('WEBHOOK_SIGNED_CONTENT to "{t},{body}"');
    expect(
      codesOf(specimen('comma-separator'), {
        template: [{ kind: 'timestamp' }, { kind: 'text', text: ',' }, { kind: 'body' }],
      }),
    ).toEqual([]);
    expect(remedies('base64-secret')).toContain('WEBHOOK_SECRET_ENCODING=base64');
    expect(codesOf(specimen('base64-secret'), { secretEncoding: 'base64' })).toEqual([]);
    const prefixed = [{ ...BASE64, text: `whsec_${BASE64.text}` }];
    const [cause] = diagnose(specimen('base64-secret'), prefixed, SETTINGS).causes;
    expect(cause?.settings).toEqual({ WEBHOOK_SECRET_ENCODING: 'whsec_base64' });
    expect(codesOf(specimen('base64-secret'), { secretEncoding: 'whsec_base64' }, prefixed)).toEqual([]);
  });

  it('names the header that the signature is really in', () => {
    const headerValue = specimen('healthy').headerValue!;
    const renamed = specimen('healthy', {
      headerValue: undefined,
      headers: new Map([['x-hook-sig', headerValue]]),
    });
    const [cause] = diagnose(renamed, SECRETS, SETTINGS).causes;
    expect(cause?.code).toBe('header_named_otherwise');
    expect(cause?.remedy).toContain('WEBHOOK_SIGNATURE_HEADER=x-hook-sig');
  });
});

describe('what a sender has made of hash and secret', () => {
  const signed = (hash: string, key: string | Buffer) => {
    const { body } = specimen('healthy');
    const mac = createHmac(hash, key).update(`${ARRIVED_SECONDS}.`).update(body).digest('hex');
    return specimen('healthy', { headerValue: `t=${ARRIVED_SECONDS}, v1=${mac}` });
  };
  const { text } = EXPECTED;
  it.each([
    [
      'another hash',
      signed('sha512', text),
      [EXPECTED],
      'hash_differs',
      { WEBHOOK_SIGNATURE_ALGORITHM: 'sha512' },
    ],
    ['SHA-1', signed('sha1', text), [EXPECTED], 'hash_differs', undefined],
    [
      'too few bytes',
      signed('sha256', Buffer.from('AAECAwQFBgcICQ==', 'base64')),
      [{ ...EXPECTED, text: 'AAECAwQFBgcICQ==' }],
      ...(['secret_too_short', undefined] as const),
    ],
    [
      'a secret without the blanks that are around it here',
      signed('sha256', text),
      [{ ...EXPECTED, text: ` ${text} ` }],
      ...(['secret_encoding_differs', undefined] as const),
    ],
    [
      'a secret read as text where it is hex here',
      signed('sha256', '00112233445566778899aabbccddeeff'),
      [{ ...EXPECTED, text: '00112233445566778899aabbccddeeff' }],
      ...(['secret_encoding_differs', { WEBHOOK_SECRET_ENCODING: 'utf8' }] as const),
      'hex' as const,
    ],
  ])(
    '%s',
    (_, one, secrets, code, proposed, secretEncoding: DiagnosisSettings['secretEncoding'] = 'utf8') => {
      const { causes } = diagnose(one, secrets, { ...SETTINGS, secretEncoding });
      expect(causes.map((cause) => [cause.code, cause.settings])).toEqual([[code, proposed]]);
    },
  );
});

describe('several things wrong at once', () => {
  it('are all named', () => {
    const late = specimen('comma-separator', { receivedSeconds: ARRIVED_SECONDS + 86_400 });
    expect(codesOf(late)).toEqual(['signed_content_differs', 'clock_behind']);
    expect(codesOf(specimen('body-only'), {}, [{ ...EXPECTED, isInUse: false }])).toEqual([
      'secret_not_in_use',
      'timestamp_not_signed',
    ]);
  });

  it('do not make an unsigned time an accusation', () => {
    const late = specimen('wrong-secret', { receivedSeconds: ARRIVED_SECONDS + 86_400 });
    expect(codesOf(late)).toEqual(['wrong_secret']);
  });
});

describe('forms of the header', () => {
  const right = specimen('healthy').headerValue!;
  const mac = right.slice(right.indexOf('v1=') + 3);
  const withHeader = (headerValue: string) => specimen('healthy', { headerValue });
  it.each([
    ['a right v0 beside a wrong v1', `t=${ARRIVED_SECONDS}, v1=${'0'.repeat(64)}, v0=${mac}`, 'no_v1'],
    ['V1 in capitals', `t=${ARRIVED_SECONDS}, V1=${mac}`, 'no_v1'],
    [
      'base64 instead of hex',
      `t=${ARRIVED_SECONDS}, v1=${Buffer.from(mac, 'hex').toString('base64')}`,
      'signature_not_hex',
    ],
    ['semicolons', `t=${ARRIVED_SECONDS}; v1=${mac}`, 'header_malformed'],
    ['a trailing comma', `${right},`, 'header_malformed'],
    ['two times', `t=1, ${right}`, 'header_malformed'],
    ['a signature as long as another hash’s', `t=${ARRIVED_SECONDS}, v1=${'0'.repeat(96)}`, 'hash_differs'],
    ['a signature as long as no hash’s', `t=${ARRIVED_SECONDS}, v1=${'0'.repeat(66)}`, 'header_malformed'],
    ['one that is no hex beside a right one', `${right}, v1=${'z'.repeat(64)}`, 'header_malformed'],
    ['signatures of two lengths', `${right}, v1=${'0'.repeat(96)}`, 'header_malformed'],
    ['no time', `v1=${mac}`, 'no_timestamp'],
    ['a time in capitals', `T=${ARRIVED_SECONDS}, v1=${mac}`, 'no_timestamp'],
    ['an empty header', '', 'header_missing'],
  ])('%s', (_, header, code) => {
    expect(codesOf(withHeader(header))).toEqual([code]);
  });

  it('a signature without any time is over the body alone, and not over a time that is empty', () => {
    const bodyOnly = specimen('body-only');
    const mac = bodyOnly.headerValue!.slice(bodyOnly.headerValue!.indexOf('v1=') + 3);
    expect(codesOf({ ...bodyOnly, headerValue: `sha256=${mac}` })).toEqual(['no_v1', 'timestamp_not_signed']);
  });

  it('a time that is no number of seconds', () => {
    expect(codesOf(withHeader(`t=0${ARRIVED_SECONDS}, v1=${mac}`))).toContain('timestamp_unreadable');
  });
});

describe('what it cannot know', () => {
  it('says that no secret is there, and nothing else', () => {
    expect(codesOf(specimen('healthy'), {}, [])).toEqual(['no_secret']);
  });

  it('takes any body and header without failing', () => {
    const bodies = [
      Buffer.alloc(0),
      Buffer.from([0xff, 0xfe, 0]),
      Buffer.from('['.repeat(10_000)),
      Buffer.from('{"a":'),
    ];
    for (const body of bodies) {
      for (const headerValue of ['=', ',,,', `t=1, v1=${'z'.repeat(64)}`, specimen('healthy').headerValue]) {
        expect(diagnose({ ...specimen('healthy'), body, headerValue }, SECRETS, SETTINGS).healthy).toBe(
          false,
        );
      }
    }
  });
});

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;

describe('the specimens', () => {
  it.runIf(hasOpenssl)('are what openssl makes of make.sh, byte for byte', () => {
    const folder = mkdtempSync(join(tmpdir(), 'doctor-specimens-'));
    try {
      copyFileSync(`${FOLDER}make.sh`, join(folder, 'make.sh'));
      const made = spawnSync('sh', ['make.sh'], { cwd: folder, encoding: 'utf8' });
      expect({ status: made.status, stderr: made.stderr }).toEqual({ status: 0, stderr: '' });
      const specimens = (path: string) =>
        readdirSync(path)
          .filter((name) => /\.(body|header)$/.test(name))
          .sort();
      expect(specimens(folder)).toEqual(specimens(FOLDER));
      for (const name of specimens(FOLDER)) {
        expect(readFileSync(join(folder, name)).equals(readFileSync(FOLDER + name)), name).toBe(true);
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

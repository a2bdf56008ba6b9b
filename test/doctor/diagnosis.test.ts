import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import {
  type CandidateSecret,
  type DiagnosisSettings,
  diagnose,
  diagnoseRejection,
  type Specimen,
} from '../../src/doctor/diagnosis.ts';

const FOLDER = fileURLToPath(new URL('../fixtures/doctor/', import.meta.url));
const ARRIVED_SECONDS = Date.parse('2026-11-02T12:00:00Z') / 1000;

const secret = (text: string, changes: Partial<CandidateSecret> = {}): CandidateSecret => ({
  text,
  name: `the one of ${text.length}`,
  ...changes,
});
const EXPECTED = secret('correct-horse-battery-staple');
const BASE64 = secret('jx0sO0pZaHeGlaSzwtHg/wARIjNEVWZ3iJmqu8zd7v8=');
const SECRETS = [EXPECTED, BASE64];

const T = { kind: 'timestamp' } as const;
const BODY = { kind: 'body' } as const;
const SETTINGS: DiagnosisSettings = {
  template: [T, { kind: 'text', text: '.' }, BODY],
  algorithm: 'sha256',
  header: 'x-webhook-signature',
  toleranceSeconds: 300,
  secretEncoding: 'utf8',
};

function specimen(name: string, changes: Partial<Specimen> = {}): Specimen {
  const header = `${FOLDER}${name}.header`;
  return {
    header: existsSync(header) ? readFileSync(header, 'utf8') : null,
    body: readFileSync(`${FOLDER}${name}.body`),
    receivedSeconds: ARRIVED_SECONDS,
    ...changes,
  };
}

const headed = (value: string) => specimen('healthy', { header: value });
const codesOf = (one: Specimen, settings: Partial<DiagnosisSettings> = {}, secrets = SECRETS) =>
  diagnose(one, secrets, { ...SETTINGS, ...settings }).causes.map(({ code }) => code);

/** The deliveries of `test/fixtures/doctor`, each with the cause that doctor must name. */
const SPECIMENS: readonly (readonly [name: string, code: string | null])[] = [
  ['healthy', null],
  ['healthy-pretty', null],
  ['header-missing', 'header_missing'],
  ['wrong-secret', 'wrong_secret'],
  ['retired-secret', 'wrong_secret'],
  ['base64-secret', 'secret_encoding_differs'],
  ['body-reserialised', 'wrong_secret'],
  ['bom-added', 'wrong_secret'],
  ['colon-separator', 'signed_content_differs'],
  ['body-only', 'timestamp_not_signed'],
  ['milliseconds', 'timestamp_in_milliseconds'],
  ['clock-behind', 'clock_behind'],
  ['clock-ahead', 'clock_ahead'],
];

describe('the cause that doctor names, on deliveries signed by openssl', () => {
  it.each(SPECIMENS)('%s: %s', (name, code) => {
    const diagnosis = diagnose(specimen(name), SECRETS, SETTINGS);
    expect(diagnosis.causes.map((cause) => cause.code)).toEqual(code === null ? [] : [code]);
    expect(diagnosis.healthy).toBe(code === null);
    for (const { text } of SECRETS) expect(JSON.stringify(diagnosis)).not.toContain(text);
  });
});

describe('the setting that doctor proposes', () => {
  it('is the right one, and with it the delivery is healthy', () => {
    const proposed = (name: string, secrets = SECRETS) =>
      diagnose(specimen(name), secrets, SETTINGS).causes.map(({ settings }) => settings);
    expect(proposed('colon-separator')).toEqual([{ WEBHOOK_SIGNED_CONTENT: '{t}:{body}' }]);
    const template = [T, { kind: 'text', text: ':' } as const, BODY];
    expect(codesOf(specimen('colon-separator'), { template })).toEqual([]);
    expect(proposed('base64-secret')).toEqual([{ WEBHOOK_SECRET_ENCODING: 'base64' }]);
    expect(codesOf(specimen('base64-secret'), { secretEncoding: 'base64' })).toEqual([]);
    const prefixed = [secret(`whsec_${BASE64.text}`)];
    expect(proposed('base64-secret', prefixed)).toEqual([{ WEBHOOK_SECRET_ENCODING: 'whsec_base64' }]);
    expect(codesOf(specimen('base64-secret'), { secretEncoding: 'whsec_base64' }, prefixed)).toEqual([]);
  });
});

describe('several things wrong at once', () => {
  it('are all named', () => {
    const late = specimen('colon-separator', { receivedSeconds: ARRIVED_SECONDS + 86_400 });
    expect(codesOf(late)).toEqual(['signed_content_differs', 'clock_behind']);
  });

  it('do not make an unsigned time an accusation', () => {
    const late = specimen('wrong-secret', { receivedSeconds: ARRIVED_SECONDS + 86_400 });
    expect(codesOf(late)).toEqual(['wrong_secret']);
  });
});

describe('forms of the header', () => {
  const right = specimen('healthy').header!;
  const mac = right.slice(right.indexOf('v1=') + 3);
  it.each([
    ['no v1', `t=${ARRIVED_SECONDS}, V1=${mac}, v0=${mac}`, 'header_malformed'],
    ['a v1 that is no hex beside a right one', `${right}, v1=${'z'.repeat(64)}`, 'header_malformed'],
    [
      'a signature as long as another hash’s',
      `t=${ARRIVED_SECONDS}, v1=${'0'.repeat(96)}`,
      'header_malformed',
    ],
    ['a trailing comma', `${right},`, 'header_malformed'],
    ['two times', `t=1, ${right}`, 'header_malformed'],
    ['no time', `v1=${mac}`, 'header_malformed'],
    ['an empty header', '', 'header_missing'],
  ])('%s', (_, header, code) => {
    expect(codesOf(headed(header))).toEqual([code]);
  });

  it('a time that is no number of seconds', () => {
    expect(codesOf(headed(`t=0${ARRIVED_SECONDS}, v1=${mac}`))).toContain('timestamp_unreadable');
  });
});

describe('what it cannot know', () => {
  it('says that no secret is there, and nothing else', () => {
    expect(codesOf(specimen('healthy'), {}, [])).toEqual(['no_secret']);
  });

  it('takes any body and header without failing', () => {
    const bodies = ['', '['.repeat(10_000), '{"a":', `"${'\\"'.repeat(8_000)}`].map((text) =>
      Buffer.from(text),
    );
    for (const body of [...bodies, Buffer.from([0xff, 0xfe, 0])]) {
      for (const value of ['=', ',,,', `t=1, v1=${'z'.repeat(64)}`, `t=1, v1=${'0'.repeat(64)}`]) {
        expect(diagnose({ ...headed(value), body }, SECRETS, SETTINGS).healthy).toBe(false);
      }
    }
  });

  it('of a stored rejection whose body was not kept, the header is judged alone', () => {
    const stored = {
      received_at: '2026-11-02T12:00:00Z',
      reason: 'bad_signature',
      bytes: 9,
      body_base64: null,
    };
    const codes = (header: string | null, reason = stored.reason) =>
      diagnoseRejection({ ...stored, reason, header }, SECRETS, SETTINGS).causes.map(({ code }) => code);
    expect(codes(null)).toEqual(['header_missing']);
    expect(codes('t=1')).toEqual(['header_malformed']);
    expect(codes(`t=1, v1=${'0'.repeat(64)}`)).toEqual(['bad_signature']);
    expect(codes(`t=1, v1=${'0'.repeat(64)}`, 'no_signing_secret')).toEqual(['no_signing_secret']);
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

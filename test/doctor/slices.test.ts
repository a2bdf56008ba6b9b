import { describe, expect, it } from 'vitest';
import { allAtOnce, diagnoseRejection, inSlices } from '../../src/doctor/diagnosis.ts';
import { bodyForms } from '../../src/doctor/diagnosis-bodies.ts';
import { rejectionDiagnoses } from '../../src/service/operators.ts';
import type { RejectionReport } from '../../src/store/reports.ts';

/** As much as is kept of a rejected delivery. */
const KEPT_BYTES = 16_384;
const SECRETS = ['the-first-secret-of-the-test', 'the-second-secret-of-the-test'].map((text) => ({
  text,
  name: text.slice(0, 10),
  isInUse: true,
}));
const WEBHOOK = {
  template: [{ kind: 'timestamp' }, { kind: 'text', text: '.' }, { kind: 'body' }],
  algorithm: 'sha256',
  header: 'x-webhook-signature',
  toleranceSeconds: 300,
  secretEncoding: 'utf8',
} as const;

/** Made to be dear: deep, so that indenting it makes it long; of what escaping makes long; with many forms. */
const DEAR: readonly (readonly [string, string])[] = [
  ['brackets in brackets', '['.repeat(KEPT_BYTES / 2) + ']'.repeat(KEPT_BYTES / 2)],
  ['many numbers, deep down', `${'['.repeat(60)}${'1,'.repeat(8000)}1${']'.repeat(60)}`],
  ['objects, deep down', `${'{"a":'.repeat(60)}[${'{},'.repeat(5000)}1]${'}'.repeat(60)}`],
  ['what is escaped', JSON.stringify('é'.repeat(8000))],
  ['slashes', JSON.stringify('/'.repeat(16_000))],
  ['line ends', `[1${'\r\n'.repeat(8000)}]`],
  ['keys again and again', `{${Array.from({ length: 2000 }, () => '"a":1').join(',')}}`],
];

const rejected = (text: string): RejectionReport => ({
  id: 1,
  at: new Date(1793534400000).toISOString(),
  reason: 'bad_signature',
  t: '1793534400',
  times: 1,
  header: `t=1793534400, v1=${'ab'.repeat(32)}, v2=${'cd'.repeat(48)}, v3=${'ef'.repeat(20)}`,
  bytes: text.length,
  body_sha256: null,
  address: null,
  body: text,
  body_base64: Buffer.from(text).toString('base64'),
});

describe('examining a body made to be dear', () => {
  it.each(DEAR)('tries no form of %s that is very much longer than it', (_name, text) => {
    // A character is three bytes at most where escaping left it alone.
    const most = 3 * (8 * text.length + 1024);
    for (const form of allAtOnce(bodyForms(Buffer.from(text)))) expect(form.bytes.length).toBeLessThan(most);
  });

  it.each(DEAR)('lets the event loop turn meanwhile: %s', async (_name, text) => {
    let turns = 0;
    let isOver = false;
    const turn = () => {
      turns += 1;
      if (!isOver) setImmediate(turn);
    };
    setImmediate(turn);
    const { causes } = await inSlices(
      diagnoseRejection(rejected(text), SECRETS, { ...WEBHOOK, template: [...WEBHOOK.template] }, new Map()),
    );
    isOver = true;
    expect(causes.map(({ code }) => code)).toEqual(['wrong_secret']);
    expect(turns).toBeGreaterThan(1);
  });

  it('is done for one operator at a time, and refused to a crowd', async () => {
    let under = 0;
    let most = 0;
    const diagnose = rejectionDiagnoses(
      {
        webhook: {
          ...WEBHOOK,
          maxBodyBytes: 1,
          bodiesInFlightBytes: 1,
          secrets: () => SECRETS.map(({ text }) => Buffer.from(text)),
        },
        credentialsKey: null,
      },
      {
        show: async () => {
          under += 1;
          most = Math.max(most, under);
          return rejected('{}') as never;
        },
        listRegistrations: async () => {
          await new Promise(setImmediate);
          under -= 1;
          return [];
        },
      },
      { wall: Date.now },
    );
    const answers = await Promise.all(Array.from({ length: 100 }, () => diagnose(1)));
    expect(most).toBe(1);
    expect(answers.filter((answer) => answer === 'busy').length).toBeGreaterThan(80);
    expect(answers[0]).toMatchObject({ causes: [{ code: 'wrong_secret' }] });
    expect(await diagnose(1)).toMatchObject({ causes: [{ code: 'wrong_secret' }] });
  });
});

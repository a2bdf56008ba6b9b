import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { curlOf } from '../../src/ops/body-text.ts';

const RECEIVER = { url: 'http://127.0.0.1:8080/webhooks', signatureHeader: 'x-webhook-signature' };

test.each(['{"a":1}', 'it\'s $HOME `id` \\ "x"', '@file', '\n{\n}\n', "''", '💥'])(
  'a shell gives curl the body as it is: %j',
  (body) => {
    const echo = 'curl() { for each; do printf "%s\\0" "$each"; done; }';
    const out = execFileSync('sh', ['-c', `${echo}\n${curlOf(body, RECEIVER)}`]).toString('utf8');
    const given = out.split('\0').slice(0, -1);
    expect(given).toEqual([
      ...['-X', 'POST', RECEIVER.url, '-H', 'content-type: application/json'],
      ...['-H', 'x-webhook-signature: t=TIMESTAMP, v1=SIGNATURE', '--data-raw', body],
    ]);
  },
);

test('there is none for what no command line can hold', () => {
  expect(curlOf('a\0b', RECEIVER)).toBeNull();
  expect(curlOf("'".repeat(40_000), RECEIVER)).toBeNull();
});

test.each(['\u0003', '\u001b[201~', '\u007f', '\u0015', '\u009b'])(
  'there is none for a body with %j, which a terminal would take for a key when the command is pasted',
  (key) => {
    expect(curlOf(`{"a":1}${key}\ntouch run\n#`, RECEIVER)).toBeNull();
  },
);

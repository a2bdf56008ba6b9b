import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadOrCreateOpsToken, OPS_TOKEN_FILE, signInLink } from '../../src/ops/tokens.ts';
import { UsageError } from '../../src/platform/errors.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'ops-token-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

test('the first start makes a token that only its owner can read', () => {
  const made = loadOrCreateOpsToken(dir);
  expect(made.role).toBe('operate');
  expect(made.token).toMatch(/^[\w-]{43}$/);
  expect(statSync(join(dir, OPS_TOKEN_FILE)).mode & 0o777).toBe(0o600);
  expect(readFileSync(join(dir, OPS_TOKEN_FILE), 'utf8')).toBe(`${made.token}\n`);
});

test('a later start takes the same token', () => {
  expect(loadOrCreateOpsToken(dir)).toEqual(loadOrCreateOpsToken(dir));
});

test.each([
  [0o640, 'can be read by other users'],
  [0o622, 'can be changed by other users'],
])('a file of mode %o, whose token others may know, is refused with what to do', (mode, how) => {
  loadOrCreateOpsToken(dir);
  chmodSync(join(dir, OPS_TOKEN_FILE), mode);
  expect(() => loadOrCreateOpsToken(dir)).toThrow(`${how}: chmod 600`);
});

test('the folder is made where it is missing', () => {
  expect(loadOrCreateOpsToken(join(dir, 'a', 'b')).token).toHaveLength(43);
});

test.each(['', 'short', 'two words in one long line', '9f3ac1b07d5e2846', 'a'.repeat(43)])(
  'a file that holds %j is refused',
  (content) => {
    writeFileSync(join(dir, OPS_TOKEN_FILE), content);
    expect(() => loadOrCreateOpsToken(dir)).toThrow(UsageError);
  },
);

test('the token of a sign-in link is where browsers keep it to themselves', () => {
  const { pathname, search, hash } = new URL(signInLink('http://127.0.0.1:8081', 'a&b'));
  expect([pathname, search, hash]).toEqual(['/sign-in', '', '#token=a%26b']);
});

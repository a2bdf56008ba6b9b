import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { withSetting, writePrivate } from '../../src/cli/draft.ts';
import { UsageError } from '../../src/platform/errors.ts';

describe('one setting in the text of an .env', () => {
  it.each([
    ['is added at the end', 'A=1\n', 'B', '2', 'A=1\nB=2\n'],
    ['is added behind a last line without its end', 'A=1', 'B', '2', 'A=1\nB=2\n'],
    [
      'takes the place of every line that sets it',
      '# why\nA=1\n\nB=2\nA=4\n',
      'A',
      '3',
      '# why\n\nB=2\nA=3\n',
    ],
    ['goes away wherever it stands', 'A=1\nB=2\nA=3\n', 'A', null, 'B=2\n'],
    ['may have been exported', 'export A=1\n', 'A', '2', 'A=2\n'],
    ['is quoted only where it must be', '', 'A', 'a # b', "A='a # b'\n"],
    ['is plain where it can be', '', 'A', '{t}|{body}', 'A={t}|{body}\n'],
    [
      'that says so already leaves every byte as it is',
      'A = "1"   # one\r\n',
      'A',
      '1',
      'A = "1"   # one\r\n',
    ],
  ])('%s', (_, text, name, value, expected) => {
    expect(withSetting(text, name, value)).toBe(expected);
  });

  it('is read back as it was meant, and no other changes, or nothing is done', () => {
    const name = fc.constantFrom('A', 'AB', 'B', 'C_FILE');
    const bit = fc.constantFrom(...'=|"|\'|`|#|\n|\r\n| |\\n|x|A=|export |{t}|é'.split('|'));
    const text = fc.array(fc.oneof(bit, name), { maxLength: 20 }).map((bits) => bits.join(''));
    fc.assert(
      fc.property(text, name, fc.option(text, { nil: null }), (before, key, value) => {
        let after: string;
        try {
          after = withSetting(before, key, value);
        } catch (error) {
          expect(error).toBeInstanceOf(UsageError);
          return;
        }
        const { [key]: set = null, ...others } = parseEnv(after);
        const { [key]: _, ...othersBefore } = parseEnv(before);
        expect(set).toBe(value);
        expect(others).toEqual(othersBefore);
      }),
      { numRuns: 2_000 },
    );
  });

  it.each([
    ['that no quotes can hold', '', '\'`"\n'],
    ['in the quotes of another', "B='\nA=1\n'\n", '3'],
  ])('%s is a clear error', (_, text, value) => {
    expect(() => withSetting(text, 'A', value)).toThrow(UsageError);
  });
});

describe('a file with secrets', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'compliance-mirror-env-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));
  const modeOf = (path: string) => statSync(path).mode & 0o777;

  it('is for its owner alone, whatever it was, and nothing else is left beside it', () => {
    const path = join(folder, 'secrets', 'key');
    writePrivate(path, 'one\n');
    expect([modeOf(join(folder, 'secrets')), modeOf(path)]).toEqual([0o700, 0o600]);
    chmodSync(path, 0o644);
    writePrivate(path, 'two\n');
    expect([modeOf(path), readFileSync(path, 'utf8')]).toEqual([0o600, 'two\n']);
    expect(readdirSync(join(folder, 'secrets'))).toEqual(['key']);
  });

  it('behind a symbolic link is exchanged, and the link stays', () => {
    writeFileSync(join(folder, 'real'), 'A=1\n');
    symlinkSync('real', join(folder, '.env'));
    writePrivate(join(folder, '.env'), 'A=2\n');
    expect(readFileSync(join(folder, 'real'), 'utf8')).toBe('A=2\n');
  });

  it('that cannot be written is said, and what was there stays whole', () => {
    expect(() => writePrivate(folder, 'A=1\n')).toThrow('cannot be written');
    writeFileSync(join(folder, 'file'), '');
    expect(() => writePrivate(join(folder, 'file', '.env'), 'A=1\n')).toThrow('cannot be written');
  });
});

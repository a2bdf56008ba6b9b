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
import { describe, expect, it } from 'vitest';
import { withSetting, writeEnvText } from '../../src/cli/setup/draft.ts';
import { UsageError } from '../../src/platform/errors.ts';

describe('one setting in the text of an .env', () => {
  it.each([
    ['is added at the end', 'A=1\n', 'B', '2', 'A=1\nB=2\n'],
    ['is added behind a last line without its end', 'A=1', 'B', '2', 'A=1\nB=2\n'],
    ['is changed where it stands', '# why\nA=1\n\nB=2\n', 'A', '3', '# why\nA=3\n\nB=2\n'],
    ['fills an empty line', 'A=\nB=2\n', 'A', '3', 'A=3\nB=2\n'],
    ['is the last one where there are several', 'A=1\nA=2\n', 'A', '3', 'A=1\nA=3\n'],
    ['goes away wherever it stands', 'A=1\nB=2\nA=3\n', 'A', null, 'B=2\n'],
    ['may have been exported', 'export A=1\n', 'A', '2', 'A=2\n'],
    ['may have gone over several lines', "A='1\n2'\nB=2\n", 'A', '3', 'A=3\nB=2\n'],
    ['is not what stands in the quotes of another', "B='\nA=1\n'\n", 'A', '3', "B='\nA=1\n'\nA=3\n"],
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
    const bit = fc.constantFrom(
      '=',
      '"',
      "'",
      '`',
      '#',
      '\n',
      '\r\n',
      ' ',
      '\\n',
      'x',
      'A=',
      'export ',
      '{t}',
      'é',
    );
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
        if ((parseEnv(before)[key] ?? null) === value) expect(after).toBe(before);
      }),
      { numRuns: 2_000 },
    );
  });

  it('that no quotes can hold is a clear error', () => {
    expect(() => withSetting('', 'A', '\'`"\n')).toThrow('every kind of quote');
  });
});

describe('the file', () => {
  const inFolder = (work: (folder: string) => void) => {
    const folder = mkdtempSync(join(tmpdir(), 'compliance-mirror-env-'));
    try {
      work(folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  };
  const modeOf = (path: string) => statSync(path).mode & 0o777;

  it('is for its owner alone, whatever it was, and nothing else is left beside it', () => {
    inFolder((folder) => {
      const path = join(folder, '.env');
      writeEnvText(path, '', 'A=1\n');
      expect([modeOf(path), readFileSync(path, 'utf8')]).toEqual([0o600, 'A=1\n']);
      chmodSync(path, 0o644);
      writeEnvText(path, 'A=1\n', 'A=2\n');
      expect([modeOf(path), readFileSync(path, 'utf8')]).toEqual([0o600, 'A=2\n']);
      chmodSync(path, 0o644);
      const { mtimeMs, ino } = statSync(path);
      writeEnvText(path, 'A=2\n', 'A=2\n');
      expect(statSync(path)).toMatchObject({ mtimeMs, ino });
      expect(modeOf(path)).toBe(0o600);
      expect(readdirSync(folder)).toEqual(['.env']);
    });
  });

  it('behind a symbolic link is exchanged, and the link stays', () => {
    inFolder((folder) => {
      writeFileSync(join(folder, 'real'), 'A=1\n');
      symlinkSync('real', join(folder, '.env'));
      writeEnvText(join(folder, '.env'), 'A=1\n', 'A=2\n');
      expect(readFileSync(join(folder, 'real'), 'utf8')).toBe('A=2\n');
    });
  });

  it('that cannot be written is said, and what was there stays whole', () => {
    inFolder((folder) => {
      expect(() => writeEnvText(folder, '', 'A=1\n')).toThrow('is a folder');
      expect(() => writeEnvText(join(folder, 'none', '.env'), '', 'A=1\n')).toThrow('cannot be written');
    });
  });
});

import { CommanderError } from 'commander';
import { describe, expect, it } from 'vitest';
import { DifferenceFound, exitCodeOf, explain } from '../../src/cli/exit.ts';
import { MirrorError, StoreUnavailable, UsageError } from '../../src/platform/errors.ts';

const UNREADABLE = new MirrorError('secret_unreadable', 'x');

describe('the exit code', () => {
  it.each([
    ['help that was asked for', new CommanderError(0, 'commander.helpDisplayed', ''), 0],
    ['an unknown option', new CommanderError(1, 'commander.unknownOption', 'x'), 2],
    ['a wrong setting', new UsageError('x'), 2],
    ['a stored secret that CREDENTIALS_KEY does not open', UNREADABLE, 2],
    [
      'a request that lacks such a secret',
      new MirrorError('upstream_no_credentials', 'x', { cause: UNREADABLE }),
      2,
    ],
    ['a difference', new DifferenceFound('x'), 3],
    ['a database that cannot be written', new StoreUnavailable('x'), 1],
    ['anything unforeseen', new TypeError('x'), 1],
    ['what is no error at all', 'x', 1],
  ])('of %s', (_, error, code) => {
    expect(exitCodeOf(error)).toBe(code);
  });
});

describe('the message on stderr', () => {
  const quiet = { debug: false };

  it('is one line with what can be done about it', () => {
    const error = new MirrorError('x', 'the disk is full', { remedy: 'free space' });
    expect(explain(error, quiet)).toBe('compliance-mirror: the disk is full (free space)\n');
  });

  it('shows a stack only to who debugs', () => {
    const error = new Error('broken');
    expect(explain(error, quiet)).not.toContain('at ');
    expect(explain(error, { debug: true })).toContain('exit.test.ts');
  });

  it('keeps a list of wrong settings whole, a line each', () => {
    const lines = Array.from({ length: 40 }, (_, index) => `SETTING_${index}: is wrong in some way`);
    expect(
      explain(new UsageError(lines.join('\n')), quiet)
        .trimEnd()
        .split('\n'),
    ).toHaveLength(40);
  });

  it('does not pass on what a terminal would obey', () => {
    expect(explain(new MirrorError('x', 'no event \u001b[2J', { remedy: '\u0007' }), quiet)).toBe(
      'compliance-mirror: no event \\u001b[2J (\\u0007)\n',
    );
    expect(explain(new Error('no event \u001b[2J'), { debug: true })).not.toContain('\u001b');
  });

  it('repeats nothing that the parser of arguments has said itself', () => {
    expect(explain(new CommanderError(1, 'commander.unknownOption', 'x'), quiet)).toBe('');
  });
});

import { spawnSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { cli } from './executable.ts';

/** What bash would offer behind these words, by the script itself. */
function offered(script: string, words: readonly string[]): string[] {
  const line = ['compliance-mirror', ...words].map((word) => `'${word}'`).join(' ');
  const asked = `COMP_WORDS=(${line}); COMP_CWORD=${words.length}; _compliance_mirror; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, status } = spawnSync('bash', ['--norc', '-c', `${script}\n${asked}`], { encoding: 'utf8' });
  expect(status).toBe(0);
  return stdout.split('\n').filter((word) => word !== '');
}

it('bash completes commands, their subcommands, their options and what they choose from', async () => {
  const { code, out } = await cli(['completion', 'bash']);
  expect(code).toBe(0);
  expect(offered(out, ['deli'])).toEqual(['deliveries']);
  expect(offered(out, ['deliveries', ''])).toEqual(['list', 'show', 'follow', '--help']);
  expect(offered(out, ['deliveries', 'list', '--out'])).toEqual(['--outcome']);
  expect(offered(out, ['status', '--json', '--ch'])).toEqual(['--check']);
  expect(offered(out, ['export', 'ven'])).toEqual(['vendors']);
});

/** zsh leaves out by itself what does not begin as the last word does. */
it.skipIf(spawnSync('zsh', ['--version']).status !== 0)('zsh completes the same', async () => {
  const { out } = await cli(['completion', 'zsh']);
  const asked = `autoload -U compinit; compinit -D -u; ${out}
COMP_WORDS=(compliance-mirror deliveries ''); COMP_CWORD=2; emulate sh -c _compliance_mirror; print -rl -- $COMPREPLY`;
  const { stdout, stderr } = spawnSync('zsh', ['-f', '-c', asked], { encoding: 'utf8' });
  expect({ stdout, stderr }).toEqual({ stdout: 'list\nshow\nfollow\n--help\n', stderr: '' });
});

it.each(['zsh', 'fish'])('the script for %s names every command', async (shell) => {
  const { code, out } = await cli(['completion', shell]);
  expect(code).toBe(0);
  for (const command of ['setup', 'deliveries', 'completion']) expect(out).toContain(command);
  expect((await cli(['completion', 'tcsh'])).code).toBe(2);
});

it.runIf(process.platform === 'linux')(
  'a disk that is full ends a command with one line and exit code 1',
  () => {
    const main = fileURLToPath(new URL('../../dist/src/main.js', import.meta.url));
    const full = openSync('/dev/full', 'w');
    const { status, stderr } = spawnSync(process.execPath, [main, 'completion', 'bash'], {
      stdio: ['ignore', full, 'pipe'],
      encoding: 'utf8',
    });
    closeSync(full);
    expect({ status, stderr }).toEqual({
      status: 1,
      stderr: expect.stringMatching(/^compliance-mirror: standard output .* no space left .*\n$/),
    });
  },
);

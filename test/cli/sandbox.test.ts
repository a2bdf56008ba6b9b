import { expect, it } from 'vitest';
import { start } from './executable.ts';

it('a setting of the sandbox that it does not know is told of, and the one that was meant', async () => {
  const sandbox = start(['sandbox', '--port', '0'], { SANDBOX_TYPO: '1', SANDBOX_PAGESIZE: '5' });
  expect(await sandbox.line('SANDBOX_TYPO')).toBe(
    'compliance-mirror: SANDBOX_TYPO: no such setting; it has no effect',
  );
  expect(await sandbox.line('SANDBOX_PAGESIZE')).toMatch(/did you mean SANDBOX_PAGE_SIZE\?$/);
  await sandbox.line('Sandbox: ');
  expect(await sandbox.stop()).toBe(0);
});

import { expect, it } from 'vitest';
import type { Screen } from '../../src/cli/cli.ts';
import { examine } from '../../src/cli/findings.ts';
import { judge } from '../../src/doctor/judge.ts';
import { loadConfig } from '../../src/platform/config.ts';

const SCREEN: Screen = { write: () => undefined, isTerminal: false, hasColours: false, columns: undefined };

it('does not say that no service runs where the server that knows cannot be asked', async () => {
  const env = {
    // Nothing listens on port 1.
    DATABASE_URL: 'postgres://mirror@127.0.0.1:1/mirror',
    WEBHOOK_SECRETS: 'correct-horse-battery-staple',
  };
  const checks = judge(await examine({ env, out: SCREEN, err: SCREEN }, loadConfig(env)));
  expect(checks.find(({ name }) => name === 'database')?.state).toBe('wrong');
  expect(checks.find(({ name }) => name === 'service')).toMatchObject({
    state: 'skipped',
    detail: 'the database cannot be read',
  });
});

it('looks at a database whose address the driver takes although it is no URL', async () => {
  const env = {
    DATABASE_URL: 'postgres://mirror:a-password@/mirror?host=/nowhere',
    WEBHOOK_SECRETS: 'correct-horse-battery-staple',
  };
  const checks = judge(await examine({ env, out: SCREEN, err: SCREEN }, loadConfig(env)));
  const database = checks.find(({ name }) => name === 'database');
  expect(database).toMatchObject({ state: 'wrong', detail: expect.stringContaining('/nowhere') });
  expect(database?.detail).not.toContain('a-password');
});

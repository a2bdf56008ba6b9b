import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { API_KEY } from '../support/independent-upstream.ts';
import { createStage } from './stage.ts';

const HOUR_IN_STEPS = 240;
/** A heartbeat notices the new key. What waits after an hour of failures waits for minutes. */
const SOON_MS = 60_000;

it('a new API key in its file is used at once, however long the old one was rejected', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-key-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const file = join(directory, 'key');
  writeFileSync(file, 'a-key-that-was-withdrawn');
  const stage = await createStage({ COMPLIANCE_API_KEY: '', COMPLIANCE_API_KEY_FILE: file });
  onTestFinished(() => stage.end());
  await stage.start();
  const verdict = async () =>
    (await stage.get<{ kinds: { verdict: string }[] }>('/api/status')).kinds[0]?.verdict;
  await stage.leapUntil('the rejection', async () => (await verdict()) === 'action_required');
  for (let step = 0; step < HOUR_IN_STEPS; step += 1) {
    stage.clock.leap(15_000);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }

  writeFileSync(file, API_KEY);
  const since = stage.clock.steady();
  await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
  expect(stage.clock.steady() - since).toBeLessThan(SOON_MS);
});

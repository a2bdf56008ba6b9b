import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it, onTestFinished } from 'vitest';
import { API_KEY } from '../support/independent-upstream.ts';
import { createStage } from './stage.ts';

const HOUR_IN_STEPS = 60;
/** A heartbeat notices the new key. What waits after an hour of failures waits for minutes, for which these are too short. */
const SHORT_STEP_MS = 500;

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
    stage.clock.leap(60_000);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }

  writeFileSync(file, API_KEY);
  await stage.leapUntil('equality', () => stage.compare().differences.length === 0, SHORT_STEP_MS);
});

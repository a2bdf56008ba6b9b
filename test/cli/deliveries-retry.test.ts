import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openStore } from '../../src/store/open.ts';
import { showPending } from '../support/pending.ts';
import { cli, inTemporaryDirectory } from './executable.ts';
import { serviceHere } from './service-here.ts';

const TIMING = { settleMs: 1 };
const SECRET = 'correct-horse-battery-staple';

/** A database with two events that name no record where the pointers look; the second names none at all. */
async function prepare(directory: string): Promise<Record<string, string>> {
  const url = `file:${join(directory, 'mirror.db')}`;
  const store = await openStore(url);
  const now = { wall: Date.now(), steady: 1 };
  const event = (id: string, data: object) => ({
    id,
    type: 'risk.assessed',
    created: '2026-11-02T11:59:58Z',
    createdMs: now.wall,
    t: '1793620800',
    kind: 'risk_assessment' as const,
    recordId: null,
    known: true,
    body: JSON.stringify({ id, type: 'risk.assessed', data }),
  });
  const events = [event('evt_ref', { assessment: { ref: 'ra_1' } }), event('evt_none', { says: 'nothing' })];
  await store.accept({ events, unusable: [] }, now, TIMING);
  const pointers = { policy: ['id'], risk_assessment: ['id'], vendor: ['id'] };
  const rules = { pointers, eventsOnly: false, toleranceMs: 1, guardPercent: 20, timing: TIMING };
  await showPending(store, now, rules);
  await store.close();
  return { DATABASE_URL: url, WEBHOOK_SECRETS: SECRET };
}

it('a retry tells the outcome of each; what is given up is not tried again', async () => {
  await inTemporaryDirectory(async (directory) => {
    const settings = await prepare(directory);
    const service = await serviceHere({ ...settings, PORT: '0', OPS_PORT: '0' });
    const again = await cli(['deliveries', 'retry', 'evt_ref'], settings);
    expect(again.code).toBe(1);
    expect(again.out).toMatch(/^evt_ref: .*the payload holds no id of a risk_assessment/);
    const all = await cli(['deliveries', 'retry', 'state=failed'], settings);
    expect(all.code).toBe(1);
    expect(all.err).toContain('2 of 2 not done');
    expect(await cli(['deliveries', 'dismiss', 'evt_none'], settings)).toMatchObject({
      code: 0,
      out: 'evt_none: dismissed\n',
    });
    await cli(['deliveries', 'dismiss', 'evt_ref'], settings);
    expect(await cli(['deliveries', 'retry', 'state=failed'], settings)).toMatchObject({
      code: 0,
      out: 'Nothing matches.\n',
    });
    expect((await cli(['deliveries', 'retry', 'evt_ref', 'state=failed'], settings)).code).toBe(2);
    await service.stop();
  });
});

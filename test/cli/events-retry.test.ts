import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openStore } from '../../src/store/open.ts';
import { cli, inTemporaryDirectory, start } from './executable.ts';

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
  const rules = { pointers, eventsOnly: false, toleranceMs: 1, timing: TIMING };
  await store.applyEvents(await store.claimEvents('test', 9, 1000, now), rules, now);
  await store.close();
  return { DATABASE_URL: url, WEBHOOK_SECRETS: SECRET };
}

it.each([
  ['on the database itself', false],
  ['beside a running service', true],
])('a retry %s reads anew and tells the outcome', async (_, isServed) => {
  await inTemporaryDirectory(async (directory) => {
    const settings = await prepare(directory);
    const service = isServed ? start(['serve'], { ...settings, PORT: '0', OPS_PORT: '0' }) : null;
    await service?.line('Operators: ');
    const again = await cli(['events', 'retry', 'evt_ref'], settings);
    expect({ code: again.code, out: again.out }).toEqual({ code: 1, out: '' });
    expect(again.err).toContain('It failed again: the payload holds no id of a risk_assessment');
    const all = await cli(['events', 'retry', '--failed-for', 'no_record_id'], settings);
    expect(all.code).toBe(1);
    expect(all.out).toContain('0 processed, 2 failed again');
    await service?.stop();

    const set = { ...settings, ID_POINTERS_RISK_ASSESSMENT: 'assessment.ref,id' };
    const served = isServed ? start(['serve'], { ...set, PORT: '0', OPS_PORT: '0' }) : null;
    await served?.line('Operators: ');
    const some = await cli(['events', 'retry', '--failed-for', 'no_record_id'], set);
    expect(some.code).toBe(1);
    expect(some.out).toContain('1 processed, 1 failed again');
    expect(some.out).toContain('evt_none: It failed again');
    const shown = await cli(['events', 'show', 'evt_ref', '--json'], set);
    expect(JSON.parse(shown.out)).toMatchObject({ state: 'processed', record_id: 'ra_1' });
    expect((await cli(['events', 'retry', 'evt_ref'], set)).err).toContain('The event is processed');
    expect((await cli(['events', 'discard', 'evt_none'], set)).code).toBe(0);
    expect((await cli(['events', 'retry', '--failed-for', 'no_record_id'], set)).code).toBe(0);
    expect((await cli(['events', 'retry'], set)).code).toBe(2);
    await served?.stop();
  });
});

it('doctor says which setting an event needs that names no record, and exits 3', async () => {
  await inTemporaryDirectory(async (directory) => {
    const settings = await prepare(directory);
    const one = await cli(['doctor', '--delivery', 'evt_ref'], settings);
    expect(one.code).toBe(3);
    expect(one.out).toContain('[no_record_id]');
    expect(one.out).toContain('ID_POINTERS_RISK_ASSESSMENT');
    const all = await cli(['doctor'], settings);
    expect(all.code).toBe(3);
    expect(all.out).toMatch(/WRONG +record ids +events about risk_assessment name no record/);
    expect(all.out).toContain('events retry --failed-for no_record_id');
  });
});

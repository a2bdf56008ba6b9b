import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { approveDeletions } from '../support/approve-deletions.ts';
import { createStage, type Stage } from './stage.ts';

interface Status {
  verdict: string;
  reason: string;
  kinds: { kind: string; readable_since: string | null }[];
}

const event = (id: string, type: string, data: object) => ({
  id,
  body: JSON.stringify({ id, type, created: '2026-11-20T12:00:00Z', data }),
});

async function staged(settings: Record<string, string> = {}): Promise<Stage> {
  const stage = await createStage(settings);
  onTestFinished(() => stage.end());
  await stage.start();
  return stage;
}

const status = (stage: Stage) => stage.get<Status>('/api/status');
const openGap = async (stage: Stage, reason: string) =>
  (await stage.gaps()).find((gap) => gap.reason === reason && gap.resolved_at === null) ?? null;
const inSync = (stage: Stage) =>
  stage.leapUntil('all kinds in sync', () =>
    Object.values(stage.verdicts()).every((verdict) => verdict === 'in_sync'),
  );
/** A full sync of the kind that begins now and is complete. */
async function fullSync(stage: Stage, kind: string) {
  const newest = async () =>
    (
      await stage.get<{ items: { id: number; kind: string; outcome: string | null }[] }>('/api/sync-runs')
    ).items.find((run) => run.kind === kind);
  const before = (await newest())?.id ?? 0;
  await stage.post('/api/sync-runs', { kinds: [kind] });
  await stage.leapUntil('a full sync', async () => {
    const run = await newest();
    return run !== undefined && run.id > before && run.outcome === 'complete';
  });
}

it.each(['RISK_IDS_FILE', 'a person'])(
  'an id that %s names, and no record has, is none once a person says so',
  async (by) => {
    const folder = mkdtempSync(join(tmpdir(), 'compliance-mirror-ids-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    writeFileSync(join(folder, 'ids'), 'ra-mistyped');
    const stage = await staged(by === 'a person' ? {} : { RISK_IDS_FILE: join(folder, 'ids') });
    if (by === 'a person') {
      await inSync(stage);
      await stage.post('/api/records/risk_assessment/refetch', { ids: ['ra-mistyped'] });
    }
    const gap = await stage.leapUntil('the gap', () => openGap(stage, 'unresolved'));
    await fullSync(stage, 'risk_assessment');
    // Nothing has shown that assessments can be read.
    expect((await status(stage)).kinds).toContainEqual(
      expect.objectContaining({ kind: 'risk_assessment', readable_since: null }),
    );

    await stage.post(`/api/gaps/${gap.id}/resolve`);
    await inSync(stage);
    await fullSync(stage, 'risk_assessment');
    await inSync(stage);
    expect(await openGap(stage, 'unresolved')).toBeNull();

    // It is asked for by each full sync all the same.
    stage.upstream.records.put('assessments', { id: 'ra-mistyped', name: 'Late', status: 'open' });
    await fullSync(stage, 'risk_assessment');
    expect(stage.compare().differences).toEqual([]);
  },
);

it('an assessment that an event names, and that is gone before any was read, is settled by a person', async () => {
  const stage = await staged();
  await inSync(stage);
  await stage.deliver(event('e1', 'risk.identified', { id: 'ra-gone', name: 'Short-lived' }));
  const gap = await stage.leapUntil('the gap', () => openGap(stage, 'unproven_id'));
  await stage.post(`/api/gaps/${gap.id}/resolve`);
  await inSync(stage);
  await fullSync(stage, 'risk_assessment');
  await inSync(stage);
  // The next event about it is a new question.
  await stage.deliver(event('e2', 'risk.assessed', { id: 'ra-gone', name: 'Again' }));
  await stage.leapUntil('the gap', () => openGap(stage, 'unproven_id'));
});

it.each([
  ['an assessment', ['ra-here']],
  ['every assessment', []],
])(
  '%s that events showed before there were credentials, and that is gone, waits for a person’s approval',
  async (_, here) => {
    const first = await staged({ COMPLIANCE_BASE_URL: '' });
    for (const id of ['ra-gone', ...here])
      await first.deliver(event(`of ${id}`, 'risk.identified', { riskAssessmentId: id, name: id }));
    await first.leapUntil('the rows', async () => {
      const { items } = await first.get<{ items: object[] }>('/api/records/risk_assessment');
      return items.length === 1 + here.length;
    });
    await first.stop();
    const stage = await createStage({ DATABASE_URL: `file:${first.database}` });
    onTestFinished(() => stage.end());
    for (const id of here) stage.upstream.records.put('assessments', { id, name: id, status: 'open' });
    await stage.start();
    if (here.length === 0) {
      // Nothing shows that assessments can be read.
      const gap = await stage.leapUntil('the gap', () => openGap(stage, 'unproven_id'));
      await stage.post(`/api/gaps/${gap.id}/resolve`);
    }
    await stage.leapUntil('the question', async () => (await status(stage)).reason === 'deletion_pending');
    expect(await openGap(stage, 'deletion_pending')).toMatchObject({
      error: 'ra-gone: the API answers 404, and has never shown this id',
    });
    await fullSync(stage, 'risk_assessment');
    expect((await status(stage)).verdict).toBe('action_required');

    expect(await approveDeletions(stage)).toBe(1);
    await inSync(stage);
    const { items } = await stage.get<{ items: { id: string; deleted_at: string | null }[] }>(
      '/api/records/risk_assessment',
    );
    expect(items.filter(({ deleted_at }) => deleted_at === null)).toMatchObject(here.map((id) => ({ id })));
    expect((await stage.gaps()).filter(({ resolved_at }) => resolved_at === null)).toEqual([]);
  },
);

it('a vendor whose id no request can carry is deleted once the list does not show it and a person approves', async () => {
  const stage = await createStage();
  onTestFinished(() => stage.end());
  stage.upstream.records.put('vendors', { id: '..', name: 'Odd', status: 'active' });
  await stage.start();
  await inSync(stage);
  expect(stage.compare().differences).toEqual([]);
  stage.upstream.records.remove('vendors', '..');
  await stage.post('/api/sync-runs', { kinds: ['vendor'] });
  await stage.leapUntil('the question', async () => (await status(stage)).reason === 'deletion_pending');
  expect(await approveDeletions(stage)).toBe(1);
  await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
  const gap = await openGap(stage, 'unaddressable');
  await stage.post(`/api/gaps/${gap?.id}/resolve`);
  await inSync(stage);
  await fullSync(stage, 'vendor');
  expect((await stage.gaps()).filter(({ resolved_at }) => resolved_at === null)).toEqual([]);
});

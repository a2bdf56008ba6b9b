import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { approveDeletions } from '../support/approve-deletions.ts';
import { createStage, type ProblemSeen, type Stage } from './stage.ts';

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

const openProblem = async (stage: Stage, reason: string) =>
  (await stage.problems()).find((problem) => problem.reason === reason && problem.resolved_at === null) ??
  null;
const inSync = (stage: Stage) =>
  stage.leapUntil('all kinds in sync', () =>
    Object.entries(stage.verdicts()).every(
      ([kind, verdict]) => verdict === (kind === 'risk_assessment' ? 'known_only' : 'in_sync'),
    ),
  );
const resolve = (stage: Stage, { id, digest }: ProblemSeen) =>
  stage.post(`/api/problems/${id}/resolve`, { digest });
/** A full sync of the kind that begins now and is complete. */
async function fullSync(stage: Stage, kind: string) {
  const newest = async () =>
    (
      await stage.get<{ items: { id: number; kind: string; outcome: string | null }[] }>('/api/syncs')
    ).items.find((run) => run.kind === kind);
  const before = (await newest())?.id ?? 0;
  await stage.post('/api/syncs', { kinds: [kind] });
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
      await stage.post('/api/syncs', { kind: 'risk_assessment', ids: ['ra-mistyped'] });
    }
    const problem = await stage.leapUntil('the problem', () => openProblem(stage, 'unknown_record'));
    await fullSync(stage, 'risk_assessment');
    expect(stage.verdicts()).toMatchObject({ risk_assessment: 'action_required' });

    await resolve(stage, problem);
    await inSync(stage);
    await fullSync(stage, 'risk_assessment');
    await inSync(stage);
    expect(await openProblem(stage, 'unknown_record')).toBeNull();

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
  const problem = await stage.leapUntil('the problem', () => openProblem(stage, 'unknown_record'));
  await resolve(stage, problem);
  await inSync(stage);
  await fullSync(stage, 'risk_assessment');
  await inSync(stage);
  // The next event about it is a new question.
  await stage.deliver(event('e2', 'risk.assessed', { id: 'ra-gone', name: 'Again' }));
  await stage.leapUntil('the problem', () => openProblem(stage, 'unknown_record'));
});

it('a vendor whose id no request can carry is deleted once the list does not show it and a person approves', async () => {
  const stage = await createStage();
  onTestFinished(() => stage.end());
  stage.upstream.records.put('vendors', { id: '..', name: 'Odd', status: 'active' });
  await stage.start();
  await inSync(stage);
  expect(stage.compare().differences).toEqual([]);
  stage.upstream.records.remove('vendors', '..');
  await stage.post('/api/syncs', { kinds: ['vendor'] });
  await stage.leapUntil('the question', () => openProblem(stage, 'pending_deletions'));
  expect(await approveDeletions(stage)).toBe(1);
  await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
  await inSync(stage);
  await fullSync(stage, 'vendor');
  expect((await stage.problems()).filter(({ resolved_at }) => resolved_at === null)).toEqual([]);
});

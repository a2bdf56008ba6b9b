import { expect, test } from 'vitest';
import { type Line, startedService } from './started.ts';

const problemsIn = (lines: readonly Line[]) => lines.filter((line) => line.msg === 'problem');

const toldOf = (lines: readonly Line[]) =>
  problemsIn(lines)
    .map(({ outcome, reason, kind, record_id }) => `${outcome} ${reason} ${kind} ${record_id}`)
    .sort();

test('every problem is logged once as it opens and once as it is resolved, wherever that happens', async () => {
  const { upstream, lines, deliver, rows } = await startedService();
  upstream.records.put('vendors', { id: 'ven-1', name: 'Vendor' });

  expect(await deliver('failed', { type: 'policy.updated', data: { x: 1 } })).toBe(202);
  expect(await deliver('unusable', 'no JSON at all')).toBe(400);
  expect(await deliver('twice', { type: 'vendor.updated', data: { vendorId: 'ven-1' } })).toBe(202);
  expect(await deliver('twice', { type: 'vendor.updated', data: { vendorId: 'ven-1', a: 1 } })).toBe(200);
  expect(await deliver('early', { type: 'risk.assessed', data: { assessmentId: 'ra-1' } })).toBe(202);
  await expect
    .poll(() => toldOf(lines), { timeout: 60_000 })
    .toContain('opened unknown_record risk_assessment ra-1');
  upstream.records.put('assessments', { id: 'ra-1', name: 'Assessment' });
  expect(await deliver('later', { type: 'risk.assessed', data: { assessmentId: 'ra-1' } })).toBe(202);

  const problems = [
    'conflicting_content vendor ven-1',
    'quarantined policy null',
    'quarantined risk_assessment null',
    'quarantined vendor null',
    'unknown_record policy null',
    'unknown_record risk_assessment ra-1',
  ];
  // Of assessments, which have no list, it is left to a person.
  const isLeft = (problem: string) => problem === 'quarantined risk_assessment null';
  await expect
    .poll(() => toldOf(lines), { timeout: 90_000 })
    .toEqual([
      ...problems.map((problem) => `opened ${problem}`),
      ...problems.filter((problem) => !isLeft(problem)).map((problem) => `resolved ${problem}`),
    ]);
  expect(new Set(problemsIn(lines).map((line) => line.stage))).toEqual(new Set(['backfill']));
  expect(rows()).toHaveLength(problems.length);
  expect(rows().filter((row) => row.resolved_at === null)).toHaveLength(1);
});

test('a line of a delivery, an event, a full sync or a problem holds each of the seven fields, null where it has none', async () => {
  const { lines, deliver } = await startedService();
  const of = (msg: string) => lines.filter((line) => line.msg === msg);

  expect(await deliver('done', { type: 'policy.updated', data: { policyId: 'pol-1', name: 'A' } })).toBe(202);
  expect(await deliver('done', { type: 'policy.updated', data: { policyId: 'pol-1', name: 'A' } })).toBe(200);
  expect(await deliver('failed', { type: 'policy.updated', data: { x: 1 } })).toBe(202);
  expect(await deliver('unknown', { type: 'widget.made', data: {} })).toBe(202);
  expect(await deliver('unusable', 'no JSON at all')).toBe(400);
  await expect.poll(() => of('event').length, { timeout: 60_000 }).toBe(2);
  await expect.poll(() => of('sync').length, { timeout: 60_000 }).toBeGreaterThan(0);
  await expect
    .poll(() => toldOf(lines), { timeout: 60_000 })
    .toContain('resolved unknown_record policy null');

  const fields = ['stage', 'event_id', 'kind', 'record_id', 'outcome', 'reason', 'duration_ms'];
  expect(of('delivery')).toHaveLength(5);
  for (const line of ['delivery', 'event', 'sync', 'problem'].flatMap(of)) {
    expect(Object.keys(line)).toEqual(expect.arrayContaining(fields));
  }
  const resolved = of('problem').filter((line) => line.outcome === 'resolved');
  expect(resolved).toEqual(resolved.map(() => expect.objectContaining({ duration_ms: expect.any(Number) })));
});

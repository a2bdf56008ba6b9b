import { expect, test } from 'vitest';
import { type Line, startedService } from './started.ts';

const gapsIn = (lines: readonly Line[]) => lines.filter((line) => line.msg === 'gap');

const toldOf = (lines: readonly Line[]) =>
  gapsIn(lines)
    .map(({ outcome, reason, kind, record_id }) => `${outcome} ${reason} ${kind} ${record_id}`)
    .sort();

test('every gap is logged once as it opens and once as it is resolved, wherever that happens', async () => {
  const { upstream, lines, deliver, rows } = await startedService();
  upstream.records.put('vendors', { id: 'ven-1', name: 'Vendor' });

  expect(await deliver('failed', { type: 'policy.updated', data: { x: 1 } })).toBe(202);
  expect(await deliver('unusable', 'no JSON at all')).toBe(400);
  expect(await deliver('twice', { type: 'vendor.updated', data: { vendorId: 'ven-1' } })).toBe(202);
  expect(await deliver('twice', { type: 'vendor.updated', data: { vendorId: 'ven-1', a: 1 } })).toBe(200);
  expect(await deliver('early', { type: 'risk.assessed', data: { assessmentId: 'ra-1' } })).toBe(202);
  await expect
    .poll(() => toldOf(lines), { timeout: 60_000 })
    .toContain('opened unproven_id risk_assessment ra-1');
  upstream.records.put('assessments', { id: 'ra-1', name: 'Assessment' });
  expect(await deliver('later', { type: 'risk.assessed', data: { assessmentId: 'ra-1' } })).toBe(202);

  const gaps = [
    'conflicting_content vendor ven-1',
    'no_record_id policy null',
    'unproven_id risk_assessment ra-1',
    'unusable_delivery null null',
  ];
  await expect
    .poll(() => toldOf(lines), { timeout: 90_000 })
    .toEqual([...gaps.map((gap) => `opened ${gap}`), ...gaps.map((gap) => `resolved ${gap}`)]);
  expect(new Set(gapsIn(lines).map((line) => line.stage))).toEqual(new Set(['backfill']));
  expect(rows()).toHaveLength(gaps.length);
  expect(rows().filter((row) => row.resolved_at === null)).toEqual([]);
});

test('a line of a delivery, an event, a full sync or a gap holds each of the seven fields, null where it has none', async () => {
  const { lines, deliver } = await startedService();
  const of = (msg: string) => lines.filter((line) => line.msg === msg);

  expect(await deliver('done', { type: 'policy.updated', data: { policyId: 'pol-1', name: 'A' } })).toBe(202);
  expect(await deliver('done', { type: 'policy.updated', data: { policyId: 'pol-1', name: 'A' } })).toBe(200);
  expect(await deliver('failed', { type: 'policy.updated', data: { x: 1 } })).toBe(202);
  expect(await deliver('unknown', { type: 'widget.made', data: {} })).toBe(202);
  expect(await deliver('unusable', 'no JSON at all')).toBe(400);
  await expect.poll(() => of('event').length, { timeout: 60_000 }).toBe(2);
  await expect.poll(() => of('sync').length, { timeout: 60_000 }).toBeGreaterThan(0);
  await expect.poll(() => toldOf(lines), { timeout: 60_000 }).toContain('resolved no_record_id policy null');

  const fields = ['stage', 'event_id', 'kind', 'record_id', 'outcome', 'reason', 'duration_ms'];
  expect(of('delivery')).toHaveLength(5);
  for (const line of ['delivery', 'event', 'sync', 'gap'].flatMap(of)) {
    expect(Object.keys(line)).toEqual(expect.arrayContaining(fields));
  }
  const resolved = of('gap').filter((line) => line.outcome === 'resolved');
  expect(resolved).toEqual(resolved.map(() => expect.objectContaining({ duration_ms: expect.any(Number) })));
});

test('while the API fails, the search for the record of an event is repeated, and no stage of the service counts as failed', async () => {
  const { upstream, lines, deliver, database } = await startedService();
  upstream.records.put('assessments', { id: 'ra-1', name: 'Assessment' });
  const isSearch = ({ path }: { path: string }) => path.endsWith('/risk-assessments/ra-1');
  upstream.faultOf = (request) => (isSearch(request) ? { fault: 'status', status: 403 } : null);
  expect(await deliver('unnamed', { type: 'risk.assessed', data: { about: { ref: 'ra-1' } } })).toBe(202);
  await expect.poll(() => upstream.seen.filter(isSearch).length, { timeout: 60_000 }).toBeGreaterThan(1);
  upstream.faultOf = () => null;
  const state = database.prepare("SELECT state FROM events WHERE id = 'unnamed'").pluck();
  await expect.poll(() => state.get(), { timeout: 60_000 }).toBe('processed');
  expect(lines.filter(({ msg }) => msg === 'stage failed')).toEqual([]);
});

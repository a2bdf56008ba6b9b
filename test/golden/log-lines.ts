import { expect } from 'vitest';
import { type Line, startedService } from '../service/started.ts';

/** Each sort of log line of a short life, once: level, stage, outcome, reason where it is one word, message and fields. */
export async function logLines(): Promise<string> {
  const { service, upstream, lines, deliver, operate } = await startedService();
  const all = (times: number, msg: string, outcome: string, reason = '') => {
    const found = () => lines.filter((line) => line.msg === msg && line.outcome === outcome);
    const told = () => found().filter((line) => reason === '' || line.reason.startsWith(reason)).length;
    return expect
      .poll(told, {
        message: `lines "${msg}" ${outcome}; if they are called otherwise now, wait for that here`,
      })
      .toBeGreaterThanOrEqual(times);
  };
  await all(3, 'sync', 'complete', 'start');
  upstream.records.put('vendors', { id: 'ven-1', name: 'One' });
  const vendor = {
    type: 'vendor.updated',
    created: '2026-11-01T12:00:00Z',
    data: { vendorId: 'ven-1', name: 'New' },
  };
  const statuses = [
    await deliver('one', vendor),
    await deliver('one', vendor),
    await deliver('one', { ...vendor, data: { vendorId: 'ven-1', name: 'Another' } }),
    await deliver('thin', { type: 'vendor.updated', data: { vendorId: 'ven-1' } }),
    await deliver('unknown', { type: 'widget.made', data: {} }),
    await deliver('failing', { type: 'policy.updated', data: { x: 1 } }),
    await deliver('unusable', 'no JSON at all'),
    await deliver('forged', vendor, `t=${Math.floor(Date.now() / 1000)}, v1=${'ab'.repeat(32)}`),
    await deliver('unsigned', vendor, ''),
  ];
  expect(statuses).toEqual([202, 200, 200, 202, 202, 202, 400, 401, 401]);
  await all(1, 'event', 'failed');
  await all(3, 'problem', 'resolved');
  await all(1, 'problem', 'resolved', 'conflicting_content');
  expect([await operate('/api/pause'), await operate('/api/resume')]).toEqual([200, 200]);
  for (const id of ['ven-2', 'ven-3', 'ven-4']) upstream.records.put('vendors', { id, name: id, tier: 1 });
  expect(await operate('/api/syncs')).toBe(202);
  await all(3, 'sync', 'complete', 'operator');
  upstream.records.remove('vendors', 'ven-4');
  expect(await operate('/api/syncs')).toBe(202);
  await all(1, 'deletion', 'deleted');
  await all(6, 'sync', 'complete', 'operator');
  await all(1, 'fields', 'learned');
  await service.stop();
  // Whether a full sync tells of its progress, and what the stop interrupts, depends on how fast the machine is.
  const steady = lines.filter(({ outcome }) => outcome !== 'running' && outcome !== 'interrupted');
  return `${[...new Set(steady.map(describe))].sort().join('\n')}\n`;
}

function describe(line: Line): string {
  const { time: _, level, stage, outcome, msg, ...fields } = { time: '', level: '', ...line };
  const why = /^[a-z_]+$/.test(line.reason) && typeof line.reason === 'string' ? ` (${line.reason})` : '';
  return `${level} ${stage} ${outcome}${why} "${msg}": ${Object.keys(fields).sort().join(' ')}`;
}

import { expect, it } from 'vitest';
import { startedService } from './started.ts';

it('a stop writes down what was only counted until then: wrong tokens, and lines left out of the log', async () => {
  const { service, lines, deliver, database } = await startedService();
  const event = { type: 'vendor.updated', data: { vendorId: 'ven_1', name: 'Acme' } };
  expect(await deliver('evt_1', event)).toBe(202);
  for (let n = 0; n < 25; n += 1) expect(await deliver('forged', event, 't=1, v1=00')).toBe(401);
  for (let n = 0; n < 3; n += 1) {
    await fetch(`${service.opsUrl}/api/status`, { headers: { authorization: 'Bearer wrong' } });
  }
  await service.stop();

  expect(database.prepare('SELECT sum(times) FROM rejections').pluck().get()).toBe(25);
  const refused = database
    .prepare("SELECT target FROM audit WHERE action = 'bearer' ORDER BY id")
    .pluck()
    .all();
  expect(refused).toEqual([expect.any(String), expect.stringMatching(/^2 more within a minute/)]);
  expect(lines.map(({ msg }) => msg)).toContainEqual(expect.stringMatching(/… 5 more like this/));
});

it('the next start counts the downtime from the stop on', async () => {
  const { service, database } = await startedService();
  const askedAt = Date.now();
  await service.stop();
  const heartbeat = database.prepare("SELECT value FROM facts WHERE name = 'heartbeat'").pluck().get();
  expect(Date.parse(String(heartbeat))).toBeGreaterThanOrEqual(askedAt);
});

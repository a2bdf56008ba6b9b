import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { startedService } from './started.ts';

test('a change is mirrored although the only delivery about it found the database locked, and no full sync is needed', async () => {
  const { upstream, deliver, database, read } = await startedService();
  upstream.records.put('vendors', { id: 'ven-1', name: 'before' });
  const fullSyncs = () => database.prepare('SELECT outcome FROM sync_runs').pluck().all();
  await expect.poll(fullSyncs, { timeout: 30_000 }).toEqual(['complete', 'complete', 'complete']);
  const name = () => database.prepare("SELECT name FROM vendors WHERE id = 'ven-1'").pluck().get();
  expect(name()).toBe('before');

  const other = new Database(database.name);
  onTestFinished(() => void other.close());
  other.exec('BEGIN IMMEDIATE');
  upstream.records.put('vendors', { id: 'ven-1', name: 'after' });
  expect(await deliver('lost', { type: 'vendor.updated', data: { vendorId: 'ven-1' } })).toBe(503);
  other.exec('COMMIT');

  await expect.poll(name, { timeout: 60_000 }).toBe('after');
  expect(await read('/api/events')).toMatchObject({ items: [] });
  expect(fullSyncs()).toHaveLength(3);
});

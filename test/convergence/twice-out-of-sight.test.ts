import { DatabaseSync } from 'node:sqlite';
import { expect, it } from 'vitest';
import { alive } from './compare.ts';
import { createStage } from './stage.ts';

it('what lives throughout is not deleted where its path is lost twice and the witness after the second time has to wait', async () => {
  const stage = await createStage({ SYNC_FULL_MINUTES: '0' });
  try {
    const { upstream } = stage;
    const askedFor = (id: string) =>
      upstream.seen.filter(({ path }) => path.endsWith(`/vendors/${id}`)).length;
    const ask = (id: string) => stage.post('/api/syncs', { kind: 'vendor', ids: [id] });
    const held = (sql: string) => {
      const db = new DatabaseSync(stage.database, { readOnly: true, timeout: 5_000 });
      try {
        return Object.values(db.prepare(sql).get() ?? {})[0];
      } finally {
        db.close();
      }
    };
    await stage.start();
    await stage.leapUntil('the first equality', () => stage.compare().differences.length === 0);
    await stage.leapUntil(
      'the first full syncs',
      () => held("SELECT count(*) FROM sync_runs WHERE outcome = 'complete'") === 3,
    );
    let isLost = true;
    let hidden = 0;
    const find = upstream.records.find.bind(upstream.records);
    upstream.records.find = (resource, id) => {
      if (!isLost || resource !== 'vendors') return find(resource, id);
      hidden += 1;
      return null;
    };
    upstream.seen.length = 0;
    // The second read comes a second later, which may be before the path is lost again: it is answered after that.
    const answer = Promise.withResolvers<void>();
    const isSecond = (path: string) => path.endsWith('/ven-0') && askedFor('ven-0') > 1;
    upstream.faultOf = ({ path }) => (isSecond(path) ? { fault: 'held', until: answer.promise } : null);

    await ask('ven-0');
    await stage.leapUntil(
      'the first 404',
      () => held("SELECT missing_since FROM record_state WHERE id = 'ven-0'") !== null,
      0,
    );
    isLost = false;
    const verifiedAt = held("SELECT verified_at FROM vendors WHERE id = 'ven-1'");
    stage.clock.leap(10);
    await ask('ven-1');
    await stage.leapUntil(
      'the witness before',
      () => held("SELECT verified_at FROM vendors WHERE id = 'ven-1'") !== verifiedAt,
      0,
    );
    isLost = true;
    // The second 404 is on its way while the service asks everybody to wait.
    upstream.faultOf = ({ path }) => {
      if (isSecond(path)) return { fault: 'held', until: answer.promise };
      return path.endsWith('/ven-7') ? { fault: 'status', status: 429, retryAfterSeconds: 20 } : null;
    };
    await stage.leapUntil('the second read', () => askedFor('ven-0') === 2, 100);
    await ask('ven-7');
    await stage.leapUntil(
      'the wait',
      () => held("SELECT error FROM record_state WHERE id = 'ven-7'") !== null,
      0,
    );
    answer.resolve();
    await stage.leapUntil('the second 404', () => hidden === 2, 0);
    upstream.faultOf = () => null;
    isLost = false;
    await stage.leapUntil('it is read again', () => askedFor('ven-0') > 2);
    expect(alive(stage.database, 'vendors')).toBe(12);
  } finally {
    await stage.end();
  }
});

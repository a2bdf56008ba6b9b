import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, it } from 'vitest';
import { cli, inTemporaryDirectory, start } from '../cli/executable.ts';
import { json, startUpstream } from './upstream.ts';

it('a record whose address answers with another one is a gap until it answers with itself', async () => {
  let answered = 'ven_other';
  const upstream = await startUpstream((response, { url }) => {
    if (url.startsWith('/api/v1/vendors/')) return json(response, 200, { data: { id: answered, name: 'N' } });
    json(response, 200, { data: [], meta: { total: 0 } });
  });
  try {
    await inTemporaryDirectory(async (directory) => {
      const path = join(directory, 'mirror.db');
      const settings = {
        DATABASE_URL: `file:${path}`,
        PORT: '0',
        OPS_PORT: '0',
        SYNC_SETTLE_SECONDS: '0.1',
        OPS_TOKENS: 'test:operate:operate-for-another-record',
        WEBHOOK_SECRETS: 'signs-nothing-at-all',
        COMPLIANCE_BASE_URL: upstream.settings.baseUrl.href,
        COMPLIANCE_API_KEY: 'any-key',
        COMPLIANCE_REQUESTS_PER_MINUTE: '6000',
      };
      const gaps = () => {
        const database = new DatabaseSync(path, { readOnly: true, timeout: 30_000 });
        const rows = database.prepare("select * from gaps where record_id = 'ven_1'").all();
        database.close();
        return rows;
      };
      const service = start(['serve'], settings);
      await service.line('Operators: ');
      expect((await cli(['refetch', 'vendor', 'ven_1'], settings)).code).toBe(0);
      await expect.poll(gaps).toMatchObject([
        {
          reason: 'unreadable_answer',
          resolved_at: null,
          error: expect.stringContaining('the vendor answered has the id "ven_other" instead of "ven_1"'),
        },
      ]);
      answered = 'ven_1';
      expect((await cli(['refetch', 'vendor', 'ven_1'], settings)).code).toBe(0);
      await expect
        .poll(gaps)
        .toMatchObject([{ reason: 'unreadable_answer', resolved_at: expect.any(String) }]);
      expect(await service.stop()).toBe(0);
    });
  } finally {
    await upstream.close();
  }
});

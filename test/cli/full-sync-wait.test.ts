import { join } from 'node:path';
import { expect, it } from 'vitest';
import { json, startUpstream } from '../compliance/upstream.ts';
import { cli, inTemporaryDirectory } from './executable.ts';
import { serviceHere } from './service-here.ts';

it('what ended incomplete is seen in its sync run, because a first failure opens no problem', async () => {
  const upstream = await startUpstream((response) => json(response, 401, {}));
  await inTemporaryDirectory(async (folder) => {
    const settings = {
      ...{ PORT: '0', OPS_PORT: '0', DATABASE_URL: `file:${join(folder, 'mirror.db')}` },
      COMPLIANCE_BASE_URL: upstream.settings.baseUrl.href,
      COMPLIANCE_API_KEY: 'a-key-that-was-taken-back',
      WEBHOOK_SECRETS: 'a-secret-of-the-tests-0123',
      SYNC_FULL_MINUTES: '0',
    };
    const service = await serviceHere(settings);
    const { code, out, err } = await cli(['sync', 'policy', '--wait'], settings);
    expect(code).toBe(1);
    const number = /\n *(\d+) +policy +incomplete /.exec(out)?.[1] ?? '';
    expect(err).toContain('not complete: policy');
    const shown = await cli(['sync', 'show', number], settings);
    expect(shown.out).toContain('answered 401');
    await service.stop();
  });
  await upstream.close();
});

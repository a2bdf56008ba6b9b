import { join } from 'node:path';
import { expect, it } from 'vitest';
import { cli } from '../cli/executable.ts';
import { serviceHere } from '../cli/service-here.ts';
import { SECRET } from '../receive/sign.ts';
import { inTemporaryDirectory } from './harness.ts';

it('refuses to serve a file that another process serves, names that process, and leaves it alone', async () => {
  await inTemporaryDirectory(async (directory) => {
    const settings = {
      PORT: '0',
      OPS_PORT: '0',
      DATABASE_URL: `file:${join(directory, 'mirror.db')}`,
      WEBHOOK_SECRETS: SECRET,
    };
    const first = await serviceHere(settings);
    const { code, err } = await cli(['serve'], settings, { own: true });
    expect({ code, err }).toEqual({
      code: 2,
      err: expect.stringMatching(new RegExp(`is in use by .*process ${process.pid}\\b`)),
    });
    expect((await fetch(new URL('/livez', first.deliveries))).status).toBe(200);
    await first.stop();
  });
});

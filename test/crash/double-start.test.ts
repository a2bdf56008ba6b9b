import { join } from 'node:path';
import { expect, it } from 'vitest';
import { MAIN, startMirror, startProcess } from '../bench/processes.ts';
import { SECRET } from '../receive/sign.ts';
import { inTemporaryDirectory } from './harness.ts';

it('refuses to serve a file that another process serves, names that process, and leaves it alone', async () => {
  await inTemporaryDirectory(async (directory) => {
    const database = join(directory, 'mirror.db');
    const first = await startMirror(database);
    const second = startProcess(MAIN, ['serve'], {
      PORT: '0',
      OPS_PORT: '0',
      DATABASE_URL: `file:${database}`,
      WEBHOOK_SECRETS: SECRET,
      LOG_LEVEL: 'warn',
    });

    expect(await second.line('is in use by')).toContain(`process ${first.pid}`);
    expect(await second.exited).toBe(2);
    expect((await fetch(`http://127.0.0.1:${first.port}/livez`)).status).toBe(200);
    first.kill('SIGTERM');
    expect(await first.exited).toBe(0);
  });
});

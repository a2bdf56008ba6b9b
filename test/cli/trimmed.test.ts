import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openStore } from '../../src/store/open.ts';
import { createScene } from '../store/scene.ts';
import { cli, inTemporaryDirectory } from './executable.ts';

it('a history and a body that were trimmed are said to be', async () => {
  await inTemporaryDirectory(async (directory) => {
    const url = `file:${join(directory, 'mirror.db')}`;
    const store = await openStore(url);
    const scene = await createScene(async () => ({
      store,
      query: async () => [],
      close: () => store.close(),
    }));
    await scene.accept(scene.event({ id: 'e1', kind: 'vendor', recordId: 'v1' }));
    await scene.work();
    scene.pass(1);
    const { wall } = scene.now();
    const settings = { DATABASE_URL: url, WEBHOOK_SECRETS: 'correct-horse-battery-staple' };
    const history = ['records', 'history', 'vendor', 'v1'];
    expect((await cli(history, settings)).err).toBe('');
    expect((await cli(['events', 'show', 'e1'], settings)).err).toBe('');
    for (const thing of ['event_bodies', 'changes'] as const) {
      await store.trim(thing, { before: wall, now: wall, after: 0, limit: 9 });
    }
    await scene.close();
    expect((await cli(history, settings)).err).toContain('No earlier change is kept');
    expect((await cli(['events', 'show', 'e1'], settings)).err).toContain('Its body was trimmed');
  });
});

import { it } from 'vitest';
import { inScene, type OpenEngine, type Scene } from '../scene.ts';

/** As `it`, for a story in a scene of its own on that engine. */
export const storyOn =
  (open: OpenEngine) =>
  (name: string, story: (scene: Scene) => Promise<void>, start?: Parameters<typeof inScene>[2]) =>
    it(name, inScene(open, story, start));

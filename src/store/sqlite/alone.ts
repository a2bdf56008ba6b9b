import type { ReplicaStore } from '../replicas.ts';

/** What is known without the file: one process has it, with its own clock, and nobody to tell. */
export const ALONE = {
  async sharedTime() {
    return null;
  },
  async notify() {},
  async listen() {
    return { stop: async () => undefined };
  },
} satisfies Partial<ReplicaStore>;

import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts', 'test/**/*.test.tsx'],
    // Most tests listen on loopback or open a file; two workers are what a two-core machine gives.
    maxWorkers: 2,
    // A snapshot that is missing fails, here as in continuous integration; `-u` writes it.
    update: 'none',
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // Ends what hangs; the default of a second would also end what a busy machine is slow at.
    expect: { poll: { timeout: 40_000 } },
  },
});

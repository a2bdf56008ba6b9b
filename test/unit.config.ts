import { defineConfig } from 'vitest/config';
import all, { UNITS } from '../vitest.config.ts';

// They only compute, so more workers would only load the same modules more often.
export default defineConfig({ test: { ...all.test, ...UNITS, maxWorkers: 2 } });
